package victims

import (
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/schedule/place/pack"
)

// trim puts back the victims that are not needed, the most valuable first: it counts how many members still have room without each. Then it places
// the members in what is left. That is exact where the members are of one class. It costs some hundred nanoseconds per victim.
//
// Only nodes that the solution touches need be counted: the search took what was free elsewhere before it evicted anything.
func (s *victimSearch) trim(found *solution) {
	class := found.placed[0].Pod.Class
	slots := s.touched(found)
	counts := make(map[cluster.Slot]int, len(slots))
	total := 0
	for _, slot := range slots {
		counts[slot] = s.evaluator.capacityOn(slot, class)
		total += counts[slot]
	}
	need := len(found.placed)
	without := func(pods []*cluster.Pod) bool {
		for _, pod := range pods {
			slot := s.r.store.Slot(pod.Node())
			s.snapshot.Assume(slot, pod, pod.Grant())
			if count, counted := counts[slot]; counted {
				now := s.evaluator.capacityOn(slot, class)
				counts[slot], total = now, total+now-count
			}
		}
		return total >= need && s.admitsAll(found.placed)
	}
	again := func(pods []*cluster.Pod) {
		for _, pod := range pods {
			slot := s.r.store.Slot(pod.Node())
			s.snapshot.Lift(pod)
			if count, counted := counts[slot]; counted {
				now := s.evaluator.capacityOn(slot, class)
				counts[slot], total = now, total+now-count
			}
		}
	}
	s.dropNeedless(without, again)
	s.evaluator.class, s.evaluator.domainFilters = class, false
	for _, most := range [...]int{1, need} { // at first one on each node, so that victims for the sake of a limit make room for a member
		for _, slot := range slots {
			for range most {
				if len(s.attempt.placed) == need || !s.evaluator.fitsAt(slot) {
					break
				}
				s.attempt.assume(slot, found.placed[len(s.attempt.placed)].Pod)
			}
		}
	}
}

// admitsAll reports whether the limits leave room for all these members; none may be placed yet.
func (s *victimSearch) admitsAll(placed []pack.MemberChoice) bool {
	ok := true
	for i := range placed {
		ok = ok && s.quota.admits(placed[i].Pod.Class)
		s.quota.place(placed[i].Pod.Class, 1)
	}
	for i := range placed {
		s.quota.place(placed[i].Pod.Class, -1)
	}
	return ok
}

// dropNeedless tries to do without each victim, the most valuable first, and then without those that leave anyway. without puts pods back
// on the snapshot and says whether that is good; again lifts them again if it was not.
func (s *victimSearch) dropNeedless(without func([]*cluster.Pod) bool, again func([]*cluster.Pod)) {
	slices.SortStableFunc(s.attempt.victims, func(a, b victim) int { return cheaper(&b.victimGroup, &a.victimGroup) })
	s.attempt.victims = slices.DeleteFunc(s.attempt.victims, func(v victim) bool {
		if s.groups.coveredByGang(&v) { // its gang is more valuable, and has just been found to have to go
			return false
		}
		s.attempt.unmarkVictim(&v)
		if without(v.pods) {
			return true
		}
		again(v.pods)
		s.attempt.markVictim(&v)
		return false
	})
	s.attempt.awaited = slices.DeleteFunc(s.attempt.awaited, func(pod *cluster.Pod) bool {
		s.quota.countOn(pod, -1)
		if without([]*cluster.Pod{pod}) {
			delete(s.groups.removed, pod)
			return true
		}
		again([]*cluster.Pod{pod})
		s.quota.countOn(pod, 1)
		return false
	})
}

// refill does what trim does for members that counting is not exact for: it places all of them again without each of the most valuable
// victims. It keeps the last placement that was whole.
func (s *victimSearch) refill(found *solution) {
	placed := found.placed
	slots := s.touched(found)
	tries := 0
	s.evaluator.freeOnly = true
	without := func(pods []*cluster.Pod) bool {
		for _, pod := range pods {
			s.snapshot.Assume(s.r.store.Slot(pod.Node()), pod, pod.Grant())
		}
		if tries++; tries > maxRefills {
			return false
		}
		from := s.attempt.checkpoint()
		ok := s.fillUnit(slots)
		if ok {
			placed = slices.Clone(s.attempt.placed)
		}
		s.attempt.undoTo(from)
		return ok
	}
	again := func(pods []*cluster.Pod) {
		for _, pod := range pods {
			s.snapshot.Lift(pod)
		}
	}
	s.dropNeedless(without, again)
	s.evaluator.freeOnly = false
	s.attempt.placeAll(placed)
}

// dropIdle lets those victims be on whose nodes nothing is placed after all. It answers false when the limits need them gone, though no Plan
// can name them.
func (s *victimSearch) dropIdle() bool {
	used := make(map[string]bool, len(s.attempt.placed))
	for i := range s.attempt.placed {
		used[s.state().Node(s.attempt.placed[i].Slot).Name] = true
	}
	idle := func(pods []*cluster.Pod) bool {
		return !slices.ContainsFunc(pods, func(pod *cluster.Pod) bool { return used[pod.Node()] })
	}
	ok := true
	s.attempt.victims = slices.DeleteFunc(s.attempt.victims, func(v victim) bool {
		if !idle(v.pods) || s.groups.coveredByGang(&v) {
			return false
		}
		s.attempt.unmarkVictim(&v)
		if !s.quota.exceeded() {
			return true
		}
		s.attempt.markVictim(&v)
		ok = ok && v.pods[0].Unit != nil && v.pods[0].Unit.Atomic()
		return false
	})
	s.attempt.awaited = slices.DeleteFunc(s.attempt.awaited, func(pod *cluster.Pod) bool {
		if !idle([]*cluster.Pod{pod}) {
			return false
		}
		s.quota.countOn(pod, -1)
		ok = ok && !s.quota.exceeded()
		return true
	})
	return ok && len(s.attempt.victims)+len(s.attempt.awaited) > 0
}
