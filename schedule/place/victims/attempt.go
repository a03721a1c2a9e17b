package victims

import (
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/place/index"
	"hilbert.dev/hilbert/schedule/place/pack"
)

// attempt is what a search has done so far: victims are lifted off the snapshot, members are assumed on it. It is the one way to try
// something and take it back: remember a checkpoint, continue, and undo to it. What is undone is undone on the snapshot, in the quota and in the
// groups alike.
//
// Example: to compare two domains, a search fills the first, notes the cost, undoes to the checkpoint of before, and fills the second.
type attempt struct {
	snapshot *cluster.Snapshot
	index    *index.Index
	quota    *victimQuota
	groups   *victimGroups
	budgets  *disruptionBudgets

	victims []victim
	awaited []*cluster.Pod // leave anyway, and are waited for
	placed  []pack.MemberChoice
	cost    UnitCost
	spent   []budgetUse // of disruption budgets, by the victims
}

// victim is a group that is evicted.
type victim struct {
	victimGroup
	pods  []*cluster.Pod
	holds resource.List
}

// searchPoint is how far a search was.
type searchPoint struct {
	assumed, victims, awaited, placed int
	cost                              UnitCost
	budgets                           []budgetUse
}

// open begins with nothing done.
func (a *attempt) open() {
	a.cost = noCost()
	a.spent, a.victims, a.awaited, a.placed = a.spent[:0], a.victims[:0], a.awaited[:0], a.placed[:0]
}

// checkpoint is the point that the search is at.
func (a *attempt) checkpoint() searchPoint {
	return searchPoint{a.snapshot.Mark(), len(a.victims), len(a.awaited), len(a.placed), a.cost, slices.Clone(a.spent)}
}

// undoTo takes back all that was done since a checkpoint.
func (a *attempt) undoTo(to searchPoint) {
	for i := to.victims; i < len(a.victims); i++ {
		a.unmarkVictim(&a.victims[i])
	}
	for _, pod := range a.awaited[to.awaited:] {
		a.quota.countOn(pod, -1)
		delete(a.groups.removed, pod)
	}
	for i := to.placed; i < len(a.placed); i++ {
		a.quota.place(a.placed[i].Pod.Class, -1)
	}
	a.victims, a.awaited, a.placed = a.victims[:to.victims], a.awaited[:to.awaited], a.placed[:to.placed]
	a.cost, a.spent = to.cost, append(a.spent[:0], to.budgets...)
	a.snapshot.Rollback(to.assumed)
}

// unmarkVictim gives back to the quota and the groups what a victim took from them.
func (a *attempt) unmarkVictim(v *victim) {
	a.quota.take(v.account, v.holds, -1)
	a.quota.updateLevels(v.account)
	for _, pod := range v.pods {
		delete(a.groups.removed, pod)
	}
	a.groups.noteGang(v, false)
}

// take evicts a group.
func (a *attempt) take(p victimGroup) {
	v := victim{victimGroup: p, pods: slices.Clone(a.groups.pods(&p)), holds: a.groups.holds(&p)}
	a.budgets.violations(&a.spent, v.pods)
	a.lift(&v)
	a.victims = append(a.victims, v)
}

// lift takes a victim off its nodes and its queue's account.
func (a *attempt) lift(v *victim) {
	for _, pod := range v.pods {
		a.snapshot.Lift(pod)
	}
	a.markVictim(v)
}

// markVictim charges a victim that is off its nodes to the quota and the groups.
func (a *attempt) markVictim(v *victim) {
	a.quota.take(v.account, v.holds, 1)
	a.quota.updateLevels(v.account)
	for _, pod := range v.pods {
		a.groups.removed[pod] = true
	}
	a.groups.noteGang(v, true)
}

// await lifts a pod that leaves anyway.
func (a *attempt) await(pod *cluster.Pod) {
	a.snapshot.Lift(pod)
	a.groups.removed[pod] = true
	a.quota.countOn(pod, 1)
	a.awaited = append(a.awaited, pod)
}

// assume places a pod on a node on which it fits.
func (a *attempt) assume(slot cluster.Slot, pod *cluster.Pod) {
	choice := a.index.Choose(slot, pod.Class)
	a.snapshot.Assume(slot, pod, choice.Grant)
	a.quota.place(pod.Class, 1)
	a.placed = append(a.placed, pack.MemberChoice{Pod: pod, Choice: choice})
}

// solution remembers what has been found.
func (a *attempt) solution(slots []cluster.Slot) *solution {
	return &solution{slots, slices.Clone(a.victims), slices.Clone(a.awaited), slices.Clone(a.placed), a.cost}
}

// reapply takes the victims of a solution off again. Nothing is placed.
func (a *attempt) reapply(found *solution) {
	for _, v := range found.victims {
		a.lift(&v)
		a.victims = append(a.victims, v)
	}
	for _, pod := range found.awaited {
		a.await(pod)
	}
}

// placeAll places members as a solution had them.
func (a *attempt) placeAll(placed []pack.MemberChoice) {
	for _, p := range placed {
		a.snapshot.Assume(p.Slot, p.Pod, p.Grant)
		a.quota.place(p.Pod.Class, 1)
		a.placed = append(a.placed, p)
	}
}
