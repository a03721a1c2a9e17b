package vpa

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/control/recommend"
)

// Use is what a pod's containers used, by name, on the mean of some seconds before At.
type Use struct {
	At         time.Time
	Containers map[string]recommend.Sample
}

// Source tells what pods used of late, by name. A pod or container that it does not name is not known.
type Source interface {
	Use(ctx context.Context, namespace string) (map[string]Use, error)
}

// podMetrics asks metrics.k8s.io, which metrics-server serves. It has no peaks of memory: what lies between two samples is not seen.
type podMetrics struct{ api getter }

// podMetricsList has the fields of a PodMetricsList that matter here.
type podMetricsList struct {
	Items []struct {
		metav1.ObjectMeta `json:"metadata"`

		Timestamp  metav1.Time `json:"timestamp"`
		Containers []struct {
			Name  string              `json:"name"`
			Usage corev1.ResourceList `json:"usage"`
		} `json:"containers"`
	} `json:"items"`
}

// Use implements Source.
func (m podMetrics) Use(ctx context.Context, namespace string) (map[string]Use, error) {
	data, err := m.api.get(ctx, "/apis/metrics.k8s.io/v1beta1/namespaces/"+namespace+"/pods", nil)
	if err != nil {
		return nil, err
	}
	var list podMetricsList
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("read the PodMetrics of namespace %s: %w", namespace, err)
	}
	used := make(map[string]Use, len(list.Items))
	for i := range list.Items {
		item := &list.Items[i]
		u := Use{At: item.Timestamp.Time, Containers: make(map[string]recommend.Sample, len(item.Containers))}
		for _, c := range item.Containers {
			sample := recommend.Sample{CPU: -1, Memory: -1} // not known
			if cpu, there := c.Usage[corev1.ResourceCPU]; there {
				sample.CPU = cpu.AsApproximateFloat64()
			}
			if memory, there := c.Usage[corev1.ResourceMemory]; there {
				sample.Memory = memory.AsApproximateFloat64()
			}
			u.Containers[c.Name] = sample
		}
		used[item.Name] = u
	}
	return used, nil
}
