package request

import "time"

// Phases of a slot, as statuses name them.
const (
	SlotWaiting   = "Waiting"
	SlotAllocated = "Allocated"
	SlotRunning   = "Running"
	SlotBackoff   = "Backoff"
	SlotSucceeded = "Succeeded"
	SlotFailed    = "Failed"
	SlotReleasing = "Releasing"
	SlotReleased  = "Released"
)

// Slot is one container that was asked for.
type Slot struct {
	Ask   string
	Index int
	State string
	// Pod, UID and Node are the last pod's.
	Pod, UID, Node string
	Level          Level
	Failures       int
	Since          time.Time
	Reason,
	Message string
	// name is what its pod is called.
	name string
}

// Ended reports whether nothing happens to the slot any more.
func (s *Slot) Ended() bool {
	return s.State == SlotSucceeded || s.State == SlotFailed || s.State == SlotReleased
}

// plain reports whether there is no more to say of it than that it waits for its first node.
func (s *Slot) plain(a *Ask) bool {
	return s.State == SlotWaiting && s.Failures == 0 && s.Reason == "" && s.Level == a.first()
}

func (s *Slot) become(state string, now time.Time) {
	if s.State != state {
		s.State, s.Since = state, now
	}
}

// holds notes which pod has the slot.
func (s *Slot) holds(p *Pod) { s.Pod, s.UID, s.Node, s.Level = p.Name, p.UID, p.Node, p.Level }

// fail notes that the slot's pod failed, or is gone.
func (s *Slot) fail(a *Ask, reason, message string, counts bool, now time.Time) {
	s.Reason, s.Message = reason, clip(message)
	if counts {
		s.Failures++
	}
	s.Level = a.first()
	if s.Failures > a.Retries {
		s.become(SlotFailed, now)
		return
	}
	s.become(SlotBackoff, now)
	s.Since = now
}

func (s *Slot) gone(a *Ask, counts bool, now time.Time) {
	s.fail(a, "PodGone", "its pod is gone: it was deleted, or its node was lost", counts, now)
}

// maxMessage bounds what statuses say of one container.
const maxMessage = 256

func clip(text string) string {
	if len(text) <= maxMessage {
		return text
	}
	return text[:maxMessage-3] + "..."
}

// step is what a look at one slot asks for.
type step struct {
	create bool // if there is room
	remove *Pod // delete it
	bound  bool // only as it was seen
	saved  bool // only once the status says what became of it: nobody could tell afterwards
	why    string
	wake   time.Time // when to look again; zero: when something changes
}

// look brings a slot to what is seen of its pod; nil: there is none.
func (s *Slot) look(a *Ask, released bool, p *Pod, retry func(failures int) time.Duration, now time.Time) (do step) {
	if s.State == SlotReleased || released {
		return s.release(p, now)
	}
	if s.State == SlotSucceeded || s.State == SlotFailed {
		return do
	}
	counted := p != nil && s.State == SlotBackoff && s.UID == p.UID
	switch {
	case p != nil && p.Phase == Succeeded:
		s.holds(p)
		s.become(SlotSucceeded, now)
	case p != nil && p.Phase == Failed && !counted:
		s.holds(p)
		s.fail(a, p.Reason, p.Message, !p.Disrupted, now)
	case p != nil && p.Gone && p.Node != "" && !counted:
		s.holds(p)
		s.gone(a, !p.Disrupted, now)
	case p == nil && (s.State == SlotAllocated || s.State == SlotRunning):
		s.gone(a, true, now)
	case p == nil && s.State == SlotWaiting && s.UID != "":
		s.fail(a, "PodGone", "its pod was deleted before it had a node", false, now)
	}
	if p != nil && p.Gone {
		p = nil
	}
	switch {
	case s.State == SlotSucceeded || s.State == SlotFailed:
	case s.State == SlotBackoff && (p == nil || p.UID == s.UID):
		if at := s.Since.Add(retry(s.Failures)); now.Before(at) {
			do.wake = at
			break
		}
		if p == nil {
			s.become(SlotWaiting, now)
			s.Pod, s.UID, s.Node = "", "", ""
			do.create = true
			break
		}
		if !p.Deleting {
			do.remove, do.saved, do.why = p, true, "it failed, and is made anew"
		}
	case p == nil:
		s.become(SlotWaiting, now)
		s.Pod, s.UID, s.Node = "", "", ""
		do.create = true
	case p.Node != "":
		s.holds(p)
		if p.Phase == Running {
			s.become(SlotRunning, now)
		} else {
			s.become(SlotAllocated, now)
		}
	case !p.Deleting:
		s.become(SlotWaiting, now)
		return s.relax(a, p, now)
	}
	return do
}

// relax makes a pod that waits anew, for more nodes, when it has waited for long enough.
func (s *Slot) relax(a *Ask, p *Pod, now time.Time) (do step) {
	if s.Level <= p.Level {
		s.holds(p)
		if p.Level >= Any || !a.Relax[p.Level].Named || !a.Relax[p.Level].Relaxes {
			return do
		}
		if at := p.Created.Add(a.Relax[p.Level].After); now.Before(at) {
			do.wake = at
			return do
		}
		s.Level = a.next(p.Level)
	}
	s.Pod, s.UID = "", "" // that it goes is no failure
	do.remove, do.bound, do.why = p, true, "it has waited long enough for where it should be"
	return do
}

func (s *Slot) release(p *Pod, now time.Time) (do step) {
	if p == nil || p.Gone {
		s.become(SlotReleased, now)
		return do
	}
	s.holds(p)
	s.become(SlotReleasing, now)
	if !p.Deleting {
		do.remove, do.why = p, "it was released"
	}
	return do
}
