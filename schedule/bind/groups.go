package bind

import (
	"slices"

	"hilbert.dev/hilbert/cluster"
)

// planGroup is the rows of one Plan with victims: placements that stand or fall together. No member is bound before the victims of all members have
// left, for if another member then lost its place, the gang would hold the places that it has for nothing.
//
// Example: a gang of two gets node a, where pod x has to leave, and node b, where y has to. x leaves first; the member on a waits on. When y has left
// too, both are bound. If instead node b is deleted, both places are released and the gang is decided again.
type planGroup struct {
	rows []*row
	unit *cluster.Unit // whose pods they are; nil: of several, or of none
	left int           // rows that are not decided
	// bindsVolumes: the victims of all members have left, and claims are being bound. cleared: the claims of all members are bound, too. broken: a member has
	// lost its place, so the others release theirs.
	bindsVolumes, cleared, broken bool
}

// waits reports whether some victims of the group may not have left yet, or some claims are not bound.
func (m *planGroup) waits() bool { return m != nil && !m.cleared && !m.broken }

// isBroken reports whether a member has lost its place.
func (m *planGroup) isBroken() bool { return m != nil && m.broken }

// add takes a row in.
func (m *planGroup) add(r *row) {
	if m != nil {
		m.rows, m.left = append(m.rows, r), m.left+1
	}
}

// undecided are the members whose outcome is not known.
func (m *planGroup) undecided() []*row {
	return slices.DeleteFunc(slices.Clone(m.rows), func(member *row) bool { return member.decided })
}

// lostMember is why a placement is released when another member of its group has lost its own.
const lostMember = "another member lost its place"

// planGroups are the groups of gangs, until all their rows are decided: a member that comes later joins the group of the others.
type planGroups map[*cluster.Unit]*planGroup

// of returns the plan group that the rows of a Plan are in; nil: each is on its own. A pod of a gang whose other members are not all ready to be bound, or are
// about to lose their places because one of them has, shares their fate: it is not bound before them, nor without them. replaces says that the Plan gives its first
// pod another place than it had; owes says whether some of its pods have claims to be bound.
func (g planGroups) of(plan *cluster.Plan, unit *cluster.Unit, replaces bool, owes func(*cluster.Plan) bool) *planGroup {
	if open := g[unit]; open != nil && !replaces && !open.cleared && (len(plan.Victims) == 0 || !open.bindsVolumes) {
		return open
	}
	if len(plan.Placements) < 2 || len(plan.Victims) == 0 && !owes(plan) {
		return nil
	}
	group := &planGroup{bindsVolumes: len(plan.Victims) == 0, unit: unit}
	if unit != nil {
		g[unit] = group
	}
	return group
}

// leave takes note that a row is decided.
func (g planGroups) leave(m *planGroup) {
	if m == nil {
		return
	}
	if m.left--; m.left == 0 && g[m.unit] == m {
		delete(g, m.unit)
	}
}
