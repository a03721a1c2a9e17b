package quiet

import (
	"context"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/allocate"
	"hilbert.dev/hilbert/node/controller"
	"hilbert.dev/hilbert/topology"
)

// Controller has a Keeper keep interrupts and the host's services off CPUs that pods have for themselves. It works beside the loop: a machine has hundreds of interrupts.
type Controller struct {
	node   *controller.Node
	keeper *Keeper // nil: nothing is kept off
	busy   bool
	held   topology.CPUSet // of the last step
	set    Settings
	next   time.Time
	notes  map[Note]bool // as told
}

// NewController returns one that has done nothing yet. Without a keeper it never does.
func NewController(n *controller.Node, keeper *Keeper) *Controller {
	return &Controller{node: n, keeper: keeper}
}

// compareEvery is how often what is set is compared with the kernel while nothing changes.
const compareEvery = 10 * time.Second

// Tick implements controller.Ticker.
func (q *Controller) Tick(now time.Time) (changed bool) {
	n := q.node
	keeper := q.keeper
	if keeper == nil || q.busy || !n.Loop.Running() || !n.Runtime.Connected || n.Mode != spec.ModeAgent {
		return false
	}
	set := Settings(n.Config.QuietCPUs)
	all := n.Machine.AllCPUs()
	held := all.Minus(n.Manager.Shareable())
	if same := held == q.held && set == q.set; same && now.Before(q.next) {
		return false
	}
	q.busy, q.held, q.set, q.next = true, held, set, now.Add(compareEvery)
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
func (q *Controller) tell(notes []Note) {
	told := make(map[Note]bool, len(notes))
	for _, note := range notes {
		if told[note] = true; !q.notes[note] {
			q.node.Events.Note(spec.PodRef{}, allocate.Note(note))
		}
	}
	q.notes = told
}
