package visibility

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"

	"hilbert.dev/hilbert/kube/standin"
)

func TestReviewer(t *testing.T) {
	s := standin.New(t)
	s.User("t1", "ada", "/v1/explain", "get podexplanations.visibility.hilbert.dev red")
	asked := 0
	s.Intercept(func(http.ResponseWriter, *http.Request) bool { asked++; return false })
	r, err := NewReviewer(s.Connection())
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	r.now = func() time.Time { return now }
	r.tokens.now = r.now
	may := func(token, path string) error { return r.MayGet(t.Context(), token, path) }
	if err := may("t1", "/v1/explain"); err != nil {
		t.Error(err)
	}
	ada := &authenticationv1.UserInfo{Username: "ada"}
	for namespace, want := range map[string]error{"red": nil, "blue": ErrForbidden} {
		q := Question{Resource: PodExplanations, Namespace: namespace, Name: "p"}
		if err := r.May(t.Context(), ada, q.access()); !errors.Is(err, want) || err != nil && !strings.Contains(err.Error(), "ada may not get podexplanations.visibility.hilbert.dev in the namespace blue") {
			t.Errorf("namespace %s: %v", namespace, err)
		}
	}
	if err := may("t1", "/v1/snapshot"); !errors.Is(err, ErrForbidden) || !strings.Contains(err.Error(), "ada") {
		t.Errorf("another path: %v", err)
	}
	for _, token := range []string{"", "t2", strings.Repeat("x", maxToken+1)} {
		if err := may(token, "/v1/explain"); !errors.Is(err, ErrUnauthenticated) {
			t.Errorf("token %.10q: %v", token, err)
		}
	}
	before := asked
	for range 3 {
		_ = may("t1", "/v1/explain")
		_ = may("t2", "/v1/explain")
	}
	if asked != before {
		t.Error("an answer was not remembered")
	}
	s.User("t1", "ada")
	now = now.Add(reviewFor)
	if err := may("t1", "/v1/explain"); !errors.Is(err, ErrForbidden) {
		t.Errorf("a right that was taken away: %v", err)
	}
	r.questions.SetLimit(rate.Inf)
	for i := range 3 * maxReviews {
		r.tokens.remember(digest{byte(i), byte(i >> 8)}, authenticationv1.UserInfo{}, nil)
		_ = may("t1", fmt.Sprint("/", i))
	}
	if len(r.tokens.known) > maxReviews || len(r.tokens.accepted) > maxReviews || len(r.rulings) > maxReviews {
		t.Errorf("%d users, %d tokens and %d answers are remembered", len(r.tokens.known), len(r.tokens.accepted), len(r.rulings))
	}
	s.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, "down", http.StatusForbidden)
		return true
	})
	if err := may("t3", "/v1/explain"); err == nil || errors.Is(err, ErrForbidden) || errors.Is(err, ErrUnauthenticated) {
		t.Errorf("an API server that does not answer: %v", err)
	}
}

// TestTriedTokens: who tries tokens out costs the API server a few questions a second, and keeps nobody out whose token was accepted before.
func TestTriedTokens(t *testing.T) {
	s := standin.New(t)
	s.User("t1", "ada", "/v1/explain")
	asked := 0
	s.Intercept(func(http.ResponseWriter, *http.Request) bool { asked++; return false })
	r, err := NewReviewer(s.Connection())
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	r.now = func() time.Time { return now }
	r.tokens.now = r.now
	if err := r.MayGet(t.Context(), "t1", "/v1/explain"); err != nil {
		t.Fatal(err)
	}
	asked = 0
	const seconds, each = 60, 50
	tooMany := 0
	for range seconds {
		now = now.Add(time.Second)
		for i := range each {
			err := r.MayGet(t.Context(), fmt.Sprintf("false-%d-%d", now.Unix(), i), "/v1/explain")
			switch {
			case errors.Is(err, ErrTooMany):
				tooMany++
			case !errors.Is(err, ErrUnauthenticated):
				t.Fatal(err)
			}
		}
		if err := r.MayGet(t.Context(), "t1", "/v1/explain"); err != nil {
			t.Fatalf("who was known is kept out: %v", err)
		}
	}
	const known = 2 * (seconds/int(reviewFor/time.Second) + 1) // two questions for each review
	if most := strangersBurst + seconds*strangersPerSecond + known; asked > most || tooMany == 0 {
		t.Errorf("%d false tokens made %d questions, want at most %d; %d were told to come back", seconds*each, asked, most, tooMany)
	}
	tokens, refused := r.Counts(TokenReviews)
	rights, _ := r.Counts(AccessReviews)
	if int(refused) != tooMany || int(tokens+rights) != asked+2 { // two before the count
		t.Errorf("counted are %d tokens and %d rights that were asked for, and %d that were refused; the API server was asked %d times, and %d were told to come back", tokens, rights, refused, asked, tooMany)
	}
}
