package node

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"hilbert.dev/hilbert/node/enforce"
)

// throttledRig is a service with a limit of 50 ms in each period.
type throttledRig struct {
	*lender
	pod, main string // directories
	id        string // of the container
	second    int
	periods   int // that throttled it
}

func newThrottledRig(t *testing.T) *throttledRig {
	r := &throttledRig{lender: &lender{world: newWorld(t), counters: newCounters(t), now: time.Now()}}
	r.seldom = true // else its file has an interval that no daemon would start with, and it refuses what it is told
	r.start()
	web := sandbox("web", 2, "qos=shared_cores")
	r.mustRun(web)
	r.pod, r.id = web.Cgroup, containerID(&web)
	r.main = web.Cgroup + "/" + r.id
	for _, dir := range []string{r.pod, r.main} {
		r.kernel.set(dir+"/"+enforce.CPUMax, "50000 100000\n")
		r.kernel.set(dir+"/"+enforce.CPUMaxBurst, "0\n")
	}
	return r
}

// seconds lets time pass in which so many of ten periods throttle the container.
func (r *throttledRig) seconds(n, throttled int) {
	r.Helper()
	for range n {
		r.second++
		r.periods += throttled
		r.counters.write("sys/fs/cgroup/"+r.main+"/cpu.stat", fmt.Sprintf("usage_usec 1\nuser_usec 1\nsystem_usec 0\nnr_periods %d\nnr_throttled %d\nthrottled_usec 1\n", 10*r.second, r.periods))
		r.run(1)
	}
}

// have waits until pod and container have a burst.
func (r *throttledRig) have(want string) {
	r.Helper()
	for _, dir := range []string{r.pod, r.main} {
		r.kept(dir+"/"+enforce.CPUMaxBurst, want)
	}
}

// A service that its limit throttles may burst while that is wanted, as far as its limit goes, and what it had is taken away before the limit may change, at the end and by an
// agent that comes after.
func TestBurst(t *testing.T) {
	r := newThrottledRig(t)
	r.seconds(5, 5)
	r.have("0\n") // it is off
	on := wanted(`{"cpuBurst": {"share": 0.4, "hold": "20s"}}`)
	r.agent.Configure(on)
	r.seconds(1, 0)
	r.seconds(3, 5)
	r.have("20000")
	r.kernel.set(r.pod+"/"+enforce.CPUMax, "max 100000\n")
	r.seconds(1, 5)
	r.kept(r.pod+"/"+enforce.CPUMaxBurst, "0") // without a limit there is nothing to go beyond
	r.kept(r.main+"/"+enforce.CPUMaxBurst, "20000")
	r.kernel.set(r.pod+"/"+enforce.CPUMax, "30000 100000\n")
	r.seconds(1, 5)
	r.kept(r.pod+"/"+enforce.CPUMaxBurst, "12000")
	r.kernel.set(r.pod+"/"+enforce.CPUMax, "50000 100000\n")
	r.seconds(1, 5)
	r.have("20000")

	// The answer to an update comes when the kernel has no burst left.
	if _, err := r.agent.UpdateContainer(t.Context(), r.id); err != nil {
		t.Fatal(err)
	}
	if pod, main := r.kernel.get(r.pod+"/"+enforce.CPUMaxBurst), r.kernel.get(r.main+"/"+enforce.CPUMaxBurst); pod != "0" || main != "0" {
		t.Errorf("the limit may be lowered while the bursts are %q and %q", pod, main)
	}
	r.seconds(3, 5)
	r.have("0")
	r.now = r.now.Add(restAfterUpdate)
	r.agent.Ask(time.Minute, func(a *Agent) { a.bursts.pods["web"].rests = r.now })
	r.seconds(2, 5)
	r.have("20000")

	// What is over after a while ends, and what is not known ends nothing before.
	r.seconds(10, 0)
	r.have("20000")
	r.seconds(15, 0)
	r.have("0")
	r.seconds(2, 5)
	r.have("20000")
	r.agent.Configure(wanted(`{"cpuBurst": {"share": 0}}`))
	r.seconds(1, 5)
	r.have("0")
	r.agent.Configure(on)
	r.seconds(2, 5)
	r.have("20000")
	r.stop()
	r.have("0")
}

// An agent takes away what one before it has left, though it gives no bursts.
func TestBurstOfBefore(t *testing.T) {
	r := newThrottledRig(t)
	r.kernel.set(r.main+"/"+enforce.CPUMaxBurst, "20000\n")
	r.seconds(1, 0)
	r.kept(r.main+"/"+enforce.CPUMaxBurst, "0")
	var dirs []string
	r.agent.Ask(time.Minute, func(a *Agent) { dirs = sortedKeys(a.bursts.pods["web"].bursts) })
	if !slices.Equal(dirs, []string{r.main}) {
		t.Errorf("bursts of %v are looked after, want the one that there was", dirs)
	}
}

// What an agent before has left yields to an update also before this one has observed anything, and on a node that does not lend; a pod that has gone is forgotten.
func TestBurstOfBeforeYields(t *testing.T) {
	for _, lends := range []bool{true, false} {
		r := newThrottledRig(t)
		r.agent.Ask(time.Minute, func(a *Agent) { *a.options.Config.Lending.Enabled = lends })
		r.kernel.set(r.main+"/"+enforce.CPUMaxBurst, "20000\n")
		if _, err := r.agent.UpdateContainer(t.Context(), r.id); err != nil {
			t.Fatal(err)
		}
		if got := r.kernel.get(r.main + "/" + enforce.CPUMaxBurst); got != "0" {
			t.Errorf("lends %v: the limit may be lowered while the burst is %q", lends, got)
		}
		r.agent.Ask(time.Minute, func(a *Agent) {
			a.node.Pods.Forget(a.node.Pods.Of("web"))
			if knobs := a.bursts.knobs(); len(knobs) > 0 || len(a.bursts.pods) > 0 {
				t.Errorf("lends %v: bursts of a pod that has gone: %v", lends, knobs)
			}
		})
	}
}

// kept waits until the kernel keeps a value.
func (l *lender) kept(file, want string) {
	l.Helper()
	l.eventually(file+" is "+want, func() bool { return l.kernel.get(file) == want })
}
