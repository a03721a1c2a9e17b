package parse

import (
	"fmt"
	"math"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/topology"
)

const (
	// maxMilliCPU and maxLentMemory (MiB) are more than any machine lends.
	maxMilliCPU   = 1000 * topology.MaxCPUs
	maxLentMemory = math.MaxUint32
	// maxEvictionRequests bounds the pods that one node may want evicted at once, maxRequestNotes the bytes of its reason and of its message.
	maxEvictionRequests = 256
	maxRequestNotes     = 256
)

// NodeHeadroom turns what a node's agent says of reclaimed pods into the ledger's terms. Nothing said is HeadroomUnsaid; what contradicts
// itself is HeadroomMalformed with no requests, and the error says what it is.
func NodeHeadroom(c *spec.Colocation) (h facts.Headroom, requests []facts.EvictionRequest, err error) {
	if c == nil {
		return facts.Headroom{}, nil, nil
	}
	if err = checkColocation(c); err != nil {
		return facts.Headroom{State: facts.HeadroomMalformed, Note: shortened(err.Error())}, nil, err
	}
	h = facts.Headroom{State: facts.HeadroomOpen, MilliCPU: c.Headroom.MilliCPU, Memory: c.Headroom.MemoryMiB * topology.Mebibyte}
	if c.Closed != "" {
		h.State, h.Note = facts.HeadroomClosed, shortened(c.Closed)
	}
	for i := range c.Evictions {
		w := &c.Evictions[i]
		requests = append(requests, facts.EvictionRequest{
			UID: facts.UID(w.UID), Namespace: w.Namespace, Name: w.Name, Reason: shortened(w.Reason), Message: shortened(w.Message), Urgent: w.Urgent,
		})
	}
	return h, requests, nil
}

// checkColocation returns the first contradiction. The NUMA nodes' parts must not add up to less than the whole: the node as a whole cannot lend
// what no NUMA node lends.
func checkColocation(c *spec.Colocation) error {
	if err := checkLent("headroom", c.Headroom); err != nil {
		return err
	}
	var sum spec.ReclaimedAmounts
	for i := range c.NUMANodes {
		z := &c.NUMANodes[i]
		if err := checkLent("headroom of NUMA node "+z.Name, z.ReclaimedAmounts); err != nil {
			return err
		}
		sum.MilliCPU, sum.MemoryMiB = sum.MilliCPU+z.MilliCPU, sum.MemoryMiB+z.MemoryMiB
	}
	switch {
	case len(c.NUMANodes) > 0 && (c.Headroom.MilliCPU > sum.MilliCPU || c.Headroom.MemoryMiB > sum.MemoryMiB):
		return fmt.Errorf("headroom of %d millicores and %d MiB, where the NUMA nodes have %d and %d", c.Headroom.MilliCPU, c.Headroom.MemoryMiB, sum.MilliCPU, sum.MemoryMiB)
	case len(c.Evictions) > maxEvictionRequests:
		return fmt.Errorf("%d evictions are asked for; at most %d can be", len(c.Evictions), maxEvictionRequests)
	}
	named := make(map[string]bool, len(c.Evictions))
	for i := range c.Evictions {
		w := &c.Evictions[i]
		if err := checkNamed(spec.PodRef{Namespace: w.Namespace, Name: w.Name, UID: w.UID}, named); err != nil {
			return fmt.Errorf("evictions: %w", err)
		}
	}
	return nil
}

// checkNamed returns what is wrong with a pod's name in a list, and adds it to those that were named.
func checkNamed(p spec.PodRef, named map[string]bool) error {
	if p.UID == "" || p.Name == "" || p.Namespace == "" || named[p.UID] {
		return fmt.Errorf("%s/%s (%q): a name or the UID is missing, or it stands twice", p.Namespace, p.Name, p.UID)
	}
	named[p.UID] = true
	return nil
}

// BrokenPromises turns the pods that cannot have what they were promised into requests to evict them. What contradicts itself asks for nothing.
func BrokenPromises(list []spec.BrokenPromise) (requests []facts.EvictionRequest, err error) {
	if len(list) > spec.MaxBrokenPromises {
		return nil, fmt.Errorf("brokenPromises: %d pods; at most %d can be named", len(list), spec.MaxBrokenPromises)
	}
	named := make(map[string]bool, len(list))
	for i := range list {
		w := &list[i]
		if err := checkNamed(w.PodRef, named); err != nil {
			return nil, fmt.Errorf("brokenPromises: %w", err)
		}
		requests = append(requests, facts.EvictionRequest{
			UID: facts.UID(w.UID), Namespace: w.Namespace, Name: w.Name, Reason: spec.ReasonPromiseBroken, Message: shortened(w.Message), Urgent: true, Broken: true,
		})
	}
	return requests, nil
}

func checkLent(what string, a spec.ReclaimedAmounts) error {
	if a.MilliCPU < 0 || a.MilliCPU > maxMilliCPU || a.MemoryMiB < 0 || a.MemoryMiB > maxLentMemory {
		return fmt.Errorf("%s: %d millicores and %d MiB: want 0 to %d and 0 to %d", what, a.MilliCPU, a.MemoryMiB, maxMilliCPU, int64(maxLentMemory))
	}
	return nil
}

// shortened cuts what an agent says.
func shortened(text string) string { return text[:min(len(text), maxRequestNotes)] }
