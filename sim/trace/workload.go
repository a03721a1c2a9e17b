package trace

import (
	"fmt"
	"slices"
	"time"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

// Never is the Deleted of a task that stays.
const Never = -1

// PodsPerNode is what a node of a trace that does not say allows: enough not to be what runs out.
const PodsPerNode = 1000

// Requests that scores count for a task that names none, as Kubernetes does.
const (
	scoreCPU    = 100       // millicores
	scoreMemory = 200 << 20 // bytes
)

// Workload is a cluster and what it is asked to run.
type Workload struct {
	// Name says where it came from, for people.
	Name  string
	Nodes []*facts.Node
	// Tasks are in order of Created; tasks of one instant keep the order of their source.
	Tasks []Task
	// Identities are what selectors see of the pods, by Task.Group. A group that is not in it has the zero Identity.
	Identities map[string]Identity
	// Controllers select pods; those whose Identity names one as the owner are spread by default.
	Controllers []*facts.Workload
	// Queues are there from the beginning, as are Namespaces, whose labels say which queue they feed.
	Queues     []*facts.Queue
	Namespaces []facts.Namespace
	// Units are the PodGroups that tasks name, in order of creation.
	Units []Unit
	// Reservations are kept for tasks to come, in order of creation.
	Reservations []Reservation
	// Reports are what the nodes' agents say at the beginning, of empty nodes.
	Reports []facts.NodeReported
	// Storage is there from the beginning; nil: no pod has claims.
	Storage *Storage
}

// Unit is one PodGroup to be.
type Unit struct {
	// Facts.Created is when it comes, in nanoseconds since the trace began; its members may come before.
	Facts *facts.Unit
	// Deleted is when it goes, Never if it stays. Its pods stay.
	Deleted int64
}

// Reservation is one to be.
type Reservation struct {
	// Facts.Created is when it comes, in nanoseconds since the trace began.
	Facts *facts.Reservation
	// Deleted is when it goes, Never if it stays.
	Deleted int64
}

// Tenanted reports whether the workload has units or queues, so that there is more to watch than nodes and pods.
func (w *Workload) Tenanted() bool { return len(w.Queues)+len(w.Namespaces)+len(w.Units) > 0 }

// Identity is a pod's metadata as far as other pods' constraints look at it.
type Identity struct {
	Namespace string        // empty: default
	Labels    []facts.Label // sorted by key
	Owner     facts.Owner
}

// Tied reports whether a task has required constraints between pods.
func (w *Workload) Tied() bool {
	return slices.ContainsFunc(w.Tasks, func(t Task) bool {
		r := t.Requirements
		return len(r.Affinity)+len(r.AntiAffinity) > 0 || slices.ContainsFunc(r.Spread, func(c facts.SpreadConstraint) bool { return c.Hard })
	})
}

// Task is one pod to be.
type Task struct {
	Name string
	// Requirements holds the raw numbers (Requests, GPU) and the constraints. Tasks share it; it must not be changed.
	Requirements *facts.Requirements
	// Created and Deleted are nanoseconds since the trace began; Deleted is Never for a task that stays.
	Created, Deleted int64
	Priority         int32
	// Runs is how long the pod runs once it is bound, in nanoseconds; 0: until it is deleted.
	Runs int64
	// Deadline is what its spec says that it may run at most, in nanoseconds; 0: for ever.
	Deadline int64
	// Unit names its PodGroup, in the pod's namespace, and Subgroup the part of it; empty: it is a unit of its own.
	Unit, Subgroup string
	// Claims are what its pods use.
	Claims []TaskClaim
	// Group is what the source calls the task's kind: the QoS class in openb, the application in DLRM, the class when synthetic.
	Group string
}

// Request returns how much the task asks of a resource by name: millicores, bytes or a count.
func (t *Task) Request(name string) int64 { return amount(t.Requirements.Requests, name) }

// Capacity is what a set of nodes offers in sum.
type Capacity struct {
	CPU      int64 // millicores
	Memory   int64 // bytes
	GPUMilli int64
}

// Capacity sums up the nodes, and the GPUs that their agents give out.
func (w *Workload) Capacity() Capacity {
	var c Capacity
	for _, n := range w.Nodes {
		c.CPU += amount(n.Allocatable, resource.NameCPU)
		c.Memory += amount(n.Allocatable, resource.NameMemory)
		c.GPUMilli += int64(n.GPU.GPUs) * topology.FullGPU
	}
	for _, r := range w.Reports {
		if d := r.Report.Devices; d != nil && d.Owner == topology.OwnerHilbert {
			c.GPUMilli += int64(len(d.GPU)) * topology.FullGPU
		}
	}
	return c
}

func amount(list []resource.Quantity, name string) int64 {
	for _, q := range list {
		if q.Name == name {
			return q.Amount
		}
	}
	return 0
}

// End is the last instant at which a task comes or goes, in nanoseconds since the trace began.
func (w *Workload) End() int64 {
	var end int64
	for i := range w.Tasks {
		end = max(end, w.Tasks[i].Created, w.Tasks[i].Deleted)
	}
	for i := range w.Units {
		end = max(end, w.Units[i].Facts.Created, w.Units[i].Deleted)
	}
	return end
}

func (w *Workload) String() string {
	return fmt.Sprintf("%s: %d nodes, %d tasks over %v", w.Name, len(w.Nodes), len(w.Tasks), time.Duration(w.End()).Round(time.Second))
}

// sort puts tasks in order of creation.
func (w *Workload) sort() {
	slices.SortStableFunc(w.Tasks, func(a, b Task) int {
		switch {
		case a.Created < b.Created:
			return -1
		case a.Created > b.Created:
			return 1
		}
		return 0
	})
}

// scored fills in what scores count for the requests.
func scored(r *facts.Requirements) *facts.Requirements {
	r.ScoreCPU, r.ScoreMemory = amount(r.Requests, resource.NameCPU), amount(r.Requests, resource.NameMemory)
	if r.ScoreCPU == 0 {
		r.ScoreCPU = scoreCPU
	}
	if r.ScoreMemory == 0 {
		r.ScoreMemory = scoreMemory
	}
	return r
}
