package node

import (
	"log/slog"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/internal/clock"
	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/node/allocate"
	"hilbert.dev/hilbert/node/events"
	"hilbert.dev/hilbert/node/evict"
	"hilbert.dev/hilbert/node/loop"
	"hilbert.dev/hilbert/topology"
)

// ticker is a controller that compares the node with what was decided. A controller is responsible for one concern of the node, such as devices or eviction, and owns all
// state of it. The Agent keeps those of each tick, and those of each observation, in an ordered slice, and calls Tick in that order. What takes long, Tick starts beside the
// loop; its result comes back as a message.
type ticker interface {
	// Tick looks at the node and decides. It returns whether placements or desired knobs have changed, so that they must be applied.
	Tick(now time.Time) (changed bool)
}

// controller is one that runs a law on each observation of the kernel's counters.
type controller interface {
	Tick(in *inputs) (changed bool)
}

// timed is a controller that needs of an observation only when it was made.
type timed struct{ ticker }

// Tick implements controller.
func (t timed) Tick(in *inputs) (changed bool) { return t.ticker.Tick(in.now) }

// inputs are what the laws' controllers see in one round. The lower fields are filled by controllers for those that come later in the order.
type inputs struct {
	now time.Time
	// seen is what was observed.
	seen *observation
	// reportsFail is since when the report cannot be written; zero: it can.
	reportsFail time.Time
	// noLending: the last eviction decision forbids lending more.
	noLending bool
	// noMemory: no memory may be lent beyond what runs.
	noMemory bool

	advice      *advise.Advice  // by lendingController
	cpuPressure advise.Sample   // by lendingController: what online pods feel
	reclaims    []evict.Reclaim // by evictionController, for memoryController
}

// nodeState is what all controllers share: the pods of the node, the allocator, and the ways out. It belongs to the loop.
type nodeState struct {
	options *Options
	ports   *Ports
	log     *slog.Logger
	loop    *loop.Loop
	events  *events.Recorder
	counts  *Counts
	manager *allocate.Manager
	pods    *podTable
	runtime runtimeState
	now     func() time.Time
	started time.Time // when the node was, by the monotonic clock
	// apply carries out what has been decided: see Agent.apply.
	apply func()
}

func newNodeState(o *Options, manager *allocate.Manager) *nodeState {
	counts := &Counts{Notes: make(map[string]uint64), Refused: make(map[string]uint64), Withheld: make(map[string]uint64)}
	by := clock.OrReal(o.Clock)
	return &nodeState{
		options: o, ports: &o.Ports, log: o.Log, loop: loop.New(), counts: counts, manager: manager, pods: newPodTable(by.Now), now: by.Now,
		events:  events.NewRecorder(o.Log, by.Now, counts.Notes),
		runtime: runtimeState{why: "not connected yet"}, started: by.Now().Add(-o.Uptime),
	}
}

// lends reports whether this node lends at all. Where the kubelet's managers place pods, they would undo it.
func (n *nodeState) lends() bool {
	return n.options.Mode == spec.ModeAgent && *n.options.Config.Lending.Enabled
}

// placement is what we decide of a pod's placement: nothing where the kubelet gave the pod CPUs of its own.
func (n *nodeState) placement(p *pod) (allocate.Placement, bool) {
	if p == nil {
		return allocate.Placement{}, false
	}
	out, ok := n.manager.Placement(p.name.UID)
	if n.options.Mode == spec.ModeKubelet && out.Pool == "" {
		out.CPUs, out.Mems = topology.CPUSet{}, topology.CPUSet{}
	}
	return out, ok
}

// runtimeState is what is known of the container runtime.
type runtimeState struct {
	updater   Updater // nil: not connected
	name      string
	why       string    // it is not connected
	lost      time.Time // since when; zero: since the start
	synced    bool      // it has told what runs, at least once
	connected bool
}

// away reports whether the runtime has been lost for so long that nothing should be promised on this node: no agent would keep the promise.
func (r *runtimeState) away(now time.Time) bool {
	return !r.connected && !r.lost.IsZero() && now.Sub(r.lost) >= lostGrace
}
