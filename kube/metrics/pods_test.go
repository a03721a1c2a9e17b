package metrics

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/control/metrics"
)

func podRef(p *metrics.Pod) spec.PodRef {
	return spec.PodRef{Namespace: p.Namespace, Name: p.Name, UID: p.UID}
}

func TestWorkloadsOfPods(t *testing.T) {
	for _, c := range []struct {
		kind, name, hash string
		want             metrics.Workload
	}{
		{"ReplicaSet", "web-7d9f", "7d9f", metrics.Workload{Namespace: "shop", Kind: "Deployment", Name: "web"}},
		{"ReplicaSet", "web-7d9f", "", metrics.Workload{Namespace: "shop", Kind: "ReplicaSet", Name: "web-7d9f"}},
		{"ReplicaSet", "web-7d9f", "other", metrics.Workload{Namespace: "shop", Kind: "ReplicaSet", Name: "web-7d9f"}},
		{"StatefulSet", "db", "", metrics.Workload{Namespace: "shop", Kind: "StatefulSet", Name: "db"}},
		{"", "", "", metrics.Workload{}},
	} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Labels: map[string]string{"pod-template-hash": c.hash}}}
		if c.kind != "" {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: c.kind, Name: c.name, Controller: new(true)}}
		}
		if got := podOf(p).Workload; got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func TestPodsThatRun(t *testing.T) {
	began := metav1.NewTime(time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC))
	p := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &began}}
	if got := podOf(p).Running; !got.Equal(began.Time) {
		t.Errorf("runs since %s", got)
	}
	p.DeletionTimestamp = &began
	if got := podOf(p).Running; !got.IsZero() {
		t.Errorf("is being deleted, and runs since %s", got)
	}
	p.DeletionTimestamp, p.Status.Phase = nil, corev1.PodPending
	if got := podOf(p).Running; !got.IsZero() {
		t.Errorf("waits, and runs since %s", got)
	}
}

func TestHolders(t *testing.T) {
	for text, want := range map[string]Holder{
		`{"spec":{"service":{"namespace":"hilbert-system","name":"hilbert-metrics"}}}`: Ours, `{"spec":{"service":{"namespace":"keda","name":"keda-metrics"}}}`: "keda/keda-metrics", `{"spec":{}}`: "kube-apiserver",
	} {
		if got, err := HolderOf([]byte(text)); err != nil || got != want {
			t.Errorf("%s: %q %v", text, got, err)
		}
	}
}
