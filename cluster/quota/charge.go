package quota

import (
	"hilbert.dev/hilbert/resource"
)

// Charge adds what a pod holds to its tenant and to all queues above.
func (tree *Tree) Charge(t *Tenant, amounts resource.List) {
	tree.Account(t, amounts, 1)
	tree.touch(t, false)
}

// Discharge takes away what a pod held. eases says whether there is more to give than before: units that wait for the queue look again.
func (tree *Tree) Discharge(t *Tenant, amounts resource.List, eases bool) {
	tree.Account(t, amounts, -1)
	tree.touch(t, eases)
}

// touch notes that what the tenant holds has changed.
func (tree *Tree) touch(t *Tenant, eases bool) {
	tree.changedTenants.Note(t, &t.noted)
	if eases {
		tree.easeCount++
	}
	for q := t.queue; q != nil; q = q.parent {
		if eases {
			q.eased = tree.easeCount
		}
		tree.changedQueues.Note(q, &q.noted)
	}
}

// Account charges amounts, sign times, without noting a change: what a trial takes away it puts back.
func (tree *Tree) Account(t *Tenant, amounts resource.List, sign int64) {
	tree.add(&t.used, amounts, sign)
	for q := t.queue; q != nil; q = q.parent {
		tree.add(&q.used, amounts, sign)
	}
}

// Provide adds an amount, which may be negative, to the cluster's capacity.
func (tree *Tree) Provide(kind resource.Kind, amount int64) {
	if amount == 0 {
		return
	}
	tree.capacity.Grow(tree.kinds.Len())
	tree.capacity.Add(int(kind), amount)
}

func (tree *Tree) add(used *resource.Sums, amounts resource.List, sign int64) {
	used.Grow(tree.kinds.Len())
	for _, a := range amounts {
		used.Add(int(a.Kind), sign*a.Value)
	}
}

// shift adds a whole account, sign times, to a queue and all above.
func (tree *Tree) shift(q *Queue, used *resource.Sums, sign int64) {
	tree.easeCount++
	for ; q != nil; q = q.parent {
		q.used.AddAll(used, sign)
		if sign < 0 {
			q.eased = tree.easeCount
		}
		tree.changedQueues.Note(q, &q.noted)
	}
}

// widen makes a column as long as there are kinds.
func (tree *Tree) widen(column []int64) []int64 {
	for len(column) < tree.kinds.Len() {
		column = append(column, 0)
	}
	return column
}

// Ease says that a queue has more to give than before, though nothing was freed: units that wait for it look again.
func (tree *Tree) Ease(q *Queue) {
	tree.easeCount++
	q.eased = tree.easeCount
	tree.changedQueues.Note(q, &q.noted)
}
