package agent

import (
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/lab/vm/join"
	"hilbert.dev/hilbert/topology"
)

// TestCardsComeFromTheirPromise: the card of a plugin comes from the NUMA node that the pod's Binding promises, and a pod that has to be on one NUMA node has its CPUs there too; the same after a
// crash of the plugin.
//
// The scheduler promises pods that ask for one card, and for nothing of NUMA nodes, the card of NUMA node 1: there is one, and two stay together elsewhere. Left to itself the agent takes the lowest NUMA node that has
// a card, so one that ignores the promise gives such a pod a card of NUMA node 0.
func TestCardsComeFromTheirPromise(t *testing.T) {
	long(t)
	r := newRig(t)
	r.bringCards("plugins: {enabled: true, interval: 1s}, writeInterval: 1s, lending: {enabled: false}")
	first := r.run(r.pod("first", requests("100m"), card))[0]
	if numa := r.hasPromisedCard(first); numa != 1 {
		t.Errorf("pod first was promised a card of NUMA node %d, want 1: else this test shows nothing", numa)
	}

	if _, err := r.Guest.Signal(t.Context(), join.PluginProgram, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	later := r.run(r.pod("later", requests("100m"), card))[0] // only the plugin that was started again can have given it one
	r.reported("what pods hold after the crash", func(o *v1alpha1.CustomNodeResource) error { return offered(o, 3, 2, true) })
	r.remove(later)
	r.reported("what was released after the crash", func(o *v1alpha1.CustomNodeResource) error { return offered(o, 3, 1, true) })
	own := r.run(r.pod("own", level(spec.QoSDedicated), annotated(spec.AnnotationNUMA, spec.NUMABound), annotated(spec.AnnotationNUMAPolicy, spec.NUMAPolicySingle), asks("1", "64Mi"), card))[0]
	numa := r.hasPromisedCard(own)
	if cpus, mems := r.places(own); numa != 0 || !cpus.Minus(r.numa(numa)).IsEmpty() || mems != topology.CPUs(numa) {
		t.Errorf("pod own was promised a card of NUMA node %d, and has CPUs %v and memory of %v; NUMA node 0 alone has cards left", numa, cpus, mems)
	}
	r.remove(own, first)
	r.reported("all is released", func(o *v1alpha1.CustomNodeResource) error { return offered(o, 3, 0, true) })
	again := r.run(r.pod("again", requests("100m"), card))[0]
	if numa := r.hasPromisedCard(again); numa != 1 {
		t.Errorf("after the crash pod again was promised a card of NUMA node %d, want 1", numa)
	}
}

// hasPromisedCard is the NUMA node that a pod's Binding promised a card of. It fails the test unless the pod's card is from there.
func (r *rig) hasPromisedCard(p *corev1.Pod) (numa int) {
	r.t.Helper()
	said := p.Annotations[spec.AnnotationResourceNUMANodes]
	promised, err := topology.ParseResourceGrant(said)
	if err != nil {
		r.t.Fatalf("pod %s: %v", p.Name, err)
	}
	amounts := promised.Of(join.PluginResource)
	for amounts.NUMA[numa] != 1 {
		if numa++; numa == len(amounts.NUMA) {
			r.t.Fatalf("pod %s was promised %q, want one card of one NUMA node", p.Name, said)
		}
	}
	if name, is := r.cardOf(p); is != numa {
		r.t.Errorf("pod %s was promised %q, and has %s of NUMA node %d", p.Name, said, name, is)
	}
	return numa
}
