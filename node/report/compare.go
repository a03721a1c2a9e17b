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
	// Minor: what can wait for the refresh. That is what only people look at, pools and the words of conditions; pods come and go, and with them the pools. And
	// it is headroom that has changed a little, which a node that lends says again within seconds: memory that the kernel caches in and drops would keep
	// every node writing.
	Minor
	// Major: what the scheduler acts on, a condition that holds or no longer does, or an event that was not told yet.
	Major
	// Urgent: less can be lent than reclaimed pods were promised, or a pod has to leave. Until the scheduler knows, it sends more pods.
	Urgent
)

// bigFall is the part of the headroom that was reported by which it must have fallen to be told before the refresh.
const bigFall = 0.25

// Compare says how much has changed. With nothing written yet, old is nil. promised is what the reclaimed pods of the node may hold.
func Compare(old, now *spec.NodeReport, promised spec.ReclaimedAmounts) Change {
	switch {
	case old != nil && (Less(old.Status.Colocation, now.Status.Colocation, promised) || broken(old.Status.BrokenPromises, now.Status.BrokenPromises)):
		return Urgent
	case old == nil || happened(old.Status.Events, now.Status.Events) || !sameNUMANodes(old.Status, now.Status) || !slices.EqualFunc(old.Conditions, now.Conditions, sameState):
		return Major
	case !reflect.DeepEqual(old, now):
		return Minor
	}
	return Same
}

// broken reports whether a promise is broken that was not before.
func broken(old, now []spec.BrokenPromise) bool {
	return slices.ContainsFunc(now, func(b spec.BrokenPromise) bool {
		return !slices.ContainsFunc(old, func(o spec.BrokenPromise) bool { return o.UID == b.UID })
	})
}

// happened reports whether there is an event that was not told yet. That one was repeated can wait.
func happened(old, now []spec.NodeEvent) bool {
	same := func(a, b *spec.NodeEvent) bool {
		return a.Reason == b.Reason && a.First.Equal(b.First) && (a.Pod == nil) == (b.Pod == nil) && (a.Pod == nil || *a.Pod == *b.Pod)
	}
	return slices.ContainsFunc(now, func(e spec.NodeEvent) bool {
		return !slices.ContainsFunc(old, func(o spec.NodeEvent) bool { return same(&o, &e) })
	})
}

// sameNUMANodes compares all but the pools and the events, and of colocation only what must be told before the refresh.
func sameNUMANodes(a, b spec.NodeStatus) bool {
	near := a.Colocation != nil && b.Colocation != nil && nearby(a.Colocation.Headroom, b.Colocation.Headroom)
	a.Pools, b.Pools, a.Events, b.Events, a.Health, b.Health = nil, nil, nil, nil, nil, nil
	a.Interference, b.Interference = found(a.Interference), found(b.Interference)
	a.Overcommit, b.Overcommit = promised(a.Overcommit), promised(b.Overcommit)
	a.Colocation, b.Colocation = acted(a.Colocation, near), acted(b.Colocation, near)
	return reflect.DeepEqual(a, b)
}

// found is what is to be told at once of harm: who is harmed by whom, what is done, and who is to be kept apart.
func found(i *spec.Interference) *spec.Interference {
	if i == nil {
		return nil
	}
	return &spec.Interference{Mode: i.Mode, Findings: i.Findings, Apart: i.Apart}
}

// promised is what the scheduler acts on of over-commitment.
func promised(o *spec.NodeOvercommitStatus) *spec.NodeOvercommitStatus {
	if o == nil {
		return nil
	}
	return &spec.NodeOvercommitStatus{Percent: o.Percent, ExtraMilliCPU: o.ExtraMilliCPU, Reason: o.Reason}
}

// nearby reports whether headroom has changed so little that it can wait. A node that lent nothing before is not refreshed soon.
func nearby(old, now spec.ReclaimedAmounts) bool {
	near := func(old, now int64) bool { return old > 0 && float64(now) >= (1-bigFall)*float64(old) || old == now }
	return near(old.MilliCPU, now.MilliCPU) && near(old.MemoryMiB, now.MemoryMiB)
}

// acted is what the scheduler acts on; without the amounts, all but these.
func acted(c *spec.Colocation, withoutAmounts bool) *spec.Colocation {
	if c == nil {
		return nil
	}
	out := &spec.Colocation{Closed: c.Closed, Suppression: c.Suppression, Evictions: c.Evictions}
	if withoutAmounts {
		return out
	}
	out.Headroom = c.Headroom
	for _, z := range c.NUMANodes {
		out.NUMANodes = append(out.NUMANodes, spec.NUMAHeadroom{Name: z.Name, ReclaimedAmounts: z.ReclaimedAmounts})
	}
	return out
}

// Less reports whether less can be lent than was reported and than is promised, or a pod has to leave that the last report did not name.
func Less(old, now *spec.Colocation, promised spec.ReclaimedAmounts) bool {
	switch {
	case old == nil:
		return false
	case now == nil:
		return old.Headroom != (spec.ReclaimedAmounts{})
	case old.Closed == "" && now.Closed != "":
		return true
	}
	short := func(old, now, promised int64) bool { return now < old && now < promised }
	if short(old.Headroom.MilliCPU, now.Headroom.MilliCPU, promised.MilliCPU) || short(old.Headroom.MemoryMiB, now.Headroom.MemoryMiB, promised.MemoryMiB) {
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
