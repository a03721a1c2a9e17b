package ledgermetrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/resource"
)

// The gauges of the ledger as a whole.
var (
	nodesDesc        = prometheus.NewDesc("hilbert_cache_nodes", "Nodes in the ledger.", nil, nil)
	overDesc         = prometheus.NewDesc("hilbert_overcommitted_nodes", "Nodes whose pods request more than is allocatable. Hilbert never does that; other schedulers, nodes that shrink and a write that outlived its leader can.", nil, nil)
	podsDesc         = prometheus.NewDesc("hilbert_cache_pods", "Pods in the ledger.", nil, nil)
	kindsDesc        = prometheus.NewDesc("hilbert_resource_names", "Resources that nodes and queues name, the built-in ones included, by whether the ledger counts them. What waits is beyond the bound of 512: no pod that asks for it is placed.", []string{"state"}, nil)
	totalCollections = []*prometheus.Desc{nodesDesc, overDesc, podsDesc, kindsDesc}
)

// totals is a copy of how much the ledger keeps.
type totals struct {
	nodes, pods, overcommitted int
	counted, waiting           int // names of resources
}

// newTotals looks at each node once, and at no pod.
func newTotals(store *cluster.Store) totals {
	t := totals{nodes: store.Nodes(), pods: store.Pods(), overcommitted: overcommitted(&store.State)}
	t.counted, t.waiting = store.ResourceNames()
	return t
}

// collect sends the gauges.
func (t *totals) collect(out chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value int, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(value), labels...)
	}
	gauge(nodesDesc, t.nodes)
	gauge(podsDesc, t.pods)
	gauge(overDesc, t.overcommitted)
	gauge(kindsDesc, t.counted, "counted")
	gauge(kindsDesc, t.waiting, "waiting")
}

// overcommitted counts the nodes that hold more than they have.
func overcommitted(s *cluster.State) int {
	n := 0
	for slot := range cluster.Slot(s.Slots()) {
		if s.Node(slot) != nil && overcommits(s, slot) {
			n++
		}
	}
	return n
}

func overcommits(s *cluster.State, slot cluster.Slot) bool {
	for kind := range resource.Kind(s.Kinds()) {
		if s.Free(slot, kind) < 0 && !s.IsReclaimed(kind) {
			return true
		}
	}
	for _, free := range s.GPUs(slot) {
		if free < 0 {
			return true
		}
	}
	return false
}
