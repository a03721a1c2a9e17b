package dashboard

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/inspect"
	"hilbert.dev/hilbert/topology"
)

// Amounts are of CPUs in thousandths, of memory in bytes, of GPUs in thousandths.
type Amounts struct{ MilliCPU, Memory, MilliGPU int64 }

func (a *Amounts) add(b Amounts) {
	a.MilliCPU, a.Memory, a.MilliGPU = a.MilliCPU+b.MilliCPU, a.Memory+b.Memory, a.MilliGPU+b.MilliGPU
}

// Node is what the pages show of a node.
type Node struct {
	Name string
	// All is what pods may request, Requested what pods that are not reclaimed do.
	All, Requested Amounts
	// Used is what runs without reclaimed pods, where UsedKnown.
	Used      Amounts
	UsedKnown bool
	// Offered is what reclaimed pods may hold, Lent what they request.
	Offered, Lent Amounts
	Headroom      string // its state
	Note          string // why it is so
	Pods          int
	Unschedulable bool
	Evictions     []facts.EvictionRequest
}

// PodOn is a pod of a node.
type PodOn struct {
	Namespace, Name, Level, Phase string
	Asks                          Amounts
	GPUs                          string
}

// Totals are sums over the nodes.
type Totals struct {
	All, Requested, Offered, Lent Amounts
	// Used is of the UsedKnown nodes, which have UsedOf.
	Used, UsedOf Amounts
	UsedKnown    int
	Nodes, Pods  int
}

// Cluster is what the pages show of a state.
type Cluster struct {
	Taken    time.Time
	Revision uint64
	Totals
	Nodes   []Node // by name
	Levels  []Level
	Queues  []inspect.QueueStatus
	Counts  map[inspect.WaitingState]int
	Waiting []inspect.Waiting // in the order in which it is their turn, the first maxWaiting
	// Unnamed wait too.
	Unnamed int

	dump  *inspect.Dump
	store *cluster.Store
}

// Level is the pods of a QoS level that have a node.
type Level struct {
	Name string
	Pods int
	Asks Amounts
}

// maxWaiting bounds the pods that wait and are named.
const maxWaiting = 500

// Read makes a Cluster of a state. It takes about a second for 200,000 pods.
func Read(d *inspect.Dump) (*Cluster, error) {
	store, err := cluster.Load(d.Ledger)
	if err != nil {
		return nil, fmt.Errorf("load the ledger: %w", err)
	}
	d.Sort()
	c := &Cluster{
		Taken: d.Taken, Revision: uint64(d.Ledger.Revision), Counts: d.Counts(), Queues: inspect.QueueStatuses(store),
		Waiting: d.Queue[:min(len(d.Queue), maxWaiting)], dump: d, store: store,
	}
	c.Unnamed = len(d.Queue) - len(c.Waiting)
	for _, n := range d.Ledger.Nodes {
		node := readNode(store, n)
		c.Nodes = append(c.Nodes, node)
		c.add(&node)
	}
	slices.SortFunc(c.Nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	c.readLevels()
	return c, nil
}

func (t *Totals) add(n *Node) {
	t.Nodes++
	t.Pods += n.Pods
	t.All.add(n.All)
	t.Requested.add(n.Requested)
	t.Offered.add(n.Offered)
	t.Lent.add(n.Lent)
	if n.UsedKnown {
		t.UsedKnown++
		t.Used.add(n.Used)
		t.UsedOf.add(n.All)
	}
}

func readNode(store *cluster.Store, of *facts.Node) Node {
	slot := store.Slot(of.Name)
	n := Node{Name: of.Name, Unschedulable: of.Unschedulable, Evictions: store.EvictionRequests().On(of.Name)}
	n.All = Amounts{store.Allocatable(slot, resource.CPU), store.Allocatable(slot, resource.Memory), gpusOf(&of.GPU, store.Report(slot))}
	for _, pod := range store.PodsOn(slot) {
		n.Pods++
		asks, lent := asksOf(pod)
		n.Requested.add(asks)
		n.Lent.add(lent)
	}
	h := store.Headroom(slot)
	n.Headroom, n.Note = h.State.String(), h.Note
	n.Offered.MilliCPU, n.Offered.Memory = h.Offered()
	if r := store.Report(slot); r != nil && r.Usage.Known() {
		n.Used, n.UsedKnown = Amounts{MilliCPU: r.Usage.MilliCPU, Memory: r.Usage.Memory}, true
	}
	return n
}

// gpusOf is how much GPU a node has, in thousandths.
func gpusOf(shape *topology.Shape, r *facts.NodeReport) int64 {
	n := shape.GPUs
	if r != nil && r.Devices != nil {
		n = len(r.Devices.GPU)
	}
	return int64(n) * topology.FullGPU
}

// asksOf is what a pod requests of its node, and what it requests of what is lent.
func asksOf(pod *cluster.Pod) (asks, lent Amounts) {
	if pod.Class == nil {
		return asks, lent
	}
	reclaims := pod.Class.Reclaims()
	lent.MilliCPU, lent.Memory = reclaims[0].Value, reclaims[1].Value
	for _, q := range pod.Class.Requests {
		switch q.Name {
		case resource.NameCPU:
			asks.MilliCPU = q.Amount
		case resource.NameMemory:
			asks.Memory = q.Amount
		}
	}
	asks.MilliGPU = int64(pod.Class.GPU.Milli) + int64(pod.Class.GPU.Whole)*topology.FullGPU
	return asks, lent
}

// levels are those of QoS, in the order in which they are shown.
var levels = []spec.QoSLevel{spec.QoSDedicated, spec.QoSShared, spec.QoSSystem, spec.QoSReclaimed}

// levelOf is the level that a pod names; pods without one are shared.
func levelOf(f *facts.Pod) spec.QoSLevel {
	for _, l := range f.Labels {
		if l.Key == spec.LabelQoS && slices.Contains(levels, spec.QoSLevel(l.Value)) {
			return spec.QoSLevel(l.Value)
		}
	}
	return spec.QoSShared
}

func (c *Cluster) readLevels() {
	by := make(map[spec.QoSLevel]*Level)
	for _, level := range levels {
		by[level] = &Level{Name: string(level)}
	}
	for i := range c.dump.Ledger.Pods {
		r := &c.dump.Ledger.Pods[i]
		pod := c.store.Pod(r.Facts.UID)
		if pod == nil || r.Facts.Node == "" || r.Phase == cluster.Finished {
			continue
		}
		asks, lent := asksOf(pod)
		level := by[levelOf(&r.Facts)]
		level.Pods++
		level.Asks.add(asks)
		level.Asks.add(lent)
	}
	for _, level := range levels {
		c.Levels = append(c.Levels, *by[level])
	}
}

// Node returns the node of a name, nil if there is none.
func (c *Cluster) Node(name string) *Node {
	at, found := slices.BinarySearchFunc(c.Nodes, name, func(n Node, name string) int { return cmp.Compare(n.Name, name) })
	if !found {
		return nil
	}
	return &c.Nodes[at]
}

// PodsOn lists the pods of a node by namespace and name.
func (c *Cluster) PodsOn(node string) (list []PodOn) {
	for _, pod := range c.store.PodsOn(c.store.Slot(node)) {
		asks, lent := asksOf(pod)
		asks.add(lent)
		r, grant := pod.Record(), pod.Grant()
		phase := r.Phase.String()
		if pod.Placeholder() {
			phase = "place of a reservation"
		}
		list = append(list, PodOn{pod.Namespace, pod.Name, string(levelOf(&r.Facts)), phase, asks, grant.String()})
	}
	slices.SortFunc(list, func(a, b PodOn) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return list
}

// Eviction is a pod that a node wants evicted.
type Eviction struct {
	Node string
	facts.EvictionRequest
}

// Evictions lists what all nodes want evicted.
func (c *Cluster) Evictions() (list []Eviction) {
	for i := range c.Nodes {
		for _, e := range c.Nodes[i].Evictions {
			list = append(list, Eviction{c.Nodes[i].Name, e})
		}
	}
	return list
}
