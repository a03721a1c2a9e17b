package write

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/kube/lease"
	"hilbert.dev/hilbert/kube/parse"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/bind"
)

const (
	// MaxQueuesWaiting bounds the Queues whose status waits to be written, and those whose status is remembered.
	MaxQueuesWaiting = 10_000
	// rewriteAfter is how long a status counts as written: then it is written again, because a Queue may have been created again, or edited.
	rewriteAfter = 10 * time.Minute
)

// ErrQueuesWaiting is returned when the status of MaxQueuesWaiting Queues waits to be written.
var ErrQueuesWaiting = errors.New("the status of too many Queues waits to be written")

// QueueStatus is the status of a Queue, in the ledger's units: millicores, bytes, and spec.ResourceGPUMilli for GPUs. Its
// lists must not be changed afterwards.
type QueueStatus struct {
	// UID and Generation of the Queue that it is about.
	UID        facts.UID
	Generation int64
	// Used, Borrowed and FairShare: see v1alpha1.QueueStatus.
	Used, Borrowed, FairShare []resource.Quantity

	PendingUnits, PendingPods, RunningPods int32
	// Problem is the queue's, the zero value for none. With Refuses the Queue is not Ready; without, it is, and names the problem.
	Problem facts.Condition
	Refuses bool
}

// QueueWriter writes the status of Queues: one worker, one call at a time, behind the same Fence as a Writer. Of a Queue whose status
// waits to be written only the newest counts, and what is written already is not written again. A write that fails is dropped: the next
// status says all of it again.
//
// Its methods may be called from several goroutines.
type QueueWriter struct {
	*sender
	sent func(bind.Outcome)
	stop context.CancelFunc
	done chan struct{}
	wake chan struct{}

	mu      sync.Mutex
	waiting map[string]QueueStatus
	order   []string // of those that wait, the oldest first

	written map[string]writtenStatus // the worker's
}

// writtenStatus is the status that was last written to a Queue.
type writtenStatus struct {
	status QueueStatus
	ready  metav1.Condition
	at     time.Time
}

// NewQueueWriter starts the worker, which runs until Close; ctx lends its values only. timeout bounds one write, its repetitions before
// it left included. sent, if set, receives the outcome of each write, on the worker's goroutine.
func NewQueueWriter(ctx context.Context, c *apiserver.Connection, fence *lease.Fence, timeout time.Duration, sent func(bind.Outcome)) (*QueueWriter, error) {
	sender, err := newSender(c, "queues", fence, timeout)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	w := &QueueWriter{
		sender: sender, sent: sent, stop: stop, done: make(chan struct{}), wake: make(chan struct{}, 1),
		waiting: make(map[string]QueueStatus), written: make(map[string]writtenStatus),
	}
	go func() {
		defer close(w.done)
		w.serve(ctx)
	}()
	return w, nil
}

// Write asks for the status of a Queue to say this. It does not wait. It fails with ErrQueuesWaiting, or when ctx has ended.
func (w *QueueWriter) Write(ctx context.Context, name string, status QueueStatus) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.waiting[name]; !ok {
		if len(w.order) >= MaxQueuesWaiting {
			return ErrQueuesWaiting
		}
		w.order = append(w.order, name)
	}
	w.waiting[name] = status
	select {
	case w.wake <- struct{}{}:
	default:
	}
	return nil
}

// Close breaks off what is under way and waits for the worker.
func (w *QueueWriter) Close() {
	w.stop()
	<-w.done
	w.api.CloseIdle()
}

func (w *QueueWriter) serve(ctx context.Context) {
	for ctx.Err() == nil {
		name, status, ok := w.next()
		if !ok {
			select {
			case <-w.wake:
			case <-ctx.Done():
			}
			continue
		}
		if old, ok := w.written[name]; ok && w.now().Sub(old.at) < rewriteAfter && reflect.DeepEqual(old.status, status) {
			continue
		}
		outcome, ready := w.write(ctx, name, status)
		if len(w.written) >= MaxQueuesWaiting {
			clear(w.written)
		}
		if outcome == bind.Written {
			w.written[name] = writtenStatus{status, ready, w.now()}
		} else {
			delete(w.written, name)
		}
		if w.sent != nil {
			w.sent(outcome)
		}
	}
}

// next takes the Queue that has waited longest.
func (w *QueueWriter) next() (name string, status QueueStatus, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.order) == 0 {
		return "", QueueStatus{}, false
	}
	name, w.order = w.order[0], w.order[1:]
	status = w.waiting[name]
	delete(w.waiting, name)
	return name, status, true
}

// write tells a Queue its status. Where the Queue, or the whole resource, does not exist, or another Queue has its name, it is Gone.
func (w *QueueWriter) write(ctx context.Context, name string, status QueueStatus) (outcome bind.Outcome, ready metav1.Condition) {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	path := "/apis/" + v1alpha1.Group + "/" + v1alpha1.Version + "/" + v1alpha1.Queues + "/" + name
	old, ok := w.written[name]
	if !ok || old.status.UID != status.UID { // an earlier process may have said since when the Queue is ready
		if old.ready, outcome = w.readReady(ctx, path, status.UID); outcome != bind.Written {
			return outcome, ready
		}
	}
	ready = readyCondition(&status, &old.ready, w.now())
	body, err := queueBody(&status, ready)
	if err != nil {
		return bind.Refused, ready
	}
	result, a := w.send(ctx, &apiserver.Call{Method: http.MethodPatch, Path: path + "/status", ContentType: apiserver.ContentStatus, Accept: apiserver.ContentJSON, Body: body})
	if a.Code == http.StatusNotFound {
		return bind.Gone, ready
	}
	return result.Outcome, ready
}

// readReady reads the Ready condition that the Queue with a UID has.
func (w *QueueWriter) readReady(ctx context.Context, path string, uid facts.UID) (ready metav1.Condition, outcome bind.Outcome) {
	result, a := w.send(ctx, &apiserver.Call{Method: http.MethodGet, Path: path, Accept: apiserver.ContentJSON})
	if a.Code == http.StatusNotFound {
		return ready, bind.Gone
	}
	var queue v1alpha1.Queue
	if result.Outcome != bind.Written {
		return ready, result.Outcome
	}
	if err := json.Unmarshal(a.Body, &queue); err != nil {
		return ready, bind.Refused
	}
	if facts.UID(queue.UID) != uid {
		return ready, bind.Gone
	}
	for _, c := range queue.Status.Conditions {
		if c.Type == v1alpha1.ConditionReady {
			ready = c
		}
	}
	return ready, result.Outcome
}

func readyCondition(s *QueueStatus, old *metav1.Condition, now time.Time) metav1.Condition {
	c := metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, ObservedGeneration: s.Generation, LastTransitionTime: metav1.NewTime(now),
		Reason: cmp.Or(s.Problem.Reason, v1alpha1.ReasonReady), Message: s.Problem.Message,
	}
	if s.Refuses {
		c.Status = metav1.ConditionFalse
	}
	if old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
	}
	return c
}

// queueBody encodes what a Queue's status is replaced by: all of it, so that what it does not say any more goes away, and of the Queue with its UID alone.
func queueBody(s *QueueStatus, ready metav1.Condition) ([]byte, error) {
	body, err := apiserver.StatusPatch(types.UID(s.UID), &v1alpha1.QueueStatus{
		ObservedGeneration: s.Generation,
		Used:               parse.ResourceList(s.Used), Borrowed: parse.ResourceList(s.Borrowed), FairShare: parse.ResourceList(s.FairShare),
		PendingUnits: s.PendingUnits, PendingPods: s.PendingPods, RunningPods: s.RunningPods,
		Conditions: []metav1.Condition{ready},
	})
	if err != nil {
		return nil, fmt.Errorf("encode the status of a Queue: %w", err)
	}
	return body, nil
}
