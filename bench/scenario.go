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
	// Preempt: the nodes are full of pods of priority 0, PreemptVictims on each; a pod of PreemptorPriority fits once one of them has left.
	Preempt Case = "preempt"
	// Lent: as Basic, where all nodes lend half of what they have.
	Lent Case = "lent"
	// Reclaimed: as Lent; every other class asks for what is lent, and for nothing else.
	Reclaimed Case = "reclaimed"
	// Shared: nodes of 8 GPUs, and classes that ask for parts of one or for whole ones.
	Shared Case = "gpus"
	// Sizes: as Basic; each class asks for an amount of CPU of its own.
	Sizes Case = "sizes"
	// SizesOwned: as Sizes; each class is a ReplicaSet.
	SizesOwned Case = "sizes-owned"
	// Image: as Basic; all classes want one image of 600 MiB, which one node in 20 has.
	Image Case = "image"
	// Selectors: as Sizes; a class also selects one of 40 label keys, and wants one of 200 images.
	Selectors Case = "selectors"
	// Daemons: each class names one node, and has one pod.
	Daemons Case = "daemons"
	// Volumes: as Basic; each pod has a claim that is bound to a volume in one of the zones. NewVolumes: whose volume is made once the pod has a node.
	Volumes    Case = "volumes"
	NewVolumes Case = "volumes-new"
	// Devices: each pod has a claim for one device; all ask for enough CPU that nodes have a device for each that fits, nearly.
	Devices Case = "devices"
	// Mixed: the classes take turns to be Owned, Spread, AntiAffinity and Affinity.
	Mixed Case = "mixed"
)

// What Image and Selectors are about: each node has one of the keys, and one in imageNodes has an image.
const (
	selectorKeys = 40
	images       = 200
	imageNodes   = 20
	ImageSize    = 600 << 20 // bytes
)

// What Preempt is about.
const (
	PreemptVictims          = 4
	PreemptorPriority int32 = 100
)

// Scenario describes a cluster and its workloads. The same Scenario gives the same cluster everywhere.
type Scenario struct {
	Nodes   int
	Classes int
	Case    Case
	// Fill is the share of the cluster's CPU, in percent, that pods hold while the row runs. Preempt fills the nodes whatever it says.
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
	// Lends: half of its CPU and memory may be held by reclaimed pods.
	Lends bool
	GPUs  int
	// Images that it has, of ImageSize each.
	Images []string
	// Tainted: NoSchedule for the pods of other classes; Shunned: PreferNoSchedule.
	Tainted, Shunned bool
}

// Class is a workload; its pods are alike.
type Class struct {
	Name   string
	CPU    int64 // millicores
	Memory int64 // bytes
	// GPU in thousandths: less than 1000 is a part of one.
	GPU int64
	// Pool that its nodes must be in; empty: any.
	Pool string
	// Key is a label that its nodes must have, Image is what its containers run, and Node is the only node that it may go to; empty: any.
	Key, Image, Node string
	// Tolerates the taint.
	Tolerates bool
	// Reclaimed: it asks for its CPU and memory of what nodes lend.
	Reclaimed bool
	// Constraint is one of Owned, Spread, AntiAffinity, Affinity, or empty.
	Constraint Case
}

// shapes are machines of the openb trace: millicores, GiB, and how many of a hundred are such.
var shapes = []struct{ cpu, memory, share int64 }{
	{64000, 256, 8}, {96000, 384, 35}, {96000, 768, 12}, {104000, 512, 10}, {128000, 768, 15}, {128000, 1024, 10}, {32000, 128, 10},
}

// small is the machine of Batch and Preempt, where it matters how many pods fit.
var small = shapes[len(shapes)-1]

// sizes are the 60 commonest requests of the openb trace (99 in a hundred of its tasks): millicores, MiB, and how many tasks ask for it.
// Workloads are many but ask for round numbers, so a scheduler may gain from sizes that repeat; it should not be measured on fewer.
var sizes = []struct{ cpu, memory, tasks int64 }{
	{3152, 5600, 1592},
	{11300, 49152, 857},
	{11908, 47104, 778},
	{8000, 30517, 649},
	{11400, 48128, 534},
	{12500, 57344, 364},
	{32000, 49152, 284},
	{18708, 64512, 255},
	{9810, 41560, 195},
	{4000, 22888, 189},
	{4000, 15258, 182},
	{12000, 24576, 162},
	{15700, 58368, 158},
	{4152, 10600, 152},
	{4000, 30517, 136},
	{15400, 51200, 120},
	{16000, 32768, 110},
	{8000, 16384, 106},
	{4000, 24576, 104},
	{12000, 16384, 99},
	{16500, 51200, 95},
	{14200, 58368, 93},
	{24200, 93184, 84},
	{11400, 77824, 65},
	{8000, 32768, 55},
	{6000, 6144, 51},
	{11900, 77824, 51},
	{12000, 15360, 44},
	{8200, 33792, 41},
	{4000, 31250, 40},
	{15200, 80896, 36},
	{16000, 65536, 34},
	{6000, 12288, 29},
	{6000, 22888, 28},
	{16400, 125952, 27},
	{1000, 2048, 26},
	{88000, 327680, 18},
	{6000, 18432, 18},
	{64200, 263168, 18},
	{11300, 37888, 16},
	{1000, 6144, 15},
	{8000, 15625, 12},
	{7000, 30000, 11},
	{11400, 57344, 11},
	{16000, 31250, 11},
	{6000, 8192, 10},
	{32200, 132096, 9},
	{15400, 90112, 9},
	{4000, 16384, 8},
	{12000, 32768, 8},
	{12000, 47104, 8},
	{6000, 16384, 8},
	{14900, 73728, 8},
	{16200, 66560, 7},
	{12000, 18432, 6},
	{6000, 23552, 6},
	{6000, 32768, 6},
	{9400, 52224, 6},
	{2000, 8192, 5},
	{4000, 32768, 5},
}

// parts are what classes of Shared ask for, in thousandths of a GPU; each whole one with as much CPU as a node has beside one.
var parts = []int64{190, 810, 500, 1000, 260, 330, 1000, 460, 530, 2000, 100, 650, 4000, 740, 1000, 8000}

func nodeName(i int) string { return fmt.Sprintf("node-%06d", i) }

// ZoneName is the zone of the i-th of anything that lies in zones.
func ZoneName(i int) string { return fmt.Sprintf("zone-%c", 'a'+i%3) }

// shared makes the class one of those that ask for GPUs.
func (c *Class) shared(i int, random *rand.Rand) {
	c.GPU = parts[i%len(parts)]
	c.CPU = c.GPU * (5 + random.Int64N(6))
	c.Memory = c.CPU << 20
	c.Pool, c.Tolerates = "", true
}

// drawSize returns a request with the probability that it has in the trace.
func drawSize(random *rand.Rand) (cpu, memory int64) {
	var all int64
	for i := range sizes {
		all += sizes[i].tasks
	}
	pick := random.Int64N(all)
	for i := range sizes {
		if pick -= sizes[i].tasks; pick < 0 {
			return sizes[i].cpu, sizes[i].memory << 20
		}
	}
	return sizes[0].cpu, sizes[0].memory << 20
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
		if s.Case == Batch || s.Case == Preempt {
			shape = small
		}
		name := nodeName(i)
		gpus := 0
		if s.Case == Shared {
			gpus, shape = 8, shapes[1]
		}
		nodes[i] = Node{
			Name: name, GPUs: gpus,
			Labels: map[string]string{
				LabelHostname: name, LabelZone: ZoneName(i), LabelPool: fmt.Sprintf("pool-%d", random.IntN(4)),
			},
			CPU:     shape.cpu - 50*random.Int64N(40), // what the system keeps for itself differs
			Memory:  shape.memory<<30 - random.Int64N(4096)<<20,
			Pods:    250,
			Tainted: random.IntN(20) == 0,
			Shunned: random.IntN(10) == 0,
			Lends:   s.Case == Lent || s.Case == Reclaimed,
		}
		s.addOddities(&nodes[i], i)
	}
	return nodes
}

// addOddities gives a machine the labels and images that pods of a case ask for.
func (s *Scenario) addOddities(n *Node, i int) {
	if s.Case != Image && s.Case != Selectors {
		return
	}
	n.Labels[s.selectorKey(i)] = "1"
	if i%imageNodes == 0 {
		n.Images = []string{imageName(0)}
		if other := i / imageNodes % images; other != 0 {
			n.Images = append(n.Images, imageName(other))
		}
	}
}

// selectorKey is one of as many keys that each stands on several nodes.
func (s *Scenario) selectorKey(i int) string {
	const nodesPerKey = 10
	return fmt.Sprint("key-", i%min(selectorKeys, 1+s.Nodes/nodesPerKey))
}

func imageName(i int) string { return fmt.Sprintf("example.com/image-%d:1", i%images) }

// GenerateClasses returns the workloads.
func (s *Scenario) GenerateClasses() []Class {
	random := rand.New(rand.NewPCG(s.Seed, 2))
	constraints := []Case{Owned, Spread, AntiAffinity, Affinity}
	classes := make([]Class, s.Classes)
	for i := range classes {
		c := &classes[i]
		c.Name = fmt.Sprintf("class-%d", i)
		c.CPU, c.Memory = drawSize(random)
		if random.IntN(4) == 0 && i > 0 { // one that all nodes are for, whatever the seed
			c.Pool = fmt.Sprintf("pool-%d", random.IntN(4))
		}
		c.Tolerates = random.IntN(4) == 0
		switch s.Case {
		case Mixed:
			c.Constraint = constraints[i%len(constraints)]
		case Owned, Spread, AntiAffinity, Affinity:
			c.Constraint = s.Case
		case Batch:
			c.CPU, c.Memory, c.Pool = 30000, 1<<30, ""
		case Preempt: // any node, the tainted too
			c.CPU, c.Memory, c.Pool, c.Tolerates = 7500, 1<<30, "", true
		case Shared:
			c.shared(i, random)
		case Reclaimed:
			c.Reclaimed = i%2 == 1
		case Sizes, SizesOwned, Selectors:
			c.CPU += int64(i)
			if s.Case == SizesOwned {
				c.Constraint = Owned
			}
			if s.Case == Selectors {
				c.Key, c.Image, c.Pool = s.selectorKey(i), imageName(i), ""
			}
		case Image:
			c.Image = imageName(0)
		case Daemons:
			c.Node, c.CPU, c.Memory, c.Pool, c.Tolerates = nodeName(i%s.Nodes), 100, 100<<20, "", true
		case Devices:
			c.CPU = 12_000 + 500*int64(i%8)
		case Basic, Lent, Volumes, NewVolumes:
		}
	}
	return classes
}

// Order returns which class each of the next pods belongs to: as many pods as fill the cluster to Fill, or full for Preempt, in a seeded
// order.
func (s *Scenario) Order(nodes []Node, classes []Class) []int {
	var capacity int64
	for i := range nodes {
		capacity += nodes[i].CPU
	}
	random := rand.New(rand.NewPCG(s.Seed, 3))
	var order []int
	full := func(held int64) bool { return held >= capacity*int64(s.Fill)/100 }
	if s.Case == Preempt {
		full = func(int64) bool { return len(order) == PreemptVictims*len(nodes) }
	}
	if s.Case == Daemons {
		full = func(int64) bool { return len(order) == len(classes) }
	}
	for held := int64(0); !full(held); {
		class := random.IntN(len(classes))
		if s.Case == Daemons {
			class = len(order)
		}
		order = append(order, class)
		held += classes[class].CPU
	}
	return order
}
