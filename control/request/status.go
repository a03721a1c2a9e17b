package request

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Status is what is said of a request.
type Status struct {
	Summary
	Slots []Slot
	// First: this State has had none written before. What the API server has may say the same already.
	First bool
}

// Summary is what is said of all its slots together.
type Summary struct {
	Generation int64
	Asked      int
	// The counts by state; Backoff counts as Waiting, and Releasing as Released.
	Waiting, Allocated, Running, Succeeded, Failed, Released int
	// Ready has the Reason and Message that are said of it.
	Ready           bool
	Reason, Message string
	// Complete: each has ended.
	Complete bool
}

// The reasons of the condition Ready.
const (
	ReasonAllocated   = "Allocated"        // all that was asked for has a node
	ReasonWaiting     = "WaitingForPlaces" // some wait
	ReasonRefused     = "PodsRefused"      // the API server will not have the pods
	ReasonNameTaken   = "NameTaken"        // another pod has a name that one of ours needs
	ReasonExhausted   = "RetriesExhausted" // some failed for good
	ReasonUnreadable  = "InvalidSpec"      // the spec cannot be read
	takenForSure      = 3                  // before that we may not have seen it yet
	unexplainedReason = "Failed"
)

// sum makes the status of what is known.
func (k *known) sum(r *Request) *Status {
	s := &Status{Summary: Summary{Generation: r.Generation, Complete: true, Ready: true, Reason: ReasonAllocated}}
	if r.Problem != "" { // what has become of the containers until now is still to be known when it can be read again
		for _, slot := range k.slots {
			s.Asked++
			s.count(slot)
			s.Slots = append(s.Slots, *slot)
		}
	}
	for i := range r.Asks {
		a := &r.Asks[i]
		for index := range a.Count {
			slot := k.slots[slotID{a.Name, index}]
			if slot == nil {
				continue
			}
			s.Asked++
			s.count(slot)
			if !slot.plain(a) {
				s.Slots = append(s.Slots, *slot)
			}
		}
	}
	slices.SortFunc(s.Slots, inOrder)
	taken := ""
	for name, n := range k.taken {
		if n >= takenForSure && (taken == "" || name < taken) {
			taken = name
		}
	}
	switch {
	case r.Problem != "":
		s.Ready, s.Complete, s.Reason, s.Message = false, false, ReasonUnreadable, clip(r.Problem)
	case k.refusals > 0:
		s.Ready, s.Reason, s.Message = false, ReasonRefused, k.refusal
	case taken != "":
		s.Ready, s.Reason, s.Message = false, ReasonNameTaken, "there is another pod of the name "+taken+"; delete it"
	case s.Failed > 0:
		s.Ready, s.Reason, s.Message = false, ReasonExhausted, s.lastFailure()
	case s.Waiting > 0:
		s.Ready, s.Reason, s.Message = false, ReasonWaiting, fmt.Sprintf("%d of %d containers wait for a place", s.Waiting, s.Asked)
	}
	return s
}

func inOrder(a, b Slot) int { return cmp.Or(cmp.Compare(a.Ask, b.Ask), cmp.Compare(a.Index, b.Index)) }

// saved reports whether the API server has what became of a slot's last pod.
func (k *known) saved(s *Slot) bool {
	at, there := slices.BinarySearchFunc(k.written.Slots, *s, inOrder)
	return there && k.written.Slots[at].State == s.State && k.written.Slots[at].UID == s.UID
}

func (s *Status) count(slot *Slot) {
	switch slot.State {
	case SlotAllocated:
		s.Allocated++
	case SlotRunning:
		s.Running++
	case SlotSucceeded:
		s.Succeeded++
	case SlotFailed:
		s.Failed++
	case SlotReleased, SlotReleasing:
		s.Released++
	default:
		s.Waiting++
	}
	s.Complete = s.Complete && slot.Ended()
}

// lastFailure says why the first of those that failed for good did.
func (s *Status) lastFailure() string {
	for i := range s.Slots {
		if slot := &s.Slots[i]; slot.State == SlotFailed {
			return clip(fmt.Sprintf("%d containers failed for good, first number %d of %s: %s: %s", s.Failed, slot.Index, slot.Ask, cmp.Or(slot.Reason, unexplainedReason), slot.Message))
		}
	}
	return ""
}

func (s *Status) equal(o *Status) bool {
	return s.Summary == o.Summary && slices.Equal(s.Slots, o.Slots)
}

// status writes what has changed, and not too often.
func (s *State) status(l *look, now time.Time) (a Action, due bool) {
	k := l.k
	if l.r.Deleting || k.writing {
		return a, false
	}
	if at := k.writtenAt.Add(s.params.StatusEvery); now.Before(at) {
		l.soon(at)
		return a, false
	}
	next := k.sum(l.r)
	if next.equal(k.written) {
		return a, false
	}
	k.writing, next.First = true, k.writtenAt.IsZero()
	return Action{Request: l.r.Key, UID: l.r.UID, Status: next}, true
}
