package standin

import (
	"crypto/tls"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// users are the known tokens, what their users may get, and where the pod proxy leads.
type users struct {
	mu       sync.Mutex
	tokens   map[string]token
	paths    map[string][]string // by name
	hilbertd string              // what answers for the aggregated API: host:port
}

// token is whose it is, and for whom; audience empty: of an authenticator that knows no audiences.
type token struct{ name, audience string }

func (u *users) add(text string, of token, paths []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.tokens == nil {
		u.tokens, u.paths = make(map[string]token), make(map[string][]string)
	}
	u.tokens[text], u.paths[of.name] = of, paths
}

func (u *users) aggregate(address string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.hilbertd = address
}

func (u *users) token(text string) (token, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	of, ok := u.tokens[text]
	return of, ok
}

// may reports whether a user may get a path.
func (u *users) may(name, path string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Contains(u.paths[name], path)
}

// aggregated is what answers for the aggregated API; empty: nobody.
func (u *users) aggregated() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.hilbertd
}

func (h *handler) serveTokenReview(w http.ResponseWriter, r *http.Request) {
	var review authenticationv1.TokenReview
	if !h.decode(w, r, &review) {
		return
	}
	of, ok := h.server.users.token(review.Spec.Token)
	review.TypeMeta = metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenReview"}
	switch {
	case !ok:
	case of.audience == "":
		review.Status.Authenticated, review.Status.User.Username = true, of.name
	case slices.Contains(review.Spec.Audiences, of.audience):
		review.Status.Authenticated, review.Status.User.Username, review.Status.Audiences = true, of.name, []string{of.audience}
	default:
		review.Status.Error = "token audiences are invalid for the target audiences"
	}
	h.answer(w, http.StatusCreated, &review)
}

func (h *handler) serveAccessReview(w http.ResponseWriter, r *http.Request) {
	var review authorizationv1.SubjectAccessReview
	if !h.decode(w, r, &review) {
		return
	}
	if at := review.Spec.NonResourceAttributes; at != nil {
		review.Status.Allowed = at.Verb == "get" && h.server.users.may(review.Spec.User, at.Path)
	}
	if at := review.Spec.ResourceAttributes; at != nil {
		what := at.Verb + " " + at.Resource + "." + at.Group
		review.Status.Allowed = h.server.users.may(review.Spec.User, what) || h.server.users.may(review.Spec.User, what+" "+at.Namespace)
	}
	review.TypeMeta = metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview"}
	h.answer(w, http.StatusCreated, &review)
}

// serveAggregated passes a request on, with its token: what answers is on this host, and asks whose it is. The real one sends its proxy's certificate and the
// user's name instead, which the lab tests.
func (h *handler) serveAggregated(w http.ResponseWriter, r *http.Request) {
	address := h.server.users.aggregated()
	if address == "" {
		http.NotFound(w, r)
		return
	}
	proxy := httputil.ReverseProxy{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}},
		Rewrite:   func(p *httputil.ProxyRequest) { p.SetURL(&url.URL{Scheme: "https", Host: address}) },
	}
	proxy.ServeHTTP(w, r)
}
