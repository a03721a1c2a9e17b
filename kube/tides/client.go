package tides

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"net/url"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	nodev1alpha1 "hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/control/tide"
	"hilbert.dev/hilbert/internal/calendar"
	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/kube/lease"
)

// Permissions are what the role controller needs for TidePools, beside those for moves.
var Permissions = []apiserver.Permission{
	{Resource: "nodes", Verbs: []string{"get", "list", "patch"}}, // whose they are: a label and a taint
	{Group: v1alpha1.Group, Resource: v1alpha1.TidePools, Verbs: []string{"list"}},
	{Group: v1alpha1.Group, Resource: v1alpha1.TidePools + "/status", Verbs: []string{"update"}},
	{Group: "events.k8s.io", Resource: "events", Verbs: []string{"create"}}, // nodes that change hands, in the namespace default
}

const (
	pools   = "/apis/" + v1alpha1.Group + "/" + v1alpha1.Version + "/" + v1alpha1.TidePools
	nodes   = "/api/v1/nodes"
	perPage = "500"
	// reporter is who reports events.
	reporter = "hilbert.dev/controller"
)

// Client reads and writes for TidePools.
type Client struct {
	api     *apiserver.Requester
	fence   *lease.Fence
	timeout time.Duration
}

// New returns a Client. timeout bounds one request.
func New(c *apiserver.Connection, fence *lease.Fence, timeout time.Duration) (*Client, error) {
	api, err := apiserver.NewRequester(apiserver.ForPurpose(c, "tides", func(d apiserver.Dial) apiserver.Dial { return fence.Dial(apiserver.BoundUnacknowledged(d, timeout)) }))
	if err != nil {
		return nil, fmt.Errorf("make a client for TidePools: %w", err)
	}
	return &Client{api: api, fence: fence, timeout: timeout}, nil
}

// Close gives the connections back.
func (c *Client) Close() { c.api.CloseIdle() }

// Pool is a TidePool as it was read.
type Pool struct {
	Object v1alpha1.TidePool
	// Spec is complete, Windows are read. Invalid says what is wrong, naming fields; then neither counts.
	Spec    spec.TidePool
	Windows []tide.Window
	Invalid string
}

// Selects reports whether a node with these labels belongs to the pool.
func (p *Pool) Selects(labels map[string]string) bool {
	return p.Invalid == "" && p.Spec.NodeSelector.Matches(labels)
}

// pages lists a resource, page by page.
func (c *Client) pages(ctx context.Context, path, selector, what string, visit func(body []byte) (next string, err error)) error {
	for next := ""; ; {
		a := c.api.Do(ctx, &apiserver.Call{
			Method: http.MethodGet, Path: path, Accept: apiserver.ContentJSON, Query: url.Values{"labelSelector": {selector}, "limit": {perPage}, "continue": {next}}.Encode(),
		}, c.timeout)
		err := a.Failure("list " + what)
		if err == nil {
			if next, err = visit(a.Body); err != nil {
				err = fmt.Errorf("list %s: %w", what, err)
			}
		}
		if err != nil || next == "" {
			return err
		}
	}
}

// Pools lists the TidePools, the oldest first.
func (c *Client) Pools(ctx context.Context) ([]Pool, error) {
	var out []Pool
	err := c.pages(ctx, pools, "", "TidePools", func(body []byte) (string, error) {
		var list apiserver.WrittenList[v1alpha1.TidePool]
		if err := json.Unmarshal(body, &list); err != nil {
			return "", err
		}
		for i := range list.Items {
			out = append(out, read(&list.Items[i]))
		}
		return list.Continue, nil
	})
	slices.SortFunc(out, func(a, b Pool) int {
		return cmp.Or(a.Object.CreationTimestamp.Compare(b.Object.CreationTimestamp.Time), cmp.Compare(a.Object.Name, b.Object.Name))
	})
	return out, err
}

// read reads a pool. One with a mistake is a pool too: its nodes are nobody else's, and its status is what the next leader goes on from, so it is read by itself.
func read(w *apiserver.Written[v1alpha1.TidePool]) (p Pool) {
	if w.Problem != nil {
		p.Object.ObjectMeta, p.Invalid = w.ObjectMeta, w.Problem.Error()
		var rest struct {
			Status v1alpha1.TidePoolStatus `json:"status"`
		}
		if json.Unmarshal(w.Text, &rest) == nil { // else it is of no use: another is written over it
			p.Object.Status = rest.Status
		}
		return p
	}
	p.Object = *w.Object
	p.check()
	return p
}

// check completes the spec and reads its windows, or says what is wrong.
func (p *Pool) check() {
	err := spec.ValidateTidePool(&p.Object.Spec)
	if name := p.Object.Name; len(name) > validation.LabelValueMaxLength {
		err = errors.Join(err, &spec.FieldError{Field: "metadata.name", Err: fmt.Errorf("its nodes carry it as a label; write at most %d characters", validation.LabelValueMaxLength)})
	}
	if err == nil {
		p.Spec = spec.CompleteTidePool(&p.Object.Spec)
		p.Windows, err = Windows(p.Spec.Schedule)
	}
	if err != nil {
		p.Invalid = err.Error()
	}
}

// Windows reads schedules. The error names each mistake.
func Windows(list []spec.TideWindow) ([]tide.Window, error) {
	out := make([]tide.Window, 0, len(list))
	var errs []error
	for i := range list {
		w := &list[i]
		begins, err := calendar.Read(w.Cron, w.Begins, w.TimeZone)
		if err != nil {
			errs = append(errs, &spec.FieldError{Field: fmt.Sprintf("schedule[%d]", i), Err: err})
			continue
		}
		out = append(out, tide.Window{Name: w.Name, Begins: begins, Duration: w.Duration.D(), Online: w.Online})
	}
	return out, errors.Join(errs...)
}

// Node is a node that carries the label of a TidePool.
type Node struct {
	Pool  string
	Side  tide.Side
	Since time.Time // zero: it never changed hands
}

// Nodes lists the nodes that belong to TidePools, by name.
func (c *Client) Nodes(ctx context.Context) (map[string]Node, error) {
	out := make(map[string]Node)
	err := c.pages(ctx, nodes, spec.LabelTidePool, "the nodes of TidePools", func(body []byte) (string, error) {
		var list struct {
			Metadata metav1.ListMeta
			Items    []metav1.PartialObjectMetadata
		}
		if err := json.Unmarshal(body, &list); err != nil {
			return "", err
		}
		for i := range list.Items {
			out[list.Items[i].Name] = nodeOf(&list.Items[i].ObjectMeta)
		}
		return list.Metadata.Continue, nil
	})
	return out, err
}

func nodeOf(m *metav1.ObjectMeta) Node {
	n := Node{Pool: m.Labels[spec.LabelTidePool]}
	switch m.Labels[spec.LabelTide] {
	case spec.TideOnline:
		n.Side = tide.Online
	case spec.TideOffline:
		n.Side = tide.Offline
	}
	if at, err := time.Parse(time.RFC3339, m.Annotations[spec.AnnotationTideSince]); err == nil {
		n.Since = at
	}
	return n
}

// Hand gives a node of a pool to a side. since is when it changed hands; zero: it did not, it is new.
func (c *Client) Hand(ctx context.Context, node, pool string, to tide.Side, since time.Time) error {
	side := spec.TideOnline
	if to == tide.Offline {
		side = spec.TideOffline
	}
	var at any
	if !since.IsZero() {
		at = since.UTC().Format(time.RFC3339)
	}
	return c.mark(ctx, node, &marks{did: fmt.Sprintf("give node %s to %s", node, side), labels: map[string]any{spec.LabelTide: side, spec.LabelTidePool: pool}, since: at, offline: to == tide.Offline})
}

// Release takes label and taint off a node that belongs to no pool any more.
func (c *Client) Release(ctx context.Context, node string) error {
	return c.mark(ctx, node, &marks{did: "take node " + node + " out of its TidePool", labels: map[string]any{spec.LabelTide: nil, spec.LabelTidePool: nil}})
}

// marks are what a node says of its pool; nil takes away.
type marks struct {
	did     string
	labels  map[string]any
	since   any
	offline bool // it has the taint
}

// mark writes marks at the version of the node that it reads.
func (c *Client) mark(ctx context.Context, node string, m *marks) error {
	a := c.api.Do(ctx, &apiserver.Call{Method: http.MethodGet, Path: nodes + "/" + node, Accept: apiserver.ContentJSON}, c.timeout)
	if a.Err == nil && a.Code == http.StatusNotFound {
		return nil // it is gone
	}
	if err := a.Failure("read node " + node); err != nil {
		return err
	}
	var was corev1.Node
	if err := json.Unmarshal(a.Body, &was); err != nil {
		return fmt.Errorf("read node %s: %w", node, err)
	}
	taints := slices.DeleteFunc(was.Spec.Taints, func(t corev1.Taint) bool { return t.Key == spec.LabelTide })
	if m.offline {
		taints = append(taints, corev1.Taint{Key: spec.LabelTide, Value: spec.TideOffline, Effect: corev1.TaintEffectNoSchedule})
	}
	metadata := map[string]any{"resourceVersion": was.ResourceVersion, "uid": was.UID, "labels": m.labels, "annotations": map[string]any{spec.AnnotationTideSince: m.since}}
	body, err := json.Marshal(map[string]any{"metadata": metadata, "spec": map[string]any{"taints": taints}})
	if err != nil {
		return fmt.Errorf("%s: %w", m.did, err)
	}
	_, err = c.write(ctx, &apiserver.Call{
		Method: http.MethodPatch, Path: nodes + "/" + node, ContentType: string(types.MergePatchType), Accept: apiserver.AcceptMetadataJSON, Body: body,
	}, m.did)
	return err
}

// write makes a call, if the leadership lasts for it.
func (c *Client) write(ctx context.Context, call *apiserver.Call, did string) (apiserver.Answer, error) {
	if !c.fence.Open(time.Now(), c.timeout) {
		return apiserver.Answer{}, fmt.Errorf("%s: %w", did, lease.ErrFenced)
	}
	a := c.api.Do(ctx, call, c.timeout)
	return a, a.Failure(did)
}

// Status writes a pool's status at the version that was read, if it differs. written is false where it does not.
func (c *Client) Status(ctx context.Context, p *Pool, status *spec.TidePoolStatus, conditions []spec.NodeCondition, now time.Time) (written bool, err error) {
	o := &p.Object
	status.ObservedGeneration = o.Generation
	after := v1alpha1.TidePoolStatus{TidePoolStatus: *status, Conditions: nodev1alpha1.Conditions(conditions, o.Status.Conditions, o.Generation, now.Truncate(time.Second))}
	was, err := json.Marshal(o.Status)
	if err != nil {
		return false, err
	}
	is, err := json.Marshal(after)
	if err != nil || string(was) == string(is) {
		return false, err
	}
	body, err := json.Marshal(map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": spec.TidePoolKind,
		"metadata": map[string]any{"name": o.Name, "uid": o.UID, "resourceVersion": o.ResourceVersion}, "status": json.RawMessage(is),
	})
	if err != nil {
		return false, err
	}
	_, err = c.write(ctx, &apiserver.Call{
		Method: http.MethodPut, Path: pools + "/" + o.Name + "/status", ContentType: apiserver.ContentJSON, Accept: apiserver.AcceptMetadataJSON, Body: body,
	}, "write the status of TidePool "+o.Name)
	return err == nil, err
}

// Tell writes an event of a pool, that a node has changed hands. Its name follows from what it tells, so that writing it again has no effect.
func (c *Client) Tell(ctx context.Context, p *Pool, note string, now time.Time) error {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s %s %d", p.Object.UID, note, now.Unix()) // a hash cannot fail
	o := &p.Object
	body, err := json.Marshal(&eventsv1.Event{
		TypeMeta:   metav1.TypeMeta{APIVersion: eventsv1.SchemeGroupVersion.String(), Kind: "Event"},
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: fmt.Sprintf("%.200s.%016x", o.Name, h.Sum64())},
		EventTime:  metav1.NewMicroTime(now), Type: corev1.EventTypeNormal, Reason: "ChangesHands", Action: "HandOver",
		Regarding: corev1.ObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: spec.TidePoolKind, Name: o.Name, UID: o.UID},
		Note:      apiserver.EventNote(note), ReportingController: reporter, ReportingInstance: "hilbert-controller",
	})
	if err != nil {
		return fmt.Errorf("encode an event of TidePool %s: %w", o.Name, err)
	}
	const path = "/apis/events.k8s.io/v1/namespaces/" + metav1.NamespaceDefault + "/events"
	a, err := c.write(ctx, &apiserver.Call{Method: http.MethodPost, Path: path, ContentType: apiserver.ContentJSON, Accept: apiserver.AcceptMetadataJSON, Body: body}, "write an event of TidePool "+o.Name)
	if a.Err == nil && a.Code == http.StatusConflict {
		return nil
	}
	return err
}
