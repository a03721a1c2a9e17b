package pack

import (
	"cmp"
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/schedule/place/index"
)

// scope is the nodes that members may go to: a domain, or, the zero value, all that the ask allows.
type scope struct {
	partition *index.Partition
	domain    int32
}

// fixes reports whether the label has one value in the scope.
func (s scope) fixes(key string) bool {
	return s.partition != nil && slices.Contains(s.partition.Keys, key)
}

// partition returns the partition by the labels that the scope fixes and some more; each of its domains is within the scope or beside it.
func (r *unitPlacement) partition(s scope, keys ...string) *index.Partition {
	r.keys = r.keys[:0]
	if s.partition != nil {
		r.keys = append(r.keys, s.partition.Keys...)
	}
	for _, key := range keys {
		if !slices.Contains(r.keys, key) {
			r.keys = append(r.keys, key)
		}
	}
	return r.index.Partition(r.keys)
}

// nodes lists the scope's slots, those among them that the ask does not allow too. The scope must not be every node.
func (r *unitPlacement) nodes(s scope) []cluster.Slot {
	if s.partition != nil {
		return s.partition.Domains[s.domain].Slots
	}
	return r.within
}

// fill gives members places in the scope, each the best that is left, or, where a label to spread over is given, in the domain of it that
// has the fewest. A class of which one member has failed is tried again only after others have got places, if it has constraints between
// pods: they may be what it waits for.
func (r *unitPlacement) fill(s scope, m memberRange, spread string) {
	r.fillTogether(s, m)
	if spread != "" && !s.fixes(spread) {
		r.spread(s, m, spread)
	}
	for again := true; again; {
		before := len(r.placed)
		r.failed = r.failed[:0]
		if s.partition == nil && r.ask.Within == nil {
			r.fillAnywhere(m)
		} else {
			r.fillNodes(r.nodes(s), m)
		}
		again = len(r.placed) > before && slices.ContainsFunc(r.failed, func(c *cluster.Class) bool { return c.Constraints != nil })
	}
}

// fillAnywhere gives each member the best of all nodes, as if it were a single pod. Members that were left over come first, then those whose volumes are somewhere
// already: the others can go elsewhere.
func (r *unitPlacement) fillAnywhere(m memberRange) {
	tied := func(i int) bool { v := r.ask.Members[i].Class.Volumes; return v != nil && v.Tied() }
	for _, class := range r.first {
		r.fillAnywhereIf(m, func(i int) bool { return r.ask.Members[i].Class == class })
	}
	r.fillAnywhereIf(m, tied)
	r.fillAnywhereIf(m, func(int) bool { return true })
}

func (r *unitPlacement) fillAnywhereIf(m memberRange, may func(i int) bool) {
	for i := m.from; i < m.to; i++ {
		class := r.ask.Members[i].Class
		if r.done[i] || slices.Contains(r.failed, class) || !may(i) {
			continue
		}
		choice, ok := r.index.Place(class)
		if !ok {
			r.failed = append(r.failed, class)
			continue
		}
		r.assign(i, choice)
	}
}

// fillNodes gives each member the best of some nodes. Members that were left over come first, then those of the class for which the cluster has the least capacity:
// members of other classes are likelier to find a node beside them than the other way round.
func (r *unitPlacement) fillNodes(slots []cluster.Slot, m memberRange) {
	members := r.ask.Members
	r.sameClass = r.sameClass[:0]
	for i := m.from; i < m.to; i++ {
		switch {
		case i == m.from || members[i].Class != members[i-1].Class:
			r.sameClass = append(r.sameClass, memberRange{i, i + 1})
		default:
			r.sameClass[len(r.sameClass)-1].to++
		}
	}
	if len(r.sameClass) > 1 {
		slices.SortStableFunc(r.sameClass, func(a, b memberRange) int {
			left, right := members[a.from].Class, members[b.from].Class
			return cmp.Or(cmp.Compare(r.turn(left), r.turn(right)), cmp.Compare(r.index.Capacity(left).Total(), r.index.Capacity(right).Total()))
		})
	}
	for _, alike := range r.sameClass {
		r.fillSameClass(slots, alike)
	}
}

// fillSameClass gives each member of one class the best of some nodes.
func (r *unitPlacement) fillSameClass(slots []cluster.Slot, m memberRange) {
	class := r.ask.Members[m.from].Class
	if r.waiting(m) == 0 || slices.Contains(r.failed, class) {
		return
	}
	r.scorer.Reset(r.index, class, 1)
	r.addNodes(0, slots)
	for i := m.from; i < m.to; i++ {
		if r.done[i] {
			continue
		}
		slot, ok := r.scorer.Best(r.index, 0)
		if !ok {
			r.failed = append(r.failed, class)
			return
		}
		r.assign(i, r.index.Choose(slot, class))
		r.scorer.Update(r.index, slot)
	}
}

// addNodes adds nodes to a domain of the scorer.
func (r *unitPlacement) addNodes(domain int, slots []cluster.Slot) {
	for _, slot := range slots {
		if r.allows(slot) {
			r.scorer.Add(r.index, domain, slot)
		}
	}
}

// spreading is the domains that members are spread over, as a heap: the one with the fewest members first, then the one with the greatest capacity,
// then by name.
type spreading struct {
	domains []spreadDomain
	order   []int32 // the heap: indices of share
	full    []int32 // where the class under way finds no node
	scorer  index.DomainScorer
}

type spreadDomain struct {
	domain   int32
	members  int32
	loaded   bool
	capacity int64
}

// spread gives members places, the next always in the domain of the label with the fewest members that has room. It leaves those over
// that find none in any.
func (r *unitPlacement) spread(s scope, m memberRange, key string) {
	part := r.partition(s, key)
	w := r.candidates(s, part, m)
	defer r.release(w)
	values := r.partition(scope{}, key) // its values everywhere: members outside the scope count too
	x, counts := &r.spreading, r.count(values, layer{}, true)
	x.domains, x.order, x.full = x.domains[:0], x.order[:0], x.full[:0]
	for i := range w.candidates {
		c := &w.candidates[i]
		x.domains = append(x.domains, spreadDomain{domain: c.domain, members: counts[values.Of[part.Domains[c.domain].Slots[0]]], capacity: c.capacity})
		x.order = append(x.order, int32(i))
	}
	for i := len(x.order)/2 - 1; i >= 0; i-- {
		x.down(part, i)
	}
	var class *cluster.Class
	for i := m.from; i < m.to; i++ {
		if r.done[i] {
			continue
		}
		if c := r.ask.Members[i].Class; c != class {
			class = c
			x.startClass(r.index, part, class)
		}
		r.spreadOne(part, i)
	}
}

// spreadOne gives one member a place in the first domain that has one.
func (r *unitPlacement) spreadOne(part *index.Partition, member int) {
	x, p := &r.spreading, r.index
	for len(x.order) > 0 {
		at := x.order[0]
		sh := &x.domains[at]
		if !sh.loaded {
			sh.loaded = true
			for _, slot := range part.Domains[sh.domain].Slots {
				if r.allows(slot) {
					x.scorer.Add(p, int(at), slot)
				}
			}
		}
		slot, ok := x.scorer.Best(p, int(at))
		if ok {
			r.assign(member, p.Choose(slot, x.scorer.Class))
			x.scorer.Update(p, slot)
			sh.members++
			x.down(part, 0)
			return
		}
		last := len(x.order) - 1
		x.full = append(x.full, at)
		x.order[0] = x.order[last]
		x.order = x.order[:last]
		x.down(part, 0)
	}
}

// startClass starts with the members of another class: every domain may take some.
func (x *spreading) startClass(p *index.Index, part *index.Partition, c *cluster.Class) {
	for i := range x.domains {
		x.domains[i].loaded = false
	}
	x.scorer.Reset(p, c, len(x.domains))
	for _, at := range x.full {
		x.order = append(x.order, at)
		for i := len(x.order) - 1; i > 0 && x.less(part, x.order[i], x.order[(i-1)/2]); i = (i - 1) / 2 {
			x.order[i], x.order[(i-1)/2] = x.order[(i-1)/2], x.order[i]
		}
	}
	x.full = x.full[:0]
}

func (x *spreading) less(part *index.Partition, a, b int32) bool {
	l, r := &x.domains[a], &x.domains[b]
	if l.members != r.members {
		return l.members < r.members
	}
	if l.capacity != r.capacity {
		return l.capacity > r.capacity
	}
	return part.Before(l.domain, r.domain)
}

func (x *spreading) down(part *index.Partition, i int) {
	for {
		child := 2*i + 1
		if child >= len(x.order) {
			return
		}
		if right := child + 1; right < len(x.order) && x.less(part, x.order[right], x.order[child]) {
			child = right
		}
		if !x.less(part, x.order[child], x.order[i]) {
			return
		}
		x.order[i], x.order[child] = x.order[child], x.order[i]
		i = child
	}
}

// count counts the unit's members, anchors included, by domain of a partition. The slice is valid until the next call.
func (r *unitPlacement) count(part *index.Partition, l layer, placed bool) []int32 {
	r.counts = r.counts[:0]
	for range part.Domains {
		r.counts = append(r.counts, 0)
	}
	add := func(slot cluster.Slot) {
		if d := part.Of[slot]; d != index.NoGroup {
			r.counts[d]++
		}
	}
	for i := range r.ask.Anchors {
		if a := &r.ask.Anchors[i]; r.known(a.Slot) && (!l.sub || a.Subgroup == l.subgroup) {
			add(a.Slot)
		}
	}
	if placed {
		for i := range r.placed {
			add(r.placed[i].Slot)
		}
	}
	return r.counts
}

// known reports whether a slot has a node.
func (r *unitPlacement) known(slot cluster.Slot) bool {
	return slot >= 0 && int(slot) < r.snapshot.Slots() && r.snapshot.Node(slot) != nil
}
