package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbertd/endpoints/endpointstest"
	"hilbert.dev/hilbert/cmd/hilbertd/tracing/tracingtest"
	"hilbert.dev/hilbert/kube"
	"hilbert.dev/hilbert/kube/standin"
)

// quickConfig takes a free Lease at once, and keeps its own and waits for answers for as long as a busy machine may stand still.
func quickConfig() *spec.Configuration {
	c := spec.Default()
	c.Server.BindAddress = "127.0.0.1:0"
	c.LeaderElection.LeaseDuration = spec.Duration(2 * time.Minute)
	c.LeaderElection.RenewDeadline = spec.Duration(100 * time.Second)
	c.LeaderElection.RetryPeriod = spec.Duration(100 * time.Millisecond)
	c.Scheduling.Binding.WriteTimeout = spec.Duration(time.Minute)
	return c
}

// tells waits until hilbertd's metrics have all lines: it counts a write when it has the answer, which may be after others see what was written.
func tells(t *testing.T, p *endpointstest.Process, lines ...string) {
	t.Helper()
	var missing []string
	for end := time.Now().Add(endpointstest.Patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		_, metrics := p.Get(t, "/metrics")
		missing = slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return strings.Contains(metrics, "\n"+line+"\n") })
		if len(missing) == 0 {
			return
		}
	}
	t.Errorf("/metrics lacks %q", missing)
}

func start(t *testing.T, s *standin.Server, c *spec.Configuration) *endpointstest.Process {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	p := &endpointstest.Process{Cancel: cancel, Ended: make(chan error, 1)}
	listening := make(chan string, 1)
	go func() {
		p.Ended <- Run(ctx, c, Options{
			Connection: s.Connection(), Log: slog.New(slog.DiscardHandler), OnListen: func(address string) { listening <- address },
		})
	}()
	t.Cleanup(cancel)
	select {
	case p.Address = <-listening:
	case err := <-p.Ended:
		t.Fatalf("did not start: %v", err)
	}
	return p
}

func apiNode(cpu string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
		"cpu": apiresource.MustParse(cpu), "memory": apiresource.MustParse("64Gi"), "pods": apiresource.MustParse("500"),
	}}}
}

func apiPod(name, cpu string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)},
		Spec: corev1.PodSpec{SchedulerName: "hilbert", Containers: []corev1.Container{{
			Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": apiresource.MustParse(cpu)}},
		}}},
	}
}

func bound(s *standin.Server) int {
	n := 0
	for _, pod := range s.Pods() {
		if pod.Spec.NodeName != "" {
			n++
		}
	}
	return n
}

// One life of a daemon: it binds what fits, says why the rest does not, asks of the API server exactly what it is allowed to, and gives
// the Lease back.
func TestDaemon(t *testing.T) {
	s := standin.New(t)
	s.SetNode(apiNode("4"))
	for i := range 4 {
		s.SetPod(apiPod(fmt.Sprint("fits-", i), "1"))
	}
	s.SetPod(apiPod("large", "100"))
	var lostAnswers atomic.Int32
	s.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/binding") && lostAnswers.Add(1) <= 3 {
			http.Error(w, "lost", http.StatusBadGateway) // makes it read the pod in the end
			return true
		}
		return false
	})
	config := quickConfig()
	config.Scheduling.Binding.MaxAttempts = 1
	p := start(t, s, config)
	endpointstest.Eventually(t, "all that fits is bound", func() bool { return bound(s) == 4 })
	endpointstest.Eventually(t, "the large pod is told why not", func() bool {
		for _, c := range s.Pod("default", "large").Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == spec.ReasonUnschedulable && c.Message != "" {
				return true
			}
		}
		return false
	})
	for _, path := range []string{"/livez", "/readyz"} {
		if code, body := p.Get(t, path); code != http.StatusOK {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	tells(t, p,
		`hilbert_leader 1`, `hilbert_cache_nodes 1`, `hilbert_cache_pods 5`, `hilbert_overcommitted_nodes 0`, `hilbert_pending_pods{queue="unschedulable"} 1`,
		`hilbert_bindings_total{outcome="written"} 4`, `hilbert_bindings_total{outcome="unknown"} 3`, `hilbert_scheduling_attempts_total{result="scheduled"} 4`,
		`hilbert_pod_scheduling_sli_duration_seconds_count 4`, `hilbert_unschedulable_pods{filter="NodeResourcesFit"} 1`,
		`scheduler_schedule_attempts_total{result="scheduled"} 4`, `scheduler_pod_scheduling_sli_duration_seconds_count 4`,
		`scheduler_pending_pods{queue="unschedulable"} 1`, `scheduler_pending_pods{queue="gated"} 0`,
		`hilbert_condition_writes_total{outcome="written"} 1`, `hilbert_event_queue_limit 20480`, `hilbert_loop_responsive 1`,
	)
	var shown spec.Configuration
	s.User("secret", "ada", "/configz")
	if _, body := p.Fetch(t, "/configz", "secret"); json.Unmarshal([]byte(body), &shown) != nil || shown.Scheduling.Binding.MaxAttempts != 1 {
		t.Errorf("/configz: %s", body)
	}
	makeRoom(t, s, p)
	p.Stop(t)
	if holder := s.Lease("kube-system", "hilbert").Spec.HolderIdentity; holder == nil || *holder != "" {
		t.Error("the Lease was not given back")
	}
	var allowed []string
	for _, permission := range kube.Permissions {
		for _, verb := range permission.Verbs {
			allowed = append(allowed, verb+" "+permission.Group+"/"+permission.Resource)
		}
	}
	slices.Sort(allowed)
	// A streamed list is a watch; the plain one is what older servers get, and kube's tests ask it. A real API server is told what binds claims (lab/security).
	asked := append(s.Asked(), "list /nodes", "list /pods", "patch /persistentvolumeclaims", "patch /persistentvolumes")
	slices.Sort(asked)
	if asked = slices.Compact(asked); !slices.Equal(asked, allowed) {
		t.Errorf("asked   %q\nallowed %q", asked, allowed)
	}
}

// makeRoom lets an urgent pod evict three of the four that fill the node.
func makeRoom(t *testing.T, s *standin.Server, p *endpointstest.Process) {
	t.Helper()
	urgent := apiPod("urgent", "3")
	urgent.Spec.Priority = new(int32(1000))
	s.SetPod(urgent)
	endpointstest.Eventually(t, "three make room for an urgent pod", func() bool {
		for _, pod := range s.Pods() {
			if pod.DeletionTimestamp != nil { // its node has ended it
				if got := s.Pod("default", "urgent"); got.Status.NominatedNodeName != "n1" || got.Spec.NodeName != "" {
					t.Errorf("nominated for %q, bound to %q while a victim is there", got.Status.NominatedNodeName, got.Spec.NodeName)
				}
				s.DeletePod(pod.Namespace, pod.Name)
			}
		}
		return s.Pod("default", "urgent").Spec.NodeName == "n1"
	})
	if left := bound(s); left != 2 {
		t.Errorf("%d pods left, want the urgent one and one of the four", left)
	}
	tells(t, p, `hilbert_preemption_victims_total 3`, `hilbert_preemption_writes_total{kind="deletion",outcome="written"} 3`)
}

// TestTraces: a pod's way to its node is sent to the collector that the configuration names.
func TestTraces(t *testing.T) {
	s, collector := standin.New(t), tracingtest.New(t)
	s.SetNode(apiNode("4"))
	s.SetPod(apiPod("fits", "1"))
	c := quickConfig()
	c.Tracing = spec.Tracing{Endpoint: collector.URL, SamplingRatePerMillion: 1_000_000}
	p := start(t, s, c)
	endpointstest.Eventually(t, "the pod is bound", func() bool { return bound(s) == 1 })
	p.Stop(t)
	var names []string
	for _, span := range collector.Spans() {
		names = append(names, span.Name)
		if span.Root && (span.Attributes["k8s.node.name"] != "n1" || span.Attributes["k8s.pod.name"] != "fits" || span.Attributes["hilbert.outcome"] == "") {
			t.Errorf("the pod's span says %v", span.Attributes)
		}
	}
	if want := []string{"wait", "bind", "schedule pod"}; !slices.Equal(names, want) {
		t.Errorf("spans %q, want %q", names, want)
	}
}

func TestStandbyTakesOver(t *testing.T) {
	s := standin.New(t)
	s.SetNode(apiNode("100"))
	first := start(t, s, quickConfig())
	s.SetPod(apiPod("a", "1"))
	endpointstest.Eventually(t, "the first binds", func() bool { return bound(s) == 1 })
	second := start(t, s, quickConfig())
	endpointstest.Eventually(t, "the standby is ready", func() bool {
		code, body := second.Get(t, "/readyz")
		return code == http.StatusOK && strings.Contains(body, "following")
	})
	first.Stop(t)
	s.SetPod(apiPod("b", "1"))
	endpointstest.Eventually(t, "the second binds", func() bool { return bound(s) == 2 })
	second.Stop(t)
}

// Somebody takes the Lease by force while it leads. It must stop writing, stand by, and come back when the Lease is free.
func TestStolenLease(t *testing.T) {
	s := standin.New(t)
	s.SetNode(apiNode("100"))
	p := start(t, s, quickConfig())
	s.SetPod(apiPod("a", "1"))
	endpointstest.Eventually(t, "it leads", func() bool { return bound(s) == 1 })
	lease := s.Lease("kube-system", "hilbert")
	thief, seconds := "thief", int32(3600)
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = &thief, &seconds
	s.SetLease(lease)
	endpointstest.Eventually(t, "it follows", func() bool {
		_, body := p.Get(t, "/readyz")
		return strings.Contains(body, "following")
	})
	s.SetPod(apiPod("b", "1"))
	endpointstest.Eventually(t, "it sees the pod", func() bool {
		_, metrics := p.Get(t, "/metrics")
		return strings.Contains(metrics, "\nhilbert_cache_pods 2\n") && strings.Contains(metrics, "\nhilbert_leader 0\n")
	})
	if bound(s) != 1 {
		t.Error("it binds though it does not lead")
	}
	free := ""
	s.SetLease(&coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "hilbert"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &free},
	})
	endpointstest.Eventually(t, "it leads again", func() bool { return bound(s) == 2 })
	p.Stop(t)
}

// An API server that cannot be reached, or only half, is waited for: at the start and in the middle of the work.
func TestServerComesAndGoes(t *testing.T) {
	s := standin.New(t)
	down := func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, "the API server is starting", http.StatusServiceUnavailable)
		return true
	}
	s.Intercept(down)
	s.SetNode(apiNode("100"))
	config := quickConfig() // it is to lose its Lease
	config.LeaderElection.LeaseDuration, config.LeaderElection.RenewDeadline = spec.Duration(5*time.Second), spec.Duration(4*time.Second)
	config.Scheduling.Binding.WriteTimeout = spec.Duration(time.Second)
	p := start(t, s, config)
	if code, body := p.Get(t, "/readyz"); code != http.StatusServiceUnavailable {
		t.Errorf("ready without an API server: %d %s", code, body)
	}
	if code, _ := p.Get(t, "/livez"); code != http.StatusOK {
		t.Error("waiting is no reason to be restarted")
	}
	s.Intercept(nil)
	const pods = 40
	for i := range pods / 2 {
		s.SetPod(apiPod(fmt.Sprint("before-", i), "1"))
	}
	endpointstest.Eventually(t, "it binds", func() bool { return bound(s) == pods/2 })
	s.Intercept(down)
	s.BreakWatches()
	for i := range pods / 2 {
		s.SetPod(apiPod(fmt.Sprint("after-", i), "1"))
	}
	endpointstest.Eventually(t, "it lost the Lease", func() bool {
		_, metrics := p.Get(t, "/metrics")
		return strings.Contains(metrics, "\nhilbert_leader 0\n")
	})
	s.Intercept(nil)
	endpointstest.Eventually(t, "it binds the rest", func() bool { return bound(s) == pods })
	if twice := s.BoundTwice(); len(twice) > 0 {
		t.Errorf("bound twice: %v", twice)
	}
	p.Stop(t)
}

func TestRunRefusesWhatCannotWork(t *testing.T) {
	s := standin.New(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	cases := map[string]struct {
		change func(*spec.Configuration)
		want   string
	}{
		"no certificate": {func(c *spec.Configuration) {
			c.Server.TLSCertFile, c.Server.TLSPrivateKeyFile = "/no/such/cert.pem", "/no/such/key.pem"
		}, "/no/such/cert.pem"},
		"address taken": {func(c *spec.Configuration) { c.Server.BindAddress = taken.Addr().String() }, "server.bindAddress"},
		"no leases":     {func(c *spec.Configuration) { c.LeaderElection.RetryPeriod = 0 }, "leaderElection.retryPeriod"},
		"half seconds": {func(c *spec.Configuration) {
			c.LeaderElection.LeaseDuration, c.LeaderElection.RenewDeadline = spec.Duration(100*time.Second+time.Second/2), spec.Duration(100*time.Second+time.Second/5)
		}, "write whole seconds"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			config := quickConfig()
			c.change(config)
			err := Run(t.Context(), config, Options{Connection: s.Connection(), Log: slog.New(slog.DiscardHandler)})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("err %v", err)
			}
		})
	}
	config := quickConfig()
	config.ClientConnection.Kubeconfig = "/no/such/kubeconfig"
	config.Metrics.Checkpoint = "/of/another/role"
	var said bytes.Buffer
	if err := Run(t.Context(), config, Options{Log: slog.New(slog.NewTextHandler(&said, nil))}); err == nil || !strings.Contains(err.Error(), "/no/such/kubeconfig") {
		t.Errorf("missing kubeconfig: %v", err)
	}
	if !strings.Contains(said.String(), `field=metrics.checkpoint why="it has no effect while roles is [dispatcher, scheduler, binder]`) {
		t.Errorf("nobody is told of a field without effect: %s", said.String())
	}
}
