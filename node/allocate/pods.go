package allocate

import (
	"fmt"
	"maps"
	"slices"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/topology"
)

// pod is a pod that is known.
type pod struct {
	Pod
	pool  string // where it runs; empty: on CPUs of its own
	moved bool
	// lost: CPUs of its own are gone from the machine, and it could not be given others.
	lost *Refusal
	// devices is what it holds of GPUs and network cards, without NUMA nodes.
	devices      topology.Grant
	devicesMoved bool
	measured     bool // as of Pools.SetMeasured
	unsettled    bool // it runs with a promise, and it is not known yet whether that was ours to give
}

// holds reports whether the pod holds something of the NUMA nodes: CPUs of its own, or room in the pool that it shares.
func (p *pod) holds() bool { return p.pool == "" || p.Request.Binding == topology.BoundShared }

// loads reports whether the pod is kept off the NUMA nodes of bandwidth-sensitive pods: it says that it loads the memory, or says nothing and was measured to. What holds something of NUMA nodes
// has what the scheduler promised, who goes by the word alone.
func (p *pod) loads() bool {
	return p.QoS.Bandwidth == spec.BandwidthIntensive || p.measured && p.QoS.Bandwidth == "" && !p.holds() && p.pool != spec.PoolSystem
}

// resource is one kind of thing that pods get on a node. The scheduler's fit function has the last word on NUMA nodes; hints only leave out those
// that the resource cannot serve the pod from, and never one that the fit function would use for it.
type resource interface {
	// hints is the set of NUMA nodes that can serve what the pod asks for itself, or a part of it.
	hints(p *pod) (numaNodes uint8)
	// admit counts a pod in, release out. Both only note it: what follows for others is reconcile's.
	admit(p *pod)
	release(p *pod)
	// reconcile settles what many pods share, for the pods that are there now.
	reconcile()
	// place fills in its part of where a pod runs.
	place(p *pod, out *Placement)
}

// pods are the pods that are known. Each resource is told of every pod that comes or goes, and settles then what many pods share: that is why pods are
// added and removed here only.
type pods struct {
	known     map[string]*pod // by UID
	resources []resource      // in the order in which they are asked
}

// add counts a pod in, for all resources.
func (ps *pods) add(p *pod) {
	ps.known[p.UID] = p
	ps.admit(p)
	ps.reconcile()
}

func (ps *pods) admit(p *pod) {
	for _, r := range ps.resources {
		r.admit(p)
	}
}

func (ps *pods) release(p *pod) {
	for _, r := range ps.resources {
		r.release(p)
	}
}

func (ps *pods) reconcile() {
	for _, r := range ps.resources {
		r.reconcile()
	}
}

// among is the set of NUMA nodes that every resource can serve the pod from.
func (ps *pods) among(p *pod) uint8 {
	set := ^uint8(0)
	for _, r := range ps.resources {
		set &= r.hints(p)
	}
	return set
}

func (ps *pods) placement(p *pod) Placement {
	out := Placement{Pool: p.pool}
	for _, r := range ps.resources {
		r.place(p, &out)
	}
	return out
}

// uids are those of all pods, ascending.
func (ps *pods) uids() []string { return slices.Sorted(maps.Keys(ps.known)) }

// verify compares the pods with the holders of CPUs.
func (ps *pods) verify(c *capacity) error {
	for uid, p := range ps.known {
		if _, holds := c.alloc.Holding(uid); holds != p.holds() {
			return fmt.Errorf("pod %s of pool %q: holds something of NUMA nodes: %v", uid, p.pool, holds)
		}
	}
	for _, uid := range c.alloc.Holders() {
		if ps.known[uid] == nil {
			return fmt.Errorf("pod %s holds something of NUMA nodes and is not known", uid)
		}
	}
	return nil
}
