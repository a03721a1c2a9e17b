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

func lacksZones(_ *cluster.State, _ cluster.Slot, _ *cluster.Class, add func(obstacle)) {
	add(obstacle{})
}

func sayZones(s *cluster.State, slot cluster.Slot, c *cluster.Class, _ *obstacle) string {
	ask := fmt.Sprintf("%d CPUs, %s, asked", c.Zones.CPUs, c.Zones.Binding)
	switch rules.ZoneLackOf(s, slot, c) {
	case rules.LacksReport:
		return "reports no zones"
	case rules.LacksFreshReport:
		return "has no fresh report of its zones"
	case rules.LacksReadableReport:
		return "has an unreadable report of its zones"
	case rules.LacksAgent:
		return "leaves its CPUs to the kubelet, which promises nothing by zone"
	case rules.LacksTold:
		return "has no zones that could be promised"
	case rules.LacksWhole:
		return fmt.Sprintf("has too few unused zones (%s; %s)", ask, zoneRooms(s, slot, false))
	case rules.LacksMemory:
		return fmt.Sprintf("has too little memory in its zones (%s with %d MiB; %s)", ask, c.Zones.Memory, zoneRooms(s, slot, true))
	case rules.LacksRest:
		return "has no room for the whole cores or zones that the pod would occupy"
	case rules.LacksCores: // below
	}
	return fmt.Sprintf("has too few exclusive cores in its zones (%s; %s)", ask, zoneRooms(s, slot, false))
}

// zoneRooms lists what is free of each zone: "free by zone 2, 4 closed".
func zoneRooms(s *cluster.State, slot cluster.Slot, memory bool) string {
	shape, free := s.Zones(slot)
	rooms := make([]string, shape.Zones)
	for z := range rooms {
		rooms[z] = strconv.Itoa(int(free[z].CPUs))
		if memory {
			rooms[z] = fmt.Sprintf("%d MiB", free[z].Memory)
		}
		if shape.Closed&(1<<z) != 0 {
			rooms[z] += " closed"
		}
	}
	return "free by zone " + strings.Join(rooms, ", ")
}

// exclusiveCPUs is the resource of a Change that frees CPUs in one zone.
const exclusiveCPUs = "exclusive CPUs"

// vacateZone is the fewest CPUs that, free in one zone, would let the pod fit.
func vacateZone(s *cluster.State, slot cluster.Slot, c *cluster.Class, _ *obstacle) (Change, bool) {
	if rules.ZoneLackOf(s, slot, c) != rules.LacksCores {
		return Change{}, false
	}
	shape, free := s.Zones(slot)
	best := int64(0)
	for z := range int(shape.Zones) {
		if shape.Closed&(1<<z) != 0 {
			continue
		}
		for more := int64(1); int64(free[z].CPUs)+more <= int64(shape.Zone[z].CPUs) && (best == 0 || more < best); more++ {
			supposed := *free
			supposed[z].CPUs += int32(more)
			if g, ok := topology.OfferZones(shape, &supposed, c.Zones); ok && s.FitsExcess(slot, c, &g) {
				best = more
			}
		}
	}
	return Change{Kind: Free, Resource: exclusiveCPUs, Amount: best, cost: share(best, int64(c.Zones.CPUs))}, best > 0
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

// impliedByHeadroom reports whether one obstacle stands for all that is asked of a node which lends nothing, and this is not it.
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
