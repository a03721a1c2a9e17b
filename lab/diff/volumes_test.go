package diff

import "testing"

// TestVolumes draws claims, volumes, storage classes, drivers and nodes, and pods that use them, one after the other. Upstream's VolumeBinding, VolumeZone,
// VolumeRestrictions and NodeVolumeLimits and our rules must let each pod onto the same nodes; then it gets one of them on both sides, which promises volumes
// and nodes to its claims, something changes, and the next pod is judged. WORLDS says how many are drawn, and SEED which.
func TestVolumes(t *testing.T) {
	worlds, seed := number(t, "WORLDS", 20_000), number(t, "SEED", 1)
	if testing.Short() {
		worlds = min(worlds, 3_000)
	}
	seen := newVolumeCoverage()
	for world := range worlds {
		if err := playVolumes(uint64(seed), uint64(world), &seen); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%+v", seen)
	if list := seen.vacuous(); len(list) > 0 {
		t.Errorf("never happened, so that nothing is known of it: %q", list)
	}
}
