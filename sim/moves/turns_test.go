package moves

import (
	"cmp"
	"strings"
	"time"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule"
)

// turns judges, by what the ledger and the API server have, that the replacement of a lost target has its turn before others. It asks nothing of what decides that.
type turns struct {
	r *run
	// first are the pods whose turn it is, as of the beginning of a Step.
	first map[facts.UID]bool
	back  map[facts.UID]bool // pods whose Binding failed: they back off for a while
	given map[facts.UID]bool // pods that were seen to have a turn
	kept  map[cluster.Slot]facts.UnitName
}

// begin looks whose turn it is.
func (j *turns) begin() {
	j.first, j.kept = make(map[facts.UID]bool), make(map[cluster.Slot]facts.UnitName)
	j.seeKept()
	store := j.r.scheduler.Store()
	store.Placeholders().Each(func(set *cluster.PlaceholderSet) {
		v := set.View()
		moved := store.Pod(facts.UID(strings.TrimPrefix(string(set.Facts.UID), moveLabel)))
		if set.Facts.Count > 1 || v.Expired || v.Count(facts.PlaceLost) != 1 || v.Places[0].Pod != "" || moved != nil && !moved.Deleting {
			return
		}
		var first *cluster.Pod
		store.EachWaiting(set.Facts.Namespace, func(pod *cluster.Pod) {
			if pod.Created >= set.Facts.Created && store.Placeholders().Owns(set, pod) &&
				(first == nil || cmp.Or(cmp.Compare(pod.Created, first.Created), strings.Compare(string(pod.UID), string(first.UID))) < 0) {
				first = pod
			}
		})
		if first != nil {
			j.first[first.UID], j.given[first.UID] = true, true
		}
	})
}

// Placed implements schedule.Observer: of one priority nobody else is placed where the one whose turn it is would fit.
func (j *turns) Placed(pod *cluster.Pod, _ time.Time) {
	store := j.r.scheduler.Store()
	if pod.Placeholder() || j.first[pod.UID] || store.Placeholders().TakenBy(pod) != "" || j.sinceHas(pod) || j.keptForGang(pod) {
		return // it holds room for somebody, or has room that was kept for it
	}
	for uid := range j.first {
		w := store.Pod(uid)
		if p, n := j.r.pods[uid], j.r.nodes[pod.Node()]; p != nil && n != nil && (!p.Requirements.Selects(n) || facts.Untolerated(n, p.Requirements.Tolerations) != nil) {
			continue // the node is not for it
		}
		if w != nil && w.Phase == cluster.Pending && !w.Deleting && !j.back[uid] && w.Priority >= pod.Priority {
			j.r.broken("%s is placed while it is the turn of %s, whose target was lost", pod.UID, uid)
		}
	}
}

// sinceHas: the Step itself has found that a target was lost which was the pod's.
func (j *turns) sinceHas(pod *cluster.Pod) (has bool) {
	placeholders := j.r.scheduler.Store().Placeholders()
	placeholders.Each(func(set *cluster.PlaceholderSet) {
		has = has || set.LostTarget() && pod.Created >= set.Facts.Created && placeholders.Owns(set, pod)
	})
	return has
}

// seeKept looks which nodes the scheduler keeps for gangs that have waited long. When a gang has its places, that is over.
func (j *turns) seeKept() {
	for _, x := range j.r.scheduler.Gate().Reservations.List() {
		for _, slot := range x.Slots {
			j.kept[slot] = x.Unit
		}
	}
}

// keptForGang: the pod's node was kept for its gang, so that no single pod of its priority could have it, whosever turn it is.
func (j *turns) keptForGang(pod *cluster.Pod) bool {
	return pod.Unit != nil && j.kept[j.r.scheduler.Store().Slot(pod.Node())] == pod.Unit.UnitName
}

// Released implements schedule.Observer.
func (j *turns) Released(pod *cluster.Pod, _ string, _ time.Time) { j.back[pod.UID] = true }

// Unschedulable implements schedule.Observer. A Step chooses the nodes that it keeps before it decides.
func (j *turns) Unschedulable(*cluster.Pod, []schedule.FilterCount, time.Time) { j.seeKept() }

// MissedWakeup implements schedule.Observer.
func (j *turns) MissedWakeup(pod *cluster.Pod, _ time.Time) {
	j.r.broken("nothing woke %s", pod.UID)
}

func (*turns) Preempting(*cluster.Pod, []*cluster.Pod, time.Time) {}
func (*turns) Cleared(*cluster.Pod, time.Time)                    {}
func (*turns) Rejected(string, time.Time)                         {}
func (*turns) Bound(*cluster.Pod, time.Time)                      {}
