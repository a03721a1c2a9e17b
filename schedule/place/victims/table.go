package victims

import (
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/quota"
	"hilbert.dev/hilbert/internal/heap"
	"hilbert.dev/hilbert/schedule/place/pack"
	"hilbert.dev/hilbert/schedule/place/rules"
)

const (
	// maxCostTables bounds the memory: some 90 bytes a node, each.
	maxCostTables = 8
	// costRefresh is for how long a table keeps to the time at which it measured the work lost, in nanoseconds.
	CostRefresh = 60e9
)

// costTable keeps, for single pods of one class, priority and queue, what one more of them would cost on each node. It follows the ledger's
// logs, so that of many pods one after the other each evaluates only the nodes that have changed since the last.
//
// What makes a node more expensive (a queue with less left to give, a budget that is spent) is found when the node is on top, because it is then
// evaluated again. What makes a node cheaper without a change on the node itself is either looked for (levels of queues, gangs that changed
// on other nodes) or waits until the table is built again, at most CostRefresh later. A search that finds nothing in the table is
// repeated without it.
type costTable struct {
	r          *Reclaimer
	cursor     changeCursor
	measuredAt int64 // the time that all costs were measured at
	costs      []memberCost
	position   []int32
	ties       []uint32 // by slot, of the nodes that costs is about: a slot may have another node by now, or none
	heap       *heap.Heap[cluster.Slot]
	units      [][]*cluster.Unit // by slot: whose members were on it
	// protected is, by slot, when the first of the pods may be evicted that must not be now, 0 if there is none; first is the first of these times.
	protected []int64
	first     int64
	spared    bool // pods were left alone that may be taken when the queue uses more; then all is asked anew each time
	// refused are nodes on which a pod that another Plan claims is not counted on. They are asked anew each time: what its queue has borrowed may allow
	// it by now.
	refused  []cluster.Slot
	terms    map[*quota.Queue]queueTerms
	lastUsed uint64
}

// costKey is what the costs depend on, apart from the nodes and the victim quota.
type costKey struct {
	class    cluster.ClassID
	priority int32
	queue    *quota.Queue
	never    bool
}

// queueTerms is what may be taken from a queue, and how willingly.
type queueTerms struct {
	over                     int32
	priority                 bool
	reclaimable              int
	minRuntime               int64
	borrowed, branchBorrowed uint64 // kinds of which it, or the queue at the branchBorrowed, has borrowed
}

// fromTable finds victims for a single pod by its table. known is false when a table cannot tell.
func (r *Reclaimer) fromTable(ask *pack.Ask, now int64) (found Eviction, ok, known bool) {
	s := &r.search
	if len(ask.Members) > 1 || ask.Within != nil || ask.Topology.Required != "" || ask.Topology.Uniform != "" || s.packsSubgroups() ||
		rules.UsesDomainFilters(ask.Members[0].Class) || r.snapshot.Mark() > 0 || s.quota.exceedsLimits() {
		return Eviction{}, false, false
	}
	t := r.table(costKey{ask.Members[0].Class.ID, s.quota.priority, s.quota.queue, s.quota.never})
	s.evaluator.class, s.evaluator.domainFilters, s.evaluator.freeOnly = ask.Members[0].Class, false, false
	if t.terms == nil || t.spared || now-t.measuredAt > CostRefresh || now < t.measuredAt || t.mayBeCheaper(s) {
		t.build(s, now)
	} else {
		t.follow(s)
	}
	defer func() { s.groups.now = now }()
	slot, made, ok := t.best(s)
	if !ok {
		return Eviction{}, false, false
	}
	if made == (memberCost{cost: noCost()}) {
		return Eviction{}, false, true // it fits as it is
	}
	base := s.attempt.checkpoint()
	s.filler.apply(slot, made, ask.Members[0])
	best := s.attempt.solution([]cluster.Slot{slot})
	s.attempt.undoTo(base)
	s.groups.now = now
	found, ok = s.finish(best)
	s.attempt.undoTo(base)
	return found, ok, ok
}

// table returns the table of a key: the one that there is, a new one, or the least recently used one.
func (r *Reclaimer) table(key costKey) *costTable {
	r.uses++
	t := r.tables[key]
	if t == nil {
		if len(r.tables) < maxCostTables {
			t = &costTable{r: r}
			t.heap = heap.New(t.before, func(slot cluster.Slot, at int) { t.position[slot] = int32(at) })
		} else {
			oldest := key
			for other, x := range r.tables {
				if t == nil || x.lastUsed < t.lastUsed {
					oldest, t = other, x
				}
			}
			delete(r.tables, oldest)
			t.terms = nil
		}
		r.tables[key] = t
	}
	t.lastUsed = r.uses
	for slots := r.store.Slots(); len(t.costs) < slots; {
		t.costs, t.position, t.units = append(t.costs, memberCost{}), append(t.position, notInHeap), append(t.units, nil)
		t.ties, t.protected = append(t.ties, 0), append(t.protected, 0)
	}
	return t
}

func (t *costTable) before(a, b cluster.Slot) bool {
	if order := t.costs[a].compare(&t.costs[b]); order != 0 {
		return order < 0
	}
	if t.ties[a] != t.ties[b] {
		return t.ties[a] > t.ties[b]
	}
	return a < b
}

// build asks every node.
func (t *costTable) build(s *victimSearch, now int64) {
	for t.heap.Len() > 0 {
		t.heap.Remove(t.heap.Len() - 1)
	}
	s.groups.now, t.measuredAt = now, now
	t.terms, t.first, t.spared, t.refused = make(map[*quota.Queue]queueTerms), 0, false, nil
	t.cursor.start(t.r.store)
	for i := range t.costs {
		t.update(s, cluster.Slot(i))
	}
	for q, a := range s.quota.accounts {
		if a.classified {
			t.terms[q] = s.quota.terms(a)
		}
	}
}

// follow evaluates the nodes that have changed, and those that hold members of a gang of which a member is, or was, on one of them.
func (t *costTable) follow(s *victimSearch) {
	s.groups.now = t.measuredAt
	var also []*cluster.Unit
	if !t.cursor.catchUp(t.r.store, func(slot cluster.Slot) {
		also = append(also, t.units[slot]...)
		t.update(s, slot)
		also = append(also, t.units[slot]...)
	}) {
		t.build(s, s.groups.now)
		return
	}
	t.endProtections(s)
	refused := t.refused
	t.refused = nil
	for _, slot := range refused {
		t.update(s, slot)
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
	for q, a := range s.quota.accounts { // queues that have come up since
		if _, known := t.terms[q]; a.classified && !known {
			t.terms[q] = s.quota.terms(a)
		}
	}
}

// endProtections asks the nodes again on which pods may be evicted by now that were protected.
func (t *costTable) endProtections(s *victimSearch) {
	if t.first == 0 || s.groups.decided < t.first {
		return
	}
	t.first = 0
	for i, until := range t.protected {
		if until != 0 && until <= s.groups.decided {
			t.update(s, cluster.Slot(i))
		} else {
			t.willEnd(until)
		}
	}
}

// willEnd takes note that a protection ends at a time; 0: there is none.
func (t *costTable) willEnd(until int64) {
	if until != 0 && (t.first == 0 || until < t.first) {
		t.first = until
	}
}

// update asks a node again.
func (t *costTable) update(s *victimSearch, slot cluster.Slot) {
	units := t.units[slot][:0]
	for _, pod := range t.r.pods.evictable[slot] {
		if u := pod.Unit; u != nil && u.Atomic() && !slices.Contains(units, u) {
			units = append(units, u)
		}
	}
	t.units[slot] = units
	s.groups.protected, s.quota.spared = Protection{}, false
	made, ok := s.evaluator.evaluate(slot)
	t.protected[slot] = s.groups.protected.Until
	t.willEnd(t.protected[slot])
	t.spared = t.spared || s.quota.spared
	if s.evaluator.refused && !slices.Contains(t.refused, slot) {
		t.refused = append(t.refused, slot)
	}
	at := t.position[slot]
	if ok {
		t.ties[slot] = t.r.index.Tie(slot)
	}
	switch {
	case !ok && at != notInHeap:
		t.heap.Remove(int(at))
	case !ok:
	case at != notInHeap:
		t.costs[slot] = made
		t.heap.Fix(int(at))
	default:
		t.costs[slot] = made
		t.heap.Push(slot)
	}
}

// best returns the cheapest node; it has just been priced.
func (t *costTable) best(s *victimSearch) (cluster.Slot, memberCost, bool) {
	for t.heap.Len() > 0 {
		slot := t.heap.First()
		made, ok := s.evaluator.evaluate(slot)
		switch {
		case !ok:
			t.heap.Pop()
		case made.compare(&t.costs[slot]) > 0:
			t.costs[slot] = made
			t.heap.Fix(0)
		default:
			return slot, made, true
		}
	}
	return cluster.NoSlot, memberCost{}, false
}

// mayBeCheaper reports whether something may be taken from a queue that could not be before, or more readily, so that some cost may have
// fallen. One step of the level is ignored: it comes and goes with every pod. All queues are looked at even when the first one tells,
// because which of them the next table knows must not depend on the order of a map.
func (t *costTable) mayBeCheaper(s *victimSearch) (mayBeCheaper bool) {
	for q, was := range t.terms {
		if t.r.store.Quota().Queue(q.Name) != q {
			mayBeCheaper = true
			continue
		}
		a := s.quota.account(q)
		if !a.classified {
			s.quota.classify(a)
		}
		is := s.quota.terms(a)
		if is.over > was.over+1 || is.priority != was.priority || is.reclaimable != was.reclaimable || is.minRuntime < was.minRuntime || is.borrowed&^was.borrowed != 0 || is.branchBorrowed&^was.branchBorrowed != 0 {
			mayBeCheaper = true
			continue
		}
		was.over, was.borrowed, was.branchBorrowed = min(was.over, is.over), was.borrowed&is.borrowed, was.branchBorrowed&is.branchBorrowed
		t.terms[q] = was
	}
	return mayBeCheaper
}

// terms is what may be taken from a queue now.
func (b *victimQuota) terms(a *queueAccount) queueTerms {
	r := queueTerms{over: a.leastOver(), priority: a.priority, reclaimable: len(a.reclaimable), minRuntime: a.minRuntime}
	for _, claim := range b.claimable {
		if b.excess(a, claim.Kind) > 0 {
			r.borrowed |= 1 << (claim.Kind % 64)
		}
		if b.excess(a.branch, claim.Kind) > 0 {
			r.branchBorrowed |= 1 << (claim.Kind % 64)
		}
	}
	return r
}
