package parse

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
)

// A NUMA-exclusive pod that requests one CPU: what the queue is charged.
func TestSecExclusiveCharge(t *testing.T) {
	t.Skip("issue 15: A scheduler that no cluster can surprise")
	p := NewParser("hilbert", nil)
	s := cluster.NewStore()
	pod := secPod("e", "hilbert", corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Mi")})
	pod.Labels = map[string]string{"hilbert.dev/qos-level": "dedicated_cores"}
	pod.Annotations = map[string]string{"hilbert.dev/numa": "exclusive"}
	f := p.Pod(pod)
	s.Apply(facts.PodUpserted{Pod: f})
	c := s.Pod("e").Class
	t.Logf("NUMA %+v charge %+v", c.NUMANodes, c.Charge)
}
