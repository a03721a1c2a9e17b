package schedule

import (
	"slices"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/changes"
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
	out    []*worker // with a batch, the oldest first
	step   uint64    // counts Steps
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
