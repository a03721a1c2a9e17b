package parse

import (
	"log/slog"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"hilbert.dev/hilbert/api/spec"
)

func TestPodAsksForResources(t *testing.T) {
	p := NewParser("hilbert", slog.New(slog.DiscardHandler))
	pod := &corev1.Pod{}
	pod.UID, pod.Namespace, pod.Name, pod.Spec.NodeName = "u", "default", "p", "n1"
	pod.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: list("cpu", "1", "example.com/fpga", "2", "b.dev/key", "1", "nvidia.com/gpu", "1", "hilbert.dev/rdma", "1")}}}
	pod.Annotations = map[string]string{spec.AnnotationNUMAPolicy: spec.NUMAPolicySingle, spec.AnnotationResourceNUMANodes: "example.com/fpga=1:2"}
	got := p.Pod(pod)
	if want := "b.dev/key=1,example.com/fpga=2"; string(got.Requirements.GPU.Resources) != want {
		t.Errorf("it asks for %q, want %q", got.Requirements.GPU.Resources, want)
	}
	if want := "example.com/fpga=1:2"; string(got.Grant.Resources) != want {
		t.Errorf("it was promised %q, want %q", got.Grant.Resources, want)
	}
	for _, bad := range []string{"example.com/fpga=1:3", "example.com/fpga", "other.dev/x=0:1", "example.com/fpga=9:2", "example.com/fpga=1:2;example.com/fpga=1:2"} {
		pod.Annotations[spec.AnnotationResourceNUMANodes] = bad
		if got := p.Pod(pod); got.Grant.Resources != "" {
			t.Errorf("%q is read as %q", bad, got.Grant.Resources)
		}
	}
	// A policy on a pod that asks for nothing else is about what plugins bring.
	pod.Spec.Containers[0].Resources.Requests = list("cpu", "1", "example.com/fpga", "2")
	if got := p.Pod(pod).Requirements; got.Impossible != "" || !got.GPU.Near.Required {
		t.Errorf("near %v, impossible: %q", got.GPU.Near, got.Impossible)
	}
}
