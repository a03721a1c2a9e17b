package reschedule

import (
	"cmp"
	"slices"
	"time"

	"hilbert.dev/hilbert/control/budget"
)

// Wanted is a move that was planned and rehearsed.
type Wanted struct {
	Pod             string // UID
	Namespace, Name string
	Workload        string // who makes the replacement
	From, To        string
	Reason, Why     string
	// Gang is set where the pod is the first of a gang that is moved whole; nil: it is moved alone.
	Gang *GangMove
}

// Carried is a move that is on its way.
type Carried struct {
	Wanted
	Move

	// Began is when the Carrier began it, or its Reservation was made: nobody was evicted for it before.
	Began time.Time
}

// Counts of a Carrier, since it was made.
type Counts struct {
	// Begun moves; Ended ones by their last stage.
	Begun int
	Ended [LostTarget + 1]int
	// Adopted moves were begun by a leader before.
	Adopted int
	// Evicted: the eviction was asked for and the pod is gone.
	Evicted int
}

// Carrier carries moves out, through whoever does what it says: it begins what a budget allows, follows each with Advance, and notes in a History who was moved. It lives as long as
// its process leads; the next leader adopts what is on its way from the Reservations, and knows who was moved before by the History's record. So the record is written before a Reservation is deleted.
//
// Example: a plan of three moves and a budget of two. Two begin. One target is lost before its eviction: the move ends, its part of the budget is given back. The third waits for another plan,
// because by then the cluster is not what it was.
type Carrier struct {
	timeouts Timeouts
	most     int
	budget   *budget.Budget
	moves    map[string]*Carried // by the UID of the pod
	history  *History
	counts   Counts
}

// NewCarrier returns a Carrier that carries at most so many moves at once, takes each from a budget, and goes on with the history of the leaders before.
func NewCarrier(timeouts Timeouts, most int, b *budget.Budget, h *History) *Carrier {
	return &Carrier{timeouts: timeouts, most: most, budget: b, moves: make(map[string]*Carried), history: h}
}

// Begin takes moves of the first batch of a plan, in order, as far as the budget and the bound on moves at once allow. It returns those that it took.
// Moves that only make sense together (all of one Why, to make room) are taken whole or not at all.
func (c *Carrier) Begin(batch []Wanted, now time.Time) (taken []Wanted) {
	for len(batch) > 0 {
		n, pods := 1, batch[0].Size()
		for batch[0].Reason == ReasonRoom && n < len(batch) && batch[n].Reason == ReasonRoom && batch[n].Why == batch[0].Why {
			pods += batch[n].Size()
			n++
		}
		group := batch[:n]
		batch = batch[n:]
		if c.Busy()+pods > c.most || slices.ContainsFunc(group, func(w Wanted) bool { return c.moves[w.Pod] != nil }) {
			continue
		}
		if got := c.budget.Take(pods, now); got < pods {
			c.budget.GiveBack(got)
			continue
		}
		for _, w := range group {
			c.moves[w.Pod] = &Carried{Wanted: w, Move: Move{Pod: w.Pod, From: w.From, To: w.To, Since: now}, Began: now}
			c.counts.Begun++
		}
		taken = append(taken, group...)
	}
	return taken
}

// Adopt goes on with a move of a leader before, whose Reservation was made at created. It counts against the moves at once, and not against the budget: that was asked before.
func (c *Carrier) Adopt(w Wanted, seen *Seen, created, now time.Time) {
	if c.moves[w.Pod] != nil {
		return
	}
	m := &Carried{Wanted: w, Move: Recover(Move{Pod: w.Pod, From: w.From, To: w.To}, seen, created, now, &c.timeouts), Began: created}
	c.moves[w.Pod] = m
	c.counts.Adopted++
}

// Busy is how many pods are being moved, but for those that only wait until their replacements have their turn: for these nobody is evicted any more.
func (c *Carrier) Busy() (n int) {
	for _, m := range c.moves {
		if m.Stage != Requeued {
			n += m.Size()
		}
	}
	return n
}

// Moves lists what is on its way, by namespace and name.
func (c *Carrier) Moves() []Carried {
	list := make([]Carried, 0, len(c.moves))
	for _, m := range c.moves {
		list = append(list, *m)
	}
	slices.SortFunc(list, func(a, b Carried) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Wanted.Pod, b.Wanted.Pod))
	})
	return list
}

// Advance says what a move has to do next, and how it stands then. One that has ended is forgotten: who was evicted for it is in the History; if nobody was, its part of the budget is given back.
// noted: the History has changed, and has to be written down before any of what there is to do is done.
func (c *Carrier) Advance(pod string, seen *Seen, now time.Time) (after Carried, do []Do, noted bool) {
	m := c.moves[pod]
	if m == nil {
		return Carried{}, nil, false
	}
	before := m.Stage
	m.Move, do = Advance(m.Move, seen, now, &c.timeouts)
	if before < Replacing && (m.Stage == Replacing || m.Stage == Requeued || m.Stage == Done || m.Stage == LostTarget) {
		c.counts.Evicted += m.Size()
	}
	if m.Stage.Final() {
		noted = c.end(m, before, seen.Replacement, now)
	}
	return *m, do, noted
}

func (c *Carrier) end(m *Carried, before Stage, replacement string, now time.Time) (noted bool) {
	delete(c.moves, m.Wanted.Pod)
	c.counts.Ended[m.Stage]++
	evicted := m.Stage == Done || m.Stage == LostTarget || before == Replacing
	if !evicted {
		if m.Recovered.IsZero() { // what a leader before took is not this budget's
			c.budget.GiveBack(m.Size())
		}
		if m.Stage != Stayed { // whoever lets an eviction wait in vain must not be asked again at once
			return false
		}
	}
	switch {
	case !evicted, m.Gang != nil: // the members of a gang are not moved to better places
		c.history.touched(m.Workload, now)
	case replacement == "":
		c.history.moved(m.Workload, "", m.Began, now)
	default:
		c.history.moved(m.Workload, m.Namespace+"/"+replacement, m.Began, now)
	}
	return true
}

// History is who was moved before, for a View. It is the Carrier's own: it changes with the next Advance.
func (c *Carrier) History() *History { return c.history }

// WorkloadsMoving is how many pods of each workload are on their way, for a View. Gangs are not in it.
func (c *Carrier) WorkloadsMoving() map[string]int {
	moving := make(map[string]int)
	for _, m := range c.moves {
		if m.Gang == nil {
			moving[m.Workload]++
		}
	}
	return moving
}

// Counts is what has happened so far.
func (c *Carrier) Counts() Counts { return c.counts }
