package node

import (
	"math"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/node/overcommit"
)

// overcommits is what the report says of over-commitment, and for how long it counts.
func (r *harmRig) overcommits() (o *spec.NodeOvercommitStatus, refresh time.Duration) {
	r.Helper()
	r.agent.Ask(time.Minute, func(a *Agent) {
		out := a.reporter.build(r.now)
		o, refresh = out.Status.Overcommit, a.reporter.refresh(out)
	})
	return o, refresh
}

// What services ask for and use is read from the kernel; the percent rises once hours were seen, stops where a neighbour harms a service, and is not said without counters.
func TestOvercommitIsReported(t *testing.T) {
	r := newHarmRig(t)
	lowered := sandbox("shop", 1, "qos=shared_cores")
	lowered.Annotations[spec.AnnotationRequestedCPU] = "main=1200m at 150%"
	r.mustRun(lowered)
	r.pass(7, 0.02, 0)
	if o, _ := r.overcommits(); o != nil {
		t.Errorf("it is off, and says %+v", o)
	}
	r.agent.Configure(wanted(`{"interference": {"mode": "report"}, "overcommit": {"mode": "report", "learnHours": 0, "risePerHour": 600, "targetPercent": 90}}`))
	r.used[lowered.Cgroup] = 0
	r.pass(90, 0.02, 0)
	o, refresh := r.overcommits()
	// Of 3.2 CPUs, a tenth of it by the annotation, web uses one. Seven of the eight CPUs are divided.
	if o == nil || o.Percent != 150 || o.Reason != string(overcommit.Most) || o.PeakPercent < 20 || o.PeakPercent > 32 || o.ExtraMilliCPU < 2500 || o.ExtraMilliCPU > 4000 || refresh > time.Minute {
		t.Fatalf("%+v, counts for %v", o, refresh)
	}
	r.pass(4, 0.6, 4)
	if o, _ = r.overcommits(); o.Percent != 100 || o.ExtraMilliCPU != 0 || o.Reason != string(overcommit.Harm) {
		t.Errorf("after harm: %+v", o)
	}
	r.counters.lost = true
	r.pass(1, 0, 0)
	r.now = r.now.Add(2 * maxOvercommitAge)
	if o, _ = r.overcommits(); o != nil {
		t.Errorf("without counters: %+v", o)
	}
}

// What a lowered pod asked for is bounded by what is configured at most: the annotation may count init containers too.
func TestAskedBy(t *testing.T) {
	for _, c := range []struct {
		stored     int64
		annotation string
		want       int64
	}{
		{1000, "", 1000},
		{1000, "a=1200m at 150%", 1200},
		{1000, "a=700m,b=600m at 150%", 1300},
		{1000, "a=9000m at 1000%", 1500},
		{1000, "a=9000m at 110%", 1100},
		{1000, "a=1m at 150%", 1000},
		{1000, "a at 150%", 1000},
		{1000, "a=1200m", 1000},
	} {
		if got := askedBy(c.stored, c.annotation, 150); got != c.want {
			t.Errorf("%d stored, %q: %d, want %d", c.stored, c.annotation, got, c.want)
		}
	}
}

// The pressure of a few small services says nothing of the large ones whose pressure is not known.
func TestPressureOfFewIsUnknown(t *testing.T) {
	known, unknown := advise.Known(0.1), advise.Sample{}
	for _, c := range []struct {
		of   []advise.Sample // of 8, 1, 1 CPUs
		want float64
	}{
		{[]advise.Sample{known, unknown, unknown}, 0.1},
		{[]advise.Sample{known, advise.Known(0.6), unknown}, (0.8 + 0.6) / 9},
		{[]advise.Sample{unknown, known, known}, math.NaN()},
		{[]advise.Sample{unknown, unknown, unknown}, math.NaN()},
		{nil, math.NaN()},
	} {
		var w weighted
		for i, s := range c.of {
			w.add([]float64{8, 1, 1}[i], s)
		}
		if got := w.mean(); math.Abs(got-c.want) > 1e-9 || math.IsNaN(got) != math.IsNaN(c.want) {
			t.Errorf("%+v: %g, want %g", c.of, got, c.want)
		}
	}
}
