package agent

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbertd/endpoints"
	"hilbert.dev/hilbert/node"
	"hilbert.dev/hilbert/node/observe"
)

// serveAgent starts the agent's endpoints. It returns nil if none are configured.
func serveAgent(a *node.Agent, config *spec.Configuration, log *slog.Logger, more []prometheus.Collector) (*endpoints.Server, error) {
	listener, err := endpoints.Listen(config.Server)
	if err != nil || listener == nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(agentMeter{a})
	registry.MustRegister(endpoints.ProcessCollectors()...)
	registry.MustRegister(more...)
	p := probes{a, config, log}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", p.livez)
	mux.HandleFunc("GET /readyz", p.readyz)
	mux.Handle("GET /metrics", endpoints.NewScrapes(registry))
	mux.HandleFunc("GET /configz", endpoints.LocalOnly(p.configz))
	endpoints.ServeProfiles(mux, config.Server, endpoints.LocalOnly)
	mux.HandleFunc("GET /v1/node", endpoints.LocalOnly(p.node))
	mux.HandleFunc("GET /v1/observation", endpoints.LocalOnly(p.observation))
	return endpoints.Serve(listener, endpoints.CertificateOf(config.Server), mux, tls.NoClientCert, log)
}

// probes answers about an agent.
type probes struct {
	agent  *node.Agent
	config *spec.Configuration
	log    *slog.Logger
}

const agentStuck = "the agent's loop has not come round"

func (p probes) livez(w http.ResponseWriter, _ *http.Request) {
	if !p.agent.Ask(endpoints.LiveTimeout, func(*node.Agent) {}) {
		http.Error(w, agentStuck, http.StatusInternalServerError)
		return
	}
	fmt.Fprintln(w, "ok")
}

// readyz reports whether the container runtime is connected: without it, no pod gets its CPUs.
func (p probes) readyz(w http.ResponseWriter, _ *http.Request) {
	var s node.State
	switch {
	case !p.agent.Ask(endpoints.LiveTimeout, func(a *node.Agent) { s = a.State() }):
		http.Error(w, agentStuck, http.StatusInternalServerError)
	case !s.Connected || !s.Synced:
		http.Error(w, "the container runtime: "+s.Lost, http.StatusServiceUnavailable)
	default:
		fmt.Fprintln(w, "ok")
	}
}

func (p probes) configz(w http.ResponseWriter, _ *http.Request) { p.answer(w, p.config) }

// node answers with what the CustomNodeResource says, or would say.
func (p probes) node(w http.ResponseWriter, _ *http.Request) {
	var r *spec.NodeReport
	if !p.agent.Ask(endpoints.LiveTimeout, func(a *node.Agent) { r = a.Status() }) {
		http.Error(w, agentStuck, http.StatusInternalServerError)
		return
	}
	p.answer(w, struct {
		spec.NodeStatus
		Conditions []spec.NodeCondition `json:"conditions"`
	}{r.Status, r.Conditions})
}

// observation answers with what the kernel's counters said last: a table for people, or JSON with ?output=json.
func (p probes) observation(w http.ResponseWriter, r *http.Request) {
	var text []byte
	var err error
	shown := p.agent.Observation(func(o *observe.Observation) {
		if r.URL.Query().Get("output") == "json" {
			text, err = json.MarshalIndent(o, "", "  ")
			return
		}
		text = []byte(o.Render())
	})
	switch {
	case !shown:
		http.Error(w, "nothing is observed yet; try again", http.StatusServiceUnavailable)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	default:
		_, _ = w.Write(text) // the client went away
	}
}

func (p probes) answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil { // the client went away
		p.log.Debug("cannot answer", "err", err)
	}
}
