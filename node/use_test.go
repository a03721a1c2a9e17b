package node

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
)

// What pods use is told at each reading, whether the node lends or not; what the kernel does not say is not known, and never zero.
func TestUseOfPodsIsTold(t *testing.T) {
	for _, lends := range []bool{true, false} {
		l := newLender(t)
		var told []PodUse
		l.agent.Ask(time.Minute, func(a *Agent) {
			*a.options.Config.Lending.Enabled = lends
			a.options.Use = func(_ time.Time, pods []PodUse) { told = pods }
		})
		web := sandbox("web", 2, "qos=shared_cores")
		l.mustRun(web)
		dir := "sys/fs/cgroup/" + web.Cgroup
		main := dir + "/" + containerID(&web)
		l.counters.fixture = map[string]string{main + "/memory.peak": "734003200\n", main + "/memory.events": "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\n"}
		for second := range 5 {
			l.counters.write(dir+"/cpu.stat", fmt.Sprintf("usage_usec %d\nuser_usec 0\nsystem_usec 0\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n", second*1_500_000))
			l.run(1)
		}
		last := func() *PodUse {
			t.Helper()
			var use *PodUse
			l.agent.Ask(time.Minute, func(*Agent) {
				if len(told) == 1 {
					use = &told[0]
				}
			})
			if use == nil || use.PodRef != (spec.PodRef{Namespace: web.Namespace, Name: web.Name, UID: web.UID}) {
				t.Fatalf("lends %v: told is %+v", lends, told)
			}
			return use
		}
		if u := last(); !u.CPU.Known || u.CPU.Value < 1.4 || u.CPU.Value > 1.6 || !u.Memory.Known || u.Memory.Value != 100<<20 {
			t.Errorf("lends %v: CPU %+v, memory %+v", lends, u.CPU, u.Memory)
		}
		if u := last(); !slices.Equal(u.Containers, []ContainerPeak{{"main", 700 << 20}}) {
			t.Errorf("lends %v: peaks %+v, want the kernel's 700 MiB", lends, u.Containers)
		}
		l.counters.fixture[main+"/memory.peak"] = "" // the kernel does not say: what is held is what is known
		l.run(60)
		if u := last(); !slices.Equal(u.Containers, []ContainerPeak{{"main", 100 << 20}}) {
			t.Errorf("lends %v: peaks %+v, want the 100 MiB that it holds", lends, u.Containers)
		}
		l.counters.write(dir+"/cpu.stat", "") // the kernel says nothing
		l.run(60)
		if u := last(); u.CPU.Known || u.RunDelay.Known || u.CPUPressure.Known || u.MemoryPressure.Known || u.IOPressure.Known {
			t.Errorf("lends %v, and without counters: CPU %+v, delay %+v", lends, u.CPU, u.RunDelay)
		}
	}
}
