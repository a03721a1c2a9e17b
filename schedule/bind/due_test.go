package bind

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
)

// naiveDue is the rows that are due, by definition: what has no message yet first, but after three of those while an update waits, an update; then the queue that was served longest ago, or came latest; then
// the oldest row.
type naiveDue struct {
	rows []*conditionRow // the oldest first
	turn map[turnKey]int // when a queue came last, or was served last
	row  int             // first messages in a row while an update waited
}

type turnKey struct {
	first bool
	queue string
}

func turnOf(r *conditionRow) turnKey { return turnKey{r.written.Reason == "", r.queue} }

func (n *naiveDue) push(r *conditionRow, step int) {
	if !slices.ContainsFunc(n.rows, func(other *conditionRow) bool { return turnOf(other) == turnOf(r) }) {
		n.turn[turnOf(r)] = step
	}
	n.rows = append(n.rows, r)
}

func (n *naiveDue) pop(step int) *conditionRow {
	isFirst := func(r *conditionRow) bool { return turnOf(r).first }
	isUpdate := func(r *conditionRow) bool { return !turnOf(r).first }
	some := slices.ContainsFunc(n.rows, isUpdate)
	update := some && (n.row == 3 || !slices.ContainsFunc(n.rows, isFirst))
	if n.row++; update || !some {
		n.row = 0
	}
	best := slices.IndexFunc(n.rows, func(r *conditionRow) bool { return isUpdate(r) == update })
	for i, r := range n.rows {
		a, b := turnOf(r), turnOf(n.rows[best])
		if a.first == update {
			continue
		}
		if a.first && !b.first || a.first == b.first && n.turn[a] < n.turn[b] {
			best = i
		}
	}
	r := n.rows[best]
	n.rows = slices.Delete(n.rows, best, best+1)
	n.turn[turnOf(r)] = step
	return r
}

// TestDueRows pushes and pops at random, and holds the order against its definition.
func TestDueRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var d dueRows
		naive := naiveDue{turn: make(map[turnKey]int)}
		for step := range rapid.IntRange(1, 200).Draw(t, "steps") {
			if d.Len() > 0 && rapid.IntRange(0, 2).Draw(t, "pop") == 0 {
				if got, want := d.pop(), naive.pop(step); got != want {
					t.Fatalf("popped a row of queue %s, want one of %s", got.queue, want.queue)
				}
				continue
			}
			r := &conditionRow{queue: fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "queue"))}
			if rapid.Bool().Draw(t, "again") {
				r.written = facts.UnitCondition{Reason: "Unschedulable"}
			}
			d.push(r)
			naive.push(r, step)
		}
		for d.Len() > 0 {
			d.pop()
		}
		if len(d.first.byQueue)+len(d.again.byQueue)+cap(d.first.order.list)+cap(d.again.order.list) > 0 {
			t.Fatal("an empty list keeps queues")
		}
	})
}

// TestForgottenConditionsLeave has pods come and go faster than the bucket lets conditions through. What is kept follows the pods that are there.
func TestForgottenConditionsLeave(t *testing.T) {
	t.Parallel()
	now, out := time.Unix(1000, 0), outbox{}
	c := newConditions(cluster.NewStore(), &out, spec.Conditions{MinInterval: spec.Duration(time.Second), PerSecond: 1, Burst: 1})
	c.tokens = 0
	set := func(i int) subject {
		key := subject{pod: facts.UID(fmt.Sprint(i))}
		c.set(&conditionRow{subject: key, queue: fmt.Sprint(i % 3)}, facts.UnitCondition{Reason: "Unschedulable"}, now)
		return key
	}
	const lasting = 30
	for i := range lasting {
		set(i)
	}
	for i := range 10_000 {
		c.forget(set(lasting + i))
		if most := 2*lasting + fewDropped + 2; c.due.Len() > most {
			t.Fatalf("%d pods wait, and %d conditions are kept; want %d at most", lasting, c.due.Len(), most)
		}
	}
	for left := lasting; left > 0; { // those that stay are still there, in their order
		r := c.due.pop()
		if r.dropped {
			continue
		}
		if want := facts.UID(fmt.Sprint(lasting - left)); r.pod != want {
			t.Fatalf("the condition of pod %s is next, want that of %s", r.pod, want)
		}
		left--
	}
}
