package metrics

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/kube/apiserver"
)

const (
	// knownFor is how long a token that was accepted counts: so long an agent remains that was deleted. refusedFor is how long one is not asked about again that was not.
	knownFor   = 5 * time.Minute
	refusedFor = 10 * time.Second
	// maxTokens bounds the tokens that are remembered, by their hashes.
	maxTokens = 1 << 16
	// Tokens that are new may cause reviewsPerSecond questions to the API server, reviewsBurst at once: 20,000 agents are known within four minutes.
	reviewsPerSecond = 100
	reviewsBurst     = 200
	reviewTimeout    = 5 * time.Second
	// nodeExtra is where a token that is bound to a pod has the node of that.
	nodeExtra = "authentication.kubernetes.io/node-name"
)

// The errors of Nodes that are not the API server's failing.
var (
	ErrStranger = errors.New("the token is not that of a node's agent")
	ErrTooMany  = errors.New("too many tokens are new to this process; try again")
)

// Nodes says which node an agent's token names. Its methods may be called from several goroutines.
type Nodes struct {
	review  authenticationclient.TokenReviewInterface
	account string
	limit   *rate.Limiter
	now     func() time.Time

	mu    sync.Mutex
	known map[[sha256.Size]byte]identity
}

type identity struct {
	node  string
	err   error
	until time.Time
}

// NewNodes returns a Nodes for agents that are this user.
func NewNodes(c *apiserver.Connection, account string) (*Nodes, error) {
	own := apiserver.ForPurpose(c, "metrics-review", nil)
	own.Timeout = reviewTimeout
	client, err := authenticationclient.NewForConfig(own)
	if err != nil {
		return nil, fmt.Errorf("make a client for reviews: %w", err)
	}
	return &Nodes{
		review: client.TokenReviews(), account: account, limit: rate.NewLimiter(reviewsPerSecond, reviewsBurst), now: time.Now, known: make(map[[sha256.Size]byte]identity),
	}, nil
}

// Of is the node of a token. The error is ErrStranger, ErrTooMany, or that the API server could not be asked.
func (n *Nodes) Of(ctx context.Context, token string) (string, error) {
	key, now := sha256.Sum256([]byte(token)), n.now()
	n.mu.Lock()
	known, ok := n.known[key]
	n.mu.Unlock()
	if ok && now.Before(known.until) {
		return known.node, known.err
	}
	if !n.limit.AllowN(now, 1) {
		return "", ErrTooMany
	}
	answer, err := n.review.Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{spec.MetricsAudience}},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("authenticate an agent's token (TokenReview): %w", err)
	}
	id := identity{until: now.Add(knownFor)}
	if id.node, id.err = n.nodeOf(&answer.Status); id.err != nil {
		id.until = now.Add(refusedFor)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.known) >= maxTokens {
		maps.DeleteFunc(n.known, func(_ [sha256.Size]byte, was identity) bool { return !now.Before(was.until) })
	}
	if len(n.known) >= maxTokens {
		clear(n.known) // what is forgotten costs a question
	}
	n.known[key] = id
	return id.node, id.err
}

func (n *Nodes) nodeOf(s *authenticationv1.TokenReviewStatus) (string, error) {
	switch node := s.User.Extra[nodeExtra]; {
	case !s.Authenticated || !slices.Contains(s.Audiences, spec.MetricsAudience):
		return "", fmt.Errorf("%w: the API server does not know it for the audience %s", ErrStranger, spec.MetricsAudience)
	case s.User.Username != n.account:
		return "", fmt.Errorf("%w: it is that of %s, and agents are %s (metrics.agentAccount)", ErrStranger, s.User.Username, n.account)
	case len(node) != 1 || node[0] == "":
		return "", fmt.Errorf("%w: it names no node; use one that is bound to the agent's pod", ErrStranger)
	default:
		return node[0], nil
	}
}
