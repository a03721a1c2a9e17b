package demo

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	kubeversion "k8s.io/component-base/version"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/internal/version"
	"hilbert.dev/hilbert/lab/hollow"
	"hilbert.dev/hilbert/lab/report"
	"hilbert.dev/hilbert/topology"
)

// record makes the report of what the recorder saw.
func (l *Lab) record(r *recorder, began, ended time.Time, err error) *report.Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	work := l.options.Work
	run := &report.Run{
		Title: work.title(), Source: work.source(), Scheduler: "hilbertd " + version.Get().Version, Kubernetes: "Kubernetes " + kubeversion.Get().GitVersion,
		Started: began, Elapsed: ended.Sub(began), Notes: work.notes(),
		Samples: r.samples, FullestAt: r.fullestAt, Waits: r.waits, BoundAt: r.boundAt, Unplaced: r.unplaced(),
	}
	if err != nil {
		run.Partial = err.Error()
	}
	if missing := work.pods() - r.now.Created; missing > 0 {
		run.Notes = append(run.Notes, fmt.Sprintf("%d of %d pods had not been created when the run ended.", missing, work.pods()))
	}
	if r.unseen > 0 {
		run.Notes = append(run.Notes, fmt.Sprintf("The waits of %d pods are not known: the watch was interrupted between their creation and their binding.", r.unseen))
	}
	run.Notes = append(run.Notes, "Allocated is what pods request that have a node and have not ended. Times are those at which one watch of the API server saw a pod and its node.")
	for i, s := range l.shapes {
		run.Nodes = append(run.Nodes, nodeOf(s, r.fullest[i], r.use[i]))
	}
	for _, w := range r.works {
		run.Workloads = append(run.Workloads, *w)
	}
	slices.SortFunc(run.Workloads, func(a, b report.Workload) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(b.Created, a.Created), cmp.Compare(a.Name, b.Name))
	})
	return run
}

func nodeOf(s hollow.Shape, fullest, final report.Use) report.Node {
	n := report.Node{Name: s.Name, Machine: s.Labels[corev1.LabelInstanceTypeStable], GPUModel: s.Labels[spec.LabelGPUModel], Fullest: fullest, Final: final}
	n.Group = s.Labels[corev1.LabelTopologyZone]
	if n.Group == "" {
		n.Group = cmp.Or(n.GPUModel, "without GPUs")
	}
	gpus := s.Allocatable[spec.ResourceNvidiaGPU]
	n.Allocatable = report.Amount{CPU: s.Allocatable.Cpu().MilliValue(), Memory: s.Allocatable.Memory().Value(), GPU: gpus.Value() * topology.FullGPU}
	n.MaxPods = int(s.Allocatable.Pods().Value())
	return n
}
