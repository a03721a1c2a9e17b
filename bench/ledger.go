package bench

import (
	"fmt"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

// ClusterNode returns the machine in the ledger's vocabulary.
func (n *Node) ClusterNode() *facts.Node {
	node := &facts.Node{
		Name: n.Name, Labels: n.Labels,
		Allocatable: []resource.Quantity{
			{Name: resource.NameCPU, Amount: n.CPU}, {Name: resource.NameMemory, Amount: n.Memory}, {Name: resource.NamePods, Amount: n.Pods},
		},
	}
	if n.GPUs > 0 {
		node.GPU = topology.Shape{GPUs: n.GPUs, Model: "model", Shareable: true}
	}
	for _, name := range n.Images {
		node.Images = append(node.Images, facts.Image{Name: name, Size: ImageSize})
	}
	if n.Tainted {
		node.Taints = append(node.Taints, facts.Taint{Key: TaintKey, Effect: facts.NoSchedule})
	}
	if n.Shunned {
		node.Taints = append(node.Taints, facts.Taint{Key: "shunned", Effect: facts.PreferNoSchedule})
	}
	return node
}

// headroom is what a node that lends offers.
func (n *Node) headroom() facts.Headroom {
	return facts.Headroom{State: facts.HeadroomOpen, MilliCPU: n.CPU / 2, Memory: n.Memory / 2}
}

// Namespace is where all pods are.
const Namespace = "bench"

// selector selects the pods of the class.
func (c *Class) selector() facts.LabelSelector {
	return facts.LabelSelector{Expressions: []facts.Requirement{{Key: LabelApp, Operator: facts.In, Values: []string{c.Name}}}}
}

// Facts returns a template of the class's pods in the ledger's vocabulary: UID and Created are left open.
func (c *Class) Facts() facts.Pod {
	r := &facts.Requirements{
		Requests: []resource.Quantity{{Name: resource.NameCPU, Amount: c.CPU}, {Name: resource.NameMemory, Amount: c.Memory}},
		ScoreCPU: c.CPU, ScoreMemory: c.Memory,
	}
	if c.Reclaimed {
		r = &facts.Requirements{Reclaimed: true, Requests: []resource.Quantity{
			{Name: spec.ResourceReclaimedCPU, Amount: c.CPU}, {Name: spec.ResourceReclaimedMemory, Amount: c.Memory},
		}}
	} else if c.GPU > 0 {
		r.GPU = topology.Request{Milli: int16(c.GPU % topology.FullGPU), Whole: int8(c.GPU / topology.FullGPU)}
	}
	if c.Pool != "" {
		r.NodeSelector = []facts.Label{{Key: LabelPool, Value: c.Pool}}
	}
	if c.Key != "" {
		r.NodeSelector = append(r.NodeSelector, facts.Label{Key: c.Key, Value: "1"})
	}
	if c.Image != "" {
		r.Images = []string{c.Image}
	}
	if c.Node != "" {
		r.Required = []facts.Term{{Fields: []facts.Requirement{{Key: facts.FieldName, Operator: facts.In, Values: []string{c.Node}}}}}
	}
	if c.Tolerates {
		r.Tolerations = []facts.Toleration{{Key: TaintKey, Exists: true}}
	}
	seen := facts.Pod{
		Namespace: Namespace, Ours: true, Requirements: r, Labels: []facts.Label{{Key: LabelApp, Value: c.Name}},
	}
	pods := facts.PodSelector{Namespaces: []string{Namespace}, Labels: c.selector()}
	switch c.Constraint {
	case Owned:
		seen.Owner = facts.Owner{Kind: facts.ReplicaSet, Name: c.Name}
	case Spread:
		r.Spread = []facts.SpreadConstraint{{TopologyKey: LabelZone, MaxSkew: 1, Hard: true, MinDomains: 1, Pods: pods, HonorAffinity: true}}
	case AntiAffinity:
		r.AntiAffinity = []facts.AffinityTerm{{TopologyKey: LabelHostname, Pods: pods}}
	case Affinity:
		r.Affinity = []facts.AffinityTerm{{TopologyKey: LabelZone, Pods: pods}}
	case Basic, Batch, Preempt, Lent, Reclaimed, Shared, Mixed, Sizes, SizesOwned, Image, Selectors, Daemons, Volumes, NewVolumes, Devices: // kinds of Scenario, not of Class
	}
	return seen
}

// Workload returns the owner of the class's pods in the ledger's vocabulary, nil when they have none.
func (c *Class) Workload() *facts.Workload {
	if c.Constraint != Owned {
		return nil
	}
	return &facts.Workload{Kind: facts.ReplicaSet, Namespace: Namespace, Name: c.Name, Pods: c.selector()}
}

// NewStore returns a ledger with the nodes, the owners of the classes, and a pending pod for each entry of the order.
func NewStore(nodes []Node, classes []Class, order []int, defaults ...facts.SpreadDefault) *cluster.Store {
	store := cluster.NewStore(defaults...)
	for i := range nodes {
		store.Apply(facts.NodeUpserted{Node: nodes[i].ClusterNode()})
		if nodes[i].Lends {
			store.Apply(facts.NodeReported{Node: nodes[i].Name, Report: &facts.NodeReport{Headroom: nodes[i].headroom()}})
		}
	}
	templates := make([]facts.Pod, len(classes))
	for i := range classes {
		templates[i] = classes[i].Facts()
		if workload := classes[i].Workload(); workload != nil {
			store.Apply(facts.WorkloadUpserted{Workload: workload})
		}
	}
	for i, class := range order {
		seen := templates[class]
		seen.UID, seen.Created = PodUID(i), int64(i)
		store.Apply(facts.PodUpserted{Pod: seen})
	}
	return store
}

// PodUID is the UID of the pod at a place in the order.
func PodUID(i int) facts.UID { return facts.UID(fmt.Sprintf("pod-%07d", i)) }

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
