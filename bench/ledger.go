package bench

import (
	"fmt"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

// ClusterNode returns the machine in the ledger's vocabulary.
func (n *Node) ClusterNode() *cluster.Node {
	node := &cluster.Node{
		Name: n.Name, Labels: n.Labels,
		Allocatable: []resource.Quantity{
			{Name: resource.NameCPU, Amount: n.CPU}, {Name: resource.NameMemory, Amount: n.Memory}, {Name: resource.NamePods, Amount: n.Pods},
		},
	}
	if n.GPUs > 0 {
		node.GPU = topology.Shape{GPUs: n.GPUs, Model: "model", Shareable: true}
	}
	if n.Tainted {
		node.Taints = append(node.Taints, cluster.Taint{Key: TaintKey, Effect: cluster.NoSchedule})
	}
	if n.Shunned {
		node.Taints = append(node.Taints, cluster.Taint{Key: "shunned", Effect: cluster.PreferNoSchedule})
	}
	return node
}

// headroom is what a node that lends offers.
func (n *Node) headroom() cluster.Headroom {
	return cluster.Headroom{State: cluster.HeadroomOpen, MilliCPU: n.CPU / 2, Memory: n.Memory / 2}
}

// Namespace is where all pods are.
const Namespace = "bench"

// selector selects the pods of the class.
func (c *Class) selector() cluster.LabelSelector {
	return cluster.LabelSelector{Expressions: []cluster.Requirement{{Key: LabelApp, Operator: cluster.In, Values: []string{c.Name}}}}
}

// Facts returns a template of the class's pods in the ledger's vocabulary: UID and Created are left open.
func (c *Class) Facts() cluster.PodFacts {
	r := &cluster.Requirements{
		Requests: []resource.Quantity{{Name: resource.NameCPU, Amount: c.CPU}, {Name: resource.NameMemory, Amount: c.Memory}},
		ScoreCPU: c.CPU, ScoreMemory: c.Memory,
	}
	if c.Reclaimed {
		r = &cluster.Requirements{Reclaimed: true, Requests: []resource.Quantity{
			{Name: spec.ResourceReclaimedCPU, Amount: c.CPU}, {Name: spec.ResourceReclaimedMemory, Amount: c.Memory},
		}}
	} else if c.GPU > 0 {
		r.GPU = topology.Request{Milli: int16(c.GPU % topology.FullGPU), Whole: int8(c.GPU / topology.FullGPU)}
	}
	if c.Pool != "" {
		r.NodeSelector = []cluster.Label{{Key: LabelPool, Value: c.Pool}}
	}
	if c.Tolerates {
		r.Tolerations = []cluster.Toleration{{Key: TaintKey, Exists: true}}
	}
	facts := cluster.PodFacts{
		Namespace: Namespace, Ours: true, Requirements: r, Labels: []cluster.Label{{Key: LabelApp, Value: c.Name}},
	}
	pods := cluster.PodSelector{Namespaces: []string{Namespace}, Labels: c.selector()}
	switch c.Constraint {
	case Owned:
		facts.Owner = cluster.Owner{Kind: cluster.ReplicaSet, Name: c.Name}
	case Spread:
		r.Spread = []cluster.SpreadConstraint{{TopologyKey: LabelZone, MaxSkew: 1, Hard: true, MinDomains: 1, Pods: pods, HonorAffinity: true}}
	case AntiAffinity:
		r.AntiAffinity = []cluster.AffinityTerm{{TopologyKey: LabelHostname, Pods: pods}}
	case Affinity:
		r.Affinity = []cluster.AffinityTerm{{TopologyKey: LabelZone, Pods: pods}}
	case Basic, Batch, Preempt, Lent, Reclaimed, Shared, Mixed: // kinds of Scenario, not of Class
	}
	return facts
}

// Workload returns the owner of the class's pods in the ledger's vocabulary, nil when they have none.
func (c *Class) Workload() *cluster.Workload {
	if c.Constraint != Owned {
		return nil
	}
	return &cluster.Workload{Kind: cluster.ReplicaSet, Namespace: Namespace, Name: c.Name, Pods: c.selector()}
}

// NewStore returns a ledger with the nodes, the owners of the classes, and a pending pod for each entry of the order.
func NewStore(nodes []Node, classes []Class, order []int, defaults ...cluster.SpreadDefault) *cluster.Store {
	store := cluster.NewStore(defaults...)
	for i := range nodes {
		store.Apply(cluster.NodeUpserted{Node: nodes[i].ClusterNode()})
		if nodes[i].Lends {
			store.Apply(cluster.NodeReported{Node: nodes[i].Name, Report: &cluster.NodeReport{Headroom: nodes[i].headroom()}})
		}
	}
	templates := make([]cluster.PodFacts, len(classes))
	for i := range classes {
		templates[i] = classes[i].Facts()
		if workload := classes[i].Workload(); workload != nil {
			store.Apply(cluster.WorkloadUpserted{Workload: workload})
		}
	}
	for i, class := range order {
		facts := templates[class]
		facts.UID, facts.Created = PodUID(i), int64(i)
		store.Apply(cluster.PodUpserted{Pod: facts})
	}
	return store
}

// PodUID is the UID of the pod at a place in the order.
func PodUID(i int) cluster.UID { return cluster.UID(fmt.Sprintf("pod-%07d", i)) }

// DistinctStates counts the nodes that differ from all others in what is allocatable or requested.
func DistinctStates(store *cluster.Store) int {
	states := make(map[string]bool)
	for i := range store.Slots() {
		slot := cluster.Slot(i)
		var state []int64
		for kind := range store.Kinds() {
			state = append(state, store.Allocatable(slot, resource.Kind(kind)), store.Requested(slot, resource.Kind(kind)))
		}
		states[fmt.Sprint(state, store.Node(slot).Labels[LabelZone], store.Node(slot).Labels[LabelPool])] = true
	}
	return len(states)
}
