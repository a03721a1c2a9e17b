package standin

import (
	"crypto/tls"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// users are the known tokens, what their users may get, and where the pod proxy leads.
type users struct {
	mu     sync.Mutex
	tokens map[string]string   // to names
	paths  map[string][]string // by name
	pods   map[string]string   // where proxied pods serve, by namespace/name:port
}

func (u *users) add(token, name string, paths []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.tokens == nil {
		u.tokens, u.paths = make(map[string]string), make(map[string][]string)
	}
	u.tokens[token], u.paths[name] = name, paths
}

func (u *users) serve(pod, address string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.pods == nil {
		u.pods = make(map[string]string)
	}
	u.pods[pod] = address
}

// name is the user of a token.
func (u *users) name(token string) (string, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	name, ok := u.tokens[token]
	return name, ok
}

// may reports whether a user may get a path.
func (u *users) may(name, path string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Contains(u.paths[name], path)
}

// address is where a proxied pod serves.
func (u *users) address(pod string) (string, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	address, ok := u.pods[pod]
	return address, ok
}

func (h *handler) serveTokenReview(w http.ResponseWriter, r *http.Request) {
	var review authenticationv1.TokenReview
	if !h.decode(w, r, &review) {
		return
	}
	name, ok := h.server.users.name(review.Spec.Token)
	review.TypeMeta = metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenReview"}
	review.Status.Authenticated, review.Status.User.Username = ok, name
	h.answer(w, http.StatusCreated, &review)
}

func (h *handler) serveAccessReview(w http.ResponseWriter, r *http.Request) {
	var review authorizationv1.SubjectAccessReview
	if !h.decode(w, r, &review) {
		return
	}
	at := review.Spec.NonResourceAttributes
	review.Status.Allowed = at != nil && at.Verb == "get" && h.server.users.may(review.Spec.User, at.Path)
	review.TypeMeta = metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview"}
	h.answer(w, http.StatusCreated, &review)
}

// serveProxy passes a request on to a pod, without the header that it was authenticated by, as the real one does.
func (h *handler) serveProxy(w http.ResponseWriter, r *http.Request, namespace, name string) {
	_, known := h.server.users.name(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	address, ok := h.server.users.address(namespace + "/" + strings.TrimPrefix(name, "https:"))
	switch {
	case !known:
		http.Error(w, "Unauthorized", http.StatusUnauthorized)
		return
	case !ok:
		http.Error(w, "no such pod: "+namespace+"/"+name, http.StatusNotFound)
		return
	}
	proxy := httputil.ReverseProxy{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}},
		Rewrite: func(p *httputil.ProxyRequest) {
			_, path, _ := strings.Cut(p.In.URL.Path, "/proxy/")
			p.Out.URL = &url.URL{Scheme: "https", Host: address, Path: "/" + path, RawQuery: p.In.URL.RawQuery}
			p.Out.Header.Del("Authorization")
		},
	}
	proxy.ServeHTTP(w, r)
}
