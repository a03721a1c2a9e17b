package node

import (
	"testing"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/topology"
)

// An agent that ends in order gives back what is lent: nobody would when the online pods need it.
func TestStopGivesBack(t *testing.T) {
	l := newLender(t)
	web, batch := sandbox("web", 6, "qos=shared_cores"), sandbox("batch", 0, "qos=reclaimed_cores", "besteffort")
	batch.Annotations[spec.AnnotationReclaimed] = "4000m/512Mi"
	l.mustRun(web)
	l.mustRun(batch)
	cpus := func() int {
		set, err := topology.ParseCPUSet(l.kernel.get(web.Cgroup + "/cpuset.cpus"))
		if err != nil {
			t.Fatal(err)
		}
		return set.Len()
	}
	before := cpus()
	for i := range l.busy {
		l.busy[i] = 0.05
	}
	l.run(240)
	l.ticks(5)
	if lent := before - cpus(); lent < 1 {
		t.Fatalf("%d CPUs are lent of an idle machine", lent)
	}
	l.stop()
	if after := cpus(); after != before {
		t.Errorf("the online pod had %d CPUs before anything was lent, and has %d after the end of the agent", before, after)
	}
}
