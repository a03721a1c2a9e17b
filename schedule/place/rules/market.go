package rules

import (
	"cmp"
	"slices"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/fragment"
	"hilbert.dev/hilbert/topology"
)

// Market learns which requests for GPUs arrive, and what free GPUs and the CPU beside them are worth to these. Placers with one Profile share its
// market.
//
// Learn computes a price list. It also counts all pods with GPUs that run or wait, so that GPUs of models that these need more than others are
// worth more. It is due after a number of arrivals, whatever time has passed; its number is the revision. Between two of
// them the score of a node depends on the pod's size and the node's state alone, so that rankings stay exact; each ranking looks at the nodes
// with GPUs again when it is used under another list than before; searches know the few states that GPUs are in (GPUStates). While there is no list, as in a cluster without GPUs, GPUPacking is scored
// instead.
type Market struct {
	mix      fragment.Mix
	market   fragment.Market
	fresh    int // arrivals since Learn was called
	due      int
	revision uint64
	prices   []modelPrices
	nodes    []fragment.Node

	// Of nodes and pods without GPUs, where a profile scores CPUWorth.
	pricesHosts bool
	hostMix     fragment.Mix
	hosts       fragment.HostPrices
	freshHosts  int
	dueHosts    int
}

// modelPrices is what GPUs of a model are worth.
type modelPrices struct {
	model  string
	prices *fragment.Prices
}

// Prices are found first after a few arrivals; then again when arrivals have grown by half, and after no more than a part of the number of nodes
// with GPUs: what a list costs, for finding it and for looking at every such node once a ranking, is thus bounded for each arrival.
const (
	firstArrivals = 16
	arrivalsPer   = 2 // so many arrivals
	nodesPer      = 3 // for so many nodes
)

func newMarket() *Market {
	return &Market{market: fragment.Market{Params: fragment.Defaults()}, due: firstArrivals, dueHosts: firstArrivals}
}

// Counts reports whether prices follow from such pods: those with GPUs, and where a profile scores CPUWorth all others too.
func (m *Market) Counts(r *facts.Requirements) bool { return m.pricesHosts || !r.GPU.IsZero() }

// Arrived counts a pod that has arrived. Those that do not count change nothing.
func (m *Market) Arrived(r *facts.Requirements) {
	if r.GPU.IsZero() {
		m.hostArrived(r)
		return
	}
	if r.GPU.Contradiction(nil) != "" {
		return
	}
	request := requestOf(r)
	for _, q := range r.Requests {
		if q.Name == resource.NameCPU {
			request.CPU = q.Amount
		}
	}
	m.mix.Add(&request)
	m.fresh++
}

// requestOf is what a pod asks of GPUs.
func requestOf(r *facts.Requirements) fragment.Request {
	return fragment.Request{GPU: topology.Request{Milli: r.GPU.Milli, Whole: r.GPU.Whole}, Models: modelsOf(r)}
}

// Due reports whether enough pods have arrived that prices should be computed again.
func (m *Market) Due() bool { return m.fresh >= m.due || m.hostsDue() }

// Revision numbers the price list; 0: there is none yet.
func (m *Market) Revision() uint64 { return m.revision }

// Learn finds prices for what has arrived and what is free. GPUs of models that are scarce, by all pods that run or wait, are worth more. Where
// nothing is free the old list stays. Where the prices of nodes without GPUs alone are due, only they are found.
func (m *Market) Learn(store *cluster.Store) {
	if m.hostsDue() {
		m.learnHosts(&store.State)
		if m.fresh < m.due {
			return
		}
	}
	s := &store.State
	m.nodes = m.nodes[:0]
	for i := range s.Slots() {
		slot := cluster.Slot(i)
		if node := s.Node(slot); node != nil && !node.Unschedulable && s.HasGPUs(slot) {
			m.nodes = append(m.nodes, fragment.Node{CPU: s.Free(slot, resource.CPU), Shape: *s.Shape(slot), Free: *s.GPUs(slot)})
		}
	}
	m.fresh = 0
	m.due = max(firstArrivals, min(int(m.mix.Seen())/2, len(m.nodes)*arrivalsPer/nodesPer))
	var demand fragment.Demand
	store.EachRequirements(func(r *facts.Requirements, pods int) {
		if !r.GPU.IsZero() && r.GPU.Contradiction(nil) == "" {
			request := requestOf(r)
			demand.Add(&request, int64(pods))
		}
	})
	if !m.market.Learn(&m.mix, &demand, m.nodes) {
		return
	}
	m.revision++
	m.prices = m.prices[:0]
	for i := range m.nodes {
		if model := m.nodes[i].Shape.Model; m.at(model) == nil {
			m.prices = append(m.prices, modelPrices{model, m.market.At(model)})
		}
	}
}

// Recall learns from a ledger as if its pods had just arrived. A process that has just started calls it.
func (m *Market) Recall(store *cluster.Store) {
	var pods []*cluster.Pod
	store.EachPod(func(pod *cluster.Pod) {
		if pod.Class != nil && m.Counts(pod.Class.Requirements) {
			pods = append(pods, pod)
		}
	})
	slices.SortFunc(pods, func(a, b *cluster.Pod) int { return cmp.Compare(a.UID, b.UID) })
	for _, pod := range pods {
		m.Arrived(pod.Class.Requirements)
	}
	if m.Due() {
		m.Learn(store)
	}
}

// at returns the prices of a model, nil where no list has them.
func (m *Market) at(model string) *fragment.Prices {
	for i := range m.prices {
		if m.prices[i].model == model {
			return m.prices[i].prices
		}
	}
	return nil
}

// modelsOf is the GPU models that a pod's node selector and required node affinity name; any, where they leave that open.
func modelsOf(r *facts.Requirements) fragment.Models {
	for _, l := range r.NodeSelector {
		if l.Key == spec.LabelGPUModel {
			return fragment.NewModels(l.Value)
		}
	}
	var names []string
	for i := range r.Required {
		named := namedModels(&r.Required[i])
		if len(named) == 0 {
			return fragment.Models{}
		}
		names = append(names, named...)
	}
	return fragment.NewModels(names...)
}

func namedModels(t *facts.Term) []string {
	for _, e := range t.Expressions {
		if e.Key == spec.LabelGPUModel && e.Operator == facts.In {
			return e.Values
		}
	}
	return nil
}

// MaxWorth is the best score that GPUWorth gives. It is finer than others: a point is a thousandth of a GPU.
const MaxWorth = 10_000

// scoreGPUWorth prefers the node where a pod destroys the least worth beyond its own request, in thousandths of a GPU (package fragment). For
// example, a quarter of a GPU on an idle GPU destroys more than its 250 thousandths, because pods that need a whole GPU can no longer use it. A pod
// without a GPU request destroys what its CPU is worth to the GPUs of the node, so it goes to nodes without GPUs first.
func scoreGPUWorth(p *Profile, s *cluster.State, slot cluster.Slot, c *cluster.Class) int64 {
	if !s.HasGPUs(slot) {
		return MaxWorth
	}
	score := bestWorth(&c.GPU)
	v := s.View(slot)
	prices := p.market.at(v.Shape.Model)
	if prices == nil {
		return min(score, MaxWorth/2) // a model that is new since the latest list
	}
	v = v.WithoutResources()
	grant, ok := offerDevices(&v, &c.GPU)
	if !ok {
		return 0
	}
	cpu := s.Free(slot, resource.CPU)
	return scoreLoss(score, prices.Loss(v.Free, cpu, cpu-c.Amounts.Get(resource.CPU), &grant))
}

// offerDevices is Offer of a request that is known to be no contradiction, without NUMA nodes; where GPUs are counters, that is asked for directly.
func offerDevices(v *topology.View, r *topology.Request) (topology.Grant, bool) {
	if v.Shape.Devices == nil {
		return topology.OfferGPUs(*v.Shape, v.Free, *r)
	}
	if r.IsZero() {
		return topology.Grant{}, true
	}
	return v.Offer(r, nil)
}

// PriceList numbers the price list by which nodes are scored; 0: by none.
func (p *Profile) PriceList() uint64 {
	if p.local[worthScore] == 0 || p.market == nil {
		return 0
	}
	return p.market.revision
}

// Each visits the prices of the list by model, in the list's order.
func (m *Market) Each(visit func(model string, prices *fragment.Prices)) {
	for i := range m.prices {
		visit(m.prices[i].model, m.prices[i].prices)
	}
}

// Hosts are the prices of room on nodes without GPUs. The next Learn changes them.
func (m *Market) Hosts() *fragment.HostPrices { return &m.hosts }

// Take makes the market have the price list of another.
func (m *Market) Take(revision uint64, models []string, prices []*fragment.Prices, hosts *fragment.HostPrices) {
	m.revision, m.prices, m.hosts = revision, m.prices[:0], *hosts
	for i, model := range models {
		m.prices = append(m.prices, modelPrices{model, prices[i]})
	}
}
