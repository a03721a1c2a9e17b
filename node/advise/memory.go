package advise

import (
	"maps"
	"math"
	"slices"
	"time"

	"hilbert.dev/hilbert/api/spec"
)

// MemoryObservation is what the memory laws see at one tick: bytes, and pressure as a share of time from 0 to 1.
type MemoryObservation struct {
	// At is the time since the node's boot.
	At    time.Duration `json:"at"`
	Total Sample        `json:"total"`
	Free  Sample        `json:"free"` // MemFree: without page cache
	// SwapTotal is known and 0 where there is no swap.
	SwapTotal Sample `json:"swapTotal"`
	SwapFree  Sample `json:"swapFree"`
	// OnlinePressure is the worst online pod's; known and 0 where there are no online pods.
	OnlinePressure Sample `json:"onlinePressure"`
	// Headroom is what all reclaimed pods of the node together may hold now.
	Headroom Sample `json:"headroom"`
	// CPUWaits: online pods wait for CPUs, or it is not known whether they do.
	CPUWaits bool `json:"cpuWaits,omitempty"`
	// DroppingLogs: pages of log files are being dropped.
	DroppingLogs bool `json:"droppingLogs,omitempty"`
	// Recursive: the hierarchy is mounted with memory_recursiveprot.
	Recursive bool             `json:"recursive,omitempty"`
	NUMANodes []MemoryNUMANode `json:"numaNodes,omitempty"`
	// Pods are by ID, ascending. Groups are what the kernel says of the cgroups that protect online pods: kubepods, the class's, the pods' and
	// their containers'.
	Pods   []MemoryPod   `json:"pods,omitempty"`
	Groups []MemoryGroup `json:"groups,omitempty"`
}

// MemoryNUMANode is one NUMA node. Headroom is its part of that.
type MemoryNUMANode struct {
	Total    Sample `json:"total"`
	Free     Sample `json:"free"`
	Headroom Sample `json:"headroom"`
}

// AnyNUMANode says that a pod is bound to no NUMA node.
const AnyNUMANode = -1

// MemoryPod is a pod, by what its cgroup Dir says.
type MemoryPod struct {
	ID        string `json:"id"`
	Dir       string `json:"dir"`
	Reclaimed bool   `json:"reclaimed,omitempty"`
	// Amount is what a reclaimed pod has of the reclaimed memory. NUMA node is the one NUMA node that it is bound to, or AnyNUMANode.
	Amount   int64 `json:"amount,omitempty"`
	NUMANode int   `json:"numaNode"`

	Current      Sample `json:"current"`
	Anon         Sample `json:"anon"`
	InactiveFile Sample `json:"inactiveFile"`
	ActiveFile   Sample `json:"activeFile"`
	// Limit is an online pod's memory.max; not known: it has none. SwapRoom is what a pod may yet swap by memory.swap.max on its path.
	Limit    Sample `json:"limit"`
	SwapRoom Sample `json:"swapRoom"`
	// Swap is what a reclaimed pod has in swap, and SwapMax the memory.swap.max of its own cgroup ("max" is Unlimited).
	Swap    Sample `json:"swap"`
	SwapMax Sample `json:"swapMax"`
	// Sockets is what buffers of its sockets take of Current.
	Sockets Sample `json:"sockets"`
	// Pressure is memory's some avg10, Refaults the bytes per second that came back soon after they were taken.
	Pressure Sample `json:"pressure"`
	Refaults Sample `json:"refaults"`
	// NUMANodes is what it has in each NUMA node.
	NUMANodes []MemoryShare `json:"numaNodes,omitempty"`

	// Reclaiming: a request of ours is under way. Last is what came of the one before.
	Reclaiming bool              `json:"shrinking,omitempty"`
	Last       ReclaimResult     `json:"last"`
	Containers []MemoryContainer `json:"containers,omitempty"`
}

// MemoryShare is a pod's memory in one NUMA node.
type MemoryShare struct {
	Anon Sample `json:"anon"`
	File Sample `json:"file"`
}

// ReclaimResult is what came of a request: bytes asked and got, and when; the zero value: there was none. Cut: the pressure of online pods ended it, so it
// says nothing of the pod.
type ReclaimResult struct {
	Cut   bool          `json:"cut,omitempty"`
	Asked int64         `json:"asked,omitempty"`
	Got   int64         `json:"got,omitempty"`
	Ended time.Duration `json:"ended,omitempty"`
}

// MemoryContainer is a container of an online pod, with its memory request in bytes.
type MemoryContainer struct {
	Dir          string `json:"dir"`
	Request      int64  `json:"request"`
	Current      Sample `json:"current"`
	InactiveFile Sample `json:"inactiveFile"`
}

// MemoryGroup is what a cgroup's files say now: memory.low, memory.min ("max" is Unlimited) and memory.current. Low is not known where the kernel has no
// such file.
type MemoryGroup struct {
	Dir     string `json:"dir"`
	Low     Sample `json:"low"`
	Min     Sample `json:"min"`
	Current Sample `json:"current"`
}

// Unlimited is a limit that the kernel writes as "max".
const Unlimited = math.MaxInt64

// MemoryAdvice is what the memory laws want.
type MemoryAdvice struct {
	// Limits are of reclaimed pods, Lows of the cgroups that protect online ones, by Dir.
	Limits []MemoryLimit `json:"limits,omitempty"`
	Lows   []MemoryLow   `json:"lows,omitempty"`
	// Swaps are of reclaimed pods.
	Swaps []MemorySwap `json:"swaps,omitempty"`
	// Reclaims are what is to be reclaimed now, the most urgent first; Held says why there are none.
	Reclaims []MemoryReclaim `json:"asks,omitempty"`
	Paused   ReclaimPause    `json:"held,omitempty"`
	// LogPages is how many bytes of log files' pages are to be dropped now.
	LogPages int64 `json:"logPages,omitempty"`
	// Move is a reclaimed pod whose memory is to be in another NUMA node, as long as it is advised.
	Move *MemoryMove `json:"move,omitempty"`
	// Protection is how well online pods are protected, by ID.
	Protection []MemoryProtection `json:"protection,omitempty"`
}

// MemoryLimit is of a reclaimed pod's own cgroup: memory.max and memory.high. 0: leave what is there. A Max is never lowered below what the pod holds,
// a High at most a step: the kernel reclaims inside of such a write. Write them where waiting does no harm.
type MemoryLimit struct {
	Pod  string `json:"pod"`
	Dir  string `json:"dir"`
	Max  int64  `json:"max"`
	High int64  `json:"high"`
}

// MemoryLow is a cgroup's memory.low.
type MemoryLow struct {
	Dir   string `json:"dir"`
	Bytes int64  `json:"bytes"`
}

// MemoryReclaim is an amount to reclaim from a pod. FileOnly: no anonymous memory may be taken.
type MemoryReclaim struct {
	Pod      string       `json:"pod"`
	Dir      string       `json:"dir"`
	Bytes    int64        `json:"bytes"`
	FileOnly bool         `json:"fileOnly,omitempty"`
	Why      MemoryReason `json:"why"`
}

// MemoryReason says why memory is asked for.
type MemoryReason string

// The reasons, the most urgent first.
const (
	ReclaimCeiling MemoryReason = "Ceiling" // the pod holds more than its part of the headroom, or than its amount
	ReclaimLimit   MemoryReason = "Limit"   // it is near its limit, where it would have to reclaim itself
	ReclaimFree    MemoryReason = "Free"    // the node or a NUMA node has little free memory
	ReclaimOffload MemoryReason = "Offload" // it feels no pressure, so some of it is not used
)

// ReclaimPause says why nothing is asked for.
type ReclaimPause string

// The holds.
const (
	PausedByPressure ReclaimPause = "Pressure" // online pods feel memory pressure
	PausedByMissing  ReclaimPause = "Missing"  // whether they do is not known
)

// MemoryMove is a reclaimed pod whose memory goes from one NUMA node to another, by its cpuset.mems. It is over at Until at the latest.
type MemoryMove struct {
	Pod   string        `json:"pod"`
	Dir   string        `json:"dir"`
	From  int           `json:"from"`
	To    int           `json:"to"`
	Bytes int64         `json:"bytes"`
	Began time.Duration `json:"began"`
	Until time.Duration `json:"until"`
}

// MemoryState is what the laws keep from tick to tick. The zero value knows nothing.
type MemoryState struct {
	At   time.Duration             `json:"at"`
	Pods map[string]MemoryPodState `json:"pods,omitempty"`
	// Dropping is by what is short: the node at 0, NUMA node i at i+1. Short is since when NUMA nodes are, -1 where they are not.
	Dropping []bool          `json:"dropping,omitempty"`
	Short    []time.Duration `json:"short,omitempty"`
	Move     *MemoryMove     `json:"move,omitempty"`
	NextMove time.Duration   `json:"nextMove,omitempty"`
	// MovePause is the pause after moves that came to no end.
	MovePause time.Duration             `json:"movePause,omitempty"`
	LogsAt    time.Duration             `json:"logsAt,omitempty"` // when pages of log files could be dropped last
	Lows      map[string]MemoryLowState `json:"lows,omitempty"`   // by a container's directory
	// Shared are the cgroups above pods that have a memory.low of ours.
	Shared []string `json:"shared,omitempty"`
}

// MemoryPodState is of one pod.
type MemoryPodState struct {
	Max    int64         `json:"max,omitempty"` // as last advised
	High   int64         `json:"high,omitempty"`
	HighAt time.Duration `json:"highAt,omitempty"` // when it was last lowered
	// Swap is its memory.swap.max as last advised; nil: none was. It could rise at SwapAt.
	Swap   *int64        `json:"swap,omitempty"`
	SwapAt time.Duration `json:"swapAt,omitempty"`
	// Asked is the last ask, NextAsk when there may be another, Pause how long after a result; NextOffload and OffloadPause are of offloading alone.
	Asked        int64         `json:"asked,omitempty"`
	Ended        time.Duration `json:"ended,omitempty"` // of the last result that was looked at
	NextAsk      time.Duration `json:"nextAsk,omitempty"`
	Pause        time.Duration `json:"pause,omitempty"`
	NextOffload  time.Duration `json:"nextOffload,omitempty"`
	OffloadPause time.Duration `json:"offloadPause,omitempty"`
	NextMove     time.Duration `json:"nextMove,omitempty"`
}

// MemoryLowState is a container's part of the protection, and since when.
type MemoryLowState struct {
	Bytes int64         `json:"bytes"`
	At    time.Duration `json:"at"`
}

// Clone returns a copy that shares nothing with m.
func (m *MemoryState) Clone() MemoryState {
	out := *m
	out.Pods, out.Lows = maps.Clone(m.Pods), maps.Clone(m.Lows)
	out.Dropping, out.Short, out.Shared = slices.Clone(m.Dropping), slices.Clone(m.Short), slices.Clone(m.Shared)
	if m.Move != nil {
		move := *m.Move
		out.Move = &move
	}
	return out
}

// StepMemory runs the memory laws: limits of reclaimed pods, what is to be reclaimed, which pod moves, and how online pods are protected. A value that
// is not known leads to no action. Time that runs backwards counts as no time.
func StepMemory(o *MemoryObservation, p *spec.NodeMemory, m *MemoryState) MemoryAdvice {
	t := beginMemory(o, p, m)
	t.limits()
	t.swapping()
	t.reclaims()
	t.logPages()
	t.move()
	t.protect()
	t.keep()
	return t.advice
}

// memoryTick is one run of the laws.
type memoryTick struct {
	o      *MemoryObservation
	p      *spec.NodeMemory
	m      *MemoryState
	now    time.Duration
	advice MemoryAdvice
	pods   []MemoryPodState // as o.Pods
	// target is a reclaimed pod's part of the headroom, ceiling what of the limits now binds it; 0: not known.
	target, ceiling []int64
}

func beginMemory(o *MemoryObservation, p *spec.NodeMemory, m *MemoryState) *memoryTick {
	n := len(o.Pods)
	t := &memoryTick{o: o, p: p, m: m, now: max(o.At, m.At), pods: make([]MemoryPodState, n), target: make([]int64, n), ceiling: make([]int64, n)}
	m.At = t.now
	for i := range o.Pods {
		t.pods[i] = m.Pods[o.Pods[i].ID]
	}
	if len(m.Short) != len(o.NUMANodes) { // the machine is another one
		m.Dropping, m.Short = make([]bool, len(o.NUMANodes)+1), make([]time.Duration, len(o.NUMANodes))
		for i := range m.Short {
			m.Short[i] = -1
		}
	}
	if len(m.Dropping) != len(o.NUMANodes)+1 {
		m.Dropping = make([]bool, len(o.NUMANodes)+1)
	}
	return t
}

// keep remembers the pods that are there; others are forgotten.
func (t *memoryTick) keep() {
	t.m.Pods = make(map[string]MemoryPodState, len(t.pods))
	for i := range t.pods {
		t.m.Pods[t.o.Pods[i].ID] = t.pods[i]
	}
}

// mostBytes is more than a machine has; what is above it is no measurement.
const mostBytes = 1 << 50

// bytesOf is a sample as a number of bytes. Not known, negative, not a number and absurd are one.
func bytesOf(s Sample) (int64, bool) {
	if !s.Known || !(s.Value >= 0) || s.Value > mostBytes {
		return 0, false
	}
	return int64(s.Value), true
}

// shareOf is a sample as a share of time, or as a rate.
func shareOf(s Sample) (float64, bool) {
	return s.Value, s.Known && s.Value >= 0 && !math.IsInf(s.Value, 0)
}

// part is a share of an amount of bytes.
func partOf(bytes int64, share float64) int64 { return int64(float64(bytes) * share) }
