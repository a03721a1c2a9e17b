package place

import (
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/internal/heap"
)

const (
	// maxBidTables bounds the memory: some 90 bytes a node, each.
	maxBidTables = 8
	// bidRefresh is for how long a table keeps to the time at which it measured the work lost, in nanoseconds.
	bidRefresh = 60e9
)

// bidTable keeps, for single pods of one class, priority and queue, what one more of them would cost on each node. It follows the ledger's logs,
// so that one pod after the other evaluates the nodes that have changed since the last. What makes offers dearer (queues that have less left to
// give, budgets that are spent) is found out when they are up; what makes them cheaper without a change on the node itself is either looked for
// (the levels of queues, gangs that have changed elsewhere) or waits for the table to be made anew, at most bidRefresh later. A search that finds
// nothing in a table is repeated without.
type bidTable struct {
	r        *Reclaimer
	trail    trail
	at       int64 // the now of all offers
	offers   []offer
	position []int32
	heap     *heap.Heap[cluster.Slot]
	units    [][]*cluster.Unit // by slot: whose members were on it
	regimes  map[*cluster.Queue]regime
	lastUsed uint64
}

// bidKey is what the offers depend on, apart from the nodes and the queues' books.
type bidKey struct {
	class    cluster.ClassID
	priority int32
	queue    *cluster.Queue
	never    bool
}

// regime is what may be taken from a queue, and how willingly.
type regime struct {
	over         int32
	priority     bool
	shares       int
	excess, fork uint64 // kinds of which it, or the queue at the fork, has borrowed
}

// quick finds victims for a single pod by its table. known is false when a table cannot tell.
func (r *Reclaimer) quick(ask *Ask, now int64) (found Eviction, ok, known bool) {
	s := &r.seek
	if len(ask.Members) > 1 || ask.Within != nil || ask.Topology.Required != "" || ask.Topology.Uniform != "" || s.packsSubgroups() ||
		reachesFar(ask.Members[0].Class) || r.placer.snapshot.Mark() > 0 || s.books.short() {
		return Eviction{}, false, false
	}
	t := r.table(bidKey{ask.Members[0].Class.ID, s.books.priority, s.books.asker, s.books.never})
	s.class, s.far, s.freeOnly = ask.Members[0].Class, false, false
	if t.regimes == nil || now-t.at > bidRefresh || now < t.at || t.eased(s) {
		t.build(s, now)
	} else {
		t.follow(s)
	}
	defer func() { s.now = now }()
	slot, made, ok := t.best(s)
	if !ok {
		return Eviction{}, false, false
	}
	if made == (offer{cost: free()}) {
		return Eviction{}, false, true // it fits as it is
	}
	base := s.here()
	s.enact(slot, made, ask.Members[0])
	best := s.solution([]cluster.Slot{slot})
	s.back(base)
	s.now = now
	found, ok = s.finish(best)
	s.back(base)
	return found, ok, ok
}

// table returns the table of a key: the one that there is, a new one, or the least recently used one.
func (r *Reclaimer) table(key bidKey) *bidTable {
	r.clock++
	t := r.tables[key]
	if t == nil {
		if len(r.tables) < maxBidTables {
			t = &bidTable{r: r}
			t.heap = heap.New(t.before, func(slot cluster.Slot, at int) { t.position[slot] = int32(at) })
		} else {
			t = leastRecent(r.tables, func(t *bidTable) uint64 { return t.lastUsed })
			for other, x := range r.tables {
				if x == t {
					delete(r.tables, other)
				}
			}
			t.regimes = nil
		}
		r.tables[key] = t
	}
	t.lastUsed = r.clock
	for slots := r.store.Slots(); len(t.offers) < slots; {
		t.offers, t.position, t.units = append(t.offers, offer{}), append(t.position, absent), append(t.units, nil)
	}
	return t
}

func (t *bidTable) before(a, b cluster.Slot) bool {
	if order := t.offers[a].compare(&t.offers[b]); order != 0 {
		return order < 0
	}
	return t.r.prefers(a, b)
}

// build asks every node.
func (t *bidTable) build(s *seeker, now int64) {
	for t.heap.Len() > 0 {
		t.heap.Remove(t.heap.Len() - 1)
	}
	s.now, t.at = now, now
	t.regimes = make(map[*cluster.Queue]regime)
	t.trail.start(t.r.store)
	for i := range t.offers {
		t.update(s, cluster.Slot(i))
	}
	for q, a := range s.books.accounts {
		if a.seen {
			t.regimes[q] = s.books.regime(a)
		}
	}
}

// follow asks the nodes that have changed, and those where somebody is whose gang has a member on one of them, or had.
func (t *bidTable) follow(s *seeker) {
	s.now = t.at
	var also []*cluster.Unit
	if !t.trail.catchUp(t.r.store, func(slot cluster.Slot) {
		also = append(also, t.units[slot]...)
		t.update(s, slot)
		also = append(also, t.units[slot]...)
	}) {
		t.build(s, s.now)
		return
	}
	var done []*cluster.Unit
	for _, u := range also {
		if slices.Contains(done, u) {
			continue
		}
		done = append(done, u)
		for _, pod := range u.Pods() {
			if slot := t.r.store.Slot(pod.Node()); slot != cluster.NoSlot {
				t.update(s, slot)
			}
		}
	}
	for q, a := range s.books.accounts { // queues that have come up since
		if _, known := t.regimes[q]; a.seen && !known {
			t.regimes[q] = s.books.regime(a)
		}
	}
}

// update asks a node anew.
func (t *bidTable) update(s *seeker, slot cluster.Slot) {
	units := t.units[slot][:0]
	for _, pod := range t.r.roll.stays[slot] {
		if u := pod.Unit; u != nil && u.Atomic() && !slices.Contains(units, u) {
			units = append(units, u)
		}
	}
	t.units[slot] = units
	made, ok := s.price(slot)
	at := t.position[slot]
	switch {
	case !ok && at != absent:
		t.heap.Remove(int(at))
	case !ok:
	case at != absent:
		t.offers[slot] = made
		t.heap.Fix(int(at))
	default:
		t.offers[slot] = made
		t.heap.Push(slot)
	}
}

// best returns the cheapest node; it has just been priced.
func (t *bidTable) best(s *seeker) (cluster.Slot, offer, bool) {
	for t.heap.Len() > 0 {
		slot := t.heap.First()
		made, ok := s.price(slot)
		switch {
		case !ok:
			t.heap.Pop()
		case made.compare(&t.offers[slot]) > 0:
			t.offers[slot] = made
			t.heap.Fix(0)
		default:
			return slot, made, true
		}
	}
	return cluster.NoSlot, offer{}, false
}

// eased reports whether something may be had from a queue that could not be before, or more willingly, so that offers may have become
// cheaper. One step of the level is not noticed: it comes and goes with every pod. All queues are looked at even when the first tells: which
// of them the next table knows must not depend on the order of a map.
func (t *bidTable) eased(s *seeker) (eased bool) {
	for q, was := range t.regimes {
		if t.r.store.Queue(q.Name) != q {
			eased = true
			continue
		}
		a := s.books.account(q)
		if !a.seen {
			s.books.see(a)
		}
		is := s.books.regime(a)
		if is.over > was.over+1 || is.priority != was.priority || is.shares != was.shares || is.excess&^was.excess != 0 || is.fork&^was.fork != 0 {
			eased = true
			continue
		}
		was.over, was.excess, was.fork = min(was.over, is.over), was.excess&is.excess, was.fork&is.fork
		t.regimes[q] = was
	}
	return eased
}

// regime is what may be taken from a queue now.
func (b *books) regime(a *account) regime {
	r := regime{over: a.least(), priority: a.priority, shares: len(a.shares)}
	for _, ground := range b.grounds {
		if b.excess(a, ground.Kind) > 0 {
			r.excess |= 1 << (ground.Kind % 64)
		}
		if b.excess(a.fork, ground.Kind) > 0 {
			r.fork |= 1 << (ground.Kind % 64)
		}
	}
	return r
}
