package node

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/runtime"
	"hilbert.dev/hilbert/topology"
)

// answerBound is what the runtime waits for an answer: with NRI's default of two seconds, the agent answers an error after 1.6 of them.
const answerBound = 1600 * time.Millisecond

// disk is a node whose disk may stop to answer at any time, and whose agent may die at any time.
type disk struct {
	*world
	cpus  map[string]topology.CPUSet // what each dedicated pod was told
	known map[string]runtime.Sandbox
	next  int
	check *rapid.T
}

// in has the agent do something, within the time that the runtime gives it.
func (d *disk) in(what string, do func()) {
	awake := awakeTime()
	do()
	if took := awake(); took > answerBound {
		d.check.Fatalf("%s: the answer took %v", what, took)
	}
}

func (d *disk) start(t *rapid.T) {
	uid := fmt.Sprintf("p%02d", d.next)
	d.next++
	kind := rapid.SampledFrom([]string{"dedicated_cores", "dedicated_cores", "shared_cores", "reclaimed_cores"}).Draw(t, "level")
	cpus := rapid.Int64Range(1, 3).Draw(t, "cpus")
	words := []string{"qos=" + kind}
	if kind == string(spec.QoSReclaimed) {
		words, cpus = append(words, "besteffort"), 0
	}
	if kind == string(spec.QoSDedicated) && rapid.Bool().Draw(t, "bound") {
		words = append(words, "numa=bound", fmt.Sprintf("numaNodes=%d:%d/512Mi", rapid.IntRange(0, 1).Draw(t, "numa"), cpus))
	}
	s := sandbox(uid, float64(cpus), words...)
	var err error
	var got runtime.Adjustment
	d.in("a pod starts", func() { got, err = d.run(s, func(c *runtime.Container) { c.MilliCPU = 1000 * cpus }) })
	switch {
	case err == nil:
		d.known[uid] = s
		if kind == string(spec.QoSDedicated) {
			d.cpus[uid] = got.CPUs
		}
	case !strings.Contains(err.Error(), spec.ReasonInsufficientCores) && !strings.Contains(err.Error(), spec.ReasonPromiseBroken):
		t.Fatalf("a pod does not start: %v", err)
	default: // the kubelet removes its sandbox
		_ = d.agent.StopSandbox(d.Context(), s.ID)
	}
}

func (d *disk) resize(t *rapid.T) {
	uids := slices.Sorted(maps.Keys(d.cpus))
	if len(uids) == 0 {
		return
	}
	uid := rapid.SampledFrom(uids).Draw(t, "resized")
	to := rapid.Int64Range(1, 3).Draw(t, "to")
	s := d.known[uid]
	var got topology.CPUSet
	d.in("a resize", func() {
		if err := d.agent.ResizeSandbox(d.Context(), s, runtime.Amounts{MilliCPU: 1000 * to}); err != nil {
			t.Fatalf("a resize: %v", err)
		}
		u, err := d.agent.UpdateContainer(d.Context(), containerID(&s))
		if err != nil {
			t.Fatalf("a resize: %v", err)
		}
		got = u.CPUs
	})
	// As the runtime does, then: what it keeps of the container is the kubelet's request and our CPUs.
	c := &d.running[uid].containers[0]
	c.MilliCPU, c.CPUs = 1000*to, got
	d.cpus[uid] = got
}

func (d *disk) stopPod(t *rapid.T) {
	uids := slices.Sorted(maps.Keys(d.known))
	if len(uids) == 0 {
		return
	}
	uid := rapid.SampledFrom(uids).Draw(t, "ended")
	d.in("a pod ends", func() { d.end(d.known[uid]) })
	delete(d.known, uid)
	delete(d.cpus, uid)
}

// dies ends the agent at once; what it has not written is lost. Another one starts.
func (d *disk) dies() {
	old := d.store
	d.store = old.die()
	d.stop()
	d.in("a new agent", d.world.start)
	d.sound()
	for uid, cpus := range d.cpus {
		if after := d.runsOn(uid); !cpus.Minus(after).IsEmpty() {
			d.check.Fatalf("%s was told %v, and runs on %v after a restart of the agent", uid, cpus, after)
		}
	}
}

func (d *disk) runsOn(uid string) topology.CPUSet {
	s := d.known[uid]
	set, _ := topology.ParseCPUSet(d.kernel.get(s.Cgroup + "/" + containerID(&s) + "/cpuset.cpus"))
	return set
}

// sound: no two dedicated pods run on one CPU, nobody else runs on theirs, and each has as many as it was promised.
func (d *disk) sound() {
	var wrong string
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if wrong = d.unsound(); wrong == "" {
			return
		}
	}
	d.check.Fatalf("%s\n%s", wrong, strings.Join(d.events(), "\n"))
}

func (d *disk) unsound() string {
	held := make(map[string]topology.CPUSet)
	for uid, s := range d.known {
		set, err := topology.ParseCPUSet(d.kernel.get(s.Cgroup + "/" + containerID(&s) + "/cpuset.cpus"))
		if err != nil || set.IsEmpty() {
			return fmt.Sprintf("%s has no CPUs: %v", uid, err)
		}
		held[uid] = set
	}
	for uid, cpus := range d.cpus {
		if held[uid].Len() < cpus.Len() { // it may have more: whether it has shrunk, a restart cannot tell from a container that does not run
			return fmt.Sprintf("%s was told %v and has %v", uid, cpus, held[uid])
		}
		for other, set := range held {
			if other != uid && !set.Intersection(held[uid]).IsEmpty() {
				return fmt.Sprintf("%s has %v, and %s %v", uid, held[uid], other, set)
			}
		}
	}
	return ""
}

// With a disk that stops to answer at any point, and an agent that dies at any point, each answer comes in time, no CPU is promised twice, and nothing that was
// promised is lost: each pod has at least the CPUs that it was told of.
func TestFrozenDisk(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := newWorld(t)
		d := &disk{world: w, cpus: make(map[string]topology.CPUSet), known: make(map[string]runtime.Sandbox), check: r}
		defer func() {
			w.store.thaw()
			if w.stop != nil {
				w.stop()
			}
		}()
		w.start()
		steps := map[string]func(*rapid.T){
			"start": d.start, "start again": d.start, "end": d.stopPod, "resize": d.resize,
			"freeze": func(*rapid.T) { d.store.freeze() }, "thaw": func(*rapid.T) { d.store.thaw() },
			"die": func(*rapid.T) { d.dies() },
		}
		names := slices.Sorted(maps.Keys(steps))
		for range rapid.IntRange(1, 14).Draw(r, "steps") {
			steps[rapid.SampledFrom(names).Draw(r, "step")](r)
			d.sound()
		}
	})
}

// A disk that does not answer is told of; the condition ends when it answers again. The end of the agent does not wait for it.
func TestFrozenDiskIsTold(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.store.freeze()
	w.mustRun(sandbox("a", 2, "qos=dedicated_cores"))
	w.agent.Ask(patience, func(a *Agent) { a.checkpoint.Tick(time.Now().Add(time.Minute)) })
	w.eventually("it says so", func() bool { return strings.Contains(w.condition(), "the disk has not answered for") })
	w.store.thaw()
	w.eventually("it is over", func() bool { return !strings.Contains(w.condition(), spec.ReasonCheckpointLost) })
	w.store.freeze()
	w.mustRun(sandbox("b", 2, "qos=dedicated_cores"))
	awake := awakeTime()
	w.stop()
	if took := awake(); took > maxLastSave+2*time.Second {
		t.Errorf("the agent ended after %v", took)
	}
	if plan, err := w.absence.Plan.Load(); err != nil || !strings.Contains(string(plan), "{") {
		t.Errorf("the plan for its absence, on a disk that answers, was not written: %q, %v", plan, err)
	}
	w.store.thaw()
}

// What the checkpoint says of a pod that has shrunk since is older than what another pod was answered.
func TestStaleCheckpoint(t *testing.T) {
	w := newWorld(t)
	w.start()
	shrinks, other := sandbox("a", 3, "qos=dedicated_cores"), sandbox("b", 3, "qos=dedicated_cores")
	w.mustRun(shrinks)
	w.mustRun(other)
	w.eventually("both are on disk", func() bool { data, _ := w.store.Load(); return strings.Contains(string(data), `"uid":"b"`) })
	w.store.freeze()
	if err := w.agent.ResizeSandbox(t.Context(), shrinks, runtime.Amounts{MilliCPU: 1000}); err != nil {
		t.Fatal(err)
	}
	u, err := w.agent.UpdateContainer(t.Context(), containerID(&shrinks))
	if err != nil {
		t.Fatal(err)
	}
	w.running["a"].containers[0].CPUs = u.CPUs
	late := sandbox("late", 2, "qos=dedicated_cores")
	told := w.mustRun(late).CPUs
	w.store = w.store.die()
	w.stop()
	w.start()
	w.ticks(3)
	if s := w.state(); s.Pods != 3 {
		t.Errorf("%d pods are known, want 3: %v", s.Pods, s.Refused)
	}
	w.has(late, "cpuset.cpus", told.String())
	w.has(shrinks, "cpuset.cpus", u.CPUs.String())
}

// A checkpoint that is older than what runs knows a pod on CPUs that another one has by now: the pod keeps what the other has not, and one that collides with
// nobody keeps all. Only dedicated pods that the checkpoint does not know count as newer.
func TestStaleCheckpointGivesUpWhatIsNewer(t *testing.T) {
	w := newWorld(t)
	w.start()
	old, calm := sandbox("old", 2, "qos=dedicated_cores"), sandbox("calm", 2, "qos=dedicated_cores")
	w.mustRun(old)
	w.mustRun(calm)
	newer, shared := sandbox("newer", 1, "qos=dedicated_cores"), sandbox("shared", 1, "qos=shared_cores")
	w.agent.Ask(time.Minute, func(a *Agent) {
		held := func(uid string) topology.CPUSet {
			p, _ := a.node.Manager.Placement(uid)
			return p.CPUs
		}
		had, kept := held("old"), held("calm")
		if had.Len() != 2 || kept.Len() != 2 {
			t.Fatalf("the pods have %v and %v", had, kept)
		}
		var taken topology.CPUSet
		for cpu := range had.All() {
			taken = topology.CPUs(cpu)
		}
		running := map[string]topology.CPUSet{old.ID: had, calm.ID: kept, newer.ID: taken, shared.ID: kept}
		a.admission.releaseStale([]runtime.Sandbox{old, calm, newer, shared}, running)
		if _, known := a.node.Manager.Placement("old"); known || running[old.ID] != had.Minus(taken) {
			t.Errorf("the stale one is known: %t, and runs on %v, want %v", known, running[old.ID], had.Minus(taken))
		}
		if got := held("calm"); got != kept || running[calm.ID] != kept || running[newer.ID] != taken {
			t.Errorf("the others have %v, and run on %v and %v", got, running[calm.ID], running[newer.ID])
		}
	})
}
