package sim

import (
	"fmt"
	"slices"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/sim/judge"
	"hilbert.dev/hilbert/sim/trace"
)

// Options say how to run a workload.
type Options struct {
	// Seed of everything random: faults, lag, and the order of nodes of equal score.
	Seed uint64
	// Schedulers is how many place replicas propose to the one binder; 0 means 1. With several, each decides on an old state now and then: the seed
	// says when.
	Schedulers int
	// Elsewhere is how many schedulers are in processes of their own, and decide for the one that leads; with Faults, their network loses, delays, doubles and reorders messages, they freeze, die and
	// are unreachable, clocks differ, and a deposed leader goes on for a while.
	Elsewhere int
	// Partitions: several schedulers divide the nodes, by load.
	Partitions bool
	// CheckEvery n checks every decision, and every invariant after each n-th step; 0 checks over-commitment at each Binding, and the end.
	CheckEvery int
	// Faults to inject; nil: writes and watches are instant and nothing fails.
	Faults *Faults
	// Config of the core, defaults set. Its Seed is replaced by Seed.
	Config spec.Scheduling
	// Preempt lets pods of higher priority evict others, which their controllers then create anew. Otherwise no pod preempts.
	Preempt bool
	// Final reports the allocated percentages at the end, not means over time: for workloads that only grow.
	Final bool
	// Wall reads a monotonic clock, to time decisions; nil: they are not timed.
	Wall func() time.Duration
	// Progress, if set, is called now and then.
	Progress func(Progress)
}

// wall reads the wall clock, if there is one.
func (o *Options) wall() time.Duration {
	if o.Wall == nil {
		return 0
	}
	return o.Wall()
}

// Progress is how far a run has come.
type Progress struct {
	Tasks, Arrived, Placed int
	Virtual                time.Duration
}

// Range is a span of times to draw from, uniformly: Min to Max, both included.
type Range struct{ Min, Max time.Duration }

// Faults are what goes wrong. Intervals are means, in virtual time; zero means never. Chances are in permille of writes.
type Faults struct {
	// WriteLatency is from the start of a write to its effect. Its Max must be less than the core's WriteTimeout.
	WriteLatency Range
	// WatchLag delays each event. Each kind of object has its own watch, which keeps its order; watches can overtake one another.
	WatchLag Range

	LostRequests  int // nothing is written, and the scheduler learns nothing
	LostResponses int // it is written, and the scheduler learns nothing
	Refusals      int // the API server says no, and nothing is written
	NotSent       int // the shell does not send it

	// ForeignTasks, in permille, belong to another scheduler, which binds them itself.
	ForeignTasks int
	// StolenTasks, in permille of ours, another scheduler tries to bind too, while we do.
	StolenTasks int
	// AbortedTasks, in permille of ours, are deleted while we bind them.
	AbortedTasks int
	// GatedTasks, in permille, are created with a scheduling gate, which is lifted later.
	GatedTasks int
	// Deletions: a pod is deleted; every other one is created anew under its name.
	Deletions time.Duration
	// NodeFlaps: a node goes, and comes back after up to NodeAbsence.
	NodeFlaps, NodeAbsence time.Duration
	// NodeEdits: a node is cordoned or tainted, or no longer.
	NodeEdits time.Duration
	// Restarts: the process dies; another starts when all of its writes have landed, from a consistent list.
	Restarts time.Duration
	// Relists: a watch is closed and starts over from a list.
	Relists time.Duration

	// NodeLosses: a node is unreachable for up to NodeAbsence: it gets a taint, and no pod on it ends.
	NodeLosses time.Duration
	// StuckVictims, in permille of the pods that are evicted, take up to StuckFor to end.
	StuckVictims int
	StuckFor     time.Duration

	// QueueEdits: a queue is given another parent, a lower limit or back what it had; some edits are nonsense.
	QueueEdits time.Duration
	// UnitFlaps: a PodGroup is deleted, and created anew under its name some time later.
	UnitFlaps time.Duration

	// AgentSilences: a node's agent cannot be reached for a while. AgentClaims: it gives cores to a pod that no scheduler knows, for a while.
	AgentSilences, AgentClaims time.Duration
	// OwnerChanges: a device plugin comes to a node whose agent reports GPUs, or goes, or finds one unhealthy; or the agent is of another version for a
	// while.
	OwnerChanges time.Duration
	// AgentMoves, in permille of dedicated pods, are given other NUMA nodes than were promised, though the promised ones are free.
	AgentMoves int

	// HeadroomFalls: nine tenths of what a node lends is gone at once. HeadroomShuts: the node is closed to reclaimed pods for a while. Tides: the
	// headroom of all nodes falls at once.
	HeadroomFalls, HeadroomShuts, Tides time.Duration
	// UrgentEvictions, in permille of the evictions that nodes request, are urgent. WithheldEvictions, in permille, a disruption budget does not allow.
	UrgentEvictions, WithheldEvictions int

	// SchedulerFaults: a scheduler elsewhere freezes, is unreachable or dies.
	SchedulerFaults time.Duration

	// Until is when the faults that come at intervals end.
	Until time.Duration
}

// DefaultFaults spreads every kind of fault over a workload's time.
func DefaultFaults(w *trace.Workload) *Faults {
	span := max(time.Duration(w.End()), time.Minute)
	f := &Faults{
		WriteLatency: Range{time.Millisecond, 2 * time.Second},
		WatchLag:     Range{0, 8 * time.Second}, // so the event may arrive after the write has timed out
		LostRequests: 30, LostResponses: 30, Refusals: 20, NotSent: 10,
		ForeignTasks: 150, StolenTasks: 50, AbortedTasks: 30, GatedTasks: 50,
		Deletions: span / 60,
		NodeFlaps: span / 20, NodeAbsence: span / 40,
		NodeEdits: span / 25,
		Restarts:  span / 5,
		Relists:   span / 15,
		Until:     span,

		SchedulerFaults: span / 40,
	}
	if len(w.Queues) > 0 {
		f.QueueEdits = span / 20
	}
	if len(w.Units) > 0 {
		f.UnitFlaps = span / 20
	}
	if len(w.Reports) > 0 {
		f.AgentSilences, f.AgentClaims, f.AgentMoves = span/20, span/30, 50
	}
	if slices.ContainsFunc(w.Reports, func(r facts.NodeReported) bool { return judge.OwnerSaid(r.Report) > judge.OwnerAgent }) {
		f.OwnerChanges = span / 40
	}
	if slices.ContainsFunc(w.Reports, func(r facts.NodeReported) bool { return r.Report.Headroom.State != facts.HeadroomUnsaid }) {
		f.HeadroomFalls, f.HeadroomShuts, f.Tides = span/30, span/20, span/3
		f.UrgentEvictions, f.WithheldEvictions = 100, 200
	}
	return f
}

// AddEvictionFaults adds what goes wrong with the victims of preemption: they end late, or their node is unreachable.
func (f *Faults) AddEvictionFaults() {
	f.StuckVictims, f.StuckFor = 200, f.Until/4
	f.NodeLosses = f.Until / 15
}

// bounds on Options.
const (
	// MaxSchedulers bounds the replicas: each keeps its own copy of the state.
	MaxSchedulers = 64
	permille      = 1000
)

func (o *Options) validate() error {
	if o.Schedulers < 0 || o.Schedulers > MaxSchedulers {
		return fmt.Errorf("schedulers: want 1 to %d, found %d", MaxSchedulers, o.Schedulers)
	}
	if o.Elsewhere < 0 || o.Elsewhere > MaxSchedulers || o.Elsewhere > 0 && (o.Schedulers > 1 || o.Config.Schedulers > 1) {
		return fmt.Errorf("schedulers elsewhere: want 0 to %d, and none beside them in the leader's process; found %d, beside %d and %d", MaxSchedulers, o.Elsewhere, o.Schedulers, o.Config.Schedulers)
	}
	if o.CheckEvery < 0 {
		return fmt.Errorf("check every: want 0 or more steps, found %d", o.CheckEvery)
	}
	f := o.Faults
	if f == nil {
		return nil
	}
	if f.WriteLatency.Max >= o.Config.Binding.WriteTimeout.D() {
		return fmt.Errorf("faults: a write latency of up to %v is not below the write timeout %v", f.WriteLatency.Max, o.Config.Binding.WriteTimeout.D())
	}
	for _, r := range []Range{f.WriteLatency, f.WatchLag} {
		if r.Min < 0 || r.Max < r.Min {
			return fmt.Errorf("faults: %v to %v is no range of times", r.Min, r.Max)
		}
	}
	if sum := f.LostRequests + f.LostResponses + f.Refusals + f.NotSent; sum > permille/2 {
		return fmt.Errorf("faults: %d permille of writes fail; at most %d can, or nothing would ever settle", sum, permille/2)
	}
	return nil
}

// Violation is a broken invariant: a defect of the core, or of the simulator.
type Violation struct {
	Seed uint64
	Step int
	At   time.Duration // virtual time
	What string
}

func (v *Violation) Error() string {
	return fmt.Sprintf("seed %d, step %d, virtual time %v: %s", v.Seed, v.Step, v.At, v.What)
}

// violations keeps the first broken invariant, which ends the run.
type violations struct {
	seed  uint64
	clock *clock
	first error
}

// add records a broken invariant. It drops those after the first, which may be consequences.
func (v *violations) add(format string, args ...any) {
	if v.first == nil {
		v.first = &Violation{v.seed, v.clock.step, time.Duration(v.clock.now), fmt.Sprintf(format, args...)}
	}
}
