package queue

import "slices"

// gatheringGangs is the gangs of which fewer members wait than have to be placed together. They are not tried.
type gatheringGangs struct{ units []*Unit }

func (g *gatheringGangs) add(u *Unit) {
	u.location, u.position = inGathering, len(g.units)
	g.units = append(g.units, u)
}

func (g *gatheringGangs) remove(u *Unit) {
	last := g.units[len(g.units)-1]
	g.units[u.position], last.position = last, u.position
	g.units = slices.Delete(g.units, len(g.units)-1, len(g.units))
}
