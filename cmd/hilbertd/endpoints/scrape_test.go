package endpoints

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"hilbert.dev/hilbert/cmd/hilbertd/endpoints/endpointstest"
)

// TestSlowScrape: clients that ask for metrics and read nothing keep nobody else from having them, and are sent away after a time.
func TestSlowScrape(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	scrapes := NewScrapes(registry)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", scrapes)
	s, err := Serve(listener, nil, mux, tls.NoClientCert, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	const slow = 4 * maxScrapes
	ended := askAndReadNothing(t, s.Address, slow)
	endpointstest.Eventually(t, "the slow clients have been answered", func() bool { return len(scrapes.sending) == slow })
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: insecure()}}
	for range 2 * maxScrapes {
		answer, err := client.Get("https://" + s.Address + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		if err := errors.Join(err, answer.Body.Close()); err != nil || answer.StatusCode != http.StatusOK || !bytes.Contains(text, []byte("go_goroutines")) {
			t.Fatalf("beside slow clients: %s, %v", answer.Status, err)
		}
	}
	select {
	case <-ended:
		endpointstest.Eventually(t, "what the slow clients held is given back", func() bool { return len(scrapes.sending) == 0 })
	case <-time.After(endpointstest.Patience):
		t.Error("the slow clients still hold what they were sent")
	}
}

func insecure() *tls.Config { return &tls.Config{InsecureSkipVerify: true} } //nolint:gosec // the server's certificate is of its own making

// askAndReadNothing asks for metrics so many times over one HTTP/2 connection, without any room for answers. The channel is closed when the server has
// given all of the requests up.
func askAndReadNothing(t *testing.T, address string, times int) (ended <-chan struct{}) {
	t.Helper()
	config := insecure()
	config.NextProtos = []string{"h2"}
	c, err := tls.Dial("tcp", address, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	frames := http2.NewFramer(c, c)
	errs := []error{frames.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})}
	var header bytes.Buffer
	encoder := hpack.NewEncoder(&header)
	for i := range times {
		header.Reset()
		for _, f := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", "x"}, {":path", "/metrics"}} {
			errs = append(errs, encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}))
		}
		errs = append(errs, frames.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*i + 1), BlockFragment: header.Bytes(), EndStream: true, EndHeaders: true}))
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for given := 0; given < times; {
			frame, err := frames.ReadFrame()
			if err != nil {
				return
			}
			if _, reset := frame.(*http2.RSTStreamFrame); reset {
				given++
			}
		}
	}()
	return done
}
