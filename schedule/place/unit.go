package place

import (
	"hilbert.dev/hilbert/cluster"
)

// Ask is what a unit wants now.
type Ask struct {
	// Members that wait. Those of one subgroup stand together, and in it those of one class.
	Members []*cluster.Pod
	// Need of them must get places; the rest as they fit.
	Need int
	// Topology is asked of all members together, Subgroups of each subgroup (Pod.Subgroup, where not empty) for itself.
	Topology, Subgroups cluster.Packing
	// Anchors are where members of the unit run already: they pin required domains and uniform values, and count in spreading.
	Anchors []Anchor
	// Within restricts the members to some nodes; nil: any node. What is reserved stays closed unless the snapshot has it opened.
	Within []cluster.Slot
}

// Anchor is a member that runs already.
type Anchor struct {
	Slot     cluster.Slot
	Subgroup string
}

// MemberChoice is where a member should go.
type MemberChoice struct {
	Pod *cluster.Pod
	Choice
}

// PlaceUnit chooses nodes for the members of a unit, Need of them or more. On success the choices are assumed on the snapshot, so that
// the next decision sees them; the slice is valid until the next call. When ok is false the snapshot is as it was; ExplainUnit says why.
func (p *Placer) PlaceUnit(ask *Ask) (placed []MemberChoice, ok bool) {
	r := &p.unit
	r.start(p, ask)
	if !r.arrange() || len(r.placed) < max(ask.Need, 1) {
		r.back(checkpoint{assumed: r.base})
		return nil, false
	}
	return r.placed, true
}

// unitRun is one PlaceUnit under way. Its memory serves the next.
type unitRun struct {
	p    *Placer
	ask  *Ask
	base int // the snapshot's mark at the start

	placed  []MemberChoice
	members []int32 // of each choice, its index in ask.Members
	done    []bool  // by member
}

// checkpoint is how far a unitRun was.
type checkpoint struct{ assumed, placed int }

func (r *unitRun) start(p *Placer, ask *Ask) {
	r.p, r.ask, r.base = p, ask, p.snapshot.Mark()
	r.placed, r.members, r.done = r.placed[:0], r.members[:0], r.done[:0]
	for range ask.Members {
		r.done = append(r.done, false)
	}
}

// here is the checkpoint of now.
func (r *unitRun) here() checkpoint { return checkpoint{r.p.snapshot.Mark(), len(r.placed)} }

// back takes back what was placed since a checkpoint.
func (r *unitRun) back(to checkpoint) {
	for _, member := range r.members[to.placed:] {
		r.done[member] = false
	}
	r.placed, r.members = r.placed[:to.placed], r.members[:to.placed]
	r.p.snapshot.Rollback(to.assumed)
}

// take gives a member a place.
func (r *unitRun) take(member int, choice Choice) {
	pod := r.ask.Members[member]
	r.p.snapshot.Assume(choice.Slot, pod, choice.Grant)
	r.placed = append(r.placed, MemberChoice{pod, choice})
	r.members = append(r.members, int32(member))
	r.done[member] = true
}

// arrange places what it can of the members.
func (r *unitRun) arrange() bool {
	r.eachInTurn(span32{0, int32(len(r.ask.Members))})
	return true
}

// span32 is the members from one index up to before another.
type span32 struct{ from, to int32 }

// eachInTurn gives each member the best node that is left, as if it were a pod of its own. Once a class has failed, what is left of it
// is not tried.
func (r *unitRun) eachInTurn(m span32) {
	var failed *cluster.Class
	for i := m.from; i < m.to; i++ {
		class := r.ask.Members[i].Class
		if r.done[i] || class == failed {
			continue
		}
		choice, ok := r.p.Place(class)
		if !ok {
			failed = class
			continue
		}
		r.take(int(i), choice)
	}
}
