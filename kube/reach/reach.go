package reach

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/kube/lease"
)

// HeaderAuthorization carries the caller's bearer token through the API server's proxy, which takes the header Authorization away.
const HeaderAuthorization = "X-Hilbert-Authorization"

// Target says which hilbertd to ask, and as whom.
type Target struct {
	// Kubeconfig is a file (empty: KUBECONFIG, else ~/.kube/config); Context is one of its contexts (empty: the current one).
	Kubeconfig, Context string
	// TokenFile has a bearer token to use instead of the kubeconfig's.
	TokenFile string
	// Lease is the leader election's, as NAMESPACE/NAME; empty tries those of DefaultLeases.
	Lease string
	// Server is the https URL of a hilbertd to ask directly; empty finds the leader, and asks it through the API server's proxy.
	Server string
	// CertificateAuthority is a file that vouches for Server; Insecure trusts whoever answers.
	CertificateAuthority string
	Insecure             bool
}

// DefaultLeases are looked at in this order: what deploy/ configures, and the configuration's default.
var DefaultLeases = []string{"hilbert-system/hilbert", "kube-system/hilbert"}

// maxComplaint bounds how much of an error page is read, in bytes.
const maxComplaint = 4 << 10

// Inspector asks one hilbertd.
type Inspector struct {
	client *http.Client
	base   string
	where  string
}

// Reach finds the hilbertd of a Target.
func Reach(ctx context.Context, t Target) (*Inspector, error) {
	config, err := t.config()
	if err != nil {
		return nil, err
	}
	if t.Server != "" {
		return t.direct(config)
	}
	h, key, err := leader(ctx, config, t.Lease)
	if err != nil {
		return nil, err
	}
	switch {
	case h.Port == 0:
		return nil, fmt.Errorf("the leader %s (Lease %s) serves nothing: its server.bindAddress is \"-\"", h.Name, key)
	case h.Namespace != "" && !strings.HasPrefix(key, h.Namespace+"/"):
		// The request carries the user's token, which is for a hilbertd only.
		return nil, fmt.Errorf("the Lease %s names a leader in another namespace, %s/%s: somebody else may have written it; ask a hilbertd that you know with --server", key, h.Namespace, h.Name)
	case h.Namespace == "":
		return nil, fmt.Errorf("the leader (Lease %s) is no pod but a process on %s: write --server https://%s:%d", key, h.Name, h.Name, h.Port)
	}
	return proxied(config, h)
}

// config reads the kubeconfig. With a server named, there need not be one.
func (t *Target) config() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = t.Kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: t.Context}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
	switch {
	case err == nil:
	case t.Server != "" && t.Kubeconfig == "" && clientcmd.IsEmptyConfig(err):
		config = &rest.Config{}
	default:
		return nil, fmt.Errorf("kubeconfig: %w; name another with --kubeconfig or --context, or a hilbertd with --server", err)
	}
	if t.TokenFile != "" {
		token, err := os.ReadFile(t.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("--token-file: %w", err)
		}
		config = rest.AnonymousClientConfig(config)
		config.BearerToken = strings.TrimSpace(string(token))
	}
	config.UserAgent = "hilbert/" + apiserver.Version()
	return config, nil
}

func (t *Target) direct(config *rest.Config) (*Inspector, error) {
	at, err := url.Parse(t.Server)
	if err != nil || at.Scheme != "https" || at.Host == "" {
		return nil, fmt.Errorf("--server %q: want an https URL, for example https://10.0.0.7:10461", t.Server)
	}
	secure := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: t.Insecure}
	if t.CertificateAuthority != "" {
		pem, err := os.ReadFile(t.CertificateAuthority)
		if err != nil {
			return nil, fmt.Errorf("--certificate-authority: %w", err)
		}
		secure.RootCAs = x509.NewCertPool()
		if !secure.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--certificate-authority: %s has no certificate", t.CertificateAuthority)
		}
	}
	transport, err := rest.HTTPWrappersForConfig(config, &http.Transport{TLSClientConfig: secure, Proxy: http.ProxyFromEnvironment})
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	return &Inspector{client: inspecting(transport), base: strings.TrimSuffix(at.String(), "/"), where: t.Server}, nil
}

// proxied asks through the API server. Requests carry the token twice: for the API server, which lets nobody else see it, and for hilbertd.
func proxied(config *rest.Config, h lease.Holder) (*Inspector, error) {
	own := rest.CopyConfig(config)
	own.Wrap(func(inner http.RoundTripper) http.RoundTripper { return handing{inner} })
	transport, err := rest.TransportFor(own)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	base, _, err := rest.DefaultServerUrlFor(own)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	at := base.JoinPath("api/v1/namespaces", h.Namespace, "pods", "https:"+h.Name+":"+strconv.Itoa(h.Port), "proxy")
	return &Inspector{client: inspecting(transport), base: strings.TrimSuffix(at.String(), "/"), where: "pod " + h.Namespace + "/" + h.Name}, nil
}

func inspecting(transport http.RoundTripper) *http.Client {
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// handing repeats the token in a header that the proxy passes on.
type handing struct{ inner http.RoundTripper }

func (h handing) RoundTrip(r *http.Request) (*http.Response, error) {
	if token := r.Header.Get("Authorization"); token != "" {
		r = r.Clone(r.Context())
		r.Header.Set(HeaderAuthorization, token)
	}
	return h.inner.RoundTrip(r)
}

// leader reads who holds the Lease.
func leader(ctx context.Context, config *rest.Config, name string) (h lease.Holder, key string, err error) {
	own := rest.CopyConfig(config)
	own.Timeout = 10 * time.Second
	client, err := coordinationv1.NewForConfig(own)
	if err != nil {
		return h, "", fmt.Errorf("kubeconfig: %w", err)
	}
	leases := DefaultLeases
	if name != "" {
		leases = []string{name}
	}
	for _, key = range leases {
		namespace, name, ok := strings.Cut(key, "/")
		if !ok {
			return h, key, fmt.Errorf("--lease %q: want NAMESPACE/NAME", key)
		}
		object, err := client.Leases(namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return h, key, fmt.Errorf("read the Lease %s: %w", key, err)
		case object.Spec.HolderIdentity == nil || *object.Spec.HolderIdentity == "":
			return h, key, fmt.Errorf("no process holds the Lease %s now; try again, or ask one hilbertd with --server", key)
		}
		h, err = lease.ParseHolder(*object.Spec.HolderIdentity)
		return h, key, err
	}
	return h, "", fmt.Errorf("there is no Lease %s: is hilbertd running? Name its Lease with --lease NAMESPACE/NAME", strings.Join(leases, " or "))
}

// Get asks for a path with a query. The caller closes the body.
func (i *Inspector) Get(ctx context.Context, path string, query url.Values) (io.ReadCloser, error) {
	at := i.base + path
	if len(query) > 0 {
		at += "?" + query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := i.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w%s", i.where, err, hint(err))
	}
	if response.StatusCode == http.StatusOK {
		return response.Body, nil
	}
	defer func() { _ = response.Body.Close() }()
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxComplaint))
	complaint := cmp.Or(strings.TrimSpace(strings.ToValidUTF8(string(text), "?")), response.Status)
	if response.StatusCode == http.StatusNotFound {
		return nil, errors.New(complaint)
	}
	return nil, fmt.Errorf("%s answers %d: %s", i.where, response.StatusCode, complaint)
}

func hint(err error) string {
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	if errors.As(err, &unknown) || errors.As(err, &host) {
		return "; name the authority with --certificate-authority, or leave --server out and go through the API server"
	}
	return ""
}
