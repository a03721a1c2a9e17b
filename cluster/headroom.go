package cluster

import (
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
)

// What reclaimed pods may hold of a node comes from the node's report alone, and is the node's allocatable of two resources. So it is requested,
// fitted and preempted for like any other. It is gross: it includes what runs. It may fall below what is requested; then no pod has to leave
// for that, and no further reclaimed pod is placed.

// lentKinds are the kinds of what only reports give, CPU and then memory; 0 is one that no node has lent and no pod asked for.
type lentKinds struct {
	kinds *resource.Table
	of    [facts.ReclaimedKinds]resource.Kind
}

// kind returns the kind of a reclaimed resource, interned. CPU is kind 0, so that 0 is none.
func (l *lentKinds) kind(i int) resource.Kind {
	if l.of[i] == 0 {
		l.of[i] = l.kinds.Intern(facts.ReclaimedName(i))
	}
	return l.of[i]
}

// claim fills in what a request asks of what only reports give.
func (l *lentKinds) claim(q *request) {
	for _, r := range q.quantities {
		for i := range facts.ReclaimedKinds {
			if r.Name == facts.ReclaimedName(i) && r.Amount > 0 {
				q.reclaims[i] = resource.Amount{Kind: l.kind(i), Value: resource.Add(q.reclaims[i].Value, min(r.Amount, resource.MaxAmount))}
				q.asksReclaimed = true
			}
		}
	}
}
