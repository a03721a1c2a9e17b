package agent

import (
	"context"
	"time"

	"hilbert.dev/hilbert/kube/apiserver"
)

// Refusals reads what hilbertd tells the agent: which of the evictions that the node requests a disruption budget refuses.
type Refusals struct {
	api     *apiserver.Requester
	node    string
	timeout time.Duration
}

// NewRefusals makes a reader for a node. timeout bounds one request.
func NewRefusals(c *apiserver.Connection, node string, timeout time.Duration) (*Refusals, error) {
	api, err := agentRequester(c, timeout)
	if err != nil {
		return nil, err
	}
	return &Refusals{api: api, node: node, timeout: timeout}, nil
}

// Close gives the connections back.
func (r *Refusals) Close() { r.api.CloseIdle() }

// Read returns the UIDs of the pods that may not go.
func (r *Refusals) Read(ctx context.Context) ([]string, error) {
	object, err := readReport(ctx, r.api, r.node, r.timeout)
	if err != nil {
		return nil, err
	}
	uids := make([]string, len(object.Spec.RefusedEvictions))
	for i := range uids {
		uids[i] = object.Spec.RefusedEvictions[i].UID
	}
	return uids, nil
}
