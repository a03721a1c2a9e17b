package facts

// Event is something that a door saw. The Store keeps what an Event points to, so the sender must not change it afterwards.
type Event interface{ event() }

// CaughtUp: the events before it say all that had been agreed on when somebody asked for it. Failure, if there is one, is why that could not be found out. It changes nothing.
type CaughtUp struct{ Failure string }

// NodeUpserted: a node exists with these properties.
type NodeUpserted struct{ Node *Node }

// NodeRemoved: a node exists no more. Pods bound to it stay known, uncharged, until they are removed or the node is back.
type NodeRemoved struct{ Name string }

// PodUpserted: a pod exists with these properties.
type PodUpserted struct{ Pod Pod }

// PodRemoved: a pod exists no more.
type PodRemoved struct{ UID UID }

// NodesListed is the complete, consistent set of nodes: those not in it are removed.
type NodesListed struct{ Nodes []*Node }

// PodsListed is the complete, consistent set of pods that have not finished: others that were known so are removed.
type PodsListed struct{ Pods []Pod }

// FinishedListed is the complete, consistent set of the finished pods that are members of units (see FinishedMember). Finished pods are listed and watched
// apart from the others: PodsListed says nothing of them.
type FinishedListed struct{ Pods []Pod }

// NodeReported: a node's agent says this of it. The node need not be known yet.
type NodeReported struct {
	Node   string
	Report *NodeReport
}

// NodeReportRemoved: nothing is said of the node any more.
type NodeReportRemoved struct{ Node string }

// ReportsListed is the complete, consistent set of reports: those not in it are removed.
type ReportsListed struct{ Reports []NodeReported }

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
type UnitUpserted struct{ Unit *Unit }

// UnitRemoved: it exists no more.
type UnitRemoved struct{ Name UnitName }

// UnitsListed is the complete, consistent set of PodGroups.
type UnitsListed struct{ Units []*Unit }

// QueueUpserted: a queue is configured so.
type QueueUpserted struct{ Queue *Queue }

// QueueRemoved: it is configured no more.
type QueueRemoved struct{ Name string }

// QueuesListed is the complete, consistent set of queues.
type QueuesListed struct{ Queues []*Queue }

// StorageUpserted: an object exists that decides where volumes can be used.
type StorageUpserted struct{ Object StorageObject }

// StorageRemoved: it exists no more.
type StorageRemoved struct{ Name StorageName }

// StorageListed is the complete, consistent set of the storage objects of one kind.
type StorageListed struct {
	Kind    StorageKind
	Objects []StorageObject
}

// DRAUpserted: an object of dynamic resource allocation exists.
type DRAUpserted struct{ Object DRAObject }

// DRARemoved: it exists no more.
type DRARemoved struct{ Name DRAName }

// DRAListed is the complete, consistent set of the DRA objects of one kind.
type DRAListed struct {
	Kind    DRAKind
	Objects []DRAObject
}

func (StorageUpserted) event() {}

func (StorageRemoved) event() {}

func (StorageListed) event() {}

func (NodeUpserted) event() {}

func (NodeRemoved) event() {}

func (PodUpserted) event() {}

func (PodRemoved) event() {}

func (NodesListed) event() {}

func (PodsListed) event() {}

func (FinishedListed) event() {}

func (NodeReported) event() {}

func (NodeReportRemoved) event() {}

func (ReportsListed) event() {}

func (NamespaceUpserted) event() {}

func (NamespaceRemoved) event() {}

func (NamespacesListed) event() {}

func (WorkloadUpserted) event() {}

func (WorkloadRemoved) event() {}

func (WorkloadsListed) event() {}

func (BudgetUpserted) event() {}

func (BudgetRemoved) event() {}

func (BudgetsListed) event() {}

func (UnitUpserted) event() {}

func (UnitRemoved) event() {}

func (UnitsListed) event() {}

func (QueueUpserted) event() {}

func (QueueRemoved) event() {}

func (QueuesListed) event() {}

func (DRAUpserted) event() {}

func (DRARemoved) event() {}

func (DRAListed) event() {}

func (CaughtUp) event() {}
