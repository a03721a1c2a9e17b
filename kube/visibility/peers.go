package visibility

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"

	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/kube/lease"
)

const (
	// locateTimeout bounds the question where the leader's pod is, and peerTimeout the wait for the first byte of its answer.
	locateTimeout = 5 * time.Second
	peerTimeout   = 30 * time.Second
	// maxPeerConnections bounds the connections to the leader.
	maxPeerConnections = 8
)

// Peers are the other replicas. They and we serve with one certificate and its key, and know each other by it. Its methods may be called from several
// goroutines.
type Peers struct {
	own    func() (*tls.Certificate, error)
	leader func() string // the holder of the Lease, as this process saw it last; empty: none
	pods   coreclient.PodsGetter

	mu      sync.Mutex
	holder  string // whose address was found
	address string
	client  *http.Client // whose connections show the certificate shown
	shown   []byte
}

// NewPeers returns the replicas that have the certificate that own returns.
func NewPeers(c *apiserver.Connection, own func() (*tls.Certificate, error), leader func() string) (*Peers, error) {
	config := apiserver.ForPurpose(c, "leader", nil)
	config.Timeout = locateTimeout
	pods, err := coreclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client to find the leader: %w", err)
	}
	return &Peers{own: own, leader: leader, pods: pods}, nil
}

// newClient makes a client of the leader that shows a certificate.
func (p *Peers) newClient(own *tls.Certificate) *http.Client {
	secure := &tls.Config{
		MinVersion:           tls.VersionTLS13,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return own, nil },
		InsecureSkipVerify:   true, // the leader's address is in no certificate; VerifyConnection demands our own key
		VerifyConnection: func(at tls.ConnectionState) error {
			if !p.isOwn(&at) {
				return errors.New("it does not have the certificate that hilbertd's replicas share")
			}
			return nil
		},
	}
	return &http.Client{
		Transport: &http.Transport{
			TLSClientConfig: secure, MaxConnsPerHost: maxPeerConnections, ResponseHeaderTimeout: peerTimeout, IdleConnTimeout: time.Minute,
			DialContext: (&net.Dialer{Timeout: locateTimeout}).DialContext,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// showing is the client that shows our certificate of now. Connections on which an older one was shown are not used again: the leader may trust it no more.
func (p *Peers) showing() (*http.Client, error) {
	own, err := p.own()
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.client == nil || !bytes.Equal(p.shown, own.Certificate[0]) {
		if p.client != nil {
			p.client.CloseIdleConnections()
		}
		p.client, p.shown = p.newClient(own), own.Certificate[0]
	}
	return p.client, nil
}

// IsPeer reports whether a request comes from a replica, or from whoever else has the replicas' key.
func (p *Peers) IsPeer(r *http.Request) bool { return r.TLS != nil && p.isOwn(r.TLS) }

// isOwn compares keys: TLS has shown that the other side has the private one. Ours are those of all certificates that we have, for while one replaces another (Rotate)
// the other side may show the one that we do not.
func (p *Peers) isOwn(at *tls.ConnectionState) bool {
	own, err := p.own()
	if err != nil || len(at.PeerCertificates) == 0 {
		return false
	}
	theirs := at.PeerCertificates[0].RawSubjectPublicKeyInfo
	return slices.ContainsFunc(own.Certificate, func(der []byte) bool {
		c, err := x509.ParseCertificate(der)
		return err == nil && bytes.Equal(c.RawSubjectPublicKeyInfo, theirs)
	})
}

// Ask puts a question to the leader. The caller closes the answer's body. The error is a *Failure.
func (p *Peers) Ask(ctx context.Context, q *Question) (*http.Response, error) {
	identity := p.leader()
	holder, err := lease.ParseHolder(identity)
	switch {
	case identity == "":
		return nil, unavailable("no replica of hilbertd leads now")
	case err != nil:
		return nil, unavailable(err.Error())
	case holder.Port == 0:
		return nil, unavailable("the leader " + holder.Name + " serves nothing")
	}
	host, err := p.locate(ctx, identity, &holder)
	if err != nil {
		return nil, unavailable(fmt.Sprintf("the leader %s cannot be found: %v", holder.Name, err))
	}
	at := url.URL{Scheme: "https", Host: net.JoinHostPort(host, strconv.Itoa(holder.Port)), Path: q.Path(), RawQuery: q.Query().Encode()}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), http.NoBody)
	if err != nil {
		return nil, unavailable(err.Error())
	}
	client, err := p.showing()
	if err != nil {
		return nil, unavailable(err.Error())
	}
	response, err := client.Do(request)
	if err != nil {
		p.forget(identity)
		return nil, unavailable(fmt.Sprintf("the leader %s does not answer: %v", holder.Name, errors.Unwrap(err)))
	}
	return response, nil
}

// locate finds the host of a holder, and remembers it while the holder stays.
func (p *Peers) locate(ctx context.Context, identity string, h *lease.Holder) (string, error) {
	if h.Namespace == "" {
		if here, err := os.Hostname(); err == nil && here == h.Name {
			return "localhost", nil // by default hilbertd serves there only
		}
		return h.Name, nil
	}
	p.mu.Lock()
	known, address := p.holder, p.address
	p.mu.Unlock()
	if known == identity {
		return address, nil
	}
	pod, err := p.pods.Pods(h.Namespace).Get(ctx, h.Name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	if pod.Status.PodIP == "" {
		return "", errors.New("its pod has no address")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holder, p.address = identity, pod.Status.PodIP
	return pod.Status.PodIP, nil
}

// forget makes the next question look for the leader again.
func (p *Peers) forget(identity string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.holder == identity {
		p.holder, p.address = "", ""
	}
}

func unavailable(message string) *Failure {
	return Later(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, message+"; try again")
}
