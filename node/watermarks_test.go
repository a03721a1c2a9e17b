package node

import (
	"fmt"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/node/evict"
)

// What the kernel keeps for itself raises the thresholds of eviction, and headroom leaves as much more: a machine whose administrator has set vm.min_free_kbytes
// high must not lend what the kernel reclaims at once.
func TestWatermarks(t *testing.T) {
	offered := func(min int) (int64, evict.Observation) {
		l := newLender(t)
		l.counters.min = min
		batch := sandbox("batch", 0, "qos=reclaimed_cores", "besteffort")
		batch.Annotations[spec.AnnotationReclaimed] = "1000m/1024Mi"
		l.mustRun(batch)
		said := l.run(240)
		var o evict.Observation
		l.agent.Ask(time.Minute, func(a *Agent) {
			in := inputs{now: l.now, seen: a.sensor.sense(l.now), advice: &advise.Advice{}}
			o = a.eviction.observe(&in)
			in.seen.release()
		})
		return said.Headroom.MemoryMiB, o
	}
	none, o := offered(0)
	if o.Node.MinWatermark.Known || o.NUMANodes[1].LowWatermark.Known {
		t.Errorf("without /proc/zoneinfo the watermarks are %+v and %+v", o.Node.MinWatermark, o.NUMANodes[1].LowWatermark)
	}
	const mib = 1 << 20
	high, o := offered(128)
	if o.Node.MinWatermark != advise.Known(256*mib) || o.NUMANodes[1].LowWatermark != advise.Known(192*mib) {
		t.Errorf("the watermarks are %+v and %+v", o.Node.MinWatermark, o.NUMANodes[1].LowWatermark)
	}
	// Each NUMA node is short below four times 192 MiB, and a quarter more stays; of what the pod asked for and does not hold four fifths are lent.
	if most := int64(2*(1800+50-960) + 740); high > most || none <= most {
		t.Errorf("%d MiB are offered, want at most %d; without watermarks %d", high, most, none)
	}
}

// A BestEffort pod without a level is not among those whose waiting takes back what is lent. One that says that it is shared is.
func TestUnlabelledBestEffort(t *testing.T) {
	for level, counts := range map[string]bool{"": false, "qos=shared_cores": true} {
		l := newLender(t)
		hog := sandbox("hog", 0, "besteffort", level)
		l.mustRun(hog)
		for i := range 3 {
			l.counters.write("sys/fs/cgroup/"+hog.Cgroup+"/cpu.pressure", fmt.Sprintf("some avg10=90.00 avg60=90.00 avg300=90.00 total=%d\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n", i*900_000))
			l.run(1)
		}
		l.agent.Ask(time.Minute, func(a *Agent) {
			o := a.sensor.sense(l.now)
			defer o.release()
			if got := o.laws.Node.CPUPressure; got.Value > 0.5 != counts || o.laws.Services[0].BestEffort == counts {
				t.Errorf("a BestEffort pod %q: pressure %+v, %+v", level, got, o.laws.Services)
			}
		})
	}
}
