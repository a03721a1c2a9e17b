package visibility

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"

	"hilbert.dev/hilbert/kube/apiserver"
)

// Reviewer asks the API server who a bearer token belongs to (TokenReview) and what a user may (SubjectAccessReview). It remembers answers for
// reviewFor. Its methods may be called from several goroutines.
type Reviewer struct {
	authentication authenticationclient.TokenReviewInterface
	authorization  authorizationclient.SubjectAccessReviewInterface
	now            func() time.Time
	audiences      []string

	strangers *rate.Limiter // of reviews of tokens that were not accepted before
	questions *rate.Limiter // of reviews of users

	asked, refused [2]atomic.Int64 // by ReviewKind

	mu       sync.Mutex
	users    map[digest]identity  // by token
	rulings  map[digest]ruling    // by user and what is asked for
	accepted map[digest]time.Time // when a token was last accepted
}

const (
	// reviewFor is how long an answer counts: so long a right that was taken away remains.
	reviewFor = 10 * time.Second
	// maxReviews bounds the answers of each kind that are remembered.
	maxReviews = 1024
	// reviewTimeout bounds one question to the API server.
	reviewTimeout = 5 * time.Second
	// A token that has not been accepted within acceptedFor is a stranger's. All strangers together may cause strangersPerSecond questions to the API server,
	// strangersBurst at once: who tries tokens out costs it no more, and keeps nobody out who is known.
	acceptedFor        = time.Hour
	strangersPerSecond = 5
	strangersBurst     = 20
	// All users together may cause questionsPerSecond questions about rights, questionsBurst at once.
	questionsPerSecond = 50
	questionsBurst     = 100
	// maxToken bounds a token, in bytes.
	maxToken = 16 << 10
)

// The answers of a Reviewer that are not yes.
var (
	ErrUnauthenticated = errors.New("unauthenticated")
	ErrForbidden       = errors.New("forbidden")
	ErrTooMany         = errors.New("too many questions are new to this process; try again")
)

// digest stands for what is not kept itself: memory is read in more ways than one.
type digest [sha256.Size]byte

type identity struct {
	user authenticationv1.UserInfo
	ruling
}

type ruling struct {
	err   error
	until time.Time
}

// NewReviewer returns a Reviewer of tokens for one of these audiences; none: for the API server's own.
func NewReviewer(c *apiserver.Connection, audiences ...string) (*Reviewer, error) {
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
		authentication: authentication.TokenReviews(), authorization: authorization.SubjectAccessReviews(), now: time.Now, audiences: audiences,
		strangers: rate.NewLimiter(strangersPerSecond, strangersBurst), questions: rate.NewLimiter(questionsPerSecond, questionsBurst),
		users: make(map[digest]identity), rulings: make(map[digest]ruling), accepted: make(map[digest]time.Time),
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
	return r.asked[kind].Load(), r.refused[kind].Load()
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
	if bearer == "" || len(bearer) > maxToken {
		return authenticationv1.UserInfo{}, fmt.Errorf("%w: no bearer token, or one that is too long", ErrUnauthenticated)
	}
	token, now := digest(sha256.Sum256([]byte(bearer))), r.now()
	r.mu.Lock()
	known, ok := r.users[token]
	last, accepted := r.accepted[token]
	r.mu.Unlock()
	if ok && now.Before(known.until) {
		return known.user, known.err
	}
	if stranger := !accepted || now.Sub(last) >= acceptedFor; stranger && !r.strangers.AllowN(now, 1) {
		r.refused[TokenReviews].Add(1)
		return authenticationv1.UserInfo{}, ErrTooMany
	}
	r.asked[TokenReviews].Add(1)
	answer, err := r.authentication.Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: bearer, Audiences: r.audiences}}, metav1.CreateOptions{})
	if err != nil {
		return authenticationv1.UserInfo{}, fmt.Errorf("authenticate the token (TokenReview): %w", err)
	}
	switch {
	case !answer.Status.Authenticated && answer.Status.Error != "":
		err = fmt.Errorf("%w: the API server does not accept the token: %s", ErrUnauthenticated, answer.Status.Error)
	case !answer.Status.Authenticated:
		err = fmt.Errorf("%w: the API server does not know the token", ErrUnauthenticated)
	case len(r.audiences) > 0 && !slices.ContainsFunc(r.audiences, func(a string) bool { return slices.Contains(answer.Status.Audiences, a) }):
		// An authenticator that knows no audiences names none: then the token is for the API server.
		err = fmt.Errorf("%w: the token is for the audiences %q; want one of %q", ErrUnauthenticated, answer.Status.Audiences, r.audiences)
	}
	r.rememberUser(token, answer.Status.User, err)
	return answer.Status.User, err
}

func (r *Reviewer) rememberUser(token digest, user authenticationv1.UserInfo, err error) {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	makeRoom(r.users, func(was identity) bool { return !now.Before(was.until) })
	r.users[token] = identity{user, ruling{err, now.Add(reviewFor)}}
	if err != nil {
		delete(r.accepted, token)
		return
	}
	makeRoom(r.accepted, func(last time.Time) bool { return now.Sub(last) >= acceptedFor })
	r.accepted[token] = now
}

// makeRoom forgets what is over, and everything where that does not suffice: what is forgotten costs a question.
func makeRoom[V any](known map[digest]V, over func(V) bool) {
	if len(known) < maxReviews {
		return
	}
	maps.DeleteFunc(known, func(_ digest, v V) bool { return over(v) })
	if len(known) >= maxReviews {
		clear(known)
	}
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
		r.refused[AccessReviews].Add(1)
		return ErrTooMany
	}
	r.asked[AccessReviews].Add(1)
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
	makeRoom(r.rulings, func(was ruling) bool { return !now.Before(was.until) })
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
