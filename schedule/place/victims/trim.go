package victims

import (
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/schedule/place/pack"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// trim puts back the victims without whom the members fit as well, the most valuable first, by counting how many have room, and places the
// members in what is left. That is exact where the members are of one class. It costs some hundred nanoseconds per victim.
//
// Only nodes that the solution touches need be counted: the search took what was free elsewhere before it took anything from anybody.
func (s *victimSearch) trim(found *solution) {
	class := found.placed[0].Pod.Class
	slots := s.touched(found)
	counts := make(map[cluster.Slot]int, len(slots))
	total := 0
	for _, slot := range slots {
		counts[slot] = s.capacityOn(slot, class)
		total += counts[slot]
	}
	need := len(found.placed)
	without := func(pods []*cluster.Pod) bool {
		for _, pod := range pods {
			slot := s.r.store.Slot(pod.Node())
			s.snapshot.Assume(slot, pod, pod.Grant())
			if count, counted := counts[slot]; counted {
				now := s.capacityOn(slot, class)
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
				now := s.capacityOn(slot, class)
				counts[slot], total = now, total+now-count
			}
		}
	}
	s.dropNeedless(without, again)
	s.class, s.domainFilters = class, false
	for _, most := range [...]int{1, need} { // at first one on each node, so that those who left for the sake of a limit left for somebody
		for _, slot := range slots {
			for range most {
				if len(s.placed) == need || !s.fitsAt(slot) {
					break
				}
				s.assume(slot, found.placed[len(s.placed)].Pod)
			}
		}
	}
}

// capacityOn is how many pods of a class have room on a node now.
func (s *victimSearch) capacityOn(slot cluster.Slot, class *cluster.Class) int {
	st := s.state()
	if !rules.FitsIn(rules.Static, st, slot, class) || !rules.FitsIn(rules.Local, st, slot, class) {
		return 0
	}
	return rules.PodsThatFitWithout(st, slot, class, nil)
}

// fitsAt reports whether one more pod of the class may go to the node, whatever the limits.
func (s *victimSearch) fitsAt(slot cluster.Slot) bool {
	st := s.state()
	return rules.FitsIn(rules.Static, st, slot, s.class) && s.fits(slot)
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
	slices.SortStableFunc(s.victims, func(a, b victim) int { return cheaper(&b.victimGroup, &a.victimGroup) })
	s.victims = slices.DeleteFunc(s.victims, func(v victim) bool {
		if s.coveredByGang(&v) { // its gang is more valuable, and has just been found to have to go
			return false
		}
		s.unmarkVictim(&v)
		if without(v.pods) {
			return true
		}
		again(v.pods)
		s.markVictim(&v)
		return false
	})
	s.awaited = slices.DeleteFunc(s.awaited, func(pod *cluster.Pod) bool {
		s.quota.countOn(pod, -1)
		if without([]*cluster.Pod{pod}) {
			delete(s.removed, pod)
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
	s.freeOnly = true
	without := func(pods []*cluster.Pod) bool {
		for _, pod := range pods {
			s.snapshot.Assume(s.r.store.Slot(pod.Node()), pod, pod.Grant())
		}
		if tries++; tries > maxRefills {
			return false
		}
		from := s.checkpoint()
		ok := s.fillUnit(slots)
		if ok {
			placed = slices.Clone(s.placed)
		}
		s.undoTo(from)
		return ok
	}
	again := func(pods []*cluster.Pod) {
		for _, pod := range pods {
			s.snapshot.Lift(pod)
		}
	}
	s.dropNeedless(without, again)
	s.freeOnly = false
	s.placeAll(placed)
}

// dropIdle lets those victims be on whose nodes nothing is placed after all. It answers false when the limits need them gone, though no Plan
// can name them.
func (s *victimSearch) dropIdle() bool {
	used := make(map[string]bool, len(s.placed))
	for i := range s.placed {
		used[s.state().Node(s.placed[i].Slot).Name] = true
	}
	idle := func(pods []*cluster.Pod) bool {
		return !slices.ContainsFunc(pods, func(pod *cluster.Pod) bool { return used[pod.Node()] })
	}
	ok := true
	s.victims = slices.DeleteFunc(s.victims, func(v victim) bool {
		if !idle(v.pods) || s.coveredByGang(&v) {
			return false
		}
		s.unmarkVictim(&v)
		if !s.quota.exceeded() {
			return true
		}
		s.markVictim(&v)
		ok = ok && v.pods[0].Unit != nil && v.pods[0].Unit.Atomic()
		return false
	})
	s.awaited = slices.DeleteFunc(s.awaited, func(pod *cluster.Pod) bool {
		if !idle([]*cluster.Pod{pod}) {
			return false
		}
		s.quota.countOn(pod, -1)
		ok = ok && !s.quota.exceeded()
		return true
	})
	return ok && len(s.victims)+len(s.awaited) > 0
}
