package inspect

import (
	"fmt"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/facts"
)

// NodeAnswer says what the scheduler makes of a node's report: what reclaimed pods may hold of it and why it is no more, which of them are to
// go, and what its NUMA nodes can promise. It depends on the Dump and on nothing else.
type NodeAnswer struct {
	Revision changes.Revision `json:"revision"`
	Node     string           `json:"node"`
	// Headroom is open, closed, stale, malformed or unsaid; Note says why.
	Headroom string `json:"headroom"`
	Note     string `json:"note,omitempty"`
	// Offered is what reclaimed pods may hold, those that run included; Requested is what they request.
	Offered   LentAmounts `json:"offered"`
	Requested LentAmounts `json:"requested"`
	// Said is what the report names, even where nothing of it is offered.
	Said LentAmounts `json:"said"`
	// ReclaimedPods are on the node, or on their way there.
	ReclaimedPods int `json:"reclaimedPods"`
	// EvictionRequests are the pods that the node wants evicted, the first most.
	EvictionRequests []NodeEvictionRequest `json:"evictionRequests,omitempty"`
	// Ruler is what manages the CPUs: agent, kubelet or none; Why says what is wrong with the report.
	Ruler     string         `json:"ruler"`
	Why       string         `json:"why,omitempty"`
	NUMANodes []NodeNUMANode `json:"numaNodes,omitempty"`
}

// LentAmounts is thousandths of a CPU, and bytes.
type LentAmounts struct {
	MilliCPU int64 `json:"milliCPU"`
	Memory   int64 `json:"memory"`
}

// NodeEvictionRequest is a pod that a node wants evicted.
type NodeEvictionRequest struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       facts.UID `json:"uid"`
	Reason    string    `json:"reason"`
	Message   string    `json:"message,omitempty"`
	Urgent    bool      `json:"urgent,omitempty"`
	// State is waiting (for the budget, or its turn), leaving, or refused: the pod is not there, or is not of the reclaimed level.
	State string `json:"state"`
}

// The states of a NodeEvictionRequest.
const (
	EvictionWaiting = "waiting"
	EvictionLeaving = "leaving"
	EvictionRefused = "refused"
)

// NodeNUMANode is a NUMA node of the node: CPUs, and memory in MiB, that pods may have for themselves, and what is left of them.
type NodeNUMANode struct {
	NUMANode int    `json:"numaNode"`
	CPUs     uint16 `json:"cpus"`
	FreeCPUs int32  `json:"freeCPUs"`
	Memory   uint32 `json:"memoryMiB"`
	FreeMiB  int64  `json:"freeMemoryMiB"`
	Closed   bool   `json:"closed,omitempty"`
}

// NoNode is the error about a node that the ledger does not have.
type NoNode struct{ Name string }

func (e *NoNode) Error() string { return fmt.Sprintf("the scheduler knows no node %q", e.Name) }

// ExplainNode answers for the node of that name. It makes a ledger of the dump, which costs about a second for 200,000 pods.
func (d *Dump) ExplainNode(name string) (*NodeAnswer, error) {
	store, err := cluster.Load(d.Ledger)
	if err != nil {
		return nil, fmt.Errorf("load the ledger: %w", err)
	}
	return d.ExplainNodeIn(store, name)
}

// ExplainNodeIn is ExplainNode for who has made a ledger of the dump already.
func (d *Dump) ExplainNodeIn(store *cluster.Store, name string) (*NodeAnswer, error) {
	slot := store.Slot(name)
	if slot == cluster.NoSlot {
		return nil, &NoNode{name}
	}
	h := store.Headroom(slot)
	a := &NodeAnswer{
		Revision: d.Ledger.Revision, Node: name, Headroom: h.State.String(), Note: h.Note, Said: LentAmounts{h.MilliCPU, h.Memory},
	}
	a.Offered.MilliCPU, a.Offered.Memory = h.Offered()
	for _, pod := range store.PodsOn(slot) {
		asks := pod.Class.Reclaims()
		a.Requested.MilliCPU, a.Requested.Memory = a.Requested.MilliCPU+asks[0].Value, a.Requested.Memory+asks[1].Value
		if pod.Class.Reclaimed {
			a.ReclaimedPods++
		}
	}
	for _, w := range store.EvictionRequests().On(name) {
		a.EvictionRequests = append(a.EvictionRequests, NodeEvictionRequest{w.Namespace, w.Name, w.UID, w.Reason, w.Message, w.Urgent, evictionRequestState(store.Pod(w.UID), name)})
	}
	shape, free := store.NUMANodes(slot)
	a.Ruler = shape.Ruler.String()
	if r := store.Report(slot); r != nil {
		a.Why = r.Why
	}
	for z := range int(shape.NUMANodes) {
		a.NUMANodes = append(a.NUMANodes, NodeNUMANode{z, shape.NUMANode[z].CPUs, int32(free[z].CPUs), shape.NUMANode[z].Memory, int64(free[z].Memory), shape.Closed&(1<<z) != 0})
	}
	return a, nil
}

func evictionRequestState(pod *cluster.Pod, node string) string {
	switch {
	case pod == nil || !pod.Class.Reclaimed || pod.Node() != node:
		return EvictionRefused
	case pod.Deleting || pod.Claimed():
		return EvictionLeaving
	}
	return EvictionWaiting
}
