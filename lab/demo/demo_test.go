package demo

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/lab/report"
)

// testLab runs work on a real control plane and stops it at the end of the test.
func testLab(t *testing.T, o Options) *Lab {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	o.Progress = os.Stderr
	l, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return l
}

// TestDemo runs the whole demo on 50 nodes, and then asks the API server itself whether what the report says is so. Upstream's
// controllers start only once in a process, so no other test may ask for them.
func TestDemo(t *testing.T) {
	work, err := Manifests(50)
	if err != nil {
		t.Fatal(err)
	}
	l := testLab(t, Options{Work: work, Timeout: 5 * time.Minute, RunScale: 4})
	run, err := l.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pods, err := l.client.CoreV1().Pods(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	summary := report.Summarise(run)
	check(t, "pods that exist", len(pods.Items), work.pods())
	count := map[string]int{}
	for i := range pods.Items {
		p := &pods.Items[i]
		fits := p.Labels[labelApp] != "genome-assembly" && p.Labels[labelApp] != "train-h100"
		switch placed := p.Spec.NodeName != ""; {
		case placed != fits:
			t.Errorf("pod %s: on node %q, but fits somewhere: %v; %v", p.Name, p.Spec.NodeName, fits, p.Status.Conditions)
		case placed:
			count["bound"]++
			count[string(p.Status.Phase)]++
			check(t, p.Name+" is done", p.Status.Phase == corev1.PodSucceeded, p.Labels[labelWork] == offline)
			checkGPUs(t, p)
		default:
			count["pending"]++
			if reason := pendingReason(p); reason != spec.ReasonUnschedulable {
				t.Errorf("pod %s waits for the reason %q", p.Name, reason)
			}
		}
	}
	got := fmt.Sprint(summary.PodsCreated, summary.PodsBound, summary.PodsPending, summary.PodsRunning, summary.PodsSucceeded, summary.PodsFailed)
	want := fmt.Sprint(len(pods.Items), count["bound"], count["pending"], count["Running"], count["Succeeded"], 0)
	check(t, "created, bound, pending, running, succeeded, failed in the report", got, want)
	check(t, "waits measured", len(run.Waits), count["bound"])
	checkNodes(t, run, pods.Items)
	if summary.CPU.Peak < 40 { // the services alone, which stay, ask for 44
		t.Errorf("at the peak %.1f %% of the CPU were allocated, want at least 40", summary.CPU.Peak)
	}
}

// checkGPUs holds a placed pod to the annotation that says which GPUs it was given.
func checkGPUs(t *testing.T, p *corev1.Pod) {
	t.Helper()
	want := 0
	if gpu := requestOf(p).GPU; gpu > 0 {
		want = int(max(gpu/1000, 1))
	}
	got := 0
	if given := p.Annotations[spec.AnnotationGPUs]; given != "" {
		got = len(strings.Split(given, ","))
	}
	check(t, p.Name+" has GPUs", got, want)
}

func pendingReason(p *corev1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Reason
		}
	}
	return ""
}

// checkNodes compares the map at the end with sums over the API's pods, and both with what the nodes have.
func checkNodes(t *testing.T, run *report.Run, pods []corev1.Pod) {
	t.Helper()
	sums := map[string]report.Amount{}
	for i := range pods {
		if p := &pods[i]; p.Status.Phase == corev1.PodRunning {
			sums[p.Spec.NodeName] = sums[p.Spec.NodeName].Plus(requestOf(p))
		}
	}
	for _, n := range run.Nodes {
		check(t, n.Name+" holds at the end", n.Final.Total(), sums[n.Name])
		for _, use := range []report.Use{n.Fullest, n.Final} {
			if left := n.Allocatable.Minus(use.Total()); left.CPU < 0 || left.Memory < 0 || left.GPU < 0 {
				t.Errorf("node %s is over-committed: %+v of %+v", n.Name, use.Total(), n.Allocatable)
			}
		}
	}
}

func TestReplayOfATrace(t *testing.T) {
	// A hundred tasks that fit, and two that no node can hold.
	var pods strings.Builder
	pods.WriteString("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n")
	for i := range 100 {
		fmt.Fprintf(&pods, "t%d,1000,1024,%d,%d,,LS,Running,%d,%d,0\n", i, i%2, i%2*100, i, i+20)
	}
	pods.WriteString("huge,90000,1024,0,0,,LS,Running,50,60,0\nalien,1000,1024,1,500,H100,BE,Running,50,60,0\n")
	work, err := Replay(load(t, pods.String()), 20, 0)
	if err != nil {
		t.Fatal(err)
	}
	l := testLab(t, Options{Work: work, Timeout: 2 * time.Minute})
	run, err := l.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := report.Summarise(run)
	check(t, "created", s.PodsCreated, 102)
	check(t, "bound", s.PodsBound, 100)
	names := map[string]bool{}
	for _, u := range s.Unplaced {
		names[u.Example] = true
		check(t, u.Example+" waits because", u.Reason, spec.ReasonUnschedulable)
	}
	check(t, "unplaced", fmt.Sprint(names), "map[trace/alien:true trace/huge:true]")
}

// TestFullDisk lets the database fill up in mid-run: the run ends with the cause and what was seen until then.
func TestFullDisk(t *testing.T) {
	var pods strings.Builder
	pods.WriteString("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n")
	for i := range 5000 {
		fmt.Fprintf(&pods, "t%d,1,1,0,0,,LS,Running,%d,%d,0\n", i, i, i+100_000)
	}
	work, err := Replay(load(t, pods.String()), 100, 0)
	if err != nil {
		t.Fatal(err)
	}
	l := testLab(t, Options{Work: work, Timeout: 3 * time.Minute, EtcdQuotaBytes: 16 << 20})
	ballast(t, l, 6)
	run, err := l.Run(t.Context())
	if err == nil {
		t.Fatal("5,000 pods fit in a database of 16 MiB")
	}
	if run == nil {
		t.Fatalf("no partial report; the error is %v", err)
	}
	for _, word := range []string{"space"} {
		if !strings.Contains(err.Error(), word) || !strings.Contains(run.Partial, word) {
			t.Errorf("neither error nor report says %q: %v / %s", word, err, run.Partial)
		}
	}
	if s := report.Summarise(run); s.Complete || s.PodsBound == 0 || s.PodsBound == 5000 {
		t.Errorf("the report is complete (%v) or has no half-done work: %d bound", s.Complete, s.PodsBound)
	}
}

// ballast puts so many megabytes into the database.
func ballast(t *testing.T, l *Lab, megabytes int) {
	t.Helper()
	for i := range megabytes {
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("ballast-", i)}, BinaryData: map[string][]byte{"x": make([]byte, 1_000_000)}}
		if _, err := l.client.CoreV1().ConfigMaps(metav1.NamespaceDefault).Create(t.Context(), m, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}
