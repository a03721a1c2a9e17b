package write

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/kube/lease"
	"hilbert.dev/hilbert/kube/standin"
	"hilbert.dev/hilbert/schedule/bind"
	"hilbert.dev/hilbert/topology"
)

// patience is for an answer that comes at once, unless the machine is very busy.
const patience = 60 * time.Second

type rig struct {
	server *standin.Server
	fence  *lease.Fence
	writer *Writer
}

func newRig(t *testing.T, workers int, timeout time.Duration) *rig {
	t.Helper()
	s := standin.New(t)
	f := lease.NewFence(time.Hour, timeout)
	f.Renewed(time.Now())
	w, err := New(t.Context(), s.Connection(), f, Options{Workers: workers, Timeout: timeout, SchedulerName: "hilbert-test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return &rig{s, f, w}
}

func (r *rig) do(t *testing.T, write bind.Write) bind.Result {
	t.Helper()
	write.ID = bind.WriteID{Owner: bind.OwnerPlacement, Number: 7}
	if !r.writer.Start(write) {
		t.Fatal("not started")
	}
	select {
	case result := <-r.writer.Results():
		if result.ID != write.ID {
			t.Fatalf("answer to write %v", result.ID)
		}
		return result
	case <-time.After(patience):
		t.Fatal("no answer")
		return bind.Result{}
	}
}

// doInTime makes a write whose time is short until no request was under way when the time ended: of such a one nothing is known, and on a busy machine it may be any.
func (r *rig) doInTime(t *testing.T, write bind.Write) bind.Result {
	t.Helper()
	for {
		got := r.do(t, write)
		if got.Outcome != bind.Unknown || !strings.Contains(got.Message, context.DeadlineExceeded.Error()) {
			return got
		}
	}
}

func bindingOf(name string) bind.Write {
	return bind.Write{Kind: bind.WriteBinding, Pod: facts.UID("uid-" + name), Namespace: "default", Name: name, Node: "n1"}
}

func refuse(code int) standin.Intercept {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, "no", code)
		return true
	}
}

func TestBindingOutcomes(t *testing.T) {
	now := metav1.Now()
	other := standin.Pod("p", "")
	other.UID = "another"
	deleting := standin.Pod("p", "")
	deleting.DeletionTimestamp = &now
	gated := standin.Pod("p", "")
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "wait"}}
	cases := map[string]struct {
		pod       *corev1.Pod
		intercept standin.Intercept
		want      bind.Outcome
		timeout   time.Duration // of the write, a minute unless it is said
	}{
		"bound":                       {pod: standin.Pod("p", ""), want: bind.Written},
		"no such pod":                 {want: bind.Gone},
		"another pod of the name":     {pod: other, want: bind.Gone},
		"bound here":                  {pod: standin.Pod("p", "n1"), want: bind.Conflict},
		"bound elsewhere":             {pod: standin.Pod("p", "n2"), want: bind.Conflict},
		"being deleted":               {pod: deleting, want: bind.Refused},
		"gated again":                 {pod: gated, want: bind.Refused},
		"forbidden":                   {pod: standin.Pod("p", ""), intercept: refuse(http.StatusForbidden), want: bind.Refused},
		"a page that is not there":    {pod: standin.Pod("p", ""), intercept: refuse(http.StatusNotFound), want: bind.Refused},
		"a conflict of unknown cause": {pod: standin.Pod("p", ""), intercept: refuse(http.StatusConflict), want: bind.Conflict},
		"server error":                {pod: standin.Pod("p", ""), intercept: refuse(http.StatusInternalServerError), want: bind.Unknown},
		"gateway timeout":             {pod: standin.Pod("p", ""), intercept: refuse(http.StatusGatewayTimeout), want: bind.Unknown},
		"connection lost": {pod: standin.Pod("p", ""), intercept: func(w http.ResponseWriter, _ *http.Request) bool {
			panic(http.ErrAbortHandler)
		}, want: bind.Unknown},
		// It is not asked again within the time of the write, so that no request is under way when that ends: of one it would not be known what became of it.
		"overloaded for good": {pod: standin.Pod("p", ""), intercept: func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Retry-After", "3600")
			http.Error(w, "no", http.StatusTooManyRequests)
			return true
		}, want: bind.Refused, timeout: time.Second},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 1, cmp.Or(c.timeout, time.Minute))
			if c.pod != nil {
				r.server.SetPod(c.pod)
			}
			r.server.Intercept(c.intercept)
			do := r.do
			if c.timeout != 0 {
				do = r.doInTime
			}
			result := do(t, bindingOf("p"))
			if result.Outcome != c.want {
				t.Errorf("got %d (%s), want %d", result.Outcome, result.Message, c.want)
			}
			if (result.Outcome == bind.Refused || result.Outcome == bind.Unknown) && result.Message == "" {
				t.Error("no message")
			}
		})
	}
}

func TestBindingCarriesTheGrant(t *testing.T) {
	r := newRig(t, 1, time.Minute)
	r.server.SetPod(standin.Pod("p", ""))
	write := bindingOf("p")
	write.Grant = topology.Grant{GPUs: 0b1001, Milli: 1000}
	if got := r.do(t, write).Outcome; got != bind.Written {
		t.Fatalf("outcome %d", got)
	}
	pod := r.server.Pod("default", "p")
	if pod.Spec.NodeName != "n1" || len(pod.Annotations) != 1 || pod.Annotations["hilbert.dev/gpus"] != "0,3" {
		t.Errorf("node %q, annotations %v", pod.Spec.NodeName, pod.Annotations)
	}
	r.server.SetPod(standin.Pod("g", ""))
	write = bindingOf("g")
	write.Grant = topology.Grant{
		GPUs: 0b100, Milli: 250, Memory: 10240, Isolation: topology.Soft, NICs: 0b10, NIC: topology.NICGrant{Bandwidth: 25000, Function: true},
	}
	if got := r.do(t, write).Outcome; got != bind.Written {
		t.Fatalf("outcome %d", got)
	}
	if pod := r.server.Pod("default", "g"); len(pod.Annotations) != 2 || pod.Annotations["hilbert.dev/gpus"] != "2:250/10240Mi/soft" || pod.Annotations["hilbert.dev/nics"] != "1:25000/vf" {
		t.Errorf("annotations %v", pod.Annotations)
	}
	r.server.SetPod(standin.Pod("q", ""))
	write = bindingOf("q")
	write.Grant.NUMANodes.CPUs[1], write.Grant.NUMANodes.Memory[1] = 8, 4096
	if got := r.do(t, write).Outcome; got != bind.Written {
		t.Fatalf("outcome %d", got)
	}
	if pod := r.server.Pod("default", "q"); len(pod.Annotations) != 1 || pod.Annotations["hilbert.dev/numa-nodes"] != "1:8/4096Mi" {
		t.Errorf("annotations %v", pod.Annotations)
	}
	r.server.SetPod(standin.Pod("r", ""))
	write = bindingOf("r")
	write.Reclaimed, write.Priority, write.TellsPriority = spec.ReclaimedAmounts{MilliCPU: 1500, MemoryMiB: 2048}, -10, true
	if got := r.do(t, write).Outcome; got != bind.Written {
		t.Fatalf("outcome %d", got)
	}
	r.server.SetPod(standin.Pod("s", ""))
	write = bindingOf("s")
	write.Resources, write.Grant.Resources = "main/example.com/fpga=2", "example.com/fpga=0:2"
	if got := r.do(t, write).Outcome; got != bind.Written {
		t.Fatalf("outcome %d", got)
	}
	if pod := r.server.Pod("default", "s"); len(pod.Annotations) != 2 || pod.Annotations["hilbert.dev/node-resources"] != write.Resources ||
		pod.Annotations["hilbert.dev/resource-numa-nodes"] != "example.com/fpga=0:2" {
		t.Errorf("annotations %v", pod.Annotations)
	}
	if pod := r.server.Pod("default", "r"); len(pod.Annotations) != 2 || pod.Annotations["hilbert.dev/reclaimed"] != "1500m/2048Mi" || pod.Annotations["hilbert.dev/priority"] != "-10" {
		t.Errorf("annotations %v", pod.Annotations)
	}
}

func TestOverloadIsWaitedFor(t *testing.T) {
	r := newRig(t, 1, time.Minute)
	r.server.SetPod(standin.Pod("p", ""))
	var tries atomic.Int32
	r.server.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		if tries.Add(1) > 3 {
			return false
		}
		http.Error(w, "too many", http.StatusTooManyRequests)
		return true
	})
	if got := r.do(t, bindingOf("p")); got.Outcome != bind.Written || tries.Load() != 4 {
		t.Errorf("outcome %d after %d tries", got.Outcome, tries.Load())
	}
}

func TestUnansweredBindingIsUnknownAndSentOnce(t *testing.T) {
	r := newRig(t, 1, 300*time.Millisecond)
	r.server.SetPod(standin.Pod("p", ""))
	var tries atomic.Int32
	r.server.Intercept(func(_ http.ResponseWriter, request *http.Request) bool {
		tries.Add(1)
		if got := request.URL.Query().Get("timeout"); got != "300ms" {
			t.Errorf("the API server was told a timeout of %q", got)
		}
		<-request.Context().Done()
		return true
	})
	got := r.do(t, bindingOf("p"))
	if notSent := got.Outcome == bind.NotSent && tries.Load() == 0; got.Outcome != bind.Unknown && !notSent || tries.Load() > 1 { // a busy machine connects in more than the time of the write
		t.Errorf("outcome %d after %d tries", got.Outcome, tries.Load())
	}
}

func TestUnreachableServerIsNotSent(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	f := lease.NewFence(time.Hour, 200*time.Millisecond)
	f.Renewed(time.Now())
	w, err := New(t.Context(), &apiserver.Connection{Host: "https://" + address}, f, Options{Workers: 1, Timeout: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	r := &rig{fence: f, writer: w}
	if got := r.doInTime(t, bindingOf("p")); got.Outcome != bind.NotSent {
		t.Errorf("outcome %d: %s", got.Outcome, got.Message)
	}
}

func TestNothingLeavesBehindAShutFence(t *testing.T) {
	r := newRig(t, 1, time.Minute)
	r.server.SetPod(standin.Pod("p", ""))
	r.server.SetPod(standin.Pod("q", ""))
	if got := r.do(t, bindingOf("p")); got.Outcome != bind.Written {
		t.Fatalf("outcome %d", got.Outcome)
	}
	var arrived atomic.Int32
	r.server.Intercept(func(http.ResponseWriter, *http.Request) bool { arrived.Add(1); return false })
	// The process froze after it had decided: the check before the request still passes, the one at the system call does not.
	decided := time.Now().Add(-2 * time.Hour)
	r.writer.now = func() time.Time { return decided }
	r.fence.Renewed(decided)
	result := r.do(t, bindingOf("q"))
	if result.Outcome == bind.Written || arrived.Load() != 0 || r.server.Pod("default", "q").Spec.NodeName != "" {
		t.Errorf("outcome %d, %d requests arrived", result.Outcome, arrived.Load())
	}
}

func TestConditionWrite(t *testing.T) {
	write := bind.Write{
		Kind: bind.WriteCondition, Pod: "uid-p", Namespace: "default", Name: "p",
		Condition: facts.Condition{Reason: "Unschedulable", Message: `0/3 nodes: 3 Insufficient "cpu"`},
	}
	r := newRig(t, 1, time.Minute)
	if got := r.do(t, write).Outcome; got != bind.Gone {
		t.Errorf("no pod: outcome %d", got)
	}
	pod := standin.Pod("p", "")
	pod.Status.Conditions = []corev1.PodCondition{{Type: "Other", Status: corev1.ConditionTrue}}
	r.server.SetPod(pod)
	if got := r.do(t, write).Outcome; got != bind.Written {
		t.Fatalf("outcome %d", got)
	}
	conditions := r.server.Pod("default", "p").Status.Conditions
	if len(conditions) != 2 {
		t.Fatalf("conditions %+v", conditions)
	}
	for _, c := range conditions {
		if c.Type == corev1.PodScheduled && (c.Status != corev1.ConditionFalse || c.Reason != "Unschedulable" || c.Message != write.Condition.Message ||
			c.LastTransitionTime.IsZero()) {
			t.Errorf("condition %+v", c)
		}
	}
}

func TestNominationWrite(t *testing.T) {
	write := bind.Write{
		Kind: bind.WriteNomination, Pod: "uid-p", Namespace: "default", Name: "p", Node: "n1",
		Condition: facts.Condition{Reason: "Unschedulable", Message: "0/1 nodes are available"},
	}
	r := newRig(t, 1, time.Minute)
	r.server.SetPod(standin.Pod("p", ""))
	for range 2 { // writing it again does no harm
		if got := r.do(t, write).Outcome; got != bind.Written {
			t.Fatalf("outcome %d", got)
		}
	}
	status := r.server.Pod("default", "p").Status
	if status.NominatedNodeName != "n1" || len(status.Conditions) != 1 || status.Conditions[0].Type != corev1.PodScheduled ||
		status.Conditions[0].Status != corev1.ConditionFalse || status.Conditions[0].Reason != "Unschedulable" {
		t.Errorf("status %+v", status)
	}
	withdrawal := bind.Write{Kind: bind.WriteCondition, Pod: "uid-p", Namespace: "default", Name: "p", Withdraw: true}
	if got := r.do(t, withdrawal).Outcome; got != bind.Written {
		t.Fatalf("outcome %d", got)
	}
	if status := r.server.Pod("default", "p").Status; status.NominatedNodeName != "" || len(status.Conditions) != 1 || status.Conditions[0].Reason != "Unschedulable" {
		t.Errorf("status after the withdrawal: %+v", status)
	}
	write.Pod = "another"
	if got := r.do(t, write).Outcome; got != bind.Gone {
		t.Errorf("another pod of the name: outcome %d", got)
	}
}

func TestEvictionWrites(t *testing.T) {
	r := newRig(t, 1, time.Minute)
	disruption := bind.Write{
		Kind: bind.WriteDisruption, Pod: "uid-p", Namespace: "default", Name: "p",
		Condition: facts.Condition{Reason: corev1.PodReasonPreemptionByScheduler, Message: "preempting"},
	}
	deletion := bind.Write{Kind: bind.DeletePod, Pod: "uid-p", Namespace: "default", Name: "p"}
	expect := func(what string, write bind.Write, want bind.Outcome) {
		t.Helper()
		if got := r.do(t, write); got.Outcome != want {
			t.Errorf("%s: outcome %d (%s), want %d", what, got.Outcome, got.Message, want)
		}
	}
	expect("no pod", disruption, bind.Gone)
	expect("no pod to delete", deletion, bind.Gone)
	other := standin.Pod("p", "n1")
	other.UID = "another"
	r.server.SetPod(other)
	expect("another pod of the name", disruption, bind.Gone)
	expect("another pod of the name is not deleted", deletion, bind.Gone)
	if r.server.Pod("default", "p").DeletionTimestamp != nil {
		t.Error("it was")
	}
	r.server.SetPod(standin.Pod("p", "n1"))
	expect("disrupt", disruption, bind.Written)
	if got := r.server.Pod("default", "p").Status.Conditions; len(got) != 1 || got[0].Type != corev1.DisruptionTarget || got[0].Status != corev1.ConditionTrue ||
		got[0].Reason != "PreemptionByScheduler" || got[0].Message != "hilbert-test: preempting" {
		t.Errorf("conditions %+v", got)
	}
	expect("delete", deletion, bind.Written)
	expect("delete again", deletion, bind.Written)
	if r.server.Pod("default", "p").DeletionTimestamp == nil {
		t.Error("not deleted")
	}
	r.server.Intercept(refuse(http.StatusForbidden))
	expect("forbidden", deletion, bind.Refused)
	r.server.Intercept(refuse(http.StatusInternalServerError))
	expect("server error", deletion, bind.Unknown)
	r.server.Intercept(nil)
	r.fence.Shut()
	expect("behind the fence", deletion, bind.NotSent)
}

func TestReadPod(t *testing.T) {
	r := newRig(t, 1, time.Minute)
	r.server.SetPod(standin.Pod("bound", "n2"))
	r.server.SetPod(standin.Pod("waiting", ""))
	reused := standin.Pod("reused", "n1")
	reused.UID = "another"
	r.server.SetPod(reused)
	r.fence.Shut() // a read harms nobody
	for name, want := range map[string]bind.Result{
		"bound": {Outcome: bind.Written, Node: "n2"}, "waiting": {Outcome: bind.Written}, "reused": {Outcome: bind.Gone}, "missing": {Outcome: bind.Gone},
	} {
		write := bindingOf(name)
		write.Kind, write.Node = bind.ReadPod, ""
		got := r.do(t, write)
		want.ID = got.ID
		if got != want {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
	r.server.Intercept(refuse(http.StatusForbidden))
	if got := r.do(t, bind.Write{Kind: bind.ReadPod, Namespace: "default", Name: "bound"}); got.Outcome != bind.Unknown {
		t.Errorf("a read that failed: outcome %d", got.Outcome)
	}
}

func TestWorkersBoundTheWrites(t *testing.T) {
	const workers, writes = 3, 9
	r := newRig(t, workers, time.Minute)
	var now, most atomic.Int32
	gate := make(chan struct{})
	r.server.Intercept(func(http.ResponseWriter, *http.Request) bool {
		for n := now.Add(1); ; {
			old := most.Load()
			if n <= old || most.CompareAndSwap(old, n) {
				break
			}
		}
		<-gate
		now.Add(-1)
		return false
	})
	started, answered := 0, 0
	for i := range writes {
		name := fmt.Sprint("p", i)
		r.server.SetPod(standin.Pod(name, ""))
		if r.writer.Start(bindingOf(name)) {
			started++
		}
	}
	close(gate)
	for range started {
		if result := <-r.writer.Results(); result.Outcome == bind.Written {
			answered++
		}
	}
	if most.Load() > workers || answered != started || started < workers {
		t.Errorf("%d at once with %d workers; %d started, %d written", most.Load(), workers, started, answered)
	}
}

// A connection that the Fence refused is a write that certainly was not sent, and there is no use in trying again.
func TestFencedDialIsNotSent(t *testing.T) {
	f := lease.NewFence(time.Hour, time.Minute)
	_, err := f.Dial((&net.Dialer{}).DialContext)(t.Context(), "tcp", "127.0.0.1:1")
	if result, again := classifyError(err); !errors.Is(err, lease.ErrFenced) || result.Outcome != bind.NotSent || again {
		t.Fatalf("dial behind a shut fence: %v, outcome %d", err, result.Outcome)
	}
}
