package vpa

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/control/recommend"
	"hilbert.dev/hilbert/control/vpa"
)

// lenders are the nodes on which reclaimed pods run, with what these hold; false: it is not known.
func (r *Reader) lenders(ctx context.Context, now time.Time) (out map[string]vpa.Lender, known bool) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	list, err := r.core.Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{ResourceVersion: "0", LabelSelector: spec.LabelQoS + "=" + string(spec.QoSReclaimed)})
	r.say("lenders", "reclaimed pods cannot be listed: no pod shrinks meanwhile", err != nil, err)
	if err != nil {
		return nil, false
	}
	return lendersOf(list.Items, r.lending(now)), true
}

// lendersOf are the nodes of pods that are labelled as reclaimed, and those whose agents say that they lend to others: by Katalyst's annotation a pod is reclaimed too, and
// pods cannot be listed by that. What these hold is what the agent says that they have.
func lendersOf(pods []corev1.Pod, lending map[string]*spec.Colocation) map[string]vpa.Lender {
	out := make(map[string]vpa.Lender)
	for i := range pods {
		p := &pods[i]
		if p.Spec.NodeName == "" || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		held := holds(p)
		n := out[p.Spec.NodeName]
		n.Held.CPU, n.Held.Memory = n.Held.CPU+held.CPU, n.Held.Memory+held.Memory
		out[p.Spec.NodeName] = n
	}
	for node, says := range lending {
		n, labelled := out[node]
		if !labelled {
			n.Held = reclaimed(says.Lent)
		}
		if n.Held != (recommend.Amounts{}) {
			n.Headroom, n.Known = reclaimed(says.Headroom), true
			out[node] = n
		}
	}
	return out
}

func reclaimed(a spec.ReclaimedAmounts) recommend.Amounts {
	const milli, mebibyte = 1000, 1 << 20
	return recommend.Amounts{CPU: float64(a.MilliCPU) / milli, Memory: float64(a.MemoryMiB) * mebibyte}
}

// holds is what a reclaimed pod was promised when it was bound, or asks for where that cannot be read.
func holds(p *corev1.Pod) (a recommend.Amounts) {
	if promised, err := spec.ParseReclaimed(p.Annotations[spec.AnnotationReclaimed]); err == nil {
		return reclaimed(promised)
	}
	for i := range p.Spec.Containers {
		asks := p.Spec.Containers[i].Resources.Requests
		cpu, memory := asks[spec.ResourceReclaimedCPU], asks[spec.ResourceReclaimedMemory]
		a.CPU += float64(cpu.Value()) / 1000
		a.Memory += float64(memory.Value())
	}
	return a
}
