// Package write carries out what the scheduler has decided: it turns bind.Writes into API calls, and their answers into bind.Results.
//
//	Writer.Start(bind.Write) ─▶ a worker ─▶ sender (lease.Fence) ─▶ apiserver.Requester ─▶ API server
//	                                └─▶ Writer.Results: Written, Gone, Conflict, Refused, Unknown, NotSent
//
// Writer has a fixed pool of workers and answers each bind.Write with exactly one bind.Result. QueueWriter writes the status of Queues. Both send through
// connections that check the lease.Fence at each system call.
//
// Example. The scheduler decides about 100 pods; 64 workers send a Binding each. One connection breaks after the request has left: the result is Unknown,
// the pod keeps its node, and the scheduler repeats the same Write. The API server binds a pod once, so the repetition is harmless.
//
// Invariants: no write leaves this process unless the leadership outlasts it. What the API server did with a request that was not answered is Unknown, never a failure.
//
// The package repeats nothing and decides nothing: package schedule/bind does.
package write

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	nodev1alpha1 "hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/kube/lease"
	"hilbert.dev/hilbert/schedule/bind"
)

// Options make a Writer.
type Options struct {
	// Workers are the writes under way at once, the bound on the pipeline's Bindings, reads and conditions together.
	Workers int
	// Timeout bounds one write, its repetitions before it left included.
	Timeout time.Duration
	// SchedulerName is in the message of a victim's DisruptionTarget condition.
	SchedulerName string
	// Sent, if set, receives how long each answered request took. It is called from several goroutines.
	Sent func(kind bind.WriteKind, outcome bind.Outcome, took time.Duration)
}

// Writer makes the API calls that the pipeline asks for: a fixed pool of workers, one call each at a time. All writes go through
// connections of their own that check the Fence at each system call; reads do not, because they change nothing.
//
// Every Write is answered once on Results. Start and Results are for one goroutine.
type Writer struct {
	*sender
	status  *sender // of conditions, with connections of its own: however many wait, they hold up no Binding
	options Options
	pods    corev1client.PodsGetter
	groups  *groupAPIs

	order   *writeOrder
	work    chan orderedWrite
	results chan bind.Result
	stop    context.CancelFunc
	workers sync.WaitGroup
}

// NewWriter starts the workers. They run until Close; ctx lends its values only, because at a shutdown writes are still answered.
func New(ctx context.Context, c *apiserver.Connection, fence *lease.Fence, o Options) (*Writer, error) {
	sender, err := newSender(c, "writer", fence, o.Timeout)
	if err != nil {
		return nil, err
	}
	status, err := newSender(c, "status", fence, o.Timeout)
	if err != nil {
		return nil, err
	}
	reader := apiserver.ForPurpose(c, "reader", nil)
	shared, err := rest.HTTPClientFor(reader)
	if err != nil {
		return nil, fmt.Errorf("make a client for reads: %w", err)
	}
	pods, podsErr := corev1client.NewForConfigAndClient(reader, shared)
	surveyor, surveyorErr := apiserver.NewSurveyor(reader, shared)
	if err := errors.Join(podsErr, surveyorErr); err != nil {
		return nil, fmt.Errorf("make a client for reads: %w", err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	w := &Writer{
		sender: sender, status: status, options: o, pods: pods, groups: &groupAPIs{surveyor: surveyor},
		order:   newWriteOrder(),
		work:    make(chan orderedWrite, o.Workers),
		results: make(chan bind.Result, 2*o.Workers),
		stop:    stop,
	}
	for range o.Workers {
		w.workers.Go(func() { w.serve(ctx) })
	}
	return w, nil
}

// Start hands over a write. It does not block as long as no more than Workers writes wait for their answer to be taken from Results; a
// write beyond that is answered NotSent by the returned false.
func (w *Writer) Start(write bind.Write) bool {
	ordered := w.order.add(write)
	select {
	case w.work <- ordered:
		return true
	default:
		w.order.remove(&ordered)
		return false
	}
}

// Results delivers one answer to each write that was started.
func (w *Writer) Results() <-chan bind.Result { return w.results }

// Close breaks off what is under way and waits for the workers. No answers come after it.
func (w *Writer) Close() {
	w.stop()
	w.workers.Wait()
	w.api.CloseIdle()
	w.status.api.CloseIdle()
}

func (w *Writer) serve(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case write := <-w.work:
			result := w.executeInOrder(ctx, &write)
			result.ID = write.ID
			select {
			case w.results <- result:
			case <-ctx.Done():
				return
			}
		}
	}
}

// executeInOrder makes the call of a write after what it comes after.
func (w *Writer) executeInOrder(ctx context.Context, write *orderedWrite) bind.Result {
	defer w.order.remove(write)
	ctx, cancel := context.WithTimeout(ctx, w.options.Timeout)
	defer cancel()
	if !write.wait(ctx) {
		return bind.Result{Outcome: bind.NotSent, Message: "the pod's condition was still being written"}
	}
	began := w.now()
	result := w.execute(ctx, &write.Write)
	if w.options.Sent != nil {
		w.options.Sent(write.Kind, result.Outcome, w.now().Sub(began))
	}
	return result
}

func (w *Writer) execute(ctx context.Context, write *bind.Write) bind.Result {
	var c apiserver.Call
	var err error
	switch write.Kind {
	case bind.WriteBinding:
		c.About(write.Namespace, write.Name, "binding")
		c.Method, c.ContentType = http.MethodPost, apiserver.ContentProtobuf
		c.Body, err = bindingBody(write)
	case bind.WriteCondition, bind.WriteNomination, bind.WriteDisruption:
		c.About(write.Namespace, write.Name, "status")
		c.Method, c.ContentType = http.MethodPatch, apiserver.ContentStrategicMerge
		c.Body, err = statusBody(write, w.options.SchedulerName, w.now())
	case bind.DeletePod:
		c.About(write.Namespace, write.Name, "")
		c.Method, c.ContentType = http.MethodDelete, apiserver.ContentJSON
		c.Body, err = deletionBody(write)
	case bind.EvictPod:
		c.About(write.Namespace, write.Name, "eviction")
		c.Method, c.ContentType = http.MethodPost, apiserver.ContentJSON
		c.Body, err = apiserver.EvictionBody(write.Namespace, write.Name, string(write.Pod), false)
	case bind.WriteEvent:
		c.Path = "/apis/events.k8s.io/v1/namespaces/" + write.Namespace + "/events"
		c.Method, c.ContentType, c.Accept = http.MethodPost, apiserver.ContentJSON, apiserver.AcceptMetadata
		c.Body, err = w.eventBody(ctx, write)
	case bind.WriteNodeEvent:
		c.Path, c.Accept = "/apis/events.k8s.io/v1/namespaces/"+nodeEventNamespace(write)+"/events", apiserver.AcceptMetadata
		c.Method, c.ContentType = http.MethodPost, apiserver.ContentJSON
		if write.Known {
			c.Path += "/" + nodeEventName(write)
			c.Method, c.ContentType = http.MethodPatch, apiserver.ContentMerge
		}
		c.Body, err = nodeEventBody(write)
	case bind.WriteRefusals:
		c.Path, c.Accept = "/apis/"+nodev1alpha1.Group+"/"+nodev1alpha1.Version+"/"+nodev1alpha1.CustomNodeResources+"/"+write.Node, apiserver.AcceptMetadata
		c.Method, c.ContentType = http.MethodPatch, apiserver.ContentMerge
		c.Body, err = refusalsBody(write)
	case bind.WriteVolume:
		err = volumeCall(write, &c)
	case bind.WriteClaim:
		err = claimCall(write, &c)
	case bind.GiveBackClaim:
		err = giveBackCall(write, &c)
	case bind.WriteReservation:
		err = reservationCall(write, w.now(), &c)
	case bind.ReadPod:
		return w.read(ctx, write)
	case bind.WriteUnitCondition:
		return w.writeUnit(ctx, write)
	default:
		return bind.Result{Outcome: bind.NotSent, Message: fmt.Sprintf("no such kind of write: %d", write.Kind)}
	}
	if err != nil {
		return bind.Result{Outcome: bind.Refused, Message: err.Error()}
	}
	by := w.sender
	if write.Kind == bind.WriteCondition {
		by = w.status
	}
	result, answer := by.send(ctx, &c)
	if write.Kind == bind.WriteVolume {
		return volumeResult(result, answer.Code)
	}
	if write.Kind == bind.WriteClaim {
		return claimResult(write, result, answer.Code)
	}
	if write.Kind == bind.GiveBackClaim {
		result.Version = versionOf(answer.Body)
	}
	return result
}

// Pauses between tries of a write that the API server did not take up. They hold the write's place in flight, so that an overloaded API
// server slows the whole pipeline down.
const (
	firstPause = 50 * time.Millisecond
	maxPause   = 2 * time.Second
)

// sender makes calls that check the Fence.
type sender struct {
	fence   *lease.Fence
	api     *apiserver.Requester
	timeout time.Duration
	now     func() time.Time
}

// newSender makes a sender with connections of its own.
func newSender(c *apiserver.Connection, purpose string, fence *lease.Fence, timeout time.Duration) (*sender, error) {
	api, err := apiserver.NewRequester(apiserver.ForPurpose(c, purpose, func(d apiserver.Dial) apiserver.Dial { return fence.Dial(apiserver.BoundUnacknowledged(d, timeout)) }))
	if err != nil {
		return nil, fmt.Errorf("make a client for writes: %w", err)
	}
	return &sender{fence: fence, api: api, timeout: timeout, now: time.Now}, nil
}

// send makes the call, again and again for as long as it certainly was not taken up: no connection, or 429, which the API server's flow
// control answers before it looks at the request. Anything else is an outcome, with the last answer.
func (s *sender) send(ctx context.Context, c *apiserver.Call) (bind.Result, apiserver.Answer) {
	pause := firstPause
	for {
		if !s.fence.Open(s.now(), s.timeout) {
			return bind.Result{Outcome: bind.NotSent, Message: lease.ErrFenced.Error()}, apiserver.Answer{}
		}
		a := s.api.Do(ctx, c, s.timeout)
		result, again := classify(c, &a)
		if !again {
			return result, a
		}
		if a.RetryAfter > 0 {
			pause = a.RetryAfter
		}
		if !apiserver.Pause(ctx, min(pause, maxPause)) {
			return result, a
		}
		pause *= 2
	}
}
