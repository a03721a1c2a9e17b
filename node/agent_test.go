package node

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/runtime"
	"hilbert.dev/hilbert/topology"
)

const everywhere = "0-1"

// Who runs is moved off before the runtime is told that a dedicated pod may start, and the runtime learns of it.
func TestDedicatedHasItsCoresAtOnce(t *testing.T) {
	w := newWorld(t)
	w.start()
	shared := sandbox("shared", 1)
	if a := w.mustRun(shared); a.CPUs.String() != "1-7" || a.Mems.String() != everywhere || a.OOMScoreAdj != nil {
		t.Errorf("shared: %+v", a)
	}
	dedicated := sandbox("own", 2, "qos=dedicated_cores", "numa=bound", "numaNodes=1:2/512Mi")
	w.kernel.make(dedicated.Cgroup)
	if err := w.agent.RunSandbox(t.Context(), dedicated); err != nil {
		t.Fatal(err)
	}
	c := runtime.Container{ID: "c", Sandbox: dedicated.ID, Cgroup: dedicated.Cgroup + "/c"}
	a, err := w.agent.CreateContainer(t.Context(), dedicated, c)
	if err != nil || a.CPUs.Len() != 2 || a.Mems != topology.CPUs(1) || !a.CPUs.Minus(topology.CPUs(4, 5, 6, 7)).IsEmpty() {
		t.Fatalf("own: %+v, %v", a, err)
	}
	rest := topology.CPUs(1, 2, 3, 4, 5, 6, 7).Minus(a.CPUs).String()
	for _, cgroup := range []string{shared.Cgroup, shared.Cgroup + "/" + containerID(&shared)} {
		if got := w.kernel.get(cgroup + "/cpuset.cpus"); got != rest { // no waiting here
			t.Errorf("%s runs on %q when the dedicated pod starts, want %q", cgroup, got, rest)
		}
	}
	w.eventually("the runtime knows", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.updates[containerID(&shared)] == rest+" "+everywhere
	})
	if s := w.state(); s.Allocated.Kept != 1 || s.Unapplied != 0 {
		t.Errorf("%+v", s)
	}
	w.eventually("it is on disk", func() bool { return w.state().Checkpoints > 0 }) // nobody waits for that
	w.end(dedicated)
	w.has(shared, "cpuset.cpus", "1-7")
}

func TestReclaimed(t *testing.T) {
	w := newWorld(t)
	w.start()
	shared, hog := sandbox("shared", 1), sandbox("hog", 0, "qos=reclaimed_cores", "besteffort")
	w.mustRun(shared)
	a := w.mustRun(hog)
	if a.CPUs.Len() != 2 || a.OOMScoreAdj == nil || *a.OOMScoreAdj != 968 {
		t.Errorf("%+v", a)
	}
	w.has(shared, "cpuset.cpus", topology.CPUs(1, 2, 3, 4, 5, 6, 7).Minus(a.CPUs).String())
	w.eventually("the pod is idle", func() bool { return w.kernel.get(hog.Cgroup+"/cpu.idle") == "1" })
	if got := w.kernel.get(hog.Cgroup + "/" + containerID(&hog) + "/cpu.idle"); got != "0" {
		t.Errorf("the container's cpu.idle is %s: it must never be set", got)
	}
	// One that asks for CPU has a weight that the kubelet changes, which cpu.idle would forbid.
	burstable := sandbox("burst", 1, "qos=reclaimed_cores")
	w.mustRun(burstable)
	w.state()
	if got := w.kernel.get(burstable.Cgroup + "/cpu.idle"); got != "0" {
		t.Errorf("cpu.idle of a Burstable pod is %s", got)
	}
}

// What somebody else changes is put right at the next tick: systemd's reload, a kubelet that restarts, an update behind our back.
func TestTickPutsRight(t *testing.T) {
	w := newWorld(t)
	w.start()
	s := sandbox("own", 2, "qos=dedicated_cores")
	a := w.mustRun(s)
	w.ticks(2)
	w.kernel.set(s.Cgroup+"/"+containerID(&s)+"/cpuset.cpus", "")
	w.kernel.set(s.Cgroup+"/cpuset.cpus", "")
	w.has(s, "cpuset.cpus", a.CPUs.String())
	w.eventually("the pod's own cgroup too", func() bool { return w.kernel.get(s.Cgroup+"/cpuset.cpus") == a.CPUs.String() })
	w.eventually("it is counted", func() bool { return w.state().Reverted >= 2 })
}

// The kubelet's updates pass with our CPUs in place of its own.
func TestUpdateContainer(t *testing.T) {
	w := newWorld(t)
	w.start()
	s := sandbox("own", 2, "qos=dedicated_cores")
	a := w.mustRun(s)
	u, err := w.agent.UpdateContainer(t.Context(), containerID(&s))
	if err != nil || u.CPUs != a.CPUs || u.Container != containerID(&s) {
		t.Errorf("%+v, %v", u, err)
	}
	if u, err := w.agent.UpdateContainer(t.Context(), "stranger"); err != nil || !u.CPUs.IsEmpty() {
		t.Errorf("a stranger: %+v, %v", u, err)
	}
}

func TestResize(t *testing.T) {
	w := newWorld(t)
	w.start()
	s := sandbox("own", 2, "qos=dedicated_cores")
	w.mustRun(s)
	if err := w.agent.ResizeSandbox(t.Context(), s, runtime.Amounts{MilliCPU: 3000}); err != nil {
		t.Fatal(err)
	}
	name := s.Cgroup + "/" + containerID(&s) + "/cpuset.cpus"
	w.eventually("it has three", func() bool {
		set, err := topology.ParseCPUSet(w.kernel.get(name))
		return err == nil && set.Len() == 3
	})
	if err := w.agent.ResizeSandbox(t.Context(), s, runtime.Amounts{MilliCPU: 100_000}); err != nil {
		t.Fatal(err)
	}
	w.eventually("it is told that there is no room", func() bool { return w.said("pod-own: " + spec.ReasonInsufficientCores) })
	// The kubelet has written to both cgroups by now: they are compared before the next tick.
	w.kernel.set(s.Cgroup+"/cpuset.cpus", "")
	if err := w.agent.Updated(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	w.eventually("the pod's cgroup is put right", func() bool { return w.kernel.get(s.Cgroup+"/cpuset.cpus") == w.kernel.get(name) })
}

func (w *world) said(start string) bool {
	return slices.ContainsFunc(w.events(), func(e string) bool { return strings.HasPrefix(e, start) })
}

// kill -9 of the agent: a new one has what the old one gave, and moves nobody.
func TestRestart(t *testing.T) {
	for _, remembers := range []bool{true, false} {
		w := newWorld(t)
		w.start()
		first, second := sandbox("first", 1, "qos=dedicated_cores"), sandbox("second", 2, "qos=dedicated_cores", "numa=bound", "numaNodes=1:2/512Mi")
		hog, shared := sandbox("hog", 0, "qos=reclaimed_cores", "besteffort"), sandbox("shared", 1)
		for _, s := range []runtime.Sandbox{first, hog, second, shared} {
			w.mustRun(s)
		}
		w.end(first) // so that the cores are not the first ones any more
		w.has(shared, "cpuset.cpus", w.placed(shared))
		before := map[string]string{}
		for _, s := range []runtime.Sandbox{second, shared, hog} {
			name := s.Cgroup + "/" + containerID(&s) + "/cpuset.cpus"
			before[name] = w.kernel.get(name)
		}
		w.stop()
		if !remembers {
			w.store.data = []byte("half a checkpo")
		}
		for uid, p := range w.running { // the runtime tells what it has
			set, err := topology.ParseCPUSet(w.kernel.get(p.containers[0].Cgroup + "/cpuset.cpus"))
			if err != nil {
				t.Fatal(err)
			}
			p.containers[0].CPUs = set
			w.running[uid] = p
		}
		w.start()
		w.ticks(2)
		for name, value := range before {
			if got := w.kernel.get(name); got != value && (remembers || strings.Contains(name, "second")) {
				t.Errorf("remembers %v: %s was %s and is %s", remembers, name, value, got)
			}
		}
		if s := w.state(); s.Pods != 3 || s.Containers != 3 || (s.CheckpointErrors == 1) == remembers {
			t.Errorf("remembers %v: %+v", remembers, s)
		}
		w.stop()
	}
}

func (w *world) placed(s runtime.Sandbox) (cpus string) {
	w.agent.Ask(patience, func(a *Agent) {
		p, _ := a.node.Manager.Placement(s.UID)
		cpus = p.CPUs.String()
	})
	return cpus
}

// Pods that ended while nobody looked hold nothing any more; those that started then are adopted.
func TestSynchronizeAfterAbsence(t *testing.T) {
	w := newWorld(t)
	w.start()
	gone := sandbox("gone", 3, "qos=dedicated_cores")
	w.mustRun(gone)
	w.stop()
	delete(w.running, gone.UID)
	dedicated, shared := sandbox("new", 6, "qos=dedicated_cores"), sandbox("shared", 1)
	w.unadjusted(dedicated, topology.CPUSet{})
	w.unadjusted(shared, topology.CPUSet{})
	w.start()
	w.eventually("both have their places", func() bool { return w.placed(dedicated) != "" && w.placed(shared) != "" })
	w.has(dedicated, "cpuset.cpus", w.placed(dedicated))
	w.has(shared, "cpuset.cpus", w.placed(shared))
	own, _ := topology.ParseCPUSet(w.placed(dedicated))
	others, _ := topology.ParseCPUSet(w.placed(shared))
	if own.Len() != 6 || !own.Intersection(others).IsEmpty() {
		t.Errorf("%s and %s", own, others)
	}
}

// Runtimes tell of sandboxes that are dead for as long as they keep them. Those hold nothing, and do not stand in the way of the pod's next one.
func TestDeadSandboxes(t *testing.T) {
	w := newWorld(t)
	ended, again := sandbox("ended", 6, "qos=dedicated_cores"), sandbox("again", 2, "qos=dedicated_cores")
	ended.Processless = true
	w.running["ended"] = runningPod{ended, nil}
	w.unadjusted(again, topology.CPUs(4, 5))
	dead := again
	dead.ID, dead.Processless = "s-again-0", true
	w.running["zz"] = runningPod{dead, nil} // told last
	starting := sandbox("starting", 1, "qos=dedicated_cores")
	w.running["starting"] = runningPod{starting, nil} // its sandbox runs, its containers do not yet
	w.start()
	w.has(again, "cpuset.cpus", "4-5")
	if got := w.placed(ended); got != "" {
		t.Errorf("a pod that has ended holds %s", got)
	}
	if w.placed(starting) == "" {
		t.Error("a pod that starts holds nothing")
	}
	w.agent.Ask(time.Minute, func(a *Agent) {
		if got := a.node.Pods.Of("again").Sandbox; got != again.ID {
			t.Errorf("the pod's sandbox is %s, which is dead", got)
		}
	})
}

// CRI-O's sandboxes have no process. Such a pod keeps what it has while none of its containers runs, for example because all wait to be started again.
func TestSandboxesWithoutProcess(t *testing.T) {
	w := newWorld(t)
	own := sandbox("own", 6, "qos=dedicated_cores")
	own.Processless = true
	w.start()
	w.mustRun(own)
	had := w.placed(own)
	w.stop()
	w.running["own"] = runningPod{own, nil} // its container has ended, and its cgroup is there
	w.start()
	if got := w.placed(own); got != had || had == "" {
		t.Errorf("a pod between two containers holds %q, and had %q", got, had)
	}
}

// An agent that is killed between the sandbox and its first container gives the container what the sandbox was given.
func TestRestartWhilePodStarts(t *testing.T) {
	w := newWorld(t)
	w.start()
	first, s := sandbox("first", 2, "qos=dedicated_cores"), sandbox("own", 2, "qos=dedicated_cores", "numaNodes=1:2")
	w.mustRun(first)
	if err := w.agent.RunSandbox(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	given := w.placed(s)
	w.end(first)
	w.stop()
	w.running[s.UID] = runningPod{s, nil}
	w.start()
	c := runtime.Container{ID: containerID(&s), Sandbox: s.ID, Cgroup: s.Cgroup + "/" + containerID(&s)}
	if a, err := w.agent.CreateContainer(t.Context(), s, c); err != nil || a.CPUs.String() != given {
		t.Errorf("given %s, then %+v, %v", given, a, err)
	}
	if s := w.state(); s.Allocated.Kept != 1 {
		t.Errorf("the promise counts %d times", s.Allocated.Kept)
	}
}

// A promise for which there is no room fails the pod's creation, evicts it and closes its NUMA nodes; so that the scheduler looks elsewhere.
func TestBrokenPromise(t *testing.T) {
	w := newWorld(t)
	w.start()
	foreign := sandbox("foreign", 5, "qos=dedicated_cores")
	w.mustRun(foreign)
	promised := sandbox("promised", 4, "qos=dedicated_cores", "numa=bound", "numaNodes=1:4/512Mi")
	for range 3 { // the kubelet tries again and again
		if _, err := w.run(promised); err == nil || !strings.Contains(err.Error(), spec.ReasonPromiseBroken) {
			t.Fatalf("%v", err)
		}
	}
	if broken := w.broken(); !slices.Equal(broken, []string{"pod-promised"}) {
		t.Errorf("broken are %q", broken)
	}
	closed := func(r *spec.NodeReport) bool {
		return r.Status.Topology[1].Children[0].Closed && slices.ContainsFunc(r.Conditions, func(c spec.NodeCondition) bool {
			return c.Type == spec.ConditionNUMANodesClosed && c.True && strings.Contains(c.Message, "pod-promised")
		})
	}
	w.eventually("the report closes the NUMA node", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.reports) > 0 && closed(w.reports[len(w.reports)-1]) && len(w.reports[len(w.reports)-1].Status.BrokenPromises) == 1
	})
	if s := w.state(); s.Allocated.Broken == 0 || s.Refused[spec.ReasonPromiseBroken] != 3 {
		t.Errorf("%+v", s)
	}
	w.eventually("it opens again, once it was told of the last refusal", func() (open bool) {
		w.agent.Ask(patience, func(a *Agent) {
			a.promises.Tick(time.Now().Add(2 * reopenAfter))
			open = !closed(a.Status())
		})
		return open
	})
	w.end(foreign)
	w.mustRun(promised)
	if broken := w.broken(); len(broken) != 0 {
		t.Errorf("it runs, and its promise counts as broken: %q", broken)
	}
}

// More dedicated cores than there are, unknown levels, forged promises: told, counted, and the node goes on.
func TestBadInput(t *testing.T) {
	w := newWorld(t)
	w.start()
	if _, err := w.run(sandbox("large", 100, "qos=dedicated_cores")); err == nil || !strings.Contains(err.Error(), spec.ReasonInsufficientCores) {
		t.Errorf("%v", err)
	}
	for _, c := range []struct {
		sandbox runtime.Sandbox
		event   string
	}{
		{sandbox("level", 1, "qos=golden"), "pod-level: " + spec.ReasonInvalidQoS},
		{sandbox("numa", 1, "numa=exclusive"), "pod-numa: " + spec.ReasonInvalidQoS},
		{sandbox("words", 1, "qos=dedicated_cores", "numaNodes=all of them"), "pod-words: " + spec.ReasonForgedPlacement},
		{sandbox("other", 1, "qos=dedicated_cores", "numaNodes=0:3"), "pod-other: " + spec.ReasonForgedPlacement},
	} {
		w.mustRun(c.sandbox)
		w.eventually(c.event, func() bool { return w.said(c.event) })
	}
	if broken := w.broken(); len(broken) != 0 {
		t.Errorf("promises are broken: %v", broken)
	}
	if s := w.state(); s.Allocated.Forged != 2 || s.Notes[spec.ReasonInvalidQoS] != 2 {
		t.Errorf("%+v", s)
	}
}

// A value that the kernel refuses is told, and holds nobody up.
func TestKnobRefused(t *testing.T) {
	w := newWorld(t)
	w.start()
	s := sandbox("own", 2, "qos=dedicated_cores")
	w.kernel.fail[s.Cgroup+"/cpuset.cpus"] = syscall.EINVAL
	w.mustRun(s)
	w.eventually("the condition says so", func() bool {
		return strings.HasPrefix(w.condition(), "false "+spec.ReasonKnobRefused) && strings.Contains(w.condition(), "cpuset.cpus = ")
	})
	w.kernel.mu.Lock()
	clear(w.kernel.fail)
	w.kernel.mu.Unlock()
	w.eventually("and that it is over", func() bool { return strings.HasPrefix(w.condition(), "true") })
}

// The runtime goes away and comes back: what runs is still held to what is wanted, and nothing new is promised after a while.
func TestRuntimeLost(t *testing.T) {
	w := newWorld(t)
	w.start()
	s := sandbox("own", 2, "qos=dedicated_cores")
	a := w.mustRun(s)
	w.agent.Disconnected(errors.New("gone"))
	w.eventually("the condition says so", func() bool { return strings.HasPrefix(w.condition(), "false "+spec.ReasonRuntimeLost) })
	w.kernel.set(s.Cgroup+"/"+containerID(&s)+"/cpuset.cpus", "0-7")
	w.has(s, "cpuset.cpus", a.CPUs.String())
	w.agent.Ask(patience, func(a *Agent) {
		if r := a.reporter.build(time.Now()); r.Status.Topology[0].Children[0].Closed {
			t.Error("the NUMA nodes are closed while the runtime restarts")
		}
		if r := a.reporter.build(time.Now().Add(time.Minute)); !r.Status.Topology[0].Children[0].Closed || !r.Status.Topology[1].Children[0].Closed {
			t.Error("the NUMA nodes are open while nobody keeps a promise")
		}
	})
	w.connect()
	w.eventually("it is over", func() bool { return strings.HasPrefix(w.condition(), "true") })
	w.has(s, "cpuset.cpus", a.CPUs.String())
}

// While memory moves, which takes seconds, the runtime is answered.
func TestSlowMemory(t *testing.T) {
	w := newWorld(t)
	w.start()
	shared := sandbox("shared", 1)
	w.mustRun(shared)
	gate := make(chan struct{})
	w.kernel.mu.Lock()
	w.kernel.hold["cpuset.mems"] = gate
	w.kernel.mu.Unlock()
	awake := awakeTime()
	w.mustRun(sandbox("alone", 4, "qos=dedicated_cores", "numa=exclusive"))
	w.mustRun(sandbox("later", 1))
	if took := awake(); took > 5*time.Second {
		t.Errorf("the runtime waited for %v", took)
	}
	w.kernel.mu.Lock()
	delete(w.kernel.hold, "cpuset.mems")
	w.kernel.mu.Unlock()
	close(gate)
	w.has(shared, "cpuset.mems", "0")
}

// What happened once is told once, counted each time, and passes.
func TestClockJumps(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.agent.Ask(patience, func(a *Agent) {
		a.clock.compare(time.Second, time.Second+maxClockDrift)
		if len(a.node.Counts.Notes) != 0 {
			t.Error("drift counts as a jump")
		}
		a.clock.compare(-time.Hour, time.Second)
		a.clock.compare(time.Hour, time.Second)
	})
	if got := w.condition(); !strings.HasPrefix(got, "false "+spec.ReasonClockJumped) || w.state().Notes[spec.ReasonClockJumped] != 2 {
		t.Error(got)
	}
	if told := w.events(); len(told) != 1 || !strings.HasPrefix(told[0], ": "+spec.ReasonClockJumped) {
		t.Errorf("events %v", told)
	}
	w.agent.Ask(patience, func(a *Agent) { a.node.Events.Tick(time.Now().Add(2 * time.Minute)) })
	if got := w.condition(); !strings.HasPrefix(got, "true") {
		t.Error(got)
	}
}

// The weight that protects online pods is the kubelet's: it is watched, told, and never written.
func TestBestEffortWeight(t *testing.T) {
	w := newWorld(t)
	w.kernel.set("kubepods/besteffort/cpu.weight", "1")
	w.start()
	w.mustRun(sandbox("hog", 0, "qos=reclaimed_cores", "besteffort"))
	w.ticks(2)
	if got := w.condition(); !strings.HasPrefix(got, "true") {
		t.Error(got)
	}
	w.kernel.set("kubepods/besteffort/cpu.weight", "100")
	w.eventually("it is told", func() bool { return strings.HasPrefix(w.condition(), "false "+spec.ReasonBestEffortWeight) })
	if got := w.kernel.get("kubepods/besteffort/cpu.weight"); got != "100" {
		t.Errorf("it was made %s", got)
	}
	w.kernel.set("kubepods/besteffort/cpu.weight", "1")
	w.eventually("it is over", func() bool { return strings.HasPrefix(w.condition(), "true") })
}

// A checkpoint that cannot be written stops nobody.
func TestCheckpointLost(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.store.mu.Lock()
	w.store.fail = syscall.ENOSPC
	w.store.mu.Unlock()
	w.mustRun(sandbox("own", 2, "qos=dedicated_cores"))
	w.eventually("the condition says so", func() bool { return strings.HasPrefix(w.condition(), "false "+spec.ReasonCheckpointLost) })
	w.store.mu.Lock()
	w.store.fail = nil
	w.store.mu.Unlock()
	w.eventually("it is over", func() bool { return strings.HasPrefix(w.condition(), "true") })
}

// Where the kubelet's managers are on, what they gave stays, and the others are only narrowed, through the runtime.
func TestKubeletRules(t *testing.T) {
	w := newWorld(t)
	w.mode = spec.ModeKubelet
	fixed := sandbox("fixed", 2)
	w.fixed = map[PodKey]topology.CPUSet{{"default", "pod-fixed"}: topology.CPUs(2, 3)}
	w.start()
	if a := w.mustRun(fixed); !a.CPUs.IsEmpty() || !a.Mems.IsEmpty() {
		t.Errorf("what the kubelet gave is adjusted: %+v", a)
	}
	if u, err := w.agent.UpdateContainer(t.Context(), containerID(&fixed)); err != nil || !u.CPUs.IsEmpty() {
		t.Errorf("and superseded: %+v, %v", u, err)
	}
	shared := sandbox("shared", 1)
	a := w.mustRun(shared)
	if a.CPUs.IsEmpty() || !a.CPUs.Intersection(topology.CPUs(2, 3)).IsEmpty() {
		t.Errorf("shared: %+v", a)
	}
	if u, err := w.agent.UpdateContainer(t.Context(), containerID(&shared)); err != nil || u.CPUs != a.CPUs {
		t.Errorf("not narrowed: %+v, %v", u, err)
	}
	w.ticks(3)
	for _, entry := range w.kernel.log {
		if strings.Contains(entry, "cpuset") {
			t.Errorf("written behind the kubelet's back: %s", entry)
		}
	}
	if got := w.condition(); !strings.HasPrefix(got, "true "+spec.ReasonKubeletRules) {
		t.Error(got)
	}
}

// A kubelet that does not answer leaves pods as they are: what it gave must not be narrowed.
func TestKubeletSilent(t *testing.T) {
	w := newWorld(t)
	w.mode = spec.ModeKubelet
	w.start()
	w.fixedErr = errors.New("no such socket")
	if a := w.mustRun(sandbox("any", 2)); !a.CPUs.IsEmpty() {
		t.Errorf("%+v", a)
	}
	w.eventually("it is told", func() bool { return w.said("pod-any: " + spec.ReasonKubeletRules + ": not adjusted") })
	w.fixedErr = nil
	if a := w.mustRun(sandbox("next", 2)); a.CPUs.IsEmpty() {
		t.Error("the next one is not narrowed")
	}
}

// An update that the runtime refuses is tried some times, and no container is left out because of another.
func TestRuntimeRefusesUpdate(t *testing.T) {
	w := newWorld(t)
	w.start()
	one, two := sandbox("one", 1), sandbox("two", 1)
	w.mustRun(one)
	w.mustRun(two)
	w.mu.Lock()
	w.refuse[containerID(&one)] = true
	w.mu.Unlock()
	w.mustRun(sandbox("own", 2, "qos=dedicated_cores"))
	w.eventually("the other is told", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return strings.HasPrefix(w.updates[containerID(&two)], w.placed(two))
	})
	w.eventually("it is given up", func() bool { return w.state().UpdatesFailed >= maxUpdateFailures })
	time.Sleep(100 * time.Millisecond)
	if s := w.state(); s.UpdatesFailed != maxUpdateFailures {
		t.Errorf("tried %d times", s.UpdatesFailed)
	}
	w.has(one, "cpuset.cpus", w.placed(one)) // the kernel has it all the same
}

// A pod whose end nobody told holds its cores no longer than its cgroup stands. One whose cgroup was never there is starting.
func TestLostEnd(t *testing.T) {
	w := newWorld(t)
	w.start()
	s, starting := sandbox("own", 2, "qos=dedicated_cores"), sandbox("starting", 1, "qos=dedicated_cores")
	w.mustRun(s)
	if err := w.agent.RunSandbox(t.Context(), starting); err != nil {
		t.Fatal(err)
	}
	w.ticks(missingTicks + 1)
	w.kernel.mu.Lock()
	maps.DeleteFunc(w.kernel.files, func(name, _ string) bool { return strings.HasPrefix(name, s.Cgroup+"/") })
	w.kernel.mu.Unlock()
	w.eventually("it holds nothing", func() bool { return w.placed(s) == "" })
	w.ticks(missingTicks + 1)
	if w.placed(starting) == "" || w.state().Vanished != 1 {
		t.Errorf("%+v", w.state())
	}
}

// A pod whose cgroup was there when the agent took it over, and not at the first tick any more, is gone as well.
func TestEndBeforeTheFirstTick(t *testing.T) {
	w := newWorld(t)
	w.start()
	s := sandbox("own", 2, "qos=dedicated_cores")
	w.kernel.make(s.Cgroup)
	took := false
	w.agent.Ask(patience, func(a *Agent) {
		a.admission.adopt(&s, topology.CPUSet{}, topology.CPUSet{})
		_, took = a.node.Manager.Placement(s.UID)
		w.kernel.mu.Lock()
		defer w.kernel.mu.Unlock()
		maps.DeleteFunc(w.kernel.files, func(name, _ string) bool { return strings.HasPrefix(name, s.Cgroup+"/") })
	})
	if !took {
		t.Fatal("the pod was not taken over")
	}
	w.eventually("it holds nothing", func() bool { return w.placed(s) == "" })
}

// A sandbox that died is replaced: the pod keeps what it has, whichever of the two is told first.
func TestSandboxReplaced(t *testing.T) {
	w := newWorld(t)
	w.start()
	s := sandbox("own", 2, "qos=dedicated_cores")
	a := w.mustRun(s)
	next := s
	next.ID = "s-own-2"
	if err := w.agent.RunSandbox(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	if err := w.agent.StopSandbox(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	if got := w.placed(s); got != a.CPUs.String() {
		t.Errorf("it had %s and has %s", a.CPUs, got)
	}
}
