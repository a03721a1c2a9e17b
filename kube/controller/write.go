package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"

	"hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/control/config"
	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/kube/lease"
)

const (
	// MaxTellsPerSecond is how many nodes are told in a second: 20,000 nodes take some seven minutes, and an API server spends little on it. The metric
	// hilbert_controller_nodes_waiting has how many are still to be told.
	MaxTellsPerSecond = 50
	tellsBurst        = 50
	configurations    = "/apis/" + v1alpha1.Group + "/" + v1alpha1.Version + "/" + v1alpha1.NodeConfigurations
	reports           = "/apis/" + v1alpha1.Group + "/" + v1alpha1.Version + "/" + v1alpha1.CustomNodeResources
)

// Writer writes what was decided.
type Writer struct {
	api     *apiserver.Requester
	fence   *lease.Fence
	watch   *Watch
	rate    flowcontrol.RateLimiter
	timeout time.Duration
}

// NewWriter makes a writer whose writes count in the views of a watch. timeout bounds one write.
func NewWriter(c *apiserver.Connection, fence *lease.Fence, w *Watch, timeout time.Duration) (*Writer, error) {
	api, err := apiserver.NewRequester(apiserver.ForPurpose(c, "controller", func(d apiserver.Dial) apiserver.Dial { return fence.Dial(apiserver.BoundUnacknowledged(d, timeout)) }))
	if err != nil {
		return nil, fmt.Errorf("make a client for the controller's writes: %w", err)
	}
	return &Writer{api: api, fence: fence, watch: w, rate: flowcontrol.NewTokenBucketRateLimiter(MaxTellsPerSecond, tellsBurst), timeout: timeout}, nil
}

// Close gives the connections back.
func (w *Writer) Close() { w.api.CloseIdle() }

// do makes one call, if the leadership lasts for it.
func (w *Writer) do(ctx context.Context, call *apiserver.Call, did string) (apiserver.Answer, error) {
	if !w.fence.Open(time.Now(), w.timeout) {
		return apiserver.Answer{}, fmt.Errorf("%s: %w", did, lease.ErrFenced)
	}
	a := w.api.Do(ctx, call, w.timeout)
	return a, a.Failure(did)
}

// Allowed reports whether a node may be told now; it counts against the rate.
func (w *Writer) Allowed() bool { return w.rate.TryAccept() }

// Tell tells a node its configuration: one request, which changes nothing else.
func (w *Writer) Tell(ctx context.Context, t *config.Tell) error {
	call := &apiserver.Call{Method: http.MethodPatch, Path: reports + "/" + t.Node, ContentType: string(types.MergePatchType), Accept: apiserver.AcceptMetadataJSON}
	var body any = map[string]any{"spec": map[string]any{"configuration": t.Wanted}}
	if t.Wanted != nil && w.watch.toldBefore(t.Node) {
		// A merge would leave parameters of before in place, and where nothing was told there may be no spec to add to.
		call.ContentType = string(types.JSONPatchType)
		body = []map[string]any{{"op": "add", "path": "/spec/configuration", "value": t.Wanted}}
	}
	var err error
	if call.Body, err = json.Marshal(body); err != nil {
		return fmt.Errorf("encode the configuration of node %s: %w", t.Node, err)
	}
	if _, err = w.do(ctx, call, "tell node "+t.Node+" its configuration"); err == nil {
		w.watch.told(t.Node, t.Wanted, time.Now())
	}
	return err
}

// Status writes the status of an object at the version that it was decided from. written is false where nothing had to be.
func (w *Writer) Status(ctx context.Context, s *config.StatusWrite) (written bool, err error) {
	w.watch.mu.Lock()
	known := w.watch.objects[s.Object]
	w.watch.mu.Unlock()
	if known == nil {
		return false, nil // it is gone
	}
	now := time.Now()
	status := v1alpha1.NodeConfigurationStatus{NodeConfigurationStatus: s.Status, Conditions: v1alpha1.Conditions(s.Conditions, known.conditions, s.Status.ObservedGeneration, now.Truncate(time.Second))}
	before, err := json.Marshal(v1alpha1.NodeConfigurationStatus{NodeConfigurationStatus: known.Status, Conditions: known.conditions})
	if err != nil {
		return false, err
	}
	after, err := json.Marshal(status)
	if err != nil || string(before) == string(after) {
		return false, err
	}
	body, err := json.Marshal(map[string]any{
		"apiVersion": spec.NodeAPIVersion, "kind": spec.NodeConfigurationKind,
		"metadata": map[string]any{"name": s.Object, "uid": known.uid, "resourceVersion": known.version}, "status": json.RawMessage(after),
	})
	if err != nil {
		return false, err
	}
	a, err := w.do(ctx, &apiserver.Call{
		Method: http.MethodPut, Path: configurations + "/" + s.Object + "/status", ContentType: apiserver.ContentJSON, Accept: apiserver.AcceptMetadataJSON, Body: body, Reads: true,
	}, "write the status of NodeConfiguration "+s.Object)
	w.watch.mu.Lock()
	defer w.watch.mu.Unlock()
	if o := w.watch.objects[s.Object]; o == known {
		var meta metav1.PartialObjectMetadata
		switch {
		case err != nil:
			known.own = "" // what the watch says counts again
		case json.Unmarshal(a.Body, &meta) == nil && meta.ResourceVersion != "":
			known.Status, known.conditions = s.Status, status.Conditions
			known.version, known.own, known.until = meta.ResourceVersion, meta.ResourceVersion, now.Add(ownWriteFor)
		}
	}
	return err == nil, err
}
