package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/devices"
	"hilbert.dev/hilbert/node/enforce"
	given "hilbert.dev/hilbert/node/gpu/kubelet"
	"hilbert.dev/hilbert/node/kubelet"
	"hilbert.dev/hilbert/node/plugin"
	"hilbert.dev/hilbert/node/runtime"
	"hilbert.dev/hilbert/node/store"
	"hilbert.dev/hilbert/node/watchdog"
	"hilbert.dev/hilbert/topology"
)

// machine has two sockets with a NUMA node of four cores and 2 GiB each.
func machine() *topology.Machine {
	m := &topology.Machine{}
	for id := range 8 {
		m.CPUs = append(m.CPUs, topology.CPU{ID: id, Core: id, L3: id / 4, Socket: id / 4, NUMA: id / 4})
	}
	for id := range 2 {
		m.NUMA = append(m.NUMA, topology.NUMANode{
			ID: id, CPUs: topology.CPUs(4*id, 4*id+1, 4*id+2, 4*id+3), Memory: 2 << 30, Distances: []int{10 + 11*id, 21 - 11*id},
		})
	}
	return m
}

// kernel is cgroups in memory, for several goroutines. A cgroup is there once make was called for it.
type kernel struct {
	mu    sync.Mutex
	files map[string]string
	fail  map[string]error         // writes, by path
	hold  map[string]chan struct{} // writes, by the file's name, wait for it
	log   []string
}

func newKernel() *kernel {
	return &kernel{files: make(map[string]string), fail: make(map[string]error), hold: make(map[string]chan struct{})}
}

func (k *kernel) make(cgroups ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range cgroups {
		k.files[c+"/cpuset.cpus"], k.files[c+"/cpuset.mems"], k.files[c+"/cpu.idle"], k.files[c+"/oom_score_adj"] = "", "", "0", "0"
	}
}

func (k *kernel) Read(name string) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	value, ok := k.files[name]
	if !ok {
		return "", fmt.Errorf("%s: %w", name, syscall.ENOENT)
	}
	return value, nil
}

func (k *kernel) Write(name, value string) error {
	k.mu.Lock()
	hold := k.hold[path.Base(name)]
	k.mu.Unlock()
	if hold != nil {
		<-hold
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.fail[name]; err != nil {
		return err
	}
	if _, ok := k.files[name]; !ok {
		return fmt.Errorf("%s: %w", name, syscall.ENODEV)
	}
	k.files[name] = value
	k.log = append(k.log, name+"="+value)
	return nil
}

func (k *kernel) set(name, value string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.files[name] = value
}

func (k *kernel) get(name string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.files[name]
}

// kept is a Store in memory. While it is frozen, what is saved waits; when it is dead, that is never written, as with a machine that lost its power.
type kept struct {
	mu   sync.Mutex
	data []byte
	fail error
	wait chan struct{} // nil: it is not frozen
	dead bool
}

func (s *kept) freeze() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wait == nil {
		s.wait = make(chan struct{})
	}
}

func (s *kept) thaw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wait != nil {
		close(s.wait)
		s.wait = nil
	}
}

// die makes what is on disk a disk of its own, to which nothing more comes of this one.
func (s *kept) die() *kept {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead = true
	if s.wait != nil {
		close(s.wait)
		s.wait = nil
	}
	return &kept{data: s.data}
}

func (s *kept) Load() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.data, nil
}

func (s *kept) Save(data []byte) error {
	s.mu.Lock()
	wait := s.wait
	s.mu.Unlock()
	if wait != nil {
		<-wait
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		return errors.New("this disk is gone")
	}
	if s.fail == nil {
		s.data = slices.Clone(data)
	}
	return s.fail
}

// world is a node whose runtime is the test.
type world struct {
	thresholds kubelet.ThresholdReader // nil: not compared
	*testing.T
	agent  *Agent
	kernel *kernel
	store  *kept
	// lawState is beside the checkpoint.
	lawState *kept
	// configuration is what was told last.
	configuration *kept
	// uplinks is what the Node's annotation named last.
	uplinks *kept
	// numbers are those of devices, which the inspector sees on hardware; nil: they are not inspected, and hardware is machine's.
	numbers *kept
	// plugins is where plugins have their sockets; nil: none is asked. resources is what pods hold of theirs.
	plugins   *plugin.Directory
	resources *kept
	inspector devices.Inspector
	hardware  *topology.Machine
	mode      string
	fixed     map[PodKey]topology.CPUSet
	stop      func()
	// runtime is its name and version, owner the setting of that name.
	runtime, owner string
	ignoreToolkit  bool // the setting of that name
	// seldom: devices are looked at when that is asked for, not ever again. late: the test connects the runtime itself.
	seldom, late bool

	pluginTimeout spec.Duration

	directory string
	absence   *Absence
	fixedErr  error
	// given is what the kubelet answers when it is asked which devices it gave; nil: there is no kubelet.
	given func(ctx context.Context) ([]given.ListedPod, error)

	mu        sync.Mutex
	refused   []string // pods, by UID, whose budget lets none go
	inquiries int      // how often that was read
	reports   []*spec.NodeReport
	reportErr error
	updates   map[string]string // what the runtime was told of each container
	refuse    map[string]bool   // containers that it does not update
	running   map[string]runningPod
	runQueues RunQueues
	logPages  LogPages
	processor ProcessorCounters
	bandwidth MemoryBandwidth
	groups    int // node.memoryBandwidth.groups
	log       slog.Handler
}

// runningPod is what the runtime would tell in Synchronize.
type runningPod struct {
	sandbox    runtime.Sandbox
	containers []runtime.Container
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		directory: t.TempDir(),
		log:       slog.DiscardHandler,
		T:         t, kernel: newKernel(), store: &kept{}, lawState: &kept{}, configuration: &kept{}, uplinks: &kept{}, numbers: &kept{}, resources: &kept{}, pluginTimeout: spec.Duration(10 * time.Second), hardware: machine(), mode: spec.ModeAgent, updates: make(map[string]string), refuse: make(map[string]bool),
		running: make(map[string]runningPod),
	}
	t.Cleanup(func() {
		if w.stop != nil {
			w.stop()
		}
	})
	return w
}

// Update implements Updater.
func (w *world) Update(updates []runtime.Update) (failed []string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, u := range updates {
		if w.refuse[u.Container] {
			failed = append(failed, u.Container)
			continue
		}
		w.updates[u.Container] = u.CPUs.String() + " " + u.Mems.String()
	}
	return failed, nil
}

// start starts an agent, and the connection to the runtime.
func (w *world) start() {
	w.Helper()
	directory := watchdog.Directory(w.directory)
	w.absence = &Absence{Directory: directory, Kernel: &watchdog.Fenced{Kernel: w.kernel, Directory: directory}, Plan: store.File(directory.PlanPath())}
	config := spec.Default().Node
	config.TickInterval, config.WriteInterval = spec.Duration(20*time.Millisecond), spec.Duration(time.Millisecond)
	config.Devices.Interval = config.TickInterval
	if w.plugins != nil {
		config.Plugins.Interval, config.Plugins.Timeout = config.TickInterval, w.pluginTimeout
	}
	if w.seldom {
		config.Devices.Interval = spec.Duration(time.Hour)
	}
	if w.owner != "" {
		config.Devices.Owner = w.owner
	}
	config.Devices.IgnoreToolkit = w.ignoreToolkit
	config.MemoryBandwidth.Groups = w.groups
	agent, err := New(Options{
		Thresholds: w.thresholds, LogPages: w.logPages, RunQueues: w.runQueues, Counters: w.processor, Bandwidth: w.bandwidth,
		Node: "n1", Machine: w.hardware, Devices: w.inspector, Plugins: w.plugins, Mode: w.mode, Config: config, Kernel: w.absence.Kernel, Absence: w.absence, Log: slog.New(w.log),
		Ports: Ports{
			Report: func(_ context.Context, r *spec.NodeReport) error {
				w.mu.Lock()
				defer w.mu.Unlock()
				if w.reportErr == nil {
					w.reports = append(w.reports, r)
				}
				return w.reportErr
			},
			RefusedEvictions: func(context.Context) ([]string, error) {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.inquiries++
				return slices.Clone(w.refused), nil
			},
			Exclusive:      func(context.Context) (map[PodKey]topology.CPUSet, error) { return w.fixed, w.fixedErr },
			KubeletDevices: w.given,
			Checkpoint:     w.store,
			LawState:       w.lawState,
			Configuration:  w.configuration,
			Uplinks:        w.uplinks,
			Devices:        w.numbers,
			Resources:      w.resources,
		},
	})
	if err != nil {
		w.Fatal(err)
	}
	w.agent = agent
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		agent.Run(ctx)
	}()
	w.stop = func() {
		stop()
		<-ended
		w.stop = nil
	}
	if !w.late {
		w.connect()
	}
}

// connect tells the agent what runs.
func (w *world) connect() {
	w.Helper()
	w.agent.Connected(w.Context(), cmp.Or(w.runtime, "test"), w)
	var sandboxes []runtime.Sandbox
	var containers []runtime.Container
	for _, uid := range slices.Sorted(maps.Keys(w.running)) {
		sandboxes = append(sandboxes, w.running[uid].sandbox)
		containers = append(containers, w.running[uid].containers...)
	}
	if err := w.agent.Synchronize(w.Context(), sandboxes, containers); err != nil {
		w.Fatal(err)
	}
}

func sandbox(uid string, cpus float64, words ...string) runtime.Sandbox {
	s := runtime.Sandbox{
		ID: "s-" + uid, UID: uid, Namespace: "default", Name: "pod-" + uid, Labels: map[string]string{}, Annotations: map[string]string{},
		Cgroup: "kubepods/burstable/pod" + uid, Amounts: runtime.Amounts{MilliCPU: int64(cpus * 1000), MemoryLimit: 512 << 20},
	}
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "qos":
			s.Labels[spec.LabelQoS] = value
		case "numa":
			s.Annotations[spec.AnnotationNUMA] = value
		case "numaNodes":
			s.Annotations[spec.AnnotationNUMANodes] = value
		case "besteffort":
			s.BestEffort, s.Cgroup, s.Amounts = true, "kubepods/besteffort/pod"+uid, runtime.Amounts{}
		}
	}
	return s
}

func containerID(s *runtime.Sandbox) string { return "c-" + s.UID }

// run runs a pod of one container as kubelet and runtime do, and returns its container's adjustment.
func (w *world) run(s runtime.Sandbox, as ...func(*runtime.Container)) (runtime.Adjustment, error) {
	w.Helper()
	w.kernel.make(s.Cgroup)
	if err := w.agent.RunSandbox(w.Context(), s); err != nil {
		return runtime.Adjustment{}, err
	}
	c := runtime.Container{ID: containerID(&s), Sandbox: s.ID, Name: "main", Cgroup: s.Cgroup + "/" + containerID(&s)}
	for _, f := range as {
		f(&c)
	}
	a, err := w.agent.CreateContainer(w.Context(), s, c)
	if err != nil {
		return a, err
	}
	w.kernel.make(c.Cgroup)
	w.kernel.set(c.Cgroup+"/cpuset.cpus", a.CPUs.String())
	w.kernel.set(c.Cgroup+"/cpuset.mems", a.Mems.String())
	if a.OOMScoreAdj != nil {
		w.kernel.set(c.Cgroup+"/oom_score_adj", fmt.Sprint(*a.OOMScoreAdj))
	}
	c.CPUs, c.Mems, c.Exists, c.Mark = a.CPUs, a.Mems, true, a.Mark.String()
	w.running[s.UID] = runningPod{s, []runtime.Container{c}}
	return a, w.agent.ContainerCreated(w.Context(), c.ID)
}

func (w *world) mustRun(s runtime.Sandbox, as ...func(*runtime.Container)) runtime.Adjustment {
	w.Helper()
	a, err := w.run(s, as...)
	if err != nil {
		w.Fatal(err)
	}
	return a
}

// unadjusted has a pod run that was made while no agent was there.
func (w *world) unadjusted(s runtime.Sandbox, cpus topology.CPUSet) {
	c := runtime.Container{ID: containerID(&s), Sandbox: s.ID, Name: "main", Cgroup: s.Cgroup + "/" + containerID(&s), CPUs: cpus, Exists: true}
	w.kernel.make(s.Cgroup, c.Cgroup)
	w.kernel.set(c.Cgroup+"/cpuset.cpus", cpus.String())
	w.running[s.UID] = runningPod{s, []runtime.Container{c}}
}

// end ends a pod.
func (w *world) end(s runtime.Sandbox) {
	w.Helper()
	err := errors.Join(w.agent.StopContainer(w.Context(), containerID(&s)), w.agent.StopSandbox(w.Context(), s.ID))
	if err != nil {
		w.Fatal(err)
	}
	delete(w.running, s.UID)
	w.kernel.mu.Lock()
	defer w.kernel.mu.Unlock()
	maps.DeleteFunc(w.kernel.files, func(name, _ string) bool { return strings.HasPrefix(name, s.Cgroup+"/") })
}

// patience is how long a test waits for something that must happen. Nothing is asserted about how long it takes.
const patience = time.Minute

func (w *world) eventually(what string, holds func() bool) {
	w.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if holds() {
			return
		}
	}
	w.Fatal("not so: " + what)
}

// awakeTime begins to measure how long something takes. The time in which this process does not run is left out: on a machine with more work than CPUs that is most of it,
// and says nothing of the agent.
func awakeTime() (took func() time.Duration) {
	const step = 5 * time.Millisecond
	ticker, end, steps := time.NewTicker(step), make(chan struct{}), make(chan time.Duration, 1)
	go func() {
		defer ticker.Stop()
		for n := time.Duration(0); ; n++ {
			select {
			case <-ticker.C: // it keeps one tick at most for who does not run
			case <-end:
				steps <- n
				return
			}
		}
	}()
	return func() time.Duration {
		close(end)
		return step * <-steps
	}
}

// has waits until the kernel has a value in a pod's container.
func (w *world) has(s runtime.Sandbox, file, value string) {
	w.Helper()
	name := s.Cgroup + "/" + containerID(&s) + "/" + file
	w.eventually(name+" is "+value+", not "+w.kernel.get(name), func() bool { return w.kernel.get(name) == value })
}

func (w *world) state() State {
	w.Helper()
	var s State
	if !w.agent.Ask(patience, func(a *Agent) { s = a.State() }) {
		w.Fatal("the loop is stuck")
	}
	return s
}

// ticks waits for whole ticks.
func (w *world) ticks(n uint64) {
	w.Helper()
	begun := w.state().Ticks
	w.eventually("it ticks", func() bool { return w.state().Ticks > begun+n })
}

// condition is the condition AgentReady, as text.
func (w *world) condition() string {
	w.Helper()
	var out string
	w.agent.Ask(patience, func(a *Agent) {
		for _, c := range a.Status().Conditions {
			if c.Type == spec.ConditionAgentReady {
				out = fmt.Sprintf("%v %s %s", c.True, c.Reason, c.Message)
			}
		}
	})
	return out
}

var _ enforce.Kernel = (*kernel)(nil)

// broken names the pods that the report would name now because their promise is broken.
func (w *world) broken() (names []string) {
	w.agent.Ask(time.Minute, func(a *Agent) {
		for _, b := range a.Status().Status.BrokenPromises {
			names = append(names, b.Name)
		}
	})
	return names
}

// events are what the report would tell people now: "pod: reason: message", of the node with no pod.
func (w *world) events() (out []string) {
	w.agent.Ask(time.Minute, func(a *Agent) {
		for _, e := range a.Status().Status.Events {
			name := "" // of the node
			if e.Pod != nil {
				name = e.Pod.Name
			}
			out = append(out, name+": "+e.Reason+": "+e.Message)
		}
	})
	return out
}
