package reach

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"

	"hilbert.dev/hilbert/kube/apiserver"
)

// Reviewer asks the API server who a bearer token belongs to (TokenReview) and whether that user may get a path (SubjectAccessReview). It
// remembers answers for reviewFor. Its methods may be called from several goroutines.
type Reviewer struct {
	authentication authenticationclient.TokenReviewInterface
	authorization  authorizationclient.SubjectAccessReviewInterface
	now            func() time.Time

	strangers *rate.Limiter // of reviews of tokens that were not accepted before

	mu       sync.Mutex
	known    map[reviewed]ruling
	accepted map[token]time.Time // when a token was last accepted
}

const (
	// reviewFor is how long an answer counts: so long a right that was taken away remains.
	reviewFor = 10 * time.Second
	// maxReviews bounds the answers that are remembered.
	maxReviews = 256
	// reviewTimeout bounds one question to the API server.
	reviewTimeout = 5 * time.Second
	// A token that has not been accepted within acceptedFor is a stranger's. All strangers together may cause strangersPerSecond questions to the API server,
	// strangersBurst at once: who tries tokens out costs it no more, and keeps nobody out who is known.
	acceptedFor        = time.Hour
	strangersPerSecond = 5
	strangersBurst     = 20
	// maxToken bounds a token, in bytes.
	maxToken = 16 << 10
)

// The answers of a Reviewer that are not yes.
var (
	ErrUnauthenticated = errors.New("unauthenticated")
	ErrForbidden       = errors.New("forbidden")
	ErrTooMany         = errors.New("too many tokens are new to this process; try again")
)

// token stands for a token that is not kept itself: memory is read in more ways than one.
type token [sha256.Size]byte

type reviewed struct {
	token token
	path  string
}

type ruling struct {
	err   error
	until time.Time
}

// NewReviewer returns a Reviewer.
func NewReviewer(c *apiserver.Connection) (*Reviewer, error) {
	own := apiserver.ForPurpose(c, "review", nil)
	own.Timeout = reviewTimeout
	authentication, err := authenticationclient.NewForConfig(own)
	if err != nil {
		return nil, fmt.Errorf("make a client for reviews: %w", err)
	}
	authorization, err := authorizationclient.NewForConfig(own)
	if err != nil {
		return nil, fmt.Errorf("make a client for reviews: %w", err)
	}
	return &Reviewer{
		authentication: authentication.TokenReviews(), authorization: authorization.SubjectAccessReviews(), now: time.Now,
		strangers: rate.NewLimiter(strangersPerSecond, strangersBurst),
		known:     make(map[reviewed]ruling), accepted: make(map[token]time.Time),
	}, nil
}

// MayGet is nil if the bearer's user may get the path. Else the error is ErrUnauthenticated, ErrForbidden or ErrTooMany, or none of them when the API
// server could not be asked.
func (r *Reviewer) MayGet(ctx context.Context, bearer, path string) error {
	if bearer == "" || len(bearer) > maxToken {
		return fmt.Errorf("%w: no bearer token, or one that is too long", ErrUnauthenticated)
	}
	key, now := reviewed{sha256.Sum256([]byte(bearer)), path}, r.now()
	r.mu.Lock()
	known, ok := r.known[key]
	last, accepted := r.accepted[key.token]
	r.mu.Unlock()
	if ok && now.Before(known.until) {
		return known.err
	}
	if stranger := !accepted || now.Sub(last) >= acceptedFor; stranger && !r.strangers.AllowN(now, 1) {
		return ErrTooMany
	}
	err := r.review(ctx, bearer, path)
	if err == nil || errors.Is(err, ErrUnauthenticated) || errors.Is(err, ErrForbidden) {
		r.remember(key, err)
	}
	return err
}

func (r *Reviewer) remember(key reviewed, err error) {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.known) >= maxReviews {
		maps.DeleteFunc(r.known, func(_ reviewed, was ruling) bool { return !now.Before(was.until) })
		if len(r.known) >= maxReviews { // what is forgotten costs a question
			clear(r.known)
		}
	}
	r.known[key] = ruling{err, now.Add(reviewFor)}
	if errors.Is(err, ErrUnauthenticated) {
		delete(r.accepted, key.token)
		return
	}
	if len(r.accepted) >= maxReviews {
		maps.DeleteFunc(r.accepted, func(_ token, last time.Time) bool { return now.Sub(last) >= acceptedFor })
		if len(r.accepted) >= maxReviews {
			clear(r.accepted)
		}
	}
	r.accepted[key.token] = now
}

func (r *Reviewer) review(ctx context.Context, bearer, path string) error {
	answer, err := r.authentication.Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: bearer}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("authenticate the token (TokenReview): %w", err)
	}
	if !answer.Status.Authenticated {
		return fmt.Errorf("%w: the API server does not know the token", ErrUnauthenticated)
	}
	user := answer.Status.User
	access := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, Groups: user.Groups, UID: user.UID, Extra: extra(user.Extra),
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: "get"},
	}}
	allowed, err := r.authorization.Create(ctx, access, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("authorize %s (SubjectAccessReview): %w", user.Username, err)
	}
	if !allowed.Status.Allowed || allowed.Status.Denied {
		return fmt.Errorf("%w: %s may not get the path %s; bind a ClusterRole with nonResourceURLs to it", ErrForbidden, user.Username, path)
	}
	return nil
}

func extra(in map[string]authenticationv1.ExtraValue) map[string]authorizationv1.ExtraValue {
	out := make(map[string]authorizationv1.ExtraValue, len(in))
	for key, values := range in {
		out[key] = authorizationv1.ExtraValue(values)
	}
	return out
}
