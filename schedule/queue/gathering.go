package queue

import "slices"

// gatheringGangs are the gangs of which fewer members wait than must be placed together. They are not tried, because no choice of nodes could help
// them; a new member can.
//
// Example: a gang with minCount 4 has three pods. It is here until its controller creates the fourth; then it moves to its shape queue.
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
