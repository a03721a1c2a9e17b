package agent

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"hilbert.dev/hilbert/kube/apiserver"
)

const (
	// eventReporter is who reports the agent's events.
	eventReporter = "hilbert.dev/agent"
	// eventAction is what the agent did when there was something to tell.
	eventAction = "Allocate"
	// eventRetry is how long the API server is left alone when an event could not be written.
	eventRetry = 10 * time.Second
)

// Events tells people about pods and about the node in the events of events.k8s.io. What repeats is counted in one event, and all
// together are no more than a budget allows: see eventBook. Events are for people, so losing one is no error.
//
// Record may be called from several goroutines.
type Events struct {
	api     *apiserver.Requester
	node    string
	timeout time.Duration
	stop    context.CancelFunc
	done    chan struct{}
	wake    chan struct{}

	mu   sync.Mutex
	book *eventBook
}

// NewEvents starts the goroutine that writes, which runs until Close; ctx lends its values only. timeout bounds one write.
func NewEvents(ctx context.Context, c *apiserver.Connection, node string, timeout time.Duration) (*Events, error) {
	api, err := agentRequester(c, timeout)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	e := &Events{
		api: api, node: node, timeout: timeout, stop: stop, done: make(chan struct{}), wake: make(chan struct{}, 1), book: newEventBook(time.Now()),
	}
	go func() {
		defer close(e.done)
		e.serve(ctx)
	}()
	return e, nil
}

// Record tells something about a pod, or with an empty name about the node. The reason is one of package spec. It neither waits nor fails.
func (e *Events) Record(namespace, name, uid, reason, message string) {
	about := corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: name, UID: types.UID(uid)}
	if name == "" {
		about = corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: e.node, UID: types.UID(e.node)}
	}
	e.mu.Lock()
	e.book.record(time.Now(), about, reason, message)
	e.mu.Unlock()
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Dropped is how many events were not told, because there were too many different ones.
func (e *Events) Dropped() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.book.dropped
}

// Close breaks off what is under way and waits for the goroutine.
func (e *Events) Close() {
	e.stop()
	<-e.done
	e.api.CloseIdle()
}

func (e *Events) serve(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		e.mu.Lock()
		write, wait := e.book.next(time.Now())
		e.mu.Unlock()
		if write != nil {
			outcome := e.write(ctx, write)
			e.mu.Lock()
			e.book.ended(time.Now(), write, outcome)
			e.mu.Unlock()
			if outcome != eventAgain || apiserver.Pause(ctx, eventRetry) {
				continue
			}
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-e.wake:
		case <-ctx.Done():
		}
	}
}

// write tells one event.
func (e *Events) write(ctx context.Context, w *eventWrite) eventOutcome {
	c := &apiserver.Call{Path: "/apis/events.k8s.io/v1/namespaces/" + w.namespace() + "/events", Accept: apiserver.AcceptMetadata}
	var err error
	if w.count < 2 {
		c.Method, c.ContentType = http.MethodPost, apiserver.ContentJSON
		c.Body, err = json.Marshal(w.event(e.node))
	} else {
		c.Method, c.ContentType = http.MethodPatch, apiserver.ContentMerge
		c.Path += "/" + w.name
		c.Body, err = json.Marshal(map[string]any{
			"series": eventsv1.EventSeries{Count: w.count, LastObservedTime: metav1.NewMicroTime(w.last)},
		})
	}
	if err != nil {
		return eventTold
	}
	a := e.api.Do(ctx, c, e.timeout)
	switch {
	case a.Err != nil, a.Code == http.StatusTooManyRequests, a.Code >= http.StatusInternalServerError:
		return eventAgain
	case a.Code == http.StatusNotFound && c.Method == http.MethodPatch:
		return eventGone
	}
	return eventTold // a 409 too: it was written before, though no answer came
}

// event is the first of a series.
func (w *eventWrite) event(node string) *eventsv1.Event {
	const maxInstance = 128
	kind := corev1.EventTypeWarning
	if normalEvents[w.reason] {
		kind = corev1.EventTypeNormal
	}
	return &eventsv1.Event{
		TypeMeta:   metav1.TypeMeta{APIVersion: eventsv1.SchemeGroupVersion.String(), Kind: "Event"},
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace(), Name: w.name},
		EventTime:  metav1.NewMicroTime(w.first), Type: kind, Reason: w.reason, Action: eventAction, Note: w.note, Regarding: w.about,
		ReportingController: eventReporter, ReportingInstance: node[:min(len(node), maxInstance)],
	}
}

// namespace is where the event is kept: the pod's, and of a node default.
func (w *eventWrite) namespace() string {
	if w.about.Namespace == "" {
		return metav1.NamespaceDefault
	}
	return w.about.Namespace
}
