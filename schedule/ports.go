package schedule

import (
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/dra"
	"hilbert.dev/hilbert/schedule/dispatch"
)

// Options make a Scheduler.
type Options struct {
	// Config has its defaults set.
	Config spec.Scheduling
	// Instances of place that propose Plans to the one binder; 0 means 1.
	Instances int
	// Runner runs the schedulers that Config.Schedulers asks for, if there are several; nil: in turn.
	Runner Runner
	// Lag, if set, is asked before an instance would catch up with the ledger; true makes it decide on what it has. The simulator uses
	// it; nil is always up to date.
	Lag func(instance int) bool
	// Partitions, if set, says when the nodes are divided among several instances, each of which then looks at its own part first.
	Partitions *dispatch.Rules
	// Observer, if set, receives what happens.
	Observer Observer
	// Devices, if set, chooses devices for ResourceClaims. Without it no claim is given any.
	Devices dra.Allocator
	// NoPodEvents: no Events are written about pods that wait or were placed; for who has nobody that reads them.
	NoPodEvents bool
}

// Observer is the port through which a shell counts and times. Its methods are called synchronously and must be quick; what the
// pointers lead to must not be kept or changed.
type Observer interface {
	// Placed: a Plan was committed; the Binding follows.
	Placed(pod *cluster.Pod, now time.Time)
	// Preempting: a Plan was committed whose victims have to leave first. Those that wait for their Binding are released.
	Preempting(pod *cluster.Pod, victims []*cluster.Pod, now time.Time)
	// Cleared: the victims have left; the Binding follows.
	Cleared(pod *cluster.Pod, now time.Time)
	// Rejected: the committer refused a Plan; reason is from a bounded set (a filter's name or one of cluster's Reject constants).
	Rejected(reason string, now time.Time)
	// Unschedulable: no node fits. The reasons are the filters that refused, with the number of nodes each refused first.
	Unschedulable(pod *cluster.Pod, reasons []FilterCount, now time.Time)
	// Bound: the API server has the Binding.
	Bound(pod *cluster.Pod, now time.Time)
	// Released: a placement was given up, because its Binding or a nomination failed for good, or for a pod of higher priority. The pod
	// waits again.
	Released(pod *cluster.Pod, message string, now time.Time)
	// MissedWakeup: the pod, or its gang, has found places only because Flush had it tried again. Nothing that wakes pods has told of them: that is a
	// defect.
	MissedWakeup(pod *cluster.Pod, now time.Time)
}

// Auditor is an Observer that also wants to see every Plan with the committer's Verdict.
type Auditor interface {
	Judged(plan *cluster.Plan, verdict cluster.Verdict)
}

// FilterCount is how many nodes a filter refused.
type FilterCount struct {
	Filter string
	Nodes  int
}

// Pending counts the pods that wait, by why.
type Pending struct {
	Active        int // would be tried now
	Backoff       int // wait out a backoff
	Unschedulable int // fit nowhere; an event that could help wakes them
	Quota         int // a queue's limit is in the way
	Gathering     int // members of gangs that are not all there
	Held          int // gated, or with something about them that must be mended first
	InFlight      int // placed, their Binding is not confirmed yet
}
