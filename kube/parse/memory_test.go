package parse

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/kube/standin"
)

// A known pod costs no pointer and little memory, whatever its object looks like.
func TestParserForgetsThePod(t *testing.T) {
	p, seen := NewParser("hilbert", nil), NewFingerprints()
	add := func(pod *corev1.Pod) {
		facts := p.Pod(pod)
		seen.Changed(facts.UID, seen.Of(&facts, p.Serial()))
	}
	const pods = 2000
	for i := range pods {
		add(standin.TypicalPod(t, i))
	}
	if seen.Count() != pods || len(p.requirements.known) != 1 {
		t.Errorf("%d fingerprints, %d Requirements", seen.Count(), len(p.requirements.known))
	}
	if n := len(p.strings.seen); n > 2200 {
		t.Errorf("%d strings are remembered, of 50 namespaces, 1000 nodes, and 500 Deployments with a label and a ReplicaSet each", n)
	}
	if n := len(p.labels.known); n != 500 {
		t.Errorf("%d sets of labels are remembered, of 500 Deployments", n)
	}
	for i := range 2 {
		pod := standin.TypicalPod(t, i)
		pod.UID = types.UID(fmt.Sprint("known-", i))
		add(pod)
		seen.Forget(facts.UID(pod.UID))
	}
	if seen.Count() != pods {
		t.Errorf("%d fingerprints after two came and went", seen.Count())
	}
}

func BenchmarkParse(b *testing.B) {
	b.Run("pod", func(b *testing.B) {
		p, pod := NewParser("hilbert", nil), standin.TypicalPod(b, 1)
		b.ReportAllocs()
		for b.Loop() {
			p.Pod(pod)
		}
	})
	b.Run("pod of a new class", func(b *testing.B) {
		p, pod := NewParser("hilbert", nil), standin.TypicalPod(b, 1)
		b.ReportAllocs()
		for b.Loop() {
			p.requirements.known = nil
			p.Pod(pod)
		}
	})
	b.Run("node", func(b *testing.B) {
		p, node := NewParser("hilbert", nil), standin.TypicalNode(1)
		b.ReportAllocs()
		for b.Loop() {
			p.Node(node)
		}
	})
}
