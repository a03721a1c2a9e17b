package egress

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// However pods come and go, no two have the same slot but the last, a pod keeps its own, and what one gives back another gets.
func TestSlots(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var table slotTable
		has := map[string]int{}
		for range rapid.IntRange(0, 100).Draw(t, "changes") {
			cgroup := fmt.Sprint("p", rapid.IntRange(0, 20).Draw(t, "pod"))
			if rapid.Bool().Draw(t, "goes") {
				if before, had := has[cgroup]; had != (table.free(cgroup) >= 0) || had && before < 0 {
					t.Fatalf("%s: had a slot: %v", cgroup, had)
				}
				delete(has, cgroup)
				continue
			}
			wanted := rapid.IntRange(-1, maxSlots).Draw(t, "wanted")
			slot, fresh := table.take(cgroup, wanted)
			before, had := has[cgroup]
			if fresh == had || had && slot != before {
				t.Fatalf("%s: slot %d, fresh %v, before %d, %v", cgroup, slot, fresh, before, had)
			}
			for other, taken := range has {
				if other != cgroup && taken == slot {
					t.Fatalf("%s and %s have slot %d", cgroup, other, slot)
				}
			}
			has[cgroup] = slot
		}
	})
	var table slotTable
	for i := range maxSlots + 3 {
		if slot, fresh := table.take(fmt.Sprint(i), -1); slot != min(i, restSlot) || fresh != (i < restSlot) {
			t.Fatalf("pod %d: slot %d, fresh %v", i, slot, fresh)
		}
	}
	table.free("5")
	if slot, fresh := table.take("new", 7); slot != 5 || !fresh {
		t.Errorf("slot %d, %v, want the one that was given back", slot, fresh)
	}
}
