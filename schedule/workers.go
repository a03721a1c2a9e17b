package schedule

import (
	"slices"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/place/index"
	"hilbert.dev/hilbert/schedule/profiles"
	"hilbert.dev/hilbert/schedule/queue"
)

// A worker gets minBatch to maxBatch units at once: half of its share of those that are ready. What it decides in is older than the newest state by as many
// decisions at most, for each worker. Where thousands are ready, long batches let workers and the ledger's goroutine wait for one another less often; where few are,
// short ones leave some for every worker.
const (
	minBatch = 32
	maxBatch = 256
)

// Runner runs the decisions of several schedulers. A shell runs them beside one another, on other goroutines; without one, each is run where it is started. What
// comes of them is the same, for nothing that a scheduler reads changes meanwhile.
type Runner interface {
	// Start begins some work of a scheduler, which has none under way.
	Start(scheduler int, work func())
	// Wait returns when that work has ended. What it has written is visible then.
	Wait(scheduler int)
}

// inTurn runs all work at once.
type inTurn struct{}

func (inTurn) Start(_ int, work func()) { work() }
func (inTurn) Wait(int)                 {}

// workers are schedulers that place single pods, each in a partition of its own where the nodes are divided, while the Scheduler goes on: it takes in events, commits Plans and hands out writes.
// What needs more than one partition it decides itself.
//
// Batches are committed in the order in which they were handed out, so that a run is a function of its inputs, whatever takes how long.
type workers struct {
	runner Runner
	list   []*worker
	out    []*worker   // with a batch, the oldest first
	step   uint64      // counts Steps
	next   *queue.Unit // was taken out, and is not for a worker
	counts WorkerCounts
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

// worker is one of them. While it is busy, nothing of it may be touched but through Runner.Wait.
type worker struct {
	*instance
	batch  []task
	taken  int // of the batch: they are committed, or were dropped
	looked int
	step   uint64 // in which it got its batch
	busy   bool
}

// task is a unit of one pod to be placed. The pod is a copy: the ledger's record may change meanwhile.
type task struct {
	unit     *queue.Unit
	pod      cluster.Pod
	profile  int
	revision changes.Revision
	found    bool
	choice   index.Choice
	node     string
}

func newWorkers(n int, runner Runner, store *cluster.Store, set *profiles.Set, cfg *spec.Scheduling) workers {
	w := workers{runner: runner}
	if runner == nil {
		w.runner = inTurn{}
	}
	for i := range n {
		w.list = append(w.list, &worker{instance: newInstance(i, store, cluster.NewOptimisticSnapshot(), set, cfg), batch: make([]task, 0, maxBatch)})
	}
	w.counts.Schedulers = n
	return w
}

// run decides on the batch until it has looked at maxLooks nodes, for the ledger's goroutine waits for it; what is left then, the Scheduler decides. It may read
// nothing that the ledger's goroutine writes.
func (w *worker) run() {
	var full []*cluster.Class // for which there is no room: what is assumed makes none
	w.looked = 0
	for i := 0; i < len(w.batch) && w.looked < maxLooks; i++ {
		t := &w.batch[i]
		if slices.Contains(full, t.pod.Class) {
			continue
		}
		placer := w.placers.Placer(t.profile)
		if w.divided {
			t.choice, t.found = placer.PlaceIn(w.part, t.pod.Class)
		} else {
			t.choice, t.found = placer.Place(t.pod.Class)
		}
		w.looked += placer.Looked()
		if t.found {
			t.node = w.snapshot.Node(t.choice.Slot).Name
			w.snapshot.Assume(t.choice.Slot, &t.pod, t.choice.Grant)
		} else {
			full = append(full, t.pod.Class)
		}
	}
}

// idle waits until no worker decides, and leaves what they have decided where it is. What they read may be changed then, until units are handed out again.
func (w *workers) idle() {
	for _, busy := range w.out {
		if busy.busy {
			w.runner.Wait(busy.number)
			busy.busy = false
		}
	}
}

// pending is how many units workers have.
func (w *workers) pending() (units int) {
	for _, busy := range w.out {
		units += len(busy.batch) - busy.taken
	}
	return units
}

// free is a worker without a batch, nil if there is none.
func (w *workers) free() *worker {
	for _, one := range w.list {
		if len(one.batch) == 0 {
			return one
		}
	}
	return nil
}

// outranks reports whether a worker has a unit of higher priority.
func (w *workers) outranks(u *queue.Unit) bool {
	for _, busy := range w.out {
		for i := busy.taken; i < len(busy.batch); i++ {
			if busy.batch[i].pod.Priority > u.Priority {
				return true
			}
		}
	}
	return false
}

// handOut gives a worker that has none the next units, and reports whether there were both.
func (s *Scheduler) handOut() bool {
	w := s.workers.free()
	if w == nil || s.workers.next != nil {
		return false
	}
	most := min(max(s.queue.Counts().Ready/(2*len(s.workers.list)), minBatch), maxBatch)
	for len(w.batch) < most {
		u := s.queue.Pop()
		if u == nil {
			break
		}
		if !s.forWorker(u) {
			s.workers.next = u
			break
		}
		pod := s.store.Pod(u.Pod)
		w.batch = append(w.batch, task{unit: u, pod: *pod, profile: w.placers.Of(pod)})
	}
	if len(w.batch) == 0 {
		return false
	}
	w.snapshot.Advance(s.store)
	for i := range w.batch {
		w.batch[i].revision = w.snapshot.Revision()
	}
	w.busy, w.step = true, s.workers.step
	s.workers.out = append(s.workers.out, w)
	s.workers.counts.Batches++
	s.workers.counts.Units += len(w.batch)
	s.workers.runner.Start(w.number, w.run)
	return true
}

// forWorker reports whether a unit may be placed by what one partition shows: a single pod that is tried for the first time, and whose place does not depend on
// where others are, on volumes or on claims.
func (s *Scheduler) forWorker(u *queue.Unit) bool {
	if u.Gang != nil || u.Attempts > 0 || s.blocked.flushed(u) {
		return false
	}
	pod := s.store.Pod(u.Pod)
	if pod.Nominated != "" || pod.UsesClaims() || !pod.Class.Constraints.OnlySpreadsSoftly() {
		return false
	}
	_, ok := s.gate.Admits(u, u.Class.Charge)
	return ok
}

// nextUnit takes out the unit that the Scheduler decides itself, nil if none is ready.
func (s *Scheduler) nextUnit() *queue.Unit {
	u := s.workers.next
	s.workers.next = nil
	if u != nil && s.queue.Decides(u) {
		return u
	}
	return s.queue.Pop()
}

// endSharing ends a Step: workers that have nothing are given units for the time until the next one, and what no worker may have, and was not decided, waits on.
func (s *Scheduler) endSharing() (pending int) {
	if !s.binder.Full() {
		for s.handOut() {
			continue
		}
	}
	if u := s.workers.next; u != nil {
		s.workers.next = nil
		s.queue.Return(u)
	}
	if s.binder.Full() {
		return 0 // the shell need not ask again before an answer has come
	}
	return s.workers.pending()
}

// shareWork hands out what workers may decide on, and takes in what they have decided. It returns how many units that was about. more is false when the Scheduler
// should go on by itself: with a unit that no worker may have, or with none.
func (s *Scheduler) shareWork(now time.Time) (decisions int, more bool) {
	if s.handOut() {
		return 0, true
	}
	w := &s.workers
	if len(w.out) == 0 {
		return 0, false
	}
	oldest := w.out[0]
	switch {
	case w.next != nil && !w.outranks(w.next):
		return 0, false
	case w.next != nil, w.free() == nil, oldest.step < w.step:
		return s.takeIn(now), true
	}
	return 0, false // they go on while the shell does something else
}

// takeIn commits what the worker has decided that got its batch first, or some of it.
func (s *Scheduler) takeIn(now time.Time) (decisions int) {
	w := s.workers.out[0]
	if w.busy {
		s.workers.runner.Wait(w.number)
		w.busy = false
	}
	s.looked += w.looked
	w.looked = 0
	decisions = s.takeInSome(w.instance, w.number, w.batch[w.taken:], now)
	w.taken += decisions
	if w.taken == len(w.batch) {
		s.workers.out = append(s.workers.out[:0], s.workers.out[1:]...)
		clear(w.batch)
		w.batch, w.taken = w.batch[:0], 0
	}
	return decisions
}

// takeInSome commits what a scheduler has decided, in order, as far as the bound of looks of a Step allows: one decision at least. It returns how many it took in.
func (s *Scheduler) takeInSome(in *instance, number int, tasks []task, now time.Time) (decisions int) {
	for ; decisions < len(tasks) && (decisions == 0 || s.looked < maxLooks); decisions++ {
		s.applyConsequences(now)
		s.takeInOne(in, number, &tasks[decisions], now)
		s.blocked.decided()
	}
	return decisions
}

// takeInOne commits one decision. Where there is none, its unit has no more room in its queues, or the node's agent would rather not have it there, the unit is decided anew with all
// nodes in view, at once: so a unit of high priority does not come after those of lower priority that found room elsewhere.
func (s *Scheduler) takeInOne(in *instance, number int, t *task, now time.Time) {
	counts := &s.workers.counts
	if !s.queue.Decides(t.unit) {
		counts.Gone++
		return
	}
	a := &s.attempt
	*a = attempt{s: s, unit: t.unit, in: in, now: now}
	if pod := s.store.Pod(t.unit.Pod); !t.found || pod.Nominated != "" || !a.admitted() || s.apart.Avoids(s.store, pod, s.store.Slot(t.node), now) {
		if s.joinParked(t.unit, now) {
			counts.Parked++
			return
		}
		counts.Elsewhere++
		s.decide(t.unit, now)
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

// joinParked parks a unit with those like it that were found to fit nowhere after this one was handed out: they cost one decision, however many they are.
func (s *Scheduler) joinParked(u *queue.Unit, now time.Time) bool {
	if !s.queue.IsParked(u) || s.mayTry(u, now) {
		return false
	}
	s.queue.Return(u)
	if why := s.blocked.explanations.of(u.Shape); why != nil {
		s.setConditions(u, s.blocked.whyParked(u, why), now)
	}
	return true
}

// Workers returns what has come of the units that were handed out to other schedulers.
func (s *Scheduler) Workers() WorkerCounts {
	c := s.workers.counts
	c.Pending = s.workers.pending() + s.outsiders.pending()
	c.Schedulers = max(c.Schedulers, len(s.outsiders.list))
	return c
}

// Add adds what those of another process have done.
func (c *WorkerCounts) Add(o WorkerCounts) {
	c.Schedulers = max(c.Schedulers, o.Schedulers)
	c.Batches, c.Units = c.Batches+o.Batches, c.Units+o.Units
	c.Committed, c.Elsewhere, c.Parked = c.Committed+o.Committed, c.Elsewhere+o.Elsewhere, c.Parked+o.Parked
	c.Rejected, c.Gone = c.Rejected+o.Rejected, c.Gone+o.Gone
}
