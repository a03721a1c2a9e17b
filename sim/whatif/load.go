package whatif

import (
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
)

// loadOf is what a node has and uses of CPUs, in thousandths. known: its agent says so, and its report was not too old when the snapshot was taken.
func loadOf(n *facts.Node, r *facts.NodeReport) (cpus, used float64, known bool) {
	for _, q := range n.Allocatable {
		if q.Name == resource.NameCPU {
			cpus = float64(q.Amount)
		}
	}
	if r == nil || !r.Usage.Known() || cpus <= 0 {
		return cpus, 0, false
	}
	return cpus, float64(r.Usage.MilliCPU), true
}

// measured says which pods the reports' use is of: those that ran all the time over which it was averaged. A snapshot has no use of single pods.
type measured struct {
	report   map[string]*facts.NodeReport
	requests map[string]int64 // of all pods that the use of a node is of
}

func measuredOf(l *cluster.Dump) measured {
	m := measured{make(map[string]*facts.NodeReport), make(map[string]int64)}
	for i := range l.Reports {
		m.report[l.Reports[i].Node] = l.Reports[i].Report
	}
	for i := range l.Pods {
		if r := &l.Pods[i]; !r.Placeholder && m.covers(&r.Facts) {
			m.requests[r.Facts.Node] += amountOf(r.Facts.Requirements, resource.NameCPU)
		}
	}
	return m
}

func (m *measured) covers(f *facts.Pod) bool {
	r := m.report[f.Node]
	return f.Node != "" && r != nil && r.Usage.Covers(f.Started)
}

// use is about what a pod uses of its node's load: as much of it as it has of the requests. 0: it is not in the measure.
func (m *measured) use(f *facts.Pod, load float64) float64 {
	all := m.requests[f.Node]
	if all <= 0 || !m.covers(f) {
		return 0
	}
	return load * float64(amountOf(f.Requirements, resource.NameCPU)) / float64(all)
}
