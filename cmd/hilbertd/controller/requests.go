package controller

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/control/request"
	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/kube/lease"
	"hilbert.dev/hilbert/kube/requests"
)

// answerer answers ResourceRequests, while the controller leads.
type answerer struct {
	controller *requests.Controller
	meter      *requestMeter
	log        *slog.Logger
}

// newAnswerer returns nil where no ResourceRequests are answered.
func newAnswerer(c *spec.Configuration, connection *apiserver.Connection, fence *lease.Fence, log *slog.Logger) *answerer {
	r := c.Controller.Requests
	if !r.Enabled {
		return nil
	}
	meter := newRequestMeter()
	params := request.Defaults()
	params.MaxWaiting = r.MaxWaitingPerNamespace
	return &answerer{meter: meter, log: log, controller: requests.New(connection, fence, requests.Options{
		SchedulerName: c.SchedulerName, PodsPerSecond: r.PodsPerSecond, Params: params, Timeout: controllerTimeout, Wrote: meter.wrote, Saw: meter.saw,
	}, log)}
}

// begin answers until stop is called, which waits for what is under way.
func (a *answerer) begin(ctx context.Context) (stop func()) {
	if a == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		if err := a.controller.Run(ctx); err != nil {
			a.log.Error("ResourceRequests are not answered", "err", err)
		}
		a.meter.saw(0, 0)
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// requestMeter exports what becomes of ResourceRequests.
type requestMeter struct {
	requests, waiting atomic.Int64
	writes            *prometheus.CounterVec
}

var (
	requestsKnown   = prometheus.NewDesc("hilbert_resource_requests", "ResourceRequests that the leading controller answers.", nil, nil)
	requestsWaiting = prometheus.NewDesc("hilbert_resource_request_pods_waiting", "Pods of ResourceRequests that have no node yet.", nil, nil)
)

func newRequestMeter() *requestMeter {
	return &requestMeter{writes: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "hilbert_resource_request_writes_total", Help: "Writes for ResourceRequests: of pods (create, delete), of the PodGroups of gangs (gather), and of statuses (status), by result.",
	}, []string{"what", "result"})}
}

func (m *requestMeter) wrote(what string, err error) {
	result := "written"
	if err != nil {
		result = "failed"
	}
	m.writes.WithLabelValues(what, result).Inc()
}

func (m *requestMeter) saw(requests, waiting int) {
	m.requests.Store(int64(requests))
	m.waiting.Store(int64(waiting))
}

// Describe implements prometheus.Collector.
func (m *requestMeter) Describe(out chan<- *prometheus.Desc) {
	out <- requestsKnown
	out <- requestsWaiting
	m.writes.Describe(out)
}

// Collect implements prometheus.Collector.
func (m *requestMeter) Collect(out chan<- prometheus.Metric) {
	out <- prometheus.MustNewConstMetric(requestsKnown, prometheus.GaugeValue, float64(m.requests.Load()))
	out <- prometheus.MustNewConstMetric(requestsWaiting, prometheus.GaugeValue, float64(m.waiting.Load()))
	m.writes.Collect(out)
}
