package metrics

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/kube/standin"
	"hilbert.dev/hilbert/kube/visibility"
)

// reviewing answers TokenReviews with a status for each token, and counts them.
func reviewing(t *testing.T, s *standin.Server, status func(token string) *authenticationv1.TokenReviewStatus) (asked *int) {
	t.Helper()
	asked = new(int)
	s.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		*asked++
		review := authenticationv1.TokenReview{TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenReview"}}
		body, err := io.ReadAll(r.Body)
		if err == nil {
			_, _, err = scheme.Codecs.UniversalDeserializer().Decode(body, nil, &review) // protobuf
		}
		if err != nil || !slices.Equal(review.Spec.Audiences, []string{spec.MetricsAudience}) {
			t.Errorf("%s %s asks for the audiences %q: %v", r.Method, r.URL, review.Spec.Audiences, err)
		}
		review.Status = *status(review.Spec.Token)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		if err := json.NewEncoder(w).Encode(&review); err != nil {
			t.Error(err)
		}
		return true
	})
	return asked
}

func ofAgent(string) *authenticationv1.TokenReviewStatus {
	return &authenticationv1.TokenReviewStatus{
		Authenticated: true, Audiences: []string{spec.MetricsAudience},
		User: authenticationv1.UserInfo{Username: "agent", Extra: map[string]authenticationv1.ExtraValue{nodeExtra: {"n1"}}},
	}
}

// TestNodesOfTokens: a token counts for a node if the API server knows it for our audience, it is an agent's, and it names one node. The answer is remembered.
func TestNodesOfTokens(t *testing.T) {
	spoilt := map[string]func(*authenticationv1.TokenReviewStatus){
		"not authenticated":  func(s *authenticationv1.TokenReviewStatus) { s.Authenticated = false },
		"for the API server": func(s *authenticationv1.TokenReviewStatus) { s.Audiences = []string{"https://kubernetes.default.svc"} },
		"no audience":        func(s *authenticationv1.TokenReviewStatus) { s.Audiences = nil },
		"somebody else's":    func(s *authenticationv1.TokenReviewStatus) { s.User.Username = "tenant" },
		"bound to no pod":    func(s *authenticationv1.TokenReviewStatus) { s.User.Extra = nil },
		"of two nodes": func(s *authenticationv1.TokenReviewStatus) {
			s.User.Extra[nodeExtra] = authenticationv1.ExtraValue{"n1", "n2"}
		},
	}
	s := standin.New(t)
	asked := reviewing(t, s, func(token string) *authenticationv1.TokenReviewStatus {
		status := ofAgent(token)
		if spoil := spoilt[token]; spoil != nil {
			spoil(status)
		}
		return status
	})
	nodes, err := NewNodes(s.Connection(), "agent")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got, err := nodes.Identify(t.Context(), "good"); got != "n1" || err != nil {
			t.Errorf("%q %v", got, err)
		}
		for what := range spoilt {
			if got, err := nodes.Identify(t.Context(), what); got != "" || !errors.Is(err, ErrStranger) && !errors.Is(err, visibility.ErrUnauthenticated) {
				t.Errorf("a token that is %s is %q's: %v", what, got, err)
			}
		}
	}
	if want := len(spoilt) + 1; *asked != want {
		t.Errorf("%d questions for %d tokens", *asked, want)
	}
}
