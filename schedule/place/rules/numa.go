package rules

import (
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/topology"
)

// NUMA nodes: what dedicated pods, and shared ones that are bound, ask of a node's NUMA nodes.

func fitsNUMA(s *cluster.State, slot cluster.Slot, c *cluster.Class) bool {
	if c.NUMANodes.IsZero() {
		return true
	}
	g, ok := offerNUMA(s, slot, c)
	return ok && (asksTogether(s, slot, c) || s.FitsExcess(slot, c, &g))
}

// offerNUMA is the part of State.Offer that is about NUMA nodes, where nothing has to be near them.
func offerNUMA(s *cluster.State, slot cluster.Slot, c *cluster.Class) (topology.NUMAGrant, bool) {
	if s.Report(slot) == nil {
		return topology.NUMAGrant{}, false
	}
	shape, free := s.NUMANodes(slot)
	return topology.OfferNUMA(shape, free, c.NUMANodes)
}

func commitsNUMA(s *cluster.State, slot cluster.Slot, c *cluster.Class, grant *topology.Grant) bool {
	if c.NUMANodes.IsZero() {
		return grant.NUMANodes.IsZero()
	}
	shape, free := s.NUMANodes(slot)
	return fitsNUMA(s, slot, c) && free.Fits(shape, c.NUMANodes, &grant.NUMANodes) && s.FitsExcess(slot, c, &grant.NUMANodes)
}

// numaLack is what keeps a pod that asks for NUMA nodes off a node.
type numaLack int

const (
	LacksReport numaLack = iota
	LacksFreshReport
	LacksReadableReport
	LacksPolicies   // that keep promises true
	LacksAgent      // the kubelet rules the CPUs
	LacksShared     // an agent that keeps pods of shared pools in NUMA nodes
	LacksSeparation // an agent that keeps pods apart that load the memory and suffer from that
	LacksTold       // the machine has NUMA nodes that cannot be told apart, or none
	LacksWhole      // unused NUMA nodes, for pods that must have them alone
	LacksCores
	LacksMemory
	LacksSuited // NUMA nodes without pods that the pod's bandwidth does not suit
	LacksRest   // room for what whole cores and NUMA nodes take beyond the request
)

// NUMALackOf says why a node's NUMA nodes refuse a class.
func NUMALackOf(s *cluster.State, slot cluster.Slot, c *cluster.Class) numaLack {
	shape, free := s.NUMANodes(slot)
	r := s.Report(slot)
	switch {
	case r == nil:
		return LacksReport
	case r.Why == facts.ReportMalformed:
		return LacksReadableReport
	case r.Why == facts.ReportUnguarded:
		return LacksPolicies
	case shape.Ruler == topology.RulerNone:
		return LacksFreshReport
	case shape.Ruler == topology.RulerKubelet:
		return LacksAgent
	case shape.NUMANodes == 0:
		return LacksTold
	case c.NUMANodes.Binding == topology.BoundShared && !shape.BindsShared:
		return LacksShared
	case c.NUMANodes.Bandwidth != topology.BandwidthUnsaid && !shape.SeparatesBandwidth:
		return LacksSeparation
	}
	if _, ok := topology.OfferNUMA(shape, free, c.NUMANodes); ok {
		return LacksRest
	}
	ask := c.NUMANodes
	ask.Bandwidth = topology.BandwidthUnsaid
	if _, ok := topology.OfferNUMA(shape, free, ask); ok {
		return LacksSuited
	}
	ask.Memory = 0
	_, ok := topology.OfferNUMA(shape, free, ask)
	switch {
	case ok:
		return LacksMemory
	case ask.Binding == topology.Exclusive:
		return LacksWhole
	}
	return LacksCores
}

// suitedWhy says why LacksSuited.
var suitedWhy = map[topology.Bandwidth]string{
	topology.BandwidthIntensive: "node(s) had room only in NUMA nodes of bandwidth-sensitive pods",
	topology.BandwidthSensitive: "node(s) had room only in NUMA nodes of memory-intensive pods",
}

func whyNUMA(s *cluster.State, slot cluster.Slot, c *cluster.Class, add func(string)) {
	switch NUMALackOf(s, slot, c) {
	case LacksReport:
		add("node(s) had no NUMA node report")
	case LacksFreshReport:
		add("node(s) had no fresh NUMA node report")
	case LacksReadableReport:
		add("node(s) had an unreadable NUMA node report")
	case LacksPolicies:
		add("node(s) promised no NUMA nodes while the admission policies are not in force")
	case LacksAgent:
		add("node(s) left their CPUs to the kubelet")
	case LacksShared:
		add("node(s) had an agent that keeps no shared pods in NUMA nodes")
	case LacksSeparation:
		add("node(s) had an agent that does not separate pods by memory bandwidth")
	case LacksSuited:
		add(suitedWhy[c.NUMANodes.Bandwidth])
	case LacksTold:
		add("node(s) had no NUMA nodes that could be promised")
	case LacksWhole:
		add("node(s) had too few unused NUMA nodes")
	case LacksCores:
		if c.NUMANodes.Binding == topology.BoundShared {
			add("node(s) had too few CPUs in one set of NUMA nodes")
			return
		}
		add("node(s) had too few exclusive cores in one set of NUMA nodes")
	case LacksMemory:
		add("node(s) had too little memory in one set of NUMA nodes")
	case LacksRest:
		add("node(s) had no room for the whole cores or NUMA nodes that the pod would occupy")
	}
}

// scoreNUMAPacking keeps whole NUMA nodes whole. For a dedicated pod a node scores higher if less would be left of the NUMA nodes that the pod would
// use. Nodes on which the kubelet assigns the CPUs score 0. Pods that ask for no NUMA nodes score the same everywhere.
func scoreNUMAPacking(_ *Profile, s *cluster.State, slot cluster.Slot, c *cluster.Class) int64 {
	if c.NUMANodes.IsZero() {
		return 0
	}
	shape, free := s.NUMANodes(slot)
	grant, ok := topology.OfferNUMA(shape, free, c.NUMANodes)
	if !ok || grant.IsZero() {
		return 0
	}
	var left, all int64
	for z := range int(shape.NUMANodes) {
		if grant.CPUs[z] > 0 {
			left += int64(free[z].CPUs) - int64(grant.CPUs[z])
			all += int64(shape.NUMANode[z].CPUs)
		}
	}
	if all == 0 {
		return 0
	}
	return MaxScore - min(max(left, 0), all)*MaxScore/all
}
