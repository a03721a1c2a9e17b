package topology

import "fmt"

// refuseResources reports whether the NUMA nodes together have too little of what plugins bring.
func (v *View) refuseResources(r *Request, out *Refusal) bool {
	var ask resourceAsk
	if !v.asksResources(r, &ask) {
		return false
	}
	i := v.fewResource(&ask, ^uint8(0))
	if i < 0 {
		return false
	}
	out.Cause, out.Asked, out.Left, out.Resource = FewResources, ask[i], v.ResourcesFree[i].Within(^uint8(0)), v.Resources[i].Name
	return true
}

// shortage is of which resource too little is left in every domain that was looked at, and how much in the one with the most. No resource: in some domain all are
// held, or none was looked at.
type shortage struct {
	resource int
	left     int64
	held     bool // in some domain
}

// fewest is the shortage with one more domain.
func (v *View) fewest(ask *resourceAsk, set uint8, s shortage) shortage {
	i := v.fewResource(ask, set)
	switch {
	case s.held || i < 0:
		return shortage{resource: -1, held: true}
	case v.ResourcesFree[i].Within(set) > s.left:
		return shortage{resource: i, left: v.ResourcesFree[i].Within(set)}
	}
	return s
}

// nameLarge names, of a request that no domain of the machine could hold, the resource of which none has enough.
func (v *View) nameLarge(s *search, out *Refusal) {
	if !s.brought {
		return
	}
	all := NewResourceFree(v.Resources)
	empty, few := *v, shortage{resource: -1, left: -1}
	empty.ResourcesFree = &all
	for i := range s.wide.n {
		few = empty.fewest(&s.resources, s.wide.of[i].numaNodes, few)
	}
	if few.resource >= 0 {
		out.Asked, out.Left, out.Resource = s.resources[few.resource], few.left, v.Resources[few.resource].Name
	}
}

// resourceText is the part of Refusal.String that is about what plugins bring.
func (f *Refusal) resourceText() string {
	switch f.Cause {
	case NoPlaces:
		return fmt.Sprintf("nothing of what is asked for is known to be in one %s: its agent counts none of it by NUMA node", f.Level.word())
	case FewResources:
		return fmt.Sprintf("%d of %s left in its NUMA nodes, %d asked for", f.Left, f.Resource, f.Asked)
	default:
		return fmt.Sprintf("no %s has %d of %s left beside the rest: the most is %d", f.Level.word(), f.Asked, f.Resource, f.Left)
	}
}
