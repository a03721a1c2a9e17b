package pack

import (
	"slices"

	"hilbert.dev/hilbert/cluster/facts"
)

// fillTogether gives members that share claims without volumes, or without devices, places on one node, if one takes them all: the smallest that does. Where none
// does they are left to be placed one by one, where the first one's volume or devices can be used.
//
// Example: four members share a claim of one GPU. Node n1 is the best for one of them and has room for three, n2 for five: all go to n2.
func (r *unitPlacement) fillTogether(s scope, m memberRange) {
	if s.fixes(facts.FieldName) {
		return
	}
	onOneNode := layer{packing: &facts.Packing{Required: facts.FieldName}, sub: true}
	var tried []facts.ClaimName
	for i := m.from; i < m.to; i++ {
		claims := r.sharedClaims(i)
		if r.done[i] || len(claims) == 0 || slices.ContainsFunc(claims, func(name facts.ClaimName) bool { return slices.Contains(tried, name) }) {
			continue
		}
		tried = append(tried, claims...)
		masked := r.maskOthers(m, claims)
		if all := r.waiting(m); all > 1 {
			r.placeInOneDomain(s, m, onOneNode, all)
		}
		r.unmask(masked)
	}
}

// sharedClaims lists the claims of a member that others use too and that have nothing yet.
func (r *unitPlacement) sharedClaims(member int) []facts.ClaimName {
	class := r.ask.Members[member].Class
	if class.Volumes == nil && class.Claims == nil {
		return nil
	}
	return slices.Concat(class.Volumes.Shares(), class.Claims.Shares())
}

// maskOthers takes those out of the members that wait which use none of some claims, until they are unmasked.
func (r *unitPlacement) maskOthers(m memberRange, claims []facts.ClaimName) (masked []int) {
	for i := m.from; i < m.to; i++ {
		if !r.done[i] && !slices.ContainsFunc(r.sharedClaims(i), func(name facts.ClaimName) bool { return slices.Contains(claims, name) }) {
			r.done[i] = true
			masked = append(masked, i)
		}
	}
	return masked
}

func (r *unitPlacement) unmask(masked []int) {
	for _, i := range masked {
		r.done[i] = false
	}
}
