package trace

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

// Synthetic says what to invent. Its text form is "nodes=20000,pods=200000,classes=16" with optional load, in percent, minutes, constraints=1,
// queues, gangs, in percent of the pods, and gangsize.
//
// Nodes have the shapes of openb's, each a little less than whole, spread over three zones; one in twenty is tainted for batch work.
// Pods come in bursts of up to 64 of one class over the given time. The classes take turns in kind (see kinds): online services that stay,
// offline jobs that end, parts of GPUs, whole GPUs of a model, several GPUs, selectors of a zone, tolerations, preferences, host ports.
// CPU requests are scaled so that all the pods that are there at once ask for load percent of the cluster's CPU, up to 16 cores a pod.
//
// With constraints there are eight kinds more, with constraints between pods (see tiedKinds); pods then have labels, nodes a hostname, and
// one node in eight has no zone.
//
// With queues there is a tree of them in up to three levels, each fed by a namespace, and with gangs so many percent of the pods are
// members of PodGroups of up to gangsize (see tenancy). Both leave the rest of the workload as it is without them.
//
// With numa, nodes have so many NUMA nodes, whose agents report them, except on a few nodes; so many percent of the pods are then dedicated.
// With devices, which need numa, the agents of so many percent of the nodes with GPUs give these out, in slices too, and beside network cards.
// With owners, of so many percent of these nodes the agents say that somebody else gives the GPUs out, and more pods ask for whole GPUs.
//
// With reclaimed the agents lend, and so many permille of the other pods ask for that.
//
// With claims, so many percent of the pods have a PersistentVolumeClaim that waits for the first consumer; nodes have a volume each.
//
// With reservations there are so many, each for some of the pods to come (see reserve).
//
// With sizes, selectors, images, daemonsets and odd the pods differ as they do in real clusters (see vary).
type Synthetic struct {
	Nodes, Pods, Classes int
	Load                 int // percent of the CPU, default 90
	Minutes              int // over which pods arrive, default 60
	Constraints          int // 1: with constraints between pods
	Queues               int // default 0: there are none
	Gangs                int // percent of the pods that are members of gangs, default 0
	GangSize             int // the largest gang, default 8
	NUMANodes            int // NUMA nodes of a node, default 0: no agent reports any
	Dedicated            int // percent of the pods that ask for cores of their own, default 0
	Bound                int // percent of the others that share the CPUs of their NUMA nodes, default 0
	Devices              int // percent of the nodes with GPUs whose agents give these out, default 0
	Owners               int // percent of those whose GPUs are a device plugin's or nobody's, default 0
	Reclaimed            int // permille of the pods that run on what nodes lend, default 0: none lends
	Sizes                int // of how many sizes the pods of a class are, default 0: of one
	Selectors            int // how many node labels half of the pods select one of, default 0
	Images               int // how many images the pods have one of, default 0: none
	DaemonSets           int // how many there are, of a pod for each node, default 0
	Odd                  int // how many odd pods there are, default 0
	Claims               int // percent of the pods that have a PersistentVolumeClaim, default 0: there is no storage
	Reservations         int // how many keep room for pods to come, default 0
}

// SyntheticForm is the text form, as it is told to users.
const SyntheticForm = "nodes=N,pods=N,classes=N[,load=PERCENT][,minutes=N][,constraints=1][,queues=N][,gangs=PERCENT][,gangsize=N]" +
	"[,numa=N][,dedicated=PERCENT][,bound=PERCENT][,devices=PERCENT][,owners=PERCENT][,reclaimed=PERMILLE]" +
	"[,sizes=N][,selectors=N][,images=N][,daemonsets=N][,odd=N][,claims=PERCENT][,reservations=N]"

// Bounds of a Synthetic.
const (
	MaxSyntheticNodes   = 1_000_000
	MaxSyntheticPods    = MaxRecords
	MaxSyntheticClasses = 4096
	maxLoad             = 1000
	maxMinutes          = 366 * 24 * 60
	maxQueues           = 10_000
	maxGangSize         = 4096
	usualGangSize       = 8
	maxVariety          = 100_000
)

// LabelZone is the well-known label of a node's zone.
const LabelZone = "topology.kubernetes.io/zone"

// taintBatch keeps all but batch classes off a node.
var taintBatch = facts.Taint{Key: "hilbert.dev/batch", Value: "only", Effect: facts.NoSchedule}

// ParseSynthetic reads the text form.
func ParseSynthetic(text string) (Synthetic, error) {
	s := Synthetic{Load: 90, Minutes: 60, GangSize: usualGangSize}
	fields := map[string]struct {
		value *int
		max   int
	}{
		"nodes": {&s.Nodes, MaxSyntheticNodes}, "pods": {&s.Pods, MaxSyntheticPods}, "classes": {&s.Classes, MaxSyntheticClasses},
		"load": {&s.Load, maxLoad}, "minutes": {&s.Minutes, maxMinutes}, "constraints": {&s.Constraints, 1},
		"queues": {&s.Queues, maxQueues}, "gangs": {&s.Gangs, 100}, "gangsize": {&s.GangSize, maxGangSize},
		"numa": {&s.NUMANodes, topology.MaxNUMANodes}, "dedicated": {&s.Dedicated, 100}, "bound": {&s.Bound, 100}, "devices": {&s.Devices, 100},
		"owners": {&s.Owners, 100}, "reclaimed": {&s.Reclaimed, 1000},
		"sizes": {&s.Sizes, maxVariety}, "selectors": {&s.Selectors, maxVariety}, "images": {&s.Images, maxVariety},
		"daemonsets": {&s.DaemonSets, maxVariety}, "odd": {&s.Odd, maxVariety},
		"claims": {&s.Claims, 100}, "reservations": {&s.Reservations, maxVariety},
	}
	seen := make(map[string]bool)
	for part := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(part, "=")
		key = strings.TrimSpace(key)
		field, ok := fields[key]
		switch {
		case !ok:
			return s, fmt.Errorf("synthetic %s: %q is not known; write for example nodes=1000,pods=10000,classes=16", quote(text), key)
		case seen[key]:
			return s, fmt.Errorf("synthetic %s: %s stands twice", quote(text), key)
		}
		seen[key] = true
		n, err := strconv.Atoi(strings.TrimSpace(value))
		if err != nil || n < 1 || n > field.max {
			return s, fmt.Errorf("synthetic %s: %s: want a whole number from 1 to %d, found %s", quote(text), key, field.max, quote(value))
		}
		*field.value = n
	}
	for _, key := range []string{"nodes", "pods", "classes"} {
		if !seen[key] {
			return s, fmt.Errorf("synthetic %s: %s is missing", quote(text), key)
		}
	}
	return s, nil
}

// String is the text form, complete.
func (s Synthetic) String() string {
	var text strings.Builder
	text.WriteString(s.basicText())
	for _, part := range []struct {
		key   string
		value int
	}{
		{"numa", s.NUMANodes},
		{"dedicated", s.Dedicated},
		{"bound", s.Bound},
		{"devices", s.Devices},
		{"owners", s.Owners},
		{"reclaimed", s.Reclaimed},
		{"sizes", s.Sizes},
		{"selectors", s.Selectors},
		{"images", s.Images},
		{"daemonsets", s.DaemonSets},
		{"odd", s.Odd},
		{"claims", s.Claims},
		{"reservations", s.Reservations},
	} {
		if part.value > 0 {
			fmt.Fprintf(&text, ",%s=%d", part.key, part.value)
		}
	}
	return text.String()
}

func (s Synthetic) basicText() string {
	text := fmt.Sprintf("nodes=%d,pods=%d,classes=%d,load=%d,minutes=%d", s.Nodes, s.Pods, s.Classes, s.Load, s.Minutes)
	if s.Constraints > 0 {
		text += ",constraints=1"
	}
	if s.Queues > 0 {
		text += fmt.Sprintf(",queues=%d", s.Queues)
	}
	if s.Gangs > 0 {
		text += fmt.Sprintf(",gangs=%d,gangsize=%d", s.Gangs, s.GangSize)
	}
	return text
}

// Generate invents the workload. Equal seeds give equal ones on any machine: only integers decide.
func (s Synthetic) Generate(seed uint64) *Workload {
	random := rand.New(rand.NewPCG(seed, streamSynthetic))
	w := &Workload{Name: "synthetic " + s.String(), Nodes: s.nodes(random)}
	classes := s.classes(random)
	s.size(classes, w.Capacity())
	w.Tasks = s.tasks(classes, random)
	if s.Constraints > 0 {
		w.tie(classes)
	}
	if s.Queues+s.Gangs > 0 {
		s.tenancy(w, rand.New(rand.NewPCG(seed, streamTenants)))
	}
	if s.NUMANodes+s.Dedicated > 0 {
		random := rand.New(rand.NewPCG(seed, streamNUMA))
		if s.NUMANodes > 0 {
			s.divide(w, random)
		}
		s.dedicate(w, random)
	}
	if s.Bound > 0 {
		s.bind(w, rand.New(rand.NewPCG(seed, streamBound)))
	}
	if s.Devices > 0 {
		random := rand.New(rand.NewPCG(seed, streamDevices))
		s.equip(w, random)
		s.specify(w, random)
	}
	if s.Owners > 0 {
		random := rand.New(rand.NewPCG(seed, streamOwners))
		s.disown(w, random)
		s.wholly(w, random)
	}
	if s.Reclaimed > 0 {
		random := rand.New(rand.NewPCG(seed, streamLending))
		s.lend(w, random)
		s.reclaim(w, random)
	}
	if s.Sizes+s.Selectors+s.Images+s.DaemonSets+s.Odd > 0 {
		s.vary(w, rand.New(rand.NewPCG(seed, streamVariety)))
	}
	if s.Claims > 0 {
		s.claim(w, rand.New(rand.NewPCG(seed, streamClaims)))
	}
	if s.Reservations > 0 {
		s.reserve(w, rand.New(rand.NewPCG(seed, streamReservations)))
	}
	return w
}

// machine is a node shape, with its weight among 100.
type machine struct {
	weight, cores, gib int
	gpus               int
	model              string
}

func machines() []machine {
	return []machine{
		{36, 96, 384, 8, "G2"},
		{25, 104, 512, 2, "T4"},
		{9, 32, 256, 0, ""},
		{8, 16, 120, 2, "P100"},
		{7, 96, 512, 0, ""},
		{4, 64, 512, 0, ""},
		{4, 128, 768, 8, "G3"},
		{3, 32, 128, 4, "V100M16"},
		{2, 96, 768, 8, "V100M32"},
		{2, 96, 384, 4, "T4"},
	}
}

const (
	zones        = 3
	batchOneIn   = 20 // nodes
	podsPerShape = 250
)

func zoneName(i int) string { return "zone-" + string(rune('a'+i)) }

func (s Synthetic) nodes(random *rand.Rand) []*facts.Node {
	type kind struct{ machine, zone int }
	labels := make(map[kind]map[string]string) // nodes share them
	shapes := machines()
	nodes := make([]*facts.Node, s.Nodes)
	for i := range nodes {
		k := kind{pick(random.IntN(100), len(shapes), func(i int) int { return shapes[i].weight }), i % zones}
		m := shapes[k.machine]
		if labels[k] == nil {
			labels[k] = map[string]string{LabelZone: zoneName(k.zone)}
			if m.gpus > 0 {
				labels[k][spec.LabelGPUModel] = m.model
			}
		}
		n := &facts.Node{Name: fmt.Sprintf("node-%06d", i), Labels: labels[k]}
		n.Allocatable = []resource.Quantity{ // what the system keeps differs from node to node
			{Name: resource.NameCPU, Amount: int64(m.cores*1000 - 250*random.IntN(4))},
			{Name: resource.NameMemory, Amount: int64(m.gib)<<30 - int64(random.IntN(8))<<29},
			{Name: resource.NamePods, Amount: podsPerShape},
		}
		if m.gpus > 0 {
			n.GPU = topology.Shape{GPUs: m.gpus, Model: m.model, Shareable: true}
		} else if random.IntN(batchOneIn*24/100) == 0 { // about a quarter of the nodes have no GPU
			n.Taints = []facts.Taint{taintBatch}
		}
		nodes[i] = n
	}
	return nodes
}

// pick returns the first index at which the running sum of weights exceeds n, the last one at most.
func pick(n, count int, weight func(int) int) int {
	for i := range count - 1 {
		if n -= weight(i); n < 0 {
			return i
		}
	}
	return count - 1
}

// kind is what a class is like, with its weight among the pods.
type kind struct {
	name         string
	weight       int
	offline      bool
	gpus         int // whole ones
	milli        int
	model        string
	zone, batch  bool // selects a zone; tolerates and prefers batch nodes
	memory, port int  // GiB per core; a host port
	tie          func(r *facts.Requirements, peers func(kind string) facts.PodSelector)
}

func kinds() []kind {
	return []kind{
		{name: "web", weight: 300, memory: 2},
		{name: "batch", weight: 250, offline: true, memory: 2, batch: true},
		{name: "part-gpu", weight: 150, milli: 200, memory: 4},
		{name: "train", weight: 100, offline: true, gpus: 1, memory: 4, model: "G2"},
		{name: "zonal", weight: 100, zone: true, memory: 4},
		{name: "cache", weight: 50, memory: 8},
		{name: "big-train", weight: 20, offline: true, gpus: 2, memory: 4},
		{name: "edge", weight: 30, memory: 1, port: 8000},
	}
}

// class is a kind with its numbers.
type class struct {
	kind
	name         string
	round        int   // of the kinds' taking turns
	units        int64 // CPU relative to other classes
	requirements *facts.Requirements
}

// gpuPodsPerNode is up to how many pods a node the weights of GPU kinds hold; with more they shrink, or most of them would only wait.
const gpuPodsPerNode = 10

func (s Synthetic) classes(random *rand.Rand) []class {
	all := kinds()
	if s.Constraints > 0 {
		all = append(all, tiedKinds()...)
	}
	classes := make([]class, s.Classes)
	for i := range classes {
		c := &classes[i]
		c.kind = all[i%len(all)]
		c.name, c.round = fmt.Sprintf("%s-%d", c.kind.name, i), i/len(all)
		c.weight *= 100
		if (c.gpus > 0 || c.milli > 0) && s.Pods > gpuPodsPerNode*s.Nodes {
			c.weight = max(1, c.weight*gpuPodsPerNode*s.Nodes/s.Pods)
		}
		c.units = int64(1 + random.IntN(8))
		if c.milli > 0 {
			c.milli += 50 * random.IntN(12)
		}
		if c.gpus > 1 {
			c.gpus <<= random.IntN(3) // 2, 4 or 8
		}
		if c.port > 0 {
			c.port += i
		}
		c.requirements = c.constraints(i)
	}
	return classes
}

// constraints returns the requirements without CPU and memory, which depend on all classes together.
func (c *class) constraints(i int) *facts.Requirements {
	r := &facts.Requirements{GPU: topology.Request{Milli: int16(c.milli), Whole: int8(c.gpus)}}
	if c.model != "" {
		r.Required = onModels([]string{c.model})
	}
	if c.zone {
		r.NodeSelector = []facts.Label{{Key: LabelZone, Value: zoneName(i / 8 % zones)}}
	}
	if c.batch {
		r.Tolerations = []facts.Toleration{{Key: taintBatch.Key, Value: taintBatch.Value, Effect: taintBatch.Effect}}
		r.Preferred = []facts.WeightedTerm{{Weight: 10, Term: facts.Term{
			Expressions: []facts.Requirement{{Key: spec.LabelGPUModel, Operator: facts.DoesNotExist}},
		}}}
	}
	if c.port > 0 {
		r.Ports = []facts.HostPort{{Protocol: "TCP", IP: facts.AnyIP, Port: int32(c.port)}}
	}
	return r
}

// Lifetimes of offline pods, uniform between these.
const (
	shortestLife = int64(time.Minute)
	longestLife  = int64(20 * time.Minute)
)

// largestCPU, in millicores, is what every shape of node has room for. With few pods a node the load stays below what was asked for.
const largestCPU = 16_000

// size fills in CPU and memory: units become millicores such that what is there at the end asks for Load percent of the CPU.
func (s Synthetic) size(classes []class, capacity Capacity) {
	span := int64(s.Minutes) * int64(time.Minute)
	var weights, units int64
	for i := range classes {
		c := &classes[i]
		weights += int64(c.weight)
		present := int64(1000) // of a thousand pods, how many are there at the end
		if c.offline {
			present = min(present, 1000*((shortestLife+longestLife)/2)/span)
		}
		units += int64(c.weight) * c.units * present
	}
	// CPU of one unit, in millicores: capacity × load / (pods × units of an average pod).
	high, low := bits.Mul64(uint64(capacity.CPU)*uint64(s.Load)*10, uint64(weights))
	unit := int64(1)
	if divisor := uint64(s.Pods) * uint64(max(units, 1)); high < divisor {
		quotient, _ := bits.Div64(high, low, divisor)
		unit = int64(min(quotient, maxMilliCPU))
	}
	for i := range classes {
		c := &classes[i]
		cpu := min(max(50, unit*c.units/50*50), largestCPU)
		c.requirements.Requests = requests(cpu, cpu*int64(c.memory)*(1<<30)/1000>>20<<20)
		scored(c.requirements)
	}
}

const maxBurst = 64

func (s Synthetic) tasks(classes []class, random *rand.Rand) []Task {
	total := 0
	for i := range classes {
		total += classes[i].weight
	}
	tasks := make([]Task, 0, s.Pods)
	span := int64(s.Minutes) * int64(time.Minute)
	for made := 0; made < s.Pods; {
		c := &classes[pick(random.IntN(total), len(classes), func(i int) int { return classes[i].weight })]
		burst := min(1<<random.IntN(7), maxBurst, s.Pods-made)
		// The middle of the burst's share of the time, so that arrivals spread evenly whatever the bursts are.
		at := span / int64(s.Pods) * int64(made)
		for range burst {
			task := Task{
				Name: fmt.Sprintf("%s-%07d", c.name, made), Requirements: c.requirements, Created: at, Deleted: Never,
				Priority: priorityOnline, Group: c.name,
			}
			if c.offline {
				task.Priority = priorityOffline
				task.Deleted = at + shortestLife + random.Int64N(longestLife-shortestLife)
			}
			tasks = append(tasks, task)
			made++
		}
	}
	return tasks
}
