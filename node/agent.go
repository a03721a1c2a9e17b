package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/node/allocate"
	"hilbert.dev/hilbert/node/enforce"
	"hilbert.dev/hilbert/node/evict"
	"hilbert.dev/hilbert/node/observe"
	"hilbert.dev/hilbert/node/report"
	"hilbert.dev/hilbert/node/scrape"
	"hilbert.dev/hilbert/node/shrink"
	"hilbert.dev/hilbert/topology"
)

const (
	// MaxMessages bounds the messages that wait for the loop.
	MaxMessages = 256
	// applyTimeout bounds how long the answer to the creation of a container waits until those who had its CPUs are moved off.
	applyTimeout = time.Second
	// exclusiveTimeout bounds a question to the kubelet.
	exclusiveTimeout = time.Second
)

// Options are what an Agent is made of.
type Options struct {
	// Node is the name of the Node object.
	Node    string
	Machine *topology.Machine
	// Problems are known from the start, for example that the kernel shows no NUMA nodes.
	Problems []allocate.Note
	// Mode is spec.ModeAgent or spec.ModeKubelet; Why says how it was found out.
	Mode, Why string
	Config    spec.Node
	// Kernel may be used by two goroutines at once.
	Kernel enforce.Kernel
	// Thresholds are the kubelet's eviction thresholds. Disks looks at the node's file systems; nil: nobody does. Recursive: the cgroup hierarchy is
	// mounted with memory_recursiveprot.
	Thresholds []evict.Threshold
	Disks      func() (root, images evict.Disk)
	// Storage says what pods hold of them; nil: nobody does.
	Storage   StorageReader
	Recursive bool
	// Uptime is how long the node has been up. What the laws remember counts from there.
	Uptime time.Duration
	// Scraper asks pods for the metrics that their profiles want; nil: nobody does.
	Scraper *scrape.Scraper
	// Governors keep what is not divided by CPUs and memory alone.
	Governors []Governor
	// Record takes what the laws saw and said; nil: nobody wants it. Who bounds it answers with an error.
	Record io.Writer
	// Observe reads the kernel's counters; nil: nobody does. The Agent closes it.
	Observe *observe.Reader
	// Devices looks at GPUs and network cards; nil: nothing is said of them.
	Devices DeviceInspector
	Ports   Ports
	Log     *slog.Logger
}

// Agent is the node's agent. Its methods may be called by any goroutine while Run runs; all others wait for the loop.
type Agent struct {
	options  Options
	ports    Ports
	log      *slog.Logger
	manager  *allocate.Manager
	throttle *report.Throttle

	inbox    chan func()
	stopped  chan struct{} // closed when Run ends
	fast     *knobWriter   // all knobs but
	slow     *knobWriter   // cpuset.mems
	update   chan updateJob
	observer observer
	work     func(func(context.Context)) // runs something beside the loop; set by Run

	// All below belongs to the loop.
	pods          map[string]*pod       // by UID
	sandboxes     map[string]*pod       // by the sandbox's ID
	containers    map[string]*container // by ID
	knobs         [2][]desiredKnob      // as last given to fast and slow
	applied       <-chan struct{}       // closed when the kernel has the knobs of fast
	saved         []byte                // the checkpoint on disk
	runtime       runtimeState
	updating      bool
	reporting     reporting
	evictions     evictions
	lending       lending
	eviction      eviction
	memory        memory
	profiles      profiles
	disks         disks
	storage       storagePoller
	devices       devices
	governors     governors
	problems      problems
	transient     map[string]time.Time // troubles that pass, until when
	closedZones   []closedZone
	counts        Counts
	ticked        time.Time
	started       time.Time // when the node was, by the monotonic clock
	lawStateSaved time.Time // when the law state were last kept
}

// pod is a pod that has been admitted.
type pod struct {
	name       PodName
	sandbox    string // the newest one
	cgroup     string
	bestEffort bool
	priority   int32 // as its Binding says
	labels     map[string]string
	address    string             // its IP; empty: it has none of its own
	profile    *spec.NamedProfile // nil: none selects it
	conflict   string             // the last that was told
	since      time.Time          // when it was first heard of
	// swapRoom is what it may yet swap, as of swapLooked.
	swapRoom   advise.Sample
	swapLooked time.Time
	containers map[string]*container
	// seen: its cgroup has been there; missing: for how many ticks it has not been since.
	seen    bool
	missing int
}

// container is one that is being created, or runs.
type container struct {
	id, cgroup string
	pod        *pod
	exists     bool
	// score is its oom_score_adj as it was made, and memoryLimit its limit in bytes; nil and 0: not known.
	score       *int
	memoryLimit int64
	user        *uint32 // whom it runs as; nil: not known
	// cpus and mems are what the runtime was last told.
	cpus, mems topology.CPUSet
	asked      allocate.Placement // what the update under way tells it
	failures   int                // updates that failed in a row, for this placement
}

// New returns an agent that has taken its checkpoint over. It fails where the machine cannot be allocated from. A checkpoint that cannot be
// read is no failure: what runs is adopted when the runtime tells of it.
func New(o Options) (*Agent, error) {
	manager, err := allocate.New(o.Machine, allocate.Params{
		ReservedCores: *o.Config.ReservedCores, ReservedMemoryMiB: *o.Config.ReservedMemory, ReclaimedCores: o.Config.ReclaimedCores, Mode: o.Mode,
	})
	if err != nil {
		return nil, fmt.Errorf("allocate from this machine: %w", err)
	}
	a := &Agent{
		options: o, ports: o.Ports, log: o.Log, manager: manager,
		throttle: report.NewThrottle(o.Node, o.Config.WriteInterval.D(), o.Config.RefreshInterval.D()),
		inbox:    make(chan func(), MaxMessages), stopped: make(chan struct{}), update: make(chan updateJob, 1),
		pods: make(map[string]*pod), sandboxes: make(map[string]*pod), containers: make(map[string]*container),
		evictions: make(evictions), problems: make(problems), transient: make(map[string]time.Time), started: time.Now().Add(-o.Uptime),
		counts: Counts{Notes: make(map[string]uint64), Refused: make(map[string]uint64), Withheld: make(map[string]uint64)},
	}
	a.fast = newKnobWriter(o.Kernel, func(r knobResult) { a.post(func() { a.enforced(&r) }) })
	a.slow = newKnobWriter(o.Kernel, func(r knobResult) { a.post(func() { a.enforced(&r) }) })
	a.runtime = runtimeState{why: "not connected yet"}
	a.observer.reader = o.Observe
	a.lending.params = lawParams(&o.Config)
	a.eviction = eviction{params: evict.Defaults(), stopped: make(map[string]time.Time)}
	a.eviction.params.Escalation.AnswerWithin = answerWithin
	a.eviction.params.DryRun = o.Config.Lending.Evictions == spec.EvictionsDryRun
	if err := a.eviction.params.Check(o.Thresholds); err != nil && a.lends() {
		return nil, fmt.Errorf("the kubelet would evict before this agent: %w", err)
	}
	a.disks.read = o.Disks
	a.profiles.scraper = o.Scraper
	a.memory = newMemory(o.Kernel, func(r shrink.Result) { a.post(func() { a.shrank(r) }) })
	for _, n := range o.Problems {
		a.problems.set(n.Reason, n.Message)
	}
	a.restore()
	a.loadLawState()
	a.loadDeviceNumbers()
	return a, nil
}

var errStopped = errors.New("hilbert's agent is stopping")

// post hands the loop a message without waiting for its being taken.
func (a *Agent) post(message func()) {
	select {
	case a.inbox <- message:
	case <-a.stopped:
	}
}

// call has the loop run f, and waits for that. When it fails f may still run later.
func (a *Agent) call(ctx context.Context, f func()) error {
	done := make(chan struct{})
	select {
	case a.inbox <- func() { f(); close(done) }:
	case <-ctx.Done():
		return fmt.Errorf("hilbert's agent is busy: %w", context.Cause(ctx))
	case <-a.stopped:
		return errStopped
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("hilbert's agent is busy: %w", context.Cause(ctx))
	case <-a.stopped:
		return errStopped
	}
}

// returned has the loop run f, and returns what that returned. When the call itself fails nothing of f is looked at: it may run later.
func returned[T any](ctx context.Context, a *Agent, f func() (T, error)) (T, error) {
	var got, none T
	var failed error
	if err := a.call(ctx, func() { got, failed = f() }); err != nil {
		return none, err
	}
	return got, failed
}

// Ask has the loop run f between two messages. False: it has not come round in time.
func (a *Agent) Ask(timeout time.Duration, f func(*Agent)) bool {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	done := make(chan struct{})
	select {
	case a.inbox <- func() { f(a); close(done) }:
	case <-timer.C:
		return false
	case <-a.stopped:
		return false
	}
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	case <-a.stopped:
		return false
	}
}

// Run runs the loop until ctx ends. What runs on the node goes on as it is.
func (a *Agent) Run(ctx context.Context) {
	beside, wait := a.startWorkers(ctx)
	defer func() {
		wait()
		for _, g := range a.options.Governors {
			g.Close()
		}
	}()
	defer close(a.stopped)
	a.work = beside
	a.inspectDevices(time.Now())
	tick := time.NewTicker(a.options.Config.TickInterval.D())
	defer tick.Stop()
	due := time.NewTimer(0)
	defer due.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case message := <-a.inbox:
			message()
		case now := <-tick.C:
			a.tick(now)
		case <-due.C:
		}
		due.Reset(a.report(time.Now()))
	}
}

// tick has everything compared with the kernel, and tries again what failed.
func (a *Agent) tick(now time.Time) {
	a.counts.Ticks++
	if !a.ticked.IsZero() {
		a.watchClock(now.Round(0).Sub(a.ticked.Round(0)), now.Sub(a.ticked))
	}
	a.ticked = now
	a.fast.ask(knobRequest{tick: true})
	a.slow.ask(knobRequest{tick: true})
	a.reopen(now)
	a.expireTransient(now)
	a.removeVanished()
	a.watchWeight()
	a.save()
	a.updateRuntime()
	a.tickGovernors(now)
	a.inspectDevices(now)
}

// maxClockDrift is how far the wall clock may stray from the monotonic one between two ticks.
const maxClockDrift = 2 * time.Second

// watchClock notes jumps of the wall clock, given how much time passed since the last tick by it and by the monotonic one. Nothing here
// depends on it; the times that people read do.
func (a *Agent) watchClock(wall, monotonic time.Duration) {
	if jump := wall - monotonic; jump.Abs() > maxClockDrift {
		a.noteTransient(spec.ReasonClockJumped, fmt.Sprintf("the clock jumped by %v", jump.Round(time.Second)))
	}
}
