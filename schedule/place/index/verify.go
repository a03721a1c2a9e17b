package index

import (
	"fmt"
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// Verify recounts what partitions and capacities say of every node, and returns an error that names the first difference. It costs time
// proportional to the nodes, each. Tests call it after every step.
func (ix *Index) Verify() error {
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
