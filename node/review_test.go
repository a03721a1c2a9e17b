package node

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/observe"
)

var _ = observe.Cgroup{}

func (l *lender) run240(n int) *spec.Colocation {
	var out *spec.Colocation
	for range n {
		l.now = l.now.Add(time.Second)
		l.agent.Ask(time.Minute, func(a *Agent) {
			o := l.counters.second(l.busy, l.waiting, a.node.pods.watched())
			a.observer.Put(o, l.now)
			a.observed(l.now)
			out = a.lending.colocation(l.now, a.eviction)
		})
	}
	return out
}

// T3: run delay of a pod whose big container cannot be read.
func TestRevRunDelay(t *testing.T) {
	t.Skip("issue 16: The node's promise holds when the agent, a disk or the hardware does not")
	l := newLender(t)
	web := sandbox("web", 2, "qos=shared_cores")
	l.mustRun(web)
	var ids []string
	for i := range 300 {
		ids = append(ids, fmt.Sprint(1000+i))
	}
	l.agent.Ask(time.Minute, func(a *Agent) {
		p := a.node.pods.byUID["web"]
		side := &container{id: "side", cgroup: web.Cgroup + "/side", pod: p, exists: true}
		p.containers["side"], a.node.pods.containers["side"] = side, side
	})
	delay := 0
	for range 20 {
		delay += 800e6
		for _, id := range ids { // each of 300 threads waits 0.8 s in each second
			l.counters.write("proc/"+id+"/schedstat", fmt.Sprintf("%d %d 1\n", 1000000, delay))
		}
		l.counters.write("proc/5/schedstat", "1000000 1000 1\n")
		l.counters.write("sys/fs/cgroup/"+web.Cgroup+"/"+containerID(&web)+"/cgroup.threads", strings.Join(ids, "\n")+"\n")
		l.counters.write("sys/fs/cgroup/"+web.Cgroup+"/side/cgroup.threads", "5\n")
		l.run240(1)
	}
	l.agent.Ask(time.Minute, func(a *Agent) {
		o := a.sensor.sense(l.now)
		main := o.use(web.Cgroup + "/" + containerID(&web)).CPU.RunDelay
		t.Logf("main container: %v %v; pod's run delay: %+v", main.State(), main.Reason(), o.runDelay(a.node.pods.byUID["web"]))
		o.release()
	})
}
