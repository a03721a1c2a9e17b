package hollow

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/internal/clock"
	"hilbert.dev/hilbert/kube/agent"
	"hilbert.dev/hilbert/node"
	"hilbert.dev/hilbert/node/observe"
	"hilbert.dev/hilbert/node/runtime"
	"hilbert.dev/hilbert/topology"
)

// Fault is what goes wrong with a node's reports. The zero value is nothing.
type Fault struct {
	Silent bool          // none arrives
	Drop   int           // of so many one arrives; 0 and 1: all
	Delay  time.Duration // each arrives so much later, and is as old by then
	Shrink int           // each NUMA node is said to have so many CPUs less to give
}

// Agent is the agent of one hollow node. Its methods may be called by any goroutine.
type Agent struct {
	name     string
	options  AgentOptions
	reporter *agent.Reporter
	told     *agent.ConfigurationWatch // nil: the agent follows nothing
	ports    node.Ports
	kernel   *mapKernel
	born     time.Time       // when the node was
	base     context.Context //nolint:containedctx // Restart begins what lives as long as all agents do

	fault   atomic.Pointer[Fault]
	tried   atomic.Uint64 // reports that the agent wanted to write
	reports atomic.Uint64 // that were written

	slots   chan struct{} // of all agents: who writes holds one
	writing sync.Mutex    // held while a report is written: a NodeReporter is for one at a time

	mu      sync.Mutex // held while a pod begins or ends, or the agent restarts
	agent   *node.Agent
	cancel  context.CancelFunc
	ended   chan struct{}
	running map[types.UID]runningPod
	refused map[types.UID]Refusal
}

// Refusal is a pod that the agent would not have, as of its first try.
type Refusal struct {
	Pod    string   // its name
	Why    string   // what the runtime was told
	Beside []string // the names of the pods that ran then
}

func newAgent(ctx context.Context, config *rest.Config, name string, o AgentOptions, slots chan struct{}, fault Fault) (*Agent, error) {
	reporter, err := agent.NewReporter(config, name, agentTimeout)
	if err != nil {
		return nil, err
	}
	by := clock.OrReal(o.Clock)
	reporter.GoBy(by)
	a := &Agent{
		name: name, options: o, reporter: reporter, kernel: newMapKernel(by), base: ctx, born: by.Now().Add(-o.LawState.uptime), slots: slots,
		running: make(map[types.UID]runningPod), refused: make(map[types.UID]Refusal),
	}
	a.ports = node.Ports{Report: a.report, Checkpoint: &mapStore{}, LawState: &mapStore{data: o.LawState.data}}
	if o.Online > 0 || o.Model != nil {
		a.kernel.work = newWork(o.Machine, o.Online, by.Now())
	}
	if o.Model != nil {
		a.kernel.work.co = newCoNode(o.Model)
	}
	a.fault.Store(&fault)
	if !o.Configured {
		return a, a.start(ctx)
	}
	a.ports.Configuration = &mapStore{}
	if err := a.start(ctx); err != nil {
		return a, err
	}
	a.told, err = agent.WatchConfiguration(ctx, config, name, a.configure, o.Log)
	return a, err
}

// configure tells the agent that runs now.
func (a *Agent) configure(w *spec.WantedConfiguration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.agent.Configure(w)
}

// start starts the agent and tells it what runs. a.mu is held, or nobody else knows a yet.
func (a *Agent) start(ctx context.Context) error {
	o := node.Options{
		Node: a.name, Machine: a.options.Machine, Mode: spec.ModeAgent, Why: "hollow", Config: a.options.Config, Kernel: a.kernel, Ports: a.ports,
		Uptime: clock.OrReal(a.options.Clock).Now().Sub(a.born), Clock: a.options.Clock, Log: a.options.Log.With(slog.String("node", a.name)),
	}
	if a.kernel.work != nil {
		o.Observe = observe.New(workFiles{a.kernel}, observe.Params{})
	}
	agent, err := node.New(o)
	if err != nil {
		return err
	}
	running, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	a.agent, a.cancel, a.ended = agent, cancel, ended
	go func() {
		defer close(ended)
		agent.Run(running)
	}()
	agent.Connected(ctx, "hollow", a.kernel)
	var sandboxes []runtime.Sandbox
	var containers []runtime.Container
	for uid := range a.running {
		sandboxes = append(sandboxes, a.running[uid].sandbox)
		containers = append(containers, a.running[uid].container)
	}
	return agent.Synchronize(ctx, sandboxes, containers)
}

// stop ends the agent. What it has decided stands in the kernel and in its checkpoint.
func (a *Agent) stop() {
	a.cancel()
	<-a.ended
}

// Restart kills the agent and starts it anew, on what it has left behind.
func (a *Agent) Restart() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stop()
	return a.start(a.base)
}

// Kill ends the agent and starts none. What runs on the node goes on; no pod begins or ends there any more.
func (a *Agent) Kill() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stop()
}

// SetOnline says what share of their requests the node's online pods want from now on. The node must be modelled.
func (a *Agent) SetOnline(share float64) { a.kernel.change(func(w *work) { w.online = share }) }

// Blind has the kernel refuse all counters.
func (a *Agent) Blind(yes bool) { a.kernel.change(func(w *work) { w.blind = yes }) }

// Work is what the node's pods want and get now.
func (a *Agent) Work() (now Work) {
	a.kernel.change(func(*work) {}) // sums up to now
	a.kernel.change(func(w *work) { now = w.now })
	return now
}

// Rounds is how often the agent's control laws have had their turn, and whether all that followed is done; false, false: it does not come round.
func (a *Agent) Rounds() (n uint64, settled bool) {
	a.mu.Lock()
	agent := a.agent
	a.mu.Unlock()
	if !agent.Ask(agentTimeout, func(now *node.Agent) { n, settled = now.Rounds() }) {
		return 0, false
	}
	return n, settled
}

// SetFault makes the reports from now on have a fault.
func (a *Agent) SetFault(f Fault) { a.fault.Store(&f) }

// Reports is how many reports the agent has written.
func (a *Agent) Reports() uint64 { return a.reports.Load() }

// Refusals are the pods that the agent has refused, those among them that it took later.
func (a *Agent) Refusals() []Refusal {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Values(a.refused))
}

// Look returns what the agent would report now, and its counts. False: it does not come round.
func (a *Agent) Look() (r *spec.NodeReport, s node.State, ok bool) {
	a.mu.Lock()
	agent := a.agent
	a.mu.Unlock()
	ok = agent.Ask(agentTimeout, func(n *node.Agent) { r, s = n.Status(), n.State() })
	return r, s, ok
}

// Write writes a report as it stands, beside those that the agent writes.
func (a *Agent) Write(ctx context.Context, r *spec.NodeReport) error {
	a.writing.Lock()
	defer a.writing.Unlock()
	return a.reporter.Report(ctx, r)
}

// report is the agent's port.
func (a *Agent) report(ctx context.Context, r *spec.NodeReport) error {
	f, tried := *a.fault.Load(), a.tried.Add(1)
	if f.Silent || f.Drop > 1 && tried%uint64(f.Drop) != 0 {
		return errSilent
	}
	if f.Delay > 0 {
		late := time.NewTimer(f.Delay)
		defer late.Stop()
		select {
		case <-late.C:
		case <-ctx.Done():
			return errSilent
		}
	}
	if f.Shrink > 0 {
		var err error
		if r, err = shrunk(r, f.Shrink); err != nil {
			return err
		}
	}
	if err := a.writeInTurn(ctx, r); err != nil {
		return err
	}
	a.reports.Add(1)
	return nil
}

// writeInTurn writes when few enough other agents do.
func (a *Agent) writeInTurn(ctx context.Context, r *spec.NodeReport) error {
	select {
	case a.slots <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-a.slots }()
	return a.Write(ctx, r)
}

// shrunk is the report of a node whose NUMA nodes have so many CPUs less to give. What pods hold stays.
func shrunk(r *spec.NodeReport, by int) (*spec.NodeReport, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	out := &spec.NodeReport{}
	if err := json.Unmarshal(text, out); err != nil {
		return nil, err
	}
	for s := range out.Status.Topology {
		for z := range out.Status.Topology[s].Children {
			if numa := &out.Status.Topology[s].Children[z]; numa.Allocatable != nil {
				numa.Allocatable.CPUs, numa.Allocatable.CPUSet = max(numa.Allocatable.CPUs-by, 0), ""
			}
		}
	}
	return out, nil
}

// PairMachine has two NUMA nodes of so many cores of two threads; the memory of a NUMA node is given in MiB.
func PairMachine(cores int, memoryMiB int64) *topology.Machine {
	const nodes, threads = 2, 2
	m := &topology.Machine{}
	for n := range nodes {
		m.NUMA = append(m.NUMA, topology.NUMANode{ID: n, Memory: memoryMiB * topology.Mebibyte})
		for to := range nodes {
			distance := 21
			if n == to {
				distance = 10
			}
			m.NUMA[n].Distances = append(m.NUMA[n].Distances, distance)
		}
	}
	for id := range nodes * cores * threads { // siblings are half of the machine apart, as Linux numbers them
		core := id % (nodes * cores)
		n := core / cores
		m.CPUs = append(m.CPUs, topology.CPU{ID: id, Core: core, L3: n, Socket: n, NUMA: n})
		m.NUMA[n].CPUs.Add(id)
	}
	return m
}

// BigMachine has two sockets, eight NUMA nodes and 128 cores of two threads; the memory of a NUMA node is given in MiB.
func BigMachine(memoryMiB int64) *topology.Machine {
	const sockets, nodes, coresInNode, threads, coresInL3 = 2, 8, 16, 2, 8
	const cores = nodes * coresInNode
	m := &topology.Machine{}
	for n := range nodes {
		m.NUMA = append(m.NUMA, topology.NUMANode{ID: n, Memory: memoryMiB * topology.Mebibyte})
		for to := range nodes {
			distance := 32
			switch {
			case n == to:
				distance = 10
			case n*sockets/nodes == to*sockets/nodes:
				distance = 12
			}
			m.NUMA[n].Distances = append(m.NUMA[n].Distances, distance)
		}
	}
	for id := range cores * threads { // siblings are half of the machine apart, as Linux numbers them
		core := id % cores
		n := core / coresInNode
		m.CPUs = append(m.CPUs, topology.CPU{ID: id, Core: core, L3: core / coresInL3, Socket: n * sockets / nodes, NUMA: n})
		m.NUMA[n].CPUs.Add(id)
	}
	return m
}
