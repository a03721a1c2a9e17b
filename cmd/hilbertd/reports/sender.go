package reports

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbertd/tokenfile"
	"hilbert.dev/hilbert/control/metrics"
)

const (
	// Path is where a Receiver takes reports.
	Path = "/v1/reports"
	// sendTimeout bounds the sending of one report to one address.
	sendTimeout = 4 * time.Second
	// maxAddresses bounds the replicas that are sent to.
	maxAddresses = 8
	// maxAuthorities bounds the file of the authorities, in bytes.
	maxAuthorities = 256 << 10
)

// Sender sends what the pods of a node use.
type Sender struct {
	config spec.NodeMetrics
	node   string
	log    *slog.Logger
	lookup func(ctx context.Context, host string) ([]string, error)

	mu      sync.Mutex
	seen    metrics.Collector
	failing bool // has been logged

	authorities []byte // of the client
	client      *http.Client

	sent, failed atomic.Int64
}

// NewSender returns a Sender, which sends nothing before Run.
func NewSender(c spec.NodeMetrics, node string, log *slog.Logger) *Sender {
	return &Sender{config: c, node: node, log: log, lookup: net.DefaultResolver.LookupHost}
}

// See counts a reading.
func (s *Sender) See(pod spec.PodRef, m metrics.Metric, value float64, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen.See(pod, m, value, at)
}

// SeePeak counts the most memory that a container held.
func (s *Sender) SeePeak(pod spec.PodRef, container string, bytes float64, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen.SeePeak(pod, container, bytes, at)
}

// Counts are how many reports were sent, and how many were not, since the start: one for each address, and one failure where no address could be tried.
func (s *Sender) Counts() (sent, failed int64) { return s.sent.Load(), s.failed.Load() }

// LeftOut is what found no place in the reports.
func (s *Sender) LeftOut() metrics.LeftOut {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen.LeftOut()
}

// Run sends a report each interval until ctx ends. Each node begins at another moment, so that not all send at once.
func (s *Sender) Run(ctx context.Context) {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s.node)) // it never fails
	interval := s.config.Interval.D()
	timer := time.NewTimer(time.Duration(h.Sum64() % uint64(interval)))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		timer.Reset(interval)
		s.note(s.round(ctx))
	}
}

// note logs what has changed.
func (s *Sender) note(err error) {
	switch failing := err != nil; {
	case failing && !s.failing:
		s.log.Warn("what pods use is not sent; it is tried each interval", "address", s.config.Address, "err", err)
		s.failing = true
	case !failing && s.failing:
		s.log.Info("what pods use is sent again", "address", s.config.Address)
		s.failing = false
	}
}

// round sends what was seen since the last round to each address.
func (s *Sender) round(ctx context.Context) error {
	s.mu.Lock()
	report := s.seen.Take(time.Now())
	s.mu.Unlock()
	if report == nil {
		return nil
	}
	errs := s.send(ctx, report)
	for _, err := range errs {
		if err != nil {
			s.failed.Add(1)
		} else {
			s.sent.Add(1)
		}
	}
	return errors.Join(errs...)
}

// send is what came of a report at each address, or one error where no address could be tried.
func (s *Sender) send(ctx context.Context, report *metrics.Report) []error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	body, err := json.Marshal(report)
	if err != nil {
		return []error{fmt.Errorf("encode the report: %w", err)}
	}
	host, port, err := net.SplitHostPort(s.config.Address)
	if err != nil {
		return []error{fmt.Errorf("node.metrics.address: %w", err)}
	}
	if err := s.connect(host); err != nil {
		return []error{err}
	}
	token, err := tokenfile.Read(s.config.TokenFile)
	if err != nil {
		return []error{fmt.Errorf("node.metrics.tokenFile: %w", err)}
	}
	addresses, err := s.lookup(ctx, host)
	if err != nil {
		return []error{fmt.Errorf("find the addresses of %s: %w", host, err)}
	}
	slices.Sort(addresses)
	errs := make([]error, min(len(addresses), maxAddresses))
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			errs[i] = s.post(ctx, "https://"+net.JoinHostPort(addresses[i], port)+Path, token, body)
		})
	}
	all.Wait()
	return errs
}

// connect makes the client, anew where the authorities have changed.
func (s *Sender) connect(host string) error {
	authorities, err := readAtMost(s.config.CAFile, maxAuthorities)
	if err != nil {
		return fmt.Errorf("node.metrics.caFile: %w", err)
	}
	if s.client != nil && bytes.Equal(authorities, s.authorities) {
		return nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authorities) {
		return fmt.Errorf("node.metrics.caFile: %s has no certificate in it; want PEM", s.config.CAFile)
	}
	name := s.config.ServerName
	if name == "" {
		name = host
	}
	if s.client != nil {
		s.client.CloseIdleConnections()
	}
	s.authorities, s.client = authorities, &http.Client{
		Transport: &http.Transport{
			TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, ServerName: name}, ForceAttemptHTTP2: true,
			MaxIdleConnsPerHost: 1, IdleConnTimeout: 2 * time.Minute,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // the token goes nowhere else
	}
	return nil
}

func (s *Sender) post(ctx context.Context, url, token string, body []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("send a report: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	response, err := s.client.Do(request)
	if err != nil {
		return fmt.Errorf("send a report: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	const most = 512 // of an error's text
	text, err := io.ReadAll(io.LimitReader(response.Body, most))
	if err != nil || response.StatusCode != http.StatusNoContent {
		return fmt.Errorf("send a report to %s: %s: %s", url, response.Status, bytes.TrimSpace(text))
	}
	return nil
}

// readAtMost reads a small file.
func readAtMost(path string, most int64) (data []byte, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	data, err = io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && int64(len(data)) > most {
		return nil, fmt.Errorf("%s is longer than %d bytes", path, most)
	}
	return data, err
}
