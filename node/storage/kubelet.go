package storage

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	// Port is the kubelet's own.
	Port = 10250
	// Timeout bounds a question, MaxBody an answer: the summary takes about 4 KiB for a container, and a node has hundreds of them.
	Timeout = 10 * time.Second
	MaxBody = 16 << 20
)

// Outcome is what became of a question.
type Outcome string

// The outcomes.
const (
	Read      Outcome = "Read"
	NoAnswer  Outcome = "NoAnswer"  // the kubelet cannot be reached, or cannot prove its identity
	Refused   Outcome = "Refused"   // it answers, but not this, or not us
	Malformed Outcome = "Malformed" // the answer is too long, or no summary
)

// Outcomes are all of them.
var Outcomes = [...]Outcome{Read, NoAnswer, Refused, Malformed}

// Kubelet is the one of this node.
type Kubelet struct {
	// Address is the node's, without the port; Port is the kubelet's, if it is not the usual one.
	Address string
	Port    int
	// Token is a file with the token that we are known by; the kubelet asks the API server about it.
	Token string
	// Certificates are files with what the kubelet may show: its own certificate, or a CA's. They are tried in turn, and read each time, since they are
	// renewed. Those that are not there are passed over.
	Certificates []string
}

// Read asks once.
func (k *Kubelet) Read(ctx context.Context) (r *Reading, _ Outcome, _ error) {
	outcome, err := k.get(ctx, "/stats/summary", func(body io.Reader) (err error) {
		r, err = Parse(body)
		return err
	})
	if err != nil {
		return nil, outcome, err
	}
	return r, outcome, nil
}

// Configuration asks for what the kubelet runs with: its file, its drop-ins and its flags together. The types are those of kubelet.config.k8s.io/v1beta1.
func (k *Kubelet) Configuration(ctx context.Context) (*KubeletConfiguration, error) {
	var answer struct {
		Config *KubeletConfiguration `json:"kubeletconfig"`
	}
	_, err := k.get(ctx, "/configz", func(body io.Reader) error { return json.NewDecoder(body).Decode(&answer) })
	if err == nil && answer.Config == nil {
		err = errors.New("ask the kubelet: /configz has no kubeletconfig")
	}
	return answer.Config, err
}

// KubeletConfiguration is the part of the kubelet's configuration that says when it evicts, and whether its managers give CPUs and memory to pods.
type KubeletConfiguration struct {
	CPUManagerPolicy    string `json:"cpuManagerPolicy"`    // none, static; empty: none
	MemoryManagerPolicy string `json:"memoryManagerPolicy"` // None, Static; empty: None

	Hard map[string]string `json:"evictionHard"`
	Soft map[string]string `json:"evictionSoft"`
}

// get asks for a path, and has take read the answer.
func (k *Kubelet) get(ctx context.Context, path string, take func(io.Reader) error) (Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	token, err := os.ReadFile(k.Token)
	if err != nil {
		return NoAnswer, fmt.Errorf("ask the kubelet: %w", err)
	}
	var errs []error
	for _, certificate := range k.Certificates {
		trusted, err := trust(certificate, k.Address)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		outcome, err := k.ask(ctx, path, question{strings.TrimSpace(string(token)), trusted, take})
		if _, stranger := errors.AsType[*tls.CertificateVerificationError](err); !stranger {
			return outcome, err
		}
		errs = append(errs, fmt.Errorf("%s: %w", certificate, err))
	}
	return NoAnswer, fmt.Errorf("ask the kubelet: no certificate to know it by: %w", errors.Join(errs...))
}

// trust makes a TLS configuration of a file of certificates. The kubelet's own, which is first in its file, says itself what name it goes by.
func trust(path, address string) (*tls.Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the kubelet's certificate: %w", err)
	}
	config := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: address, MinVersion: tls.VersionTLS12}
	first := true
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue // the file may have the key too
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("the kubelet's certificate: %s: %w", path, err)
		}
		config.RootCAs.AddCert(c)
		if first && !c.IsCA {
			config.ServerName = nameOf(c, address)
		}
		first = false
	}
	if first {
		return nil, fmt.Errorf("the kubelet's certificate: %s has none", path)
	}
	return config, nil
}

func nameOf(c *x509.Certificate, address string) string {
	switch {
	case len(c.DNSNames) > 0:
		return c.DNSNames[0]
	case len(c.IPAddresses) > 0:
		return c.IPAddresses[0].String()
	}
	return address
}

// question is who asks, whom, and what becomes of the answer.
type question struct {
	token   string
	trusted *tls.Config
	take    func(io.Reader) error
}

func (k *Kubelet) ask(ctx context.Context, path string, q question) (Outcome, error) {
	port := k.Port
	if port == 0 {
		port = Port
	}
	url := "https://" + net.JoinHostPort(k.Address, strconv.Itoa(port)) + path
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return NoAnswer, fmt.Errorf("ask the kubelet: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+q.token)
	client := http.Client{
		Transport:     &http.Transport{TLSClientConfig: q.trusted, DisableKeepAlives: true}, // once a minute
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(request)
	if err != nil {
		return NoAnswer, fmt.Errorf("ask the kubelet: %w", err)
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	if response.StatusCode != http.StatusOK {
		return Refused, fmt.Errorf("ask the kubelet: %s says %s", url, response.Status)
	}
	body := &io.LimitedReader{R: response.Body, N: MaxBody}
	err = q.take(body)
	switch {
	case err == nil:
		return Read, nil
	case body.N <= 0:
		return Malformed, fmt.Errorf("ask the kubelet: the answer has more than %d bytes", MaxBody)
	case ctx.Err() != nil:
		return NoAnswer, fmt.Errorf("ask the kubelet: %w", context.Cause(ctx))
	}
	return Malformed, err
}
