package parse

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nodev1alpha1 "hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
)

func promised(list []resource.Quantity) (amount int64) {
	for _, q := range list {
		if q.Name == facts.PromisedCPU {
			amount += q.Amount
		}
	}
	return amount
}

func requestingCPU(cpu string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: apiresource.MustParse(cpu)}}
}

// Pods count with what they asked for before their requests were lowered; what the annotation says is bounded, for people may write it.
func TestPromisedCPUOfPods(t *testing.T) {
	for _, c := range []struct {
		what, annotation string
		main, first      string
		own              string // the resource, by its name
		want             int64
	}{
		{what: "not lowered", main: "1", want: 1000},
		{what: "lowered", main: "500m", annotation: "main=1000m at 200%", want: 1000},
		{what: "one that ends before the others begin", main: "500m", first: "1", annotation: "main=1000m,first=2000m at 200%", want: 2000},
		{what: "grown since", main: "2", annotation: "main=1000m at 200%", want: 2000},
		{what: "shrunk since", main: "100m", annotation: "main=1000m at 150%", want: 150},
		{what: "by a percent that rounds", main: "667m", annotation: "main=1000m at 150%", want: 1000},
		{what: "more than the policy lowers", main: "100m", annotation: "main=100000m at 1000%", want: 1000},
		{what: "by more than any policy", main: "100m", annotation: "main=100000m at 1001%", want: 100},
		{what: "by no percent", main: "100m", annotation: "main=1000m", want: 100},
		{what: "of no container", main: "100m", annotation: "other=1000m at 200%", want: 100},
		{what: "nonsense", main: "100m", annotation: "main=1,second at 200%", want: 100},
		{what: "of more than there is", main: "100m", annotation: "main=99999999999999999999m at 200%", want: 100},
		{what: "asks for it by name", main: "1", own: "7", want: 1000},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Resources: requestingCPU(c.main)}}}}
		if c.annotation != "" {
			pod.Annotations = map[string]string{spec.AnnotationRequestedCPU: c.annotation}
		}
		if c.first != "" {
			pod.Spec.InitContainers = []corev1.Container{{Name: "first", Resources: requestingCPU(c.first)}}
		}
		if c.own != "" {
			pod.Spec.Containers[0].Resources.Requests[facts.PromisedCPU] = apiresource.MustParse(c.own)
		}
		p := NewParser("x", nil)
		before := pod.DeepCopy()
		if got := promised(p.Pod(pod).Requirements.Requests); c.own == "" && got != 0 {
			t.Errorf("%s: %d without its being wanted", c.what, got)
		}
		p.PromisedCPU = 150
		if got := promised(p.Pod(pod).Requirements.Requests); got != c.want {
			t.Errorf("%s: %d, want %d", c.what, got, c.want)
		}
		if pod.String() != before.String() {
			t.Errorf("%s: the pod was changed", c.what)
		}
	}
}

// A node has as much of it as of CPU, and what its agent says more, to the configured percent.
func TestPromisedCPUOfNodes(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
		corev1.ResourceCPU: apiresource.MustParse("4"), facts.PromisedCPU: apiresource.MustParse("99"),
	}}}
	p := NewParser("x", nil)
	p.PromisedCPU = 150
	if got := promised(p.Node(node).Allocatable); got != 4000 {
		t.Errorf("a node with 4 CPUs may promise %d", got)
	}
	for _, c := range []struct {
		limit int
		said  spec.NodeOvercommitStatus
		want  facts.Overcommit
	}{
		{150, spec.NodeOvercommitStatus{Percent: 120, ExtraMilliCPU: 600}, facts.Overcommit{ExtraCPU: 600, Percent: 120}},
		{150, spec.NodeOvercommitStatus{Percent: 200, ExtraMilliCPU: 3000}, facts.Overcommit{ExtraCPU: 1500, Percent: 150}},
		{0, spec.NodeOvercommitStatus{Percent: 120, ExtraMilliCPU: 600}, facts.Overcommit{}},
		{100, spec.NodeOvercommitStatus{Percent: 120, ExtraMilliCPU: 600}, facts.Overcommit{}},
		{150, spec.NodeOvercommitStatus{Percent: 90, ExtraMilliCPU: 600}, facts.Overcommit{}},
		{150, spec.NodeOvercommitStatus{Percent: 120, ExtraMilliCPU: -1}, facts.Overcommit{}},
		{150, spec.NodeOvercommitStatus{Percent: 120, ExtraMilliCPU: 1 << 62}, facts.Overcommit{}},
	} {
		p.PromisedCPU = c.limit
		r := &nodev1alpha1.CustomNodeResource{}
		r.Status.Mode, r.Status.ThreadsPerCore, r.Status.Overcommit = spec.ModeKubelet, 1, &c.said
		if got := p.NodeReport(r).Overcommit; got != c.want {
			t.Errorf("at most %d percent: %+v is read as %+v, want %+v", c.limit, c.said, got, c.want)
		}
	}
}
