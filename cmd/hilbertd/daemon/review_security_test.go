package daemon

import (
	"bytes"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"hilbert.dev/hilbert/api/spec"
)

// One unauthenticated connection with a closed HTTP/2 window holds all scrape slots.
func TestSecSlowScrape(t *testing.T) {
	t.Skip("issue 17: Hostile tenants, captured nodes: least privilege that is shown")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes}))
	s, err := serveOn(l, spec.Server{}, mux, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	c, err := tls.Dial("tcp", s.address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, http2.ClientPreface)
	fr := http2.NewFramer(c, c)
	fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	var buf bytes.Buffer
	enc := hpack.NewEncoder(&buf)
	for i := range maxScrapes {
		buf.Reset()
		for _, f := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", "x"}, {":path", "/metrics"}} {
			enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
		}
		fr.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*i + 1), BlockFragment: buf.Bytes(), EndStream: true, EndHeaders: true})
	}
	go io.Copy(io.Discard, c)
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	for _, wait := range []time.Duration{time.Second, 10 * time.Second, 15 * time.Second} {
		time.Sleep(wait)
		r, err := client.Get("https://" + s.address + "/metrics")
		if err != nil {
			t.Log(wait, err)
			continue
		}
		r.Body.Close()
		t.Log("after", wait, "Prometheus gets", r.Status)
	}
}
