package autoscale

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/control/metrics"
)

// scaled is a Deployment whose autoscaler goes by one metric.
type scaled struct {
	name   string
	metric autoscalingv2.MetricSpec
}

func average(q string) autoscalingv2.MetricTarget {
	return autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: new(resource.MustParse(q))}
}

func atMost(q string) autoscalingv2.MetricTarget {
	return autoscalingv2.MetricTarget{Type: autoscalingv2.ValueMetricType, Value: new(resource.MustParse(q))}
}

func ofPods(name, metric, target string) scaled {
	return scaled{name, autoscalingv2.MetricSpec{Type: autoscalingv2.PodsMetricSourceType, Pods: &autoscalingv2.PodsMetricSource{
		Metric: autoscalingv2.MetricIdentifier{Name: metric}, Target: average(target),
	}}}
}

func external(name, metric string, target autoscalingv2.MetricTarget) scaled {
	return scaled{name, autoscalingv2.MetricSpec{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{
		Metric: autoscalingv2.MetricIdentifier{Name: metric, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"workload": name}}}, Target: target,
	}}}
}

func ofDeployment(name, metric string, target autoscalingv2.MetricTarget) scaled {
	return scaled{name, autoscalingv2.MetricSpec{Type: autoscalingv2.ObjectMetricSourceType, Object: &autoscalingv2.ObjectMetricSource{
		DescribedObject: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: name},
		Metric:          autoscalingv2.MetricIdentifier{Name: metric}, Target: target,
	}}}
}

// all are the metrics, each with a target that busy exceeds and idle is well below.
var (
	all = []scaled{
		ofPods("pods-cpu", "hilbert_cpu_use", "500m"),
		ofPods("pods-delay", "hilbert_run_delay", "100m"),
		ofPods("pods-cpu-pressure", "hilbert_cpu_pressure", "100m"),
		ofPods("pods-memory-pressure", "hilbert_memory_pressure", "100m"),
		ofPods("pods-io-pressure", "hilbert_io_pressure", "100m"),
		ofPods("pods-memory-peak", "hilbert_memory_peak", "100Mi"),
		external("cpu", "hilbert_cpu_use", average("500m")),
		external("delay", "hilbert_run_delay", atMost("100m")),
		external("delay-p95", "hilbert_run_delay_p95", atMost("100m")),
		external("cpu-pressure", "hilbert_cpu_pressure", atMost("100m")),
		external("memory-pressure", "hilbert_memory_pressure", atMost("100m")),
		external("io-pressure", "hilbert_io_pressure", atMost("100m")),
		external("memory-peak", "hilbert_memory_peak", atMost("100Mi")),
		external("forecast", "hilbert_cpu_use_forecast", average("500m")),
		external("planned", "hilbert_planned_load", average("1")),
		ofDeployment("object-cpu", "hilbert_cpu_use", average("500m")),
	}
	busy = map[metrics.Metric]float64{
		metrics.CPUUse: 2, metrics.RunDelay: 0.4, metrics.CPUPressure: 0.4, metrics.MemoryPressure: 0.4, metrics.IOPressure: 0.4, metrics.Memory: 400 << 20,
	}
	idle = map[metrics.Metric]float64{
		metrics.CPUUse: 0.01, metrics.RunDelay: 0.001, metrics.CPUPressure: 0.001, metrics.MemoryPressure: 0.001, metrics.IOPressure: 0.001, metrics.Memory: 1 << 20,
	}
)

const most = 3 // replicas

// deploy makes a Deployment of one pod, and its autoscaler.
func (b *bed) deploy(i int, s scaled) {
	b.t.Helper()
	labels := map[string]string{"app": s.name}
	_, err := b.admin.AppsV1().Deployments(metav1.NamespaceDefault).Create(b.t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: s.name},
		Spec: appsv1.DeploymentSpec{Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{NodeName: fmt.Sprintf("n%d", i%2), Containers: []corev1.Container{{Name: "main", Image: "main"}}},
		}},
	}, metav1.CreateOptions{})
	b.must(err)
	behavior := &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleDown: &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: new(int32(0))}}
	_, err = b.admin.AutoscalingV2().HorizontalPodAutoscalers(metav1.NamespaceDefault).Create(b.t.Context(), &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: s.name},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: s.name}, MinReplicas: new(int32(1)), MaxReplicas: most,
			Metrics: []autoscalingv2.MetricSpec{s.metric}, Behavior: behavior,
		},
	}, metav1.CreateOptions{})
	b.must(err)
}

// each waits until something holds of every Deployment.
func (b *bed) each(what string, check func(name string) error) {
	b.t.Helper()
	for _, s := range all {
		b.eventually(s.name+" "+what, func() error { return check(s.name) })
	}
}

func (b *bed) wantReplicas(want int32) func(name string) error {
	return func(name string) error {
		if got := b.replicas(name); got != want {
			h := b.autoscaler(name)
			return fmt.Errorf("%d replicas, want %d: %+v", got, want, h.Status)
		}
		return nil
	}
}

// blind is an error until the autoscaler says that it does not know its metric.
func (b *bed) blind(name string) error {
	for _, c := range b.autoscaler(name).Status.Conditions {
		if c.Type == autoscalingv2.ScalingActive && c.Status == corev1.ConditionFalse && strings.HasPrefix(c.Reason, "FailedGet") {
			return nil
		}
	}
	return fmt.Errorf("%+v", b.autoscaler(name).Status)
}

// hold checks for so many rounds of the autoscalers that nothing shrinks.
func (b *bed) hold(why string, rounds int, but string) {
	b.t.Helper()
	for range rounds {
		time.Sleep(time.Second)
		for _, s := range all {
			if got := b.replicas(s.name); got != most && s.name != but {
				b.t.Fatalf("%s: %s has %d replicas, had %d: %+v", why, s.name, got, most, b.autoscaler(s.name).Status)
			}
		}
	}
}

// TestAutoscalers: each metric scales a Deployment up. Whether agents fall silent, the role is ended, or it begins anew and knows nothing, nobody shrinks. When low values come, all do.
func TestAutoscalers(t *testing.T) {
	if testing.Short() { // one of each type, and what is special
		all = slices.DeleteFunc(slices.Clone(all), func(s scaled) bool {
			return !slices.Contains([]string{"pods-delay", "pods-memory-peak", "delay-p95", "forecast", "planned", "object-cpu"}, s.name)
		})
	}
	b := newBed(t)
	// The peak has begun, whatever the time is, and lasts for the whole test; without it, nothing is planned.
	peak := spec.PlannedPeak{Name: "test", Namespace: metav1.NamespaceDefault, Workload: "planned", Schedule: "* * * * *", Duration: spec.Duration(time.Hour), Load: 3}
	over := peak
	over.Schedule = "0 0 1 1 *"
	if now := time.Now().UTC(); now.YearDay() == 1 {
		over.Schedule = "0 0 1 7 *"
	}
	b.start(peak)
	b.agent("n0")
	b.agent("n1")
	b.say(busy)
	b.route()
	for i, s := range all {
		b.deploy(i, s)
	}
	b.each("scales up", b.wantReplicas(most))

	b.silence()
	b.each("knows nothing, for agents are silent", func(name string) error {
		if name == "planned" { // that needs no agent
			return nil
		}
		return b.blind(name)
	})
	b.hold("agents are silent", 3, "")

	b.stop()
	b.each("knows nothing, for the role has ended", b.blind)
	b.hold("the role has ended", 3, "")

	b.start(over)
	b.each("knows nothing, for the role has just begun", func(name string) error {
		if name == "planned" {
			return b.wantReplicas(1)(name) // between peaks the load is known to be 0
		}
		return b.blind(name)
	})
	b.hold("the role has begun", 3, "planned")

	b.say(idle)
	b.each("scales down, for it is told so", b.wantReplicas(1))
	b.strangers()
}

// strangers: who may not read metrics does not; the controller's own account may.
func (b *bed) strangers() {
	b.t.Helper()
	path := "/apis/external.metrics.k8s.io/v1beta1/namespaces/default/hilbert_cpu_use?labelSelector=workload%3Dforecast"
	for user, want := range map[string]int{"system:serviceaccount:kube-system:horizontal-pod-autoscaler": http.StatusOK, "system:serviceaccount:default:default": http.StatusForbidden} {
		config := rest.CopyConfig(b.plane.AdminConfig())
		config.Impersonate = rest.ImpersonationConfig{UserName: user}
		client, err := rest.HTTPClientFor(config)
		b.must(err)
		request, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, config.Host+path, http.NoBody)
		b.must(err)
		response, err := client.Do(request)
		b.must(err)
		b.must(response.Body.Close())
		if response.StatusCode != want {
			b.t.Errorf("%s gets %d, want %d", user, response.StatusCode, want)
		}
	}
}
