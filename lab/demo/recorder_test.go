package demo

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"hilbert.dev/hilbert/lab/hollow"
	"hilbert.dev/hilbert/lab/report"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func second(s float64) time.Time { return epoch.Add(time.Duration(s * float64(time.Second))) }

// testPod asks for 2 cores, 1 GiB, one and a half GPUs' worth and is offline work that ends.
func testPod(name, node string, phase corev1.PodPhase) *corev1.Pod {
	requests := corev1.ResourceList{
		"cpu": resource.MustParse("2"), "memory": resource.MustParse("1Gi"), "nvidia.com/gpu": resource.MustParse("1"), "hilbert.dev/gpu-milli": resource.MustParse("500"),
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "default", UID: types.UID(name), Labels: map[string]string{labelApp: "etl", labelWork: offline},
			Annotations: map[string]string{hollow.AnnotationRunSeconds: "9"},
		},
		Spec:   corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: requests}}}},
		Status: corev1.PodStatus{Phase: phase},
	}
}

func testRecorder() *recorder {
	return newRecorder([]hollow.Shape{{Name: "a"}, {Name: "b"}}, epoch)
}

func check[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestRecorderFollowsAPod(t *testing.T) {
	r := testRecorder()
	one := report.Amount{CPU: 2000, Memory: 1 << 30, GPU: 1500}
	r.observe(testPod("p", "", corev1.PodPending), second(1))
	check(t, "created", r.sample(second(1)), report.Sample{At: time.Second, Created: 1, Pending: 1})
	r.observe(testPod("p", "b", corev1.PodPending), second(1.25))
	check(t, "bound", r.sample(second(2)), report.Sample{At: 2 * time.Second, Created: 1, Bound: 1, Offline: one})
	r.observe(testPod("p", "b", corev1.PodRunning), second(3))
	check(t, "running", r.sample(second(3)), report.Sample{At: 3 * time.Second, Created: 1, Bound: 1, Running: 1, Offline: one})
	check(t, "finite", r.finite, 1)
	check(t, "node b", r.use[1], report.Use{Offline: one, Pods: 1})
	r.observe(testPod("p", "b", corev1.PodSucceeded), second(12))
	check(t, "succeeded", r.sample(second(12)), report.Sample{At: 12 * time.Second, Created: 1, Bound: 1, Succeeded: 1})
	check(t, "finite", r.finite, 0)
	check(t, "node b at the end", r.use[1], report.Use{})
	check(t, "node b at the fullest", r.fullest[1], report.Use{Offline: one, Pods: 1})
	check(t, "fullest at", r.fullestAt, 2*time.Second)
	check(t, "waits", fmt.Sprint(r.waits), "[250ms]")
	check(t, "bound at", fmt.Sprint(r.boundAt), "[1.25s]")
	check(t, "workload", *r.works["etl"], report.Workload{Name: "etl", Offline: true, Each: one, Created: 1, Bound: 1, Finished: 1})
	r.remove("p", second(13))
	check(t, "deleted", r.sample(second(13)), report.Sample{At: 13 * time.Second, Created: 1, Bound: 1, Succeeded: 1})
}

func TestRecorderSurvivesALostWatch(t *testing.T) {
	r := testRecorder()
	for _, name := range []string{"waits", "runs", "ends"} {
		r.observe(testPod(name, "", corev1.PodPending), second(0))
	}
	r.observe(testPod("runs", "a", corev1.PodRunning), second(1))
	r.observe(testPod("ends", "a", corev1.PodRunning), second(1))
	f := &feed{recorder: r, synced: make(chan struct{})}
	// While nobody watched: "waits" was deleted, "ends" has succeeded, "new" came, was bound and ran.
	list := []any{testPod("runs", "a", corev1.PodRunning), testPod("ends", "a", corev1.PodSucceeded), testPod("new", "b", corev1.PodRunning)}
	for range 2 { // telling it twice changes nothing
		if err := f.Replace(list, "7"); err != nil {
			t.Fatal(err)
		}
	}
	now := r.sample(second(0))
	check(t, "counts", fmt.Sprint(now.Created, now.Bound, now.Pending, now.Running, now.Succeeded), "4 3 0 2 1")
	check(t, "cpu", now.Offline.CPU, 4000)
	check(t, "unsaid", r.unsaid, 0)
	check(t, "unseen", r.unseen, 1)
	check(t, "waits measured", len(r.waits), 2)
}

func TestRecorderNeverGoesBack(t *testing.T) {
	r := testRecorder()
	r.observe(testPod("p", "a", corev1.PodSucceeded), second(1))
	r.observe(testPod("p", "a", corev1.PodRunning), second(2))
	now := r.sample(second(2))
	check(t, "counts", fmt.Sprint(now.Bound, now.Running, now.Succeeded, now.Offline.CPU, r.finite), "1 0 1 0 0")
}

func condition(pod *corev1.Pod, reason, message string) *corev1.Pod {
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason, Message: message}}
	return pod
}

func TestUnplacedGroupsByWhatTheSchedulerSaid(t *testing.T) {
	r := testRecorder()
	for _, name := range []string{"c", "b", "d"} {
		r.observe(condition(testPod(name, "", corev1.PodPending), "Unschedulable", "too big"), second(1))
	}
	r.observe(testPod("quiet", "", corev1.PodPending), second(1))
	r.observe(condition(testPod("lucky", "", corev1.PodPending), "Unschedulable", "too big"), second(1))
	r.observe(testPod("lucky", "a", corev1.PodPending), second(2))
	got := r.unplaced()
	want := []report.Unplaced{
		{Reason: "Unschedulable", Message: "too big", Pods: 3, Example: "default/b"},
		{Pods: 1, Example: "default/quiet"},
	}
	check(t, "unplaced", fmt.Sprint(got), fmt.Sprint(want))
}

func TestSamplesAreBounded(t *testing.T) {
	r := testRecorder()
	r.observe(testPod("p", "", corev1.PodPending), second(0))
	for i := range 20 * maxSamples {
		at := second(float64(i) / 4)
		switch i {
		case 4001:
			r.observe(testPod("p", "a", corev1.PodRunning), at)
		case 4099:
			r.observe(testPod("p", "a", corev1.PodSucceeded), at)
		}
		r.sample(at)
	}
	if n := len(r.samples); n > maxSamples || n < maxSamples/4 {
		t.Errorf("%d samples are kept, want at most %d and not far fewer", n, maxSamples)
	}
	kept := false
	for i, s := range r.samples {
		if i > 0 && s.At <= r.samples[i-1].At {
			t.Fatalf("sample %d at %s follows one at %s", i, s.At, r.samples[i-1].At)
		}
		kept = kept || s.At == r.fullestAt && s.Offline.CPU == 2000
	}
	if !kept {
		t.Errorf("the sample of the fullest moment, %s, was dropped", r.fullestAt)
	}
}

// someWork is work of n pods.
type someWork struct {
	*replay
	n    int
	ends bool
}

func (w someWork) pods() int        { return w.n }
func (w someWork) awaitsEnds() bool { return w.ends }

func TestSettled(t *testing.T) {
	all, replayed := someWork{n: 2, ends: true}, someWork{n: 2}
	r := testRecorder()
	r.observe(testPod("p", "a", corev1.PodRunning), second(0))
	check(t, "one of two pods is there", r.settled(second(900), all), false)
	r.observe(testPod("q", "", corev1.PodPending), second(10))
	check(t, "a pod still runs", r.settled(second(900), all), false)
	check(t, "just now nothing was said", r.settled(second(11), replayed), false)
	check(t, "nothing was said for long", r.settled(second(10).Add(silence), replayed), true)
	r.observe(condition(testPod("q", "", corev1.PodPending), "Unschedulable", "no room"), second(20))
	check(t, "what runs may yet make room", r.settled(second(10).Add(quietReplay-time.Second), replayed), false)
	check(t, "no room was made for long", r.settled(second(10).Add(quietReplay), replayed), true)
	r.observe(testPod("p", "a", corev1.PodSucceeded), second(60))
	check(t, "the scheduler may just be retrying", r.settled(second(60).Add(quiet-time.Second), all), false)
	check(t, "all is said and quiet", r.settled(second(60).Add(quiet), all), true)
	r.observe(testPod("q", "b", corev1.PodSucceeded), second(70))
	check(t, "all have ended", r.settled(second(70), all), true)
}

func TestDigested(t *testing.T) {
	r := testRecorder()
	for i := range backlog + 1 {
		r.observe(testPod(fmt.Sprint(i), "", corev1.PodPending), second(10))
	}
	check(t, "not all are there", r.digested(second(99), backlog+2), false)
	check(t, "many wait", r.digested(second(10.5), backlog+1), false)
	r.observe(testPod("0", "a", corev1.PodPending), second(10.5))
	check(t, "few wait", r.digested(second(10.5), backlog+1), true)
	r.observe(testPod("late", "", corev1.PodPending), second(11))
	check(t, "one was just bound", r.digested(second(11.2), backlog+2), false)
	check(t, "the rest waits for room", r.digested(second(12.5), backlog+2), true)
}
