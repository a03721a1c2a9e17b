package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbertd/realnode"
	"hilbert.dev/hilbert/internal/version"
	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/node"
	"hilbert.dev/hilbert/node/allocate"
	"hilbert.dev/hilbert/node/bandwidth"
	"hilbert.dev/hilbert/node/logpages"
	"hilbert.dev/hilbert/node/machine"
	"hilbert.dev/hilbert/node/nri"
	"hilbert.dev/hilbert/node/observe"
	"hilbert.dev/hilbert/node/perf"
	"hilbert.dev/hilbert/node/plugin"
	"hilbert.dev/hilbert/node/rdt"
	"hilbert.dev/hilbert/node/runqueue"
	"hilbert.dev/hilbert/node/scrape"
	"hilbert.dev/hilbert/node/store"
)

const (
	// agentTimeout bounds a request of the agent to the API server.
	agentTimeout = 5 * time.Second
	// lockPoll is how often an agent tries to get the lock that only one agent of a node holds.
	lockPoll = time.Second
	// machineAttempts is how often the hardware is read: a CPU may go offline meanwhile.
	machineAttempts = 3
)

// errModeChanged ends an agent when the kubelet's managers have been switched on or off. The supervisor starts it again; running pods are not touched meanwhile.
var errModeChanged = errors.New("the kubelet's managers have changed: start again")

// machineChanged ends an agent whose machine is not the one any more that it gives to pods. Another begins at once, with the checkpoint, and adopts what runs.
type machineChanged string

func (m machineChanged) Error() string { return "the hardware has changed: " + string(m) }

// Options are what a configuration file cannot say.
type Options struct {
	// Connection to the API server; nil reads clientConnection.kubeconfig. Without one an agent stands alone.
	Connection *apiserver.Connection
	// Roots are where the node is found.
	Roots realnode.Roots
	Log   *slog.Logger
	// OnListen, if set, is called with the address of the endpoints once they are served.
	OnListen func(address string)
}

// Run runs a node's agent until ctx ends, a new one each time that CPUs or memory come or go.
func Run(ctx context.Context, config *spec.Configuration, o Options) error {
	for changed := ""; ; {
		err := runOnce(ctx, config, &o, changed)
		what, again := errors.AsType[machineChanged](err)
		if !again {
			return err
		}
		changed = string(what)
		o.Log.Warn("the hardware has changed; the agent begins anew with what it is now", "what", changed)
	}
}

// processorCounters are those of this machine. Nothing is opened before anything is watched.
func processorCounters(roots realnode.Roots) *perf.Poller {
	p := perf.DefaultParams()
	p.MaxFiles = perf.MaxFiles(p.MaxFiles)
	return perf.NewPoller(perf.NewReader(perf.NewEvents(roots.Cgroups(), filepath.Join(roots.Sys, "devices", "system", "cpu", "online")), p), nil)
}

// memoryBandwidth is read through resctrl. Where it is not wanted, what an agent before this one has left of it is removed.
func memoryBandwidth(config *spec.Node, roots realnode.Roots) *bandwidth.Poller {
	p := bandwidth.DefaultParams()
	p.Groups = config.MemoryBandwidth.Groups
	threads := func(cgroup string) ([]int, error) { return rdt.Threads(roots.Cgroups(), cgroup) }
	return bandwidth.NewPoller(bandwidth.NewReader(resctrl(roots), threads, p), nil)
}

// runOnce runs a node's agent on a machine that stays as it is. It fails if it could keep no promise: without cgroup v2, or on a machine that it cannot read.
func runOnce(ctx context.Context, config *spec.Configuration, o *Options, changed string) (err error) {
	roots, log := o.Roots, o.Log
	kernel, err := realnode.OpenKernel(roots)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, kernel.Close()) }()
	unlock, err := lock(ctx, filepath.Join(config.Node.StateDirectory, "lock"), log)
	if err != nil {
		return err
	}
	defer unlock()
	options, err := agentOptions(ctx, config, log, roots)
	if err != nil {
		return err
	}
	options.Changed, options.Scraper = changed, scrape.New(scrape.Defaults())
	options.Observe, options.Quiet = observe.New(roots.Observed, observe.Params{}), quietKeeper(config, roots, kernel)
	options.RunQueues = runqueue.New(runqueue.Options{Cgroups: roots.Cgroups(), Tracing: filepath.Join(roots.Sys, "kernel", "tracing")})
	options.LogPages, options.Counters = logpages.New(logpages.Host, config.Node.LogDirectories), processorCounters(roots)
	options.Bandwidth = memoryBandwidth(&config.Node, roots)
	options.Absence, options.Kernel = absence(roots, kernel, log)
	if path := config.Node.Lending.Record; path != "" {
		record, err := openRecord(path)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, record.Close()) }()
		options.Record = record
	}
	resetUnset(config, options.Mode, roots, kernel, log)
	var metrics []prometheus.Collector
	if options.Governors, metrics, err = governors(&config.Node, options.Mode, roots, kernel, log); err != nil {
		return err
	}
	use := newUse(&options)
	api, err := connect(config, o.Connection, options.Node, log)
	if err != nil {
		return err
	}
	defer api.close()
	options.Ports = api.ports
	keepIn(config.Node.StateDirectory, &options.Ports)
	options.Plugins = pluginDirectory(&options)
	options.Storage = roots.StorageReader(config.Node.KubeletDirectory)
	options.Devices = realnode.NewDevices(roots, options.Machine, config.Node.Devices.ToolkitConfig, api.offers, log)
	options.Ports.Exclusive = exclusiveCPUs(config.Node.KubeletDirectory)
	options.Ports.KubeletDevices = kubeletDevices(config.Node.KubeletDirectory, config.Node.Devices.OtherResources)
	agent, err := node.New(options)
	if err != nil {
		return err
	}
	unfollow, err := api.tell(ctx, agent)
	if err != nil {
		return err
	}
	defer unfollow()
	defer use.run(ctx)()
	served, err := serveAgent(agent, config, log, use.collectors(append(metrics, api.metrics...)))
	if err != nil {
		return err
	}
	defer served.Close()
	served.Tell(o.OnListen)
	log.Info("hilbertd started", "version", version.Get().Version, "role", spec.RoleAgent, "node", options.Node, "mode", options.Mode, "why", options.Why,
		"numaNodes", len(options.Machine.NUMA), "cpus", len(options.Machine.CPUs), "apiServer", api.host, "address", served.At())
	defer log.Info("hilbertd stopped")
	return runBoth(ctx, agent, &options, roots)
}

// keepIn has an agent keep in a directory what must outlast it.
func keepIn(directory string, p *node.Ports) {
	for name, kept := range map[string]*store.Store{
		"checkpoint": &p.Checkpoint, "law-state": &p.LawState, "configuration": &p.Configuration, "uplinks": &p.Uplinks, "devices": &p.Devices, "resources": &p.Resources,
	} {
		*kept = store.File(filepath.Join(directory, name+".json"))
	}
}

// pluginDirectory is where the agent looks for plugins; nil: it does not.
func pluginDirectory(o *node.Options) *plugin.Directory {
	if !o.Config.Plugins.Enabled {
		return nil
	}
	return &plugin.Directory{
		Path: o.Config.Plugins.Directory, Node: o.Node, Machine: o.Machine, Mounts: o.Config.Plugins.Mounts, Owner: uint32(os.Geteuid()),
	}
}

// runBoth runs the loop and its connection to the runtime, until the node is no longer what the agent was made for.
func runBoth(ctx context.Context, agent *node.Agent, o *node.Options, roots realnode.Roots) error {
	config, log := o.Config, o.Log
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	connected := make(chan struct{})
	go func() {
		defer close(connected)
		nri.Run(ctx, config.NRISocket, agent, log)
	}()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		roots.WatchMode(ctx, &config, o.Mode, func() { stop(errModeChanged) })
	}()
	hardware := make(chan struct{})
	go func() {
		defer close(hardware)
		realnode.WatchMachine(ctx, roots, o.Machine, log, func(what string) { stop(machineChanged(what)) })
	}()
	agent.Run(ctx)
	<-connected
	<-watched
	<-hardware
	cause := context.Cause(ctx)
	if _, changed := errors.AsType[machineChanged](cause); changed || errors.Is(cause, errModeChanged) {
		return cause
	}
	return nil
}

// lock waits until no other agent of this node runs: during an update two may overlap, and they would undo each other's work.
func lock(ctx context.Context, path string, log *slog.Logger) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("node.stateDirectory: %w", err)
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("node.stateDirectory: %w", err)
	}
	unlock = func() { _ = file.Close() } // which unlocks; nothing was written
	for waited := false; ; waited = true {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return unlock, nil
		case !errors.Is(err, syscall.EWOULDBLOCK):
			unlock()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		case !waited:
			log.Warn("another agent of this node runs; waiting for its end", "lock", path)
		}
		select {
		case <-ctx.Done():
			unlock()
			return nil, context.Cause(ctx)
		case <-time.After(lockPoll):
		}
	}
}

// agentOptions reads the node.
func agentOptions(ctx context.Context, config *spec.Configuration, log *slog.Logger, roots realnode.Roots) (node.Options, error) {
	out := node.Options{Config: config.Node, Log: log, Node: config.Node.Name}
	if out.Node == "" {
		out.Node = os.Getenv("NODE_NAME")
	}
	if out.Node == "" {
		host, err := os.Hostname()
		if err != nil {
			return out, fmt.Errorf("node.name is empty, and this host has no name: %w", err)
		}
		out.Node = strings.ToLower(host)
	}
	var notes []machine.Note
	var err error
	for range machineAttempts {
		if out.Machine, notes, err = machine.Read(os.DirFS(roots.Sys)); err == nil {
			break
		}
	}
	if err != nil {
		return out, fmt.Errorf("read the machine from %s: %w", roots.Sys, err)
	}
	for _, n := range notes {
		if n.Reason == spec.ReasonNoNUMAInformation || n.Reason == spec.ReasonTooManyNUMANodes {
			out.Problems = append(out.Problems, allocate.Note{Reason: n.Reason, Message: n.Message})
		} else {
			log.Info("about the machine", "reason", n.Reason, "message", n.Message)
		}
	}
	if _, err := os.Stat(filepath.Join(roots.Proc, "pressure", "cpu")); errors.Is(err, fs.ErrNotExist) {
		out.Problems = append(out.Problems, allocate.Note{
			Reason: spec.ReasonPressureMissing, Message: "the kernel has no pressure stall information; boot with psi=1",
		})
	}
	out.Mode, out.Why, _ = roots.Mode(ctx, &config.Node)
	out.Uptime = realnode.Uptime()
	out.Disks, out.Recursive = realnode.Disks(config.Node.KubeletDirectory), realnode.RecursiveProtection(roots)
	out.Thresholds = roots.Thresholds(&config.Node, out.Machine)
	return out, nil
}
