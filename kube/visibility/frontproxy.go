package visibility

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"

	"hilbert.dev/hilbert/kube/apiserver"
)

const (
	// Where every API server says how its proxy proves itself. The Role extension-apiserver-authentication-reader, which every cluster has, lets one read it.
	proxyNamespace, proxyConfigMap = metav1.NamespaceSystem, "extension-apiserver-authentication"
	// watchBackoffMax is the longest pause before a broken watch is tried again.
	watchBackoffMax = 30 * time.Second
)

// FrontProxy knows kube-apiserver's proxy by its certificate, and whom it asks for. Its methods may be called from several goroutines.
type FrontProxy struct {
	trust atomic.Pointer[trust] // nil: not known
}

// trust is how the proxy proves itself and names users.
type trust struct {
	roots                            *x509.CertPool
	names                            []string // of the proxy's certificate; empty: any
	user, uid, groups, extraPrefixes []string // headers, in their order
	why                              error    // no proxy is trusted, because of this
}

// WatchFrontProxy returns a FrontProxy that follows the cluster's ConfigMap until ctx ends.
func WatchFrontProxy(ctx context.Context, c *apiserver.Connection, log *slog.Logger) (*FrontProxy, error) {
	client, err := coreclient.NewForConfig(apiserver.ForPurpose(c, "front-proxy", nil))
	if err != nil {
		return nil, fmt.Errorf("make a client for the front proxy's authority: %w", err)
	}
	maps := client.ConfigMaps(proxyNamespace)
	only := fields.OneTermEqualSelector(metav1.ObjectNameField, proxyConfigMap).String()
	health := &apiserver.Health{Log: log, What: "the ConfigMap " + proxyNamespace + "/" + proxyConfigMap}
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = only
			list, err := maps.List(ctx, o)
			health.Note(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = only
			w, err := maps.Watch(ctx, o)
			health.Note(err)
			return w, err
		},
	}
	f := &FrontProxy{}
	pause := apiserver.Backoff(watchBackoffMax)
	reflector := cache.NewReflectorWithOptions(source, &corev1.ConfigMap{}, f.store(log), cache.ReflectorOptions{Name: "front-proxy", Backoff: &pause})
	go reflector.RunWithContext(apiserver.Silence(ctx))
	return f, nil
}

func (f *FrontProxy) store(log *slog.Logger) cache.ReflectorStore { return &trustStore{f, log} }

// trustStore is where the reflector puts the ConfigMap.
type trustStore struct {
	of  *FrontProxy
	log *slog.Logger
}

// Add implements cache.ReflectorStore.
func (s *trustStore) Add(object any) error {
	m, ok := object.(*corev1.ConfigMap)
	if !ok || m.Name != proxyConfigMap {
		return nil
	}
	t := readTrust(m.Data)
	if t.why != nil {
		s.log.Warn("the aggregated API trusts no proxy", "err", t.why)
	}
	s.of.trust.Store(t)
	return nil
}

// Update implements cache.ReflectorStore.
func (s *trustStore) Update(object any) error { return s.Add(object) }

// Delete implements cache.ReflectorStore.
func (s *trustStore) Delete(any) error {
	s.of.trust.Store(nil)
	return nil
}

// Replace implements cache.ReflectorStore.
func (s *trustStore) Replace(objects []any, _ string) error {
	if len(objects) == 0 {
		return s.Delete(nil)
	}
	return s.Add(objects[0])
}

// Resync implements cache.ReflectorStore.
func (s *trustStore) Resync() error { return nil }

// readTrust reads the ConfigMap. What is wrong with it is in the trust that is returned, which then trusts nobody.
func readTrust(data map[string]string) *trust {
	t := &trust{roots: x509.NewCertPool()}
	for key, list := range map[string]*[]string{
		"requestheader-allowed-names": &t.names, "requestheader-username-headers": &t.user, "requestheader-uid-headers": &t.uid,
		"requestheader-group-headers": &t.groups, "requestheader-extra-headers-prefix": &t.extraPrefixes,
	} {
		if text := data[key]; text != "" {
			if err := json.Unmarshal([]byte(text), list); err != nil {
				return &trust{why: fmt.Errorf("%s of the ConfigMap %s: %w", key, proxyConfigMap, err)}
			}
		}
	}
	authorities := certificates(data["requestheader-client-ca-file"])
	switch {
	case len(authorities) == 0:
		return &trust{why: errors.New("the API server has no request-header CA: start it with --requestheader-client-ca-file")}
	case len(t.user) == 0:
		return &trust{why: errors.New("the API server's proxy has no header for user names: start it with --requestheader-username-headers")}
	}
	for _, authority := range authorities {
		t.roots.AddCert(authority)
	}
	if len(t.names) == 0 && slices.ContainsFunc(certificates(data["client-ca-file"]), func(users *x509.Certificate) bool {
		return slices.ContainsFunc(authorities, users.Equal)
	}) {
		return &trust{why: errors.New("the request-header CA signs users' certificates too, so that each user could name another: give it an authority of its own, or start the API server with --requestheader-allowed-names")}
	}
	return t
}

// certificates reads those of a PEM file; what is none is left out.
func certificates(text string) (list []*x509.Certificate) {
	for rest := []byte(text); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return list
		}
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && block.Type == "CERTIFICATE" {
			list = append(list, c)
		}
	}
}

// User is whom the proxy asks for. The error is a *Failure: 401 where the request does not come from the proxy.
func (f *FrontProxy) User(r *http.Request, now time.Time) (user authenticationv1.UserInfo, err error) {
	t := f.trust.Load()
	if t == nil {
		return user, Later(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable,
			"hilbertd has not read the ConfigMap "+proxyNamespace+"/"+proxyConfigMap+" yet, and knows no proxy; does its account have the Role extension-apiserver-authentication-reader?")
	}
	if err := t.verify(r, now); err != nil {
		return user, Fail(http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "ask through the API server: "+err.Error())
	}
	if user.Username = first(r.Header, t.user); user.Username == "" {
		return user, Fail(http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "the API server's proxy names no user")
	}
	user.UID = first(r.Header, t.uid)
	for _, name := range t.groups {
		user.Groups = append(user.Groups, r.Header.Values(name)...)
	}
	user.Extra = t.extra(r.Header)
	return user, nil
}

// verify checks that the request's connection has a certificate of the proxy.
func (t *trust) verify(r *http.Request, now time.Time) error {
	if t.why != nil {
		return errors.New("this hilbertd trusts no proxy; its log says why")
	}
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return errors.New("the request comes without the certificate of its proxy")
	}
	presented := r.TLS.PeerCertificates
	options := x509.VerifyOptions{
		Roots: t.roots, Intermediates: x509.NewCertPool(), CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, c := range presented[1:] {
		options.Intermediates.AddCert(c)
	}
	if _, err := presented[0].Verify(options); err != nil {
		return errors.New("the request's certificate is not of the request-header CA")
	}
	if name := presented[0].Subject.CommonName; len(t.names) > 0 && !slices.Contains(t.names, name) {
		return fmt.Errorf("the request's certificate is for %q, which is not the proxy's name", name)
	}
	return nil
}

func first(h http.Header, names []string) string {
	for _, name := range names {
		if value := h.Get(name); value != "" {
			return value
		}
	}
	return ""
}

// extra reads the headers that begin with a prefix. What follows it is the key, in lower case, as the API server reads it.
func (t *trust) extra(h http.Header) map[string]authenticationv1.ExtraValue {
	var out map[string]authenticationv1.ExtraValue
	for name, values := range h {
		for _, prefix := range t.extraPrefixes {
			if len(name) <= len(prefix) || !strings.EqualFold(name[:len(prefix)], prefix) {
				continue
			}
			key := strings.ToLower(name[len(prefix):])
			if plain, err := url.PathUnescape(key); err == nil {
				key = plain
			}
			if out == nil {
				out = make(map[string]authenticationv1.ExtraValue)
			}
			out[key] = append(out[key], values...)
		}
	}
	return out
}
