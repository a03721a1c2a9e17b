package node

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/node/runtime"
)

// manyThreads has a container of a pod have so many threads, of which each waits 0.8 s in each second.
type manyThreads struct {
	l    *lender
	main string // its directory
	ids  []string
	// silent: the kernel does not say what threads wait. pressure: it says so of the container. throttled: a limit holds it in half of its periods.
	silent, pressure, throttled bool
	second                      int
}

func (m *manyThreads) pass() {
	m.second++
	for _, id := range m.ids {
		text := fmt.Sprintf("1000000 %d 1\n", m.second*800_000_000)
		if m.silent {
			text = "0 0 0\n"
		}
		m.l.counters.write("proc/"+id+"/schedstat", text)
	}
	m.l.counters.write(m.main+"/cgroup.threads", strings.Join(m.ids, "\n")+"\n")
	if m.pressure {
		m.l.counters.write(m.main+"/cpu.pressure", fmt.Sprintf("some avg10=80.00 avg60=80.00 avg300=80.00 total=%d\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n", m.second*800_000))
	}
	if m.throttled {
		m.l.counters.write(m.main+"/cpu.stat", fmt.Sprintf("usage_usec 1\nuser_usec 1\nsystem_usec 0\nnr_periods %d\nnr_throttled %d\nthrottled_usec 1\n", 10*m.second, 5*m.second))
	}
	m.l.run(1)
}

func threadIDs(n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprint(1000+i))
	}
	return ids
}

// A container has more threads than are read at once, and all of them starve: a sample says so of all. That another container of its pod waits for nothing does not
// make it so of the pod. Where the kernel says nothing of threads, the container's pressure counts, and without it nothing is known; nor is it where a limit of the
// pod's own makes its threads wait.
func TestRunDelayOfManyThreads(t *testing.T) {
	for _, c := range []struct {
		name                        string
		silent, pressure, throttled bool
		want                        advise.Sample
	}{
		{"sampled", false, false, false, advise.Known(240)},
		{"sampled, with the kernel's pressure beside it", false, true, false, advise.Known(240)},
		{"nothing of threads, with the kernel's pressure", true, true, false, advise.Known(0.8)},
		{"nothing of threads, without", true, false, false, advise.Sample{}},
		{"throttled", false, true, true, advise.Sample{}},
		{"throttled, and nothing of threads", true, true, true, advise.Sample{}},
	} {
		l := newLender(t)
		web := sandbox("web", 2, "qos=shared_cores")
		l.mustRun(web)
		l.agent.Ask(time.Minute, func(a *Agent) {
			a.node.Pods.Attach(&runtime.Container{ID: "side", Sandbox: web.ID, Cgroup: web.Cgroup + "/side", Exists: true})
		})
		m := &manyThreads{l: l, main: "sys/fs/cgroup/" + web.Cgroup + "/" + containerID(&web), ids: threadIDs(300), silent: c.silent, pressure: c.pressure, throttled: c.throttled}
		l.counters.write("proc/5/schedstat", "1000000 1000 1\n")
		l.counters.write("sys/fs/cgroup/"+web.Cgroup+"/side/cgroup.threads", "5\n")
		for range 12 {
			m.pass()
		}
		var got advise.Sample
		l.agent.Ask(time.Minute, func(a *Agent) {
			o := a.sensor.sense(l.now)
			got = o.runDelay(a.node.Pods.Of("web"))
			o.release()
		})
		if got.Known != c.want.Known || got.Value < c.want.Value*0.98 || got.Value > c.want.Value*1.02 {
			t.Errorf("%s: the pod waits %+v, want %+v", c.name, got, c.want)
		}
	}
}

// A BestEffort pod without a level that has 300 threads wait does not take back what is lent: what they wait is told apart from what online pods do.
func TestManyThreadsRecallNoLoan(t *testing.T) {
	lent := func(threads int) string {
		l := newLender(t)
		web, hog, batch := sandbox("web", 2, "qos=shared_cores"), sandbox("hog", 0, "besteffort"), sandbox("batch", 0, "qos=reclaimed_cores", "besteffort")
		batch.Annotations[spec.AnnotationReclaimed] = "4000m/512Mi"
		for _, s := range []runtime.Sandbox{web, batch, hog} {
			l.mustRun(s)
		}
		m := &manyThreads{l: l, main: "sys/fs/cgroup/" + hog.Cgroup + "/" + containerID(&hog), ids: threadIDs(threads)}
		for range 45 {
			for i := range l.busy {
				l.busy[i], l.waiting[i] = 0.1, 0
			}
			// The hog's threads wait on the CPUs that they share with web, wherever these are.
			var shared []int
			l.agent.Ask(time.Minute, func(a *Agent) {
				for _, z := range a.node.Manager.Pools.NUMANodes() {
					for cpu := range z.Shared.All() {
						shared = append(shared, cpu)
					}
				}
			})
			for _, cpu := range shared {
				l.waiting[cpu] = 0.8 * float64(threads) / float64(len(shared))
			}
			m.pass()
		}
		return l.batch()
	}
	alone := lent(1)
	if many := lent(300); many != alone || len(alone) <= len("3,7") {
		t.Errorf("the reclaimed pod has CPUs %s beside 300 threads that wait, and %s without them", many, alone)
	}
}
