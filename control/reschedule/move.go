package reschedule

import (
	"fmt"
	"time"
)

// Stage is how far a move is.
type Stage int

// The stages of a move, in order. The last four are final.
const (
	Rehearsed  Stage = iota // it was decided; nothing was done
	Reserving               // the target was asked for
	Evicting                // the target is reserved, the eviction was asked for
	Replacing               // the pod is gone; its replacement is to take the target
	Requeued                // the target was lost after the eviction; the replacement has its turn before others
	Done                    // the replacement has taken the target
	GivenBack               // it was given up before the eviction, or nobody needed the target
	Stayed                  // the eviction was refused for too long; the target was given back
	LostTarget              // the pod was evicted, and the target was lost before its replacement took it
)

func (s Stage) String() string {
	return [...]string{"rehearsed", "reserving", "evicting", "replacing", "requeued", "done", "given back", "stayed", "target lost"}[s]
}

// Final reports whether nothing is left to do.
func (s Stage) Final() bool { return s >= Done }

// Place is what is known of a target that was asked for.
type Place int

// The states of a target. Absent: there is no such reservation.
const (
	Absent Place = iota
	Asked
	Reserved // and the API server knows
	Consumed
	Lost
)

// Seen is what is known of a move's parts at one instant. What a view lacks is unknown, and then nothing is done.
type Seen struct {
	// Known: the caches are in step, so that what is absent is really absent.
	Known bool
	Place Place
	// Why the place is lost.
	Why string
	// Served: the place is lost, and the pod for which it was has another.
	Served bool
	// Replacement is the name of the pod that came for the one that is moved: it has the place, or another; empty: it is not known.
	Replacement string
	// Running: the pod that is to be moved, with its UID, is on its node and not being deleted. Gone: it is no more.
	Running, Gone bool
	// Evicted: the pod is being deleted because of this move's eviction.
	Evicted bool
	// Partly: of a gang that is moved some members have left, and others have not.
	Partly bool
	// NoMember says which pod of a gang's move is no member of its PodGroup; empty: all are. Then no pod is evicted any more, even if some have left.
	NoMember string
	// Asking: an eviction is on its way, and nobody knows yet what becomes of it. Then nothing is decided.
	Asking bool
	// Refused: the eviction was refused just now (a disruption budget). Of a gang: nobody was evicted.
	Refused string
	// Requested: an EvictionRequest for the pod is there, which may have it evicted at any time until it is withdrawn.
	Requested bool
	// Failed says why nobody will do what the EvictionRequest asks for; empty: somebody may.
	Failed string
	// Vetoed says why the pod may not be moved any more, empty: it may.
	Vetoed string
}

// Do is what a move asks of the shell.
type Do int

// What there is to do. All of it may be done twice.
const (
	Reserve    Do = iota // create the Reservation of the target
	Evict                // evict the pod by the Eviction API, with its UID as precondition, or ask for it by an EvictionRequest
	GiveBack             // delete the Reservation
	Withdraw             // delete the EvictionRequest
	QueueFirst           // the target was lost after the eviction: the Reservation stays, for by it the scheduler knows whose turn is before others'
)

// Timeouts of a move.
type Timeouts struct {
	// Reserve is how long a target may take to be reserved, Evict how long an eviction may be refused or an EvictionRequest may take, Replace how long a replacement may take.
	Reserve, Evict, Replace time.Duration
	// Withdraw is for how long a target is kept after an EvictionRequest was withdrawn: whoever acts on it may not know yet.
	Withdraw time.Duration
}

// DefaultTimeouts suit pods that end within minutes.
func DefaultTimeouts() Timeouts {
	return Timeouts{Reserve: 2 * time.Minute, Evict: 10 * time.Minute, Replace: 15 * time.Minute, Withdraw: time.Minute}
}

// Move is the way of one pod. Its zero Stage is Rehearsed. It is a value: a leader that starts anew makes it again from the Reservation, see Recover.
type Move struct {
	Pod      string // UID
	From, To string // nodes
	Stage    Stage
	Since    time.Time // when the stage began
	Why      string    // of a final stage
	// Withdrawing is the final stage of a move that is given up, once its EvictionRequest is withdrawn; Rehearsed: it is not.
	Withdrawing Stage
	// Begun: some members of a gang have left, so that the others have to follow, whatever the first of them is answered.
	Begun bool
	// Recovered is when a leader went on with it after another; zero: none did.
	Recovered time.Time
}

// Advance says what a move has to do next, from what is seen. It goes only forward.
func Advance(m Move, seen *Seen, now time.Time, limits *Timeouts) (Move, []Do) {
	if m.Stage.Final() || !seen.Known || seen.Asking {
		return m, nil
	}
	next, do := m.advance(seen, now, limits)
	givesUp := next.Stage == GivenBack || next.Stage == Stayed || next.Stage == Evicting && next.Withdrawing != Rehearsed
	// Nobody knows what a leader before has withdrawn just now.
	asked := seen.Requested || m.Withdrawing == Rehearsed && now.Sub(m.Recovered) < limits.Withdraw
	if m.Stage != Reserving && m.Stage != Evicting || !asked || !givesUp {
		return next, do
	}
	// Who was asked to evict might still do it: the target is kept until nobody is asked any more, and those who were have learnt it.
	if m.Withdrawing == Rehearsed {
		m.Withdrawing, m.Why = next.Stage, next.Why
	}
	m.Stage, m.Since = Evicting, now
	if !seen.Requested {
		return m, nil
	}
	return m, []Do{Withdraw}
}

func (m Move) advance(seen *Seen, now time.Time, limits *Timeouts) (Move, []Do) {
	if m.Stage == Reserving && seen.Requested { // a leader before asked for the eviction
		m.Stage, m.Since = Evicting, m.latest(limits.Reserve, now)
	}
	if m.Stage == Evicting && m.Withdrawing != Rehearsed && !seen.Gone && !seen.Evicted {
		if now.Sub(m.Since) < limits.Withdraw {
			return m, nil
		}
		return m.end(m.Withdrawing, m.Why, now), []Do{GiveBack}
	}
	switch m.Stage {
	case Rehearsed:
		if why := seen.obstacle(); why != "" {
			return m.end(GivenBack, why, now), nil
		}
		m.Stage, m.Since = Reserving, now
		return m, []Do{Reserve}
	case Reserving:
		return m.reserving(seen, now, limits)
	case Evicting:
		return m.evicting(seen, now, limits)
	case Requeued:
		return m.requeued(seen, now, limits)
	default:
		return m.replacing(seen, now, limits)
	}
}

// obstacle says why the move is given up before the eviction.
func (s *Seen) obstacle() string {
	switch {
	case s.Vetoed != "":
		return s.Vetoed
	case s.NoMember != "":
		return s.NoMember
	case s.Partly:
		return "some of the gang's pods are not there any more"
	case !s.Running:
		return "the pod is not there any more"
	}
	return ""
}

func (m Move) end(stage Stage, why string, now time.Time) Move {
	m.Stage, m.Why, m.Since = stage, why, now
	return m
}

// latest is when the next stage begins: now, or when this one should have ended. A leader that goes on with a move of a leader before may find that long ago.
func (m Move) latest(limit time.Duration, now time.Time) time.Time {
	if at := m.Since.Add(limit); at.Before(now) {
		return at
	}
	return now
}

func (m Move) reserving(seen *Seen, now time.Time, limits *Timeouts) (Move, []Do) {
	switch why := seen.obstacle(); {
	case why != "":
		return m.end(GivenBack, why, now), []Do{GiveBack}
	case seen.Place == Reserved:
		m.Stage, m.Since = Evicting, m.latest(limits.Reserve, now)
		return m.evicting(seen, now, limits)
	case seen.Place == Lost, seen.Place == Consumed:
		return m.end(GivenBack, "the target was lost before the eviction: "+seen.Why, now), []Do{GiveBack}
	case now.Sub(m.Since) >= limits.Reserve:
		return m.end(GivenBack, fmt.Sprintf("the target was not reserved within %v", limits.Reserve), now), []Do{GiveBack}
	case seen.Place == Absent:
		return m, []Do{Reserve}
	}
	return m, nil
}

func (m Move) evicting(seen *Seen, now time.Time, limits *Timeouts) (Move, []Do) {
	left := seen.Gone || seen.Evicted
	switch {
	case left:
		m.Stage, m.Since = Replacing, now
		return m.replacing(seen, now, limits)
	case seen.Partly && !m.Begun && seen.Refused != "": // nobody was evicted for this: they have left for another reason
		return m.end(GivenBack, seen.obstacle(), now), []Do{GiveBack}
	case seen.Partly && seen.NoMember == "" && now.Sub(m.Since) < limits.Evict: // even if a place was lost: the others do no work alone, and start again as a whole
		m.Begun = true
		return m, []Do{Evict}
	case seen.Partly:
		m.Stage, m.Since = Replacing, now // the places are kept for those that have left
		return m.replacing(seen, now, limits)
	case seen.Place != Reserved: // nobody is evicted any more
		return m.end(GivenBack, "the target was lost before the eviction: "+seen.Why, now), []Do{GiveBack}
	case seen.Vetoed != "", seen.NoMember != "":
		return m.end(GivenBack, seen.obstacle(), now), []Do{GiveBack}
	case seen.Failed != "":
		return m.end(Stayed, "its EvictionRequest failed: "+seen.Failed, now), []Do{GiveBack}
	case seen.Requested && now.Sub(m.Since) >= limits.Evict:
		return m.end(Stayed, fmt.Sprintf("nobody did within %v what its EvictionRequest asks for", limits.Evict), now), []Do{GiveBack}
	case now.Sub(m.Since) >= limits.Evict:
		return m.end(Stayed, fmt.Sprintf("the eviction was refused for %v: %s", limits.Evict, seen.Refused), now), []Do{GiveBack}
	case seen.Requested:
		return m, nil // others do it in their time
	}
	return m, []Do{Evict}
}

func (m Move) replacing(seen *Seen, now time.Time, limits *Timeouts) (Move, []Do) {
	switch {
	case seen.Place == Consumed:
		return m.end(Done, "", now), []Do{GiveBack}
	case seen.Place == Lost && !seen.Served:
		m.Stage, m.Why = Requeued, seen.Why // its time goes on: leaders that come and go do not prolong it
		return m, []Do{QueueFirst}
	case seen.Place == Lost, seen.Place == Absent:
		return m.end(LostTarget, seen.Why, now), []Do{GiveBack}
	case now.Sub(m.Since) >= limits.Replace:
		return m.end(GivenBack, fmt.Sprintf("no replacement came within %v", limits.Replace), now), []Do{GiveBack}
	}
	return m, nil
}

// requeued keeps the Reservation, by which the scheduler knows whose turn is before others', until the replacement has a place.
func (m Move) requeued(seen *Seen, now time.Time, limits *Timeouts) (Move, []Do) {
	if !seen.Served && seen.Place == Lost && now.Sub(m.Since) < limits.Replace {
		return m, nil
	}
	return m.end(LostTarget, m.Why, now), []Do{GiveBack}
}

// Recover makes a move again from its Reservation, for a leader that knows nothing else: the target is asked for already, and if the pod is gone, its
// replacement may be waiting. The leader before can have no eviction on its way any more (its writes end before a new leader begins), but what it has asked for by an EvictionRequest may
// be done at any time, and for a while after it was withdrawn.
//
// created is when the Reservation was made: what a move may take is counted from then, so that leaders that come and go do not prolong it. A stage counts as begun when it could have
// begun at the latest.
func Recover(m Move, seen *Seen, created, now time.Time, limits *Timeouts) Move {
	m.Stage, m.Since, m.Recovered = Reserving, created, now
	switch {
	case seen.Gone || seen.Evicted:
		m.Stage, m.Since = Replacing, m.latest(limits.Reserve+limits.Evict+limits.Withdraw, now)
	case seen.Requested:
		m.Stage, m.Since = Evicting, m.latest(limits.Reserve, now)
	case seen.Partly && seen.Place != Asked && seen.Place != Absent: // else nobody was evicted yet
		m.Stage, m.Since = Evicting, m.latest(limits.Reserve, now)
	}
	return m
}
