package visibility

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"

	"hilbert.dev/hilbert/kube/apiserver"
)

// Reviewer asks the API server who a bearer token belongs to (TokenReview) and what a user may (SubjectAccessReview). It remembers answers for
// reviewFor. Its methods may be called from several goroutines.
type Reviewer struct {
	tokens        *Tokens[authenticationv1.UserInfo]
	authorization authorizationclient.SubjectAccessReviewInterface
	now           func() time.Time
	questions     *rate.Limiter // of reviews of users

	asked, refused atomic.Int64 // of reviews of users

	mu      sync.Mutex
	rulings map[digest]ruling // by user and what is asked for
}

const (
	// reviewFor is how long an answer counts: so long a right that was taken away remains.
	reviewFor = 10 * time.Second
	// maxReviews bounds the answers of each kind that are remembered.
	maxReviews = 1024
	// reviewTimeout bounds one question to the API server.
	reviewTimeout = 5 * time.Second
	// All strangers together may cause strangersPerSecond questions about tokens, strangersBurst at once.
	strangersPerSecond = 5
	strangersBurst     = 20
	// All users together may cause questionsPerSecond questions about rights, questionsBurst at once.
	questionsPerSecond = 50
	questionsBurst     = 100
)

// The answers of a Reviewer that are not yes.
var (
	ErrUnauthenticated = errors.New("unauthenticated")
	ErrForbidden       = errors.New("forbidden")
	ErrTooMany         = errors.New("too many questions are new to this process; try again")
)

type ruling struct {
	err   error
	until time.Time
}

// NewReviewer returns a Reviewer of tokens for one of these audiences; none: for the API server's own.
func NewReviewer(c *apiserver.Connection, audiences ...string) (*Reviewer, error) {
	const purpose = "review"
	tokens, err := NewTokens(c, purpose, &TokenParams[authenticationv1.UserInfo]{
		Audiences: audiences, AcceptFor: reviewFor, RefuseFor: reviewFor, Max: maxReviews, StrangersPerSecond: strangersPerSecond, StrangersBurst: strangersBurst,
		Judge: func(user *authenticationv1.UserInfo) (authenticationv1.UserInfo, error) { return *user, nil },
	})
	if err != nil {
		return nil, err
	}
	own := apiserver.ForPurpose(c, purpose, nil)
	own.Timeout = reviewTimeout
	authorization, err := authorizationclient.NewForConfig(own)
	if err != nil {
		return nil, fmt.Errorf("make a client for reviews: %w", err)
	}
	return &Reviewer{
		tokens: tokens, authorization: authorization.SubjectAccessReviews(), now: time.Now, questions: rate.NewLimiter(questionsPerSecond, questionsBurst),
		rulings: make(map[digest]ruling),
	}, nil
}

// ReviewKind is what the API server is asked.
type ReviewKind int

// The kinds of reviews.
const (
	TokenReviews  ReviewKind = iota // whose token it is
	AccessReviews                   // whether a user may do something
)

// Counts is how many questions of a kind were put to the API server, and how many were not because too many were new.
func (r *Reviewer) Counts(kind ReviewKind) (asked, refused int64) {
	if kind == TokenReviews {
		return r.tokens.Counts()
	}
	return r.asked.Load(), r.refused.Load()
}

// MayGet is nil if the bearer's user may get the path. Else the error is ErrUnauthenticated, ErrForbidden or ErrTooMany, or none of them when the API
// server could not be asked.
func (r *Reviewer) MayGet(ctx context.Context, bearer, path string) error {
	user, err := r.Identify(ctx, bearer)
	if err != nil {
		return err
	}
	return r.may(ctx, &user, authorizationv1.SubjectAccessReviewSpec{NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: "get"}})
}

// May is nil if the user may do that. Else the error is as MayGet's.
func (r *Reviewer) May(ctx context.Context, user *authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) error {
	return r.may(ctx, user, authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: &what})
}

// Identify says whose token it is. The error is as MayGet's.
func (r *Reviewer) Identify(ctx context.Context, bearer string) (authenticationv1.UserInfo, error) {
	return r.tokens.Identify(ctx, bearer)
}

func (r *Reviewer) may(ctx context.Context, user *authenticationv1.UserInfo, what authorizationv1.SubjectAccessReviewSpec) error {
	what.User, what.Groups, what.UID, what.Extra = user.Username, user.Groups, user.UID, extra(user.Extra)
	text, err := json.Marshal(&what)
	if err != nil {
		return fmt.Errorf("authorize %s: %w", user.Username, err)
	}
	question, now := digest(sha256.Sum256(text)), r.now()
	r.mu.Lock()
	known, ok := r.rulings[question]
	r.mu.Unlock()
	if ok && now.Before(known.until) {
		return known.err
	}
	if !r.questions.AllowN(now, 1) {
		r.refused.Add(1)
		return ErrTooMany
	}
	r.asked.Add(1)
	allowed, err := r.authorization.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: what}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("authorize %s (SubjectAccessReview): %w", user.Username, err)
	}
	if !allowed.Status.Allowed || allowed.Status.Denied {
		err = fmt.Errorf("%w: %s", ErrForbidden, refusal(&what))
	}
	now = r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	makeRoom(r.rulings, maxReviews, func(was ruling) bool { return !now.Before(was.until) })
	r.rulings[question] = ruling{err, now.Add(reviewFor)}
	return err
}

func refusal(what *authorizationv1.SubjectAccessReviewSpec) string {
	if path := what.NonResourceAttributes; path != nil {
		return fmt.Sprintf("%s may not get the path %s; bind a ClusterRole with nonResourceURLs to it", what.User, path.Path)
	}
	at := what.ResourceAttributes
	where := "in the cluster"
	if at.Namespace != "" {
		where = "in the namespace " + at.Namespace
	}
	return fmt.Sprintf("%s may not %s %s.%s %s", what.User, at.Verb, at.Resource, at.Group, where)
}

func extra(in map[string]authenticationv1.ExtraValue) map[string]authorizationv1.ExtraValue {
	out := make(map[string]authorizationv1.ExtraValue, len(in))
	for key, values := range in {
		out[key] = authorizationv1.ExtraValue(values)
	}
	return out
}
