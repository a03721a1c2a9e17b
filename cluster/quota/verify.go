package quota

import (
	"errors"
	"fmt"

	"hilbert.dev/hilbert/resource"
)

func (tree *Tree) verifyTenants(holding map[*Tenant]*Holding) error {
	for t := range holding {
		if tree.tenants[t.Namespace] != t {
			return fmt.Errorf("a pod of namespace %s is charged to another account than its namespace's", t.Namespace)
		}
	}
	for name, t := range tree.tenants {
		has := holding[t]
		if has == nil {
			has = &Holding{}
		}
		if t.Namespace != name || t.pods != has.Pods || t.pods == 0 {
			return fmt.Errorf("namespace %s has an account of %d pods, there are %d", name, t.pods, has.Pods)
		}
		if err := tree.sameAmounts(t.used, has.Used); err != nil {
			return fmt.Errorf("namespace %s: %w", name, err)
		}
		if q := t.queue; tree.byName[q.Name] != q || t.seat >= len(q.tenants) || q.tenants[t.seat] != t {
			return fmt.Errorf("namespace %s feeds queue %s, which does not know it", name, q.Name)
		}
		if q := tree.queueOf(name); q != t.queue {
			return fmt.Errorf("namespace %s feeds queue %s, should feed %s", name, t.queue.Name, q.Name)
		}
	}
	return nil
}

// sameAmounts compares two columns; what a shorter one lacks is zero.
func (tree *Tree) sameAmounts(have, want []int64) error {
	for i := range max(len(have), len(want)) {
		if kind := resource.Kind(i); at(have, kind, 0) != at(want, kind, 0) {
			return fmt.Errorf("%s: the account says %d, the sum is %d", tree.kinds.Name(kind), at(have, kind, 0), at(want, kind, 0))
		}
	}
	return nil
}

func (tree *Tree) verifyTree() error {
	queues, configured := 0, 0
	var err error
	tree.Each(func(q *Queue) {
		queues++
		if q.Facts != nil {
			configured++
		}
		if tree.byName[q.Name] != q {
			err = errors.Join(err, fmt.Errorf("queue %s is in the tree, but not known", q.Name))
		}
	})
	if err != nil {
		return err
	}
	if queues != len(tree.byName) || configured != tree.configured {
		return fmt.Errorf("%d queues are in the tree, %d of them configured; %d and %d are known", queues, configured, len(tree.byName), tree.configured)
	}
	if tree.root.parent != nil || tree.root.depth != 0 || len(tree.root.tenants) > 0 {
		return errors.New("the root hangs below another queue, or has namespaces")
	}
	return tree.verifyQueue(tree.root)
}

// verifyQueue holds a queue against what is directly below it, and goes on there.
func (tree *Tree) verifyQueue(q *Queue) error {
	used := tree.widen(nil)
	for _, t := range q.tenants {
		if t.queue != q || tree.tenants[t.Namespace] != t {
			return fmt.Errorf("queue %s counts namespace %s, which feeds another", q.Name, t.Namespace)
		}
		for kind, amount := range t.used {
			used[kind] += amount
		}
	}
	guaranteed := tree.widen(nil)
	for i, child := range q.children {
		if child.parent != q || child.depth != q.depth+1 || i > 0 && q.children[i-1].Name >= child.Name {
			return fmt.Errorf("queue %s does not hang in its place below %s", child.Name, q.label())
		}
		if q.Refuses && !child.Refuses {
			return fmt.Errorf("queue %s is open below %s, which is not", child.Name, q.Name)
		}
		if err := tree.verifyQueue(child); err != nil {
			return err
		}
		for kind := range used {
			used[kind] += child.Used(resource.Kind(kind))
			guaranteed[kind] = resource.Add(guaranteed[kind], child.Guaranteed(resource.Kind(kind)))
		}
	}
	if err := tree.sameAmounts(q.used, used); err != nil {
		return fmt.Errorf("queue %s: %w", q.label(), err)
	}
	for kind := range guaranteed {
		k := resource.Kind(kind)
		if g := q.Guaranteed(k); guaranteed[kind] > g || g < 0 || g > q.Limit(k) && q.parent != nil {
			return fmt.Errorf("queue %s: of %s %d are guaranteed at a limit of %d, and %d to its children",
				q.label(), tree.kinds.Name(k), g, q.Limit(k), guaranteed[kind])
		}
	}
	return nil
}

// Holding is what pods hold, summed by the caller.
type Holding struct {
	Used []int64 // by Kind
	Pods int
}

// Add counts a pod; without amounts it holds nothing.
func (h *Holding) Add(amounts resource.List) {
	h.Pods++
	for _, a := range amounts {
		for len(h.Used) <= int(a.Kind) {
			h.Used = append(h.Used, 0)
		}
		h.Used[a.Kind] += a.Value
	}
}

// Verify holds the tree against what the pods of each namespace hold and what the nodes provide, and returns the first difference. That a
// queue stays within its limits is not among the invariants: others bind pods too, and limits are lowered. See Exceeded.
func (tree *Tree) Verify(holding map[*Tenant]*Holding, capacity []int64) error {
	if err := tree.verifyTenants(holding); err != nil {
		return err
	}
	if err := tree.verifyTree(); err != nil {
		return err
	}
	if err := tree.sameAmounts(tree.capacity, capacity); err != nil {
		return fmt.Errorf("capacity: %w", err)
	}
	return nil
}

// Exceeded returns the queues that hold more than their limit, parents first, without what is about to leave them.
func (tree *Tree) Exceeded(leaving map[*Tenant]*Holding) (over []*Queue) {
	gone := make(map[*Queue][]int64)
	for t, h := range leaving {
		for q := t.queue; q != nil; q = q.parent {
			gone[q] = tree.widen(gone[q])
			for kind, amount := range h.Used {
				gone[q][kind] += amount
			}
		}
	}
	tree.Each(func(q *Queue) {
		for kind := range q.limit {
			k := resource.Kind(kind)
			if q.Used(k)-at(gone[q], k, 0) > q.Limit(k) {
				over = append(over, q)
				return
			}
		}
	})
	return over
}
