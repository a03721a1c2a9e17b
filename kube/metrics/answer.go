package metrics

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	customv1beta2 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	externalv1beta1 "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"

	"hilbert.dev/hilbert/control/metrics"
)

// The labels by which an external metric is selected.
const (
	LabelWorkload = "workload"
	LabelKind     = "kind"
	labelSource   = "source"
)

// LabelContainer is the label by which a metric of containers is selected.
const LabelContainer = "container"

// workloadOfSelector reads which workload a selector names.
func workloadOfSelector(text string) (w metrics.Workload, err error) {
	const want = "want the selector workload=NAME, and kind=StatefulSet and the like for what is no Deployment"
	selector, err := labels.Parse(text)
	if err != nil {
		return w, badRequest("labelSelector: %v; %s", err, want)
	}
	w.Kind = "Deployment"
	requirements, _ := selector.Requirements()
	for _, r := range requirements {
		values := r.Values().UnsortedList()
		exactly := r.Operator() == selection.Equals || r.Operator() == selection.DoubleEquals || r.Operator() == selection.In
		if len(values) != 1 || !exactly {
			return w, badRequest("labelSelector: %s; %s", r.String(), want)
		}
		switch r.Key() {
		case LabelWorkload:
			w.Name = values[0]
		case LabelKind:
			w.Kind = values[0]
		default:
			return w, badRequest("labelSelector: no metric has the label %s; %s", r.Key(), want)
		}
	}
	if w.Name == "" {
		return w, badRequest("labelSelector: %q names no workload; %s", text, want)
	}
	return w, nil
}

// containersOf reads which containers a metric's selector selects. Who wants all of them says so with the selector "container": an autoscaler that gives none takes one value for each pod, and
// would get any.
func containersOf(text string, n *metrics.Name) (labels.Selector, error) {
	if !n.OfContainers {
		if text != "" {
			return nil, badRequest("%s has no labels; leave the metric's selector out", n.Name)
		}
		return labels.Nothing(), nil
	}
	const want = "want the metric's selector container=NAME, or container for all of them"
	selector, err := labels.Parse(text)
	if err != nil {
		return nil, badRequest("metricLabelSelector: %v; %s", err, want)
	}
	requirements, _ := selector.Requirements()
	for _, r := range requirements {
		if r.Key() != LabelContainer {
			return nil, badRequest("metricLabelSelector: %s has no label %s; %s", n.Name, r.Key(), want)
		}
	}
	if len(requirements) == 0 {
		return nil, badRequest("metricLabelSelector: %s is of containers; %s", n.Name, want)
	}
	return selector, nil
}

func quantity(v *metrics.Value, n *metrics.Name) resource.Quantity {
	if n.Metric.Millionths() {
		return *resource.NewScaledQuantity(v.Amount, resource.Micro)
	}
	return *resource.NewQuantity(v.Amount, resource.BinarySI)
}

func customValue(v *metrics.Value, n *metrics.Name, kind schema.GroupVersionKind, namespace, name string) customv1beta2.MetricValue {
	version, kindName := kind.ToAPIVersionAndKind()
	seconds := int64(v.Window.Seconds())
	return customv1beta2.MetricValue{
		DescribedObject: corev1.ObjectReference{APIVersion: version, Kind: kindName, Namespace: namespace, Name: name},
		Metric:          customv1beta2.MetricIdentifier{Name: n.Name}, Timestamp: metav1.NewTime(v.At), WindowSeconds: &seconds, Value: quantity(v, n),
	}
}

func externalValue(v *metrics.Value, n *metrics.Name, w metrics.Workload) externalv1beta1.ExternalMetricValue {
	seconds := int64(v.Window.Seconds())
	out := externalv1beta1.ExternalMetricValue{
		MetricName: n.Name, MetricLabels: map[string]string{LabelWorkload: w.Name, LabelKind: w.Kind}, Timestamp: metav1.NewTime(v.At), WindowSeconds: &seconds, Value: quantity(v, n),
	}
	if v.Why != "" {
		out.MetricLabels[labelSource] = v.Why
	}
	return out
}
