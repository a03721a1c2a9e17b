package topology

import "testing"

// A guess takes what is asked for and no more, wherever it must be.
func TestForceNUMAHasNoExcess(t *testing.T) {
	shape := NUMAShape{Ruler: RulerAgent, NUMANodes: 2, Threads: 2, BindsShared: true}
	shape.NUMANode[0], shape.NUMANode[1] = NUMACapacity{CPUs: 8, Memory: 100}, NUMACapacity{CPUs: 8, Memory: 100}
	for _, used := range []uint16{0, 6, 8} {
		for _, binding := range []Binding{Unbound, Bound, Exclusive, BoundShared} {
			for cpus := uint16(1); cpus <= 20; cpus++ {
				free := NewNUMAFree(&shape)
				free.Commit(&NUMAGrant{CPUs: [MaxNUMANodes]uint16{used, used / 2}})
				r := NUMARequest{CPUs: cpus, Binding: binding, Memory: 30}
				g := ForceNUMA(&shape, &free, r)
				if cpu, memory := g.Excess(r); g.IsZero() || cpu != 0 || binding != Unbound && memory != 0 {
					t.Errorf("%d used, %+v: %s has %d CPUs and %d MiB too many", used, r, g, cpu, memory)
				}
			}
		}
	}
	shape.BindsShared = false
	if g := ForceNUMA(&shape, &NUMAFree{}, NUMARequest{CPUs: 1, Binding: BoundShared}); !g.IsZero() {
		t.Errorf("the agent binds no pod that shares CPUs, and %s is guessed", g)
	}
	shape.Ruler = RulerKubelet
	if g := ForceNUMA(&shape, &NUMAFree{}, NUMARequest{CPUs: 1}); !g.IsZero() {
		t.Errorf("the kubelet rules, and %s is guessed", g)
	}
}
