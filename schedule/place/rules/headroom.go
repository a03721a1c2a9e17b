package rules

import (
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
)

// Headroom: what reclaimed pods ask of what nodes lend. It is fitted as any resource; only what is said of it, and how it is scored, differ.

// The scale of scoreHeadroomSpread: a node that would be left with this much has half of the best score.
const (
	halfwayCPU    = 16_000   // millicores
	halfwayMemory = 64 << 30 // bytes
)

// scoreHeadroomSpread prefers the nodes that would have the most headroom left, in amounts and not in shares, because with more headroom left a fall
// of it evicts fewer pods. The scarcer resource decides.
func scoreHeadroomSpread(_ *Profile, s *cluster.State, slot cluster.Slot, c *cluster.Class) int64 {
	score := int64(MaxScore)
	for i, a := range c.Reclaims() {
		if a.Value == 0 {
			continue
		}
		halfway := int64(halfwayCPU)
		if i > 0 {
			halfway = halfwayMemory
		}
		left := min(max(s.Free(slot, a.Kind)-a.Value, 0), maxLeft)
		score = min(score, left*MaxScore/(left+halfway))
	}
	return score
}

// maxLeft bounds what is multiplied by MaxScore.
const maxLeft = int64(1) << 50

// HeadroomRefusal is what keeps reclaimed pods off a node whatever they ask for, as the condition's message counts it; empty: only amounts do.
func HeadroomRefusal(s *cluster.State, slot cluster.Slot) string {
	switch s.Headroom(slot).State {
	case facts.HeadroomUnsaid:
		return "node(s) reported no headroom"
	case facts.HeadroomClosed:
		return "node(s) were closed to reclaimed pods"
	case facts.HeadroomStale:
		return "node(s) had no fresh report of headroom"
	case facts.HeadroomMalformed:
		return "node(s) had an unreadable report of headroom"
	case facts.HeadroomOpen: // below
	}
	return ""
}

// whyHeadroom adds what a node's headroom lacks.
func whyHeadroom(s *cluster.State, slot cluster.Slot, c *cluster.Class, add func(string)) {
	if !c.AsksReclaimed() {
		return
	}
	short := false
	for _, a := range c.Reclaims() {
		short = short || a.Value > 0 && a.Value > s.Free(slot, a.Kind)
	}
	phrase := HeadroomRefusal(s, slot)
	switch {
	case !short:
	case phrase != "":
		add(phrase)
	default:
		for _, a := range c.Reclaims() {
			if a.Value > 0 && a.Value > s.Free(slot, a.Kind) {
				add("Insufficient headroom of " + s.KindName(a.Kind))
			}
		}
	}
}
