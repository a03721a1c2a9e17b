package kube

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	t.Logf("zones %+v charge %+v", c.Zones, c.Charge)
}

func TestSecHolder(t *testing.T) {
	t.Skip("issue 17: Hostile tenants, captured nodes: least privilege that is shown")
	for _, id := range []string{"hilbert-system/hilbertd-x:10461_u", "victim/evilpod:443_u", "hilbert-system/..:1_u", "a/b/c/../../../../apis:8_u", "hilbert-system/x?y=z#:1_u"} {
		h, err := ParseHolder(id)
		t.Logf("%q -> %+v %v", id, h, err)
		_ = fmt.Sprint()
	}
	_ = context.Background()
	_ = metav1.Now
}
