package cluster

import "slices"

// packed is a label of which the members of a unit, or of one of its subgroups, must all have one value.
type packed struct {
	unit     *Unit
	subgroup string
	sub      bool // of the subgroup alone
	key      string
}

// unpacked returns the first placement of a Plan with which a unit would have members under more than one value of a label that it
// requires, or that must be uniform; -1 if there is none. It is asked before the first is taken. Where the nodes of members that run already have
// several values, for somebody has edited labels, any of them will do.
func (s *Store) unpacked(plan *Plan) int {
	if len(s.units) == 0 {
		return -1
	}
	var allowed map[packed][]string
	for i := range plan.Placements {
		pod, slot := s.pods[plan.Placements[i].Pod], s.Slot(plan.Placements[i].Node)
		if pod == nil || pod.Unit == nil || pod.Unit.Facts == nil || slot == NoSlot {
			continue
		}
		for _, p := range pod.packings() {
			if p.key == "" {
				continue
			}
			if allowed == nil {
				allowed = make(map[packed][]string)
			}
			values, known := allowed[p]
			if !known {
				values = s.valuesOf(p)
			}
			value, has := s.nodes[slot].Labels[p.key]
			if !has || len(values) > 0 && !slices.Contains(values, value) {
				return i
			}
			if len(values) == 0 {
				values = []string{value}
			}
			if !known {
				allowed[p] = values
			}
		}
	}
	return -1
}

// packings are the labels of which the pod's unit, and its subgroup, ask for one value; those without a key ask for nothing.
func (p *Pod) packings() (list [4]packed) {
	f := p.Unit.Facts
	for i, key := range [...]string{f.Topology.Required, f.Topology.Uniform} {
		list[i] = packed{unit: p.Unit, key: key}
	}
	if p.Subgroup != "" {
		for i, key := range [...]string{f.SubgroupTopology.Required, f.SubgroupTopology.Uniform} {
			list[2+i] = packed{p.Unit, p.Subgroup, true, key}
		}
	}
	return list
}

// valuesOf lists the values that the nodes of members have which run already.
func (s *Store) valuesOf(p packed) (values []string) {
	for _, pod := range p.unit.pods {
		if pod.slot == NoSlot || !pod.Placed() || p.sub && pod.Subgroup != p.subgroup {
			continue
		}
		if value, has := s.nodes[pod.slot].Labels[p.key]; has && !slices.Contains(values, value) {
			values = append(values, value)
		}
	}
	return values
}
