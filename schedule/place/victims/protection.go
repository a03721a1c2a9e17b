package victims

import (
	"time"

	"hilbert.dev/hilbert/resource"
)

// Protection is that of pods which another queue would evict, but which have not run for as long as their own queue protects them
// (spec.reclaimMinRuntime of the Queue).
//
// A pod counts as running from cluster.Pod.RunningSince on: it is protected as soon as it has a place. A pod of which nobody says since when is not
// protected, because it would be for ever. A gang that would leave whole is protected as long as the youngest of the MinMember members that
// preemption would take last; members beyond these go singly, each by its own time, or with their gang. Pods of the unit's own queue are not
// protected from it.
//
// What is protected now is not later, though nothing changes: whoever finds no victims has to look again when the first Protection ends.
type Protection struct {
	Until int64  // when the first of them may be evicted, in nanoseconds; 0: there are none
	Queue string // that it is in
}

// Text says until when, and of which queue; empty if nothing is protected.
func (p Protection) Text() string {
	if p.Until == 0 {
		return ""
	}
	return "pods of queue " + p.Queue + " are protected from reclaim until " + time.Unix(0, p.Until).UTC().Format(time.RFC3339) + " (reclaimMinRuntime)"
}

// Earlier is the one of two that ends first.
func (p Protection) Earlier(q Protection) Protection {
	if p.Until == 0 || q.Until != 0 && q.Until < p.Until {
		return q
	}
	return p
}

// protects reports whether a group must stay only because it has not run for long enough; since is when it began to run. It takes note of when the group
// may leave, if it might leave then. What the search has taken so far may be more than it would take then, so that once something is taken it is enough
// that the group could be taken by itself.
func (gs *victimGroups) protects(p *victimGroup, holds resource.List, since int64) bool {
	a := p.account
	if a.minRuntime == 0 || a.ownQueue || since == 0 || since+a.minRuntime <= gs.decided {
		return false
	}
	might := gs.quota.mayTake(p, holds)
	if len(gs.removed) > 0 {
		might = len(a.reclaimable) > 0 || a.priority && p.highest < gs.quota.priority
	}
	if might {
		gs.protected = gs.protected.Earlier(Protection{Until: since + a.minRuntime, Queue: a.queue.Name})
	}
	return true
}
