package spec

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Metrics configures the role metrics, which serves custom.metrics.k8s.io and external.metrics.k8s.io from what agents send and from a history.
type Metrics struct {
	// StaleAfter is the age from which what an agent has sent is not answered any more. It must be well above the agents' Node.Metrics.Interval.
	StaleAfter Duration `json:"staleAfter"`
	// AgentAccount is the user that agents are: reports of others are refused.
	AgentAccount string `json:"agentAccount"`
	// MaxForecasts bounds the workloads of which forecasts are made: those that somebody asks for hilbert_cpu_use_forecast. Each takes up to 200 KiB. 0: none, the live
	// load is answered.
	MaxForecasts *int `json:"maxForecasts,omitempty"`
	// ForecastQuantile is of how many rises capacity should be there: of ten nine with 0.9. A greater one costs capacity.
	ForecastQuantile float64 `json:"forecastQuantile" needs:"metrics.maxForecasts"`
	// ForecastRises has a workload without a period forecast by what its load rises by of late, while that beats "the same as now". false: the live load is answered for it.
	ForecastRises *bool `json:"forecastRises,omitempty" needs:"metrics.maxForecasts"`
	// Checkpoint is a file in which the profiles of these workloads are kept. Empty: they begin anew with the process.
	Checkpoint string `json:"checkpoint,omitempty" needs:"metrics.maxForecasts"`
	// Prometheus is where profiles are filled from.
	Prometheus Prometheus `json:"prometheus" needs:"metrics.maxForecasts,metrics.prometheus.url"`
	// Peaks are loads that are planned, for hilbert_planned_load.
	Peaks []PlannedPeak `json:"peaks,omitempty"`
}

// Prometheus is a server that speaks Prometheus' HTTP API, such as Prometheus, Thanos, Mimir or VictoriaMetrics.
type Prometheus struct {
	// URL is where its API begins, such as http://prometheus.monitoring:9090. Empty: there is no history but what this process has seen.
	URL string `json:"url,omitempty"`
	// CAFile is a PEM file with the authorities of its certificate. Empty: the system's.
	CAFile string `json:"caFile,omitempty"`
	// TokenFile is a file with a bearer token for it, read for each question. Empty: none is sent.
	TokenFile string `json:"tokenFile,omitempty"`
	// Timeout bounds one question.
	Timeout Duration `json:"timeout"`
	// CPUQuery is the PromQL of the cores that a workload used. $namespace and $workload stand for its names, $kind for Deployment, StatefulSet and so on, and $pods for a regular expression
	// that the names of its pods match; each is put in quoted. The answer has to be one series.
	CPUQuery string `json:"cpuQuery"`
}

// PlannedPeak is a load that is known beforehand: each time the schedule begins, or from one date on, for so long.
type PlannedPeak struct {
	// Name is told in answers.
	Name string `json:"name"`
	// Namespace is that of the workload.
	Namespace string `json:"namespace"`
	// Kind is the workload's: Deployment, StatefulSet and so on. Empty: Deployment.
	Kind string `json:"kind,omitempty"`
	// Workload is the workload's name.
	Workload string `json:"workload"`
	// Schedule is when it begins, as a CronJob has it: five fields, or @daily and the like. Either it or Begins.
	Schedule string `json:"schedule,omitempty"`
	// Begins is the one time at which it begins, such as 2026-11-27T08:00:00, by the clock of the time zone. It may be days ahead.
	Begins string `json:"begins,omitempty"`
	// TimeZone is that of the schedule and of Begins, such as Europe/Berlin. Empty: UTC.
	TimeZone string `json:"timeZone,omitempty"`
	// Duration is how long it lasts.
	Duration Duration `json:"duration"`
	// Load is in the unit of the autoscaler's target, such as cores.
	Load float64 `json:"load"`
}

// MaxPeaks bounds Metrics.Peaks.
const MaxPeaks = 1000

// NodeMetrics says where an agent sends what pods use.
type NodeMetrics struct {
	// Address is HOST:PORT. The host may have several addresses: each is sent to, so that every replica of the role metrics has everything. Empty: nothing is sent.
	Address string `json:"address,omitempty"`
	// CAFile is a PEM file with the authorities that sign the certificate of that host, read again when it changes.
	CAFile string `json:"caFile"`
	// ServerName is the name that the certificate has to be for. Empty: the host of Address.
	ServerName string `json:"serverName,omitempty"`
	// TokenFile is a file with a token of the agent's pod for the audience hilbert-metrics, read for each report.
	TokenFile string `json:"tokenFile"`
	// Interval is the time between two reports.
	Interval Duration `json:"interval"`
}

// MetricsAudience is the audience of the tokens that agents send to the role metrics. The API server does not take them.
const MetricsAudience = "hilbert-metrics"

func newMetrics() Metrics {
	return Metrics{
		StaleAfter: Duration(time.Minute), AgentAccount: "system:serviceaccount:hilbert-system:hilbert-agent", ForecastQuantile: 0.9,
		Prometheus: Prometheus{
			Timeout:  Duration(10 * time.Second),
			CPUQuery: `sum(rate(container_cpu_usage_seconds_total{namespace=$namespace, pod=~$pods, container!=""}[5m]))`,
		},
	}
}

func newNodeMetrics() NodeMetrics {
	return NodeMetrics{TokenFile: "/var/run/secrets/hilbert-metrics/token", CAFile: "/var/run/secrets/hilbert-metrics/ca.crt", Interval: Duration(15 * time.Second)}
}

// The bounds of times.
const (
	minMetricsInterval = Duration(5 * time.Second)
	maxMetricsInterval = Duration(time.Minute)
	maxMetricsAge      = Duration(10 * time.Minute)
)

func validateMetrics(c *Configuration, bad report) {
	m := &c.Metrics
	if slices.Contains(c.Roles, RoleMetrics) && (c.Server.TLSCertFile == "" || c.Server.BindAddress == "-") {
		bad("server.tlsCertFile", "it is empty, or nothing is served; the role metrics needs a certificate that agents and the API server know")
	}
	if m.StaleAfter < 2*minMetricsInterval || m.StaleAfter > maxMetricsAge {
		bad("metrics.staleAfter", "%v is not between %v and %v", m.StaleAfter.D(), 2*minMetricsInterval.D(), maxMetricsAge.D())
	}
	if m.AgentAccount == "" {
		bad("metrics.agentAccount", "it is empty; write the user that agents are, or leave the field out for its default")
	}
	if *m.MaxForecasts < 0 {
		bad("metrics.maxForecasts", "%d is less than 0", *m.MaxForecasts)
	}
	if !(m.ForecastQuantile >= 0.5 && m.ForecastQuantile <= 0.999) {
		bad("metrics.forecastQuantile", "%g is not between 0.5 and 0.999", m.ForecastQuantile)
	}
	if m.Checkpoint != "" && !strings.HasPrefix(m.Checkpoint, "/") {
		bad("metrics.checkpoint", "%q is no absolute path", m.Checkpoint)
	}
	validatePrometheus(&m.Prometheus, bad)
	if len(m.Peaks) > MaxPeaks {
		bad("metrics.peaks", "%d peaks are more than %d", len(m.Peaks), MaxPeaks)
	}
	for i := range m.Peaks {
		validatePeak(&m.Peaks[i], fmt.Sprintf("metrics.peaks[%d].", i), bad)
	}
}

func validatePrometheus(p *Prometheus, bad report) {
	if p.URL == "" {
		return
	}
	if scheme, at, _ := strings.Cut(p.URL, "://"); at == "" || scheme != "http" && scheme != "https" || strings.ContainsAny(at, "?#@ ") {
		bad("metrics.prometheus.url", "%q is no URL of http or https without a password and a query; write one such as http://prometheus.monitoring:9090", p.URL)
	}
	if p.Timeout <= 0 || p.Timeout > Duration(time.Minute) {
		bad("metrics.prometheus.timeout", "%v is not between 0 and 1m", p.Timeout.D())
	}
	if !strings.Contains(p.CPUQuery, "$pods") && !strings.Contains(p.CPUQuery, "$workload") {
		bad("metrics.prometheus.cpuQuery", "it has neither $pods nor $workload in it: every workload would have the same load")
	}
}

// validatePeak leaves schedules and time zones to cmd/hilbertd/configfile, which reads them.
func validatePeak(p *PlannedPeak, at string, bad report) {
	for _, x := range []struct{ field, value string }{{"name", p.Name}, {"namespace", p.Namespace}, {"workload", p.Workload}} {
		if x.value == "" {
			bad(at+x.field, "it is empty")
		}
	}
	switch {
	case p.Schedule == "" && p.Begins == "":
		bad(at+"schedule", "it is empty; write when it begins, as schedule for a peak that comes again or as begins for one date")
	case p.Schedule != "" && p.Begins != "":
		bad(at+"begins", "schedule is there too; write one of them")
	}
	if p.Duration <= 0 || p.Duration > Duration(31*24*time.Hour) {
		bad(at+"duration", "%v is not between 0 and 31 days", p.Duration.D())
	}
	const most = 1e9
	if !(p.Load > 0 && p.Load <= most) {
		bad(at+"load", "%g is not above 0, or above %g", p.Load, most)
	}
}

func validateNodeMetrics(m *NodeMetrics, bad report) {
	if m.Interval < minMetricsInterval || m.Interval > maxMetricsInterval {
		bad("node.metrics.interval", "%v is not between %v and %v", m.Interval.D(), minMetricsInterval.D(), maxMetricsInterval.D())
	}
	if m.Address == "" {
		return
	}
	if at := strings.LastIndexByte(m.Address, ':'); at < 1 || at == len(m.Address)-1 {
		bad("node.metrics.address", "%q is not HOST:PORT", m.Address)
	}
	for _, x := range []struct{ field, path string }{{"caFile", m.CAFile}, {"tokenFile", m.TokenFile}} {
		if !strings.HasPrefix(x.path, "/") {
			bad("node.metrics."+x.field, "%q is no absolute path", x.path)
		}
	}
}
