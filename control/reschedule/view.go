package reschedule

import (
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/topology"
)

// Node is a node as far as moves look at it.
type Node struct {
	Name string
	Room Room
	// Leaving says why the node is to be emptied; empty: it is not.
	Leaving string
	// CPUs are what it has, and Load what is used of them by its agent's report, both in thousandths of a CPU. Known: there is a fresh report.
	CPUs, Load float64
	Known      bool
	// Closed nodes take nobody.
	Closed bool
}

// Room is what is free on a node.
type Room struct {
	Amounts []int64 // by resource, in an order that all nodes and pods share
	Shape   topology.Shape
	Free    topology.Free
}

// Pod is a pod that runs.
type Pod struct {
	UID, Namespace, Name string

	Node     int
	Workload string // who makes a replacement
	Unit     string // its gang; empty: none
	Consent  spec.Consent
	Pinned   bool // it belongs to this very node, as a DaemonSet's do
	// Protected says why its disruption budget refuses an eviction now; empty: it allows one.
	Protected string
	// Violated says which rule of its spec its node breaks by now; Broken, which promise its node broke; empty: none.
	Violated, Broken string
	// Leaves says why it is to leave its node, which has changed hands; empty: it may stay.
	Leaves string
	// Online: it leaves because its node went to offline, and is a pod of online.
	Online bool

	Requests []int64 // by resource, as Room.Amounts
	GPU      topology.Request
	Grant    topology.Grant
	// Use is about what it uses of its node's Load; 0: that is not known.
	Use float64

	// Created is when it was made, Began when it began to run.
	Created, Began time.Time
	// Loses: its work is lost when it is evicted. A server's is not.
	Loses bool
}

// Weight is what a pod holds, in thousandths of a GPU; one without counts as one of a hundred parts of one.
func (p *Pod) Weight() float64 {
	if t := p.GPU.Total(); t > 0 {
		return float64(t)
	}
	return 10
}

// View is a cluster. Pods and nodes are named by their indices.
type View struct {
	Nodes []Node
	Pods  []Pod
	// Waiting are the units that wait for room, the most pressing first.
	Waiting []Waiting
	// Growths are pods that wait for room on the very nodes that they are on.
	Growths []Growth
	// Gangs are those that run as a whole and prefer to be near together.
	Gangs []Gang
	// History is who was moved before; nil: nothing is known of it.
	History *History
	// Replicas are the pods of each workload that serves. How many pods are moved at once of one that does not, such as a Job, is not bounded.
	Replicas map[string]Replicas
}

// Replicas are the pods of a workload.
type Replicas struct {
	All      int
	Starting int // of them: without a node, or running for less than StartTime
	Moving   int // of them, or of those before
}

// StartTime is how long a pod may take until it serves.
const StartTime = 5 * time.Minute

// Waiting is a gang or a large pod that fits nowhere.
type Waiting struct {
	Name string
	// Needs is what it asks for, in thousandths of a GPU.
	Needs float64
	// Tried: the scheduler tried to place it, and it fits nowhere. What waits for the limit of a queue was not tried.
	Tried bool
}

// Growth is room that a pod waits for on its node, to grow in place.
type Growth struct {
	// Name is of who waits in the ledger.
	Name string
	Node int
	// Pod is the UID of the pod that is to grow.
	Pod string
	// Needs is how much more it asks for, by resource, as Room.Amounts.
	Needs []int64
	// Reservation is the UID of the Reservation that keeps the room.
	Reservation string
	// Preempts: the pod might evict others of lower priority, did it not run yet; so others may be evicted for its growth.
	Preempts bool
	// MayEvict are the pods that have been named already, by UID.
	MayEvict []string
}

// Step is a pod that goes to a node. GPU is the index there where it asks for a part of one.
type Step struct{ Pod, To, GPU int }

// Judge answers what only the scheduler's own code knows. Its answers may take those before into account, so that they fit one another.
type Judge interface {
	// Room finds steps, at most so many and by pods that may be moved, after which a unit that waits fits; in an order in which each can be done.
	Room(unit string, most int, may func(pod int) bool) (steps []Step, ok bool)
	// Better finds moves that win worth by the market's prices, the greatest gain first, in thousandths of a GPU.
	Better(most int, may func(pod int) bool) (steps []Step, gains []float64)
	// Target is the best node for a pod that leaves its own, of those that may be.
	Target(pod int, may func(node int) bool) (to, gpu int, ok bool)
}

// Params bound what is moved.
type Params struct {
	Most int // moves in one plan
	// PodCooldown and WorkloadCooldown are how long a pod, and all pods of one workload, stay after a move.
	PodCooldown, WorkloadCooldown time.Duration
	// MinAge is how long a pod has run before it is moved to a better place.
	MinAge time.Duration
	// WorkloadPercent is how many of the pods of a workload that serves may start and move at once; one may be moved while none does.
	WorkloadPercent int
	// WorkloadTimeLossPermille is how much of its pods' time a workload that serves may lose to moves off nodes that went to offline, in thousandths. WholeWorkload is no bound.
	WorkloadTimeLossPermille int
	// Horizon is for how long a gain is counted: a thousandth of a GPU that is won counts as much work.
	Horizon time.Duration
	// LoadMark is the used part of a node's CPUs above which pods leave it; 0: load is no reason.
	LoadMark float64
	// Only are the names of the reasons that count; empty: all do.
	Only []string
}

// WholeWorkload is the WorkloadTimeLossPermille of all of a workload's time.
const WholeWorkload = 1000

// Defaults are careful.
func Defaults() Params {
	return Params{Most: 20, PodCooldown: 24 * time.Hour, WorkloadCooldown: time.Hour, WorkloadPercent: 10, WorkloadTimeLossPermille: 1, MinAge: 2 * time.Hour, Horizon: 24 * time.Hour, LoadMark: 0}
}
