package metrics

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"hilbert.dev/hilbert/kube/apiserver"
)

// Where the APIServices of deploy/metrics lead.
const (
	ServiceNamespace = "hilbert-system"
	ServiceName      = "hilbert-metrics"
)

// APIServices are the names of those of the groups that are served, in all versions that others register.
var APIServices = []string{"v1beta1.external.metrics.k8s.io", "v1beta1.custom.metrics.k8s.io", "v1beta2.custom.metrics.k8s.io"}

// Holder is whom an APIService leads to: "" where there is none, Ours, or namespace/name of another Service.
type Holder string

// Ours is the Service of this role.
const Ours Holder = ServiceNamespace + "/" + ServiceName

// Groups asks whom the groups lead to. It takes nothing over: it may not write them.
type Groups struct{ api *apiserver.Requester }

// NewGroups returns a Groups.
func NewGroups(c *apiserver.Connection) (*Groups, error) {
	api, err := apiserver.NewRequester(apiserver.ForPurpose(c, "metrics-groups", nil))
	if err != nil {
		return nil, fmt.Errorf("make a client for APIServices: %w", err)
	}
	return &Groups{api}, nil
}

// Close gives the connections back.
func (g *Groups) Close() { g.api.CloseIdle() }

const groupsTimeout = 5 * time.Second

// Ask is the holder of each of APIServices.
func (g *Groups) Ask(ctx context.Context) (map[string]Holder, error) {
	out := make(map[string]Holder, len(APIServices))
	for _, name := range APIServices {
		a := g.api.Do(ctx, &apiserver.Call{Method: http.MethodGet, Path: "/apis/apiregistration.k8s.io/v1/apiservices/" + name, Accept: apiserver.ContentJSON, Reads: true}, groupsTimeout)
		if a.Code == http.StatusNotFound {
			out[name] = ""
			continue
		}
		if err := a.Failure("read the APIService " + name); err != nil {
			return nil, err
		}
		holder, err := HolderOf(a.Body)
		if err != nil {
			return nil, fmt.Errorf("read the APIService %s: %w", name, err)
		}
		out[name] = holder
	}
	return out, nil
}

// HolderOf is whom an APIService, as JSON, leads to.
func HolderOf(text []byte) (Holder, error) {
	var object struct {
		Spec struct {
			Service *struct{ Namespace, Name string } `json:"service"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(text, &object); err != nil {
		return "", err
	}
	if object.Spec.Service == nil {
		return "kube-apiserver", nil
	}
	return Holder(object.Spec.Service.Namespace + "/" + object.Spec.Service.Name), nil
}
