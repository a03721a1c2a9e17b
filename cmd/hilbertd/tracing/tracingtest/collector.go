// Package tracingtest is a collector of traces for tests. It takes OTLP over HTTP as a real collector does, and keeps each span that it is sent, so that a test can compare
// them. A test can have it refuse what comes. It is no collector for anything else: it keeps everything, and forwards nothing.
package tracingtest

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	collectorapi "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonapi "go.opentelemetry.io/proto/otlp/common/v1"
	traceapi "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Span is a span that was sent.
type Span struct {
	Trace, Name string
	Root        bool
	Start, End  time.Time
	Attributes  map[string]string // texts and numbers
	Events      int
	Dropped     int // events that the span had no room for
	Error       string
}

// Collector keeps spans. Its methods may be called from any goroutine.
type Collector struct {
	URL string

	mu     sync.Mutex
	spans  []Span
	status int
}

// New starts a collector, which ends with the test.
func New(t *testing.T) *Collector {
	t.Helper()
	c := &Collector{status: http.StatusOK}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	c.URL = server.URL
	return c
}

// Answer makes it answer with a status from now on; spans are kept only with 200.
func (c *Collector) Answer(status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status = status
}

// Spans returns what was sent, in the order of sending.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Span(nil), c.spans...)
}

// ServeHTTP implements http.Handler.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	var request collectorapi.ExportTraceServiceRequest
	switch {
	case err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &request) != nil:
		http.Error(w, "not a request with traces", http.StatusBadRequest)
		return
	case c.status != http.StatusOK:
		http.Error(w, "it was told to", c.status)
		return
	}
	for _, from := range request.GetResourceSpans() {
		for _, scope := range from.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				c.spans = append(c.spans, read(span))
			}
		}
	}
}

func read(s *traceapi.Span) Span {
	out := Span{
		Trace: hex.EncodeToString(s.GetTraceId()), Name: s.GetName(), Root: len(s.GetParentSpanId()) == 0,
		Start: time.Unix(0, int64(s.GetStartTimeUnixNano())).UTC(), End: time.Unix(0, int64(s.GetEndTimeUnixNano())).UTC(),
		Attributes: make(map[string]string), Events: len(s.GetEvents()), Dropped: int(s.GetDroppedEventsCount()),
	}
	for _, a := range s.GetAttributes() {
		out.Attributes[a.GetKey()] = text(a.GetValue())
	}
	if s.GetStatus().GetCode() == traceapi.Status_STATUS_CODE_ERROR {
		out.Error = s.GetStatus().GetMessage()
	}
	return out
}

func text(v *commonapi.AnyValue) string {
	if number, ok := v.GetValue().(*commonapi.AnyValue_IntValue); ok {
		return strconv.FormatInt(number.IntValue, 10)
	}
	return v.GetStringValue()
}
