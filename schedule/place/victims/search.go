package victims

import (
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/internal/heap"
	"hilbert.dev/hilbert/schedule/place/pack"
)

// victimSearch looks for victims for one unit. It decides: which domain, which members, which victims can stay after all. What has happened so
// far belongs to others, each of which owns its state:
//
//	quota      from which queue how much may still be taken
//	groups     which pods leave together, and which have left already
//	budgets    which disruption budgets a departure would break
//	attempt    victims taken and members placed, on the snapshot; it can be taken back to any earlier point
//	evaluator  what one more member costs on one node
//	filler     the nodes of a domain in order of that cost
type victimSearch struct {
	r        *Reclaimer
	snapshot *cluster.Snapshot
	ask      *pack.Ask
	need     int

	quota     victimQuota
	groups    victimGroups
	budgets   disruptionBudgets
	attempt   attempt
	evaluator nodeEvaluator
	filler    memberFiller
}

// connect tells the parts of each other.
func (s *victimSearch) connect(r *Reclaimer) {
	s.r, s.snapshot = r, r.snapshot
	s.budgets.store = r.store
	s.groups.store, s.groups.quota = r.store, &s.quota
	a := &s.attempt
	a.snapshot, a.index, a.quota, a.groups, a.budgets = r.snapshot, r.index, &s.quota, &s.groups, &s.budgets
	e := &s.evaluator
	e.snapshot, e.pods, e.quota, e.groups, e.budgets, e.attempt = r.snapshot, &r.pods, &s.quota, &s.groups, &s.budgets, a
	f := &s.filler
	f.r, f.groups, f.attempt, f.evaluator = r, &s.groups, a, e
	f.heap = heap.New(f.costsLess, func(slot cluster.Slot, at int) { f.position[slot] = int32(at) })
}

// open begins a search.
func (s *victimSearch) open(ask *pack.Ask, now int64) {
	s.ask, s.need = ask, max(ask.Need, 1)
	s.groups.open(ask.Members[0].Unit, now)
	s.groups.asker = ask.Members[0]
	s.budgets.open()
	s.attempt.open()
	s.quota.open(s.r.store, ask)
	for slot := range s.r.pods.leavingSlots {
		for _, pod := range s.r.pods.leaving[slot] {
			s.quota.leave(pod)
		}
	}
	s.evaluator.excluded = make(map[cluster.Slot]bool)
	s.filler.open(s.snapshot.Slots())
}

func (s *victimSearch) state() *cluster.State { return &s.snapshot.State }
