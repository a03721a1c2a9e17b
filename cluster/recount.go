package cluster

import (
	"cmp"
	"slices"

	"hilbert.dev/hilbert/topology"
)

// left is what is left of a node beside amounts.
type left struct {
	gpus    topology.Free
	zones   topology.ZoneFree
	devices topology.DeviceFree
}

// is reports whether a slot has as much left.
func (l *left) is(s *State, slot Slot) bool {
	if s.gpus[slot] != l.gpus {
		return false
	}
	row := s.rows[slot]
	if row == nil {
		return l.zones == topology.ZoneFree{} && l.devices == topology.DeviceFree{}
	}
	return row.zones == l.zones && (row.devices == nil && l.devices == topology.DeviceFree{} || row.devices != nil && *row.devices == l.devices)
}

// empty fills in what a slot has left when nobody is there, and returns the slot with that.
func (l *left) empty(s *State, slot Slot) topology.View {
	shape := s.Shape(slot)
	v := topology.View{Shape: shape, Free: &l.gpus, ZoneFree: &l.zones}
	l.gpus = topology.NewFree(*shape)
	if row := s.rows[slot]; row != nil {
		if row.devices != nil {
			l.devices = topology.NewDeviceFree(shape.Devices)
			v.Devices = &l.devices
		}
		if row.report != nil {
			v.Zones = &row.report.Zones
			l.zones = topology.NewZoneFree(v.Zones)
		}
	}
	return v
}

// touches reports whether a pod coming or going changes more of the slot than its own grant: others are guessed, or its node names it.
func (s *Store) touches(slot Slot, pod *Pod) bool {
	if !pod.Class.AsksGrant() && pod.holding().isZero() { // before the row, which is far away in memory
		return false
	}
	if s.guesses[slot] > 0 {
		return true
	}
	row := s.rows[slot]
	if row == nil {
		return false
	}
	_, said := row.report.holds(pod.UID)
	return said != 0
}

// recount counts anew what is left of a slot beside amounts: what is recorded and reported first, then the guesses in UID order, so that the
// result does not depend on the order in which pods were seen. Pods that are lifted for a judgement keep what they have.
func (s *Store) recount(slot Slot) {
	var l left
	v := l.empty(&s.State, slot)
	var guessed []*Pod
	s.guesses[slot] = 0
	report := s.Report(slot)
	for _, pod := range s.onSlot[slot] {
		if !pod.lifted {
			s.confirm(pod, slot, report)
		}
		open := pod.guessed()
		if open != 0 {
			s.guesses[slot]++
		}
		switch {
		case pod.lifted || pod.holding().isZero() && open == 0:
		case open == 0:
			g := pod.Grant()
			commit(&v, &g)
		default:
			guessed = append(guessed, pod)
			g := pod.Grant()
			take(&g, &topology.Grant{}, open)
			commit(&v, &g)
		}
	}
	s.eachForeign(slot, s.nodes[slot].Name, func(g *topology.Grant) { commit(&v, g) })
	slices.SortFunc(guessed, func(a, b *Pod) int { return cmp.Compare(a.UID, b.UID) })
	for _, pod := range guessed {
		open, g := pod.guessed(), pod.Grant()
		made := guess(&v, pod.Class, open)
		take(&g, &made, open)
		if h := holdingOf(&g); !h.same(pod.holding()) {
			pod.hold(h)
		}
		commit(&v, &made)
	}
	s.gpus[slot] = l.gpus
	if row := s.rows[slot]; row != nil {
		row.zones = l.zones
		if row.devices != nil {
			*row.devices = l.devices
		}
	}
}

// confirm makes a pod that is charged to the slot hold what the report says, or what it was recorded to. What is left of the slot is not changed.
func (s *Store) confirm(pod *Pod, slot Slot, r *NodeReport) {
	held, said := r.holds(pod.UID)
	if said == 0 && pod.said == 0 {
		return
	}
	s.moveExcess(slot, pod.Class, pod.Zones(), -1)
	s.promises.count(pod, -1)
	pod.recall()
	pod.confirm(&held, said)
	s.promises.count(pod, 1)
	s.moveExcess(slot, pod.Class, pod.Zones(), 1)
}

// guess chooses those parts of a grant that a pod of the class has though nobody recorded them: what would be offered, else what is left the most of. Zones
// are exactly what is asked for.
func guess(v *topology.View, c *Class, which parts) (g topology.Grant) {
	if which&partZones != 0 && v.Zones != nil {
		g.Zones = topology.ForceZones(v.Zones, v.ZoneFree, c.Zones)
	}
	r := c.GPU
	if which&partGPUs == 0 {
		r.Milli, r.Whole, r.Memory, r.Isolation = 0, 0, 0, topology.IsolationAny
	}
	if which&partNICs == 0 {
		r.NIC = topology.NICRequest{}
	}
	if which&(partGPUs|partNICs) != 0 {
		offer := v.Force(&r, nil)
		take(&g, &offer, which&^partZones)
	}
	return g
}
