package node

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/enforce"
)

// harmRig is a service beside a reclaimed pod. An observation is ten seconds after the one before.
type harmRig struct {
	*lender
	web, hog string // their cgroups
	main     string // that of the container of web
	n        int
	used     map[string]int // microseconds, by cgroup
	waited   int
}

func newHarmRig(t *testing.T) *harmRig { return newHarmRigWith(t, nil) }

func newHarmRigWith(t *testing.T, processor ProcessorCounters) *harmRig {
	r := &harmRig{lender: &lender{world: newWorld(t), counters: newCounters(t), now: time.Now()}}
	r.processor = processor
	r.fill(t)
	return r
}

// fill starts the agent, and runs both.
func (r *harmRig) fill(t *testing.T) {
	t.Helper()
	r.seldom, r.used = true, make(map[string]int)
	r.start()
	web, hog := sandbox("web", 2, "qos=shared_cores"), sandbox("hog", 0, "qos=reclaimed_cores", "besteffort")
	hog.Annotations[spec.AnnotationReclaimed] = "4000m/512Mi"
	r.web, r.hog = web.Cgroup, hog.Cgroup
	r.mustRun(web)
	r.mustRun(hog)
	r.main = r.web + "/" + containerID(&web)
	r.kernel.set(r.hog+"/"+enforce.CPUMax, "max 100000\n")
}

// pass lets so many windows pass in which web waits for that share of the time, and hog uses so many CPUs.
func (r *harmRig) pass(windows int, waits, hog float64) {
	r.Helper()
	for range windows {
		r.n++
		r.used[r.web] += 1_000_000
		r.used[r.hog] += int(hog * 1e6)
		r.waited += int(waits * 1e6)
		for dir, usec := range r.used {
			r.counters.write("sys/fs/cgroup/"+dir+"/cpu.stat", fmt.Sprintf("usage_usec %d\nuser_usec 1\nsystem_usec 0\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n", usec))
		}
		r.counters.write("sys/fs/cgroup/"+r.web+"/cpu.pressure", fmt.Sprintf("some avg10=0.00 avg60=0.00 avg300=0.00 total=%d\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n", r.waited))
		r.now = r.now.Add(9 * time.Second)
		r.run(1)
	}
}

func (r *harmRig) interference() (out *spec.Interference) {
	r.Helper()
	r.agent.Ask(time.Minute, func(a *Agent) { out = a.interference.status(r.now) })
	return out
}

// requested are the pods whose eviction the report asks for.
func (r *harmRig) requested() (out []string) {
	r.agent.Ask(time.Minute, func(a *Agent) {
		for _, e := range a.eviction.requests() {
			out = append(out, e.Name+" "+e.Reason)
		}
	})
	return out
}

func (r *harmRig) growthStopped() (stopped bool) {
	r.agent.Ask(time.Minute, func(a *Agent) { stopped = a.interference.stopsGrowth(r.now) })
	return stopped
}

// limit waits until the kernel keeps a limit of the hog's.
func (r *harmRig) limit(want string) {
	r.Helper()
	file := r.hog + "/" + enforce.CPUMax
	r.eventually(fmt.Sprintf("%s is %q", file, want), func() bool { return strings.TrimSpace(r.kernel.get(file)) == want })
}

func (r *harmRig) mode(mode string) {
	r.agent.Configure(wanted(`{"interference": {"mode": "` + mode + `"}}`))
}

// harm has the service learn, and the hog come for three windows.
func (r *harmRig) harm() {
	r.Helper()
	r.pass(60, 0.02, 0)
	if i := r.interference(); i == nil || len(i.Findings) > 0 || i.Watched != 1 || i.Learning != 0 || !slices.Contains(i.Unknown, "memory bandwidth: node.memoryBandwidth.groups is 0") {
		r.Fatalf("after learning: %+v", i)
	}
	r.pass(4, 0.6, 4)
}

// Nothing is watched unless that is wanted. A report names the culprit and does nothing; mode act limits it, asks for its eviction, and takes all back in the end.
func TestInterference(t *testing.T) {
	r := newHarmRig(t)
	r.pass(60, 0.02, 0)
	r.pass(6, 0.6, 4)
	if i := r.interference(); i != nil {
		t.Errorf("it is off, and says %+v", i)
	}
	r.mode(spec.InterferenceReport)
	r.harm()
	r.pass(4, 0.6, 4)
	i := r.interference()
	if len(i.Findings) != 1 || i.Findings[0].Victim.UID != "web" || i.Findings[0].Culprit == nil || i.Findings[0].Culprit.UID != "hog" || i.Findings[0].Step != spec.InterferenceEvicting ||
		!strings.Contains(i.Findings[0].Message, "CPU pressure") {
		t.Fatalf("%+v", i)
	}
	if got := r.requested(); len(got) > 0 || r.growthStopped() {
		t.Errorf("mode report: evictions of %v are asked for, growth is stopped: %v", got, r.growthStopped())
	}
	r.limit("max 100000")
	if events := r.events(); !slices.ContainsFunc(events, func(e string) bool { return strings.HasPrefix(e, "pod-web: Interference: ") }) {
		t.Errorf("events: %q", events)
	}
}

// actingRig is a rig in mode act, whose culprit is limited to a quarter of its four CPUs.
func actingRig(t *testing.T) *harmRig {
	r := newHarmRig(t)
	r.mode(spec.InterferenceAct)
	r.harm()
	r.limit("99991 99991")
	return r
}

func TestInterferenceActs(t *testing.T) {
	r := actingRig(t)
	if got := r.requested(); len(got) > 0 || !r.growthStopped() {
		t.Errorf("at first evictions of %v are asked for; growth is stopped: %v", got, r.growthStopped())
	}
	// The limit does not help.
	r.pass(3, 0.6, 4)
	if got := r.requested(); !slices.Equal(got, []string{"pod-hog Interference"}) {
		t.Errorf("evictions asked for: %v", got)
	}
	if c := r.run(1); len(c.Evictions) != 1 {
		t.Errorf("the report asks for %+v", c.Evictions)
	}
	if apart := r.interference().Apart; len(apart) != 1 || apart[0].Victim.UID != "web" || apart[0].Culprit.UID != "hog" || !apart[0].Until.After(r.now.Add(50*time.Minute)) {
		t.Errorf("apart: %+v", apart)
	}
	// Its eviction is not carried out, but it ceases.
	r.pass(61, 0.02, 0)
	r.limit("max 100000")
	if i := r.interference(); len(i.Findings) > 0 || r.growthStopped() || len(r.requested()) > 0 {
		t.Errorf("after calm: %+v", i)
	}
	r.pass(1, 0.02, 0)
	r.kernel.set(r.hog+"/"+enforce.CPUMax, "50000 100000\n") // from now on the kubelet's word counts
	r.pass(1, 0.02, 0)
	r.ticks(2)
	r.limit("50000 100000")
}

// What was done is taken back after as long a calm as is configured, and no sooner.
func TestInterferenceIsReleased(t *testing.T) {
	r := newHarmRig(t)
	r.agent.Configure(wanted(`{"interference": {"mode": "act", "releaseAfter": "2m"}}`))
	r.harm()
	r.limit("99991 99991")
	r.pass(10, 0.02, 0)
	if i := r.interference(); len(i.Findings) != 1 {
		t.Fatalf("after less than two calm minutes: %+v", i)
	}
	r.pass(3, 0.02, 0)
	if i := r.interference(); len(i.Findings) > 0 {
		t.Errorf("after two calm minutes: %+v", i)
	}
	r.limit("max 100000")
}

// What is limited gives way to an update of the runtime, to another mode, and to the agent's end.
func TestLimitGivesWay(t *testing.T) {
	r := actingRig(t)
	if _, err := r.agent.UpdateContainer(t.Context(), "c-hog"); err != nil {
		t.Fatal(err)
	}
	if got := r.kernel.get(r.hog + "/" + enforce.CPUMax); got != "max 100000" {
		t.Errorf("the limit may be changed while it is %q", got)
	}
	r.agent.Ask(time.Minute, func(a *Agent) { a.interference.limits["hog"].rests = r.now })
	r.pass(1, 0.6, 4)
	r.limit("99991 99991")
	r.mode(spec.InterferenceReport)
	r.pass(1, 0.6, 4)
	r.limit("max 100000")

	r = actingRig(t)
	r.stop()
	r.limit("max 100000")
}

// A limit of its own that a culprit gets meanwhile counts: it is not written over, whether it comes before the runtime is told or without that, nor taken away in the end.
func TestLimitOfItsOwnComes(t *testing.T) {
	for name, told := range map[string]bool{"told": true, "not told": false} {
		t.Run(name, func(t *testing.T) {
			r := actingRig(t)
			r.kernel.set(r.hog+"/"+enforce.CPUMax, "50000 100000\n")
			if told {
				if _, err := r.agent.UpdateContainer(t.Context(), "c-hog"); err != nil {
					t.Fatal(err)
				}
			}
			r.ticks(2)
			r.pass(1, 0.6, 4)
			r.ticks(2)
			r.limit("50000 100000")
			if i := r.interference(); len(i.Findings) != 1 || i.Findings[0].Step != spec.InterferenceLeftAlone {
				t.Errorf("%+v", i)
			}
			r.stop()
			r.limit("50000 100000")
		})
	}
}

// Where a report has told that a culprit would be evicted, mode act limits it first.
func TestReportedCulpritIsLimitedFirst(t *testing.T) {
	r := newHarmRig(t)
	r.mode(spec.InterferenceReport)
	r.harm()
	r.pass(4, 0.6, 4)
	r.mode(spec.InterferenceAct)
	r.pass(1, 0.6, 4)
	if got := r.requested(); len(got) > 0 || len(r.interference().Findings) > 0 {
		t.Errorf("at once evictions of %v are asked for, and %+v is found", got, r.interference().Findings)
	}
	r.pass(3, 0.6, 4)
	r.limit("99991 99991")
	if got := r.requested(); len(got) > 0 {
		t.Errorf("beside the limit evictions of %v are asked for", got)
	}
	r.pass(3, 0.6, 4)
	if got := r.requested(); !slices.Equal(got, []string{"pod-hog Interference"}) {
		t.Errorf("evictions asked for: %v", got)
	}
}

// A pod with a limit of its own is named, and left alone.
func TestLimitOfItsOwn(t *testing.T) {
	r := newHarmRig(t)
	r.kernel.set(r.hog+"/"+enforce.CPUMax, "50000 100000\n")
	r.mode(spec.InterferenceAct)
	r.harm()
	if i := r.interference(); len(i.Findings) != 1 || i.Findings[0].Step != spec.InterferenceLeftAlone {
		t.Errorf("%+v", i)
	}
	r.ticks(2)
	r.limit("50000 100000")
}

// A limit that an agent before this one has left is taken away, whether this one watches or lends or not.
func TestLimitOfBefore(t *testing.T) {
	for _, lends := range []bool{true, false} {
		r := &lender{world: newWorld(t), counters: newCounters(t), now: time.Now()}
		r.start()
		r.agent.Ask(time.Minute, func(a *Agent) { *a.options.Config.Lending.Enabled = lends })
		web := sandbox("web", 2, "qos=shared_cores")
		r.kernel.set(web.Cgroup+"/"+enforce.CPUMax, "99991 99991\n")
		r.mustRun(web)
		r.eventually("the limit is gone", func() bool { return strings.TrimSpace(r.kernel.get(web.Cgroup+"/"+enforce.CPUMax)) == "max 100000" })
	}
}

// An agent that starts in the middle of harm names who harms, for it knows how the service fares else. Where that cannot be read, or is too old, it is learned anew, and nobody is named.
func TestNamedByTheNextAgent(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(r *harmRig)
		known bool
	}{
		"kept":    {func(*harmRig) {}, true},
		"too old": {func(r *harmRig) { r.now = r.now.Add(2 * time.Hour) }, false},
		"a part of it is spoiled": {func(r *harmRig) {
			var kept lawStateFile
			if err := json.Unmarshal(r.lawState.data, &kept); err != nil {
				r.Fatal(err)
			}
			kept.Interference = json.RawMessage(`{"version":1,"windows":"many"}`)
			r.lawState.data, _ = json.Marshal(kept)
		}, false},
		"of another version": {func(r *harmRig) {
			r.lawState.data = bytes.Replace(r.lawState.data, []byte(`"interference":{"version":1`), []byte(`"interference":{"version":2`), 1)
		}, false},
		"lost": {func(r *harmRig) { r.lawState.data = nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newHarmRig(t)
			r.mode(spec.InterferenceAct)
			r.pass(60, 0.02, 0)
			r.pass(2, 0.6, 4)
			r.stop()
			c.spoil(r)
			r.start()
			r.pass(6, 0.6, 4)
			i := r.interference()
			if named := len(i.Findings) == 1 && i.Findings[0].Culprit != nil && i.Findings[0].Culprit.UID == "hog"; named != c.known || (i.Learning == 0) != c.known {
				t.Errorf("%+v", i)
			}
			if c.known {
				r.limit("99991 99991")
			}
			var lends bool
			r.agent.Ask(time.Minute, func(a *Agent) { lends = len(a.lending.state.NUMANodes) == 2 })
			if !lends {
				t.Error("the other laws know nothing")
			}
		})
	}
}

// A new configuration leaves what is usual of services known, and the pause between evictions as it is.
func TestConfigurationLeavesWhatWasLearned(t *testing.T) {
	r := actingRig(t)
	r.pass(3, 0.6, 4)
	if got := r.requested(); len(got) != 1 {
		t.Fatalf("evictions asked for: %v", got)
	}
	r.agent.Configure(wanted(`{"interference": {"mode": "act", "deviations": 7}}`))
	r.pass(4, 0.6, 4)
	r.limit("99991 99991")
	r.pass(6, 0.6, 4)
	if got := r.requested(); len(got) > 0 {
		t.Errorf("in the pause evictions are asked for: %v", got)
	}
	r.mode(spec.InterferenceReport)
	r.pass(1, 0.6, 4)
	r.mode(spec.InterferenceAct)
	r.pass(8, 0.6, 4)
	if got := r.requested(); len(got) > 0 {
		t.Errorf("after a while of reporting alone evictions are asked for in the pause: %v", got)
	}
}

// The pause between two evictions lasts over the end of an agent, however short it is after the first.
func TestNextAgentKeepsThePause(t *testing.T) {
	r := actingRig(t)
	r.pass(3, 0.6, 4)
	if got := r.requested(); len(got) != 1 {
		t.Fatalf("evictions asked for: %v", got)
	}
	r.stop()
	r.start()
	r.pass(5, 0.6, 4)
	r.limit("99991 99991")
	r.pass(5, 0.6, 4)
	if got := r.requested(); len(got) > 0 {
		t.Errorf("in the pause evictions are asked for: %v", got)
	}
}
