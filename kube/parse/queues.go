package parse

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

// defaultHalfLife is that of a queue with the policy FairHistory that names none.
const defaultHalfLife = 7 * 24 * time.Hour

// sortPolicies give the names of the API the ledger's. What is unknown or empty is SortDefault.
var sortPolicies = map[v1alpha1.SortPolicy]facts.SortPolicy{
	v1alpha1.SortPriorityFIFO:  facts.PriorityFIFO,
	v1alpha1.SortFIFO:          facts.FIFO,
	v1alpha1.SortFair:          facts.Fair,
	v1alpha1.SortFairHistory:   facts.FairHistory,
	v1alpha1.SortSmallestFirst: facts.SmallestFirst,
}

// Queue parses a Queue. What the CRD should have refused is read as the nearest thing that can be: a spec that was stored before the CRD
// knew better must not stop anything.
func (p *Parser) Queue(q *v1alpha1.Queue) *facts.Queue {
	s := &q.Spec
	seen := &facts.Queue{
		Name: p.strings.get(q.Name), Parent: p.strings.get(s.Parent), UID: facts.UID(q.UID), Generation: q.Generation,
		Guaranteed: p.amounts.shares(s.Guaranteed), Max: p.amounts.shares(s.Max),
		Weight:         min(max(s.Weight, 1), maxWeight),
		Sort:           sortPolicies[s.SortPolicy],
		BorrowsNothing: s.Borrowing == v1alpha1.Never,
		KeepsBorrowed:  s.Reclaim == v1alpha1.Never,
		NeverPreempts:  s.Preemption == v1alpha1.PreemptNever,
	}
	if seen.Sort == facts.FairHistory {
		seen.HalfLife = int64(defaultHalfLife)
		if s.HistoryHalfLife != nil && s.HistoryHalfLife.Duration > 0 {
			seen.HalfLife = int64(s.HistoryHalfLife.Duration)
		}
	}
	if s.ReclaimMinRuntime != nil {
		seen.ReclaimMinRuntime = new(int64(min(max(s.ReclaimMinRuntime.Duration, 0), maxMinRuntime)))
	}
	if s.NamespaceSelector != nil {
		selected, err := p.constraints.selector(s.NamespaceSelector)
		if err != nil {
			p.warner.Warn("queue "+q.Name, "spec.namespaceSelector is malformed, so that it selects no namespace", "err", err)
		} else {
			seen.Namespaces = &selected
		}
	}
	return seen
}

const (
	maxWeight = 1_000_000
	// maxMinRuntime is what the CRD allows, so that a time and a minimum runtime can be added up.
	maxMinRuntime = 87600 * time.Hour
)

// shares lists what a queue is given, sorted by name. A zero is kept: it means none, where a name that is left out means no limit. GPUs of
// every kind are summed as thousandths of one.
func (a amounts) shares(list corev1.ResourceList) []resource.Quantity {
	var out []resource.Quantity
	var gpus int64
	hasGPUs := false
	for name, q := range list {
		value := max(amount(name, &q), 0)
		if whole := wholeGPU(name); whole > 0 {
			if times := topology.FullGPU / whole; value > resource.MaxSum/times {
				value = resource.MaxSum
			} else {
				value *= times
			}
			gpus, hasGPUs = resource.Add(gpus, value), true
			continue
		}
		out = append(out, resource.Quantity{Name: a.strings.get(string(name)), Amount: value})
	}
	if hasGPUs {
		out = append(out, resource.Quantity{Name: spec.ResourceGPUMilli, Amount: gpus})
	}
	slices.SortFunc(out, func(x, y resource.Quantity) int { return cmp.Compare(x.Name, y.Name) })
	return out
}

// SameQueue reports whether two Queues mean the same. The UID and the generation count: the status is of the one and tells the other.
func SameQueue(a, b *facts.Queue) bool {
	return a.Name == b.Name && a.UID == b.UID && a.Generation == b.Generation && facts.SameQueue(a, b)
}
