package hollow

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"hilbert.dev/hilbert/lab/controlplane"
)

// patience bounds every wait; it is no measure of speed.
const patience = 60 * time.Second

// admin reaches the control plane that all tests of the package share.
var admin *rest.Config

func TestMain(m *testing.M) { os.Exit(withPlane(m)) }

func withPlane(m *testing.M) int {
	plane, err := controlplane.Start(context.Background(), controlplane.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := plane.Stop(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	admin = plane.AdminConfig()
	return m.Run()
}

func newClient(t *testing.T) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(admin)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func run(t *testing.T, o Options, shapes ...Shape) *Fleet {
	t.Helper()
	f, err := Run(t.Context(), admin, shapes, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Stop)
	return f
}

// history watches one pod and records what changed, in order.
func history(t *testing.T, client kubernetes.Interface, name string) watch.Interface {
	t.Helper()
	w, err := client.CoreV1().Pods("default").Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return w
}

// until returns what the watch told up to the first event for which done holds: one short word per event.
func until(t *testing.T, w watch.Interface, done func(watch.EventType, *corev1.Pod) bool) (words []string, last *corev1.Pod) {
	t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case event := <-w.ResultChan():
			pod, ok := event.Object.(*corev1.Pod)
			if !ok {
				t.Fatalf("watch ended after %q: %v", words, event)
			}
			word := string(pod.Status.Phase)
			if pod.Spec.NodeName != "" {
				word += "@" + pod.Spec.NodeName
			}
			if event.Type == watch.Deleted {
				word = "gone"
			}
			words = append(words, word)
			if done(event.Type, pod) {
				return words, pod
			}
		case <-deadline:
			t.Fatalf("not within %s; seen so far: %q", patience, words)
		}
	}
}

func phase(want corev1.PodPhase) func(watch.EventType, *corev1.Pod) bool {
	return func(_ watch.EventType, pod *corev1.Pod) bool { return pod.Status.Phase == want }
}

func gone(kind watch.EventType, _ *corev1.Pod) bool { return kind == watch.Deleted }

func createPod(t *testing.T, client kubernetes.Interface, name string, annotations map[string]string) {
	t.Helper()
	_, err := client.CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
		Spec:       corev1.PodSpec{SchedulerName: "nobody", Containers: []corev1.Container{{Name: "main", Image: "image:1"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func bind(t *testing.T, client kubernetes.Interface, name, node string) {
	t.Helper()
	err := client.CoreV1().Pods("default").Bind(t.Context(), &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Target: corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func wantWords(t *testing.T, got []string, want ...string) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("writes seen: got %q, want %q", got, want)
	}
}

// TestLife: one write to Running, one to Succeeded, not before its time; nothing else.
func TestLife(t *testing.T) {
	client := newClient(t)
	run(t, Options{TimeScale: 10}, Shape{Name: "life"})
	w := history(t, client, "short")
	createPod(t, client, "short", map[string]string{AnnotationRunSeconds: "15"})
	begun := time.Now() // it cannot run before; a watch may tell of Running when it is over
	bind(t, client, "short", "life")

	words, pod := until(t, w, phase(corev1.PodRunning))
	wantWords(t, words, "Pending", "Pending@life", "Running@life")
	if pod.Status.PodIP == "" || pod.Status.HostIP == "" || pod.Status.StartTime == nil {
		t.Errorf("running without addresses or start: %+v", pod.Status)
	}
	conditions := map[corev1.PodConditionType]corev1.ConditionStatus{}
	for _, c := range pod.Status.Conditions {
		conditions[c.Type] = c.Status
	}
	if conditions[corev1.PodReady] != corev1.ConditionTrue || conditions[corev1.PodScheduled] != corev1.ConditionTrue {
		t.Errorf("conditions: %v", conditions)
	}
	if s := pod.Status.ContainerStatuses; len(s) != 1 || !s[0].Ready || s[0].Name != "main" || s[0].State.Running == nil {
		t.Errorf("container: %+v", s)
	}

	words, pod = until(t, w, phase(corev1.PodSucceeded))
	wantWords(t, words, "Succeeded@life")
	// 15 s at tenfold pace.
	if lived := time.Since(begun); lived < 1500*time.Millisecond {
		t.Errorf("succeeded after %s, want 1.5 s", lived)
	}
	if s := pod.Status.ContainerStatuses; len(s) != 1 || s[0].Ready || s[0].State.Terminated == nil {
		t.Errorf("container: %+v", s)
	}
}

// TestDeletion: a pod deleted with grace goes at once. The server stores the deletion twice, once with the grace and once without.
func TestDeletion(t *testing.T) {
	client := newClient(t)
	run(t, Options{}, Shape{Name: "deletion"})
	w := history(t, client, "doomed")
	createPod(t, client, "doomed", nil)
	bind(t, client, "doomed", "deletion")
	until(t, w, phase(corev1.PodRunning))
	grace := int64(600)
	if err := client.CoreV1().Pods("default").Delete(t.Context(), "doomed", metav1.DeleteOptions{GracePeriodSeconds: &grace}); err != nil {
		t.Fatal(err)
	}
	words, _ := until(t, w, gone)
	wantWords(t, words, "Running@deletion", "Running@deletion", "gone")
}

// TestOthersAlone: pods on foreign nodes, on frozen nodes and without a node stay as they are, while one of ours runs.
func TestOthersAlone(t *testing.T) {
	client := newClient(t)
	run(t, Options{Frozen: true}, Shape{Name: "frozen"}, Shape{Name: "foreign"})
	run(t, Options{}, Shape{Name: "ours"})
	for _, name := range []string{"on-frozen", "on-foreign", "on-none", "on-ours"} {
		createPod(t, client, name, nil)
	}
	w := history(t, client, "on-ours")
	bind(t, client, "on-frozen", "frozen")
	bind(t, client, "on-foreign", "foreign")
	bind(t, client, "on-ours", "ours") // the last: when it runs, the others had their turn
	until(t, w, phase(corev1.PodRunning))
	for _, name := range []string{"on-frozen", "on-foreign", "on-none"} {
		pod, err := client.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || pod.Status.Phase != corev1.PodPending {
			t.Errorf("pod %s: %v, %v; want Pending", name, pod.Status.Phase, err)
		}
	}
}

// TestRestart: a second fleet adopts the nodes, corrects what differs from the shape and keeps what others set, and goes on with the
// pods where the first left them.
func TestRestart(t *testing.T) {
	client := newClient(t)
	shape := Shape{Name: "twice", Labels: map[string]string{"disk": "hdd"}, Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}}
	first := run(t, Options{}, shape)
	w := history(t, client, "survivor")
	createPod(t, client, "survivor", map[string]string{AnnotationRunSeconds: "2"})
	bind(t, client, "survivor", "twice")
	until(t, w, phase(corev1.PodRunning))
	first.Stop()
	cordon := []byte(`{"spec":{"unschedulable":true,"taints":[{"key":"k","effect":"NoSchedule"}]}}`)
	if _, err := client.CoreV1().Nodes().Patch(t.Context(), "twice", "application/merge-patch+json", cordon, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}

	shape.Labels["disk"] = "ssd"
	shape.Allocatable[corev1.ResourceCPU] = resource.MustParse("8")
	run(t, Options{}, shape)
	until(t, w, phase(corev1.PodSucceeded))
	node, err := client.CoreV1().Nodes().Get(t.Context(), "twice", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if node.Labels["disk"] != "ssd" || node.Status.Allocatable.Cpu().Value() != 8 {
		t.Errorf("not corrected: labels %v, CPU %v", node.Labels, node.Status.Allocatable.Cpu())
	}
	tainted := false
	for _, taint := range node.Spec.Taints {
		tainted = tainted || taint.Key == "k"
	}
	if !node.Spec.Unschedulable || !tainted {
		t.Errorf("what others set is lost: unschedulable %v, taints %v", node.Spec.Unschedulable, node.Spec.Taints)
	}
}

// TestManyPods: more pods than workers all get through, each by its own two writes.
func TestManyPods(t *testing.T) {
	client := newClient(t)
	run(t, Options{StatusWorkers: 4}, Shapes(6)...)
	const pods = 60
	for i := range pods {
		name := "many-" + strconv.Itoa(i)
		createPod(t, client, name, map[string]string{AnnotationRunSeconds: "0"})
		bind(t, client, name, fmt.Sprintf("node-%05d", i%6))
	}
	end := time.Now().Add(patience)
	for {
		list, err := client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{FieldSelector: "status.phase=Succeeded"})
		if err != nil {
			t.Fatal(err)
		}
		done := 0
		for _, pod := range list.Items {
			if len(pod.Name) > 5 && pod.Name[:5] == "many-" {
				done++
			}
		}
		if done == pods {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d of %d pods succeeded within %s", done, pods, patience)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// TestLeases: every node gets a lease and renews it.
func TestLeases(t *testing.T) {
	client := newClient(t)
	run(t, Options{LeaseInterval: 100 * time.Millisecond}, Shape{Name: "leased-a"}, Shape{Name: "leased-b"})
	for _, name := range []string{"leased-a", "leased-b"} {
		var renewed []time.Time
		for end := time.Now().Add(patience); len(renewed) < 2; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("lease of %s was renewed at %v only", name, renewed)
			}
			lease, err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(t.Context(), name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			at := lease.Spec.RenewTime.Time
			if len(renewed) == 0 || !at.Equal(renewed[len(renewed)-1]) {
				renewed = append(renewed, at)
			}
		}
	}
}

func TestShapes(t *testing.T) {
	shapes := Shapes(200)
	zones, types, names := map[string]int{}, map[string]int{}, map[string]bool{}
	gpus := 0
	for _, s := range shapes {
		names[s.Name] = true
		zones[s.Labels[corev1.LabelTopologyZone]]++
		types[s.Labels[corev1.LabelInstanceTypeStable]]++
		whole, milli := s.Allocatable[ResourceGPU], s.Allocatable[ResourceGPUMilli]
		if milli.Value() != 1000*whole.Value() {
			t.Errorf("%s: %d GPUs but %d milli", s.Name, whole.Value(), milli.Value())
		}
		if (whole.Value() > 0) != (s.Labels[LabelGPUModel] != "") {
			t.Errorf("%s: %d GPUs of model %q", s.Name, whole.Value(), s.Labels[LabelGPUModel])
		}
		if whole.Value() > 0 {
			gpus++
		}
	}
	if len(names) != 200 || len(zones) != 3 || len(types) < 4 || gpus < 10 || gpus > 50 {
		t.Errorf("%d names, zones %v, types %v, %d with GPUs", len(names), zones, types, gpus)
	}
}

func TestRunTime(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "1.5": 150 * time.Millisecond, "1e300": longestRun, "Inf": longestRun,
		"": -1, "-1": -1, "soon": -1, "NaN": -1,
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{AnnotationRunSeconds: text}}}
		got, finite := runTime(pod, 10)
		if !finite {
			got = -1
		}
		if got != want {
			t.Errorf("%q at tenfold pace: got %s, want %s", text, got, want)
		}
	}
	if _, finite := runTime(&corev1.Pod{}, 1); finite {
		t.Error("a pod without the annotation has an end")
	}
}
