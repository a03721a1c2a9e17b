package bench

import (
	"fmt"
	"math/rand/v2"
)

// The labels and taints of a Scenario's nodes.
const (
	LabelHostname = "kubernetes.io/hostname"
	LabelZone     = "topology.kubernetes.io/zone"
	LabelPool     = "pool"
	LabelApp      = "app"
	TaintKey      = "dedicated"
)

// Case is what the pods of a Scenario ask for beyond resources.
type Case string

// The cases.
const (
	// Basic: requests, selectors and tolerations.
	Basic Case = "basic"
	// Owned: as Basic; each class is a ReplicaSet, so the default soft spread over hosts and zones applies.
	Owned Case = "owned"
	// Spread: each class is spread over zones, required, with a skew of 1.
	Spread Case = "spread"
	// AntiAffinity: no two pods of a class on one host, required.
	AntiAffinity Case = "antiaffinity"
	// Affinity: pods of a class in a zone that has one already, required.
	Affinity Case = "affinity"
	// Batch: each pod fills a node.
	Batch Case = "batch"
	// Mixed: the classes take turns to be Owned, Spread, AntiAffinity and Affinity.
	Mixed Case = "mixed"
)

// Scenario describes a cluster and its workloads. The same Scenario gives the same cluster everywhere.
type Scenario struct {
	Nodes   int
	Classes int
	Case    Case
	// Fill is the share of the cluster's CPU, in percent, that pods hold while the row runs.
	Fill int
	Seed uint64
}

// Node is a machine.
type Node struct {
	Name   string
	Labels map[string]string
	CPU    int64 // millicores
	Memory int64 // bytes
	Pods   int64
	// Tainted: NoSchedule for the pods of other classes; Shunned: PreferNoSchedule.
	Tainted, Shunned bool
}

// Class is a workload; its pods are alike.
type Class struct {
	Name   string
	CPU    int64 // millicores
	Memory int64 // bytes
	// Pool that its nodes must be in; empty: any.
	Pool string
	// Tolerates the taint.
	Tolerates bool
	// Constraint is one of Owned, Spread, AntiAffinity, Affinity, or empty.
	Constraint Case
}

// shapes are machines of the openb trace: millicores, GiB, and how many of a hundred are such.
var shapes = []struct{ cpu, memory, share int64 }{
	{64000, 256, 8}, {96000, 384, 35}, {96000, 768, 12}, {104000, 512, 10}, {128000, 768, 15}, {128000, 1024, 10}, {32000, 128, 10},
}

// GenerateNodes returns the machines.
func (s *Scenario) GenerateNodes() []Node {
	random := rand.New(rand.NewPCG(s.Seed, 1))
	nodes := make([]Node, s.Nodes)
	for i := range nodes {
		pick := random.Int64N(100)
		shape := shapes[0]
		for _, candidate := range shapes {
			shape = candidate
			if pick -= candidate.share; pick < 0 {
				break
			}
		}
		name := fmt.Sprintf("node-%06d", i)
		nodes[i] = Node{
			Name: name,
			Labels: map[string]string{
				LabelHostname: name, LabelZone: fmt.Sprintf("zone-%c", 'a'+i%3), LabelPool: fmt.Sprintf("pool-%d", random.IntN(4)),
			},
			CPU:     shape.cpu - 50*random.Int64N(40), // what the system keeps for itself differs
			Memory:  shape.memory<<30 - random.Int64N(4096)<<20,
			Pods:    250,
			Tainted: random.IntN(20) == 0,
			Shunned: random.IntN(10) == 0,
		}
	}
	return nodes
}

// GenerateClasses returns the workloads.
func (s *Scenario) GenerateClasses() []Class {
	random := rand.New(rand.NewPCG(s.Seed, 2))
	constraints := []Case{Owned, Spread, AntiAffinity, Affinity}
	classes := make([]Class, s.Classes)
	for i := range classes {
		c := &classes[i]
		c.Name = fmt.Sprintf("class-%d", i)
		c.CPU = 250 + 50*random.Int64N(75)
		c.Memory = (512 + 128*random.Int64N(120)) << 20
		if random.IntN(4) == 0 {
			c.Pool = fmt.Sprintf("pool-%d", random.IntN(4))
		}
		c.Tolerates = random.IntN(4) == 0
		switch s.Case {
		case Mixed:
			c.Constraint = constraints[i%len(constraints)]
		case Owned, Spread, AntiAffinity, Affinity:
			c.Constraint = s.Case
		case Batch:
			c.CPU, c.Memory, c.Pool = 17000, 1<<30, ""
		case Basic:
		}
	}
	return classes
}

// Order returns which class each of the next pods belongs to: as many pods as fill the cluster to Fill, in a seeded order.
func (s *Scenario) Order(nodes []Node, classes []Class) []int {
	var capacity int64
	for i := range nodes {
		capacity += nodes[i].CPU
	}
	random := rand.New(rand.NewPCG(s.Seed, 3))
	var order []int
	for held := int64(0); held < capacity*int64(s.Fill)/100; {
		class := random.IntN(len(classes))
		order = append(order, class)
		held += classes[class].CPU
	}
	return order
}
