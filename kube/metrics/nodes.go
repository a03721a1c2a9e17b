package metrics

import (
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/kube/visibility"
)

const (
	// knownFor is how long a token that was accepted counts: so long an agent remains that was deleted. refusedFor is how long one is not asked about again that was not.
	knownFor   = 5 * time.Minute
	refusedFor = 10 * time.Second
	// maxTokens bounds the tokens that are remembered.
	maxTokens = 1 << 16
	// Tokens that are new may cause reviewsPerSecond questions to the API server, reviewsBurst at once: 20,000 agents are known within four minutes.
	reviewsPerSecond = 100
	reviewsBurst     = 200
	// nodeExtra is where a token that is bound to a pod has the node of that.
	nodeExtra = "authentication.kubernetes.io/node-name"
)

// ErrStranger is the error of a token that the API server knows and that is not an agent's.
var ErrStranger = errors.New("the token is not that of a node's agent")

// NewNodes returns who says which node the token of an agent names. Agents are the user account.
func NewNodes(c *apiserver.Connection, account string) (*visibility.Tokens[string], error) {
	return visibility.NewTokens(c, "metrics-review", &visibility.TokenParams[string]{
		Audiences: []string{spec.MetricsAudience}, Judge: func(user *authenticationv1.UserInfo) (string, error) { return nodeOf(user, account) },
		AcceptFor: knownFor, RefuseFor: refusedFor, Max: maxTokens, StrangersPerSecond: reviewsPerSecond, StrangersBurst: reviewsBurst,
	})
}

func nodeOf(user *authenticationv1.UserInfo, account string) (string, error) {
	switch node := user.Extra[nodeExtra]; {
	case user.Username != account:
		return "", fmt.Errorf("%w: it is that of %s, and agents are %s (metrics.agentAccount)", ErrStranger, user.Username, account)
	case len(node) != 1 || node[0] == "":
		return "", fmt.Errorf("%w: it names no node; use one that is bound to the agent's pod", ErrStranger)
	default:
		return node[0], nil
	}
}
