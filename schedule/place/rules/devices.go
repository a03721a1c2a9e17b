package rules

import (
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/topology"
)

// GPUs and network cards, and what of a node is held of them together with NUMA nodes and with what plugins bring. Devices are judged by themselves, NUMA nodes by themselves, and both
// at once for pods that ask for both: how near they must be, and what the NUMA nodes that go with the devices take of the node.

// asksDevices reports whether the class asks for GPUs or network cards.
func asksDevices(c *cluster.Class) bool { return !c.GPU.IsZero() || c.GPU.NIC.Count > 0 }

// asksBoth reports whether the class asks for NUMA nodes beside devices, or for NUMA nodes that are near each other.
func asksBoth(c *cluster.Class) bool {
	return !c.NUMANodes.IsZero() && (asksDevices(c) || c.GPU.Near.Level != topology.Anywhere)
}

func FitsGPUs(s *cluster.State, slot cluster.Slot, c *cluster.Class) bool {
	if !asksDevices(c) {
		return true
	}
	v := s.View(slot).WithoutResources()
	_, ok := v.Offer(&c.GPU, nil)
	return ok
}

func commitsGPUs(s *cluster.State, slot cluster.Slot, c *cluster.Class, grant *topology.Grant) bool {
	if !asksDevices(c) {
		return grant.GPUs == 0 && grant.NICs == 0
	}
	v, devices := s.View(slot).WithoutResources(), *grant
	devices.NUMANodes, devices.Resources = topology.NUMAGrant{}, ""
	return v.Fits(&c.GPU, nil, &devices)
}

func whyGPUs(s *cluster.State, slot cluster.Slot, c *cluster.Class, add func(string)) {
	shape := s.Shape(slot)
	switch {
	case LacksDeviceReport(s, slot, c):
		add("node(s) had no fresh report of their devices")
	case shape.Devices != nil && len(shape.Devices.GPU) > 0:
		v := s.View(slot).WithoutResources()
		add("node(s) had " + causes[v.Refusal(&c.GPU, nil).Cause])
	case shape.GPUs == 0 && !c.GPU.IsZero():
		add("node(s) had no GPU")
	case c.GPU.Milli > 0 && !shape.Shareable:
		add("node(s) didn't share their GPUs")
	case c.GPU.Total() <= s.GPUs(slot).Total(*shape):
		add("node(s) had enough GPU in sum but not on whole or single GPUs")
	default:
		add("Insufficient GPU")
	}
}

// LacksDeviceReport reports whether the class asks for what only an agent's report promises, and there is none, or it is too old.
func LacksDeviceReport(s *cluster.State, slot cluster.Slot, c *cluster.Class) bool {
	r := s.Report(slot)
	switch {
	case r == nil || r.Devices == nil:
		return c.GPU.NeedsReport()
	case r.Why == "":
		return false
	}
	return c.GPU.NeedsReport() || r.Devices.Owner == topology.OwnerHilbert
}

// causes continue a phrase that begins with the nodes.
var causes = [...]string{
	topology.Fits:              "devices that have come free",
	topology.Contradictory:     "no way to meet a contradictory request",
	topology.NothingReported:   "no report of their devices",
	topology.NotOurs:           "GPUs that Hilbert may not allocate this way",
	topology.FewGPUs:           "fewer GPUs than asked for",
	topology.FewIdle:           "too few idle GPUs",
	topology.WeakIsolation:     "no GPU with isolation as strong as requested",
	topology.LittleCompute:     "too little compute left on single GPUs",
	topology.LittleGPUMemory:   "too little memory left on single GPUs",
	topology.NoRoomForSlice:    "compute and memory left, but not on one GPU that takes such a slice",
	topology.FewCards:          "too few network cards of the requested kind",
	topology.NoNUMANodes:       "too few exclusive cores in one set of NUMA nodes",
	topology.Apart:             "enough GPUs, but not near enough to each other",
	topology.NoCardsBeside:     "no free network cards near their GPUs",
	topology.NoNUMABeside:      "no free exclusive cores near their devices",
	topology.FewResources:      "too little of what plugins bring left in their NUMA nodes",
	topology.NoResourceNear:    "too little of what plugins bring left in one NUMA node with the rest",
	topology.NoPlaces:          "no agent that counts what is asked for by NUMA node",
	topology.LargerThanMachine: "no part, even empty, that could hold the pod with devices as near as requested",
}

// asksTogether reports whether what the class asks of a node is judged all at once: asksBoth, or something that plugins bring there by NUMA node. Where it must be
// near, a node that does not count it so is refused.
func asksTogether(s *cluster.State, slot cluster.Slot, c *cluster.Class) bool {
	return asksBoth(c) || c.GPU.Resources != "" && (c.GPU.Near.Required || s.CountsResources(slot))
}

func fitsNear(s *cluster.State, slot cluster.Slot, c *cluster.Class) bool {
	if !asksTogether(s, slot, c) {
		return true
	}
	_, ok := s.Offer(slot, c)
	return ok
}

func commitsNear(s *cluster.State, slot cluster.Slot, c *cluster.Class, grant *topology.Grant) bool {
	if !asksTogether(s, slot, c) {
		return grant.Resources == ""
	}
	v := s.View(slot)
	return fitsNear(s, slot, c) && v.Fits(&c.GPU, &c.NUMANodes, grant)
}

func whyNear(s *cluster.State, slot cluster.Slot, c *cluster.Class, add func(string)) {
	v := s.View(slot)
	if r := v.Refusal(&c.GPU, &c.NUMANodes); r.Cause != topology.Fits {
		add("node(s) had " + causes[r.Cause])
		return
	}
	add("node(s) had no room for the whole cores or NUMA nodes that the pod would occupy")
}
