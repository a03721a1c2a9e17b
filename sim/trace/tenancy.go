package trace

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
)

// Labels of the levels of the network, as spec.Topology has them by default.
const (
	LabelBlock = "topology.hilbert.dev/block"
	LabelRack  = "topology.hilbert.dev/rack"
)

const (
	rackNodes   = 4 // nodes of a synthetic rack
	blockRacks  = 3
	queueLevels = 3
)

// tenancy gives the tasks of a workload namespaces, queues and gangs. It draws from a stream of its own, so that nodes, classes and arrivals
// are those of the workload without.
//
// Each queue has a namespace that names it by a label. The first half of the queues hangs under the root; others where chance has it, three
// levels at most. Guarantees together are at most the capacity. One queue in three has a limit, one in eight borrows nothing, one in eight
// keeps what it has borrowed. Pods that are tied to others keep their namespace.
func (s Synthetic) tenancy(w *Workload, random *rand.Rand) {
	w.wire()
	w.queues(s.Queues, random)
	if w.Identities == nil {
		w.Identities = make(map[string]Identity)
	}
	for from := 0; from < len(w.Tasks); {
		to := from + 1
		for to < len(w.Tasks) && w.Tasks[to].Group == w.Tasks[from].Group && w.Tasks[to].Created == w.Tasks[from].Created {
			to++
		}
		burst := w.Tasks[from:to]
		ns := w.rehome(burst, s.Queues, random)
		if random.IntN(100) < s.Gangs {
			w.gang(burst, ns, s.GangSize, random)
		}
		from = to
	}
	w.sort()
	slices.SortStableFunc(w.Units, func(a, b Unit) int { return int(a.Facts.Created/1000 - b.Facts.Created/1000) })
}

// wire labels nodes with their place in the network.
func (w *Workload) wire() {
	for i, n := range w.Nodes {
		labels := maps.Clone(n.Labels)
		labels[LabelBlock] = fmt.Sprintf("b%d", i/rackNodes/blockRacks)
		labels[LabelRack] = fmt.Sprintf("r%d", i/rackNodes)
		labels[facts.HostnameKey] = n.Name
		n.Labels = labels
	}
}

func team(i int) string { return fmt.Sprintf("team-%d", i) }

// queues invents a tree of queues, and a namespace for each.
func (w *Workload) queues(count int, random *rand.Rand) {
	capacity := w.Capacity()
	levels := make([]int, count)
	for i := range count {
		f := &facts.Queue{
			Name: team(i), Weight: int64(1 + random.IntN(4)), Sort: facts.SortPolicy(random.IntN(int(facts.SmallestFirst) + 1)), Generation: 1,
			BorrowsNothing: random.IntN(8) == 0, KeepsBorrowed: random.IntN(8) == 0, NeverPreempts: random.IntN(8) == 0,
		}
		if f.Sort == facts.FairHistory {
			f.HalfLife = int64(10 * time.Minute)
		}
		if i%3 == 1 { // not drawn, so that the rest of a workload is as it was
			f.ReclaimMinRuntime = new(int64(time.Duration(f.Weight-1) * 30 * time.Second))
		}
		levels[i] = 1
		if up := random.IntN(max(i, 1)); i > count/2 && levels[up] < queueLevels {
			f.Parent, levels[i] = team(up), levels[up]+1
		}
		share := int64(random.IntN(100)) // percent of an equal part
		f.Guaranteed = portion(capacity, share, int64(count)*100)
		if random.IntN(3) == 0 {
			f.Max = portion(capacity, max(share, 10)*int64(1+random.IntN(4)), int64(count)*100)
		}
		w.Queues = append(w.Queues, f)
		w.Namespaces = append(w.Namespaces, facts.Namespace{Name: team(i), Labels: []facts.Label{{Key: spec.LabelQueue, Value: team(i)}}})
	}
}

// portion is a part of the capacity, in whole cores, GiB and GPUs.
func portion(c Capacity, part, of int64) []resource.Quantity {
	return []resource.Quantity{
		{Name: resource.NameCPU, Amount: c.CPU / of * part / 1000 * 1000},
		{Name: resource.NameMemory, Amount: c.Memory / of * part >> 30 << 30},
		{Name: spec.ResourceGPUMilli, Amount: c.GPUMilli * part / of / 1000 * 1000},
	}
}

// rehome gives a burst to one of the teams, and returns its namespace.
func (w *Workload) rehome(burst []Task, queues int, random *rand.Rand) string {
	id, r := w.Identities[burst[0].Group], burst[0].Requirements
	tied := id.Owner.Name != "" || len(r.Spread)+len(r.Affinity)+len(r.AntiAffinity)+len(r.PreferredPods) > 0
	if queues > 0 && !tied {
		id.Namespace = team(random.IntN(queues))
		group := burst[0].Group + "@" + id.Namespace
		w.Identities[group] = id
		for i := range burst {
			burst[i].Group = group
		}
	}
	if id.Namespace == "" {
		return "default"
	}
	return id.Namespace
}

// gang makes a burst gangs: most need all of their members, some leave room to shrink, and one in twenty waits for a member that never comes.
// Some members come late, some PodGroups after their pods, and some go before them. Members of a gang that ends run equally long.
func (w *Workload) gang(burst []Task, namespace string, largest int, random *rand.Rand) {
	for len(burst) > 0 {
		members := burst[:min(1+random.IntN(largest), len(burst))]
		burst = burst[len(members):]
		first := members[0]
		f := &facts.Unit{
			UnitName: facts.UnitName{Namespace: namespace, Name: "gang-" + first.Name}, UID: facts.UID("gang-" + first.Name),
			Created: first.Created + random.Int64N(int64(5*time.Second)), MinMember: int32(len(members)),
		}
		switch random.IntN(6) {
		case 0:
			f.Indivisible = true
		case 1:
			f.Divisible = true
		}
		switch random.IntN(20) {
		case 0:
			f.MinMember++
		case 1, 2, 3, 4, 5:
			f.MinMember = int32(1 + random.IntN(len(members)))
		}
		if random.IntN(4) == 0 {
			f.Priority, f.Prioritized = int32(random.IntN(3)*500), true
		}
		f.Topology, f.SubgroupTopology = packing(random)
		unit := Unit{Facts: f, Deleted: Never}
		if first.Deleted != Never && random.IntN(3) == 0 {
			unit.Deleted = f.Created + random.Int64N(int64(10*time.Minute))
		}
		w.Units = append(w.Units, unit)
		parts := 1 + random.IntN(2)
		for i := range members {
			t := &members[i]
			t.Unit = f.Name
			if !f.SubgroupTopology.IsZero() {
				t.Subgroup = fmt.Sprintf("part-%d", i%parts)
			}
			if t.Deleted != Never {
				t.Runs = max(first.Deleted-first.Created, 1)
				t.Deleted = max(t.Deleted, first.Deleted)
				t.Deadline = 2 * t.Runs
			}
			if random.IntN(10) == 0 {
				t.Created += random.Int64N(int64(20 * time.Second))
			}
		}
	}
}

// packing draws what a gang asks of the network.
func packing(random *rand.Rand) (whole, subgroup facts.Packing) {
	switch random.IntN(8) {
	case 0:
		whole.Required = LabelRack
	case 1:
		whole.Required, subgroup.Required = LabelBlock, LabelRack
	case 2:
		whole.Preferred = LabelRack
	case 3:
		whole.Spread = LabelRack
	case 4:
		whole.Uniform = spec.LabelGPUModel
	}
	return whole, subgroup
}
