package diff

import "testing"

// TestVolumes draws claims, volumes, storage classes, drivers and nodes, and pods that use them, one after the other. Upstream's VolumeBinding, VolumeZone,
// VolumeRestrictions and NodeVolumeLimits and our rules must let each pod onto the same nodes; then it gets one of them on both sides, which promises volumes
// and nodes to its claims, something changes, and the next pod is judged.
func TestVolumes(t *testing.T) {
	worlds := uint64(20_000)
	if testing.Short() {
		worlds = 3_000
	}
	seen := newVolumeCoverage()
	for number := range worlds {
		if err := playVolumes(1, number, &seen); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%+v", seen)
	if list := seen.vacuous(); len(list) > 0 {
		t.Errorf("never happened, so that nothing is known of it: %q", list)
	}
}
