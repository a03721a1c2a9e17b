package diff

import "testing"

// TestDevices draws classes, slices, taint rules, claims and nodes, and pods that use them, one after the other. Upstream's DynamicResources and our rules must let
// each pod onto the same nodes and score these the same; then it gets one of them, its claims get the devices that Hilbert chooses, something changes, and the next
// pod is judged. WORLDS says how many are drawn, and SEED which.
func TestDevices(t *testing.T) {
	worlds, seed := number(t, "WORLDS", 3_000), number(t, "SEED", 1)
	if testing.Short() {
		worlds = min(worlds, 600)
	}
	seen := newDeviceCoverage()
	for world := range worlds {
		if err := playDevices(uint64(seed), uint64(world), &seen); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%+v", seen)
	if list := seen.vacuous(); len(list) > 0 {
		t.Errorf("never happened, so that nothing is known of it: %q", list)
	}
}
