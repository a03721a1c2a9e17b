package vpa

import (
	"context"
	"encoding/json"

	customv1beta2 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"

	"hilbert.dev/hilbert/control/vpa"
)

// The metrics of pods that the role metrics has of agents, see package metrics.
const (
	memoryPeak = "hilbert_memory_peak"
	throttled  = "hilbert_cpu_throttled"
)

// measured asks custom.metrics.k8s.io for what agents measure all the time. Where the role metrics does not run there is nothing, and samples alone count.
type measured struct{ api getter }

const customMetrics = "/apis/custom.metrics.k8s.io/v1beta2"

// served reports whether somebody serves custom metrics: else each namespace would be asked for in vain in each round.
func (m measured) served(ctx context.Context) bool {
	_, err := m.api.get(ctx, customMetrics, nil)
	return err == nil
}

// measuredPod is what was measured of a pod between two samples.
type measuredPod struct {
	// peak is the highest working set in bytes, 0 where it is not known; throttled a share of periods, where it is known.
	peak           float64
	throttled      float64
	throttledKnown bool
}

// seen is what is known of the pods of a namespace, by name.
func (m measured) seen(ctx context.Context, namespace string) map[string]measuredPod {
	out := make(map[string]measuredPod)
	m.each(ctx, namespace, memoryPeak, func(pod string, value float64) {
		b := out[pod]
		b.peak = value
		out[pod] = b
	})
	m.each(ctx, namespace, throttled, func(pod string, value float64) {
		b := out[pod]
		b.throttled, b.throttledKnown = value, true
		out[pod] = b
	})
	return out
}

// each calls take for each pod of which a metric is known. That there is no such API, or nothing is known now, is no failure: pods and their samples are known without it.
func (m measured) each(ctx context.Context, namespace, metric string, take func(pod string, value float64)) {
	data, err := m.api.get(ctx, customMetrics+"/namespaces/"+namespace+"/pods/*/"+metric, nil)
	var list customv1beta2.MetricValueList
	if err != nil || json.Unmarshal(data, &list) != nil {
		return
	}
	for i := range list.Items {
		take(list.Items[i].DescribedObject.Name, list.Items[i].Value.AsApproximateFloat64())
	}
}

// add adds it to a container's sample. A peak is of the whole pod: it counts where the pod has one container.
func (b measuredPod) add(c *vpa.Container, containers int) {
	if containers == 1 && c.Use.Memory >= 0 {
		c.Use.Memory = max(c.Use.Memory, b.peak)
	}
	c.Throttled, c.ThrottledKnown = b.throttled, b.throttledKnown
}
