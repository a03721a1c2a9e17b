package index

import (
	"fmt"
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// Verify recounts what the forest, partitions and capacities say of every node, and returns an error that names the first difference. It costs time
// proportional to the nodes, each. Tests call it after every step.
func (ix *Index) Verify() error {
	if ix.search.forest.generation != 0 {
		if err := ix.search.forest.verify(ix); err != nil {
			return err
		}
	}
	if len(ix.partitions) > MaxPartitions {
		return fmt.Errorf("%d partitions are kept, %d may be", len(ix.partitions), MaxPartitions)
	}
	for _, d := range ix.partitions {
		d.follow(&ix.snapshot.State)
		if err := d.verify(&ix.snapshot.State); err != nil {
			return err
		}
	}
	for _, x := range ix.capacities {
		x.follow(ix)
		if err := x.verify(ix); err != nil {
			return err
		}
	}
	return nil
}

// verify follows every tree from its root.
func (f *forest) verify(ix *Index) error {
	ix.nodeClasses.follow(&ix.snapshot.State)
	ix.dense.follow(ix)
	f.follow(ix)
	open := 0
	for slot := range f.pageOf {
		if ix.nodeClasses.of[slot] != NoGroup && ix.dense.rows[slot].IsOpen() {
			open++
		}
	}
	for group := range f.trees {
		t := &f.trees[group]
		nodes, err := f.verifyPage(ix, t, t.root, int32(group), lastKey)
		if err != nil {
			return fmt.Errorf("tree of node class %d: %w", group, err)
		}
		if root := &t.pages[t.root]; root.parent != noPage || root.start != 0 {
			return fmt.Errorf("tree of node class %d: its root has the parent %d and the keys from %x", group, root.parent, root.start)
		}
		if nodes != t.nodes || nodes != t.boxes[t.root].Nodes() {
			return fmt.Errorf("tree of node class %d: %d nodes, it says %d and its box %d", group, nodes, t.nodes, t.boxes[t.root].Nodes())
		}
		open -= nodes
	}
	if open != 0 {
		return fmt.Errorf("%d open nodes are in no tree", open)
	}
	return nil
}

// verifyPage follows a page that is to have the keys before until.
func (f *forest) verifyPage(ix *Index, t *tree, id, group int32, until uint64) (nodes int, err error) {
	p := &t.pages[id]
	if p.leaf && p.until != until || !p.leaf && p.start != t.pages[p.children[0]].start {
		return 0, fmt.Errorf("page %d has the keys from %x to %x; its place is for those to %x", id, p.start, p.until, until)
	}
	var box rules.Box
	for i, child := range p.children {
		if p.leaf {
			key := ix.dense.rows[child].CurveKey(ix.dense.ties[child])
			if f.keys[child] != key || key < p.start || key >= until && until != lastKey || f.pageOf[child] != id || ix.nodeClasses.of[child] != group {
				return 0, fmt.Errorf("slot %d of node class %d has the key %x and is said to be in leaf %d; it is in leaf %d, for keys from %x to %x", child, ix.nodeClasses.of[child], key, f.pageOf[child], id, p.start, p.until)
			}
			box.Add(&ix.dense.outlines[child], &ix.dense.rows[child], ix.dense.ties[child])
			nodes++
			continue
		}
		childUntil := until
		if i+1 < len(p.children) {
			childUntil = t.pages[p.children[i+1]].start
		}
		n, err := f.verifyPage(ix, t, child, group, childUntil)
		if err != nil {
			return 0, err
		}
		nodes += n
		box.Merge(&t.boxes[child])
		if at := &t.pages[child]; at.parent != id || at.start >= childUntil {
			return 0, fmt.Errorf("page %d of %d has the parent %d and the keys from %x; its place is for those to %x", child, id, at.parent, at.start, childUntil)
		}
	}
	if box != t.boxes[id] || len(p.children) > 2*maxFill {
		return 0, fmt.Errorf("page %d has the box %+v, its children make %+v", id, t.boxes[id], box)
	}
	return nodes, nil
}

func (d *Partition) verify(s *cluster.State) error {
	listed := 0
	for id := range d.Domains {
		for at, slot := range d.Domains[id].Slots {
			listed++
			if d.Of[slot] != int32(id) || d.position[slot] != int32(at) {
				return fmt.Errorf("%v: slot %d stands in domain %d at %d, but is said to be in %d at %d", d.Keys, slot, id, at, d.Of[slot], d.position[slot])
			}
			for i, key := range d.Keys {
				if value, ok := labelOf(s.Node(slot), key); !ok || value != d.Domains[id].Values[i] {
					return fmt.Errorf("slot %d has %s %q and is in a domain of %v", slot, key, value, d.Domains[id].Values)
				}
			}
		}
	}
	for i := range s.Slots() {
		if node := s.Node(cluster.Slot(i)); node != nil && !slices.ContainsFunc(d.Keys, func(key string) bool { _, ok := labelOf(node, key); return !ok }) {
			listed--
		}
	}
	if listed != 0 {
		return fmt.Errorf("%v: %d nodes too many are in a domain", d.Keys, listed)
	}
	return nil
}

func (x *Capacity) verify(ix *Index) error {
	s := &ix.snapshot.State
	if len(x.totals) > maxTotals {
		return fmt.Errorf("sums of %d partitions are kept, of %d may be", len(x.totals), maxTotals)
	}
	var total int64
	for i := range s.Slots() {
		slot := cluster.Slot(i)
		want := refused
		if s.Node(slot) != nil && rules.FitsIn(rules.Static, s, slot, x.class) {
			want = rules.PodsThatPass(s, slot, x.class)
		}
		if x.pods[i] != want {
			return fmt.Errorf("slot %d has room for %d, the index says %d", i, want, x.pods[i])
		}
		total += int64(max(want, 0))
	}
	if x.total != total {
		return fmt.Errorf("the cluster has room for %d, the index says %d", total, x.total)
	}
	for _, sums := range x.totals {
		want := make([]int64, len(sums.partition.Domains))
		for d := range sums.partition.Domains {
			for _, slot := range sums.partition.Domains[d].Slots {
				want[d] += x.On(slot)
			}
		}
		if got := x.ByDomain(ix, sums.partition); !slices.Equal(got, want) {
			return fmt.Errorf("by %v: %v, a recount says %v", sums.partition.Keys, got, want)
		}
	}
	return nil
}
