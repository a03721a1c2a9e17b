package visibility

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"

	"hilbert.dev/hilbert/kube/apiserver"
)

const (
	// A token that has not been accepted within acceptedFor is a stranger's.
	acceptedFor = time.Hour
	// maxToken bounds a token, in bytes.
	maxToken = 16 << 10
)

// TokenParams say what Tokens makes of a token, and what its questions may cost.
type TokenParams[V any] struct {
	// Audiences are those of which a token has to be for one; none: it has to be for the API server.
	Audiences []string
	// Judge is what a user stands for, or why it is refused.
	Judge func(user *authenticationv1.UserInfo) (V, error)
	// AcceptFor and RefuseFor are how long an answer counts.
	AcceptFor, RefuseFor time.Duration
	// Max bounds the tokens that are remembered, by their hashes.
	Max int
	// All strangers together may cause StrangersPerSecond questions to the API server, StrangersBurst at once: who tries tokens out costs it no more, and keeps
	// nobody out who is known.
	StrangersPerSecond rate.Limit
	StrangersBurst     int
}

// Tokens asks the API server who bearer tokens belong to (TokenReview), and remembers what a Judge made of the answers. Its methods may be called from several goroutines.
type Tokens[V any] struct {
	params    TokenParams[V]
	review    authenticationclient.TokenReviewInterface
	now       func() time.Time
	strangers *rate.Limiter // of reviews of tokens that were not accepted before

	asked, refused atomic.Int64

	mu       sync.Mutex
	known    map[digest]judgement[V]
	accepted map[digest]time.Time // when a token was last accepted
}

// digest stands for what is not kept itself: memory is read in more ways than one.
type digest [sha256.Size]byte

type judgement[V any] struct {
	value V
	ruling
}

// NewTokens returns Tokens whose questions are of a purpose, by which requests to the API server are told apart.
func NewTokens[V any](c *apiserver.Connection, purpose string, p *TokenParams[V]) (*Tokens[V], error) {
	own := apiserver.ForPurpose(c, purpose, nil)
	own.Timeout = reviewTimeout
	client, err := authenticationclient.NewForConfig(own)
	if err != nil {
		return nil, fmt.Errorf("make a client for reviews: %w", err)
	}
	return &Tokens[V]{
		params: *p, review: client.TokenReviews(), now: time.Now, strangers: rate.NewLimiter(p.StrangersPerSecond, p.StrangersBurst),
		known: make(map[digest]judgement[V]), accepted: make(map[digest]time.Time),
	}, nil
}

// Counts is how many questions were put to the API server, and how many were not because too many were new.
func (t *Tokens[V]) Counts() (asked, refused int64) { return t.asked.Load(), t.refused.Load() }

// Identify is what a token stands for. The error is ErrUnauthenticated, ErrTooMany, the Judge's, or none of them when the API server could not be asked.
func (t *Tokens[V]) Identify(ctx context.Context, bearer string) (v V, err error) {
	if bearer == "" || len(bearer) > maxToken {
		return v, fmt.Errorf("%w: no bearer token, or one that is too long", ErrUnauthenticated)
	}
	token, now := digest(sha256.Sum256([]byte(bearer))), t.now()
	t.mu.Lock()
	known, ok := t.known[token]
	last, accepted := t.accepted[token]
	t.mu.Unlock()
	if ok && now.Before(known.until) {
		return known.value, known.err
	}
	if stranger := !accepted || now.Sub(last) >= acceptedFor; stranger && !t.strangers.AllowN(now, 1) {
		t.refused.Add(1)
		return v, ErrTooMany
	}
	t.asked.Add(1)
	answer, err := t.review.Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: bearer, Audiences: t.params.Audiences}}, metav1.CreateOptions{})
	if err != nil {
		return v, fmt.Errorf("authenticate the token (TokenReview): %w", err)
	}
	if err = authenticated(&answer.Status, t.params.Audiences); err == nil {
		v, err = t.params.Judge(&answer.Status.User)
	}
	t.remember(token, v, err)
	return v, err
}

// authenticated is nil if the API server knows a token for one of the audiences.
func authenticated(s *authenticationv1.TokenReviewStatus, audiences []string) error {
	switch {
	case !s.Authenticated && s.Error != "":
		return fmt.Errorf("%w: the API server does not accept the token: %s", ErrUnauthenticated, s.Error)
	case !s.Authenticated:
		return fmt.Errorf("%w: the API server does not know the token", ErrUnauthenticated)
	case len(audiences) > 0 && !slices.ContainsFunc(audiences, func(a string) bool { return slices.Contains(s.Audiences, a) }):
		// An authenticator that knows no audiences names none: then the token is for the API server.
		return fmt.Errorf("%w: the token is for the audiences %q; want one of %q", ErrUnauthenticated, s.Audiences, audiences)
	}
	return nil
}

func (t *Tokens[V]) remember(token digest, v V, err error) {
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	makeRoom(t.known, t.params.Max, func(was judgement[V]) bool { return !now.Before(was.until) })
	if err != nil {
		t.known[token] = judgement[V]{v, ruling{err, now.Add(t.params.RefuseFor)}}
		delete(t.accepted, token)
		return
	}
	t.known[token] = judgement[V]{v, ruling{nil, now.Add(t.params.AcceptFor)}}
	makeRoom(t.accepted, t.params.Max, func(last time.Time) bool { return now.Sub(last) >= acceptedFor })
	t.accepted[token] = now
}

// makeRoom forgets what is over, and everything where that does not suffice: what is forgotten costs a question.
func makeRoom[V any](known map[digest]V, most int, over func(V) bool) {
	if len(known) < most {
		return
	}
	maps.DeleteFunc(known, func(_ digest, v V) bool { return over(v) })
	if len(known) >= most {
		clear(known)
	}
}
