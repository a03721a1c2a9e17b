package conflicts

import (
	"fmt"
	"math/rand/v2"
	"strconv"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
)

// Labels of the nodes: the parts that they are in.
const (
	labelPartition = "conflicts.hilbert.dev/partition" // as many as schedulers
	labelStripe    = "conflicts.hilbert.dev/stripe"    // as many as alternatives
)

const (
	gib = int64(1) << 30
	// podsOfNode is how many pods a node may have, more than fit by their sizes.
	podsOfNode = 1000
	namespace  = "conflicts"
)

// machine is a kind of node.
type machine struct{ milliCPU, memory int64 }

// machines are the kinds, in equal parts.
var machines = []machine{{32_000, 128 * gib}, {64_000, 256 * gib}, {96_000, 512 * gib}}

// size is what pods of a kind ask for.
type size struct{ milliCPU, memory int64 }

// sizes are sixteen kinds of pods, small ones first. Two and four GiB for a CPU are as common as in clouds.
var sizes = func() (list []size) {
	for _, cpu := range []int64{500, 1000, 1500, 2000, 3000, 4000, 6000, 8000} {
		for _, ratio := range []int64{2, 4} {
			list = append(list, size{cpu, cpu * ratio * gib / 1000})
		}
	}
	return list
}()

// draw is a pod's size: each is half as likely as one of half its CPUs, as about in recorded clusters.
func draw(rng *rand.Rand) int {
	weights, sum := make([]float64, len(sizes)), 0.0
	for i, s := range sizes {
		weights[i] = 1 / float64(s.milliCPU)
		sum += weights[i]
	}
	at := rng.Float64() * sum
	for i, w := range weights {
		if at -= w; at < 0 {
			return i
		}
	}
	return len(sizes) - 1
}

// world is a cluster before the experiment: the same for all runs of a size and a seed.
type world struct {
	nodes   int
	running []facts.Pod // with their nodes
	waiting []int       // the sizes of pods, in their order
}

// newWorld draws the pods that wait, and fills nodes with other pods until only room for these is left, up to the part fill of the CPUs.
func newWorld(nodes, pods int, fill float64, seed uint64) *world {
	w := &world{nodes: nodes}
	rng := rand.New(rand.NewPCG(seed, uint64(nodes)))
	var asked int64
	for range pods {
		s := draw(rng)
		w.waiting = append(w.waiting, s)
		asked += sizes[s].milliCPU
	}
	var capacity int64
	for i := range nodes {
		capacity += machineOf(i).milliCPU
	}
	before := fill - float64(asked)/float64(capacity)
	for i := range nodes {
		w.fillNode(i, before, rng)
	}
	return w
}

// fillNode runs a pod or two on a node that take about a part of it. Nodes differ: some are fuller than others.
func (w *world) fillNode(i int, part float64, rng *rand.Rand) {
	m := machineOf(i)
	const unevenness = 0.15
	share := min(max(part+unevenness*(2*rng.Float64()-1), 0), 1)
	cpu := int64(share*float64(m.milliCPU)) / 500 * 500
	if cpu == 0 {
		return
	}
	memory := min(cpu*4*gib/1000, m.memory)
	w.running = append(w.running, pod(fmt.Sprintf("before-%d", i), size{cpu, memory}, nodeName(i)))
}

func machineOf(i int) machine { return machines[i%len(machines)] }

func nodeName(i int) string { return fmt.Sprintf("n%07d", i) }

func pod(uid string, s size, node string) facts.Pod {
	return facts.Pod{
		UID: facts.UID(uid), Namespace: namespace, Name: uid, Ours: true, Node: node,
		Requirements: &facts.Requirements{
			Requests:    []resource.Quantity{{Name: resource.NameCPU, Amount: s.milliCPU}, {Name: resource.NameMemory, Amount: s.memory}},
			ScoreCPU:    s.milliCPU,
			ScoreMemory: s.memory,
		},
	}
}

// ledger is a Store with the world in it, and what the schedulers ask it for.
type ledger struct {
	*cluster.Store
	pods []*cluster.Pod // that wait
	// all, partitions and stripes are classes by size (and part), to ask for a node of all nodes, or of a part of them.
	all                 []*cluster.Class
	partitions, stripes [][]*cluster.Class
}

// newLedger divides the nodes into partitions and stripes, each with as many machines of each kind as the others.
func (w *world) newLedger(partitions, stripes int) *ledger {
	l := &ledger{Store: cluster.NewStore()}
	for i := range w.nodes {
		m := machineOf(i)
		row := i / len(machines)
		l.Apply(facts.NodeUpserted{Node: &facts.Node{
			Name: nodeName(i),
			Labels: map[string]string{
				labelPartition: strconv.Itoa(row % partitions),
				labelStripe:    strconv.Itoa(row / partitions % stripes),
			},
			Allocatable: []resource.Quantity{
				{Name: resource.NameCPU, Amount: m.milliCPU}, {Name: resource.NameMemory, Amount: m.memory}, {Name: resource.NamePods, Amount: podsOfNode},
			},
		}})
	}
	for i := range w.running {
		l.Apply(facts.PodUpserted{Pod: w.running[i]})
	}
	for i, s := range w.waiting {
		p := pod(fmt.Sprintf("pod-%d", i), sizes[s], "")
		l.Apply(facts.PodUpserted{Pod: p})
		l.pods = append(l.pods, l.Pod(p.UID))
	}
	l.all = l.classes(nil)
	for part := range partitions {
		l.partitions = append(l.partitions, l.classes(&facts.Label{Key: labelPartition, Value: strconv.Itoa(part)}))
	}
	for part := range stripes {
		l.stripes = append(l.stripes, l.classes(&facts.Label{Key: labelStripe, Value: strconv.Itoa(part)}))
	}
	return l
}

// classes are those of pods of each size that may use only the nodes with a label. Pods that are never placed stand for them.
func (l *ledger) classes(on *facts.Label) (list []*cluster.Class) {
	for i, s := range sizes {
		p := pod(fmt.Sprintf("asks-%d", i), s, "")
		if on != nil {
			p = pod(fmt.Sprintf("asks-%s-%s-%d", on.Key, on.Value, i), s, "")
			p.Requirements.NodeSelector = []facts.Label{*on}
		}
		l.Apply(facts.PodUpserted{Pod: p})
		list = append(list, l.Pod(p.UID).Class)
	}
	return list
}
