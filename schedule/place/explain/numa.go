package explain

import (
	"fmt"
	"strconv"
	"strings"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/place/rules"
	"hilbert.dev/hilbert/topology"
)

func lacksNUMA(_ *cluster.State, _ cluster.Slot, _ *cluster.Class, add func(obstacle)) {
	add(obstacle{})
}

func sayNUMA(s *cluster.State, slot cluster.Slot, c *cluster.Class, _ *obstacle) string {
	ask := fmt.Sprintf("%d CPUs, %s, asked", c.NUMANodes.CPUs, c.NUMANodes.Binding)
	switch rules.NUMALackOf(s, slot, c) {
	case rules.LacksReport:
		return "reports no NUMA nodes"
	case rules.LacksFreshReport:
		return "has no fresh report of its NUMA nodes"
	case rules.LacksReadableReport:
		return "has an unreadable report of its NUMA nodes"
	case rules.LacksPolicies:
		return "promises no NUMA nodes while the admission policies are not in force"
	case rules.LacksAgent:
		return "leaves its CPUs to the kubelet, which promises nothing by NUMA node"
	case rules.LacksShared:
		return "has an agent that keeps no shared pods in NUMA nodes"
	case rules.LacksSeparation:
		return "has an agent that does not separate pods by memory bandwidth"
	case rules.LacksSuited:
		return sayUnsuited(s, slot, c.NUMANodes.Bandwidth)
	case rules.LacksTold:
		return "has no NUMA nodes that could be promised"
	case rules.LacksWhole:
		return fmt.Sprintf("has too few unused NUMA nodes (%s; %s)", ask, numaRooms(s, slot, false))
	case rules.LacksMemory:
		return fmt.Sprintf("has too little memory in its NUMA nodes (%s with %d MiB; %s)", ask, c.NUMANodes.Memory, numaRooms(s, slot, true))
	case rules.LacksRest:
		return "has no room for the whole cores or NUMA nodes that the pod would occupy"
	case rules.LacksCores: // below
	}
	if c.NUMANodes.Binding == topology.BoundShared {
		return fmt.Sprintf("has too few CPUs in its NUMA nodes (%s; %s)", ask, numaRooms(s, slot, false))
	}
	return fmt.Sprintf("has too few exclusive cores in its NUMA nodes (%s; %s)", ask, numaRooms(s, slot, false))
}

// sayUnsuited names the NUMA nodes that a pod with the bandwidth is kept off.
func sayUnsuited(s *cluster.State, slot cluster.Slot, b topology.Bandwidth) string {
	shape, free := s.NUMANodes(slot)
	var taken []string
	for z := range int(shape.NUMANodes) {
		if b == topology.BandwidthIntensive && free[z].Sensitive > 0 || b == topology.BandwidthSensitive && free[z].Intensive > 0 {
			taken = append(taken, strconv.Itoa(z))
		}
	}
	who := "bandwidth-sensitive"
	if b == topology.BandwidthSensitive {
		who = "memory-intensive"
	}
	return fmt.Sprintf("has too little room outside NUMA node %s with %s pods (%s pod)", strings.Join(taken, ", "), who, b)
}

// numaRooms lists what is free of each NUMA node: "free by NUMA node 2, 4 closed".
func numaRooms(s *cluster.State, slot cluster.Slot, memory bool) string {
	shape, free := s.NUMANodes(slot)
	rooms := make([]string, shape.NUMANodes)
	for z := range rooms {
		rooms[z] = strconv.Itoa(int(free[z].CPUs))
		if memory {
			rooms[z] = fmt.Sprintf("%d MiB", free[z].Memory)
		}
		if shape.Closed&(1<<z) != 0 {
			rooms[z] += " closed"
		}
	}
	return "free by NUMA node " + strings.Join(rooms, ", ")
}

// The resources of a Change that frees CPUs in one NUMA node.
const (
	exclusiveCPUs = "exclusive CPUs"
	sharedCPUs    = "CPUs"
)

func numaCPUs(c *cluster.Class) string {
	if c.NUMANodes.Binding == topology.BoundShared {
		return sharedCPUs
	}
	return exclusiveCPUs
}

// vacateNUMANode is the fewest CPUs that, free in one NUMA node, would let the pod fit.
func vacateNUMANode(s *cluster.State, slot cluster.Slot, c *cluster.Class, _ *obstacle) (Change, bool) {
	if rules.NUMALackOf(s, slot, c) != rules.LacksCores {
		return Change{}, false
	}
	shape, free := s.NUMANodes(slot)
	best := int64(0)
	for z := range int(shape.NUMANodes) {
		if shape.Closed&(1<<z) != 0 {
			continue
		}
		for more := int64(1); int64(free[z].CPUs)+more <= int64(shape.NUMANode[z].CPUs) && (best == 0 || more < best); more++ {
			supposed := *free
			supposed[z].CPUs += int32(more)
			if g, ok := topology.OfferNUMA(shape, &supposed, c.NUMANodes); ok && s.FitsExcess(slot, c, &g) {
				best = more
			}
		}
	}
	return Change{Kind: Free, Resource: numaCPUs(c), Amount: best, cost: share(best, int64(c.NUMANodes.CPUs))}, best > 0
}

// sayHeadroom continues a sentence that begins with the node.
func sayHeadroom(s *cluster.State, slot cluster.Slot, o *obstacle) string {
	h := s.Headroom(slot)
	switch h.State {
	case facts.HeadroomUnsaid:
		return "reports no headroom for reclaimed pods"
	case facts.HeadroomClosed:
		return "is closed to reclaimed pods (" + h.Note + ")"
	case facts.HeadroomStale:
		return "has no fresh report of headroom"
	case facts.HeadroomMalformed:
		return "has an unreadable report of headroom (" + h.Note + ")"
	case facts.HeadroomOpen: // below
	}
	name := s.KindName(o.kind)
	return fmt.Sprintf("lacks %s (%s asked, %s free of a headroom of %s)", amountOf(name, o.missing), amountText(name, o.asked, up),
		amountText(name, s.Free(slot, o.kind), down), amountText(name, s.Allocatable(slot, o.kind), down))
}

// impliedByHeadroom reports whether this obstacle says no more than that the node lends nothing, which another obstacle says already.
func impliedByHeadroom(s *cluster.State, slot cluster.Slot, c *cluster.Class, kind resource.Kind) bool {
	if !c.AsksReclaimed() || rules.HeadroomRefusal(s, slot) == "" || !s.IsReclaimed(kind) {
		return false
	}
	for _, a := range c.Reclaims() {
		if a.Value > 0 && a.Value > s.Free(slot, a.Kind) {
			return a.Kind != kind
		}
	}
	return true
}
