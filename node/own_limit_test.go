package node

import (
	"fmt"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/advise"
)

// An online pod that waits for memory at a limit of its own takes nothing from what the node lends, while the node has plenty. Where the node is short, its
// waiting counts.
func TestPressureAtOwnLimit(t *testing.T) {
	for _, free := range []int{1800, 200} { // MiB of each NUMA node, which has 2048
		l := newLender(t)
		web, batch := sandbox("web", 2, "qos=shared_cores"), sandbox("batch", 0, "qos=reclaimed_cores", "besteffort")
		batch.Annotations[spec.AnnotationReclaimed] = "1000m/1024Mi"
		l.mustRun(web)
		l.mustRun(batch)
		for i := range l.busy {
			l.busy[i] = 0.1
		}
		calm := l.run(240).Headroom
		l.counters.free = [2]int{free, free}
		total := 0
		var said *spec.Colocation
		for range 30 {
			total += 250_000
			l.counters.write("sys/fs/cgroup/"+web.Cgroup+"/memory.pressure", fmt.Sprintf(
				"some avg10=25.00 avg60=25.00 avg300=25.00 total=%d\nfull avg10=20.00 avg60=20.00 avg300=20.00 total=%[1]d\n", total))
			said = l.run(1)
		}
		var waits advise.Sample
		l.agent.Ask(time.Minute, func(a *Agent) {
			o := a.sensor.sense(l.now)
			waits = o.laws.Node.MemoryPressure
			o.release()
		})
		if ample := free == 1800; waits != advise.Known(map[bool]float64{true: 0, false: 0.25}[ample]) {
			t.Errorf("%d MiB of 2048 are free: the laws see a pressure of %+v", free, waits)
		}
		if ample := free == 1800; ample != (said.Headroom.MemoryMiB >= calm.MemoryMiB) {
			t.Errorf("%d MiB of 2048 are free: a pod stalls, and %d MiB are offered; %d were before", free, said.Headroom.MemoryMiB, calm.MemoryMiB)
		}
	}
}
