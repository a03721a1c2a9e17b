package schedule

import (
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/dispatch"
)

// observeEvery is how often the partitions are thought over. It costs a look at each node.
const observeEvery = 10 * time.Second

// maxImbalance is how unevenly free capacity may lie in the partitions before the nodes are divided again.
const maxImbalance = 0.25

// partitions divide the nodes among the instances when the cluster is full or Plans conflict, so that instances want different nodes. An instance prefers the
// nodes of its partition and may use all. With one instance there are none, and nothing is observed.
type partitions struct {
	partitioner *dispatch.Partitioner
	store       *cluster.Store
	instances   []*instance
	confined    bool // they see nothing but their partition
	counts      PartitionCounts
	next        time.Time
	last        time.Time
	of          []uint8 // by slot; nil while there is one partition
	division    int     // counts how often the nodes were divided

	load                    dispatch.Load // at the last look
	plans, rejected, placed int           // since then
}

// partitionRules are the rules that a configuration chooses.
func partitionRules(p *spec.Partitions) dispatch.Rules {
	if p.When != spec.PartitionsByLoad {
		return dispatch.DefaultRules()
	}
	return dispatch.Rules{
		SplitAllocated: float64(p.SplitAllocatedPercent) / 100, MergeAllocated: float64(p.MergeAllocatedPercent) / 100,
		SplitPerSecond: float64(p.SplitPodsPerSecond), MergePerSecond: float64(p.MergePodsPerSecond), SplitConflicts: p.SplitRejectedPercent / 100,
		SplitAfter: p.SplitAfter.D(), MergeAfter: p.MergeAfter.D(),
	}
}

// PartitionCounts is how the nodes are divided.
type PartitionCounts struct {
	// Partitions there are now; Splits, Merges and Rebalances how often that changed, or the division did.
	Partitions, Splits, Merges, Rebalances int
	// Why there are as many as there are, in words; empty if there was always one.
	Why string
}

// judged counts what became of a Plan.
func (p *partitions) judged(plan *cluster.Plan, v cluster.Verdict) {
	p.plans++
	if v.Committed {
		p.placed += len(plan.Placements)
	} else {
		p.rejected++
	}
}

// due reports whether it is time to think the partitions over.
func (p *partitions) due(now time.Time) bool { return len(p.instances) > 1 && !now.Before(p.next) }

// observe thinks the partitions over. Nobody may decide meanwhile.
func (p *partitions) observe(now time.Time) {
	p.next = now.Add(observeEvery)
	nodes, allocated := p.nodes()
	p.load = dispatch.Load{Allocated: allocated}
	if p.plans > 0 {
		p.load.Conflicts = float64(p.rejected) / float64(p.plans)
	}
	if passed := now.Sub(p.last).Seconds(); !p.last.IsZero() && passed > 0 {
		p.load.PerSecond = float64(p.placed) / passed
	}
	p.last, p.plans, p.rejected, p.placed = now, 0, 0, 0
	p.partition(nodes, now)
}

// instancesChanged has the nodes divided among those that are there now, at the load that was last seen: what was placed since then says too little.
func (p *partitions) instancesChanged(now time.Time) {
	if p.due(now) || p.last.IsZero() {
		p.observe(now)
	} else {
		nodes, _ := p.nodes()
		p.partition(nodes, now)
	}
	p.divide(p.of) // who is new has a partition, whether the division is another one or not
}

// partition divides the nodes if the partitioner says so.
func (p *partitions) partition(nodes []dispatch.Node, now time.Time) {
	p.load.Schedulers = len(p.instances)
	before := p.partitioner.Parts()
	why := p.partitioner.Observe(now, p.load)
	changed := why != ""
	if changed {
		p.counts.Why = why
	}
	switch parts := p.partitioner.Parts(); {
	case changed && parts == 1:
		p.divide(nil)
		p.counts.Merges++
	case changed:
		p.divide(dispatch.Divide(nodes, parts, p.store.Slots()))
		if parts > before {
			p.counts.Splits++
		} else {
			p.counts.Merges++
		}
	case parts > 1 && (len(p.of) < p.store.Slots() || dispatch.Imbalance(nodes, p.of, parts) > maxImbalance):
		p.divide(dispatch.Divide(nodes, parts, p.store.Slots()))
		p.counts.Rebalances++
	}
}

// nodes are what is divided, and the part of all CPUs that is allocated.
func (p *partitions) nodes() (list []dispatch.Node, allocated float64) {
	var all, requested int64
	for i := range p.store.Slots() {
		slot := cluster.Slot(i)
		if p.store.Node(slot) == nil {
			continue
		}
		has, taken := p.store.Allocatable(slot, resource.CPU), p.store.Requested(slot, resource.CPU)
		all, requested = all+has, requested+taken
		list = append(list, dispatch.Node{Slot: i, Kind: has, Free: max(has-taken, 0)})
	}
	if all > 0 {
		allocated = float64(requested) / float64(all)
	}
	return list, allocated
}

// divide gives each instance its partition; nil: all have all nodes.
func (p *partitions) divide(of []uint8) {
	p.of = of
	p.division++
	for i, in := range p.instances {
		in.divided, in.part = of != nil, uint8(i%max(p.partitioner.Parts(), 1))
		if in.placers == nil {
			continue // it is elsewhere, and told later
		}
		if p.confined {
			in.placers.Confine(of, in.part)
		} else {
			in.placers.Divide(of)
		}
	}
}
