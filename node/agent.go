package node

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/internal/clock"
	"hilbert.dev/hilbert/node/allocate"
	"hilbert.dev/hilbert/node/bandwidth"
	"hilbert.dev/hilbert/node/controller"
	"hilbert.dev/hilbert/node/devices"
	"hilbert.dev/hilbert/node/enforce"
	"hilbert.dev/hilbert/node/evict"
	"hilbert.dev/hilbert/node/interference"
	"hilbert.dev/hilbert/node/kubelet"
	"hilbert.dev/hilbert/node/loop"
	"hilbert.dev/hilbert/node/observe"
	"hilbert.dev/hilbert/node/perf"
	"hilbert.dev/hilbert/node/plugin"
	"hilbert.dev/hilbert/node/plugins"
	"hilbert.dev/hilbert/node/quiet"
	"hilbert.dev/hilbert/node/report"
	"hilbert.dev/hilbert/node/scrape"
	"hilbert.dev/hilbert/node/shrink"
	"hilbert.dev/hilbert/node/storage"
	"hilbert.dev/hilbert/topology"
)

const (
	// MaxMessages bounds the messages that wait for the loop.
	MaxMessages = loop.MaxMessages
	// applyTimeout bounds how long the answer to the creation of a container waits until the containers that had its CPUs are moved off.
	applyTimeout = time.Second
	// exclusiveTimeout bounds a question to the kubelet.
	exclusiveTimeout = time.Second
	// maxGiveBack is how long an agent that ends waits for the kernel to have what it gives back.
	maxGiveBack = 2 * time.Second
)

// Options are what an Agent is made of.
type Options struct {
	// Node is the name of the Node object.
	Node    string
	Machine *topology.Machine
	// Problems are known from the start, for example that the kernel shows no NUMA nodes.
	Problems []allocate.Note
	// Changed is what differs of the machine from what the agent before this one had; empty: nothing.
	Changed string
	// Mode is spec.ModeAgent or spec.ModeKubelet; Why says how it was found out.
	Mode, Why string
	Config    spec.Node
	// Kernel may be used by two goroutines at once.
	Kernel enforce.Kernel
	// Thresholds reads the kubelet's eviction thresholds; nil: ours are not compared with them. Disks looks at the node's file systems; nil: they are not looked at.
	// Recursive: the cgroup hierarchy is mounted with memory_recursiveprot.
	Thresholds kubelet.ThresholdReader
	Disks      func() (root, images evict.Disk)
	// Storage says what pods hold of them; nil: it is not known.
	Storage   kubelet.StorageReader
	Recursive bool
	// Uptime is how long the node has been up. What the laws remember counts from there.
	Uptime time.Duration
	// Scraper asks pods for the metrics that their profiles name; nil: they are not asked.
	Scraper *scrape.Scraper
	// Governors keep what is not divided by CPUs and memory alone.
	Governors []Governor
	// RunQueues sees for whom threads wait; nil: nothing does.
	RunQueues RunQueues
	// Quiet keeps interrupts and the host's services off CPUs that pods have for themselves; nil: nothing does.
	Quiet *quiet.Keeper
	// LogPages drops page cache of log files; nil: nothing does.
	LogPages LogPages
	// Record takes what the laws saw and said; nil: it is not recorded. A writer that is full returns an error.
	Record io.Writer
	// Use is told at each reading what the pods used; nil: nobody wants to know. It must not block.
	Use func(now time.Time, pods []PodUse)
	// Observe reads the kernel's counters; nil: they are not read. The Agent closes it.
	Observe *observe.Reader
	// Counters reads the processor's counters; nil: they are not read.
	Counters ProcessorCounters
	// Bandwidth reads the memory bandwidth of pods; nil: it is not read.
	Bandwidth MemoryBandwidth
	// Devices looks at GPUs and network cards; nil: nothing is said of them.
	Devices devices.Inspector
	// Plugins is where plugins have their sockets; nil: none is asked.
	Plugins *plugin.Directory
	// Absence lies between the agent and its watchdog; nil: there is none.
	Absence *Absence
	Ports   Ports
	// Clock is the time that the loop goes by; nil: the machine's.
	Clock clock.Clock
	Log   *slog.Logger
}

// Agent is the node's agent: a loop over controllers. Its methods may be called by any goroutine while Run runs, except for those that are called inside
// Ask.
//
// Three kinds of messages reach the loop. Events of the container runtime go to admission. At each tick the controllers of onTick compare the node with what
// was decided and try again what failed. After each reading of the kernel's counters the controllers of onObservation run the control laws. Whenever
// placements or knobs have changed, apply carries that out.
type Agent struct {
	options Options
	node    *nodeState

	admission *admission
	reporter  *reporter
	updates   *runtimeUpdates
	observer  *observe.Poller
	sensor    *sensor

	checkpoint *checkpoint
	knobs      *knobController
	devices    *devices.Controller
	injector   *devices.Injector
	plugins    *plugins.Controller
	governors  *governorController
	profiles   *profileController
	lending    *lendingController
	// configuration swaps the parameters of the laws; health is how pods have fared.
	configuration *configurationController
	health        *healthController
	bursts        *burstController
	// laws keeps what was learned.
	laws *lawState
	// interference watches services for harm by their neighbours.
	interference *interferenceController
	bandwidth    *memoryBandwidth
	// overcommit says how much of the CPUs may be promised to services a second time.
	overcommit *overcommitController
	usage      *usageController
	overuse    *overuseController
	storage    *kubelet.Storage
	eviction   *evictionController
	thresholds *kubelet.Thresholds
	memory     *memoryController
	clock      *clockCheck
	promises   *brokenPromises
	missed     *devices.Missed
	absence    *absenceController

	onTick        []controller.Ticker
	onObservation []lawController
	rounds        uint64 // of the laws
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
	a := &Agent{options: o}
	a.node = newNodeState(&a.options, manager)
	a.node.Apply = a.apply
	a.plugins = plugins.NewController(a.node.Node, o.Plugins, o.Ports.Resources)
	if err := a.addControllers(); err != nil {
		return nil, err
	}
	for _, p := range o.Problems {
		a.node.Events.Problems.Set(p.Reason, p.Message)
	}
	if o.Changed != "" {
		a.node.Events.NoteTransient(spec.ReasonMachineChanged, o.Changed)
	}
	a.promises.closed = a.checkpoint.restore()
	a.plugins.Restore()
	return a, nil
}

// addControllers makes the controllers, and puts them in order.
func (a *Agent) addControllers() (err error) {
	n := a.node
	a.checkpoint, a.devices = newCheckpoint(n), devices.NewController(n.Node, devices.Ports{Inspector: n.options.Devices, Kept: n.ports.Devices, Kubelet: n.ports.KubeletDevices, Reports: n.ports.Report != nil})
	a.injector = devices.NewInjector(a.devices)
	a.profiles, a.storage = &profileController{node: n, scraper: n.options.Scraper}, kubelet.NewStorage(n.Node, n.options.Storage)
	a.lending = &lendingController{node: n, params: lawParams(&n.options.Config)}
	if a.eviction, err = newEvictionController(n, a.storage); err != nil {
		return err
	}
	a.thresholds = kubelet.NewThresholds(n.Node, &a.eviction.params, n.options.Thresholds)
	a.memory, a.bandwidth = newMemoryController(n), &memoryBandwidth{node: n, reader: n.options.Bandwidth}
	a.configuration = newConfigurationController(n, a.lending, a.eviction, a.memory, a.thresholds)
	a.configuration.restore(n.Now())
	a.health, a.governors, a.bursts = &healthController{eviction: a.eviction}, newGovernorController(n), newBurstController(n)
	a.interference = newInterferenceController(n, a.profiles, a.bandwidth)
	a.eviction.interference, a.eviction.findings, a.eviction.governors = a.interference, a.plugins.Findings, a.governors
	a.overcommit, a.usage, a.overuse = &overcommitController{node: n, interference: a.interference}, &usageController{node: n}, &overuseController{node: n}
	a.knobs = newKnobController(n, a.governors, a.memory, a.bursts, a.interference)
	a.updates = newRuntimeUpdates(n, a.knobs)
	a.absence = newAbsenceController(n, n.options.Absence, a.lending, a.injector, a.knobs)
	a.reporter = &reporter{
		node: n, lending: a.lending, eviction: a.eviction, devices: a.devices, plugins: a.plugins, usage: a.usage, overuse: a.overuse,
		configuration: a.configuration, health: a.health, interference: a.interference, overcommit: a.overcommit,
		throttle: report.NewThrottle(n.options.Node, n.options.Config.WriteInterval.D(), n.options.Config.RefreshInterval.D()),
	}
	a.promises = &brokenPromises{node: n, devices: a.devices, reporter: a.reporter}
	a.reporter.promises = a.promises
	a.missed = devices.NewMissed(a.devices, a.injector)
	a.admission = &admission{
		missed: a.missed, plugins: a.plugins,
		node: n, profiles: a.profiles, eviction: a.eviction, devices: a.devices, injector: a.injector, promises: a.promises,
		checkpoint: a.checkpoint, knobs: a.knobs,
	}
	a.observer = &observe.Poller{Reader: n.options.Observe, Interval: n.options.Config.ObserveInterval.D(), Clock: n.options.Clock, Observed: a.wasRead}
	a.sensor = &sensor{node: n, observer: a.observer, profiles: a.profiles, eviction: &a.eviction.params}
	a.clock = &clockCheck{events: n.Events}
	a.laws = newLawState(n, a.lending, a.eviction, a.overcommit)

	a.onTick = []controller.Ticker{
		a.clock,
		a.knobs,
		a.promises,
		n.Events,
		vanishedPods{n},
		weightCheck{n},
		a.checkpoint,
		a.thresholds,
		a.updates,
		a.governors, quiet.NewController(n.Node, n.options.Quiet),
		a.devices,
		a.plugins,
		a.missed,
	}
	a.onObservation = []lawController{
		a.profiles,       // what to scrape
		a.lending,        // how many cores and how much headroom
		timed{a.storage}, // what pods hold of file systems
		a.eviction,       // which pods have to go
		a.memory,         // limits, protection, and what is reclaimed
		a.bursts,         // which pods may go beyond their limits for a moment
		a.bandwidth,      // whose memory bandwidth is read
		a.interference,   // which neighbours harm
		a.overcommit,     // how much CPU may be promised a second time
		a.usage,          // what the node uses
		a.overuse,        // which online pods hold more memory than they requested
		a.health,         // how pods fare
		a.laws,
	}
	return nil
}

// Ask has the loop run f between two messages. False: the loop has not come round in time.
func (a *Agent) Ask(timeout time.Duration, f func(*Agent)) bool {
	return a.node.Loop.Ask(timeout, func() { f(a) })
}

// Run runs the loop until ctx ends. What is lent goes back to the online pods then, for nobody would take it back when they need it; else what runs on the
// node goes on as it is.
func (a *Agent) Run(ctx context.Context) {
	messages := a.node.Loop
	working, endWork := context.WithCancel(context.WithoutCancel(ctx))
	wait := messages.Start(working, a.workers())
	defer func() {
		endWork()
		messages.Close()
		wait()
		a.governors.close()
		a.interference.queues.close()
		a.plugins.Close()
		a.flush()
	}()
	a.devices.Inspect(a.node.Now())
	a.thresholds.Ask(a.node.Now())
	by := clock.OrReal(a.options.Clock)
	tick := by.NewTicker(a.options.Config.TickInterval.D())
	defer tick.Stop()
	beat := by.NewTicker(beatEvery)
	defer beat.Stop()
	due := by.NewTimer(0)
	defer due.Stop()
	for {
		select {
		case <-ctx.Done():
			a.laws.end(a.node.Now())
			a.giveBack()
			return
		case message := <-messages.Messages():
			message()
		case now := <-tick.C():
			a.tick(now)
		case <-beat.C():
			a.absence.beat()
		case <-due.C():
		}
		due.Reset(a.reporter.report(a.node.Now()))
	}
}

// giveBack gives the online pods the CPUs that are lent, but the floor, takes their bursts and the limits of culprits away, and waits for the kernel to have that.
func (a *Agent) giveBack() {
	if lent, bursts, limits := a.lending.giveBack(), a.bursts.giveBack(), a.interference.giveBack(); !lent && !bursts && !limits {
		return
	}
	a.apply()
	timeout := time.NewTimer(maxGiveBack)
	defer timeout.Stop()
	for {
		select {
		case <-a.knobs.applied:
			return
		case message := <-a.node.Loop.Messages(): // the writers say what they have done, and must not wait for us
			message()
		case <-timeout.C:
			a.node.Log.Warn("the agent ends before the kernel has the CPUs that were lent")
			return
		}
	}
}

// workers are what runs beside the loop all the time.
func (a *Agent) workers() []func(context.Context) {
	out := []func(context.Context){a.knobs.fast.Run, a.knobs.slow.Run, a.updates.run, a.memory.shrinker.Run}
	if a.observer.Reader != nil {
		out = append(out, a.observer.Run)
	}
	if a.options.Counters != nil {
		out = append(out, a.options.Counters.Run)
	}
	if a.options.Bandwidth != nil {
		out = append(out, a.options.Bandwidth.Run)
	}
	if scraper := a.profiles.scraper; a.node.Lends() && scraper != nil {
		out = append(out, func(ctx context.Context) { scraper.Run(ctx, a.profiles.wanted, a.profiles.scraped) })
	}
	return out
}

// tick has everything compared with the kernel, and tries again what failed.
func (a *Agent) tick(now time.Time) {
	a.node.Counts.Ticks++
	changed := false
	for _, c := range a.onTick {
		changed = c.Tick(now) || changed
	}
	if changed {
		a.apply()
	}
}

// wasRead is called beside the loop after each reading of the counters.
func (a *Agent) wasRead(reversed uint64) {
	a.node.Loop.Post(func() {
		if reversed > 0 {
			a.node.Events.NoteTransient(spec.ReasonCountersReversed, fmt.Sprintf("%d counters of the kernel went backwards; no rate was made of them", reversed))
		}
		a.observed(a.node.Now())
	})
}

// observed runs the control laws on what was observed last.
func (a *Agent) observed(now time.Time) {
	if !a.node.Lends() {
		if a.options.Use != nil {
			o := a.sensor.look(now)
			defer o.release()
			a.tellUse(o, now)
		}
		return
	}
	in := inputs{now: now, seen: a.sensor.sense(now), reportsFail: a.reporter.failing, noLending: a.eviction.stopsLending() || a.interference.stopsGrowth(now) || a.governors.stopsGrowth(now), noMemory: a.thresholds.Withholds()}
	defer in.seen.release()
	a.tellUse(in.seen, now)
	a.round(&in)
	a.rounds++
	a.reporter.noteLess(now)
}

// round gives each controller of onObservation its turn, in order, and carries out what they have changed.
func (a *Agent) round(in *inputs) {
	changed := false
	for _, c := range a.onObservation {
		changed = c.Tick(in) || changed
	}
	if changed {
		a.apply()
	}
}

// apply carries out what has been decided, in the kernel and in the runtime. The disk gets it too, and nobody waits for that.
func (a *Agent) apply() {
	a.checkpoint.save()
	a.absence.leave(a.node.Now())
	a.observer.Watch(a.node.Pods.Watched(a.options.Use != nil))
	a.knobs.update()
	a.updates.placementsChanged()
}

// Observation calls look with the last observation; look must not keep it. False: there is none yet, or counters are not read.
func (a *Agent) Observation(look func(*observe.Observation)) bool { return a.observer.Show(look) }

// Status is what the agent says of its node; inside Ask.
func (a *Agent) Status() *spec.NodeReport { return a.reporter.build(a.node.Now()) }

// State is a copy of what is worth measuring.
type State struct {
	controller.Counts
	Allocated                          allocate.Counts
	Connected, Synced, Ready           bool
	Pods, Containers, Knobs, Unwatched int
	Broken                             int    // pods in the report whose promise is broken
	EventsDropped                      uint64 // events that the report had no room for
	Waiting                            int    // messages
	Observations                       uint64
	CgroupsLeftOut                     uint64 // of readings, beyond observe.MaxListed
	ObserveSeconds                     float64
	Lost                               string // why the runtime is not connected
	// Kubelet is what the kubelet has said of devices that it gave to pods.
	Kubelet devices.KubeletCounts
	// Colocation is what is said of lending; nil: nothing is.
	Colocation *spec.Colocation
	Evicting   evict.Counts
	Shrinking  shrink.Counts
	// LogPages is bytes of log files that were dropped from the page cache, MemoryParts what pods hold by kind, in bytes.
	LogPages    int64
	MemoryParts map[MemoryPart]int64
	Stops       uint64 // pods that the agent stopped itself
	Scrapes     map[scrape.Outcome]uint64
	// Storage counts questions to the kubelet what pods hold of file systems; StorageKnown is of how many pods it is known now.
	Storage      map[storage.Outcome]uint64
	StorageKnown int
	// Steered counts pods by the name of their profile; SteeredPools is what their pools should have, in millicores.
	Steered      map[string]Steered
	SteeredPools map[string]int64
	// Interference is what is said of harm; nil: nothing is watched. InterferenceActions counts what was decided. Counters is what is counted by the processor's counters.
	Interference        *spec.Interference
	InterferenceActions map[interference.Kind]uint64
	Counters            perf.Status
	// Bandwidth is whose memory bandwidth is counted, BandwidthParts what is known of it added up, in bytes per second.
	Bandwidth      bandwidth.Status
	BandwidthParts map[BandwidthPart]float64
	// MemoryIntensive is how many pods count as memory-intensive, by how that is known; nil: nobody is measured for it.
	MemoryIntensive map[string]int
	RunQueues       RunQueueCounts
	// Overcommit is what is said of how much CPU may be promised a second time; nil: nothing is.
	Overcommit *spec.NodeOvercommitStatus
	Plugins    plugins.Counts
	Overusing  int // online pods that hold more memory than they requested
}

// Rounds is how often the control laws have had their turn, and whether all that followed is done: no knob, no change of a container and no report is on
// its way; inside Ask.
func (a *Agent) Rounds() (n uint64, settled bool) {
	return a.rounds, a.knobs.settled() && !a.updates.busy && !a.reporter.throttle.InFlight()
}

// State copies the agent's state; inside Ask.
func (a *Agent) State() State {
	n := a.node
	s := State{
		Counts: *n.Counts, Allocated: n.Manager.Report().Counts, Connected: n.Runtime.Connected, Synced: n.Runtime.Synced,
		Ready: len(n.Events.Problems) == 0, Pods: n.Pods.Len(), Containers: n.Pods.ContainerCount(),
		Knobs: len(a.knobs.desired[0]) + len(a.knobs.desired[1]), Waiting: n.Loop.Waiting(), Lost: n.Runtime.Why, Broken: len(a.promises.broken), EventsDropped: n.Events.Dropped(),
	}
	s.Colocation, s.Evicting, s.Stops = a.lending.colocation(n.Now(), a.eviction), a.eviction.state.Counts, a.eviction.stops
	s.Shrinking, s.LogPages = a.memory.shrinker.Counts(), a.memory.logs.bytes
	s.MemoryParts = maps.Clone(a.memory.parts)
	if a.profiles.scraper != nil {
		s.Scrapes = a.profiles.scraper.Counts()
	}
	s.Storage, s.StorageKnown = a.storage.Counts(), a.storage.Reading().Known(n.Now())
	s.Steered, s.SteeredPools = a.lending.steered, maps.Clone(a.lending.demands)
	s.Notes, s.Refused, s.Withheld = maps.Clone(n.Counts.Notes), maps.Clone(n.Counts.Refused), maps.Clone(n.Counts.Withheld)
	s.Interference, s.InterferenceActions, s.Unwatched = a.interference.status(n.Now()), a.interference.counts(), a.interference.unwatched(n.Now())
	s.Counters, s.Overcommit = a.interference.counters.status(), a.overcommit.status(n.Now())
	s.RunQueues = a.interference.queues.counts
	s.Bandwidth, s.BandwidthParts = a.bandwidth.status()
	s.MemoryIntensive = maps.Clone(a.bandwidth.intensive)
	s.Plugins, s.Overusing = a.plugins.Counts(), len(a.overuse.found)
	s.Kubelet = a.devices.KubeletCounts()
	s.Observations, s.ObserveSeconds, s.CgroupsLeftOut = a.observer.Totals()
	return s
}
