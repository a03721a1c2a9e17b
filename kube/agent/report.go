package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/internal/clock"
	"hilbert.dev/hilbert/kube/apiserver"
)

// ErrNoNode is returned when there is no Node of that name (yet): a report without a Node would outlive it.
var ErrNoNode = errors.New("there is no such Node")

// Reporter writes the CustomNodeResource of one node. A report is one write, with the resource version of the last one: what was sent
// earlier and arrives late cannot take the place of what is newer. The object is made when it is missing, owned by the Node, so that it
// goes when the Node does.
//
// It is for one goroutine, and has no fence: a node has one agent, and the allocations in a report are true whoever leads.
type Reporter struct {
	api     *apiserver.Requester
	node    string
	timeout time.Duration
	now     func() time.Time

	last *v1alpha1.CustomNodeResource // what was read or written last; nil: not known
}

// NewReporter makes a reporter for a node. timeout bounds one request.
func NewReporter(c *apiserver.Connection, node string, timeout time.Duration) (*Reporter, error) {
	api, err := agentRequester(c, timeout)
	if err != nil {
		return nil, err
	}
	return &Reporter{api: api, node: node, timeout: timeout, now: time.Now}, nil
}

// GoBy makes reports say that they are of the times of a clock. It is called before the first report.
func (r *Reporter) GoBy(c clock.Clock) { r.now = c.Now }

// Close gives the connections back.
func (r *Reporter) Close() { r.api.CloseIdle() }

// Report writes what the agent says now. After an error it is not known whether it was written; the next report says all of it again.
// Errors are ErrNoNode, ErrNoDefinition, or what the API server said.
func (r *Reporter) Report(ctx context.Context, report *spec.NodeReport) error {
	const attempts = 2 // somebody may have written in between, or deleted it
	var err error
	for range attempts {
		if r.last == nil {
			if r.last, err = r.find(ctx); err != nil {
				return err
			}
		}
		var again bool
		if again, err = r.write(ctx, report); err == nil || !again {
			return err
		}
	}
	return err
}

func (r *Reporter) write(ctx context.Context, report *spec.NodeReport) (again bool, err error) {
	next := &v1alpha1.CustomNodeResource{
		TypeMeta:   metav1.TypeMeta{APIVersion: spec.NodeAPIVersion, Kind: spec.NodeKind},
		ObjectMeta: metav1.ObjectMeta{Name: r.node, UID: r.last.UID, ResourceVersion: r.last.ResourceVersion},
		Status: v1alpha1.CustomNodeResourceStatus{
			NodeStatus: report.Status, ObservedAt: metav1.NewTime(r.now()),
			Conditions: v1alpha1.Conditions(report.Conditions, r.last.Status.Conditions, 0, r.now()),
		},
	}
	body, err := json.Marshal(next)
	if err != nil {
		return false, fmt.Errorf("encode the CustomNodeResource %s: %w", r.node, err)
	}
	r.last = nil
	a := r.api.Do(ctx, &apiserver.Call{
		Method: http.MethodPut, Path: r.path() + "/status", ContentType: apiserver.ContentJSON, Accept: apiserver.AcceptMetadataJSON, Body: body, Reads: true,
	}, r.timeout)
	var written metav1.PartialObjectMetadata
	if err := a.Failure("write the CustomNodeResource " + r.node); err != nil {
		return a.Code == http.StatusConflict || a.Code == http.StatusNotFound, err
	}
	if json.Unmarshal(a.Body, &written) == nil && written.ResourceVersion != "" {
		next.ResourceVersion, next.UID = written.ResourceVersion, written.UID
		r.last = next
	}
	return false, nil
}

// find reads the object, and makes it where there is none.
func (r *Reporter) find(ctx context.Context) (*v1alpha1.CustomNodeResource, error) {
	object, err := readReport(ctx, r.api, r.node, r.timeout)
	if errors.Is(err, errNoReport) {
		return r.create(ctx)
	}
	return object, err
}

// errNoReport is returned where a node has no CustomNodeResource, or the API server knows none.
var errNoReport = errors.New("there is no such CustomNodeResource")

// readReport reads the CustomNodeResource of a node.
func readReport(ctx context.Context, api *apiserver.Requester, node string, timeout time.Duration) (*v1alpha1.CustomNodeResource, error) {
	a := api.Do(ctx, &apiserver.Call{Method: http.MethodGet, Path: nodeReportsPath + "/" + node, Accept: apiserver.ContentJSON}, timeout)
	if a.Code == http.StatusNotFound {
		return nil, fmt.Errorf("node %s: %w", node, errNoReport)
	}
	return decodeReport(&a, "read", node)
}

func decodeReport(a *apiserver.Answer, did, node string) (*v1alpha1.CustomNodeResource, error) {
	if err := a.Failure(did + " the CustomNodeResource " + node); err != nil {
		return nil, err
	}
	object := &v1alpha1.CustomNodeResource{}
	if err := json.Unmarshal(a.Body, object); err != nil {
		return nil, fmt.Errorf("%s the CustomNodeResource %s: %w", did, node, err)
	}
	return object, nil
}

func (r *Reporter) create(ctx context.Context) (*v1alpha1.CustomNodeResource, error) {
	a := r.api.Do(ctx, &apiserver.Call{Method: http.MethodGet, Path: "/api/v1/nodes/" + r.node, Accept: apiserver.AcceptMetadataJSON}, r.timeout)
	if a.Code == http.StatusNotFound {
		return nil, fmt.Errorf("node %s: %w", r.node, ErrNoNode)
	}
	if err := a.Failure("read the Node " + r.node); err != nil {
		return nil, err
	}
	var node metav1.PartialObjectMetadata
	if err := json.Unmarshal(a.Body, &node); err != nil {
		return nil, fmt.Errorf("read the Node %s: %w", r.node, err)
	}
	object := &v1alpha1.CustomNodeResource{
		TypeMeta: metav1.TypeMeta{APIVersion: spec.NodeAPIVersion, Kind: spec.NodeKind},
		ObjectMeta: metav1.ObjectMeta{
			Name:            r.node,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: r.node, UID: node.UID}},
		},
	}
	body, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encode the CustomNodeResource %s: %w", r.node, err)
	}
	a = r.api.Do(ctx, &apiserver.Call{Method: http.MethodPost, Path: nodeReportsPath, ContentType: apiserver.ContentJSON, Accept: apiserver.ContentJSON, Body: body, Reads: true}, r.timeout)
	if a.Code == http.StatusNotFound {
		return nil, apiserver.ErrNoDefinition
	}
	return decodeReport(&a, "create", r.node)
}

const nodeReportsPath = "/apis/" + v1alpha1.Group + "/" + v1alpha1.Version + "/" + v1alpha1.CustomNodeResources

func (r *Reporter) path() string { return nodeReportsPath + "/" + r.node }
