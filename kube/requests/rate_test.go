package requests

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/control/request"
	"hilbert.dev/hilbert/kube/lease"
	"hilbert.dev/hilbert/kube/standin"
)

// cpu is what this process has used so far.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkContainers asks for containers by ten requests of two hundred, and measures until all statuses say that they are Allocated: each pod is bound as it is made. CPU and allocations are those of the controller
// and the stand-in API server together, in one process.
func BenchmarkContainers(b *testing.B) {
	const requests, each = 10, 200
	var writes, pods atomic.Int64
	var used time.Duration
	for round := range b.N {
		b.StopTimer()
		server := standin.New(b)
		server.Offer(resource, v1alpha1.Version)
		server.Intercept(func(w http.ResponseWriter, q *http.Request) bool {
			if q.Method == http.MethodGet {
				return false
			}
			writes.Add(1)
			if q.Method != http.MethodPost || !strings.HasSuffix(q.URL.Path, "/pods") {
				return false
			}
			pod := &corev1.Pod{}
			if err := json.NewDecoder(q.Body).Decode(pod); err != nil {
				b.Error(err)
			}
			pod.UID, pod.CreationTimestamp, pod.Spec.NodeName = types.UID(fmt.Sprint("p", pods.Add(1))), metav1.Now(), "n1"
			server.SetPod(pod)
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusCreated)
			return true
		})
		fence := lease.NewFence(time.Hour, 5*time.Second)
		fence.Renewed(time.Now())
		c := New(server.Connection(), fence, Options{SchedulerName: "hilbert", PodsPerSecond: 10_000, Params: request.Defaults(), Timeout: 5 * time.Second}, slog.New(slog.DiscardHandler))
		ctx, cancel := contextOf(b)
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		before := cpu(b)
		b.StartTimer()
		for i := range requests {
			server.Set(standin.FromYAML(b, fmt.Sprintf(`{apiVersion: scheduling.hilbert.dev/v1alpha1, kind: ResourceRequest, metadata: {namespace: ns%d, name: words, uid: u%d-%d, generation: 1},
  spec: {template: {spec: {containers: [{name: worker, image: i, resources: {requests: {cpu: "1"}}}]}}, asks: [{name: map, count: %d}]}}`, i, round, i, each)))
		}
		allocated := func(i int) bool {
			u := server.Stored(resource, fmt.Sprint("ns", i), "words")
			s, _ := u.Object["status"].(map[string]any)
			return fmt.Sprint(s["allocated"]) == fmt.Sprint(each)
		}
		for i := range requests {
			for !allocated(i) {
				time.Sleep(5 * time.Millisecond)
			}
		}
		b.StopTimer()
		used += cpu(b) - before
		cancel()
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*requests*each)/b.Elapsed().Seconds(), "containers/s")
	b.ReportMetric(float64(used.Microseconds())/float64(b.N*requests*each), "cpu-µs/container")
	b.ReportMetric(float64(writes.Load())/float64(b.N*requests*each), "writes/container")
}
