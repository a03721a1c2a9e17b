package agent

import (
	"context"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/kube/agent"
	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/node"
	"hilbert.dev/hilbert/node/gpu"
	"hilbert.dev/hilbert/node/gpu/kubelet"
	"hilbert.dev/hilbert/topology"
)

// agentAPI is the agent's connection to the API server. Without it, the agent does everything but report.
type agentAPI struct {
	ports node.Ports
	host  string
	close func()
	// metrics are about what is read of the API server.
	metrics []prometheus.Collector
	// follow keeps the agent told of ServiceProfiles until stop is called.
	follow func(ctx context.Context, changed func([]spec.NamedProfile)) (stop func(), err error)
	// configure keeps the agent told of its configuration until stop is called.
	configure func(ctx context.Context, changed func(*spec.WantedConfiguration)) (stop func(), err error)
	// annotate keeps the agent told of the annotations of its Node until stop is called.
	annotate func(ctx context.Context, changed func(map[string]string)) (stop func(), err error)
	// offers asks which device plugins and drivers offer the node's GPUs; nil: there is no API server to ask.
	offers func(ctx context.Context) (gpu.Evidence, error)
}

// tell keeps the agent told of ServiceProfiles, of its configuration and of its Node until stop is called.
func (a *agentAPI) tell(ctx context.Context, to *node.Agent) (stop func(), err error) {
	var stops []func()
	stop = func() {
		for _, one := range slices.Backward(stops) {
			one()
		}
	}
	for _, begin := range []func() (func(), error){
		func() (func(), error) { return a.follow(ctx, to.Profiles) },
		func() (func(), error) { return a.configure(ctx, to.Configure) },
		func() (func(), error) { return a.annotate(ctx, to.Annotated) },
	} {
		one, err := begin()
		if err != nil {
			stop()
			return nil, err
		}
		stops = append(stops, one)
	}
	return stop, nil
}

// maxKubeletWait bounds a request to the kubelet while a pod waits to start; maxDevicesWait bounds one that no pod waits for.
const (
	maxKubeletWait = time.Second
	maxDevicesWait = 5 * time.Second
)

// podResources is a client of the kubelet's pod resources API, which lists what it gave to pods.
func podResources(kubeletDirectory string, wait time.Duration) *agent.PodResources {
	return agent.NewPodResources(filepath.Join(kubeletDirectory, "pod-resources", "kubelet.sock"), wait)
}

// exclusiveCPUs asks the kubelet which pods have exclusive CPUs.
func exclusiveCPUs(kubeletDirectory string) func(context.Context) (map[node.PodKey]topology.CPUSet, error) {
	resources := podResources(kubeletDirectory, maxKubeletWait)
	return func(ctx context.Context) (map[node.PodKey]topology.CPUSet, error) {
		pods, err := resources.List(ctx)
		if err != nil {
			return nil, err
		}
		out := make(map[node.PodKey]topology.CPUSet, len(pods))
		for i := range pods {
			out[node.PodKey{Namespace: pods[i].Namespace, Name: pods[i].Name}] = pods[i].CPUs
		}
		return out, nil
	}
}

// kubeletDevices asks the kubelet which devices it gave to pods for device plugins. It leaves out the resources named in other.
func kubeletDevices(kubeletDirectory string, other []string) func(context.Context) ([]kubelet.ListedPod, error) {
	resources := podResources(kubeletDirectory, maxDevicesWait)
	return func(ctx context.Context) ([]kubelet.ListedPod, error) {
		pods, err := resources.List(ctx)
		if err != nil {
			return nil, err
		}
		out := make([]kubelet.ListedPod, len(pods))
		for i := range pods {
			p := &pods[i]
			out[i] = kubelet.ListedPod{Namespace: p.Namespace, Name: p.Name}
			for _, d := range p.Devices {
				if !slices.Contains(other, d.Resource) {
					out[i].Devices = append(out[i].Devices, kubelet.Device(d))
				}
			}
		}
		return out, nil
	}
}

// evidence says which party offers GPUs. The resources named in other are not GPUs.
func evidence(o agent.Offers, other []string) gpu.Evidence {
	maps.DeleteFunc(o.Offered, func(name string, _ int64) bool { return slices.Contains(other, name) })
	return gpu.Evidence{NodeKnown: o.NodeKnown, Offered: o.Offered, SlicesKnown: o.SlicesKnown, Slices: o.Slices}
}

// connect makes the agent's clients. An empty kubeconfig outside of a cluster is allowed: the agent then runs without an API server.
func connect(config *spec.Configuration, connection *apiserver.Connection, name string, log *slog.Logger) (agentAPI, error) {
	alone := agentAPI{
		host: "none", close: func() {},
		follow:    func(context.Context, func([]spec.NamedProfile)) (func(), error) { return func() {}, nil },
		configure: func(context.Context, func(*spec.WantedConfiguration)) (func(), error) { return func() {}, nil },
		annotate:  func(context.Context, func(map[string]string)) (func(), error) { return func() {}, nil },
	}
	if connection == nil {
		var err error
		connection, err = apiserver.Connect(config.ClientConnection.Kubeconfig)
		if err != nil && config.ClientConnection.Kubeconfig == "" {
			log.Info("no API server: the node stands alone, and is seen at /v1/node", "why", err)
			return alone, nil
		}
		if err != nil {
			return alone, err
		}
	}
	reporter, err := agent.NewReporter(connection, name, agentTimeout)
	if err != nil {
		return alone, err
	}
	refusals, err := agent.NewRefusals(connection, name, agentTimeout)
	if err != nil {
		return alone, err
	}
	offers, err := agent.NewGPUOffers(connection, name, agentTimeout)
	if err != nil {
		return alone, err
	}
	profiles := &profilesMeter{}
	return agentAPI{
		metrics: []prometheus.Collector{profiles},
		offers: func(ctx context.Context) (gpu.Evidence, error) {
			o, err := offers.Ask(ctx)
			return evidence(o, config.Node.Devices.OtherResources), err
		},
		ports: node.Ports{
			Report: reporter.Report, RefusedEvictions: refusals.Read,
		},
		host: connection.Host,
		follow: func(ctx context.Context, changed func([]spec.NamedProfile)) (func(), error) {
			w, err := agent.WatchProfiles(ctx, connection, changed, log)
			if err != nil {
				return nil, err
			}
			profiles.of.Store(w)
			return w.Stop, nil
		},
		configure: func(ctx context.Context, changed func(*spec.WantedConfiguration)) (func(), error) {
			w, err := agent.WatchConfiguration(ctx, connection, name, changed, log)
			if err != nil {
				return nil, err
			}
			return w.Stop, nil
		},
		annotate: func(ctx context.Context, changed func(map[string]string)) (func(), error) {
			w, err := agent.WatchAnnotations(ctx, connection, name, changed, log)
			if err != nil {
				return nil, err
			}
			return w.Stop, nil
		},
		close: func() {
			reporter.Close()
			refusals.Close()
			offers.Close()
		},
	}, nil
}
