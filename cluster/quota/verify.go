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
		if err := tree.sameAmounts(&t.used, has.Used); err != nil {
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

// sameAmounts compares an account with what its parts sum up to; what the shorter one lacks is zero.
func (tree *Tree) sameAmounts(have *resource.Sums, want Exact) error {
	for i := range max(have.Len(), len(want)) {
		var sum resource.Wide
		if i < len(want) {
			sum = want[i]
		}
		if has := have.Exact(i); has != sum {
			return fmt.Errorf("%s: the account says %s, the sum is %s", tree.kinds.Name(resource.Kind(i)), has, sum)
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
	used := make(Exact, tree.kinds.Len())
	for _, t := range q.tenants {
		if t.queue != q || tree.tenants[t.Namespace] != t {
			return fmt.Errorf("queue %s counts namespace %s, which feeds another", q.Name, t.Namespace)
		}
		used.addAll(&t.used)
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
		used.addAll(&child.used)
		for kind := range guaranteed {
			guaranteed[kind] = resource.Add(guaranteed[kind], child.Guaranteed(resource.Kind(kind)))
		}
	}
	if err := tree.sameAmounts(&q.used, used); err != nil {
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

// Exact is sums by Kind that never saturate, to verify with.
type Exact []resource.Wide

// Add adds an amount.
func (e *Exact) Add(kind resource.Kind, amount int64) {
	for len(*e) <= int(kind) {
		*e = append(*e, resource.Wide{})
	}
	(*e)[kind] = (*e)[kind].Plus(resource.Widen(amount))
}

func (e Exact) addAll(column *resource.Sums) {
	for i := range column.Len() {
		e[i] = e[i].Plus(column.Exact(i))
	}
}

// Holding is what pods hold, summed by the caller.
type Holding struct {
	Used Exact
	Pods int
}

// Add counts a pod; without amounts it holds nothing.
func (h *Holding) Add(amounts resource.List) {
	h.Pods++
	for _, a := range amounts {
		h.Used.Add(a.Kind, a.Value)
	}
}

// Verify holds the tree against what the pods of each namespace hold, how many differ from their classes, and what the nodes provide, and
// returns the first difference. That a
// queue stays within its limits is not among the invariants: others bind pods too, and limits are lowered. See Exceeded.
func (tree *Tree) Verify(holding map[*Tenant]*Holding, capacity Exact, differ int) error {
	for _, t := range tree.tenants {
		differ -= len(t.differs)
	}
	if differ != 0 {
		return fmt.Errorf("%d pods more than are known are charged something of their own", -differ)
	}
	if err := tree.verifyTenants(holding); err != nil {
		return err
	}
	if err := tree.verifyTree(); err != nil {
		return err
	}
	if err := tree.sameAmounts(&tree.capacity, capacity); err != nil {
		return fmt.Errorf("capacity: %w", err)
	}
	return nil
}

// Exceeded returns the queues that hold more than their limit, parents first, without what is about to leave them.
func (tree *Tree) Exceeded(leaving map[*Tenant]*Holding) (over []*Queue) {
	gone := make(map[*Queue]Exact)
	for t, h := range leaving {
		for q := t.queue; q != nil; q = q.parent {
			if gone[q] == nil {
				gone[q] = make(Exact, tree.kinds.Len())
			}
			for kind := range h.Used {
				gone[q][kind] = gone[q][kind].Plus(h.Used[kind])
			}
		}
	}
	tree.Each(func(q *Queue) {
		for kind := range q.limit {
			k := resource.Kind(kind)
			left := q.used.Exact(kind)
			if gone[q] != nil {
				left = left.Minus(gone[q][kind])
			}
			if left.Exceeds(resource.Widen(q.Limit(k))) {
				over = append(over, q)
				return
			}
		}
	})
	return over
}
