package hollow

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

func quantities(pairs ...string) corev1.ResourceList {
	list := make(corev1.ResourceList)
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

// place creates a pod that is bound from the start, and returns how its status came out.
func place(t *testing.T, node, name string, requests corev1.ResourceList, change func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	client := newClient(t)
	w := history(t, client, name)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{
			Name: "main", Image: "image:1", Resources: corev1.ResourceRequirements{Requests: requests, Limits: requests},
		}}},
	}
	if change != nil {
		change(pod)
	}
	if _, err := client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, last := until(t, w, func(_ watch.EventType, pod *corev1.Pod) bool {
		return pod.Status.Phase != corev1.PodPending && pod.Status.Phase != ""
	})
	return last
}

// A strict node refuses what does not fit beside what runs, and takes it when there is room.
func TestStrictAdmission(t *testing.T) {
	client := newClient(t)
	run(t, Options{Strict: true}, Shape{Name: "strict", Allocatable: quantities("cpu", "4", "memory", "8Gi", "ephemeral-storage", "10Gi", "example.com/thing", "2")})
	port := func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
	}
	for _, c := range []struct {
		name     string
		requests corev1.ResourceList
		change   func(*corev1.Pod)
		want     string // reason; "": it runs
	}{
		{"strict-first", quantities("cpu", "3", "ephemeral-storage", "6Gi"), port, ""},
		{"strict-cpu", quantities("cpu", "2"), nil, "OutOfcpu"},
		{"strict-disk", quantities("ephemeral-storage", "6Gi"), nil, "OutOfephemeral-storage"},
		{"strict-thing", quantities("example.com/thing", "3"), nil, "OutOfexample.com/thing"},
		{"strict-overhead", quantities("cpu", "500m"), func(pod *corev1.Pod) { pod.Spec.Overhead = quantities("cpu", "750m") }, "OutOfcpu"},
		{"strict-elsewhere", quantities("example.com/unknown", "1"), nil, ""}, // somebody else's business
		{"strict-port", nil, port, "NodePorts"},
		{"strict-label", nil, func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{"a": "b"} }, "NodeAffinity"},
		{"strict-fits", quantities("cpu", "1"), nil, ""},
	} {
		if c.change != nil && c.name == "strict-overhead" {
			continue // the API server takes an overhead from a RuntimeClass alone; TestJudge has it
		}
		pod := place(t, "strict", c.name, c.requests, c.change)
		phase := corev1.PodRunning
		if c.want != "" {
			phase = corev1.PodFailed
		}
		if pod.Status.Phase != phase || pod.Status.Reason != c.want {
			t.Errorf("%s: %s, %q, %s; want %q", c.name, pod.Status.Phase, pod.Status.Reason, pod.Status.Message, c.want)
		}
	}
	w := history(t, client, "strict-first")
	if err := client.CoreV1().Pods("default").Delete(t.Context(), "strict-first", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, w, gone)
	if pod := place(t, "strict", "strict-second", quantities("cpu", "3"), port); pod.Status.Phase != corev1.PodRunning {
		t.Errorf("where a pod has left: %s, %s", pod.Status.Phase, pod.Status.Message)
	}
}

func TestJudge(t *testing.T) {
	node := &corev1.Node{Status: corev1.NodeStatus{Allocatable: quantities("cpu", "4", "pods", "10")}}
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		Overhead: quantities("cpu", "750m"), Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: quantities("cpu", "3500m")}}},
	}}
	if why := judge(pod, node, nil); why == nil || why.reason != "OutOfcpu" {
		t.Errorf("the overhead of a pod counts: %+v", why)
	}
	pod.Spec.Overhead = nil
	if why := judge(pod, node, nil); why != nil {
		t.Errorf("without overhead it fits: %+v", why)
	}
}

// Extended resources appear in allocatable when somebody puts them into capacity, and go with them.
func TestStrictCopiesCapacity(t *testing.T) {
	client := newClient(t)
	run(t, Options{Strict: true}, Shape{Name: "copies", Allocatable: quantities("cpu", "4")})
	for _, c := range []struct {
		patch string
		want  int64
	}{
		{`{"status": {"capacity": {"example.com/thing": "5"}}}`, 5},
		{`{"status": {"capacity": {"example.com/thing": "7"}}}`, 7},
		{`{"status": {"capacity": {"example.com/thing": null}}}`, 0},
	} {
		if _, err := client.CoreV1().Nodes().Patch(t.Context(), "copies", types.StrategicMergePatchType, []byte(c.patch), metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
			node, err := client.CoreV1().Nodes().Get(t.Context(), "copies", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			has, set := node.Status.Allocatable["example.com/thing"]
			if has.Value() == c.want && set == (c.want > 0) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("after %s allocatable is %v", c.patch, node.Status.Allocatable)
			}
		}
	}
}

// A pod that is being deleted stays for the sleep of its preStop hook, and never longer than its grace period.
func TestUntilStopped(t *testing.T) {
	now := time.Now()
	pod := func(sleep, grace int64, asked time.Duration) *corev1.Pod {
		deletion := metav1.NewTime(now.Add(-asked).Add(time.Duration(grace) * time.Second))
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &deletion, DeletionGracePeriodSeconds: &grace}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
		p.Spec.Containers = []corev1.Container{{}, {Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: sleep}}}}}
		return p
	}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want time.Duration
	}{
		"the hook":             {pod(79, 80, 0), 79 * time.Second},
		"what is left of it":   {pod(79, 80, 70*time.Second), 9 * time.Second},
		"the grace period":     {pod(79, 30, 0), 30 * time.Second},
		"a hook that is over":  {pod(5, 80, 6*time.Second), -time.Second},
		"a pod that ended":     {func() *corev1.Pod { p := pod(79, 80, 0); p.Status.Phase = corev1.PodSucceeded; return p }(), 0},
		"a pod without a hook": {func() *corev1.Pod { p := pod(79, 80, 0); p.Spec.Containers = nil; return p }(), 0},
	} {
		if got := untilStopped(c.pod, now); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
