package controller

import (
	"log/slog"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/allocate"
	"hilbert.dev/hilbert/node/enforce"
	"hilbert.dev/hilbert/node/events"
	"hilbert.dev/hilbert/node/loop"
	"hilbert.dev/hilbert/node/pods"
	"hilbert.dev/hilbert/node/runtime"
	"hilbert.dev/hilbert/topology"
)

// Ticker is a controller that compares the node with what was decided. A controller is responsible for one concern of the node, such as devices or eviction, and owns all
// state of it. The Agent keeps those of each tick, and those of each observation, in an ordered slice, and calls Tick in that order. What takes long, Tick starts beside the
// loop; its result comes back as a message.
type Ticker interface {
	// Tick looks at the node and decides. It returns whether placements or desired knobs have changed, so that they must be applied.
	Tick(now time.Time) (changed bool)
}

// Node is what all controllers share: the pods of the node, the allocator, and the ways to the loop and to people. It belongs to the loop.
type Node struct {
	// Config is the agent's part of the configuration. It is changed in place when the node is told another one.
	Config  *spec.Node
	Mode    string // spec.ModeAgent or spec.ModeKubelet
	Machine *topology.Machine
	Kernel  enforce.Kernel
	Log     *slog.Logger
	Loop    *loop.Loop
	Events  *events.Recorder
	Counts  *Counts
	Manager *allocate.Manager
	Pods    *pods.Table
	Runtime Runtime
	Now     func() time.Time
	Started time.Time // when the node was, by the monotonic clock
	// Apply carries out what has been decided: placements and knobs.
	Apply func()
}

// NewNode returns a node without pods, that no runtime is connected to. Who makes it fills in Config, Mode, Machine, Kernel, Started and Apply.
func NewNode(now func() time.Time, log *slog.Logger, manager *allocate.Manager) *Node {
	counts := &Counts{Notes: make(map[string]uint64), Refused: make(map[string]uint64), Withheld: make(map[string]uint64)}
	return &Node{
		Log: log, Loop: loop.New(), Events: events.NewRecorder(log, now, counts.Notes), Counts: counts, Manager: manager, Pods: pods.NewTable(now),
		Now: now, Runtime: Runtime{Why: "not connected yet"},
	}
}

// Lends reports whether this node lends at all. Where the kubelet's managers place pods, they would undo it.
func (n *Node) Lends() bool {
	return n.Mode == spec.ModeAgent && *n.Config.Lending.Enabled
}

// Placement is what we decide of a pod's placement: nothing where the kubelet gave the pod CPUs of its own.
func (n *Node) Placement(p *pods.Pod) (allocate.Placement, bool) {
	if p == nil {
		return allocate.Placement{}, false
	}
	out, ok := n.Manager.Placement(p.Ref.UID)
	if n.Mode == spec.ModeKubelet && out.Pool == "" {
		out.CPUs, out.Mems = topology.CPUSet{}, topology.CPUSet{}
	}
	return out, ok
}

// Runtime is what is known of the container runtime.
type Runtime struct {
	Updater   runtime.Updater // nil: not connected
	Name      string
	Why       string    // it is not connected
	Lost      time.Time // since when; zero: since the start
	Synced    bool      // it has told what runs, at least once
	Connected bool
}

// Away reports whether the runtime has been lost for so long that nothing should be promised on this node: no agent would keep the promise.
func (r *Runtime) Away(now time.Time) bool {
	return !r.Connected && !r.Lost.IsZero() && now.Sub(r.Lost) >= lostGrace
}

// lostGrace is how long the runtime may be away before the NUMA nodes are closed: a restart of the runtime takes less.
const lostGrace = 30 * time.Second

// TellsMarks reports whether the runtime does.
func (r *Runtime) TellsMarks() bool { return runtime.TellsMarks(r.Name) }

// Counts are what the agent has done since it was started. All only grow.
type Counts struct {
	Ticks            uint64
	Written          uint64 // knobs
	Reverted         uint64 // of Written: another process had changed them
	RefusedKnobs     uint64
	EnforceSeconds   float64
	Updates          uint64 // of containers, through the runtime
	UpdatesFailed    uint64
	Unapplied        uint64 // containers that were created before the pods on their CPUs were seen to have moved away
	Connections      uint64 // to the runtime
	NotStarted       uint64 // containers whose start was refused: they did not have what they were given
	MissedEnded      uint64 // containers that were ended: they started without the agent, and with GPUs that are not theirs, or without theirs
	MissedLeft       uint64 // containers that started without the agent and see GPUs that are not theirs, and are nobody's that we may end
	MissedAdjusted   uint64 // containers that started without the agent, and were adjusted afterwards
	Checkpoints      uint64
	CheckpointErrors uint64
	Reports          uint64
	ReportsFailed    uint64
	Vanished         uint64            // pods that were gone without the runtime's saying so
	Notes            map[string]uint64 // by reason
	Refused          map[string]uint64 // pods, by reason
	Withheld         map[string]uint64 // containers that were not made because of what their pod holds of devices, by reason
}
