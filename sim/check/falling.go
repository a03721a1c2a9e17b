package check

import (
	"cmp"
	"slices"
	"time"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/bind"
)

// fallTime is how long the members of a gang may take to be evicted after one without whom it is too small.
const fallTime = 10 * time.Minute

// answerTime is after how long an eviction whose outcome is unknown has come to nothing, if the pod is still there.
const answerTime = time.Minute

// fallingGangs finds evictions that leave a running gang with fewer members than it needs, whoever asks for them: the others have to follow. With
// minCount 3 and four members, one may go; the second that goes takes the rest with it.
type fallingGangs struct {
	begun map[facts.UID]facts.UnitName // evictions that were not refused, and whose members they take
	falls map[facts.UnitName]*falling
	// fallen are gangs of which an eviction left too few, until others have come.
	fallen map[facts.UnitName]bool
	fell   int // gangs of which others had to follow
}

func newFallingGangs() fallingGangs {
	return fallingGangs{begun: make(map[facts.UID]facts.UnitName), falls: make(map[facts.UnitName]*falling), fallen: make(map[facts.UnitName]bool)}
}

type falling struct {
	by    facts.UID // whose eviction made it too small
	since int64
	owed  map[facts.UID]bool // members that have to follow
}

// goesWhole: the members of the unit do not stay when one of them is evicted and too few are left. nil is no unit.
func goesWhole(f *facts.Unit) bool {
	return f != nil && !f.Divisible && (f.MinMember > 1 || f.Indivisible)
}

// begin takes in an eviction; follows says that the pod's node did not ask for it, and its gang does.
func (g *fallingGangs) begin(m *mirrored, mi *mirror, asked bool, now int64) (follows bool) {
	f := mi.tenants.Units[m.unit]
	if m.unit.IsZero() || !goesWhole(f) {
		return false
	}
	took := g.took(m.unit)
	g.begun[m.uid] = m.unit
	fall := g.falls[m.unit]
	if took && (g.fallen[m.unit] || !asked) { // a node may ask for it, too
		if fall != nil {
			delete(fall.owed, m.uid)
		}
		return true
	}
	owed, others := make(map[facts.UID]bool), 0
	for uid, other := range mi.gang(m.unit).members {
		if other.node != "" && !other.deleting && g.begun[uid].IsZero() {
			others++
			if other.ours { // else who bound it has to evict it, unless its node asks
				owed[uid] = true
			}
		}
	}
	if others > 0 && (f.Indivisible || others < int(f.MinMember)) {
		g.fell++
		g.fallen[m.unit] = true
		g.falls[m.unit] = &falling{by: m.uid, since: now, owed: owed}
	}
	return false
}

// leaves takes note of an eviction that takes nobody along.
func (g *fallingGangs) leaves(m *mirrored) {
	if !m.unit.IsZero() {
		g.begun[m.uid] = m.unit
	}
}

// answered takes note of what became of the eviction of a pod. One that came to nothing takes no other pod along.
func (g *fallingGangs) answered(uid facts.UID, outcome bind.Outcome) {
	if outcome == bind.Written || outcome == bind.Unknown {
		return
	}
	delete(g.begun, uid)
	for name, fall := range g.falls {
		if fall.by == uid {
			delete(g.falls, name)
		}
	}
}

// took says whether some member of a gang was evicted.
func (g *fallingGangs) took(name facts.UnitName) bool {
	for _, unit := range g.begun {
		if unit == name {
			return true
		}
	}
	return false
}

// enough says whether as many members of a gang as it needs are on their nodes and not being evicted, or have finished.
func (g *fallingGangs) enough(f *facts.Unit, of *gang, done int) bool {
	for uid, m := range of.members {
		if m.node != "" && !m.assumed && !m.deleting && g.begun[uid].IsZero() {
			done++
		}
	}
	return done >= int(f.MinMember)
}

// late names a gang of which some members were evicted, and the others stay though they are too few.
func (g *fallingGangs) late(mi *mirror, now int64) (late []facts.UnitName) {
	for name := range g.fallen {
		if f := mi.tenants.Units[name]; f == nil || g.enough(f, mi.gang(name), 0) && (!f.Indivisible || g.falls[name] == nil) {
			delete(g.fallen, name)
		}
	}
	for name, fall := range g.falls {
		for uid := range fall.owed {
			if m := mi.pods[uid]; m == nil || m.node == "" || m.deleting {
				delete(fall.owed, uid)
			}
		}
		by := mi.pods[fall.by]
		stays := by != nil && by.node != "" && !by.deleting
		switch f := mi.tenants.Units[name]; {
		case len(fall.owed) == 0, f == nil, stays && now-fall.since > int64(answerTime),
			!f.Indivisible && g.enough(f, mi.gang(name), mi.gang(name).done): // others have joined in their place
			delete(g.falls, name)
		case now-fall.since > int64(fallTime):
			late = append(late, name)
			delete(g.falls, name)
		}
	}
	slices.SortFunc(late, func(a, b facts.UnitName) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return late
}
