package tide

import (
	"math"
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/sim/trace"
)

// daily is a load that rises steeply each morning, a little differently each day.
func daily(days int) *trace.Series {
	s := &trace.Series{Name: "daily", Start: time.Date(2026, time.March, 2, 0, 0, 0, 0, time.UTC), Step: 5 * time.Minute}
	for i := range days * 288 {
		load := 20.0
		if hour := float64(i%288) / 12; hour >= 8 && hour < 18 {
			load = 100
		}
		s.Loads = append(s.Loads, load*(1+0.02*math.Sin(float64(i))))
	}
	return s
}

// TestOrder: on a daily tide Hilbert misses at most half of what HPA alone does, with fewer evictions; a planned peak finds capacity.
func TestOrder(t *testing.T) {
	o := DefaultOptions()
	res, err := Run(t.Context(), []*trace.Series{daily(12)}, &o, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Outcomes) != 2*len(Ways) {
		t.Fatalf("%d outcomes", len(res.Outcomes))
	}
	for i := 0; i < 2*len(Ways); i += len(Ways) {
		alone, ours, lending := &res.Outcomes[i], &res.Outcomes[i+1], &res.Outcomes[i+2]
		if alone.Rises == 0 || ours.Missed > alone.Missed/2 || ours.Evictions >= alone.Evictions || ours.Trusted == 0 {
			t.Errorf("alone %+v\nours %+v", alone, ours)
		}
		if lending.ReplicaHours <= ours.ReplicaHours || (lending.Rises == 0) == lending.Planned {
			t.Errorf("lending %+v", lending)
		}
	}
	if err := res.WriteHTML(&strings.Builder{}); err != nil {
		t.Error(err)
	}
}

// TestPlannedPeaksAreMet: of a load that is always the same nothing can be forecast. A peak that was planned finds replicas, and nodes for them, that are there when it begins.
func TestPlannedPeaksAreMet(t *testing.T) {
	t.Parallel()
	o, s := DefaultOptions(), daily(12)
	fill(s.Loads, 50)
	o.PodsPerNode, o.PeakFactor = 2, 2 // so that the peak wants more nodes than change hands in an hour
	peaks, err := o.peak(50)
	if err != nil {
		t.Fatal(err)
	}
	for way, met := range map[Way]bool{HPAAlone: false, NodesByNeed: false, Hilbert: true, Nodes: true} {
		if got := play(&o, s, way, peaks); (got.Rises == 0) != met {
			t.Errorf("%+v; want that the peak is met: %v", got, met)
		}
	}
}

// TestMetricsAreOld: HPA sees a load as late as its metric is old, also over the beginning of a step.
func TestMetricsAreOld(t *testing.T) {
	t.Parallel()
	o, s := DefaultOptions(), daily(1)
	o.MetricAge, o.Replicas = time.Minute, 100
	fill(s.Loads, 20)
	s.Loads[1], s.Loads[11], s.Loads[12] = 100, 70, 120 // replicas are measured by the 100; what is after three quarters of the day is 20
	for k, want := range map[time.Duration]int{30 * time.Second: 67, time.Minute: 70, 2 * time.Minute: 80} {
		g := newGame(&o, s, HPAAlone, nil)
		g.most, g.perPod = 100, o.perPod(100)
		g.hpa = hpa{target: 1, low: 1, high: 200, replicas: 55}
		s.Loads[10] = 40
		if g.tick(11, k); g.hpa.replicas != want {
			t.Errorf("%v into a step in which the load rises from 70 to 120 there are %d replicas, want %d", k, g.hpa.replicas, want)
		}
	}
}

// TestChanceIsNotTrusted: a load without a tide is scaled as HPA alone scales it.
func TestChanceIsNotTrusted(t *testing.T) {
	o := DefaultOptions()
	o.Peak = ""
	s := daily(12)
	level := 50.0
	for i := range s.Loads { // steps at odd times
		if i%97 == 0 {
			level = 20 + math.Mod(level*7.31, 80)
		}
		s.Loads[i] = level
	}
	res, err := Run(t.Context(), []*trace.Series{s}, &o, nil)
	if err != nil {
		t.Fatal(err)
	}
	if alone, ours := res.Outcomes[0], res.Outcomes[1]; ours.Trusted != 0 || ours.ReplicaHours != alone.ReplicaHours || ours.Missed > alone.Missed {
		t.Errorf("alone %+v\nours %+v", alone, ours)
	}
}

// TestHPA holds the algorithm to upstream's documentation.
func TestHPA(t *testing.T) {
	h := hpa{target: 10, low: 1, high: 100, replicas: 10}
	for i, c := range []struct {
		metric float64
		want   int
	}{
		{109, 10},        // within the tolerance
		{111, 12},        // ceil(111/10)
		{math.NaN(), 12}, // what is not known scales nothing
		{900, 24},        // at most 100 % in 15 s
		{900, 48},
		{900, 90},
		{10, 90}, // down only by the most of five minutes
	} {
		if got := h.sync(c.metric); got != c.want {
			t.Errorf("sync %d with %g: %d replicas, want %d", i, c.metric, got, c.want)
		}
	}
	for range int(stabilization / syncPeriod) {
		h.sync(10)
	}
	if h.replicas != 1 {
		t.Errorf("five minutes later there are %d replicas", h.replicas)
	}
	small := hpa{target: 10, low: 1, high: 100, replicas: 1}
	if got := small.sync(1000); got != 5 {
		t.Errorf("of one replica %d come at once, want 4 more", got)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for i, spoil := range []func(*Options){
		func(o *Options) { o.Replicas = 0 }, func(o *Options) { o.Target = o.Limit }, func(o *Options) { o.Start = -1 }, func(o *Options) { o.Job = 0 },
		func(o *Options) { o.Peak = "at noon" }, func(o *Options) { o.PeakLength = 0 },
	} {
		o := DefaultOptions()
		spoil(&o)
		if err := o.Validate(); err == nil {
			t.Errorf("spoiled options %d are accepted", i)
		}
	}
	o := DefaultOptions()
	if _, err := Run(t.Context(), []*trace.Series{{Loads: daily(1).Loads[:20], Step: 5 * time.Minute}}, &o, nil); err == nil {
		t.Error("two hours are accepted")
	}
}

// TestSeriesAreMeasured: a series by which no replica can be measured, or whose cluster would be without bound, is refused before anything is played.
func TestSeriesAreMeasured(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*Options, *trace.Series)
		want  string
	}{
		"no load at first":       {func(_ *Options, s *trace.Series) { clear(s.Loads[:216]) }, "no load"},
		"nothing known":          {func(_ *Options, s *trace.Series) { fill(s.Loads, math.NaN()) }, "no load"},
		"nothing known at first": {func(_ *Options, s *trace.Series) { fill(s.Loads[:280], math.NaN()) }, "no load"},
		"a rise without bound":   {func(_ *Options, s *trace.Series) { s.Loads[len(s.Loads)-2] = 1e12 }, "rises to 9.8"},
		"a peak without bound":   {func(o *Options, _ *trace.Series) { o.PeakFactor = 1e9 }, "rises to 1e+09"},
	} {
		o, s := DefaultOptions(), daily(1)
		c.spoil(&o, s)
		if _, err := Run(t.Context(), []*trace.Series{s}, &o, func(int, int) { t.Errorf("%s: it is played", name) }); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func fill(loads []float64, with float64) {
	for i := range loads {
		loads[i] = with
	}
}

// TestCluster counts by hand: the youngest job goes, and loses what it has done.
func TestCluster(t *testing.T) {
	now := time.Date(2026, time.March, 2, 0, 0, 0, 0, time.UTC)
	c := cluster{slots: 2, start: time.Minute, grace: 30 * time.Second, jobs: []job{
		{now.Add(-time.Hour), now.Add(time.Hour)}, {now.Add(-time.Minute), now.Add(time.Hour)},
	}}
	c.scale(1, now)
	if c.evictions != 1 || c.lost != time.Minute || len(c.jobs) != 1 || c.ready(now.Add(89*time.Second)) != 0 || c.ready(now.Add(90*time.Second)) != 1 {
		t.Errorf("%+v", c)
	}
	c.scale(0, now)
	c.run(now.Add(time.Hour), time.Minute, 0)
	if c.done != 2*time.Hour || len(c.jobs) != 0 || c.podTime != 0 {
		t.Errorf("%+v", c)
	}
}
