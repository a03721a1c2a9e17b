package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/interference"
	"hilbert.dev/hilbert/node/runqueue"
)

// RunQueues sees for whom the threads of pods wait: runqueue.Probe. It is called beside the loop, by one goroutine at a time.
type RunQueues interface {
	// Look says for whom the victims waited since the call before; without victims nothing is left in the kernel. All are cgroups.
	Look(victims, pods []string) (*runqueue.Waits, error)
	Close() error
}

// RunQueueCounts are what the probe of the run queues has done. All but Victims only grow.
type RunQueueCounts struct {
	Victims int // that are looked at now
	Looked  time.Duration
	Dropped time.Duration // of waiting that found no room
	Failed  uint64
}

// runQueueController has the run queues looked at while the Book of interferenceController wants to know for whom services wait, and only then.
type runQueueController struct {
	node   *nodeState
	busy   bool
	begun  bool                          // something may be in the kernel
	ahead  map[string]map[string]float64 // what the last look said, by UIDs, in CPUs; nil: it was handed on
	why    string                        // the node cannot have the probe; empty: not that is known
	counts RunQueueCounts
}

// close takes the programs out of the kernel when the agent ends.
func (q *runQueueController) close() {
	if probe := q.node.options.RunQueues; probe != nil {
		_ = probe.Close() // what is left of it goes with the process
	}
}

// take hands on what the last look said, once.
func (q *runQueueController) take() map[string]map[string]float64 {
	ahead := q.ahead
	q.ahead = nil
	return ahead
}

// look has the victims looked at, by UID, beside the loop. None: the probe rests.
func (q *runQueueController) look(victims []string) {
	probe := q.node.options.RunQueues
	if q.why != "" {
		victims = nil // it was refused, and would be again
	}
	if probe == nil || q.busy || !q.node.Loop.Running() || len(victims) == 0 && !q.begun {
		return
	}
	var pods, harmed []string
	uids := make(map[string]string)
	for _, p := range q.node.Pods.Sorted() {
		if p.Cgroup != "" {
			uids[p.Cgroup] = p.Ref.UID
			pods = append(pods, p.Cgroup)
		}
	}
	for _, uid := range victims {
		if p := q.node.Pods.Of(uid); p != nil && p.Cgroup != "" {
			harmed = append(harmed, p.Cgroup)
		}
	}
	q.busy, q.begun, q.counts.Victims = true, len(harmed) > 0, len(harmed)
	q.node.Loop.Work(func(context.Context) {
		waits, err := probe.Look(harmed, pods)
		q.node.Loop.Post(func() { q.looked(waits, err, harmed, uids) })
	})
}

// looked takes what a look has found.
func (q *runQueueController) looked(waits *runqueue.Waits, err error, victims []string, uids map[string]string) {
	q.busy = false
	if err != nil {
		q.counts.Failed++
		if unsupported, ok := errors.AsType[*runqueue.Unsupported](err); ok {
			q.why = unsupported.Error()
		}
		q.node.Events.NoteTransient(spec.ReasonRunQueuesUnseen, fmt.Sprintf("for whom services wait is not seen: %v", err))
		return
	}
	q.counts.Looked += waits.Over
	q.counts.Dropped += waits.Dropped
	if waits.Over <= 0 {
		return
	}
	q.ahead = make(map[string]map[string]float64, len(victims))
	for _, victim := range victims {
		// What found no room may have been this one's, behind anybody: without it, those that found room would seem to be most of its waiting.
		ahead := map[string]float64{interference.NoPod: waits.Dropped.Seconds() / waits.Over.Seconds()}
		for who, waited := range waits.Of[victim] {
			id := interference.NoPod
			if who != runqueue.NoPod {
				id = uids[who]
			}
			ahead[id] += waited.Seconds() / waits.Over.Seconds()
		}
		q.ahead[uids[victim]] = ahead
	}
}
