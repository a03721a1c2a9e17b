package check

import (
	"math"
	"slices"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/bind"
	"hilbert.dev/hilbert/schedule/relief"
)

// evictionBudget checks the evictions that nodes have requested: each is of a pod that its node wants gone, and together they stay within the
// budget for the cluster, whichever process began them. With 200 reclaimed pods, 5 percent a minute and a burst of 1, at most 11 evictions that
// are not urgent begin within any minute.
type evictionBudget struct {
	evictions *spec.Evictions
	run       Run

	gangs  fallingGangs
	tried  map[facts.UID]bool
	begun  []RequestedEviction
	failed []int64 // when evictions were answered that came to nothing
}

// RequestedEviction is an eviction that was begun.
type RequestedEviction struct {
	At        int64
	Node      string
	Urgent    bool
	Follows   bool // a member of its gang, which cannot run without that
	Reclaimed int  // how many reclaimed pods were on nodes then
}

// begin judges an eviction that the scheduler begins.
func (b *evictionBudget) begin(w *bind.Write, mi *mirror) {
	m, told := mi.pods[w.Pod], mi.reports[w.Node]
	at := -1
	if told != nil {
		at = slices.IndexFunc(told.report.Evictions, func(x facts.EvictionRequest) bool { return x.UID == w.Pod })
	}
	broken := at >= 0 && told.report.Evictions[at].Broken
	if m == nil || m.node != w.Node || told == nil || m.deleting || !broken && !m.requirements.Reclaimed || broken && m.grant.IsZero() {
		b.run.Violate("pod %s must not be evicted at the request of node %s", w.Pod, w.Node)
		return
	}
	now := RequestedEviction{At: b.run.Now(), Node: w.Node}
	if broken { // it did not run yet: its gang stays
		b.gangs.leaves(m)
	} else {
		now.Follows = b.gangs.begin(m, mi, at >= 0, b.run.Now())
	}
	switch {
	case now.Follows:
	case at < 0:
		b.run.Violate("pod %s is evicted from node %s, which does not request it", w.Pod, w.Node)
		return
	default:
		now.Urgent = told.report.Evictions[at].Urgent
		if other := b.cheaper(m, told.report.Evictions[at].Urgent, mi); other != "" {
			b.run.Violate("pod %s is evicted, which costs its gang the work that it has done; node %s would let %s go instead", w.Pod, w.Node, other)
		}
	}
	if b.tried == nil {
		b.tried = make(map[facts.UID]bool)
	}
	b.tried[w.Pod] = true
	for _, other := range mi.pods {
		if other.node != "" && other.requirements.Reclaimed {
			now.Reclaimed++
		}
	}
	b.begun = append(b.begun, now)
	b.check()
}

// cheaper names a pod without a gang that a node wants gone as urgently as a member without whom its gang has to go, if that has done some work. Pods
// whose eviction was tried before may have been held back.
func (b *evictionBudget) cheaper(m *mirrored, urgent bool, mi *mirror) facts.UID {
	fall := b.gangs.falls[m.unit]
	if m.unit.IsZero() || fall == nil || fall.by != m.uid {
		return ""
	}
	worked := false
	for uid := range fall.owed {
		worked = worked || mi.pods[uid].started != 0 && mi.pods[uid].started < b.run.Now()
	}
	for _, x := range mi.reports[m.node].report.Evictions {
		other := mi.pods[x.UID]
		if worked && x.Urgent == urgent && !b.tried[x.UID] && other != nil && other.node == m.node && !other.deleting && !other.assumed && other.unit.IsZero() && !mi.claimed(x.UID) {
			return x.UID
		}
	}
	return ""
}

// check compares the evictions of the last minute with the budget.
func (b *evictionBudget) check() {
	last := len(b.begun) - 1
	now := &b.begun[last]
	begun, level := 0, now.Reclaimed
	for i := last; i >= 0 && now.At-b.begun[i].At < int64(time.Minute); i-- {
		e := &b.begun[i]
		switch {
		case e.Follows:
			level = max(level, e.Reclaimed)
		case !e.Urgent:
			begun++
			level = max(level, e.Reclaimed)
		case now.Urgent && e.Node == now.Node && i != last && now.At-e.At < int64(relief.UrgentInterval):
			b.run.Violate("two urgent evictions from node %s within %v", now.Node, time.Duration(now.At-e.At))
		}
	}
	most := int(math.Ceil(max(b.evictions.PercentPerMinute/100*float64(level), 1))) + b.evictions.Burst
	if !now.Urgent && !now.Follows && begun > most+b.failedSince(now.At) {
		b.run.Violate("%d evictions within a minute, where %d reclaimed pods allow %d", begun, level, most)
	}
}

// answered takes note of what became of an eviction.
func (b *evictionBudget) answered(outcome bind.Outcome) {
	if outcome != bind.Written && outcome != bind.Unknown {
		b.failed = append(b.failed, b.run.Now())
	}
}

// failedSince counts the evictions of the last minute that came to nothing.
func (b *evictionBudget) failedSince(now int64) (n int) {
	for _, at := range b.failed {
		if now-at < int64(time.Minute) {
			n++
		}
	}
	return n
}
