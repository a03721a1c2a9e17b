package history

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbertd/tokenfile"
	"hilbert.dev/hilbert/control/metrics"
)

const (
	// MaxPoints bounds an answer: Prometheus refuses to make more than 11,000 points of a series.
	MaxPoints = 10_000
	maxAnswer = 4 << 20 // bytes
	maxError  = 512     // bytes of an error that are told
)

// Client asks one server.
type Client struct {
	config spec.Prometheus
	http   *http.Client
}

// New returns a Client. It asks nothing yet.
func New(c *spec.Prometheus) (*Client, error) {
	secure := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		text, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("metrics.prometheus.caFile: %w", err)
		}
		secure.RootCAs = x509.NewCertPool()
		if !secure.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("metrics.prometheus.caFile: %s has no certificate in it; want PEM", c.CAFile)
		}
	}
	return &Client{*c, &http.Client{
		Transport:     &http.Transport{TLSClientConfig: secure, MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute, Proxy: http.ProxyFromEnvironment},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Close gives the connections back.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Query is the PromQL for a workload.
func Query(template string, w metrics.Workload) string {
	return strings.NewReplacer(
		"$namespace", strconv.Quote(w.Namespace), "$workload", strconv.Quote(w.Name), "$kind", strconv.Quote(w.Kind), "$pods", strconv.Quote(podNames(w)),
	).Replace(template)
}

// podNames is a regular expression for the names that controllers give a workload's pods. PromQL anchors it.
func podNames(w metrics.Workload) string {
	name := regexp.QuoteMeta(w.Name)
	switch w.Kind {
	case "Deployment":
		return name + "-[a-z0-9]+-[a-z0-9]+"
	case "StatefulSet":
		return name + "-[0-9]+"
	default:
		return name + "-[a-z0-9]+"
	}
}

// CPU is what a workload used in each step between two times, as far as the server knows.
func (c *Client) CPU(ctx context.Context, w metrics.Workload, from, until time.Time, step time.Duration) ([]metrics.Load, error) {
	points, err := c.Range(ctx, Query(c.config.CPUQuery, w), from, until, step)
	if err != nil {
		return nil, fmt.Errorf("what %s used, by metrics.prometheus.cpuQuery: %w", w, err)
	}
	var loads []metrics.Load
	for _, p := range points {
		loads = append(loads, metrics.Load{At: p.At, Cores: p.Value})
	}
	return loads, nil
}

// Point is a value at a time.
type Point struct {
	At    time.Time
	Value float64
}

// Range is what a query of one series is at each step between two times, as far as the server knows: at most the last MaxPoints steps. What is negative or no number is not known.
func (c *Client) Range(ctx context.Context, query string, from, until time.Time, step time.Duration) ([]Point, error) {
	if points := until.Sub(from) / step; points > MaxPoints {
		from = until.Add(-MaxPoints * step)
	}
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout.D())
	defer cancel()
	seconds := func(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }
	form := url.Values{
		"query": {query}, "start": {seconds(from)}, "end": {seconds(until)},
		"step": {strconv.FormatFloat(step.Seconds(), 'f', -1, 64)}, "timeout": {c.config.Timeout.D().String()},
	}
	body, err := c.post(ctx, strings.TrimSuffix(c.config.URL, "/")+"/api/v1/query_range", form)
	if err != nil {
		return nil, fmt.Errorf("ask Prometheus: %w", err)
	}
	points, err := read(body)
	if err != nil {
		return nil, fmt.Errorf("read the answer of Prometheus: %w", err)
	}
	return points, nil
}

func (c *Client) post(ctx context.Context, at string, form url.Values) (body []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, at, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if c.config.TokenFile != "" {
		token, err := tokenfile.Read(c.config.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("metrics.prometheus.tokenFile: %w", err)
		}
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	body, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, err
	case len(body) > maxAnswer:
		return nil, fmt.Errorf("the answer is longer than %d bytes", maxAnswer)
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s: %.*s", response.Status, maxError, body)
	}
	return body, nil
}

// read reads a matrix of one series.
func read(body []byte) ([]Point, error) {
	var answer struct {
		Status, Error string
		Data          struct {
			ResultType string
			Result     []struct{ Values [][2]json.RawMessage }
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("no JSON of Prometheus: %w", err)
	}
	switch {
	case answer.Status != "success":
		return nil, fmt.Errorf("status %q: %.*s", answer.Status, maxError, answer.Error)
	case answer.Data.ResultType != "matrix":
		return nil, fmt.Errorf("the answer is a %q, want a matrix", answer.Data.ResultType)
	case len(answer.Data.Result) == 0:
		return nil, nil
	case len(answer.Data.Result) > 1:
		return nil, fmt.Errorf("%d series; write the query so that it has one, such as sum(…)", len(answer.Data.Result))
	case len(answer.Data.Result[0].Values) > MaxPoints+1:
		return nil, fmt.Errorf("%d points, want at most %d", len(answer.Data.Result[0].Values), MaxPoints)
	}
	out := make([]Point, 0, len(answer.Data.Result[0].Values))
	for _, point := range answer.Data.Result[0].Values {
		var at float64
		var text string
		if err := errors.Join(json.Unmarshal(point[0], &at), json.Unmarshal(point[1], &text)); err != nil {
			return nil, fmt.Errorf("a point: %w", err)
		}
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("a point: %w", err)
		}
		if math.IsNaN(value) || math.IsInf(value, 0) || value < 0 || at < 0 || at > math.MaxInt32*2 {
			continue // it is not known
		}
		out = append(out, Point{At: time.Unix(int64(at), 0), Value: value})
	}
	return out, nil
}
