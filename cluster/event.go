package cluster

import (
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

// UID identifies a pod over its whole life; a pod that is created anew under the same name has another.
type UID string

// Event is something that a door saw. The Store keeps what an Event points to, so the sender must not change it afterwards.
type Event interface{ event() }

// NodeUpserted: a node exists with these properties.
type NodeUpserted struct{ Node *Node }

// NodeRemoved: a node exists no more. Pods bound to it stay known, uncharged, until they are removed or the node is back.
type NodeRemoved struct{ Name string }

// PodUpserted: a pod exists with these properties.
type PodUpserted struct{ Pod PodFacts }

// PodRemoved: a pod exists no more.
type PodRemoved struct{ UID UID }

// NodesListed is the complete, consistent set of nodes: those not in it are removed.
type NodesListed struct{ Nodes []*Node }

// PodsListed is the complete, consistent set of pods: those not in it are removed.
type PodsListed struct{ Pods []PodFacts }

// NamespaceUpserted: a namespace exists with these labels.
type NamespaceUpserted struct{ Namespace Namespace }

// NamespaceRemoved: a namespace exists no more.
type NamespaceRemoved struct{ Name string }

// NamespacesListed is the complete, consistent set of namespaces.
type NamespacesListed struct{ Namespaces []Namespace }

// WorkloadUpserted: something that selects pods exists.
type WorkloadUpserted struct{ Workload *Workload }

// WorkloadRemoved: it exists no more.
type WorkloadRemoved struct {
	Kind            WorkloadKind
	Namespace, Name string
}

// WorkloadsListed is the complete, consistent set of workloads of one kind.
type WorkloadsListed struct {
	Kind      WorkloadKind
	Workloads []*Workload
}

// BudgetUpserted: a disruption budget exists.
type BudgetUpserted struct{ Budget *Budget }

// BudgetRemoved: it exists no more.
type BudgetRemoved struct{ Namespace, Name string }

// BudgetsListed is the complete, consistent set of budgets.
type BudgetsListed struct{ Budgets []*Budget }

// UnitUpserted: a PodGroup exists.
type UnitUpserted struct{ Unit *UnitFacts }

// UnitRemoved: it exists no more.
type UnitRemoved struct{ Name UnitName }

// UnitsListed is the complete, consistent set of PodGroups.
type UnitsListed struct{ Units []*UnitFacts }

// QueueUpserted: a queue is configured so.
type QueueUpserted struct{ Queue *QueueFacts }

// QueueRemoved: it is configured no more.
type QueueRemoved struct{ Name string }

// QueuesListed is the complete, consistent set of queues.
type QueuesListed struct{ Queues []*QueueFacts }

func (UnitUpserted) event()  {}
func (UnitRemoved) event()   {}
func (UnitsListed) event()   {}
func (QueueUpserted) event() {}
func (QueueRemoved) event()  {}
func (QueuesListed) event()  {}

func (NamespaceUpserted) event() {}
func (NamespaceRemoved) event()  {}
func (NamespacesListed) event()  {}
func (WorkloadUpserted) event()  {}
func (WorkloadRemoved) event()   {}
func (WorkloadsListed) event()   {}
func (BudgetUpserted) event()    {}
func (BudgetRemoved) event()     {}
func (BudgetsListed) event()     {}

func (NodeUpserted) event() {}
func (NodeRemoved) event()  {}
func (PodUpserted) event()  {}
func (PodRemoved) event()   {}
func (NodesListed) event()  {}
func (PodsListed) event()   {}

// Node is a machine as placement sees it. It is immutable: a change is a new Node.
type Node struct {
	Name          string
	Labels        map[string]string
	Taints        []Taint
	Unschedulable bool
	// Allocatable is what pods may request in sum; GPUs are not in it, they are in GPU.
	Allocatable []resource.Quantity
	GPU         topology.Shape
	// Images that the node has, sorted by name.
	Images []Image
	// Features that the node declares, sorted.
	Features []string
}

// Effect is what a taint does to pods that do not tolerate it.
type TaintEffect uint8

// The taint effects of Kubernetes.
const (
	NoSchedule TaintEffect = iota + 1
	PreferNoSchedule
	NoExecute
)

// Taint repels pods from a node.
type Taint struct {
	Key, Value string
	Effect     TaintEffect
}

// PodFacts is a pod as a door saw it.
type PodFacts struct {
	UID             UID
	Namespace, Name string
	// Created is in nanoseconds since the Unix epoch (or since the simulation began).
	Created  int64
	Priority int32
	// Ours: spec.schedulerName names this scheduler.
	Ours bool
	// Node is where the pod is bound; empty while it is not.
	Node string
	// Finished: phase Succeeded or Failed; it holds nothing any more.
	Finished bool
	// Deleting: it has a deletion timestamp; an unbound one needs no place.
	Deleting bool
	// Gated: it has scheduling gates and is not to be placed yet.
	Gated bool
	// Labels, sorted by key. The slice may be shared between pods.
	Labels []Label
	// Owner is the pod's controller, if it is one that default spreading looks at.
	Owner Owner
	// Started is when its node took it up (status.startTime), in nanoseconds as Created; 0 when that is not known.
	Started int64
	// NeverPreempts: preemptionPolicy Never.
	NeverPreempts bool
	// Nominated is the node that a preemption has promised to the pod (status.nominatedNodeName).
	Nominated string
	// Requirements is all that its placement depends on. It must not be nil.
	Requirements *Requirements
	// Grant is the GPUs that a bound pod was given, zero when nobody recorded them.
	Grant topology.Grant
	// Reported is the condition that the pod carries already.
	Reported Condition
	// Unit is the name of the pod's PodGroup, in its namespace; empty: the pod is a unit of its own. Subgroup is the part of it.
	Unit, Subgroup string
	// Deadline in nanoseconds is the most that the pod may run (spec.activeDeadlineSeconds); 0: for ever.
	Deadline int64
}

// Condition is a PodScheduled=False condition; the zero value is none.
type Condition struct{ Reason, Message string }
