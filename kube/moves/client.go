package moves

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/control/reschedule"
	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/kube/lease"
	"hilbert.dev/hilbert/kube/parse"
	"hilbert.dev/hilbert/kube/visibility"
)

// AdvicePermissions are what the role controller needs to say which pods should be moved, and Permissions what it needs beside that to move them.
var (
	AdvicePermissions = []apiserver.Permission{
		{Group: visibility.GroupVersion.Group, Resource: visibility.Snapshots, Verbs: []string{"get"}},
	}
	Permissions = []apiserver.Permission{
		{Resource: "pods", Verbs: []string{"get"}},                                                                            // whether it still runs, and what its template is
		{Resource: "pods/eviction", Verbs: []string{"create"}},                                                                // never before its target is reserved
		{Group: v1alpha1.Group, Resource: v1alpha1.Reservations, Verbs: []string{"get", "list", "create", "patch", "delete"}}, // patch: who may be evicted for a growth
		{Resource: "configmaps", Verbs: []string{"get", "patch"}, InLeaseNamespace: true},                                     // who was moved before: HistoryName alone
	}
)

// snapshotTimeout bounds the reading of a snapshot.
const snapshotTimeout = 2 * time.Minute

// Client carries steps of moves out.
type Client struct {
	api     *apiserver.Requester
	stream  *http.Client
	base    string
	fence   *lease.Fence
	timeout time.Duration
	ttl     time.Duration
	// namespace is the controller's own.
	namespace string
	// requests: pods are not evicted, their evictions are asked for by EvictionRequests. served: those that a leader before has made are looked for.
	requests, served bool
}

// New returns a Client. timeout bounds one request, ttl is how long a target is kept, namespace is where the controller's own objects are.
func New(c *apiserver.Connection, fence *lease.Fence, timeout, ttl time.Duration, namespace string) (*Client, error) {
	own := apiserver.ForPurpose(c, "moves", func(d apiserver.Dial) apiserver.Dial { return fence.Dial(apiserver.BoundUnacknowledged(d, timeout)) })
	api, err := apiserver.NewRequester(own)
	if err != nil {
		return nil, fmt.Errorf("make a client for moves: %w", err)
	}
	reading := apiserver.ForPurpose(c, "moves-snapshot", nil)
	stream, err := rest.HTTPClientFor(reading)
	if err != nil {
		return nil, fmt.Errorf("make a client for snapshots: %w", err)
	}
	base, _, err := rest.DefaultServerUrlFor(reading)
	if err != nil {
		return nil, fmt.Errorf("make a client for snapshots: %w", err)
	}
	return &Client{api: api, stream: stream, base: base.String(), fence: fence, timeout: timeout, ttl: ttl, namespace: namespace}, nil
}

// Close gives the connections back.
func (c *Client) Close() {
	c.api.CloseIdle()
	c.stream.CloseIdleConnections()
}

// Snapshot reads what the leading scheduler knows, from the aggregated API.
func (c *Client) Snapshot(ctx context.Context, read func(io.Reader) error) error {
	ctx, cancel := context.WithTimeout(ctx, snapshotTimeout)
	defer cancel()
	q := visibility.Question{Resource: visibility.Snapshots, Name: visibility.CurrentSnapshot}
	target, err := url.JoinPath(c.base, q.Path())
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, http.NoBody)
	if err != nil {
		return err
	}
	request.Header.Set("Accept", apiserver.ContentJSON)
	response, err := c.stream.Do(request)
	if err != nil {
		return fmt.Errorf("read a snapshot: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1024))
		return fmt.Errorf("read a snapshot: the API server answers %d: %s", response.StatusCode, text)
	}
	return read(response.Body)
}

// read gets an object; there is false where there is none.
func (c *Client) read(ctx context.Context, path, what string, into any) (there bool, err error) {
	return c.readUnless(ctx, path, what, into, func(int) bool { return false })
}

// readUnless takes some answers for that there is none.
func (c *Client) readUnless(ctx context.Context, path, what string, into any, none func(code int) bool) (there bool, err error) {
	a := c.api.Do(ctx, &apiserver.Call{Method: http.MethodGet, Path: path, Accept: apiserver.ContentJSON}, c.timeout)
	if a.Err == nil && (a.Code == http.StatusNotFound || none(a.Code)) {
		return false, nil
	}
	if err := a.Failure("read " + what); err != nil {
		return false, err
	}
	if err := json.Unmarshal(a.Body, into); err != nil {
		return false, fmt.Errorf("read %s: %w", what, err)
	}
	return true, nil
}

// write makes a call, if the leadership lasts for it.
func (c *Client) write(ctx context.Context, call *apiserver.Call, did string) apiserver.Answer {
	if !c.fence.Open(time.Now(), c.timeout) {
		return apiserver.Answer{Err: fmt.Errorf("%s: %w", did, lease.ErrFenced)}
	}
	return c.api.Do(ctx, call, c.timeout)
}

func podPath(namespace, name string) string {
	return "/api/v1/namespaces/" + namespace + "/pods/" + name
}

func reservationPath(namespace, name string) string {
	return "/apis/" + v1alpha1.GroupVersion.String() + "/namespaces/" + namespace + "/" + v1alpha1.Reservations + "/" + name
}

// See says how a move stands. The Reservation is read last, so that nobody is evicted for what the target was before.
func (c *Client) See(ctx context.Context, m *reschedule.Carried) (reschedule.Seen, error) {
	if m.Gang != nil {
		return c.seeGang(ctx, m)
	}
	seen, err := c.seePod(ctx, m, &reschedule.Member{Pod: m.Wanted.Pod, Name: m.Name, From: m.Wanted.From})
	if err != nil {
		return seen, err
	}
	if err := c.seeRequest(ctx, m, &seen); err != nil {
		return seen, err
	}
	target, there, err := c.target(ctx, m)
	if err != nil {
		return seen, err
	}
	seen.Place, seen.Why, seen.Replacement = placeOf(target, there)
	seen.Served = seen.Place == reschedule.Lost && seen.Replacement != ""
	seen.Known = true
	return seen, nil
}

// seePod says how a pod that is moved stands.
func (c *Client) seePod(ctx context.Context, m *reschedule.Carried, who *reschedule.Member) (seen reschedule.Seen, err error) {
	var pod corev1.Pod
	there, err := c.read(ctx, podPath(m.Namespace, who.Name), "pod "+m.Namespace+"/"+who.Name, &pod)
	switch {
	case err != nil:
	case !there || string(pod.UID) != who.Pod || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		seen.Gone = true
	case pod.DeletionTimestamp != nil:
		seen.Evicted = m.Stage >= reschedule.Evicting
	default:
		seen.Running, seen.Vetoed = pod.Spec.NodeName == who.From, veto(&pod)
		if m.Gang != nil && parse.UnitOf(&pod) != m.Gang.PodGroup {
			seen.NoMember = who.Name + " is no member of the PodGroup " + m.Gang.PodGroup
		}
	}
	return seen, err
}

// target reads the Reservation of a move.
func (c *Client) target(ctx context.Context, m *reschedule.Carried) (r *v1alpha1.Reservation, there bool, err error) {
	r = new(v1alpha1.Reservation)
	there, err = c.read(ctx, reservationPath(m.Namespace, nameOf(m.Wanted.Pod)), "the target of "+m.Namespace+"/"+m.Name, r)
	return r, there, err
}

// placeOf says how a target stands, as the API server has it. replacement is the pod that has it or, where it is lost, another place.
func placeOf(r *v1alpha1.Reservation, there bool) (is reschedule.Place, why, replacement string) {
	if !there || r.DeletionTimestamp != nil {
		return reschedule.Absent, "there is no Reservation any more", ""
	}
	for i := range r.Status.Places {
		switch p := &r.Status.Places[i]; p.State {
		case facts.PlaceReserved.String():
			return reschedule.Reserved, "", ""
		case facts.PlaceConsumed.String():
			return reschedule.Consumed, "pod " + p.Pod + " has it", p.Pod
		case facts.PlaceLost.String():
			return reschedule.Lost, p.Reason + ": " + p.Message, p.Pod
		}
	}
	return reschedule.Asked, "", ""
}

// Reserve creates the Reservation of a move's target. One that is there is as good.
func (c *Client) Reserve(ctx context.Context, m *reschedule.Carried) error {
	did := "reserve " + m.Wanted.To + " for " + m.Namespace + "/" + m.Name
	var pod corev1.Pod
	there, err := c.read(ctx, podPath(m.Namespace, m.Name), "pod "+m.Namespace+"/"+m.Name, &pod)
	if err != nil {
		return err
	}
	if !there || string(pod.UID) != m.Wanted.Pod {
		return nil // the next look says so
	}
	r, err := reservation(&m.Wanted, &pod, c.ttl)
	if err != nil {
		return err
	}
	body, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("%s: %w", did, err)
	}
	a := c.write(ctx, &apiserver.Call{
		Method: http.MethodPost, Path: strings.TrimSuffix(reservationPath(m.Namespace, ""), "/"), ContentType: apiserver.ContentJSON, Accept: apiserver.AcceptMetadataJSON, Body: body,
	}, did)
	if a.Err == nil && a.Code == http.StatusConflict {
		return nil
	}
	return a.Failure(did)
}

// GiveBack deletes the Reservation of a move's target, and before it the EvictionRequest, if there is one.
func (c *Client) GiveBack(ctx context.Context, m *reschedule.Carried) error {
	if err := c.Withdraw(ctx, m); err != nil {
		return err
	}
	did := "give the target of " + m.Namespace + "/" + m.Name + " back"
	a := c.write(ctx, &apiserver.Call{
		Method: http.MethodDelete, Path: reservationPath(m.Namespace, nameOf(m.Wanted.Pod)), ContentType: apiserver.ContentJSON, Accept: apiserver.AcceptMetadataJSON,
	}, did)
	if a.Err == nil && a.Code == http.StatusNotFound {
		return nil
	}
	return a.Failure(did)
}

// Permit says in the Reservation of a growth, of that UID and no other, which pods may be evicted for it. refused: it certainly does not say so; else, after an error, it may.
func (c *Client) Permit(ctx context.Context, namespace, name, uid string, victims []string) (refused bool, err error) {
	did := "say who may be evicted for the Reservation " + namespace + "/" + name
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid, "annotations": map[string]string{spec.AnnotationMayEvict: strings.Join(victims, ",")}}})
	if err != nil {
		return true, fmt.Errorf("%s: %w", did, err)
	}
	a := c.write(ctx, &apiserver.Call{
		Method: http.MethodPatch, Path: reservationPath(namespace, name), ContentType: apiserver.ContentMerge, Accept: apiserver.AcceptMetadataJSON, Body: body,
	}, did)
	// Of 5xx, of a timeout, and of no answer nobody knows what was done.
	refused = errors.Is(a.Err, lease.ErrFenced) || a.Err == nil && a.Code >= http.StatusBadRequest && a.Code < http.StatusInternalServerError && a.Code != http.StatusRequestTimeout
	return refused, a.Failure(did)
}

// Evict evicts a move's pod, or asks for it by an EvictionRequest. refused says why the API server does not allow it now; err is for everything else, where the eviction may have been done.
func (c *Client) Evict(ctx context.Context, m *reschedule.Carried) (refused string, err error) {
	switch {
	case m.Gang != nil:
		return c.evictGang(ctx, m)
	case c.requests:
		return "", c.request(ctx, m)
	}
	return c.evict(ctx, m.Namespace, m.Name, m.Wanted.Pod, false)
}

// Ask asks whether the pod, or each of a gang's, could be evicted now, and evicts nobody.
func (c *Client) Ask(ctx context.Context, m *reschedule.Carried) (refused string, err error) {
	if m.Gang != nil {
		return c.askGang(ctx, m)
	}
	return c.evict(ctx, m.Namespace, m.Name, m.Wanted.Pod, true)
}

func (c *Client) evict(ctx context.Context, namespace, name, uid string, dry bool) (refused string, err error) {
	did := "evict " + namespace + "/" + name
	body, err := apiserver.EvictionBody(namespace, name, uid, dry)
	if err != nil {
		return "", err
	}
	call := &apiserver.Call{Method: http.MethodPost, ContentType: apiserver.ContentJSON, Body: body}
	call.About(namespace, name, "eviction")
	a := c.write(ctx, call, did)
	switch {
	case a.Err != nil:
		return "", a.Failure(did)
	case a.Code == http.StatusNotFound, a.Code == http.StatusConflict: // gone, or another has its name: the next look says so
		return "", nil
	case (a.Code == http.StatusTooManyRequests || a.Code == http.StatusForbidden) && apiserver.NamesBudget(&a.Status):
		return budgetOf(&a.Status), nil
	}
	return "", a.Failure(did)
}

// budgetOf is what the API server says of the disruption budget that refuses.
func budgetOf(s *metav1.Status) string {
	i := slices.IndexFunc(s.Details.Causes, func(c metav1.StatusCause) bool { return c.Type == policyv1.DisruptionBudgetCause })
	return "its disruption budget refuses: " + s.Details.Causes[i].Message
}

// Left lists the moves that a leader before has left, and when each began. What cannot be read is none of ours, and keeps no other from being read.
func (c *Client) Left(ctx context.Context, visit func(w reschedule.Wanted, created time.Time)) error {
	next := ""
	for {
		var list apiserver.WrittenList[v1alpha1.Reservation]
		a := c.api.Do(ctx, &apiserver.Call{
			Method: http.MethodGet, Path: "/apis/" + v1alpha1.GroupVersion.String() + "/" + v1alpha1.Reservations, Accept: apiserver.ContentJSON,
			Query: url.Values{"labelSelector": {spec.LabelMove}, "limit": {"100"}, "continue": {next}}.Encode(),
		}, c.timeout)
		if err := a.Failure("list the moves that were left"); err != nil {
			return err
		}
		if err := json.Unmarshal(a.Body, &list); err != nil {
			return fmt.Errorf("list the moves that were left: %w", err)
		}
		for i := range list.Items {
			if r := list.Items[i].Object; r != nil {
				if w, ok := Of(r); ok { // else it is nobody's, and ends by its TTL
					visit(w, r.CreationTimestamp.Time)
				}
			}
		}
		if next = list.Continue; next == "" {
			return nil
		}
	}
}

// Of reads the move whose target a Reservation keeps. Whoever may write Reservations may give them our label, annotation and any template: one that says nothing of a move answers false.
func Of(r *v1alpha1.Reservation) (w reschedule.Wanted, ok bool) {
	var what record
	if json.Unmarshal([]byte(r.Annotations[spec.AnnotationMove]), &what) != nil || r.Name != nameOf(what.UID) || !isName(what.Name) {
		return w, false
	}
	gang, ok := gangOf(&what, r)
	return reschedule.Wanted{
		Pod: what.UID, Namespace: r.Namespace, Name: what.Name, Workload: what.Workload, From: what.From, To: what.To, Reason: what.Reason, Why: what.Why, Gang: gang,
	}, ok
}

// isName reports whether a text can name a pod in a path. Whoever may write Reservations may write the annotation, and must not lead us to another namespace.
func isName(text string) bool { return text != "" && len(content.IsPathSegmentName(text)) == 0 }
