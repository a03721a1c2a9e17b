package place

import (
	"math"

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
	if r.place(); len(r.placed) < r.need {
		r.back(checkpoint{assumed: r.base})
		if len(ask.Members) >= boundFrom {
			r.fits(true)
		}
		return nil, false
	}
	return r.placed, true
}

// boundFrom is from how many members on a unit that did not fit has its rooms kept, so that the next try can fail without placing any.
// Fewer are placed and taken back in less time than a room takes to follow.
const boundFrom = 16

// unitRun is one PlaceUnit under way. Its memory serves the next.
type unitRun struct {
	p    *Placer
	ask  *Ask
	base int // the snapshot's mark at the start
	need int

	placed  []MemberChoice
	members []int32 // of each choice, its index in ask.Members
	done    []bool  // by member

	pen    pen
	even   evenly
	failed []*cluster.Class // of which a member found no place in the fill under way
	tries  int              // domains that were tried and taken back

	within  []cluster.Slot // the ask's, each once
	allowed []uint32       // by slot: the run that may use it, where it may not use all
	run     uint32

	// Scratch.
	keys   []string
	counts []int32  // by domain
	listed []uint32 // by domain: the list that it is in
	list   uint32
	spare  []*weighing
	groups []stretch
	alike  []stretch
	values []string
}

// checkpoint is how far a unitRun was.
type checkpoint struct{ assumed, placed int }

// stretch is the members from one index up to before another.
type stretch struct{ from, to int }

func (r *unitRun) start(p *Placer, ask *Ask) {
	r.p, r.ask, r.base, r.need = p, ask, p.snapshot.Mark(), max(ask.Need, 1)
	r.placed, r.members, r.done = r.placed[:0], r.members[:0], r.done[:0]
	for range ask.Members {
		r.done = append(r.done, false)
	}
	r.tries, r.within = 0, r.within[:0]
	if ask.Within == nil {
		return
	}
	r.run++
	for len(r.allowed) < p.snapshot.Slots() {
		r.allowed = append(r.allowed, 0)
	}
	for _, slot := range ask.Within {
		if r.known(slot) && r.allowed[slot] != r.run {
			r.allowed[slot] = r.run
			r.within = append(r.within, slot)
		}
	}
}

// allows reports whether the ask may use a node.
func (r *unitRun) allows(slot cluster.Slot) bool {
	return r.ask.Within == nil || r.allowed[slot] == r.run
}

// place places what it can of the members, unless they are fewer than it needs.
func (r *unitRun) place() {
	all := stretch{0, len(r.ask.Members)}
	if all.to < r.need || all.to >= boundFrom && r.fits(false) < int64(r.need) {
		return
	}
	r.confine(scope{}, all, layer{packing: &r.ask.Topology}, r.need)
}

// fits is how many members fit at most, each class by itself, as far as there is a room of it already; with learn there will be.
func (r *unitRun) fits(learn bool) (most int64) {
	w := r.borrow()
	defer r.drop(w)
	r.demand(w, stretch{0, len(r.ask.Members)})
	if len(w.demands) > r.p.maxIndexes { // they would drive one another out
		return math.MaxInt64
	}
	for i := range w.demands {
		d := &w.demands[i]
		if !learn && r.p.roomOf[d.class.ID] == nil {
			most += d.left
			continue
		}
		most += min(d.left, r.p.room(d.class).open)
	}
	return most
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

// left is how many of the members have no place yet.
func (r *unitRun) left(m stretch) (n int) {
	for _, done := range r.done[m.from:m.to] {
		if !done {
			n++
		}
	}
	return n
}
