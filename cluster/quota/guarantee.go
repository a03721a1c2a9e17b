package quota

import (
	"fmt"
	"math/bits"
	"slices"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
)

// measure works out, from the leaves up, what each queue asks as its guarantee: what it names, and of the rest what its children ask.
func (q *Queue) measure(tree *Tree) {
	q.guaranteed, q.limit = nil, nil
	for _, child := range q.children {
		child.measure(tree)
		for kind, amount := range child.guaranteed {
			q.guaranteed = tree.widen(q.guaranteed)
			q.guaranteed[kind] = resource.Add(q.guaranteed[kind], amount)
		}
	}
	if q.Facts == nil {
		return
	}
	named := tree.amountsOf(q, "spec.guaranteed", q.Facts.Guaranteed)
	for _, a := range named {
		q.guaranteed = tree.widen(q.guaranteed)
		q.guaranteed[a.Kind] = a.Value
	}
	for _, a := range tree.amountsOf(q, "spec.max", q.Facts.Max) {
		q.restrict(tree, a)
		if q.Guaranteed(a.Kind) <= a.Value {
			continue
		}
		q.guaranteed[a.Kind] = a.Value
		if named.Get(a.Kind) > 0 {
			q.worry(spec.ReasonQueueGuaranteeTooLarge, "spec.guaranteed: more %s than spec.max allows; no more than that is guaranteed", tree.kinds.Name(a.Kind))
		} else {
			q.worry(spec.ReasonQueueGuaranteeTooLarge, "spec.max: less %s than the queues below are guaranteed; no more than that is", tree.kinds.Name(a.Kind))
		}
	}
}

// share gives, from the root down, each queue as much of its guarantee as its parent has: all of it, or its proportion. The root has all.
func (q *Queue) share(tree *Tree) {
	for kind := range q.guaranteed {
		q.apportion(tree, resource.Kind(kind))
	}
	if q.Facts != nil && q.Facts.BorrowsNothing {
		for _, a := range q.Facts.Guaranteed {
			if kind, ok := tree.kinds.Lookup(a.Name); ok {
				q.restrict(tree, resource.Amount{Kind: kind, Value: q.Guaranteed(kind)})
			}
		}
	}
	for _, child := range q.children {
		child.share(tree)
	}
}

// apportion scales the children's guarantees of a resource down to what the queue has of it, if they are more.
func (q *Queue) apportion(tree *Tree, kind resource.Kind) {
	asked, carry := q.asked(kind, 0)
	has := uint64(q.Guaranteed(kind))
	if carry == 0 && asked <= has {
		return
	}
	shift := bits.Len64(carry) // amounts so absurd that they do not add up in 64 bits lose their lowest
	asked, _ = q.asked(kind, shift)
	for _, child := range q.children {
		g := uint64(child.Guaranteed(kind))
		if g == 0 {
			continue
		}
		child.guaranteed[kind] = int64(proportion(g>>shift, has, asked))
		child.worry(spec.ReasonQueueGuaranteeTooLarge,
			"spec.guaranteed: the children of %s ask for more %s than it is guaranteed; each is given its proportion", q.label(), tree.kinds.Name(kind))
	}
}

// asked sums the children's guarantees of a resource, each shifted right, to 128 bits.
func (q *Queue) asked(kind resource.Kind, shift int) (sum, carry uint64) {
	for _, child := range q.children {
		var over uint64
		sum, over = bits.Add64(sum, uint64(child.Guaranteed(kind))>>shift, 0)
		carry += over
	}
	return sum, carry
}

// label names the queue for people.
func (q *Queue) label() string {
	if q.parent == nil {
		return "the root"
	}
	return q.Name
}

// restrict lowers a limit.
func (q *Queue) restrict(tree *Tree, to resource.Amount) {
	for len(q.limit) < tree.kinds.Len() {
		q.limit = append(q.limit, Unlimited)
	}
	q.limit[to.Kind] = min(q.limit[to.Kind], to.Value)
}

// worry takes note of a mistake that does not close the queue. The first one is told.
func (q *Queue) worry(reason, format string, args ...any) {
	if q.Problem == (facts.Condition{}) {
		q.Problem = facts.Condition{Reason: reason, Message: fmt.Sprintf(format, args...)}
	}
}

// amountsOf lists what a field of a queue names, zeros too; what stands twice adds up. A resource for which the table has no room is left
// out, a negative amount counts as none; both are told.
func (tree *Tree) amountsOf(q *Queue, field string, quantities []resource.Quantity) resource.List {
	var list resource.List
	for _, a := range quantities {
		kind, ok := tree.kinds.Lookup(a.Name)
		if !ok {
			q.worry(spec.ReasonQueueResourceUnknown, "%s: %v; it is not counted", field, tree.kinds.Problem(a.Name))
			continue
		}
		if a.Amount < 0 {
			q.worry(spec.ReasonQueueResourceUnknown, "%s: %d %s is negative; it counts as 0", field, a.Amount, a.Name)
		}
		amount := resource.Amount{Kind: kind, Value: min(max(a.Amount, 0), resource.MaxSum)}
		if at := slices.IndexFunc(list, func(b resource.Amount) bool { return b.Kind == kind }); at >= 0 {
			list[at].Value = resource.Add(list[at].Value, amount.Value)
			continue
		}
		list = append(list, amount)
	}
	return list
}

// proportion returns a·b/c, rounded down, for a ≤ c and 0 < c.
func proportion(a, b, c uint64) uint64 {
	high, low := bits.Mul64(a, b)
	quotient, _ := bits.Div64(high, low, c) // it is at most b, so that high < c
	return quotient
}
