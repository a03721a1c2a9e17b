// Package tracing sends traces of pods' ways through the scheduler to a collector, by OpenTelemetry's OTLP over HTTP.
//
// A trace begins when the leader first decides about a pod, with the time since which the pod could be placed, and ends when its Binding is written, or when the pod is no
// longer the scheduler's concern. Below the span of the pod stands one for each part of its way:
//
//	schedule pod                 k8s.pod.name, k8s.pod.uid, k8s.namespace.name, k8s.node.name, hilbert.outcome
//	├── wait                     until a Plan is committed; an event for each time that it fits nowhere
//	├── wait for victims         where other pods have to leave first
//	└── bind                     until the API server has the Binding, and what must precede it: volumes, devices, the rest of the gang
//
// A trace's ID is the UID of its pod, so that who knows the pod finds its trace. Which pods are traced is decided by a hash of the UID: all replicas agree.
//
// A Recorder belongs to one goroutine and never waits: spans are sent by the library's own goroutine, at most maxQueued wait for it, and what is beyond is dropped. At most
// MaxOpen pods are traced at once; a pod beyond is skipped, and counted. A nil Recorder does nothing.
//
// It is not the place for metrics, which count all pods, nor for Events, which tell users.
package tracing

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/internal/version"
	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/schedule"
)

const (
	// MaxOpen bounds the pods that are traced at once.
	MaxOpen = 10_000
	// maxQueued bounds the spans that wait to be sent.
	maxQueued = 8192
	// maxEvents bounds the events of one span: a pod that fits nowhere is tried again and again.
	maxEvents = 32
	// closeTimeout bounds how long the end waits for the collector.
	closeTimeout = 2 * time.Second

	million = 1_000_000
)

// Outcomes of a pod's way.
const (
	outcomeBound      = "bound"
	outcomeGone       = "gone"        // deleted, finished, or bound by somebody else
	outcomeHandedOver = "handed over" // this process has stopped deciding
)

// Recorder records the ways of pods.
type Recorder struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	rate     uint64
	open     map[facts.UID]*way

	skipped, unsent atomic.Int64
}

// way is the trace of a pod that is under way.
type way struct {
	ctx       context.Context
	pod, part trace.Span
}

// New makes a Recorder, nil where nothing is to be traced. Close ends it.
func New(config spec.Tracing, log *slog.Logger) (*Recorder, error) {
	if config.Endpoint == "" || config.SamplingRatePerMillion == 0 {
		return nil, nil
	}
	if at, err := url.Parse(config.Endpoint); err != nil || at.Host == "" {
		return nil, fmt.Errorf("tracing.endpoint: %q is no URL; write one such as https://otel-collector.observability:4318", config.Endpoint)
	}
	target := strings.TrimSuffix(config.Endpoint, "/") + "/v1/traces"
	exporter, err := otlptracehttp.New(context.Background(), otlptracehttp.WithEndpointURL(target))
	if err != nil {
		return nil, fmt.Errorf("tracing.endpoint: %w", err)
	}
	r := &Recorder{rate: uint64(config.SamplingRatePerMillion), open: make(map[facts.UID]*way)}
	r.provider = sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(counted{exporter, &r.unsent, &apiserver.Health{Log: log, What: "the collector of traces"}}, sdktrace.WithMaxQueueSize(maxQueued)),
		sdktrace.WithSampler(sdktrace.AlwaysSample()), // what is not sampled never comes here
		sdktrace.WithIDGenerator(byPod{}),
		sdktrace.WithResource(resource.NewSchemaless(
			attribute.String("service.name", "hilbertd"), attribute.String("service.version", version.Get().Version),
		)),
		sdktrace.WithRawSpanLimits(sdktrace.SpanLimits{
			EventCountLimit: maxEvents, AttributeCountLimit: -1, AttributeValueLengthLimit: -1, AttributePerEventCountLimit: -1,
		}),
	)
	r.tracer = r.provider.Tracer("hilbert.dev/hilbert")
	return r, nil
}

// The Recorder's metrics.
var (
	skippedDesc = prometheus.NewDesc("hilbert_traces_skipped_total", "Pods that were to be traced and were not, because others were traced already.", nil, nil)
	unsentDesc  = prometheus.NewDesc("hilbert_trace_spans_unsent_total", "Spans that the collector did not take.", nil, nil)
)

// Describe implements prometheus.Collector.
func (r *Recorder) Describe(descs chan<- *prometheus.Desc) {
	descs <- skippedDesc
	descs <- unsentDesc
}

// Collect implements prometheus.Collector.
func (r *Recorder) Collect(metrics chan<- prometheus.Metric) {
	metrics <- prometheus.MustNewConstMetric(skippedDesc, prometheus.CounterValue, float64(r.skipped.Load()))
	metrics <- prometheus.MustNewConstMetric(unsentDesc, prometheus.CounterValue, float64(r.unsent.Load()))
}

// Close ends all traces and sends what waits.
func (r *Recorder) Close(now time.Time) error {
	if r == nil {
		return nil
	}
	r.Reset(now)
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := r.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("send the last traces: %w", err)
	}
	return nil
}

// Reset ends all traces: this process decides nothing more about these pods.
func (r *Recorder) Reset(now time.Time) {
	if r == nil {
		return
	}
	for uid := range r.open {
		r.end(uid, outcomeHandedOver, now)
	}
}

// Unschedulable records that a pod fits nowhere. Since is when it could first be placed.
func (r *Recorder) Unschedulable(pod *cluster.Pod, reasons []schedule.FilterCount, since, now time.Time) {
	w := r.way(pod, since, now)
	if w == nil {
		return
	}
	said := make([]attribute.KeyValue, len(reasons))
	for i, reason := range reasons {
		said[i] = attribute.Int("hilbert.refused."+reason.Filter, reason.Nodes)
	}
	w.part.AddEvent("fits nowhere", trace.WithTimestamp(now), trace.WithAttributes(said...))
}

// Placed records that a Plan for a pod was committed.
func (r *Recorder) Placed(pod *cluster.Pod, since, now time.Time) { r.next(pod, "bind", since, now) }

// Preempting records that a Plan was committed whose victims have to leave first.
func (r *Recorder) Preempting(pod *cluster.Pod, victims int, since, now time.Time) {
	if w := r.next(pod, "wait for victims", since, now); w != nil {
		w.part.SetAttributes(attribute.Int("hilbert.victims", victims))
	}
}

// Cleared records that the victims have left.
func (r *Recorder) Cleared(pod *cluster.Pod, since, now time.Time) { r.next(pod, "bind", since, now) }

// Released records that a placement was given up, and why. The pod waits again.
func (r *Recorder) Released(pod *cluster.Pod, message string, since, now time.Time) {
	if r == nil || r.open[pod.UID] == nil {
		return
	}
	r.open[pod.UID].part.SetStatus(codes.Error, message)
	r.next(pod, "wait", since, now)
}

// Bound records that the API server has a pod's Binding.
func (r *Recorder) Bound(pod *cluster.Pod, now time.Time) {
	if r != nil {
		r.end(pod.UID, outcomeBound, now)
	}
}

// Gone records that a pod is no longer the scheduler's concern.
func (r *Recorder) Gone(uid facts.UID, now time.Time) {
	if r != nil {
		r.end(uid, outcomeGone, now)
	}
}

// next ends the part of a pod's way that is under way, and begins another.
func (r *Recorder) next(pod *cluster.Pod, part string, since, now time.Time) *way {
	w := r.way(pod, since, now)
	if w == nil {
		return nil
	}
	if node := pod.Node(); node != "" {
		w.pod.SetAttributes(attribute.String("k8s.node.name", node))
	}
	w.part.End(trace.WithTimestamp(now))
	_, w.part = r.tracer.Start(w.ctx, part, trace.WithTimestamp(now))
	return w
}

// way is the trace of a pod, which begins where there is none; nil where the pod is not traced.
func (r *Recorder) way(pod *cluster.Pod, since, now time.Time) *way {
	if r == nil {
		return nil
	}
	if w := r.open[pod.UID]; w != nil {
		return w
	}
	if !r.sampled(pod.UID) {
		return nil
	}
	if len(r.open) >= MaxOpen {
		r.skipped.Add(1)
		return nil
	}
	if since.IsZero() {
		since = now
	}
	about := []attribute.KeyValue{
		attribute.String("k8s.namespace.name", pod.Namespace), attribute.String("k8s.pod.name", pod.Name), attribute.String("k8s.pod.uid", string(pod.UID)),
	}
	if pod.Unit != nil {
		about = append(about, attribute.String("hilbert.podgroup", pod.Unit.Name))
	}
	w := &way{}
	w.ctx, w.pod = r.tracer.Start(ofPod(pod.UID), "schedule pod", trace.WithTimestamp(since), trace.WithNewRoot(), trace.WithAttributes(about...))
	_, w.part = r.tracer.Start(w.ctx, "wait", trace.WithTimestamp(since))
	r.open[pod.UID] = w
	return w
}

func (r *Recorder) end(uid facts.UID, outcome string, now time.Time) {
	w := r.open[uid]
	if w == nil {
		return
	}
	delete(r.open, uid)
	w.part.End(trace.WithTimestamp(now))
	w.pod.SetAttributes(attribute.String("hilbert.outcome", outcome))
	w.pod.End(trace.WithTimestamp(now))
}

// sampled reports whether a pod is one of those that are traced.
func (r *Recorder) sampled(uid facts.UID) bool { return hashed(uid)%million < r.rate }

func hashed(uid facts.UID) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(uid)) // a hash never fails
	return h.Sum64()
}

// podKey is the key of a context's pod.
type podKey struct{}

func ofPod(uid facts.UID) context.Context {
	return context.WithValue(context.Background(), podKey{}, uid)
}

// byPod makes IDs: a trace's of its pod's UID, a span's at random.
type byPod struct{}

// NewIDs implements sdktrace.IDGenerator.
func (byPod) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	uid, _ := ctx.Value(podKey{}).(facts.UID)
	id := traceID(uid)
	return id, byPod{}.NewSpanID(ctx, id)
}

// NewSpanID implements sdktrace.IDGenerator.
func (byPod) NewSpanID(context.Context, trace.TraceID) (id trace.SpanID) {
	for !id.IsValid() {
		_, _ = rand.Read(id[:]) // it never fails
	}
	return id
}

// traceID is a UID without its dashes, or a hash of one that is no UUID.
func traceID(uid facts.UID) (id trace.TraceID) {
	raw, err := hex.DecodeString(strings.ReplaceAll(string(uid), "-", ""))
	if err == nil && len(raw) == len(id) {
		copy(id[:], raw)
	}
	if !id.IsValid() {
		binary.BigEndian.PutUint64(id[:8], hashed(uid))
		binary.BigEndian.PutUint64(id[8:], hashed(uid+"/")|1)
	}
	return id
}

// counted is an exporter that counts what was not sent, and says once that it was not.
type counted struct {
	sdktrace.SpanExporter
	unsent *atomic.Int64
	health *apiserver.Health
}

// ExportSpans implements sdktrace.SpanExporter.
func (c counted) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := c.SpanExporter.ExportSpans(ctx, spans)
	if err == nil {
		c.health.Succeeded()
		return nil
	}
	c.unsent.Add(int64(len(spans)))
	if !errors.Is(err, context.Canceled) {
		c.health.Failed(err)
	}
	return nil // it is said; the library would say it again on the standard error
}
