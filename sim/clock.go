package sim

import (
	"math/rand/v2"
	"time"

	"hilbert.dev/hilbert/internal/heap"
)

// eventKind is what happens.
type eventKind uint8

const (
	evArrive          eventKind = iota + 1 // the tasks from number arg on that are created now
	evLeave                                // pod arg is removed
	evFinish                               // pod arg has run to its end, and is removed later
	evForeign                              // another scheduler tries to bind pod arg
	evUngate                               // pod arg loses its scheduling gate
	evDelete                               // pod arg is deleted
	evDeliver                              // the first event of watch arg arrives
	evEffect                               // the write of flight arg takes effect
	evAnswer                               // the write of flight arg is answered
	evWake                                 // the scheduler's timer fires
	evFault                                // fault arg strikes
	evReturn                               // node arg is back
	evReached                              // node arg can be reached again
	evRestart                              // a new process starts
	evUnit                                 // PodGroup arg is created
	evUnitGone                             // PodGroup arg is deleted
	evAdmit                                // its node's agent admits pod arg
	evReport                               // the agent of node arg reports
	evHeadroom                             // the headroom of node arg moves
	evFindOwner                            // the agent of node arg finds out which party gives out its GPUs
	evAgentBack                            // the faults of node arg's agent end
	evClaim                                // claim arg is bound, or its driver acts
	evMessage                              // message arg between a leader and a scheduler elsewhere arrives
	evJoin                                 // scheduler arg elsewhere looks for a leader
	evReservation                          // Reservation arg is created
	evReservationGone                      // Reservation arg is deleted
	evRetire                               // the leader of term arg, which was deposed, learns that, and stops
)

// event is one entry of the heap. It is small and holds no pointer, so that a million of them cost the collector nothing.
type event struct {
	at    int64 // virtual nanoseconds
	seq   uint64
	kind  eventKind
	epoch uint32 // evDeliver: of the watch; else unused
	arg   int32
}

// clock is the virtual time of a run, and everything that is still to happen. Time does not pass by itself: the run takes the next event off
// the agenda and moves now to its time.
//
//	c.add(event{at: c.now + int64(time.Second), kind: evFinish, arg: 7}) // pod 7 ends in a second
type clock struct {
	now    int64 // nanoseconds
	step   int   // counts the instants at which something has happened
	agenda agenda
}

func newClock() *clock { return &clock{agenda: newAgenda()} }

func (c *clock) add(e event) { c.agenda.add(e) }

func (c *clock) time() time.Time { return time.Unix(0, c.now).UTC() }

// empty says that nothing is left to happen.
func (c *clock) empty() bool { return c.agenda.heap.Len() == 0 }

// before says whether something is left to happen until a time.
func (c *clock) before(until int64) bool { return !c.empty() && c.agenda.heap.First().at <= until }

// advance moves to the time of the next event. There must be one.
func (c *clock) advance() { c.now = c.agenda.heap.First().at }

// due takes the next event of this instant.
func (c *clock) due() (event, bool) { return c.agenda.next(c.now) }

// stream is a sequence of random numbers that depends on the seed alone. Each cause of randomness has its own, so that drawing more of one
// leaves the others as they are.
type stream struct{ *rand.Rand }

func newStream(seed, number uint64) *stream {
	return &stream{rand.New(rand.NewPCG(seed, number))}
}

// within draws a time from a range.
func (s *stream) within(r Range) time.Duration {
	return r.Min + time.Duration(s.Int64N(int64(r.Max-r.Min)+1))
}

// chance is true n times in a thousand.
func (s *stream) chance(n int) bool { return s.IntN(permille) < n }

// agenda is the one heap of a run: events by time, and those of one instant in the order in which they were added.
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
