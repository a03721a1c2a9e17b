package schedule

import (
	"slices"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/queue"
)

// sharing gives units to schedulers beside the one that sees all nodes, and commits what they have decided: to workers in this process, or to Outsiders in others.
// Whatever either does, a unit is in exactly one place: with one of them, taken, or in the queue again.
//
// Only single pods on their first try are shared, whose place does not depend on where others are. All else, and what finds no room with them, is decided with all
// nodes in view. A unit does not overtake one of higher priority that another scheduler has.
//
// Example: of 100 units that are ready a worker gets the first 32. While it decides, the Scheduler takes in events; then it commits the 32 Plans in order.
type sharing struct {
	d   *decisions
	cfg *spec.Scheduling

	workers   workers
	outsiders Outsiders
	taken     *queue.Unit // was taken out of the queue, and is for no other scheduler
	counts    WorkerCounts
}

// WorkerCounts are what has come of the units that were handed out.
type WorkerCounts struct {
	// Schedulers there are beside the one that sees all nodes; 0: that one does everything.
	Schedulers int
	// Pending units are with them now.
	Pending int
	// Batches of them were handed out, of so many Units. Of these Committed have their places; for Elsewhere there was no room in the partition, or the search would
	// have taken too long, so that all nodes were looked at; Parked joined others like them that had been found to fit nowhere; Rejected were overtaken; Gone had left, or changed, before.
	Batches, Units, Committed, Elsewhere, Parked, Rejected, Gone int
}

// sum returns what has come of the units that were handed out.
func (h *sharing) sum() WorkerCounts {
	c := h.counts
	c.Pending = h.pending()
	c.Schedulers = max(len(h.workers.list), len(h.outsiders.list))
	return c
}

// pending is how many units other schedulers have.
func (h *sharing) pending() int { return h.workers.pending() + h.outsiders.pending() }

// Add adds what those of another process have done.
func (c *WorkerCounts) Add(o WorkerCounts) {
	c.Schedulers = max(c.Schedulers, o.Schedulers)
	c.Batches, c.Units = c.Batches+o.Batches, c.Units+o.Units
	c.Committed, c.Elsewhere, c.Parked = c.Committed+o.Committed, c.Elsewhere+o.Elsewhere, c.Parked+o.Parked
	c.Rejected, c.Gone = c.Rejected+o.Rejected, c.Gone+o.Gone
}

// handOut gives a worker that has none the next units, and reports whether there were both.
func (h *sharing) handOut() bool {
	w := h.workers.free()
	if w == nil || h.taken != nil {
		return false
	}
	most := min(max(h.d.queue.Counts().Ready/(2*len(h.workers.list)), minBatch), maxBatch)
	for len(w.batch) < most {
		u := h.d.queue.Pop()
		if u == nil {
			break
		}
		if !h.forWorker(u) {
			h.taken = u
			break
		}
		pod := h.d.store.Pod(u.Pod)
		w.batch = append(w.batch, task{unit: u, pod: *pod, profile: w.placers.Of(pod)})
	}
	if len(w.batch) == 0 {
		return false
	}
	w.snapshot.Advance(h.d.store)
	for i := range w.batch {
		w.batch[i].revision = w.snapshot.Revision()
	}
	w.busy, w.step = true, h.workers.step
	h.workers.out = append(h.workers.out, w)
	h.counts.Batches++
	h.counts.Units += len(w.batch)
	h.workers.runner.Start(w.number, w.run)
	return true
}

// forWorker reports whether a unit may be placed by what one partition shows: a single pod that is tried for the first time, and whose place does not depend on
// where others are, on volumes or on claims.
func (h *sharing) forWorker(u *queue.Unit) bool {
	if u.Gang != nil || u.Attempts > 0 || h.d.blocked.flushed(u) {
		return false
	}
	pod := h.d.store.Pod(u.Pod)
	if pod.Nominated != "" || pod.UsesClaims() || !pod.Class.Constraints.OnlySpreadsSoftly() {
		return false
	}
	_, ok := h.d.gate.Admits(u, u.Class.Charge)
	return ok
}

// next takes out the unit that the Scheduler decides itself, nil if none is ready.
func (h *sharing) next() *queue.Unit {
	u := h.taken
	h.taken = nil
	if u != nil && h.d.queue.Decides(u) {
		return u
	}
	return h.d.queue.Pop()
}

// end ends a Step: workers that have nothing are given units for the time until the next one, and what no worker may have, and was not decided, waits on.
func (h *sharing) end() (pending int) {
	if !h.d.binder.Full() {
		for h.handOut() {
			continue
		}
	}
	if u := h.taken; u != nil {
		h.taken = nil
		h.d.queue.Return(u)
	}
	if h.d.binder.Full() {
		return 0 // the shell need not ask again before an answer has come
	}
	return h.workers.pending()
}

// withWorkers hands out what workers may decide on, and takes in what they have decided. It returns how many units that was about. more is false when the Scheduler
// should go on by itself: with a unit that no worker may have, or with none.
func (h *sharing) withWorkers(now time.Time) (decisions int, more bool) {
	if h.handOut() {
		return 0, true
	}
	w := &h.workers
	if len(w.out) == 0 {
		return 0, false
	}
	oldest := w.out[0]
	switch {
	case h.taken != nil && !w.outranks(h.taken):
		return 0, false
	case h.taken != nil, w.free() == nil, oldest.step < w.step:
		return h.takeIn(now), true
	}
	return 0, false // they go on while the shell does something else
}

// takeIn commits what the worker has decided that got its batch first, or some of it.
func (h *sharing) takeIn(now time.Time) (decisions int) {
	w := h.workers.out[0]
	if w.busy {
		h.workers.runner.Wait(w.number)
		w.busy = false
	}
	h.d.looked += w.looked
	w.looked = 0
	decisions = h.takeInSome(w.instance, w.number, w.batch[w.taken:], now)
	w.taken += decisions
	if w.taken == len(w.batch) {
		h.workers.out = append(h.workers.out[:0], h.workers.out[1:]...)
		clear(w.batch)
		w.batch, w.taken = w.batch[:0], 0
	}
	return decisions
}

// takeInSome commits what a scheduler has decided, in order, as far as the bound of looks of a Step allows: one decision at least. It returns how many it took in.
func (h *sharing) takeInSome(in *instance, number int, tasks []task, now time.Time) (decisions int) {
	for ; decisions < len(tasks) && (decisions == 0 || h.d.looked < maxLooks); decisions++ {
		h.d.applyConsequences(now)
		h.takeInOne(in, number, &tasks[decisions], now)
		h.d.blocked.decided()
	}
	return decisions
}

// takeInOne commits one decision. Where there is none, its unit has no more room in its queues, or the node's agent would rather not have it there, the unit is decided anew with all
// nodes in view, at once: so a unit of high priority does not come after those of lower priority that found room elsewhere.
func (h *sharing) takeInOne(in *instance, number int, t *task, now time.Time) {
	counts := &h.counts
	if !h.d.queue.Decides(t.unit) {
		counts.Gone++
		return
	}
	a := &h.d.attempt
	*a = attempt{d: h.d, unit: t.unit, in: in, now: now}
	if pod := h.d.store.Pod(t.unit.Pod); !t.found || pod.Nominated != "" || !a.admitted() || h.d.apart.Avoids(h.d.store, pod, h.d.store.Slot(t.node), now) {
		if h.d.waiting.joinParked(t.unit, now) {
			counts.Parked++
			return
		}
		counts.Elsewhere++
		h.d.decide(t.unit, now)
		return
	}
	plan := &cluster.Plan{
		Placements: []cluster.Placement{{Pod: t.unit.Pod, Node: t.node, Grant: t.choice.Grant}},
		Revision:   t.revision, Scheduler: number,
	}
	if a.commit(plan, facts.Condition{}) {
		counts.Committed++
	} else {
		counts.Rejected++
	}
}

// outsideTurn is what Step does after withOutsiders.
type outsideTurn uint8

const (
	decidesItself outsideTurn = iota // the next unit is the leader's
	goesOn                           // something was handed out or taken in
	awaits                           // the next unit is for a scheduler that has something to do, or must not overtake what one has
)

// withOutsiders takes in what has come back from schedulers elsewhere, and gives them units.
func (h *sharing) withOutsiders(now time.Time) (decisions int, next outsideTurn) {
	x := &h.outsiders
	if len(x.answered) > 0 {
		return h.takeInOutside(now), goesOn
	}
	o, able := x.free()
	if !able {
		return 0, decidesItself
	}
	u := h.next()
	if u == nil {
		return 0, decidesItself
	}
	h.taken = u
	if !h.forOutside(u) {
		if x.outranks(u) {
			return 0, awaits
		}
		return 0, decidesItself
	}
	if o == nil {
		return 0, awaits
	}
	if h.d.market.Due() {
		h.d.market.Learn(h.d.store)
	}
	for u != nil && len(o.batch) < outsideBatch {
		if h.taken = u; !h.forOutside(u) {
			break
		}
		pod := h.d.store.Pod(u.Pod)
		o.batch = append(o.batch, task{unit: u, pod: *pod, profile: h.d.instances[0].placers.Of(pod)})
		h.taken = nil
		if len(o.batch) < outsideBatch {
			u = h.d.queue.Pop()
		}
	}
	h.counts.Batches++
	h.counts.Units += len(o.batch)
	return 0, goesOn
}

// forOutside reports whether a unit may be placed by what the copy of the ledger shows.
func (h *sharing) forOutside(u *queue.Unit) bool {
	return h.forWorker(u) && cluster.Copies(u.Class)
}

// takeInOutside commits the batch that came back first, or some of it.
func (h *sharing) takeInOutside(now time.Time) (decisions int) {
	x := &h.outsiders
	back := &x.answered[0]
	decisions = h.takeInSome(h.d.instances[0], back.number, back.tasks, now)
	if back.tasks = back.tasks[decisions:]; len(back.tasks) == 0 {
		x.answered = slices.Delete(x.answered, 0, 1)
	}
	return decisions
}
