package pack

import (
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/schedule/place/index"
)

// domainCandidates is the domains of a partition that lie in a scope, weighed against members that wait.
type domainCandidates struct {
	partition  *index.Partition
	demands    []classDemand
	candidates []candidate
}

// classDemand is how many of the members are of one class, and the capacity for it in each domain.
type classDemand struct {
	class    *cluster.Class
	left     int64
	capacity []int64 // by domain
	own      []int64 // the memory of capacity where the ask is restricted
}

// candidate is a domain that members could go to. What it says is exact for members that are alike and have no constraints between them.
type candidate struct {
	domain   int32
	anchors  int32 // members of the unit, or of the subgroup, that are there already
	tried    bool
	fitsAll  bool    // it could take the members of every class, each class by itself
	fits     int64   // how many of the members, each class by itself
	capacity int64   // for pods of their classes, in sum
	load     float64 // the sum over the classes of members by capacity: up to 1 they are likely to fit together
}

// candidates lists the domains of a partition that lie in the scope. The caller gives the weighing back with drop.
func (r *unitPlacement) candidates(s scope, part *index.Partition, m memberRange) *domainCandidates {
	w := r.acquire()
	w.partition, w.candidates = part, w.candidates[:0]
	r.countDemands(w, m)
	for i := range w.demands {
		d := &w.demands[i]
		if room := r.index.Capacity(d.class); r.ask.Within == nil {
			d.capacity = room.ByDomain(r.index, part)
		} else {
			d.sum(room, part, r.within)
		}
	}
	r.eachDomain(s, part, func(domain int32) { w.candidates = append(w.candidates, w.candidate(domain)) })
	return w
}

func (r *unitPlacement) acquire() *domainCandidates {
	n := len(r.freeLists)
	if n == 0 {
		return &domainCandidates{}
	}
	w := r.freeLists[n-1]
	r.freeLists = r.freeLists[:n-1]
	return w
}

func (r *unitPlacement) release(w *domainCandidates) { r.freeLists = append(r.freeLists, w) }

// countDemands counts the members that have no place yet, by class.
func (r *unitPlacement) countDemands(w *domainCandidates, m memberRange) {
	w.demands = w.demands[:0]
	at := -1
	for i := m.from; i < m.to; i++ {
		if r.done[i] {
			continue
		}
		class := r.ask.Members[i].Class
		if at < 0 || w.demands[at].class != class {
			at = slices.IndexFunc(w.demands, func(d classDemand) bool { return d.class == class })
		}
		if at < 0 {
			at = len(w.demands)
			if at < cap(w.demands) {
				w.demands = w.demands[:at+1]
			} else {
				w.demands = append(w.demands, classDemand{})
			}
			w.demands[at].class, w.demands[at].left = class, 0
		}
		w.demands[at].left++
	}
}

// sum adds up the capacity of some nodes only.
func (d *classDemand) sum(x *index.Capacity, part *index.Partition, slots []cluster.Slot) {
	d.own = d.own[:0]
	for range part.Domains {
		d.own = append(d.own, 0)
	}
	for _, slot := range slots {
		if in := part.Of[slot]; in != index.NoGroup {
			d.own[in] += x.On(slot)
		}
	}
	d.capacity = d.own
}

// recount brings the demands to the members that are left. Those of classes that are done demand nothing.
func (r *unitPlacement) recount(w *domainCandidates, m memberRange) {
	for i := range w.demands {
		w.demands[i].left = 0
	}
	at := 0
	for i := m.from; i < m.to; i++ {
		if r.done[i] {
			continue
		}
		class := r.ask.Members[i].Class
		if w.demands[at].class != class {
			at = slices.IndexFunc(w.demands, func(d classDemand) bool { return d.class == class })
		}
		w.demands[at].left++
	}
}

// eachDomain visits the domains of a partition that have nodes in the scope which the ask allows.
func (r *unitPlacement) eachDomain(s scope, part *index.Partition, visit func(domain int32)) {
	if s.partition == nil && r.ask.Within == nil {
		for domain := range part.Domains {
			if len(part.Domains[domain].Slots) > 0 {
				visit(int32(domain))
			}
		}
		return
	}
	r.listing++
	for len(r.listed) < len(part.Domains) {
		r.listed = append(r.listed, 0)
	}
	for _, slot := range r.nodes(s) {
		domain := part.Of[slot]
		if domain != index.NoGroup && r.listed[domain] != r.listing && r.allows(slot) {
			r.listed[domain] = r.listing
			visit(domain)
		}
	}
}

func (w *domainCandidates) candidate(domain int32) candidate {
	c := candidate{domain: domain, fitsAll: true}
	for i := range w.demands {
		d := &w.demands[i]
		room := d.capacity[domain]
		c.capacity += room
		c.fits += min(room, d.left)
		if d.left > 0 {
			c.load += float64(d.left) / float64(room) // of nothing: infinite
		}
		c.fitsAll = c.fitsAll && room >= d.left
	}
	return c
}

// preference orders candidates: whether a is to be tried before b.
type preference func(a, b *candidate) (before, after bool)

// next is the untried candidate to try next, nil when no candidate is suitable.
func (w *domainCandidates) next(do func(*candidate) bool, prefer preference) *candidate {
	var best *candidate
	for i := range w.candidates {
		c := &w.candidates[i]
		if c.tried || !do(c) {
			continue
		}
		if best == nil {
			best = c
			continue
		}
		before, after := prefer(c, best)
		if before || !after && w.partition.Before(c.domain, best.domain) {
			best = c
		}
	}
	return best
}

// tightest prefers the domain that is filled most, as far as all can fit: the smallest by free capacity.
func tightest(a, b *candidate) (before, after bool) {
	switch {
	case a.anchors != b.anchors:
		return a.anchors > b.anchors, a.anchors < b.anchors
	case a.load <= 1 && b.load <= 1:
		return a.load > b.load, a.load < b.load
	}
	return a.load < b.load, a.load > b.load
}

// widest prefers the domain with the greatest capacity.
func widest(a, b *candidate) (before, after bool) { return a.load < b.load, a.load > b.load }

// fullest prefers the domain that takes the most members, then the smallest of them.
func fullest(a, b *candidate) (before, after bool) {
	switch {
	case a.anchors != b.anchors:
		return a.anchors > b.anchors, a.anchors < b.anchors
	case a.fits != b.fits:
		return a.fits > b.fits, a.fits < b.fits
	}
	return a.capacity < b.capacity, a.capacity > b.capacity
}
