package report

import (
	"reflect"
	"slices"

	"hilbert.dev/hilbert/api/spec"
)

// Change is how much of a report has changed since it was last written.
type Change uint8

// The changes.
const (
	// Same: nothing.
	Same Change = iota
	// Minor: what only people look at, pools and the words of conditions. Pods come and go, and with them the pools; that alone would keep
	// every node writing.
	Minor
	// Major: what the scheduler acts on, or a condition that holds or no longer does.
	Major
	// Urgent: less can be lent than was reported, or a pod has to leave. Until the scheduler knows, it sends more pods.
	Urgent
)

// Compare says how much has changed. With nothing written yet, old is nil.
func Compare(old, now *spec.NodeReport) Change {
	switch {
	case old != nil && Less(old.Status.Colocation, now.Status.Colocation):
		return Urgent
	case old == nil || !sameNUMANodes(old.Status, now.Status) || !slices.EqualFunc(old.Conditions, now.Conditions, sameState):
		return Major
	case !reflect.DeepEqual(old, now):
		return Minor
	}
	return Same
}

// sameNUMANodes compares all but the pools, and of colocation only what is promised.
func sameNUMANodes(a, b spec.NodeStatus) bool {
	a.Pools, b.Pools = nil, nil
	a.Colocation, b.Colocation = promised(a.Colocation), promised(b.Colocation)
	return reflect.DeepEqual(a, b)
}

// promised is what the scheduler acts on.
func promised(c *spec.Colocation) *spec.Colocation {
	if c == nil {
		return nil
	}
	out := &spec.Colocation{Headroom: c.Headroom, Closed: c.Closed, Suppression: c.Suppression, Evictions: c.Evictions}
	for _, z := range c.NUMANodes {
		out.NUMANodes = append(out.NUMANodes, spec.NUMAHeadroom{Name: z.Name, ReclaimedAmounts: z.ReclaimedAmounts})
	}
	return out
}

// Less reports whether less can be lent than was reported, or a pod has to leave that the last report did not name.
func Less(old, now *spec.Colocation) bool {
	switch {
	case old == nil:
		return false
	case now == nil:
		return old.Headroom != (spec.ReclaimedAmounts{})
	case now.Headroom.MilliCPU < old.Headroom.MilliCPU || now.Headroom.MemoryMiB < old.Headroom.MemoryMiB || old.Closed == "" && now.Closed != "":
		return true
	}
	return slices.ContainsFunc(now.Evictions, func(e spec.EvictionRequest) bool {
		return !slices.ContainsFunc(old.Evictions, func(o spec.EvictionRequest) bool { return o.UID == e.UID && (o.Urgent || !e.Urgent) })
	})
}

// sameState compares all but the words.
func sameState(a, b spec.NodeCondition) bool {
	a.Message, b.Message = "", ""
	return a == b
}
