package node

import (
	"context"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/allocate"
	"hilbert.dev/hilbert/node/quiet"
	"hilbert.dev/hilbert/topology"
)

// quietController keeps interrupts and the host's services off CPUs that pods have for themselves (quiet.Keeper). It works beside the loop: a machine has hundreds of interrupts.
type quietController struct {
	node  *nodeState
	busy  bool
	held  topology.CPUSet // of the last step
	set   quiet.Settings
	next  time.Time
	notes map[quiet.Note]bool // as told
}

// quietEvery is how often what is set is compared with the kernel while nothing changes.
const quietEvery = 10 * time.Second

// Tick implements ticker.
func (q *quietController) Tick(now time.Time) (changed bool) {
	n := q.node
	keeper := n.options.Quiet
	if keeper == nil || q.busy || !n.Loop.Running() || !n.Runtime.Connected || n.options.Mode != spec.ModeAgent {
		return false
	}
	set := quiet.Settings(n.options.Config.QuietCPUs)
	all := n.options.Machine.AllCPUs()
	held := all.Minus(n.Manager.Shareable())
	if same := held == q.held && set == q.set; same && now.Before(q.next) {
		return false
	}
	q.busy, q.held, q.set, q.next = true, held, set, now.Add(quietEvery)
	n.Loop.Work(func(context.Context) {
		notes := keeper.Step(all, held, set)
		n.Loop.Post(func() {
			q.busy = false
			q.tell(notes)
		})
	})
	return false
}

// tell tells what does not work once, and again when it has worked in between.
func (q *quietController) tell(notes []quiet.Note) {
	told := make(map[quiet.Note]bool, len(notes))
	for _, note := range notes {
		if told[note] = true; !q.notes[note] {
			q.node.Events.Note(spec.PodRef{}, allocate.Note(note))
		}
	}
	q.notes = told
}
