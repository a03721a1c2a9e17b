package place

import (
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/schedule/place/explain"
	"hilbert.dev/hilbert/schedule/place/index"
	"hilbert.dev/hilbert/schedule/place/pack"
	"hilbert.dev/hilbert/schedule/place/rules"
	"hilbert.dev/hilbert/schedule/place/victims"
)

// Placer decides on one Snapshot. It owns no state of its own: it hands each question to the package below that answers it.
//
//	one pod                  index   Place
//	a unit                   pack    PlaceUnit
//	why not                  explain Explain, ExplainFor, ExplainUnit
//	what the tables say      rules   Judge
type Placer struct {
	snapshot *cluster.Snapshot
	index    *index.Index
	packer   *pack.Packer
}

// NewPlacer returns a Placer over the snapshot. The seed orders nodes of equal score; maxIndexes bounds the memory (16 bytes a slot,
// 4 a feasible node, each).
func NewPlacer(snapshot *cluster.Snapshot, profile *rules.Profile, seed uint64, maxIndexes int) *Placer {
	x := index.New(snapshot, profile, seed, maxIndexes)
	return &Placer{snapshot: snapshot, index: x, packer: pack.New(x)}
}

// SetMaxCoarseDomains sets how many domains a topology key may have before an index follows it count by count instead of domain by domain.
// Either way is exact; tests choose it, to have both ways tried on small clusters. It must be called before the first Place.
func (p *Placer) SetMaxCoarseDomains(domains int) { p.index.SetMaxCoarseDomains(domains) }

// SetMaxHolders sets how many nodes may have pods of a softly spread class while that class still shares a ranking. Either way is exact; tests
// choose it. It must be called before the first Place.
func (p *Placer) SetMaxHolders(nodes int) { p.index.SetMaxHolders(nodes) }

// SetMaxNodeClasses sets how many node classes classes of pods share before one that would divide them further goes by itself. Either way is
// exact; tests choose it. It must be called before the first Place.
func (p *Placer) SetMaxNodeClasses(classes int) { p.index.SetMaxNodeClasses(classes) }

// SetUsesBeforeIndex sets how often in a row a size or a class is asked about before it gets an index of its own. Either way is exact; tests choose it. It
// must be called before the first Place.
func (p *Placer) SetUsesBeforeIndex(uses int) { p.index.SetUsesBeforeIndex(uses) }

// SetMaxGPUStates sets how many states of GPUs are told apart for scores by price. Any number is exact; tests choose it. It must be called before the
// first Place.
func (p *Placer) SetMaxGPUStates(states int) { p.index.SetMaxGPUStates(states) }

// GPUStates returns what the bounds of GPU states have done.
func (p *Placer) GPUStates() rules.GPUStateCounts { return p.index.GPUStates() }

// SetLevels sets the topology keys that units are packed by, the widest first. A key that is asked for and not among them is a level by
// itself. It must be called before the first PlaceUnit.
func (p *Placer) SetLevels(keys []string) { p.packer.SetLevels(keys) }

// Place returns the best node for a pod of the class. ok is false when none fits; Explain says why.
func (p *Placer) Place(c *cluster.Class) (index.Choice, bool) { return p.index.Place(c) }

// Divide divides the nodes into partitions, by slot, for PlaceIn; nil: not.
func (p *Placer) Divide(parts []uint8) { p.index.Divide(parts) }

// Confine divides the nodes, and has the Placer know those of one partition alone: only PlaceIn of it may be asked then.
func (p *Placer) Confine(parts []uint8, part uint8) { p.index.Confine(parts, part) }

// PlaceIn returns the best node of a partition for a pod of the class, as if there were no others. ok is false when none fits, and for classes whose pods are
// not placed by partition; Place looks at all nodes.
func (p *Placer) PlaceIn(part uint8, c *cluster.Class) (index.Choice, bool) {
	return p.index.PlaceIn(part, c)
}

// Looked is how many nodes Place, PlaceUnit and WouldFit looked at since it was last asked, beyond what their indexes follow of changes.
func (p *Placer) Looked() int { return p.index.Looked() }

// PlaceOn returns a place on a certain node, if the class fits there.
func (p *Placer) PlaceOn(slot cluster.Slot, c *cluster.Class) (index.Choice, bool) {
	return p.index.PlaceOn(slot, c)
}

// MaxElsewhere is how many nodes PlaceElsewhere looks at.
const MaxElsewhere = 64

// PlaceElsewhere returns the best node for a pod of the class among some that are not avoided: those from a slot on. ok is false when none of them fits.
func (p *Placer) PlaceElsewhere(c *cluster.Class, from cluster.Slot, avoid func(cluster.Slot) bool) (index.Choice, bool) {
	slots := p.snapshot.Slots()
	found := p.index.Profile().Judge(&p.snapshot.State, c, func(slot cluster.Slot) bool {
		return (int(slot)+slots-int(from))%slots < MaxElsewhere && !avoid(slot)
	})
	return p.PlaceOn(explain.Best(p.index, found), c)
}

// PlaceUnit chooses nodes for the members of a unit, Need of them or more. On success the choices are assumed on the snapshot, so that
// the next decision sees them; the slice is valid until the next call. When ok is false the snapshot is as it was; ExplainUnit says why.
func (p *Placer) PlaceUnit(ask *pack.Ask) (placed []pack.MemberChoice, ok bool) {
	return p.packer.PlaceUnit(ask)
}

// WouldFit is how many members PlaceUnit would find places for, 0 when fewer than are needed. Nothing is assumed.
func (p *Placer) WouldFit(ask *pack.Ask) int { return p.packer.WouldFit(ask) }

// Explain asks every filter about every node. It costs time proportional to the nodes.
func (p *Placer) Explain(c *cluster.Class) explain.Explanation {
	return explain.Explain(&p.snapshot.State, c)
}

// ExplainFor is Explain for a pod of that priority. It also says which pods would have to leave to make room for it. The store must be at the
// snapshot's revision. It costs time proportional to the pods.
func (p *Placer) ExplainFor(store *cluster.Store, c *cluster.Class, priority int32) explain.Explanation {
	return explain.For(&p.snapshot.State, store, c, priority)
}

// ExplainUnit finds out what keeps a unit waiting. It costs several times what PlaceUnit does, and an Explain of one pod.
func (p *Placer) ExplainUnit(ask *pack.Ask) explain.UnitExplanation {
	return explain.Unit(p.packer, ask)
}

// Judge asks every filter and every score about every node, without an index. It costs time proportional to the nodes.
func (p *Placer) Judge(c *cluster.Class) []rules.Judgement {
	return p.index.Profile().Judge(&p.snapshot.State, c, nil)
}

// Best is Place by its definition: of all feasible nodes the one with the greatest total score, then the greatest tie-break hash.
func (p *Placer) Best(c *cluster.Class) cluster.Slot { return explain.Best(p.index, p.Judge(c)) }

// Ranking returns the judgements of all nodes on which a pod of the class fits, the best first: Place takes the first.
func (p *Placer) Ranking(c *cluster.Class) []rules.Judgement {
	return explain.Ranking(p.index, p.Judge(c))
}

// NewPreemptor returns a Preemptor for the Placer's snapshot of the store. maxIndexes bounds the memory (56 bytes a node, each).
func NewPreemptor(p *Placer, store *cluster.Store, maxIndexes int) *victims.Preemptor {
	return victims.NewPreemptor(p.index, store, maxIndexes)
}

// NewReclaimer returns a Reclaimer for the Placer's snapshot of the store.
func NewReclaimer(p *Placer, store *cluster.Store) *victims.Reclaimer {
	return victims.NewReclaimer(p.packer, store)
}
