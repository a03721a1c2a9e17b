package vpa

import (
	"fmt"
	"time"

	"hilbert.dev/hilbert/control/recommend"
)

// freedFor is for how long the room that a shrunk pod gave up counts against what its node has left to lend. By then the scheduler has promised it to others, whose use is in
// the node's headroom.
const freedFor = time.Hour

// freed is room that a pod gave up.
type freed struct {
	amounts recommend.Amounts
	at      time.Time
}

// lenders say whose requests may shrink. Reclaimed pods run in room that online pods asked for and do not use. A request that shrinks hands that room to the scheduler, which
// promises it a second time: once online pods use it, reclaimed pods are evicted. So no more shrinks on a node than its headroom has beyond what its reclaimed pods hold.
//
// Example: a node could lend 6 CPUs, and its reclaimed pods hold 5. A pod that would give up 1 CPU may shrink, and another one of 1 CPU stays as it is until they have left.
type lenders struct {
	of    map[string]Lender
	known bool
	left  map[string]recommend.Amounts
}

func (d *decision) newLenders() lenders {
	l := lenders{of: d.v.Lenders, known: d.v.LendersKnown, left: make(map[string]recommend.Amounts)}
	for node, list := range d.s.freed {
		for len(list) > 0 && d.now.Sub(list[0].at) >= freedFor {
			list = list[1:]
		}
		if d.s.freed[node] = list; len(list) == 0 {
			delete(d.s.freed, node)
		}
	}
	for node, n := range d.v.Lenders {
		left := recommend.Amounts{CPU: n.Headroom.CPU - n.Held.CPU, Memory: n.Headroom.Memory - n.Held.Memory}
		for _, f := range d.s.freed[node] {
			left.CPU, left.Memory = left.CPU-f.amounts.CPU, left.Memory-f.amounts.Memory
		}
		l.left[node] = left
	}
	return l
}

// least is what a pod is not brought below on its node, and why; 0: anything.
func (l *lenders) least(node string, has, target recommend.Amounts) (least recommend.Amounts, why string) {
	gives := recommend.Amounts{CPU: max(has.CPU-target.CPU, 0), Memory: max(has.Memory-target.Memory, 0)}
	if gives == (recommend.Amounts{}) {
		return least, ""
	}
	if !l.known {
		return has, "what reclaimed pods hold of its node is not known, so that it is not known whether what it would give up is lent"
	}
	n, lends := l.of[node]
	if !lends || n.Held == (recommend.Amounts{}) {
		return least, ""
	}
	if !n.Known {
		return has, fmt.Sprintf("what node %s may lend is not known, and its reclaimed pods hold %s", node, words(n.Held))
	}
	left := l.left[node]
	if gives.CPU > max(left.CPU, 0) {
		least.CPU = has.CPU
		gives.CPU = 0
	}
	if gives.Memory > max(left.Memory, 0) {
		least.Memory = has.Memory
		gives.Memory = 0
	}
	l.left[node] = recommend.Amounts{CPU: left.CPU - gives.CPU, Memory: left.Memory - gives.Memory}
	if least != (recommend.Amounts{}) {
		keeps := recommend.Amounts{CPU: max(least.CPU-target.CPU, 0), Memory: max(least.Memory-target.Memory, 0)}
		why = fmt.Sprintf("it keeps %s that it does not need, because its node has lent it: reclaimed pods hold %s of the %s that node %s may lend", words(keeps), words(n.Held), words(n.Headroom), node)
	}
	return least, why
}

// gaveUp notes what a pod that was shrunk has given up on its node, if that lends.
func (d *decision) gaveUp(node string, has, to recommend.Amounts) {
	gives := recommend.Amounts{CPU: max(has.CPU-to.CPU, 0), Memory: max(has.Memory-to.Memory, 0)}
	if n, lends := d.v.Lenders[node]; lends && n.Held != (recommend.Amounts{}) && gives != (recommend.Amounts{}) {
		d.s.freed[node] = append(d.s.freed[node], freed{gives, d.now})
	}
}
