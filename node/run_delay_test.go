package node

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/node/advise"
)

// A container has more threads than are read, and all of them starve. That another container of its pod waits for nothing does not make it so of the pod:
// the pressure of the container counts, and without it nothing is known.
func TestRunDelayOfManyThreads(t *testing.T) {
	for _, c := range []struct {
		name     string
		pressure bool
		want     advise.Sample
	}{{"with the kernel's pressure", true, advise.Known(0.8)}, {"without", false, advise.Sample{}}} {
		l := newLender(t)
		web := sandbox("web", 2, "qos=shared_cores")
		l.mustRun(web)
		l.agent.Ask(time.Minute, func(a *Agent) {
			p := a.node.pods.byUID["web"]
			side := &container{id: "side", cgroup: web.Cgroup + "/side", pod: p, exists: true}
			p.containers["side"], a.node.pods.containers["side"] = side, side
		})
		var ids []string
		for i := range 300 {
			ids = append(ids, fmt.Sprint(1000+i))
		}
		main := "sys/fs/cgroup/" + web.Cgroup + "/" + containerID(&web)
		for second := range 20 {
			for _, id := range ids { // each waits 0.8 s in each second
				l.counters.write("proc/"+id+"/schedstat", fmt.Sprintf("1000000 %d 1\n", (second+1)*800_000_000))
			}
			l.counters.write("proc/5/schedstat", "1000000 1000 1\n")
			l.counters.write(main+"/cgroup.threads", strings.Join(ids, "\n")+"\n")
			l.counters.write("sys/fs/cgroup/"+web.Cgroup+"/side/cgroup.threads", "5\n")
			if c.pressure {
				l.counters.write(main+"/cpu.pressure", fmt.Sprintf("some avg10=80.00 avg60=80.00 avg300=80.00 total=%d\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n", (second+1)*800_000))
			}
			l.run(1)
		}
		var got advise.Sample
		l.agent.Ask(time.Minute, func(a *Agent) {
			o := a.sensor.sense(l.now)
			got = o.runDelay(a.node.pods.byUID["web"])
			o.release()
		})
		if got.Known != c.want.Known || got.Value < c.want.Value-0.01 || got.Value > c.want.Value+0.01 {
			t.Errorf("%s: the pod waits %+v, want %+v", c.name, got, c.want)
		}
	}
}
