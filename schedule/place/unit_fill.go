package place

import (
	"cmp"
	"slices"

	"hilbert.dev/hilbert/cluster"
)

// scope is the nodes that members may go to: a domain, or, the zero value, all that the ask allows.
type scope struct {
	partition *partition
	domain    int32
}

// fixes reports whether the label has one value in the scope.
func (s scope) fixes(key string) bool {
	return s.partition != nil && slices.Contains(s.partition.keys, key)
}

// divide returns the partition by the labels that the scope fixes and some more; each of its domains is within the scope or beside it.
func (r *unitRun) divide(s scope, keys ...string) *partition {
	r.keys = r.keys[:0]
	if s.partition != nil {
		r.keys = append(r.keys, s.partition.keys...)
	}
	for _, key := range keys {
		if !slices.Contains(r.keys, key) {
			r.keys = append(r.keys, key)
		}
	}
	return r.p.partition(r.keys)
}

// nodes lists the scope's slots, those among them that the ask does not allow too. The scope must not be every node.
func (r *unitRun) nodes(s scope) []cluster.Slot {
	if s.partition != nil {
		return s.partition.domains[s.domain].slots
	}
	return r.within
}

// fill gives members places in the scope, each the best that is left, or, where a label to spread over is given, in the domain of it that
// has the fewest. A class of which one member has failed is tried again only after others have got places, if it has constraints between
// pods: they may be what it waits for.
func (r *unitRun) fill(s scope, m stretch, spread string) {
	if spread != "" && !s.fixes(spread) {
		r.spread(s, m, spread)
	}
	for again := true; again; {
		before := len(r.placed)
		r.failed = r.failed[:0]
		if s.partition == nil && r.ask.Within == nil {
			r.eachInTurn(m)
		} else {
			r.eachOf(r.nodes(s), m)
		}
		again = len(r.placed) > before && slices.ContainsFunc(r.failed, func(c *cluster.Class) bool { return c.Constraints != nil })
	}
}

// eachInTurn gives each member the best of all nodes, as if it were a pod of its own.
func (r *unitRun) eachInTurn(m stretch) {
	for i := m.from; i < m.to; i++ {
		class := r.ask.Members[i].Class
		if r.done[i] || slices.Contains(r.failed, class) {
			continue
		}
		choice, ok := r.p.Place(class)
		if !ok {
			r.failed = append(r.failed, class)
			continue
		}
		r.take(i, choice)
	}
}

// eachOf gives each member the best of some nodes. Members of the class for which the cluster has the least room come first: those of
// others are likelier to find something beside them than the other way round.
func (r *unitRun) eachOf(slots []cluster.Slot, m stretch) {
	members := r.ask.Members
	r.alike = r.alike[:0]
	for i := m.from; i < m.to; i++ {
		switch {
		case i == m.from || members[i].Class != members[i-1].Class:
			r.alike = append(r.alike, stretch{i, i + 1})
		default:
			r.alike[len(r.alike)-1].to++
		}
	}
	if len(r.alike) > 1 {
		slices.SortStableFunc(r.alike, func(a, b stretch) int {
			return cmp.Compare(r.p.room(members[a.from].Class).open, r.p.room(members[b.from].Class).open)
		})
	}
	for _, alike := range r.alike {
		r.eachAlike(slots, alike)
	}
}

// eachAlike gives each member of one class the best of some nodes.
func (r *unitRun) eachAlike(slots []cluster.Slot, m stretch) {
	class := r.ask.Members[m.from].Class
	if r.left(m) == 0 || slices.Contains(r.failed, class) {
		return
	}
	r.pen.open(r.p, class, 1)
	r.stock(0, slots)
	for i := m.from; i < m.to; i++ {
		if r.done[i] {
			continue
		}
		slot, ok := r.pen.best(r.p, 0)
		if !ok {
			r.failed = append(r.failed, class)
			return
		}
		r.take(i, r.p.choose(slot, class))
		r.pen.update(r.p, slot)
	}
}

// stock puts nodes into the pen.
func (r *unitRun) stock(herd int, slots []cluster.Slot) {
	for _, slot := range slots {
		if r.allows(slot) {
			r.pen.add(r.p, herd, slot)
		}
	}
}

// evenly is the domains that members are spread over, as a heap: the one with the fewest members first, then the one with the most room,
// then by name.
type evenly struct {
	share  []portion
	order  []int32 // the heap: indices of share
	closed []int32 // where the class under way finds no node
	pen    pen
}

type portion struct {
	domain  int32
	members int32
	stocked bool
	room    int64
}

// spread gives members places, the next always in the domain of the label with the fewest members that has room. It leaves those over
// that find none in any.
func (r *unitRun) spread(s scope, m stretch, key string) {
	part := r.divide(s, key)
	w := r.weigh(s, part, m)
	defer r.drop(w)
	values := r.divide(scope{}, key) // its values everywhere: members outside the scope count too
	x, counts := &r.even, r.count(values, layer{}, true)
	x.share, x.order, x.closed = x.share[:0], x.order[:0], x.closed[:0]
	for i := range w.candidates {
		c := &w.candidates[i]
		x.share = append(x.share, portion{domain: c.domain, members: counts[values.of[part.domains[c.domain].slots[0]]], room: c.room})
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
			x.reopen(r.p, part, class)
		}
		r.spreadOne(part, i)
	}
}

// spreadOne gives one member a place in the first domain that has one.
func (r *unitRun) spreadOne(part *partition, member int) {
	x, p := &r.even, r.p
	for len(x.order) > 0 {
		at := x.order[0]
		sh := &x.share[at]
		if !sh.stocked {
			sh.stocked = true
			for _, slot := range part.domains[sh.domain].slots {
				if r.allows(slot) {
					x.pen.add(p, int(at), slot)
				}
			}
		}
		slot, ok := x.pen.best(p, int(at))
		if ok {
			r.take(member, p.choose(slot, x.pen.class))
			x.pen.update(p, slot)
			sh.members++
			x.down(part, 0)
			return
		}
		last := len(x.order) - 1
		x.closed = append(x.closed, at)
		x.order[0] = x.order[last]
		x.order = x.order[:last]
		x.down(part, 0)
	}
}

// reopen starts with a class: every domain may have room for it.
func (x *evenly) reopen(p *Placer, part *partition, c *cluster.Class) {
	for i := range x.share {
		x.share[i].stocked = false
	}
	x.pen.open(p, c, len(x.share))
	for _, at := range x.closed {
		x.order = append(x.order, at)
		for i := len(x.order) - 1; i > 0 && x.less(part, x.order[i], x.order[(i-1)/2]); i = (i - 1) / 2 {
			x.order[i], x.order[(i-1)/2] = x.order[(i-1)/2], x.order[i]
		}
	}
	x.closed = x.closed[:0]
}

func (x *evenly) less(part *partition, a, b int32) bool {
	l, r := &x.share[a], &x.share[b]
	if l.members != r.members {
		return l.members < r.members
	}
	if l.room != r.room {
		return l.room > r.room
	}
	return part.before(l.domain, r.domain)
}

func (x *evenly) down(part *partition, i int) {
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
func (r *unitRun) count(part *partition, l layer, placed bool) []int32 {
	r.counts = r.counts[:0]
	for range part.domains {
		r.counts = append(r.counts, 0)
	}
	add := func(slot cluster.Slot) {
		if d := part.of[slot]; d != noGroup {
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
func (r *unitRun) known(slot cluster.Slot) bool {
	return slot >= 0 && int(slot) < r.p.snapshot.Slots() && r.p.snapshot.Node(slot) != nil
}
