package write

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/kube/lease"
	"hilbert.dev/hilbert/kube/standin"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/bind"
)

type queueRig struct {
	server   *standin.Server
	fence    *lease.Fence
	writer   *QueueWriter
	outcomes chan bind.Outcome
	ahead    atomic.Int64 // how far the writer's clock is
}

func newQueueRig(t *testing.T) *queueRig {
	t.Helper()
	r := &queueRig{server: standin.New(t), fence: lease.NewFence(time.Hour, time.Minute), outcomes: make(chan bind.Outcome, 100)}
	r.fence.Renewed(time.Now())
	r.restart(t)
	return r
}

// restart begins with a writer that remembers nothing.
func (r *queueRig) restart(t *testing.T) {
	t.Helper()
	w, err := NewQueueWriter(t.Context(), r.server.Connection(), r.fence, time.Minute, func(o bind.Outcome) { r.outcomes <- o })
	if err != nil {
		t.Fatal(err)
	}
	w.now = func() time.Time { return time.Now().Add(time.Duration(r.ahead.Load())) }
	t.Cleanup(w.Close)
	r.writer = w
}

func (r *queueRig) expect(t *testing.T, name string, status QueueStatus, want bind.Outcome) {
	t.Helper()
	if err := r.writer.Write(t.Context(), name, status); err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-r.outcomes:
		if got != want {
			t.Fatalf("outcome %d, want %d", got, want)
		}
	case <-time.After(patience):
		t.Fatal("no answer")
	}
}

func (r *queueRig) stored(t *testing.T) *v1alpha1.Queue {
	t.Helper()
	data, err := json.Marshal(r.server.Stored(standin.Queues, "", "q"))
	if err != nil {
		t.Fatal(err)
	}
	q := &v1alpha1.Queue{}
	if err := json.Unmarshal(data, q); err != nil {
		t.Fatal(err)
	}
	return q
}

func (r *queueRig) offer(t *testing.T) {
	t.Helper()
	r.server.Offer(standin.Queues, "v1alpha1")
	r.server.Set(standin.FromYAML(t, standin.QueueText))
}

func TestQueueStatusWrite(t *testing.T) {
	r := newQueueRig(t)
	r.offer(t)
	amounts := []resource.Quantity{
		{Name: "cpu", Amount: 1500}, {Name: "memory", Amount: 2 << 30}, {Name: "hilbert.dev/gpu-milli", Amount: 8000}, {Name: "hugepages-2Mi", Amount: 4 << 20},
	}
	r.expect(t, "q", QueueStatus{
		UID: "u", Generation: 3, Used: amounts, Borrowed: amounts[:1], FairShare: amounts[:2], PendingUnits: 4, PendingPods: 9, RunningPods: 7,
	}, bind.Written)
	q := r.stored(t)
	s := q.Status
	if got := fmt.Sprint(s.Used.Cpu(), " ", s.Used.Memory(), " ", s.Used.Name("hilbert.dev/gpu-milli", ""), " ", s.Used.Name("hugepages-2Mi", ""), " ",
		len(s.Borrowed), len(s.FairShare), s.ObservedGeneration, s.PendingUnits, s.PendingPods, s.RunningPods); got != "1500m 2Gi 8k 4Mi 1 2 3 4 9 7" {
		t.Errorf("status %s", got)
	}
	if len(s.Conditions) != 1 || s.Conditions[0].Type != "Ready" || s.Conditions[0].Status != "True" || s.Conditions[0].Reason != "Ready" ||
		s.Conditions[0].ObservedGeneration != 3 || s.Conditions[0].LastTransitionTime.IsZero() {
		t.Errorf("conditions %+v", s.Conditions)
	}
	if q.Spec.Weight != 2 {
		t.Errorf("the spec changed: %+v", q.Spec)
	}
	r.expect(t, "q", QueueStatus{UID: "u", Generation: 3}, bind.Written)
	if got := r.stored(t).Status; len(got.Used) > 0 || len(got.Borrowed) > 0 || got.PendingUnits != 0 {
		t.Errorf("what is not said any more stays: %+v", got)
	}
}

// Ready tells since when, over restarts too, and names mistakes that do not close the queue.
func TestQueueReady(t *testing.T) {
	r := newQueueRig(t)
	r.offer(t)
	ready := func() string {
		c := r.stored(t).Status.Conditions[0]
		return fmt.Sprint(c.Status, " ", c.Reason, " ", c.Message)
	}
	since := func() int64 { return r.stored(t).Status.Conditions[0].LastTransitionTime.Unix() }
	closed := QueueStatus{UID: "u", Problem: facts.Condition{Reason: "ParentMissing", Message: "no such queue"}, Refuses: true}
	r.expect(t, "q", closed, bind.Written)
	if got := ready(); got != "False ParentMissing no such queue" {
		t.Error(got)
	}
	first := since()
	r.ahead.Store(int64(time.Minute))
	closed.Problem.Reason = "ParentCycle"
	r.expect(t, "q", closed, bind.Written)
	if got := ready(); got != "False ParentCycle no such queue" || since() != first {
		t.Error(got, since(), first)
	}
	r.restart(t)
	r.ahead.Store(int64(2 * time.Minute))
	closed.PendingUnits++
	r.expect(t, "q", closed, bind.Written)
	if since() != first {
		t.Error("after a restart it is another time")
	}
	r.expect(t, "q", QueueStatus{UID: "u", Problem: facts.Condition{Reason: "GuaranteeTooLarge", Message: "scaled"}}, bind.Written)
	if got := ready(); got != "True GuaranteeTooLarge scaled" || since() == first {
		t.Error(got)
	}
}

// What is written is not written again, until it may have been lost.
func TestQueueStatusIsWrittenOnce(t *testing.T) {
	r := newQueueRig(t)
	r.offer(t)
	r.expect(t, "q", QueueStatus{UID: "u", PendingUnits: 1}, bind.Written)
	version := r.stored(t).ResourceVersion
	for range 5 {
		if err := r.writer.Write(t.Context(), "q", QueueStatus{UID: "u", PendingUnits: 1}); err != nil {
			t.Fatal(err)
		}
	}
	r.server.Set(standin.With(standin.FromYAML(t, standin.QueueText), "r", "metadata", "name"))
	r.expect(t, "r", QueueStatus{UID: "u"}, bind.Written) // after those of q
	if got := r.stored(t).ResourceVersion; got != version || len(r.outcomes) > 0 {
		t.Errorf("version %s, was %s; %d outcomes more", got, version, len(r.outcomes))
	}
	r.server.Set(standin.FromYAML(t, standin.QueueText)) // deleted and made anew
	r.ahead.Store(int64(rewriteAfter))
	r.expect(t, "q", QueueStatus{UID: "u", PendingUnits: 1}, bind.Written)
	if r.stored(t).Status.PendingUnits != 1 {
		t.Error("not written again")
	}
}

// What is meant for a Queue does not come to one that was made anew under its name, whether its status was written before or not.
func TestQueueStatusOfAnotherUID(t *testing.T) {
	r := newQueueRig(t)
	r.offer(t)
	anew := standin.With(standin.FromYAML(t, standin.QueueText), "another", "metadata", "uid")
	r.expect(t, "q", QueueStatus{UID: "u", PendingUnits: 1}, bind.Written)
	r.server.Set(anew)
	for range 2 { // first it is remembered, then it is not
		r.expect(t, "q", QueueStatus{UID: "u", PendingUnits: 2}, map[bool]bind.Outcome{true: bind.Refused, false: bind.Gone}[len(r.writer.written) > 0])
		if got := r.stored(t).Status; got.PendingUnits != 0 || len(got.Conditions) > 0 {
			t.Fatalf("the new Queue is told %+v", got)
		}
	}
	r.expect(t, "q", QueueStatus{UID: "another", PendingUnits: 3}, bind.Written)
	if got := r.stored(t).Status.PendingUnits; got != 3 {
		t.Errorf("%d units wait, want 3", got)
	}
}

func TestQueueStatusOutcomes(t *testing.T) {
	r := newQueueRig(t)
	r.expect(t, "q", QueueStatus{UID: "u"}, bind.Gone) // the whole resource is missing
	r.server.Offer(standin.Queues, "v1alpha1")
	r.expect(t, "q", QueueStatus{UID: "u"}, bind.Gone)
	r.server.Set(standin.FromYAML(t, standin.QueueText))
	for code, want := range map[int]bind.Outcome{http.StatusForbidden: bind.Refused, http.StatusInternalServerError: bind.Unknown} {
		for _, method := range []string{http.MethodGet, http.MethodPatch} {
			r.server.Intercept(func(w http.ResponseWriter, request *http.Request) bool {
				if request.Method == method {
					http.Error(w, "no", code)
				}
				return request.Method == method
			})
			r.expect(t, "q", QueueStatus{UID: "u"}, want)
		}
	}
	r.server.Intercept(nil)
	r.fence.Shut()
	r.expect(t, "q", QueueStatus{UID: "u"}, bind.NotSent)
	r.fence.Renewed(time.Now())
	r.expect(t, "q", QueueStatus{UID: "u"}, bind.Written) // what failed is not taken for written
	r.server.Delete(standin.FromYAML(t, standin.QueueText))
	r.expect(t, "q", QueueStatus{UID: "u", PendingPods: 1}, bind.Gone)
}

// Of what waits only the newest is written, and no more waits than may.
func TestQueueWriterIsBounded(t *testing.T) {
	r := newQueueRig(t)
	r.offer(t)
	gate, arrived := make(chan struct{}), make(chan struct{}, 1)
	var patches atomic.Int32
	r.server.Intercept(func(_ http.ResponseWriter, request *http.Request) bool {
		if request.Method == http.MethodPatch {
			patches.Add(1)
		}
		select {
		case arrived <- struct{}{}:
		default:
		}
		<-gate
		return false
	})
	write := func(name string, units int32) error {
		return r.writer.Write(t.Context(), name, QueueStatus{UID: "u", PendingUnits: units})
	}
	if err := write("q", 1); err != nil {
		t.Fatal(err)
	}
	<-arrived // the worker is busy
	for i := range MaxQueuesWaiting - 1 {
		if err := write(fmt.Sprint("none-", i), 0); err != nil {
			t.Fatal(err)
		}
	}
	for units := range int32(100) {
		if err := write("q", units); err != nil {
			t.Fatal(err)
		}
	}
	if err := write("one-more", 0); !errors.Is(err, ErrQueuesWaiting) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.writer.Write(ctx, "q", QueueStatus{UID: "u"}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	r.writer.mu.Lock()
	r.writer.order = r.writer.order[len(r.writer.order)-1:] // spares the test the others
	clear(r.writer.waiting)
	r.writer.waiting["q"] = QueueStatus{UID: "u", PendingUnits: 99}
	r.writer.mu.Unlock()
	close(gate)
	for range 2 {
		if got := <-r.outcomes; got != bind.Written {
			t.Fatalf("outcome %d", got)
		}
	}
	if r.stored(t).Status.PendingUnits != 99 || patches.Load() != 2 {
		t.Errorf("%d pending after %d patches", r.stored(t).Status.PendingUnits, patches.Load())
	}
}

func TestQueueWriterAsksForNoMoreThanItMay(t *testing.T) {
	r := newQueueRig(t)
	r.offer(t)
	r.expect(t, "q", QueueStatus{UID: "u"}, bind.Written)
	if got := strings.Join(r.server.Asked(), ","); got != "get scheduling.hilbert.dev/queues,patch scheduling.hilbert.dev/queues/status" {
		t.Error(got)
	}
}
