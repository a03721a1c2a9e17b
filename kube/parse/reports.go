package parse

import (
	"fmt"
	"slices"
	"time"

	nodev1alpha1 "hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/topology"
)

// maxUsageWindow is a day, in seconds.
const maxUsageWindow = 86_400

// NodeReport parses a CustomNodeResource. What cannot be read promises nothing.
func (p *Parser) NodeReport(n *nodev1alpha1.CustomNodeResource) *facts.NodeReport {
	shape, held, err := NodeNUMANodes(&n.Status.NodeStatus)
	if err != nil {
		p.warner.Warn("customnoderesource "+n.Name, "the report is malformed, so that nothing is promised by NUMA node", "err", err)
		return &facts.NodeReport{Why: facts.ReportMalformed, Headroom: facts.Headroom{State: facts.HeadroomMalformed, Note: "the report as a whole"}, Refused: refusedEvictions(n)}
	}
	r := &facts.NodeReport{NUMANodes: shape, Held: held, Refused: refusedEvictions(n)}
	if r.Headroom, r.Evictions, err = NodeHeadroom(n.Status.Colocation); err != nil {
		p.warner.Warn("customnoderesource "+n.Name, "what the node lends is malformed, so that it lends nothing", "err", err)
	}
	broken, err := BrokenPromises(n.Status.BrokenPromises)
	if err != nil {
		p.warner.Warn("customnoderesource "+n.Name, "the promises that it says are broken are malformed, so that no pod is evicted for them", "err", err)
	}
	for i := range broken {
		if !slices.ContainsFunc(r.Evictions, func(e facts.EvictionRequest) bool { return e.UID == broken[i].UID }) {
			r.Evictions = append(r.Evictions, broken[i])
		}
	}
	if r.Usage, err = NodeUsage(&n.Status); err != nil {
		p.warner.Warn("customnoderesource "+n.Name, "what the node uses is malformed, so that it counts as not known", "err", err)
	}
	if r.Resources, err = NodeResources(n.Status.Resources); err != nil {
		p.warner.Warn("customnoderesource "+n.Name, "what plugins bring is malformed, so that the node has none of it", "err", err)
	}
	if r.ByNUMANode, r.HeldResources, err = ResourcesByNUMANode(&n.Status.NodeStatus); err != nil {
		p.warner.Warn("customnoderesource "+n.Name, "what plugins bring by NUMA node is malformed, so that it counts for the node alone", "err", err)
	}
	if r.Overcommit, err = p.overcommit(n.Status.Overcommit); err != nil {
		p.warner.Warn("customnoderesource "+n.Name, "what the node says of over-commitment is malformed, so that no CPU is promised a second time", "err", err)
	}
	r.Apart = keptApart(n.Status.Interference)
	r.Events = nodeEvents(n.Status.Events)
	p.reportDevices(n, r)
	return r
}

// refusedEvictions are the pods whose eviction is refused, as hilbertd told the node last.
func refusedEvictions(n *nodev1alpha1.CustomNodeResource) (out []facts.UID) {
	for _, p := range n.Spec.RefusedEvictions {
		out = append(out, facts.UID(p.UID))
	}
	return out
}

// NodeUsage turns what a node's agent says of its use into the ledger's terms. Nothing said, or said without a time, is not known.
func NodeUsage(s *nodev1alpha1.CustomNodeResourceStatus) (facts.Usage, error) {
	u := s.Usage
	if u == nil || s.ObservedAt.IsZero() {
		return facts.Usage{}, nil
	}
	switch {
	case u.MilliCPU < 0 || u.MilliCPU > maxMilliCPU:
		return facts.Usage{}, fmt.Errorf("usage.milliCPU: %d; write 0 to %d", u.MilliCPU, maxMilliCPU)
	case u.MemoryMiB < 0 || u.MemoryMiB > maxLentMemory:
		return facts.Usage{}, fmt.Errorf("usage.memoryMiB: %d; write 0 to %d", u.MemoryMiB, int64(maxLentMemory))
	case u.WindowSeconds < 0 || u.WindowSeconds > maxUsageWindow:
		return facts.Usage{}, fmt.Errorf("usage.windowSeconds: %d; write 0 to %d", u.WindowSeconds, maxUsageWindow)
	}
	since := s.ObservedAt.Add(-time.Duration(u.WindowSeconds) * time.Second)
	return facts.Usage{MilliCPU: u.MilliCPU, Memory: u.MemoryMiB * topology.Mebibyte, Since: since.UnixNano()}, nil
}

// reportDevices reads what the node has of GPUs and network cards, and who holds them.
func (p *Parser) reportDevices(n *nodev1alpha1.CustomNodeResource, r *facts.NodeReport) {
	said, err := NodeDevices(&n.Status.NodeStatus)
	if err != nil {
		said.Notes = []string{facts.ReportMalformed + ": " + err.Error()}
		p.warner.Warn("customnoderesource "+n.Name, "what the node says of its devices is malformed, so that none is promised", "err", err)
	}
	r.Devices, r.HeldDevices, r.DeviceNote = p.devices.get(said.Devices), said.Held, deviceNote(said.Notes)
	if said.Odd {
		p.warner.Warn("customnoderesource "+n.Name, "some of the node's devices give nothing, because of what is said of them", "devices", r.DeviceNote)
	}
}

// keptApart are the pairs of pods that the node's agent would rather have apart.
func keptApart(i *spec.Interference) (out []facts.Apart) {
	if i == nil {
		return nil
	}
	for _, h := range i.Apart[:min(len(i.Apart), spec.MaxApartHints)] {
		if h.Victim.UID != "" && h.Culprit.UID != "" && h.Until.Year() < farAway {
			out = append(out, facts.Apart{Victim: facts.UID(h.Victim.UID), Culprit: facts.UID(h.Culprit.UID), Until: h.Until.UnixNano()})
		}
	}
	return out
}

// farAway is a year whose nanoseconds since 1970 are yet a number.
const farAway = 2200
