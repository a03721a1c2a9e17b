package sim

import (
	"hilbert.dev/hilbert/internal/heap"
)

// eventKind is what happens.
type eventKind uint8

const (
	evArrive    eventKind = iota + 1 // the tasks from number arg on that are created now
	evLeave                          // pod arg is removed
	evFinish                         // pod arg has run to its end, and is removed later
	evForeign                        // another scheduler tries to bind pod arg
	evUngate                         // pod arg loses its scheduling gate
	evDelete                         // pod arg is deleted
	evDeliver                        // the first event of stream arg arrives
	evLand                           // flight arg takes effect
	evAnswer                         // flight arg is answered
	evWake                           // the scheduler asked for it
	evFault                          // fault arg strikes
	evReturn                         // node arg is back
	evRestart                        // a new process starts
	evUnit                           // PodGroup arg is created
	evUnitGone                       // PodGroup arg is deleted
	evAdmit                          // its node's agent admits pod arg
	evReport                         // the agent of node arg reports
	evLend                           // the headroom of node arg moves
	evLook                           // the agent of node arg looks who offers its GPUs
	evAgentBack                      // the agent of node arg is reached again, and strangers have left
)

// event is one entry of the heap. It is small and holds no pointer, so that a million of them cost the collector nothing.
type event struct {
	at    int64 // virtual nanoseconds
	seq   uint64
	kind  eventKind
	epoch uint32 // evDeliver: of the stream; else unused
	arg   int32
}

// agenda is the one heap of a run.
type agenda struct {
	heap *heap.Heap[event]
	seq  uint64
}

func newAgenda() agenda {
	return agenda{heap: heap.New(func(a, b event) bool {
		if a.at != b.at {
			return a.at < b.at
		}
		return a.seq < b.seq
	}, nil)}
}

func (a *agenda) add(e event) {
	a.seq++
	e.seq = a.seq
	a.heap.Push(e)
}

// next pops the first event if it is due at the given time.
func (a *agenda) next(now int64) (event, bool) {
	if a.heap.Len() == 0 || a.heap.First().at > now {
		return event{}, false
	}
	return a.heap.Pop(), true
}
