package victims

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/schedule/place/pack"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// otherUnit is a unit that might be gone: all placed members of it, by slot.
type otherUnit struct {
	name    string
	pods    []*cluster.Pod
	slots   []cluster.Slot // of the pods, ascending
	highest int32
	started int64 // of the member that started last
}

// BlockingUnit names the least valuable other unit after whose departure the unit would fit, whether it may be evicted or not: its namespace and
// the name of its PodGroup or pod. A unit is less valuable if its priority is lower, then if it has fewer pods, then if it started later. ok is false when there is
// none, or none among the first limit of those for which the count of free places says that they would do. It costs time proportional to the
// pods of the cluster, and that of limit PlaceUnits. The snapshot is treated as by Evict.
func (r *Reclaimer) BlockingUnit(ask *pack.Ask, limit int) (name string, ok bool) {
	if len(ask.Members) == 0 {
		return "", false
	}
	r.follow(ask)
	s := &r.search
	s.open(ask, math.MaxInt64)
	list := s.plausible(s.otherUnits())
	for i := range list[:min(limit, len(list))] {
		if s.fitsWithout(&list[i]) {
			return list[i].name, true
		}
	}
	return "", false
}

// otherUnits lists all units but the one that asks, the least valuable first.
func (s *victimSearch) otherUnits() []otherUnit {
	var list []otherUnit
	gangs := make(map[*cluster.Unit]int)
	for i := range s.state().Slots() {
		slot := cluster.Slot(i)
		for _, pod := range s.r.store.PodsOn(slot) {
			if pod.Deleting || pod.Unit != nil && pod.Unit == s.groups.unit {
				continue
			}
			at, known := len(list), false
			if pod.Unit != nil {
				if at, known = gangs[pod.Unit]; !known {
					at = len(list)
					gangs[pod.Unit] = at
				}
			}
			if !known {
				o := otherUnit{name: pod.Namespace + "/" + pod.Name, highest: math.MinInt32}
				if pod.Unit != nil {
					o.name = pod.Unit.String()
				}
				list = append(list, o)
			}
			o := &list[at]
			o.pods, o.slots = append(o.pods, pod), append(o.slots, slot)
			o.highest, o.started = max(o.highest, pod.Priority), max(o.started, pod.Started)
		}
	}
	slices.SortFunc(list, func(a, b otherUnit) int {
		return cmp.Or(cmp.Compare(a.highest, b.highest), cmp.Compare(len(a.pods), len(b.pods)), cmp.Compare(b.started, a.started), strings.Compare(a.name, b.name))
	})
	return list
}

// plausible leaves those after whose departure there would be places enough for the members of the first one's class, in one domain if that
// is asked, as far as counting on each node alone can tell.
func (s *victimSearch) plausible(list []otherUnit) []otherUnit {
	st, part := s.state(), pack.CountByClass(s.ask)[0]
	places := make(map[string]int)
	domain := func(slot cluster.Slot) (string, bool) {
		if !rules.FitsIn(rules.Static, st, slot, part.Class) || st.Reservation(slot) != cluster.NoReservation {
			return "", false
		}
		return pack.RequiredDomain(st, slot, &s.ask.Topology)
	}
	for _, slot := range s.within() {
		if name, ok := domain(slot); ok {
			places[name] += rules.PodsThatFitWithout(st, slot, part.Class, nil)
		}
	}
	enoughNow := false // it is not for lack of room
	for _, n := range places {
		enoughNow = enoughNow || n >= part.Count
	}
	return slices.DeleteFunc(list, func(o otherUnit) bool {
		gained := make(map[string]int)
		enough := enoughNow
		for from := 0; from < len(o.slots); {
			to := from + 1
			for to < len(o.slots) && o.slots[to] == o.slots[from] {
				to++
			}
			slot := o.slots[from]
			if name, ok := domain(slot); ok {
				gained[name] += rules.PodsThatFitWithout(st, slot, part.Class, o.pods[from:to]) - rules.PodsThatFitWithout(st, slot, part.Class, nil)
				enough = enough || places[name]+gained[name] >= part.Count
			}
			from = to
		}
		return !enough
	})
}

// fitsWithout tries whether the unit fits when another is gone.
func (s *victimSearch) fitsWithout(o *otherUnit) bool {
	snapshot := s.snapshot
	mark := snapshot.Mark()
	defer func() { snapshot.Rollback(mark) }()
	for _, pod := range o.pods {
		snapshot.Lift(pod)
		s.quota.countOn(pod, 1)
	}
	admitted := !s.quota.exceedsLimits()
	for _, pod := range o.pods {
		s.quota.countOn(pod, -1)
	}
	if !admitted {
		return false
	}
	_, ok := s.r.packer.PlaceUnit(s.ask)
	return ok
}
