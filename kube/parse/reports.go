package parse

import (
	nodev1alpha1 "hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/cluster/facts"
)

// NodeReport parses a CustomNodeResource. What cannot be read promises nothing.
func (p *Parser) NodeReport(n *nodev1alpha1.CustomNodeResource) *facts.NodeReport {
	shape, held, err := NodeNUMANodes(&n.Status.NodeStatus)
	if err != nil {
		p.warner.Warn("customnoderesource "+n.Name, "the report is malformed, so that nothing is promised by NUMA node", "err", err)
		return &facts.NodeReport{Why: facts.ReportMalformed, Headroom: facts.Headroom{State: facts.HeadroomMalformed, Note: "the report as a whole"}}
	}
	r := &facts.NodeReport{NUMANodes: shape, Held: held}
	if r.Headroom, r.Evictions, err = NodeHeadroom(n.Status.Colocation); err != nil {
		p.warner.Warn("customnoderesource "+n.Name, "what the node lends is malformed, so that it lends nothing", "err", err)
	}
	p.reportDevices(n, r)
	return r
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
