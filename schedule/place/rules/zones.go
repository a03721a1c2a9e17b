package rules

import (
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/topology"
)

// Zones: what dedicated pods ask of a node's NUMA nodes.

func fitsZones(s *cluster.State, slot cluster.Slot, c *cluster.Class) bool {
	if c.Zones.IsZero() {
		return true
	}
	g, ok := offerZones(s, slot, c)
	return ok && (asksBoth(c) || s.FitsExcess(slot, c, &g))
}

// offerZones is the part of State.Offer that is about zones, where nothing has to be near them.
func offerZones(s *cluster.State, slot cluster.Slot, c *cluster.Class) (topology.ZoneGrant, bool) {
	if s.Report(slot) == nil {
		return topology.ZoneGrant{}, false
	}
	shape, free := s.Zones(slot)
	return topology.OfferZones(shape, free, c.Zones)
}

func commitsZones(s *cluster.State, slot cluster.Slot, c *cluster.Class, grant *topology.Grant) bool {
	if c.Zones.IsZero() {
		return grant.Zones.IsZero()
	}
	shape, free := s.Zones(slot)
	return fitsZones(s, slot, c) && free.Fits(shape, c.Zones, &grant.Zones) && s.FitsExcess(slot, c, &grant.Zones)
}

// zoneLack is what keeps a dedicated pod off a node.
type zoneLack int

const (
	LacksReport zoneLack = iota
	LacksFreshReport
	LacksReadableReport
	LacksAgent // the kubelet rules the CPUs
	LacksTold  // the machine has zones that cannot be told apart, or none
	LacksWhole // unused zones, for pods that must have them alone
	LacksCores
	LacksMemory
	LacksRest // room for what whole cores and zones take beyond the request
)

// ZoneLackOf says why a node's zones refuse a class.
func ZoneLackOf(s *cluster.State, slot cluster.Slot, c *cluster.Class) zoneLack {
	shape, free := s.Zones(slot)
	r := s.Report(slot)
	switch {
	case r == nil:
		return LacksReport
	case r.Why == facts.ReportMalformed:
		return LacksReadableReport
	case shape.Ruler == topology.RulerNone:
		return LacksFreshReport
	case shape.Ruler == topology.RulerKubelet:
		return LacksAgent
	case shape.Zones == 0:
		return LacksTold
	}
	if _, ok := topology.OfferZones(shape, free, c.Zones); ok {
		return LacksRest
	}
	ask := c.Zones
	ask.Memory = 0
	_, ok := topology.OfferZones(shape, free, ask)
	switch {
	case ok:
		return LacksMemory
	case ask.Binding == topology.Exclusive:
		return LacksWhole
	}
	return LacksCores
}

func whyZones(s *cluster.State, slot cluster.Slot, c *cluster.Class, add func(string)) {
	switch ZoneLackOf(s, slot, c) {
	case LacksReport:
		add("node(s) had no zone report")
	case LacksFreshReport:
		add("node(s) had no fresh zone report")
	case LacksReadableReport:
		add("node(s) had an unreadable zone report")
	case LacksAgent:
		add("node(s) left their CPUs to the kubelet")
	case LacksTold:
		add("node(s) had no zones that could be promised")
	case LacksWhole:
		add("node(s) had too few unused zones")
	case LacksCores:
		add("node(s) had too few exclusive cores in one set of zones")
	case LacksMemory:
		add("node(s) had too little memory in one set of zones")
	case LacksRest:
		add("node(s) had no room for the whole cores or zones that the pod would occupy")
	}
}

// scoreZonePacking keeps whole zones whole: a node is the better for a dedicated pod the less it leaves of the zones that it would touch. Nodes
// on which the kubelet rules get nothing, and pods that ask for no zones are given the same everywhere.
func scoreZonePacking(_ *Profile, s *cluster.State, slot cluster.Slot, c *cluster.Class) int64 {
	if c.Zones.IsZero() {
		return 0
	}
	shape, free := s.Zones(slot)
	grant, ok := topology.OfferZones(shape, free, c.Zones)
	if !ok || grant.IsZero() {
		return 0
	}
	var left, all int64
	for z := range int(shape.Zones) {
		if grant.CPUs[z] > 0 {
			left += int64(free[z].CPUs) - int64(grant.CPUs[z])
			all += int64(shape.Zone[z].CPUs)
		}
	}
	if all == 0 {
		return 0
	}
	return MaxScore - min(max(left, 0), all)*MaxScore/all
}
