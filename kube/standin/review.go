package standin

import (
	"crypto/tls"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// users are who tokens belong to, and what they may get.
type users struct {
	tokens map[string]string   // to names
	paths  map[string][]string // by name
	pods   map[string]string   // where proxied pods serve, by namespace/name:port
}

// User makes a token known, and lets its user get paths.
func (s *Server) User(token, name string, paths ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users.tokens == nil {
		s.users.tokens, s.users.paths = make(map[string]string), make(map[string][]string)
	}
	s.users.tokens[token], s.users.paths[name] = name, paths
}

// Serve makes what serves TLS at an address a pod, which the pod proxy reaches as namespace/name:port.
func (s *Server) Serve(pod, address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users.pods == nil {
		s.users.pods = make(map[string]string)
	}
	s.users.pods[pod] = address
}

func (s *Server) serveTokenReview(w http.ResponseWriter, r *http.Request) {
	var review authenticationv1.TokenReview
	if !s.decode(w, r, &review) {
		return
	}
	s.mu.Lock()
	name, ok := s.users.tokens[review.Spec.Token]
	s.mu.Unlock()
	review.TypeMeta = metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenReview"}
	review.Status.Authenticated, review.Status.User.Username = ok, name
	s.answer(w, http.StatusCreated, &review)
}

func (s *Server) serveAccessReview(w http.ResponseWriter, r *http.Request) {
	var review authorizationv1.SubjectAccessReview
	if !s.decode(w, r, &review) {
		return
	}
	at := review.Spec.NonResourceAttributes
	s.mu.Lock()
	review.Status.Allowed = at != nil && at.Verb == "get" && slices.Contains(s.users.paths[review.Spec.User], at.Path)
	s.mu.Unlock()
	review.TypeMeta = metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview"}
	s.answer(w, http.StatusCreated, &review)
}

// serveProxy passes a request on to a pod, without the header that it was authenticated by, as the real one does.
func (s *Server) serveProxy(w http.ResponseWriter, r *http.Request, namespace, name string) {
	s.mu.Lock()
	_, known := s.users.tokens[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	address, ok := s.users.pods[namespace+"/"+strings.TrimPrefix(name, "https:")]
	s.mu.Unlock()
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
