package reschedule

import (
	"cmp"
	"slices"
)

// maxRestarts is how many gangs a plan says are better off after a restart: each is rehearsed by itself.
const maxRestarts = 4

// Gang is a gang that runs as a whole and prefers to be in one domain of a label.
type Gang struct {
	Name, Label string
	// Domains is how many values of the label its nodes have.
	Domains int
	// Least is about how many it would need, were it placed now: by what is free and what it holds itself. 0: it is not known.
	Least int
	// Holds is what it holds, in thousandths of a GPU.
	Holds float64
}

// spares is how many domains fewer it may be in.
func (g *Gang) spares() int {
	if g.Least <= 0 {
		return 0
	}
	return g.Domains - g.Least
}

// restarts moves nobody: a gang that runs is not evicted to be nearer together, since all of its work would begin anew for a faster network. When it restarts for a reason of its own,
// the scheduler packs it by what is free then. The plan says which gangs that would help, so that whoever restarts them anyhow may choose when.
func restarts(d *decision) []Proposal {
	var list []Gang
	for i := range d.v.Gangs {
		if g := &d.v.Gangs[i]; g.spares() > 0 {
			list = append(list, *g)
		}
	}
	slices.SortFunc(list, func(a, b Gang) int {
		return cmp.Or(cmp.Compare(b.spares(), a.spares()), cmp.Compare(b.Holds, a.Holds), cmp.Compare(a.Name, b.Name))
	})
	d.plan.Restarts = list[:min(len(list), maxRestarts)]
	return nil
}
