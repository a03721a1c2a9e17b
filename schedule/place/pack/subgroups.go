package pack

import (
	"cmp"
	"slices"

	"hilbert.dev/hilbert/cluster"
)

// maxSubgroupTries is how many domains of subgroups are taken back for others within one domain of the unit.
const maxSubgroupTries = 64

// placeSubgroups places one subgroup after the other, first those that run somewhere already, whose domain is certain, then the largest; last the members that are in none.
// If whole, a subgroup of which some would be left over is not begun.
//
// Each takes the smallest domain that holds it. That can be the only one for the next: then other domains are tried for those before it (rearrange).
func (r *unitPlacement) placeSubgroups(s scope, m memberRange, whole bool) {
	groups, start := r.subgroups(m), r.checkpoint()
	named := 0
	for _, g := range groups {
		if r.ask.Members[g.from].Subgroup != "" {
			named += r.waiting(g)
		}
	}
	enough := r.need - start.placed - (r.waiting(m) - named) // the unit may begin with fewer, and members in no subgroup count too
	r.placeEachSubgroup(s, groups, whole)
	if got := len(r.placed) - start.placed; got < named && r.mayRearrange(s, groups) {
		r.undoTo(start)
		if !r.rearrange(s, m, groups, named, whole) && (whole || got >= enough || !r.rearrange(s, m, groups, enough, false)) {
			r.placeEachSubgroup(s, groups, whole)
		}
	}
	for _, g := range groups {
		if r.ask.Members[g.from].Subgroup == "" {
			r.fill(s, g, r.ask.Topology.Spread)
		}
	}
}

// subgroups divides members into subgroups, in the order in which they are placed. It is valid until the next call.
func (r *unitPlacement) subgroups(m memberRange) []memberRange {
	members := r.ask.Members
	groups := r.groups[:0]
	for from := m.from; from < m.to; {
		to := from + 1
		for to < m.to && members[to].Subgroup == members[from].Subgroup {
			to++
		}
		groups = append(groups, memberRange{from, to})
		from = to
	}
	r.groups = groups
	slices.SortStableFunc(groups, func(a, b memberRange) int {
		if runs := r.runs(a); runs != r.runs(b) {
			if runs {
				return -1
			}
			return 1
		}
		return cmp.Compare(b.to-b.from, a.to-a.from)
	})
	return groups
}

// runs reports whether members of a subgroup run already.
func (r *unitPlacement) runs(g memberRange) bool {
	name := r.ask.Members[g.from].Subgroup
	return name != "" && slices.ContainsFunc(r.ask.Anchors, func(a Anchor) bool { return a.Subgroup == name })
}

// placeEachSubgroup places what it can of each subgroup, in the domain that is best for it alone.
func (r *unitPlacement) placeEachSubgroup(s scope, groups []memberRange, whole bool) {
	for _, g := range groups {
		if name := r.ask.Members[g.from].Subgroup; name != "" {
			need := 1
			if whole {
				need = r.waiting(g)
			}
			r.placeInOneDomain(s, g, layer{packing: &r.ask.Subgroups, subgroup: name, sub: true}, need)
		}
	}
}

// mayRearrange reports whether there are several subgroups, and several domains for each.
func (r *unitPlacement) mayRearrange(s scope, groups []memberRange) bool {
	return len(groups) > 1 && r.tries < maxUnitTries && r.requiredPartition(s, layer{packing: &r.ask.Subgroups}) != nil
}

// rearrange places want members of the subgroups in other domains than each would take by itself. It goes through the ways to choose domains, one subgroup after the other,
// without those that leave too few by the domains' capacities, and gives up after maxSubgroupTries. If it answers false it has placed none.
//
// Example: rack r1 has room for 6 members, r2 for 7; the subgroups have 4, 3, 3 and 3. By itself the first would take r1, the smaller one, and leave 2 there, which
// nobody can use. The only way is r2 for it and one more, r1 for two.
func (r *unitPlacement) rearrange(s scope, m memberRange, groups []memberRange, want int, whole bool) bool {
	x := rearrangement{r: r, scope: s, want: len(r.placed) + want, whole: whole, last: min(r.tries+maxSubgroupTries, maxUnitTries)}
	if want > x.room(m) {
		return false
	}
	for _, g := range groups {
		if r.ask.Members[g.from].Subgroup != "" && r.waiting(g) > 0 {
			x.groups = append(x.groups, g)
		}
	}
	x.alike = !slices.ContainsFunc(r.ask.Members, func(pod *cluster.Pod) bool {
		c := pod.Class
		return c != r.ask.Members[0].Class || c.Constraints != nil || c.Volumes != nil || c.Claims != nil
	})
	return x.placeFrom(0)
}

// rearrangement is one search for domains of subgroups under way.
type rearrangement struct {
	r      *unitPlacement
	scope  scope
	groups []memberRange
	want   int  // members of the unit are to have places
	whole  bool // subgroups go whole
	alike  bool // all members are, so that of domains with equal capacity one is tried
	last   int  // the search ends at so many tries of the unit
}

// room is how many of some members have room in all domains of subgroups together, at most.
func (x *rearrangement) room(m memberRange) (room int) {
	w := x.r.candidates(x.scope, x.r.requiredPartition(x.scope, layer{packing: &x.r.ask.Subgroups}), m)
	for i := range w.candidates {
		room += int(w.candidates[i].fits)
	}
	x.r.release(w)
	return room
}

// placeFrom places the subgroups from one on, and reports whether enough members have places then.
func (x *rearrangement) placeFrom(at int) bool {
	r := x.r
	if len(r.placed) >= x.want {
		r.placeEachSubgroup(x.scope, x.groups[at:], x.whole)
		return true
	}
	if at == len(x.groups) {
		return false
	}
	missing := int64(x.want - len(r.placed))
	for _, g := range x.groups[at+1:] {
		missing -= x.most(g)
	}
	w := x.candidates(x.groups[at])
	defer r.release(w)
	return x.placeOne(w, at, missing) || missing <= 0 && x.placeFrom(at+1)
}

// most is how many members of a subgroup have room in one domain, if nothing else is placed before.
func (x *rearrangement) most(g memberRange) (most int64) {
	w := x.candidates(g)
	for i := range w.candidates {
		most = max(most, w.candidates[i].fits)
	}
	x.r.release(w)
	if all := int64(x.r.waiting(g)); x.whole && most < all {
		return 0
	}
	return most
}

// candidates lists the domains that a subgroup may go to.
func (x *rearrangement) candidates(g memberRange) *domainCandidates {
	l := x.layer(g)
	w := x.r.candidates(x.scope, x.r.requiredPartition(x.scope, l), g)
	if x.r.matchAnchors(w, x.scope, l); !x.r.agreesWithAnchors(x.scope, l) {
		w.candidates = w.candidates[:0]
	}
	return w
}

func (x *rearrangement) layer(g memberRange) layer {
	return layer{packing: &x.r.ask.Subgroups, subgroup: x.r.ask.Members[g.from].Subgroup, sub: true}
}

// placeOne tries the domains of one subgroup that may take the least number of its members with which there can be enough, and places those after it.
func (x *rearrangement) placeOne(w *domainCandidates, at int, least int64) bool {
	r, g, here := x.r, x.groups[at], x.r.checkpoint()
	all, prefer := int64(r.waiting(g)), preference(fullest)
	if least = max(least, 1); x.whole || least >= all {
		least, prefer = max(least, all), tightest
	}
	for r.tries < x.last {
		c := w.next(func(c *candidate) bool { return c.fits >= least }, prefer)
		if c == nil {
			return false
		}
		x.skip(w, c, g)
		r.pack(scope{w.partition, c.domain}, g, x.layer(g))
		if int64(len(r.placed)-here.placed) >= least && x.placeFrom(at+1) {
			return true
		}
		r.tries++
		r.undoTo(here)
	}
	return false
}

// skip takes a domain from those that are still to be tried, and those that are like it. They are not if a subgroup after this one is to join members there, but such
// subgroups come first.
func (x *rearrangement) skip(w *domainCandidates, c *candidate, g memberRange) {
	c.tried = true
	if !x.alike || x.r.runs(g) {
		return
	}
	for i := range w.candidates {
		if other := &w.candidates[i]; other.capacity == c.capacity {
			other.tried = true
		}
	}
}
