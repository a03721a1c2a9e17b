package reach

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"hilbert.dev/hilbert/internal/version"
	"hilbert.dev/hilbert/kube/visibility"
)

// Target says which cluster to ask, and as whom.
type Target struct {
	// Kubeconfig is a file (empty: KUBECONFIG, else ~/.kube/config, else the account of the pod that this runs in); Context is one of its contexts (empty: the
	// current one).
	Kubeconfig, Context string
	// Cluster, User and Namespace are others than the context's.
	Cluster, User, Namespace string
	// As is the user, with AsGroups, that the kubeconfig's user acts for.
	As       string
	AsGroups []string
	// TokenFile has a bearer token to use instead of the kubeconfig's credentials.
	TokenFile string
	// Server is the https URL of a hilbertd on this host, to ask it directly; empty asks the API server.
	Server string
	// CertificateAuthority is a file that vouches for Server; Insecure trusts whoever answers.
	CertificateAuthority string
	Insecure             bool
}

const (
	// maxTries bounds how often a question is put that is to be put again, maxRetryAfter the wait between.
	maxTries      = 5
	maxRetryAfter = 5 * time.Second
)

// maxComplaint bounds how much of an error page is read, in bytes.
const maxComplaint = 4 << 10

// Inspector asks about scheduling.
type Inspector struct {
	client *http.Client
	base   string
	where  string
	direct bool
}

// Reach finds who answers for a Target: the API server, or the hilbertd that it names.
func Reach(t Target) (*Inspector, error) {
	if t.Server != "" {
		if err := t.checkServer(); err != nil {
			return nil, &TargetError{Err: err, Flag: true}
		}
	}
	config, err := t.config()
	if err != nil {
		return nil, err
	}
	if t.Server != "" {
		return t.direct(config)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	return &Inspector{client: &http.Client{Transport: transport, CheckRedirect: stay}, base: strings.TrimSuffix(base.String(), "/"), where: "the API server"}, nil
}

// checkServer refuses addresses beyond this host: a token is for the API server, and no pod is to see it.
func (t *Target) checkServer() error {
	at, err := url.Parse(t.Server)
	if err != nil || at.Scheme != "https" || at.Host == "" {
		return fmt.Errorf("--server %q: want an https URL of this host, for example https://127.0.0.1:10461", t.Server)
	}
	if ip, err := netip.ParseAddr(at.Hostname()); at.Hostname() != "localhost" && (err != nil || !ip.Unmap().IsLoopback()) {
		return fmt.Errorf("--server %q: your token is sent to no other host: want a loopback address, or leave --server out and ask through the API server", t.Server)
	}
	return nil
}

func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// config reads the kubeconfig. With a server named, there need not be one.
func (t *Target) config() (*rest.Config, error) {
	config, err := t.read()
	if err != nil {
		return nil, &TargetError{Err: err}
	}
	return config, nil
}

// TargetError is a Target that cannot work: the kubeconfig, a file that a flag names, or an address.
type TargetError struct {
	Err error
	// Flag says that it is the flag itself, and not what it names.
	Flag bool
}

// Error says what cannot work.
func (e *TargetError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *TargetError) Unwrap() error { return e.Err }

func (t *Target) read() (*rest.Config, error) {
	config, err := t.loader().ClientConfig()
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
		as := config.Impersonate
		config = rest.AnonymousClientConfig(config)
		config.BearerToken, config.Impersonate = strings.TrimSpace(string(token)), as
	}
	config.UserAgent = "hilbert/" + version.Get().Version
	return config, nil
}

func (t *Target) direct(config *rest.Config) (*Inspector, error) {
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
	transport, err := rest.HTTPWrappersForConfig(config, &http.Transport{TLSClientConfig: secure})
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	client := &http.Client{Transport: transport, CheckRedirect: stay}
	return &Inspector{client: client, base: strings.TrimSuffix(t.Server, "/"), where: t.Server, direct: true}, nil
}

// Ask puts a question. The caller closes the body.
func (i *Inspector) Ask(ctx context.Context, q *visibility.Question) (io.ReadCloser, error) {
	at := i.base + q.Path()
	if query := q.Query(); len(query) > 0 {
		at += "?" + query.Encode()
	}
	for try := 1; ; try++ {
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
		again, err := i.complaint(response)
		if again == 0 || try == maxTries {
			return nil, err
		}
		select {
		case <-time.After(again):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// complaint reads why there is no answer, and when to ask again; 0: never.
func (i *Inspector) complaint(response *http.Response) (again time.Duration, err error) {
	defer func() { _ = response.Body.Close() }()
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxComplaint))
	var status metav1.Status
	if json.Unmarshal(text, &status) != nil || status.Message == "" {
		status.Message = cmp.Or(strings.TrimSpace(strings.ToValidUTF8(string(text), "?")), response.Status)
		if response.StatusCode == http.StatusNotFound && !i.direct {
			status.Message = fmt.Sprintf("the API server does not serve %s: is its APIService there? hilbert certificate makes it", visibility.GroupVersion.Group)
		}
	}
	status.Code = int32(response.StatusCode)
	if response.StatusCode == http.StatusNotFound {
		return 0, &AnswerError{status.Message, status}
	}
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && seconds > 0 {
		again = min(time.Duration(seconds)*time.Second, maxRetryAfter)
	}
	return again, &AnswerError{fmt.Sprintf("%s answers %d: %s", i.where, response.StatusCode, status.Message), status}
}

// AnswerError is an answer that is an error. As a Kubernetes API status it tells its cause: apierrors.IsNotFound and its like know it.
type AnswerError struct {
	message string
	status  metav1.Status
}

// Error says who answered what.
func (e *AnswerError) Error() string { return e.message }

// Status is what was answered.
func (e *AnswerError) Status() metav1.Status { return e.status }

func hint(err error) string {
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	if errors.As(err, &unknown) || errors.As(err, &host) {
		return "; name the authority with --certificate-authority, or leave --server out and go through the API server"
	}
	return ""
}
