package agent

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"hilbert.dev/hilbert/cmd/hilbertd/reports"
	"hilbert.dev/hilbert/control/metrics"
	"hilbert.dev/hilbert/node"
	"hilbert.dev/hilbert/node/advise"
)

var useReports = agentDesc("use_reports_total", "Reports of what pods use to the role metrics, one for each of its addresses, by result: sent or failed; one failed where no address could be tried.", "result")

var useLeftOut = agentDesc("use_left_out_total", "Readings that found no place in a report to the role metrics, by bound: pods (of 1,024 in one report) and containers (of 16 of one pod). They are of pods that came late.", "bound")

// use is what an agent sends of its pods' use. A nil one sends nothing.
type use struct{ sender *reports.Sender }

// newUse has an agent's readings sent where the configuration says where to.
func newUse(o *node.Options) *use {
	c := o.Config.Metrics
	if c.Address == "" {
		return nil
	}
	u := &use{reports.NewSender(c, o.Node, o.Log)}
	o.Use = u.see
	return u
}

// collectors are others and u.
func (u *use) collectors(others []prometheus.Collector) []prometheus.Collector {
	if u == nil {
		return others
	}
	return append(others, u)
}

// see counts what was read. What is not known is not counted.
func (u *use) see(now time.Time, pods []node.PodUse) {
	for i := range pods {
		p := &pods[i]
		for _, x := range []struct {
			of     metrics.Metric
			sample advise.Sample
		}{
			{metrics.CPUUse, p.CPU},
			{metrics.RunDelay, p.RunDelay},
			{metrics.CPUPressure, p.CPUPressure},
			{metrics.MemoryPressure, p.MemoryPressure},
			{metrics.IOPressure, p.IOPressure},
			{metrics.Memory, p.Memory},
			{metrics.Throttled, p.Throttled},
		} {
			if x.sample.Known {
				u.sender.See(p.PodRef, x.of, x.sample.Value, now)
			}
		}
		for _, c := range p.Containers {
			u.sender.SeePeak(p.PodRef, c.Name, c.Bytes, now)
		}
	}
}

// run sends until ctx ends, or until the function that it returns is called, which waits.
func (u *use) run(ctx context.Context) (stop func()) {
	if u == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		u.sender.Run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// Describe implements prometheus.Collector.
func (u *use) Describe(out chan<- *prometheus.Desc) {
	out <- useReports
	out <- useLeftOut
}

// Collect implements prometheus.Collector.
func (u *use) Collect(out chan<- prometheus.Metric) {
	sent, failed := u.sender.Counts()
	out <- prometheus.MustNewConstMetric(useReports, prometheus.CounterValue, float64(sent), "sent")
	out <- prometheus.MustNewConstMetric(useReports, prometheus.CounterValue, float64(failed), "failed")
	left := u.sender.LeftOut()
	out <- prometheus.MustNewConstMetric(useLeftOut, prometheus.CounterValue, float64(left.Pods), "pods")
	out <- prometheus.MustNewConstMetric(useLeftOut, prometheus.CounterValue, float64(left.Containers), "containers")
}
