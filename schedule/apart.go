package schedule

import (
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/schedule/place"
	"hilbert.dev/hilbert/schedule/place/index"
	"hilbert.dev/hilbert/schedule/place/pack"
)

// apart is another node than the choice, if agents would rather not have the pod there (package apart) and another one of some that it looks at takes it.
func (a *attempt) apart(pod *cluster.Pod, choice index.Choice) index.Choice {
	avoid := func(slot cluster.Slot) bool { return a.d.apart.Avoids(a.d.store, pod, slot, a.now) }
	if !avoid(choice.Slot) {
		return choice
	}
	a.d.looked += place.MaxElsewhere
	if other, ok := a.decider().PlaceElsewhere(pod.Class, choice.Slot, avoid); ok {
		a.d.apart.Kept++
		return other
	}
	return choice
}

// placeUnit places a gang's members: on nodes whose agents would not rather do without one of them, if as many as it needs find room there. The others have a turn of their own then.
func (a *attempt) placeUnit() (placed []pack.MemberChoice, ok bool) {
	ask, snapshot := a.wanted(), a.in.snapshot
	mark := snapshot.Mark()
	if placed, ok = a.decider().PlaceUnit(ask); !ok {
		return nil, false
	}
	kept := 0
	for i := range placed {
		if a.d.apart.Avoids(a.d.store, placed[i].Pod, placed[i].Slot, a.now) {
			kept++
		}
	}
	if kept == 0 {
		return placed, true
	}
	a.looks()
	snapshot.Rollback(mark)
	if placed, ok = a.decider().PlaceUnit(a.elsewhere(ask)); ok {
		a.d.apart.Kept += kept
		return placed, true
	}
	return a.decider().PlaceUnit(ask) // as before
}

// elsewhere is the same ask on the nodes that no agent wants to do without one of its members.
func (a *attempt) elsewhere(ask *pack.Ask) *pack.Ask {
	avoided := make(map[cluster.Slot]bool)
	for i, pod := range ask.Members {
		if i == 0 || pod.Class != ask.Members[i-1].Class { // those of one class stand together
			a.d.apart.AvoidedBy(a.d.store, pod, a.now, avoided)
		}
	}
	out := *ask
	out.Within = make([]cluster.Slot, 0, a.in.snapshot.Slots())
	for i := range a.in.snapshot.Slots() {
		if slot := cluster.Slot(i); !avoided[slot] { // no ask of the gate is within some nodes
			out.Within = append(out.Within, slot)
		}
	}
	return &out
}
