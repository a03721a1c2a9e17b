package agent

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbertd/endpoints"
	"hilbert.dev/hilbert/node/nri"
	"hilbert.dev/hilbert/node/watchdog"
)

// maxLookAge is how old the watchdog's last look may be. A write of a knob may take seconds on a node that is short of memory.
const maxLookAge = 30 * time.Second

// watchdogState is what a watchdog's endpoints show.
type watchdogState struct {
	dog   *watchdog.Dog
	guard *nri.GuardStatus
	began time.Time // its clock
}

// age is how old the last look is.
func (s *watchdogState) age(status *watchdog.Status) time.Duration {
	return time.Since(s.began) - status.At
}

// serveWatchdog starts the watchdog's endpoints. It returns nil if none are configured, or none can be had: its work matters more than that people see it.
func serveWatchdog(s *watchdogState, config *spec.Configuration, log *slog.Logger) *endpoints.Server {
	listener, err := endpoints.Listen(config.Server)
	if err != nil {
		log.Error("the watchdog serves no health checks and no metrics", "err", err)
		return nil
	}
	if listener == nil {
		return nil
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(watchdogMeter{s})
	registry.MustRegister(endpoints.ProcessCollectors()...)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", s.livez)
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.Handle("GET /metrics", endpoints.NewScrapes(registry))
	endpoints.ServeProfiles(mux, config.Server, endpoints.LocalOnly)
	served, err := endpoints.Serve(listener, endpoints.CertificateOf(config.Server), mux, tls.NoClientCert, log)
	if err != nil {
		log.Error("the watchdog serves no health checks and no metrics", "err", err)
		return nil
	}
	return served
}

// livez reports whether the watchdog looks at the agent.
func (s *watchdogState) livez(w http.ResponseWriter, _ *http.Request) {
	status := s.dog.Status()
	if age := s.age(&status); age > maxLookAge {
		http.Error(w, fmt.Sprintf("the watchdog has not looked at the agent for %v", age.Round(time.Second)), http.StatusInternalServerError)
		return
	}
	fmt.Fprintln(w, "ok")
}

// readyz reports whether the watchdog can do both of its tasks: refuse containers, for which the runtime must be connected, and give loans back.
func (s *watchdogState) readyz(w http.ResponseWriter, _ *http.Request) {
	status := s.dog.Status()
	switch {
	case !s.guard.Connected():
		http.Error(w, "the container runtime is not connected", http.StatusServiceUnavailable)
	case status.Trouble != "":
		http.Error(w, status.Trouble, http.StatusServiceUnavailable)
	case status.Owner == "":
		fmt.Fprintln(w, "ok: no agent has run since the node started")
	default:
		fmt.Fprintln(w, "ok:", status.Owner)
	}
}

// watchdogMeter exports what a watchdog has seen and done.
type watchdogMeter struct{ state *watchdogState }

func watchdogDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("hilbert_watchdog_"+name, help, nil, nil)
}

// The watchdog's metrics.
var (
	watchdogSilent      = watchdogDesc("agent_silent_seconds", "How long the agent has given no sign of life; missing while none has since the watchdog was started. The watchdog takes over after 20 s.")
	watchdogInCharge    = watchdogDesc("in_charge", "1 while the watchdog sets the CPUs of pods in place of a silent agent.")
	watchdogPlans       = watchdogDesc("plans_total", "Times that the watchdog took over from a silent agent and carried out its plan for absence.")
	watchdogGivenBack   = watchdogDesc("loans_given_back_total", "CPU sets of pods written by the plan for absence, under which nothing is lent.")
	watchdogKnobRefused = watchdogDesc("knobs_refused_total", "CPU sets refused by the kernel.")
	watchdogRefused     = watchdogDesc("containers_refused_total", "Creations and starts of containers refused because they need the agent, which has not adjusted them.")
	watchdogConnected   = watchdogDesc("runtime_connected", "1 while the container runtime is connected.")
	watchdogLooks       = watchdogDesc("looks_total", "Looks at the agent's sign of life; one each second.")
	watchdogCollections = []*prometheus.Desc{
		watchdogSilent, watchdogInCharge, watchdogPlans, watchdogGivenBack, watchdogKnobRefused, watchdogRefused, watchdogConnected, watchdogLooks,
	}
)

// Describe implements prometheus.Collector.
func (watchdogMeter) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range watchdogCollections {
		out <- desc
	}
}

// Collect implements prometheus.Collector.
func (m watchdogMeter) Collect(out chan<- prometheus.Metric) {
	send := func(kind prometheus.ValueType, desc *prometheus.Desc, value float64) {
		out <- prometheus.MustNewConstMetric(desc, kind, value)
	}
	s := m.state.dog.Status()
	if s.Beating {
		send(prometheus.GaugeValue, watchdogSilent, (s.Silent + m.state.age(&s)).Seconds())
	}
	send(prometheus.GaugeValue, watchdogInCharge, endpoints.OneIf(s.Owner == watchdog.Watchdog))
	send(prometheus.GaugeValue, watchdogConnected, endpoints.OneIf(m.state.guard.Connected()))
	send(prometheus.CounterValue, watchdogPlans, float64(s.Plans))
	send(prometheus.CounterValue, watchdogGivenBack, float64(s.GivenBack))
	send(prometheus.CounterValue, watchdogKnobRefused, float64(s.Refused))
	send(prometheus.CounterValue, watchdogRefused, float64(m.state.guard.Refused()))
	send(prometheus.CounterValue, watchdogLooks, float64(s.Looks))
}
