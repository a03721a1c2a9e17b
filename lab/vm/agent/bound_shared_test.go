package agent

import (
	"fmt"
	"testing"

	"hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/lab/vm"
	"hilbert.dev/hilbert/topology"
)

// TestBoundShared: a shared pod that is bound runs on the CPUs of its pool that are in its NUMA node, which another pod uses too; its memory lies there; a dedicated pod
// that comes takes cores there and leaves it its room.
func TestBoundShared(t *testing.T) {
	long(t)
	r := newRig(t)
	pods := r.run(
		r.pod("free", requests("500m")),
		r.pod("near", level(spec.QoSShared), annotated(spec.AnnotationNUMA, spec.NUMABound), asks("1", "128Mi"), does("hold", "64")),
	)
	free, near := pods[0], pods[1]
	g := r.promise(near)
	var in topology.CPUSet
	for numa := range vm.Nodes {
		if g.NUMANodes()&(1<<numa) != 0 {
			in = in.Union(r.numa(numa))
		}
	}
	inItsNUMANode := func() error {
		k := r.sees()
		pool, _, err := k.where(free)
		if err != nil {
			return err
		}
		cpus, mems, err := k.where(near)
		switch {
		case err != nil:
			return err
		case cpus.IsEmpty() || cpus != pool.Intersection(in) || pool.Minus(in).IsEmpty():
			return fmt.Errorf("it runs on %v, of the pool's %v; promised was %v", cpus, pool, g)
		}
		for numa := range vm.Nodes {
			if mems.Has(numa) != (g.NUMANodes()&(1<<numa) != 0) {
				return fmt.Errorf("it may have memory of %v; promised was %v", mems, g)
			}
		}
		return nil
	}
	r.eventually(tick+slack, "it runs in its NUMA node, where another pod runs too", inItsNUMANode)
	r.eventually(slack+tick, "what it holds is there", func() error {
		for numa, mib := range r.anonymousMiB(near) {
			if in := g.NUMANodes()&(1<<numa) != 0; in && mib < 64 || !in && mib > 2 {
				return fmt.Errorf("of 64 MiB held, %d are on node %d; promised was %v", mib, numa, g)
			}
		}
		return nil
	})
	r.reported("what it holds", func(o *v1alpha1.CustomNodeResource) error {
		for _, z := range numa(o) {
			for _, a := range z.Allocations {
				if a.UID == string(near.UID) && a.Shared && a.CPUs == 1 && a.CPUSet == "" {
					return nil
				}
			}
		}
		return fmt.Errorf("NUMA nodes %+v", numa(o))
	})
	own := r.run(r.dedicated("own", "2", "64Mi", spec.NUMABound))[0]
	r.eventually(tick+slack, "it is off the dedicated pod's cores, and in its NUMA node", inItsNUMANode)
	r.asPromised(r.sees(), own, 2)
}
