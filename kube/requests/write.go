package requests

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/control/request"
	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/kube/lease"
	"hilbert.dev/hilbert/kube/parse"
)

// Permissions are what ResourceRequests need to be answered.
var Permissions = []apiserver.Permission{
	{Group: v1alpha1.Group, Resource: v1alpha1.ResourceRequests, Verbs: []string{"list", "watch"}},
	{Group: v1alpha1.Group, Resource: v1alpha1.ResourceRequests + "/status", Verbs: []string{"patch"}},
	{Group: v1alpha1.Group, Resource: v1alpha1.ResourceRequests + "/finalizers", Verbs: []string{"update"}}, // some clusters want it of who makes pods that hold their owner up
	{Resource: "pods", Verbs: []string{"list", "watch", "create", "delete"}},
	{Group: "scheduling.k8s.io", Resource: "podgroups", Verbs: []string{"create"}}, // of gangs
	{Group: parse.GroupSigs, Resource: "podgroups", Verbs: []string{"create"}},     // where the API server has no others
	{Group: "events.k8s.io", Resource: "events", Verbs: []string{"create"}},
}

// ConditionComplete is True once each container that was asked for has ended.
const ConditionComplete = "Complete"

// reporter is the reporter of our Events.
const reporter = "hilbert.dev/hilbert-controller"

// Writer carries out what was decided. It may be called by many goroutines.
type Writer struct {
	api       *apiserver.Requester
	fence     *lease.Fence
	watch     *Watch
	scheduler string
	timeout   time.Duration
}

// NewWriter makes a Writer. scheduler schedules the pods of templates that name none; timeout bounds one write.
func NewWriter(c *apiserver.Connection, fence *lease.Fence, w *Watch, scheduler string, timeout time.Duration) (*Writer, error) {
	api, err := apiserver.NewRequester(apiserver.ForPurpose(c, "requests", func(d apiserver.Dial) apiserver.Dial { return fence.Dial(apiserver.BoundUnacknowledged(d, timeout)) }))
	if err != nil {
		return nil, fmt.Errorf("make a client for the pods of ResourceRequests: %w", err)
	}
	return &Writer{api: api, fence: fence, watch: w, scheduler: scheduler, timeout: timeout}, nil
}

// Close gives the connections back.
func (w *Writer) Close() { w.api.CloseIdle() }

// outcome is what came of an action. The error is nil where nothing is wrong.
type outcome struct {
	what    string // create, delete, status or gather
	result  request.Result
	message string
	err     error
}

// do carries an action out.
func (w *Writer) do(ctx context.Context, a *request.Action) outcome {
	object := w.watch.object(a.Request, a.UID)
	if object == nil && a.Delete == nil {
		return outcome{what: "none", result: request.Unknown} // it went meanwhile
	}
	switch {
	case a.Create != nil:
		return w.create(ctx, object, a.Create)
	case a.Gather != nil:
		return w.gather(ctx, object, a.Gather)
	case a.Delete != nil:
		return w.remove(ctx, a)
	}
	return w.status(ctx, object, a.Status)
}

// call makes one call, if the leadership lasts for it.
func (w *Writer) call(ctx context.Context, what string, call *apiserver.Call, did string) (apiserver.Answer, outcome) {
	if !w.fence.Open(time.Now(), w.timeout) {
		return apiserver.Answer{Err: lease.ErrFenced}, outcome{what: what, result: request.Unknown, err: fmt.Errorf("%s: %w", did, lease.ErrFenced)}
	}
	a := w.api.Do(ctx, call, w.timeout)
	o := outcome{what: what, err: a.Failure(did), message: a.Status.Message}
	switch {
	case o.err == nil:
		o.result = request.Done
	case a.Err != nil, a.Code >= http.StatusInternalServerError, a.Code == http.StatusTooManyRequests, a.Code == http.StatusUnauthorized:
		o.result = request.Unknown
	default:
		o.result = request.Refused
	}
	return a, o
}

func (w *Writer) create(ctx context.Context, object *v1alpha1.ResourceRequest, c *request.Create) outcome {
	p, err := pod(object, c, w.scheduler)
	if err != nil {
		return outcome{what: "create", result: request.Unknown} // the ask went meanwhile
	}
	body, err := json.Marshal(p)
	if err != nil {
		return outcome{what: "create", result: request.Refused, message: err.Error(), err: fmt.Errorf("encode pod %s/%s: %w", p.Namespace, p.Name, err)}
	}
	a, o := w.call(ctx, "create", &apiserver.Call{
		Method: http.MethodPost, Path: "/api/v1/namespaces/" + p.Namespace + "/pods", ContentType: apiserver.ContentJSON, Body: body,
	}, "create pod "+p.Namespace+"/"+p.Name)
	if a.Err == nil && a.Code == http.StatusConflict && a.Status.Reason == metav1.StatusReasonAlreadyExists {
		o.result, o.err = request.Exists, nil
	}
	return o
}

// groupAPI is one of the APIs that have PodGroups.
type groupAPI struct {
	version string
	spec    func(members int) any
}

// groupAPIs are those that Hilbert reads, the one to prefer first. Pods name their group for both: the API server drops what it does not know.
func groupAPIs() []groupAPI {
	return []groupAPI{
		{schedulingv1beta1.SchemeGroupVersion.String(), func(members int) any {
			return schedulingv1beta1.PodGroupSpec{SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(members)}}}
		}},
		{parse.GroupSigs + "/v1alpha1", func(members int) any { return map[string]int{"minMember": members} }},
	}
}

// gather makes the PodGroup of a gang, of the first API that the API server has.
func (w *Writer) gather(ctx context.Context, object *v1alpha1.ResourceRequest, g *request.Gather) (o outcome) {
	name := request.GroupOf(object.Name, string(object.UID))
	var absent []string
	for _, api := range groupAPIs() {
		body, err := json.Marshal(map[string]any{
			"apiVersion": api.version, "kind": "PodGroup", "spec": api.spec(g.Members),
			"metadata": metav1.ObjectMeta{Namespace: object.Namespace, Name: name, OwnerReferences: owners(object)},
		})
		if err != nil {
			return outcome{what: "gather", result: request.Refused, message: err.Error(), err: fmt.Errorf("encode PodGroup %s/%s: %w", object.Namespace, name, err)}
		}
		var a apiserver.Answer
		a, o = w.call(ctx, "gather", &apiserver.Call{
			Method: http.MethodPost, Path: "/apis/" + api.version + "/namespaces/" + object.Namespace + "/podgroups",
			ContentType: apiserver.ContentJSON, Accept: apiserver.AcceptMetadataJSON, Body: body,
		}, "create PodGroup "+object.Namespace+"/"+name)
		switch {
		case a.Err == nil && a.Code == http.StatusConflict && a.Status.Reason == metav1.StatusReasonAlreadyExists:
			o.result, o.err = request.Exists, nil
			return o
		case a.Err != nil || a.Code != http.StatusNotFound || a.Status.Details != nil && a.Status.Details.Kind == "namespaces":
			return o
		}
		absent = append(absent, api.version)
	}
	o.message = "spec.gang: the API server has no PodGroups of " + strings.Join(absent, " or ") + "; enable them, or ask piecemeal"
	return o
}

func (w *Writer) remove(ctx context.Context, a *request.Action) outcome {
	d := a.Delete
	uid := types.UID(d.UID)
	options := metav1.DeleteOptions{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}, Preconditions: &metav1.Preconditions{UID: &uid}}
	if d.Version != "" {
		options.Preconditions.ResourceVersion = &d.Version
	}
	body, err := json.Marshal(&options)
	if err != nil {
		return outcome{what: "delete", result: request.Refused, err: fmt.Errorf("encode the deletion of %s/%s: %w", a.Request.Namespace, d.Name, err)}
	}
	call := &apiserver.Call{Method: http.MethodDelete, ContentType: apiserver.ContentJSON, Body: body}
	call.About(a.Request.Namespace, d.Name, "")
	answer, o := w.call(ctx, "delete", call, "delete pod "+a.Request.Namespace+"/"+d.Name)
	switch {
	case answer.Err != nil:
	case answer.Code == http.StatusNotFound:
		o.result, o.err = request.Done, nil
	case answer.Code == http.StatusConflict: // it is another, or it has a node now: we shall see
		o.err = nil
	}
	return o
}

// statusOf is what is written of a status. Times of conditions are those of before where nothing has changed.
func statusOf(s *request.Status, before *v1alpha1.ResourceRequestStatus, now time.Time) *v1alpha1.ResourceRequestStatus {
	out := &v1alpha1.ResourceRequestStatus{
		ObservedGeneration: s.Generation, Asked: int32(s.Asked), Waiting: int32(s.Waiting), Allocated: int32(s.Allocated), Running: int32(s.Running), Succeeded: int32(s.Succeeded),
		Failed: int32(s.Failed), Released: int32(s.Released),
	}
	for i := range s.Slots {
		slot := &s.Slots[i]
		a := v1alpha1.Allocation{
			Ask: slot.Ask, Index: int32(slot.Index), State: slot.State, Pod: slot.Pod, UID: slot.UID, Node: slot.Node, Locality: slot.Level.String(), Failures: int32(slot.Failures),
			Reason: slot.Reason, Message: slot.Message,
		}
		if !slot.Since.IsZero() {
			a.Since = metav1.NewTime(slot.Since.UTC().Truncate(time.Second))
		}
		out.Allocations = append(out.Allocations, a)
	}
	state := func(yes bool) metav1.ConditionStatus {
		if yes {
			return metav1.ConditionTrue
		}
		return metav1.ConditionFalse
	}
	done := metav1.Condition{Type: ConditionComplete, Status: state(s.Complete), Reason: "Unfinished"}
	if s.Complete {
		done.Reason = "Ended"
	}
	for _, c := range []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: state(s.Ready), Reason: s.Reason, Message: s.Message}, done} {
		c.ObservedGeneration, c.LastTransitionTime = s.Generation, metav1.NewTime(now.UTC().Truncate(time.Second))
		if b := conditionOf(before, c.Type); b != nil && b.Status == c.Status {
			c.LastTransitionTime = b.LastTransitionTime
		}
		out.Conditions = append(out.Conditions, c)
	}
	return out
}

func conditionOf(s *v1alpha1.ResourceRequestStatus, kind string) *metav1.Condition {
	if at := slices.IndexFunc(s.Conditions, func(c metav1.Condition) bool { return c.Type == kind }); at >= 0 {
		return &s.Conditions[at]
	}
	return nil
}

func (w *Writer) status(ctx context.Context, object *v1alpha1.ResourceRequest, s *request.Status) outcome {
	now := time.Now()
	next := statusOf(s, &object.Status, now)
	if s.First && same(next, &object.Status) { // later the watch may not show yet what we wrote
		return outcome{what: "none", result: request.Done}
	}
	body, err := apiserver.StatusPatch(object.UID, next)
	if err != nil {
		return outcome{what: "status", result: request.Refused, err: fmt.Errorf("encode the status of ResourceRequest %s/%s: %w", object.Namespace, object.Name, err)}
	}
	_, o := w.call(ctx, "status", &apiserver.Call{
		Method: http.MethodPatch, Path: path(object) + "/status", ContentType: apiserver.ContentStatus, Accept: apiserver.AcceptMetadataJSON, Body: body,
	}, "write the status of ResourceRequest "+object.Namespace+"/"+object.Name)
	if o.err == nil {
		w.tell(ctx, object, next, now)
	}
	return o
}

// same compares statuses as the API server would store them: what is empty is left out.
func same(a, b *v1alpha1.ResourceRequestStatus) bool {
	x, err := json.Marshal(a)
	y, other := json.Marshal(b)
	return err == nil && other == nil && reflect.DeepEqual(x, y)
}

func path(o *v1alpha1.ResourceRequest) string {
	return "/apis/" + v1alpha1.GroupVersion.String() + "/namespaces/" + o.Namespace + "/" + v1alpha1.ResourceRequests + "/" + o.Name
}

// worse are the reasons that are worth an Event.
var worse = []string{request.ReasonRefused, request.ReasonExhausted, request.ReasonNameTaken, request.ReasonUnreadable}

// tell writes an Event where a status has become worse. That it is lost does no harm: the status says the same.
func (w *Writer) tell(ctx context.Context, object *v1alpha1.ResourceRequest, next *v1alpha1.ResourceRequestStatus, now time.Time) {
	c := conditionOf(next, v1alpha1.ConditionReady)
	before := conditionOf(&object.Status, v1alpha1.ConditionReady)
	if c == nil || !slices.Contains(worse, c.Reason) || before != nil && before.Reason == c.Reason {
		return
	}
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, object.UID, c.Reason, c.Message)
	note := c.Message
	if note == "" {
		note = c.Reason
	}
	body, err := json.Marshal(&eventsv1.Event{
		TypeMeta:   metav1.TypeMeta{APIVersion: eventsv1.SchemeGroupVersion.String(), Kind: "Event"},
		ObjectMeta: metav1.ObjectMeta{Namespace: object.Namespace, Name: fmt.Sprintf("%s.%x", object.Name, h.Sum64())},
		EventTime:  metav1.NewMicroTime(now), Type: corev1.EventTypeWarning, Reason: c.Reason, Action: "Allocating", Note: apiserver.EventNote(note),
		Regarding: corev1.ObjectReference{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: kind, Namespace: object.Namespace, Name: object.Name, UID: object.UID,
		},
		ReportingController: reporter, ReportingInstance: "hilbert-controller",
	})
	if err == nil {
		_, _ = w.call(ctx, "event", &apiserver.Call{
			Method: http.MethodPost, Path: "/apis/events.k8s.io/v1/namespaces/" + object.Namespace + "/events", ContentType: apiserver.ContentJSON, Accept: apiserver.AcceptMetadataJSON, Body: body,
		}, "write an Event of ResourceRequest "+object.Namespace+"/"+object.Name)
	}
}
