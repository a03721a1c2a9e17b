package pack

import (
	"slices"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/place/index"
)

const (
	// maxDomainTries is how many domains are tried for the same members before they are said to fit in none. Only members that are unlike
	// one another, have constraints between them, or are packed in subgroups ever need a second.
	MaxDomainTries = 32
	// maxUnitTries is how many are tried in one PlaceUnit in all, so that subgroups within domains within domains come to an end.
	maxUnitTries = 256
)

// layer is what packing is asked of: the unit, or one of its subgroups.
type layer struct {
	packing  *facts.Packing
	subgroup string
	sub      bool
}

// placeInOneDomain places members in one domain of the labels that are required, or uniform: the smallest that holds all of them; where none
// does, the one where most fit. When fewer than need would fit it places none.
func (r *unitPlacement) placeInOneDomain(s scope, m memberRange, l layer, need int) {
	if r.waiting(m) == 0 || !r.agreesWithAnchors(s, l) {
		return
	}
	start := r.checkpoint()
	part := r.requiredPartition(s, l)
	if part == nil {
		if r.pack(s, m, l); len(r.placed) < start.placed+need {
			r.undoTo(start)
		}
		return
	}
	w := r.candidates(s, part, m)
	defer r.release(w)
	r.matchAnchors(w, s, l)
	all := r.waiting(m)
	holds := func(c *candidate) bool { return c.fitsAll }
	if all >= need && (r.packNearest(w, m, l, all) || r.tryDomains(w, m, l, all, holds)) || need >= all {
		return
	}
	for i := range w.candidates {
		w.candidates[i].tried = false
	}
	r.tryDomains(w, m, l, need, func(c *candidate) bool { return c.fits >= int64(need) })
}

// requiredPartition returns the partition of which one domain must be chosen, nil where nothing is required.
func (r *unitPlacement) requiredPartition(s scope, l layer) *index.Partition {
	uniform, required := l.packing.Uniform, l.packing.Required
	if s.fixes(uniform) {
		uniform = ""
	}
	if s.fixes(required) {
		required = ""
	}
	switch {
	case uniform != "" && required != "":
		return r.partition(s, uniform, required)
	case uniform != "":
		return r.partition(s, uniform)
	case required != "":
		return r.partition(s, required)
	}
	return nil
}

// maxNearTries is how many uniform values are compared by how near one another they would have the members.
const maxNearTries = 8

// packNearest packs the members into the candidate, of the tightest that hold them, in which they are in the fewest domains of the preferred
// label. It answers false where none is preferred, or nothing but nearness decides already.
func (r *unitPlacement) packNearest(w *domainCandidates, m memberRange, l layer, all int) bool {
	if l.packing.Preferred == "" || l.packing.Uniform == "" || len(w.candidates) < 2 {
		return false
	}
	start, best, fewest := r.checkpoint(), index.NoGroup, 0
	for range maxNearTries {
		c := w.next(func(c *candidate) bool { return c.fitsAll }, tightest)
		if c == nil || r.tries >= maxUnitTries || fewest == 1 {
			break
		}
		c.tried = true
		r.tries++
		r.pack(scope{w.partition, c.domain}, m, l)
		if n := r.spans(l.packing.Preferred, start); len(r.placed) == start.placed+all && (best == index.NoGroup || n < fewest) {
			best, fewest = c.domain, n
		}
		r.undoTo(start)
	}
	for i := range w.candidates {
		w.candidates[i].tried = false
	}
	if best == index.NoGroup {
		return false
	}
	r.pack(scope{w.partition, best}, m, l)
	return true
}

// spans is over how many values of a label what was placed since is spread; each node without it counts as one.
func (r *unitPlacement) spans(key string, since checkpoint) (n int) {
	seen := make(map[string]bool)
	for _, m := range r.placed[since.placed:] {
		value, ok := r.snapshot.Node(m.Slot).Labels[key]
		if !ok || !seen[value] {
			n++
		}
		seen[value] = true
	}
	return n
}

// tryDomains packs the members into one candidate after the other until one takes as many as wanted. Where that is not all of them, the one
// that takes the most is taken, as far as the tries go.
func (r *unitPlacement) tryDomains(w *domainCandidates, m memberRange, l layer, want int, do func(*candidate) bool) bool {
	start, all := r.checkpoint(), r.waiting(m)
	best, most := index.NoGroup, int64(0)
	for n := range MaxDomainTries {
		prefer := preference(fullest)
		if want == all {
			prefer = tightest
			if n >= MaxDomainTries/2 { // what looked tight was too tight
				prefer = widest
			}
		}
		c := w.next(func(c *candidate) bool { return do(c) && c.fits > most }, prefer)
		if c == nil || r.tries >= maxUnitTries {
			break
		}
		c.tried = true
		r.pack(scope{w.partition, c.domain}, m, l)
		if c.fits = int64(len(r.placed) - start.placed); c.fits >= int64(want) {
			if best, most = c.domain, c.fits; w.next(func(c *candidate) bool { return c.fits > most }, prefer) == nil {
				return true
			}
		}
		r.tries++
		r.undoTo(start)
	}
	if best == index.NoGroup {
		return false
	}
	r.pack(scope{w.partition, best}, m, l)
	return true
}

// matchAnchors drops the candidates that have another value of a required label than the members which run already. Where those have several
// values, because labels were edited, any of them will do.
func (r *unitPlacement) matchAnchors(w *domainCandidates, s scope, l layer) {
	for at, key := range w.partition.Keys {
		if s.fixes(key) {
			continue
		}
		if values := r.anchorValues(key, l); len(values) > 0 {
			w.candidates = slices.DeleteFunc(w.candidates, func(c candidate) bool {
				return !slices.Contains(values, w.partition.Domains[c.domain].Values[at])
			})
		}
	}
}

// agreesWithAnchors reports whether what the scope fixes of the layer's required labels is what the members have which run already.
func (r *unitPlacement) agreesWithAnchors(s scope, l layer) bool {
	for _, key := range [...]string{l.packing.Uniform, l.packing.Required} {
		if s.partition == nil || key == "" {
			continue
		}
		if at := slices.Index(s.partition.Keys, key); at >= 0 {
			values := r.anchorValues(key, l)
			if len(values) > 0 && !slices.Contains(values, s.partition.Domains[s.domain].Values[at]) {
				return false
			}
		}
	}
	return true
}

// anchorValues lists the values of a label on the nodes of the layer's members which run already. It is valid until the next call.
func (r *unitPlacement) anchorValues(key string, l layer) []string {
	r.values = r.values[:0]
	for i := range r.ask.Anchors {
		a := &r.ask.Anchors[i]
		if !r.known(a.Slot) || l.sub && a.Subgroup != l.subgroup {
			continue
		}
		if value, ok := r.snapshot.Node(a.Slot).Labels[key]; ok && !slices.Contains(r.values, value) {
			r.values = append(r.values, value)
		}
	}
	return r.values
}

// pack places members in the scope, in as few domains of the preferred label as it takes, and those near one another: in one, else in
// few within one domain of the next wider level, and so on.
func (r *unitPlacement) pack(s scope, m memberRange, l layer) {
	preferred := l.packing.Preferred
	if preferred == "" || s.fixes(preferred) {
		r.placeMembers(s, m, l, false)
		return
	}
	if r.packInOne(s, m, l, preferred) {
		return
	}
	for at := slices.Index(r.levels, preferred) - 1; at >= 0; at-- {
		level := r.levels[at]
		if s.fixes(level) {
			break
		}
		if r.packInOne(s, m, l, level) {
			return
		}
	}
	r.packInFew(s, m, l)
}

// packInOne places all members in one domain of a level, the smallest that holds them, if there is one.
func (r *unitPlacement) packInOne(s scope, m memberRange, l layer, level string) bool {
	w := r.candidates(s, r.partition(s, level), m)
	defer r.release(w)
	r.countAnchors(w, l)
	start, all := r.checkpoint(), r.waiting(m)
	for range MaxDomainTries {
		c := w.next(func(c *candidate) bool { return c.fitsAll }, tightest)
		if c == nil || r.tries >= maxUnitTries {
			return false
		}
		c.tried = true
		if in := (scope{w.partition, c.domain}); level == l.packing.Preferred {
			r.placeMembers(in, m, l, true)
		} else {
			r.packInFew(in, m, l)
		}
		if len(r.placed) == start.placed+all {
			return true
		}
		r.tries++
		r.undoTo(start)
	}
	return false
}

// countAnchors counts the members that each candidate has already.
func (r *unitPlacement) countAnchors(w *domainCandidates, l layer) {
	if len(r.ask.Anchors) == 0 {
		return
	}
	counts := r.count(w.partition, l, false)
	for i := range w.candidates {
		w.candidates[i].anchors = counts[w.candidates[i].domain]
	}
}

// packInFew places what it can of the members, in few domains of the preferred label: first where members run already, then where most
// fit; the last ones in the smallest that holds them. Nodes without the label come last.
func (r *unitPlacement) packInFew(s scope, m memberRange, l layer) {
	w := r.candidates(s, r.partition(s, l.packing.Preferred), m)
	defer r.release(w)
	r.countAnchors(w, l)
	w.heapify()
	for scans := 0; len(w.candidates) > 0 && w.candidates[0].fits > 0 && r.waiting(m) > 0; {
		r.recount(w, m)
		at := 0
		if top := &w.candidates[0]; top.anchors == 0 && scans < MaxDomainTries && w.candidate(top.domain).fitsAll {
			at = w.smallest()
			scans++
		}
		r.placeMembers(scope{w.partition, w.remove(at)}, m, l, true)
	}
	if r.waiting(m) > 0 {
		r.placeMembers(s, m, l, false)
	}
}

// smallest is the position of the smallest candidate that holds all that is left; the first one does.
func (w *domainCandidates) smallest() int {
	at, best := 0, w.candidate(w.candidates[0].domain)
	for i := 1; i < len(w.candidates); i++ {
		c := w.candidate(w.candidates[i].domain)
		if !c.fitsAll {
			continue
		}
		if before, after := tightest(&c, &best); before || !after && w.partition.Before(c.domain, best.domain) {
			at, best = i, c
		}
	}
	return at
}

// heapify makes a heap of the candidates, the fullest first.
func (w *domainCandidates) heapify() {
	for i := len(w.candidates)/2 - 1; i >= 0; i-- {
		w.down(i)
	}
}

// remove takes a candidate out of the heap and returns its domain.
func (w *domainCandidates) remove(at int) int32 {
	domain := w.candidates[at].domain
	last := len(w.candidates) - 1
	moved := w.candidates[last]
	w.candidates = w.candidates[:last]
	if at == last {
		return domain
	}
	w.candidates[at] = moved
	for ; at > 0 && w.above(at, (at-1)/2); at = (at - 1) / 2 {
		w.candidates[at], w.candidates[(at-1)/2] = w.candidates[(at-1)/2], w.candidates[at]
	}
	w.down(at)
	return domain
}

func (w *domainCandidates) above(i, j int) bool {
	a, b := &w.candidates[i], &w.candidates[j]
	before, after := fullest(a, b)
	return before || !after && w.partition.Before(a.domain, b.domain)
}

func (w *domainCandidates) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(w.candidates) {
			return
		}
		if right := child + 1; right < len(w.candidates) && w.above(right, child) {
			child = right
		}
		if !w.above(child, i) {
			return
		}
		w.candidates[i], w.candidates[child] = w.candidates[child], w.candidates[i]
		i = child
	}
}

// placeMembers places members in the scope, those of a subgroup packed as requested for subgroups. If whole, a subgroup of which some would be
// left over is not begun.
func (r *unitPlacement) placeMembers(s scope, m memberRange, l layer, whole bool) {
	switch {
	case l.sub && l.packing.Spread != "":
		r.fill(s, m, l.packing.Spread)
	case l.sub || r.ask.Subgroups.IsZero():
		r.fill(s, m, r.ask.Topology.Spread)
	default:
		r.placeSubgroups(s, m, whole)
	}
}
