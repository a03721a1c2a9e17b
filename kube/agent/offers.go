package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"

	"hilbert.dev/hilbert/kube/apiserver"
)

// Offers are who offers a node's GPUs, beside the agent.
type Offers struct {
	// NodeKnown: the Node was read, and Offered are the amounts in its capacity and its allocatable, by name, the larger of the two.
	NodeKnown bool
	Offered   map[string]int64
	// SlicesKnown: the node's ResourceSlices were listed, or the server has none; Slices is how many devices NVIDIA's DRA driver has in them.
	SlicesKnown bool
	Slices      int
}

// GPUOffers asks who offers a node's GPUs.
type GPUOffers struct {
	api     *apiserver.Requester
	node    string
	timeout time.Duration
}

// NewGPUOffers makes a client for one node. timeout bounds each request.
func NewGPUOffers(c *apiserver.Connection, node string, timeout time.Duration) (*GPUOffers, error) {
	api, err := agentRequester(c, timeout)
	if err != nil {
		return nil, err
	}
	return &GPUOffers{api: api, node: node, timeout: timeout}, nil
}

// Close gives the connections back.
func (o *GPUOffers) Close() { o.api.CloseIdle() }

// sliceVersions are those of resource.k8s.io that have ResourceSlices as they are read here, the newest first.
var sliceVersions = []string{"v1", "v1beta2", "v1beta1"}

// Ask reads the Node and lists its ResourceSlices. What is known stands beside an error too.
func (o *GPUOffers) Ask(ctx context.Context) (out Offers, err error) {
	a := o.api.Do(ctx, &apiserver.Call{Method: http.MethodGet, Path: "/api/v1/nodes/" + o.node, Accept: apiserver.ContentJSON, Reads: true}, o.timeout)
	if err := a.Failure("read the Node " + o.node); err != nil {
		return out, err
	}
	var node corev1.Node
	if err := json.Unmarshal(a.Body, &node); err != nil {
		return out, fmt.Errorf("read the Node %s: %w", o.node, err)
	}
	out.NodeKnown, out.Offered = true, make(map[string]int64)
	for _, list := range []corev1.ResourceList{node.Status.Capacity, node.Status.Allocatable} {
		for name, quantity := range list {
			out.Offered[string(name)] = max(out.Offered[string(name)], quantity.Value())
		}
	}
	query := url.Values{"fieldSelector": {"spec.nodeName=" + o.node + ",spec.driver=gpu.nvidia.com"}}
	for _, version := range sliceVersions {
		a = o.api.Do(ctx, &apiserver.Call{
			Method: http.MethodGet, Path: "/apis/resource.k8s.io/" + version + "/resourceslices", Query: query.Encode(), Accept: apiserver.ContentJSON, Reads: true,
		}, o.timeout)
		if a.Code != http.StatusNotFound {
			break
		}
	}
	if a.Code == http.StatusNotFound {
		out.SlicesKnown = true
		return out, nil
	}
	if err := a.Failure("list the ResourceSlices of " + o.node); err != nil {
		return out, err
	}
	var list struct {
		Items []struct {
			Spec struct {
				Devices []struct{} `json:"devices"`
			} `json:"spec"`
		} `json:"items"`
	}
	if err := json.Unmarshal(a.Body, &list); err != nil {
		return out, fmt.Errorf("list the ResourceSlices of %s: %w", o.node, err)
	}
	out.SlicesKnown = true
	for i := range list.Items {
		out.Slices += len(list.Items[i].Spec.Devices)
	}
	return out, nil
}
