package node

import (
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/topology"
)

// A NUMA node without CPUs is the memory of a GPU (as in a GH200) or of a slower tier (CXL). Nothing of it is lent; that it is full, as it is by design, is no
// shortage, and that it is free does not make up for one.
func TestMemoryWithoutCPUs(t *testing.T) {
	for name, free := range map[string][2]int{"full": {1800, 0}, "free": {1800, 2000}, "short": {400, 2000}} {
		l := &lender{world: newWorld(t), counters: newCounters(t), now: time.Now()}
		for i := range l.hardware.CPUs {
			l.hardware.CPUs[i].NUMA = 0
		}
		l.hardware.NUMA[0].CPUs, l.hardware.NUMA[1].CPUs = l.hardware.AllCPUs(), topology.CPUSet{}
		l.counters.free = free
		l.start()
		batch := sandbox("batch", 0, "qos=reclaimed_cores", "besteffort")
		batch.Annotations[spec.AnnotationReclaimed] = "1000m/256Mi"
		l.mustRun(batch)
		said := l.run(240)
		if got := said.NUMANodes[1].MemoryMiB; got != 0 {
			t.Errorf("%s: %d MiB of memory without CPUs are lent", name, got)
		}
		l.agent.Ask(time.Minute, func(a *Agent) {
			short := len(a.eviction.decision.Pressures) > 0
			if short != (name == "short") || (said.Headroom.MemoryMiB > 500) == short {
				t.Errorf("%s: %d MiB are lent, pressures %v", name, said.Headroom.MemoryMiB, a.eviction.decision.Pressures)
			}
		})
	}
}
