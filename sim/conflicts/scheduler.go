package conflicts

import (
	"cmp"
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/schedule/place"
	"hilbert.dev/hilbert/schedule/place/rules"
	"hilbert.dev/hilbert/topology"
)

// proposal is a Plan on its way: nodes for one pod, the best first.
type proposal struct {
	pod     int // of those that wait
	nodes   []cluster.Slot
	by      *scheduler
	arrives int64
}

// scheduler is one that decides on a snapshot of its own.
type scheduler struct {
	number   int
	snapshot *cluster.Snapshot
	placer   *place.Placer
	profile  *rules.Profile
	own      []*proposal // on their way
	synced   int64       // when it learnt last what was committed
	free     int64       // when its decision ends
}

func newScheduler(number int, profile *rules.Profile, seed uint64) *scheduler {
	snapshot := cluster.NewSnapshot()
	return &scheduler{
		number: number, snapshot: snapshot, profile: profile, synced: -1,
		placer: place.NewPlacer(snapshot, profile, seed, indexes),
	}
}

// indexes is how many sizes a scheduler keeps an order for.
const indexes = 64

// sync brings the snapshot up to date if it was not for an interval, or if it has not seen a revision. The Plans on their way stay assumed.
func (s *scheduler) sync(l *ledger, now, interval int64, seen changes.Revision) {
	if s.synced >= 0 && now-s.synced < interval && s.snapshot.Revision() >= seen {
		return
	}
	s.snapshot.Advance(l.Store)
	for _, p := range s.own {
		s.snapshot.Assume(p.nodes[0], l.pods[p.pod], topology.Grant{})
	}
	s.synced = now
}

// best is the best node for a class, and its score.
func (s *scheduler) best(c *cluster.Class) (slot cluster.Slot, score int64, ok bool) {
	choice, ok := s.placer.Place(c)
	if !ok {
		return cluster.NoSlot, 0, false
	}
	return choice.Slot, s.profile.LocalScore(&s.snapshot.State, choice.Slot, c), true
}

// choose returns nodes for a pod of a size, the one that it shall have first; none if none fits.
func (r *run) choose(s *scheduler, size int, now int64) []cluster.Slot {
	one := func(c *cluster.Class) []cluster.Slot {
		if slot, _, ok := s.best(c); ok {
			return []cluster.Slot{slot}
		}
		return nil
	}
	switch r.strategy {
	case RunnersUp:
		return r.ranked(s, size)
	case KBest:
		if list := r.ranked(s, size); len(list) > 0 {
			at := s.number % len(list)
			return list[at : at+1]
		}
		return nil
	case Partitions, Rotating:
		part := s.number
		if r.strategy == Rotating {
			part = int((int64(part) + now/max(int64(r.lag), 1)) % int64(len(r.ledger.partitions)))
		}
		if list := one(r.ledger.partitions[part][size]); list != nil {
			return list
		}
	case Plain, Seeded:
	}
	return one(r.ledger.all[size])
}

// ranked are the best node of all and the best of other stripes, best first.
func (r *run) ranked(s *scheduler, size int) []cluster.Slot {
	type candidate struct {
		slot  cluster.Slot
		score int64
	}
	first, score, ok := s.best(r.ledger.all[size])
	if !ok {
		return nil
	}
	list := []candidate{{first, score}}
	for i := range r.ledger.stripes {
		stripe := (i + s.number) % len(r.ledger.stripes) // those who see the same break ties their own way
		if slot, score, ok := s.best(r.ledger.stripes[stripe][size]); ok && slot != first {
			list = append(list, candidate{slot, score})
		}
	}
	rest := list[1:]
	slices.SortStableFunc(rest, func(a, b candidate) int { return cmp.Compare(b.score, a.score) })
	slots := make([]cluster.Slot, 0, len(list))
	for _, c := range list[:min(len(list), r.o.Alternatives)] {
		slots = append(slots, c.slot)
	}
	return slots
}
