package elastic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbertd/daemon"
	"hilbert.dev/hilbert/lab/controlplane"
	"hilbert.dev/hilbert/lab/hollow"
)

const (
	// coresInNUMANode and numaMemory are of a node's two NUMA nodes, in cores of two threads and MiB.
	coresInNUMANode, numaMemory = 16, 64 << 10
	// onlinePods of so many CPUs each fill a node, as far as requests go.
	onlinePods, onlineCPUs = 3, 16
	// learnedFor is for how long agents have learned that know something at the start.
	learnedFor = 4 * time.Minute
	// patience is how long anything may take that the laws do not say the time of.
	patience = 5 * time.Minute
	// look is the time between two looks at what waits for a moment to come.
	look = 200 * time.Millisecond
	// sampleEvery is the time between two samples of all nodes.
	sampleEvery = time.Second
)

// bed is the cluster that is played on.
type bed struct {
	Options

	config *rest.Config
	client kubernetes.Interface
	agents *hollow.Agents
	names  []string
	log    *slog.Logger

	mu     sync.Mutex
	began  time.Time // zero of the times below, until the load rises
	queue  map[string]*member
	result Result
}

// Run plays it and works the figures out. log gets how it goes.
func Run(ctx context.Context, o Options, log *slog.Logger) (_ *Result, err error) {
	b := &bed{Options: o, log: log, began: time.Now(), queue: make(map[string]*member), result: Result{Options: o, CPUs: runtime.NumCPU()}}
	plane, err := controlplane.Start(ctx, controlplane.Options{Benchmark: true})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer func() { err = errors.Join(err, plane.Stop(context.WithoutCancel(ctx))) }()
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer cancel()
	if err := plane.InstallDefinitions(ctx); err != nil {
		return nil, err
	}
	b.config = plane.AdminConfig()
	b.config.QPS = -1
	if b.client, err = kubernetes.NewForConfig(b.config); err != nil {
		return nil, err
	}
	if err := b.start(ctx, &tasks); err != nil {
		return nil, err
	}
	defer b.agents.Stop()
	if err := b.play(ctx); err != nil {
		return nil, err
	}
	cancel()
	tasks.Wait()
	return b.finish(), nil
}

// start registers the nodes and starts all who act on them.
func (b *bed) start(ctx context.Context, tasks *sync.WaitGroup) error {
	b.loadAvg()
	machine, config := hollow.PairMachine(coresInNUMANode, numaMemory), spec.Default().Node
	config.Lending.RefreshInterval, config.WriteInterval = spec.Duration(b.Refresh), spec.Duration(b.Write)
	shapes := hollow.AgentShapes(b.Nodes, machine, config)
	fleet, err := hollow.Run(ctx, b.config, shapes, hollow.Options{Frozen: true})
	if err != nil {
		return err
	}
	fleet.Stop() // frozen, it has nothing more to do
	for i, s := range shapes {
		b.names = append(b.names, s.Name)
		b.result.Nodes = append(b.result.Nodes, Node{Name: s.Name, Role: b.role(i)})
	}
	options := hollow.AgentOptions{Machine: machine, Config: config, Online: b.Low, Log: b.logTo("agents.log"), Began: b.podBegan}
	if b.Learned {
		if options.LawState, err = hollow.LearnLawState(machine, &config, b.Low*onlinePods*onlineCPUs, learnedFor); err != nil {
			return err
		}
	}
	if err := b.watch(ctx, tasks); err != nil {
		return err
	}
	if b.agents, err = hollow.RunAgents(ctx, b.config, b.names, options); err != nil {
		return err
	}
	b.result.Began = b.now()
	tasks.Go(func() {
		if err := daemon.Run(ctx, b.configuration(), daemon.Options{Connection: b.config, Log: b.logTo("hilbertd.log")}); err != nil && ctx.Err() == nil {
			b.log.Error("hilbertd has ended", "err", err)
		}
	})
	tasks.Go(func() { b.sample(ctx) })
	return nil
}

// configuration is hilbertd's. Its Lease lasts, so that a busy machine does not lose it.
func (b *bed) configuration() *spec.Configuration {
	const lease, renew = 90 * time.Second, 60 * time.Second
	c := spec.Default()
	c.Server.BindAddress = "-"
	c.LeaderElection.LeaseDuration, c.LeaderElection.RenewDeadline = spec.Duration(lease), spec.Duration(renew)
	c.Scheduling.NodeReports.Policies = spec.PoliciesIgnore // this control plane has none
	c.Scheduling.Reclaimed.StaleAfter = spec.Duration(b.StaleAfter)
	c.Scheduling.Evictions.PercentPerMinute = b.Percent
	return c
}

// logTo is a log in the run's directory; nowhere if it has none.
func (b *bed) logTo(name string) *slog.Logger {
	var to io.Writer = io.Discard
	if b.Dir != "" {
		if file, err := os.Create(filepath.Join(b.Dir, name)); err == nil {
			to = file // until the process ends
		}
	}
	return slog.New(slog.NewTextHandler(to, &slog.HandlerOptions{Level: slog.LevelInfo}))
}

// now is the time in seconds since zero.
func (b *bed) now() float64 { return time.Since(b.began).Seconds() }

// loadAvg notes how busy this machine is.
func (b *bed) loadAvg() {
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		b.result.LoadAvg = append(b.result.LoadAvg, strings.TrimSpace(string(text)))
	}
}

// await waits until something holds; why says what does not.
func (b *bed) await(ctx context.Context, what string, holds func() (ok bool, why string)) error {
	timeout := time.After(patience)
	for {
		ok, why := holds()
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timeout:
			return fmt.Errorf("not after %s: %s: %s", patience, what, why)
		case <-time.After(look):
		}
	}
}

// podBegan is told by the agents.
func (b *bed) podBegan(node string, pod *corev1.Pod) { b.note(runs, pod.Name, node) }

// sample writes the state of all nodes down again and again.
func (b *bed) sample(ctx context.Context) {
	ticker := time.NewTicker(sampleEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			b.sampleOnce()
		}
	}
}

func (b *bed) sampleOnce() {
	sums := make(map[string]*Sample)
	var order []string
	for i, name := range b.names {
		role := b.role(i)
		s := sums[role]
		if s == nil {
			s = &Sample{Role: role}
			sums[role] = s
			order = append(order, role)
		}
		agent := b.agents.Agent(name)
		w := agent.Work()
		s.OnlineWants, s.OnlineGets = s.OnlineWants+w.OnlineWants, s.OnlineGets+w.OnlineGets
		s.ReclaimedWants, s.ReclaimedGets = s.ReclaimedWants+w.ReclaimedWants, s.ReclaimedGets+w.ReclaimedGets
		if r, _, ok := agent.Look(); ok && r.Status.Colocation != nil {
			const milli = 1000
			c := r.Status.Colocation
			s.Lent, s.Headroom = s.Lent+float64(c.Lent.MilliCPU)/milli, s.Headroom+float64(c.Headroom.MilliCPU)/milli
			if c.Closed != "" {
				s.Closed++
			}
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, role := range order {
		sums[role].At = b.now()
		b.result.Samples = append(b.result.Samples, *sums[role])
	}
}
