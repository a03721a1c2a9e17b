package vpa

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/control/recommend"
	"hilbert.dev/hilbert/control/vpa"
)

// answers is a getter that has answers by the ends of paths.
type answers map[string]string

func (a answers) get(_ context.Context, path string, query map[string]string) ([]byte, error) {
	asked := path
	for key, value := range query {
		asked += "?" + key + "=" + value
	}
	for end, text := range a {
		if strings.HasSuffix(path, end) || strings.HasSuffix(asked, end) {
			return []byte(text), nil
		}
	}
	return nil, errors.New("there is no such API")
}

// TestMeasured: what agents measure counts beside samples; a peak is of a container, or of a whole pod, which counts where it has one container; what is not there is not known.
func TestMeasured(t *testing.T) {
	value := func(of, is string) string {
		return `{"items": [{"describedObject": {"name": "web-0"}, "metric": {"name": "` + of + `"}, "value": "` + is + `"}]}`
	}
	const peaks = `{"items": [
		{"describedObject": {"name": "pair-0"}, "metric": {"name": "x", "selector": {"matchLabels": {"container": "app"}}}, "value": "800Mi"},
		{"describedObject": {"name": "pair-0"}, "metric": {"name": "x", "selector": {"matchLabels": {"container": "log"}}}, "value": "10Mi"}]}`
	seen := measured{answers{
		"/namespaces/shop/pods/*/" + containerPeak + "?metricLabelSelector=container": peaks,
		"/namespaces/shop/pods/*/" + memoryPeak:                                       value(memoryPeak, "900Mi"), "/namespaces/shop/pods/*/" + throttled: value(throttled, "250m"),
	}}.seen(t.Context(), "shop")
	use := recommend.Sample{CPU: 1, Memory: 600 << 20}
	for _, x := range []struct {
		pod, name  string
		containers int
		memory     float64
		known      bool
	}{
		{"web-0", "app", 1, 900 << 20, true},
		{"web-0", "app", 2, 600 << 20, true},
		{"web-1", "app", 1, 600 << 20, false},
		{"pair-0", "app", 2, 800 << 20, false},
		{"pair-0", "log", 2, 600 << 20, false},
		{"pair-0", "other", 3, 600 << 20, false},
	} {
		c := vpa.Container{Name: x.name, Use: use}
		seen[x.pod].add(&c, x.containers)
		if c.Use.Memory != x.memory || c.ThrottledKnown != x.known || x.known && c.Throttled != 0.25 {
			t.Errorf("pod %s of %d containers: %+v", x.pod, x.containers, c)
		}
	}
	unknown := vpa.Container{Use: recommend.Sample{CPU: -1, Memory: -1}}
	seen["web-0"].add(&unknown, 1)
	if unknown.Use.Memory != -1 {
		t.Errorf("a peak without a sample: %+v", unknown.Use)
	}
	if none := (measured{answers{}}).seen(t.Context(), "shop"); len(none) > 0 {
		t.Errorf("without the API: %v", none)
	}
}

// TestHolds: a reclaimed pod holds what it was promised; where that is not to be read, what it asks for.
func TestHolds(t *testing.T) {
	p := corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		spec.ResourceReclaimedCPU: resource.MustParse("1500"), spec.ResourceReclaimedMemory: resource.MustParse("1Gi"),
	}}}}}}
	if got, want := holds(&p), (recommend.Amounts{CPU: 1.5, Memory: 1 << 30}); got != want {
		t.Errorf("it asks for %v, want %v", got, want)
	}
	p.ObjectMeta = metav1.ObjectMeta{Annotations: map[string]string{spec.AnnotationReclaimed: "500m/256Mi"}}
	if got, want := holds(&p), (recommend.Amounts{CPU: 0.5, Memory: 256 << 20}); got != want {
		t.Errorf("it was promised %v, want %v", got, want)
	}
}

// TestLenders: what labelled pods hold counts on nodes that have any; elsewhere what agents say, for pods that are reclaimed by Katalyst's annotation are in no list.
func TestLenders(t *testing.T) {
	pod := func(node string, phase corev1.PodPhase) corev1.Pod {
		return corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{spec.AnnotationReclaimed: "500m/256Mi"}},
			Spec:       corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: phase},
		}
	}
	lends := func(lent int64) *spec.Colocation {
		return &spec.Colocation{Headroom: spec.ReclaimedAmounts{MilliCPU: 6000, MemoryMiB: 1024}, Lent: spec.ReclaimedAmounts{MilliCPU: lent}}
	}
	got := lendersOf(
		[]corev1.Pod{pod("labelled", corev1.PodRunning), pod("labelled", corev1.PodPending), pod("silent", corev1.PodRunning), pod("", corev1.PodPending), pod("idle", corev1.PodSucceeded)},
		map[string]*spec.Colocation{"labelled": lends(4000), "annotated": lends(4000), "idle": lends(0)})
	headroom, held := recommend.Amounts{CPU: 6, Memory: 1 << 30}, recommend.Amounts{CPU: 0.5, Memory: 256 << 20}
	want := map[string]vpa.Lender{
		"labelled":  {Held: recommend.Amounts{CPU: 1, Memory: 512 << 20}, Headroom: headroom, Known: true},
		"annotated": {Held: recommend.Amounts{CPU: 4}, Headroom: headroom, Known: true},
		"silent":    {Held: held},
	}
	if !maps.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
