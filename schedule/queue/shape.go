package queue

import (
	"cmp"
	"encoding/binary"
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
)

// Shape is all that the placement of a unit depends on: of a single pod its class, of a gang how many members of which class each of its
// subgroups has, how many it needs and how they are to be packed. Where one unit of a shape fits nowhere, no other does.
type Shape struct {
	// Class of the single pod; nil for a gang.
	Class *cluster.Class
	// Parts of a gang, in the order of its Members.
	Parts []Part
	// Need of the members must be placed together.
	Need int
	// Topology of the gang, and of each of its subgroups.
	Topology, SubgroupTopology facts.Packing
	// Anchored: members that have places already bind where the others may go. No other gang has that shape.
	Anchored bool
	// Ask is the least that Need members are charged, of each resource for itself. The caller must not change it.
	Ask resource.List

	key         string
	size        float64 // the dominant fraction of the cluster's capacity in Ask
	shapeQueues int     // that are of it
}

// Part is the members of one class in one subgroup.
type Part struct {
	Class *cluster.Class
	// Subgroup counts the gang's subgroups from 0, by name.
	Subgroup, Count int
}

// shapes interns Shapes. One without shape queues is forgotten.
type shapes struct {
	singles map[*cluster.Class]*Shape
	gangs   map[string]*Shape
	scratch []byte
}

// of returns the shape of a unit that is ready.
func (s *shapes) of(u *Unit) (shape *Shape, fresh bool) {
	if u.gang == nil {
		shape = s.singles[u.Class]
		if shape == nil {
			shape = &Shape{Class: u.Class, Need: 1, Ask: u.Class.Charge}
			s.singles[u.Class] = shape
			fresh = true
		}
		return shape, fresh
	}
	s.scratch = u.appendShape(s.scratch[:0])
	shape = s.gangs[string(s.scratch)]
	if shape == nil {
		shape = newShape(u)
		shape.key = string(s.scratch)
		s.gangs[shape.key] = shape
		fresh = true
	}
	return shape, fresh
}

func (s *shapes) forget(shape *Shape) {
	if shape.Class != nil {
		delete(s.singles, shape.Class)
	} else {
		delete(s.gangs, shape.key)
	}
}

func (s *shapes) each(visit func(*Shape)) {
	for _, shape := range s.singles {
		visit(shape)
	}
	for _, shape := range s.gangs {
		visit(shape)
	}
}

// appendShape writes what tells the shape of a gang from others.
func (u *Unit) appendShape(to []byte) []byte {
	to = binary.AppendUvarint(to, uint64(u.need))
	if f := u.facts; f != nil {
		for _, p := range [...]*facts.Packing{&f.Topology, &f.SubgroupTopology} {
			for _, label := range [...]string{p.Required, p.Preferred, p.Spread, p.Uniform} {
				to = appendText(to, label)
			}
		}
	}
	if u.anchored {
		to = appendText(append(to, 1), u.Gang.Namespace)
		to = appendText(to, u.Gang.Name)
	} else {
		to = append(to, 0)
	}
	subgroup, name := uint64(0), u.gang.parts[0].subgroup
	for i := range u.gang.parts {
		p := &u.gang.parts[i]
		if p.subgroup != name {
			subgroup, name = subgroup+1, p.subgroup
		}
		to = binary.AppendUvarint(to, subgroup)
		to = binary.AppendUvarint(to, uint64(p.class.ID))
		to = binary.AppendUvarint(to, uint64(len(p.members)))
	}
	return to
}

func appendText(to []byte, text string) []byte {
	return append(binary.AppendUvarint(to, uint64(len(text))), text...)
}

func newShape(u *Unit) *Shape {
	s := &Shape{Need: u.need, Anchored: u.anchored, Ask: u.gang.least(u.need)}
	if f := u.facts; f != nil {
		s.Topology, s.SubgroupTopology = f.Topology, f.SubgroupTopology
	}
	subgroup, name := 0, u.gang.parts[0].subgroup
	for i := range u.gang.parts {
		p := &u.gang.parts[i]
		if p.subgroup != name {
			subgroup, name = subgroup+1, p.subgroup
		}
		s.Parts = append(s.Parts, Part{p.class, subgroup, len(p.members)})
	}
	return s
}

// least is a lower bound for what a number of members are charged: for each resource, the sum of the smallest requests.
func (g *gang) least(members int) resource.List {
	var kinds []resource.Kind
	for i := range g.parts {
		for _, a := range g.parts[i].class.Charge {
			kinds = append(kinds, a.Kind)
		}
	}
	slices.Sort(kinds)
	var list resource.List
	order := slices.Clone(g.parts)
	for _, kind := range slices.Compact(kinds) {
		slices.SortFunc(order, func(a, b part) int { return cmp.Compare(a.class.Charge.Get(kind), b.class.Charge.Get(kind)) })
		var sum int64
		left := members
		for i := range order {
			count := min(left, len(order[i].members))
			left -= count
			for range count {
				sum = resource.Add(sum, order[i].class.Charge.Get(kind))
			}
		}
		if sum > 0 {
			list = append(list, resource.Amount{Kind: kind, Value: sum})
		}
	}
	return list
}

// measure works out how much of the cluster the shape asks for. A resource that the cluster does not have counts nothing.
func (s *Shape) measure(capacity []int64) {
	s.size = 0
	for _, a := range s.Ask {
		if int(a.Kind) < len(capacity) && capacity[a.Kind] > 0 {
			s.size = max(s.size, float64(a.Value)/float64(capacity[a.Kind]))
		}
	}
}
