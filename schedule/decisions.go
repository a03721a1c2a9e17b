package schedule

import (
	"slices"
	"time"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/admit"
	"hilbert.dev/hilbert/schedule/apart"
	"hilbert.dev/hilbert/schedule/bind"
	"hilbert.dev/hilbert/schedule/dispatch"
	"hilbert.dev/hilbert/schedule/place/rules"
	"hilbert.dev/hilbert/schedule/queue"
)

// maxLooks bounds the nodes that the decisions of one Step look at beyond what their indexes keep up: to explain, to search victims, to build the index of a
// class that has none. It is some tens of milliseconds, so that nobody who asks the scheduler something waits for long, whatever has come.
const maxLooks = 250_000

// looksPerEffect is how many looks it counts as to judge a pod anew, beside one for each term that it has or that is about it.
const looksPerEffect = 64

// maxRejections is how often in a row a unit is decided again at once after its Plan was rejected; then it backs off.
const maxRejections = 8

// decisions decides about one unit after the other, and has the binder commit what comes of it. It is what an attempt works with: who decides, what is known of
// the units that wait, and where Plans go. Whose turn it is, others say: Step, the schedulers beside it, the owners of Reservations.
//
// It counts what decisions cost in looked; whoever makes several in one Step ends when that has reached maxLooks.
type decisions struct {
	store      *cluster.Store
	queue      *queue.Queue
	binder     *bind.Binder
	market     *rules.Market
	gate       *admit.Gate
	blocked    *blocked
	gangs      *gangs
	obliged    *obliged
	notices    *notices
	waiting    *waitingPods
	partitions *partitions
	observer   Observer
	auditor    Auditor // nil when the observer is none

	dispatcher *dispatch.Dispatcher
	instances  []*instance
	lag        func(int) bool
	apart      apart.Book

	attempt attempt // the turn that is on
	looked  int     // nodes that the decisions of this Step have looked at
}

// instance is the one that decides next.
func (d *decisions) instance() *instance { return d.instances[d.dispatcher.Choose()] }

// decide lets one instance place one unit, and commits its Plan.
func (d *decisions) decide(u *queue.Unit, now time.Time) {
	a := &d.attempt // kept, so that a decision allocates none
	*a = attempt{d: d, unit: u, in: d.instance(), now: now}
	list := strategies
	switch {
	case !a.admitted():
		a.in.snapshot.Advance(d.store)
		list = overQuotaStrategies
	case a.mayLag():
		a.lagging = true
	default:
		a.in.snapshot.Advance(d.store)
	}
	if a.quotaAdmits && u.Gang == nil && d.singlePods() {
		list = singlePodStrategies
	}
	for i := range list {
		if list[i].try(a) {
			return
		}
	}
}

// singlePods reports whether there is nothing but single pods in one queue.
func (d *decisions) singlePods() bool {
	return !d.store.Quota().Configured() && !d.store.Units().Gangs()
}

// propose lets the committer judge a Plan. why is reported of the pod while its victims are on their way out.
func (d *decisions) propose(plan *cluster.Plan, why facts.Condition) cluster.Verdict {
	verdict := d.binder.Propose(plan, why)
	d.partitions.judged(plan, verdict)
	if d.auditor != nil {
		d.auditor.Judged(plan, verdict)
	}
	return verdict
}

// rejected sends a unit back: at once, to be decided on a newer snapshot, or after several rejections in a row with a backoff.
func (d *decisions) rejected(u *queue.Unit, v cluster.Verdict, now time.Time) {
	d.observer.Rejected(v.Reason, now)
	u.NotBefore = v.Revision
	u.Attempts++
	if u.Attempts%maxRejections == 0 {
		d.queue.Delay(u, d.waiting.retries.next(u.Members()[0].UID, now))
		return
	}
	d.queue.Return(u)
}

// applyConsequences lets pods that wait know what earlier placements mean for them: what is left of the volumes, and terms that are about them.
func (d *decisions) applyConsequences(now time.Time) {
	for _, e := range slices.Clone(d.store.Consequences()) {
		d.looked += looksPerEffect + e.Pod.Class.Terms()
		d.waiting.apply(e, now)
	}
}
