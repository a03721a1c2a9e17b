package agent

import (
	"fmt"
	"time"

	"hilbert.dev/hilbert/kube/apiserver"
)

// agentRequester makes calls of the agent's.
func agentRequester(c *apiserver.Connection, timeout time.Duration) (*apiserver.Requester, error) {
	api, err := apiserver.NewRequester(apiserver.ForPurpose(c, "agent", func(d apiserver.Dial) apiserver.Dial { return apiserver.BoundUnacknowledged(d, timeout) }))
	if err != nil {
		return nil, fmt.Errorf("make a client for the agent: %w", err)
	}
	return api, nil
}
