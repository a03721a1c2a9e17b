package vpa

import (
	"context"
	"encoding/json"

	customv1beta2 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"

	"hilbert.dev/hilbert/control/metrics"
	"hilbert.dev/hilbert/control/vpa"
	kubemetrics "hilbert.dev/hilbert/kube/metrics"
)

// The metrics of pods that the role metrics has of agents, see package metrics.
const (
	memoryPeak    = "hilbert_memory_peak"
	containerPeak = metrics.ContainerMemoryPeak
	throttled     = "hilbert_cpu_throttled"
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
	// peak is the pod's highest working set in bytes, 0 where it is not known, and peaks those of its containers that are known, by name; throttled is a share of periods, where it is known.
	peak           float64
	peaks          map[string]float64
	throttled      float64
	throttledKnown bool
}

// seen is what is known of the pods of a namespace, by name.
func (m measured) seen(ctx context.Context, namespace string) map[string]measuredPod {
	out := make(map[string]measuredPod)
	m.each(ctx, namespace, memoryPeak, nil, func(pod, _ string, value float64) {
		b := out[pod]
		b.peak = value
		out[pod] = b
	})
	all := map[string]string{"metricLabelSelector": kubemetrics.LabelContainer}
	m.each(ctx, namespace, containerPeak, all, func(pod, container string, value float64) {
		b := out[pod]
		if b.peaks == nil {
			b.peaks = make(map[string]float64)
		}
		b.peaks[container] = value
		out[pod] = b
	})
	m.each(ctx, namespace, throttled, nil, func(pod, _ string, value float64) {
		b := out[pod]
		b.throttled, b.throttledKnown = value, true
		out[pod] = b
	})
	return out
}

// each calls take for each pod, or container of a pod, of which a metric is known. That there is no such API, or nothing is known now, is no failure: pods and their samples are known without it.
func (m measured) each(ctx context.Context, namespace, metric string, query map[string]string, take func(pod, container string, value float64)) {
	data, err := m.api.get(ctx, customMetrics+"/namespaces/"+namespace+"/pods/*/"+metric, query)
	var list customv1beta2.MetricValueList
	if err != nil || json.Unmarshal(data, &list) != nil {
		return
	}
	for i := range list.Items {
		item := &list.Items[i]
		container := ""
		if item.Metric.Selector != nil {
			container = item.Metric.Selector.MatchLabels[kubemetrics.LabelContainer]
		}
		take(item.DescribedObject.Name, container, item.Value.AsApproximateFloat64())
	}
}

// add adds it to a container's sample. Where the peak of the container is not known, as of agents and a role metrics of an older version, that of the whole pod counts where it has one container.
func (b measuredPod) add(c *vpa.Container, containers int) {
	peak, known := b.peaks[c.Name]
	if !known && containers == 1 {
		peak = b.peak
	}
	if c.Use.Memory >= 0 {
		c.Use.Memory = max(c.Use.Memory, peak)
	}
	c.Throttled, c.ThrottledKnown = b.throttled, b.throttledKnown
}
