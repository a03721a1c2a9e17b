package pack

import (
	"math"
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/place/index"
)

// Ask is what a unit wants now: its class, how many members it needs and how many it would like, and how they are to be packed. It is the same for the
// placement, the search for victims and the explanation, so that all three judge the same question.
type Ask struct {
	// Members that wait. Those of one subgroup stand together, and in it those of one class.
	Members []*cluster.Pod
	// Need of them must get places; the rest as they fit.
	Need int
	// Topology is asked of all members together, Subgroups of each subgroup (Pod.Subgroup, where not empty) for itself.
	Topology, Subgroups facts.Packing
	// Anchors are where members of the unit run already: they pin required domains and uniform values, and count in spreading.
	Anchors []Anchor
	// Within restricts the members to some nodes; nil: any node. Reserved nodes stay closed unless they are opened on the snapshot.
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
	index.Choice
}

// Packer places units: all members that are needed, or none. It places members on its snapshot one by one, so that each sees the places of the
// others, and takes all of them back if too few fit. Its memory serves one unit after the other.
//
// Example: a gang of 4 asks for one rack. Racks r1 and r2 have room for 3 and 6 members. r1 is too small; the Packer places the members in r2, the
// smallest rack that holds them, on its best nodes.
type Packer struct {
	index *index.Index
	run   unitPlacement
}

// New returns a Packer over the Index's snapshot.
func New(x *index.Index) *Packer {
	p := &Packer{index: x}
	p.run.index, p.run.snapshot = x, x.Snapshot()
	return p
}

// Index is what the Packer asks for nodes.
func (p *Packer) Index() *index.Index { return p.index }

// SetLevels sets the topology keys that units are packed by, the widest first. A key that is asked for and not among them is a level by
// itself. It must be called before the first PlaceUnit.
func (p *Packer) SetLevels(keys []string) { p.run.levels = keys }

// PlaceUnit chooses nodes for the members of a unit, Need of them or more. On success the choices are assumed on the snapshot, so that
// the next decision sees them; the slice is valid until the next call. When ok is false the snapshot is as it was; ExplainUnit says why.
func (p *Packer) PlaceUnit(ask *Ask) (placed []MemberChoice, ok bool) {
	r := &p.run
	r.begin(ask)
	r.snapshot.ChosenVolumes().BeginUnit()
	defer r.snapshot.ChosenVolumes().EndUnit()
	if r.place(); len(r.placed) < r.need {
		r.undoTo(checkpoint{assumed: r.start})
		if len(ask.Members) >= CapacityCheckFrom {
			r.mostThatFit(true)
		}
		return nil, false
	}
	return r.placed, true
}

// CapacityCheckFrom is from how many members on a unit that did not fit has its capacities kept, so that the next try can fail without
// placing any member. Fewer are placed and taken back in less time than a Capacity takes to follow.
const CapacityCheckFrom = 16

// unitPlacement is one PlaceUnit under way. It assumes members on the snapshot as it goes, and takes back to a checkpoint what turns out
// not to fit: a subgroup that is not whole, a domain that is too small, in the end the unit. Its memory serves the next unit.
type unitPlacement struct {
	index    *index.Index
	snapshot *cluster.Snapshot
	levels   []string // topology keys, the widest first
	ask      *Ask
	start    int // the snapshot's mark at the start
	need     int

	placed  []MemberChoice
	members []int32 // of each choice, its index in ask.Members
	done    []bool  // by member

	scorer    index.DomainScorer
	spreading spreading
	failed    []*cluster.Class // of which a member found no place in the latest fill
	first     []*cluster.Class // whose members have their turn before the others: else they are left over
	tries     int              // domains that were tried and taken back

	within  []cluster.Slot // the ask's, each once
	allowed []uint32       // by slot: the run that may use it, where it may not use all
	round   uint32

	// Scratch.
	keys      []string
	counts    []int32  // by domain
	listed    []uint32 // by domain: the list that it is in
	listing   uint32
	freeLists []*domainCandidates
	groups    []memberRange
	sameClass []memberRange
	values    []string
}

// checkpoint is how far a unitPlacement was.
type checkpoint struct{ assumed, placed int }

// memberRange is the members from one index up to before another.
type memberRange struct{ from, to int }

func (r *unitPlacement) begin(ask *Ask) {
	r.ask, r.start, r.need = ask, r.snapshot.Mark(), max(ask.Need, 1)
	r.placed, r.members, r.done, r.failed, r.first = r.placed[:0], r.members[:0], r.done[:0], r.failed[:0], r.first[:0]
	for range ask.Members {
		r.done = append(r.done, false)
	}
	r.tries, r.within = 0, r.within[:0]
	if ask.Within == nil {
		return
	}
	r.round++
	for len(r.allowed) < r.snapshot.Slots() {
		r.allowed = append(r.allowed, 0)
	}
	for _, slot := range ask.Within {
		if r.known(slot) && r.allowed[slot] != r.round {
			r.allowed[slot] = r.round
			r.within = append(r.within, slot)
		}
	}
}

// allows reports whether the ask may use a node.
func (r *unitPlacement) allows(slot cluster.Slot) bool {
	return r.ask.Within == nil || r.allowed[slot] == r.round
}

// place places what it can of the members, unless they are fewer than it needs.
func (r *unitPlacement) place() {
	all := memberRange{0, len(r.ask.Members)}
	if all.to < r.need || all.to >= CapacityCheckFrom && r.mostThatFit(false) < int64(r.need) {
		return
	}
	for range 1 + maxTurns {
		r.placeInOneDomain(scope{}, all, layer{packing: &r.ask.Topology}, r.need)
		if len(r.placed) >= r.need || !r.takeTurns() {
			return
		}
	}
}

// maxTurns is how often the members of a unit are placed anew because some were left over.
const maxTurns = 4

// takeTurns gives those their turn first that were left over the last time. It answers false when that is no help: all were first already, or find no place even so.
//
// Example: one member wants a NUMA node of its own, which n1 and n2 have, another a GPU, which is on n1. The first takes n1, and then the GPU's has too few CPUs
// beside it. With the GPU's first, the other goes to n2.
func (r *unitPlacement) takeTurns() (some bool) {
	for _, class := range r.failed {
		if slices.Contains(r.first, class) {
			continue
		}
		if _, fits := r.index.Place(class); fits {
			r.first, some = slices.Insert(r.first, 0, class), true
		}
	}
	return some
}

// turn orders classes: those of first as they stand there, then the others.
func (r *unitPlacement) turn(class *cluster.Class) int {
	if at := slices.Index(r.first, class); at >= 0 {
		return at - len(r.first)
	}
	return 0
}

// mostThatFit is how many members fit at most, each class by itself, as far as its Capacity is known already; with learn it will be.
func (r *unitPlacement) mostThatFit(learn bool) (most int64) {
	w := r.acquire()
	defer r.release(w)
	r.countDemands(w, memberRange{0, len(r.ask.Members)})
	if len(w.demands) > r.index.MaxIndexes() { // they would drive one another out
		return math.MaxInt64
	}
	for i := range w.demands {
		d := &w.demands[i]
		if !learn && !r.index.KnowsCapacity(d.class) {
			most += d.left
			continue
		}
		most += min(d.left, r.index.Capacity(d.class).Total())
	}
	return most
}

// checkpoint is how far the placement is now.
func (r *unitPlacement) checkpoint() checkpoint {
	return checkpoint{r.snapshot.Mark(), len(r.placed)}
}

// undoTo takes back what was placed since a checkpoint.
func (r *unitPlacement) undoTo(to checkpoint) {
	for _, member := range r.members[to.placed:] {
		r.done[member] = false
	}
	r.placed, r.members = r.placed[:to.placed], r.members[:to.placed]
	r.snapshot.Rollback(to.assumed)
}

// assign gives a member a place.
func (r *unitPlacement) assign(member int, choice index.Choice) {
	pod := r.ask.Members[member]
	r.snapshot.Assume(choice.Slot, pod, choice.Grant)
	r.placed = append(r.placed, MemberChoice{Pod: pod, Choice: choice})
	r.members = append(r.members, int32(member))
	r.done[member] = true
}

// waiting is how many of the members have no place yet.
func (r *unitPlacement) waiting(m memberRange) (n int) {
	for _, done := range r.done[m.from:m.to] {
		if !done {
			n++
		}
	}
	return n
}

// WouldFit is how many members PlaceUnit would find places for, 0 when fewer than are needed. Nothing is assumed.
func (p *Packer) WouldFit(ask *Ask) int {
	mark := p.index.Snapshot().Mark()
	placed, _ := p.PlaceUnit(ask)
	p.index.Snapshot().Rollback(mark)
	return len(placed)
}
