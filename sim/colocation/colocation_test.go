package colocation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/sim/trace"
)

// short is a small fleet for some hours.
func short(nodes int, length time.Duration) *Options {
	o := DefaultOptions()
	o.Nodes, o.Length = nodes, length
	return &o
}

func play(t *testing.T, o *Options, v Variant) *Outcome {
	t.Helper()
	out, err := Play(t.Context(), o, &v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// goal holds an outcome against what colocation is for: much more work, targets kept, nobody evicted over and over.
func goal(before, out *Outcome) error {
	switch {
	case out.UtilisationPercent < before.UtilisationPercent+20:
		return fmt.Errorf("%.1f %% busy, with requests only %.1f %%", out.UtilisationPercent, before.UtilisationPercent)
	case out.SLOMissPercent > 0.5:
		return fmt.Errorf("targets missed %.2f %% of the time", out.SLOMissPercent)
	case out.RepeatEvictions > 0:
		return fmt.Errorf("%d jobs evicted twice in ten minutes", out.RepeatEvictions)
	}
	return nil
}

// TestShortDay is the experiment's short form. Without feedback the same bounds must not hold.
func TestShortDay(t *testing.T) {
	t.Parallel()
	o := short(50, 6*time.Hour)
	before := play(t, o, Variant{Name: "requests", Mode: ModeRequests})
	if before.UtilisationPercent > 27 || before.SLOMissPercent > 0.1 {
		t.Errorf("with requests only %.1f %% busy and %.2f %% missed: that is no cluster to start from", before.UtilisationPercent, before.SLOMissPercent)
	}
	if err := goal(before, play(t, o, Variant{Name: "hilbert", Mode: ModeHilbert})); err != nil {
		t.Errorf("Hilbert: %v", err)
	}
	o.Nodes = 15 // enough to miss on
	for _, mode := range []Mode{ModeNaive, ModeFixed} {
		if out := play(t, o, Variant{Name: string(mode), Mode: mode}); goal(before, out) == nil || out.SLOMissPercent < 2 {
			t.Errorf("%s: without feedback only %.2f %% of the targets are missed: the model shows nothing", mode, out.SLOMissPercent)
		}
	}
}

// TestAllRiseTogether: everywhere at once, twice, and nobody is evicted again where he went.
func TestAllRiseTogether(t *testing.T) {
	t.Parallel()
	o := short(20, 3*time.Hour)
	o.Together = []Surge{{At: time.Hour, For: 20 * time.Minute, Factor: 2.5}, {At: 2 * time.Hour, For: 20 * time.Minute, Factor: 2.5}}
	out := play(t, o, Variant{Name: "together", Mode: ModeHilbert})
	if out.Evictions == 0 {
		t.Error("a rise of all services evicts nobody: it tests nothing")
	}
	if out.RepeatEvictions > 0 {
		t.Errorf("%d of %d evictions are of jobs evicted less than ten minutes before", out.RepeatEvictions, out.Evictions)
	}
	if out.SLOMissPercent > 2 {
		t.Errorf("targets missed %.2f %% of the time", out.SLOMissPercent)
	}
}

// TestSameSeedSameDay: neither other variants beside it nor a second run change a run.
func TestSameSeedSameDay(t *testing.T) {
	t.Parallel()
	o := short(4, time.Hour)
	text := func(workers int, seed uint64) string {
		o.Seed = seed
		res, err := Run(t.Context(), o, Plan{Together: true, SmallNodes: 2, Workers: workers})
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(res)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	one, three := text(1, 1), text(3, 1)
	if one != three {
		t.Error("with three workers the experiment comes to something else than with one")
	}
	if one == text(3, 2) {
		t.Error("another seed is the same day")
	}
}

// Ablations by name are all that is played, with the baseline; a name that nobody knows is a mistake.
func TestOnlySomeAblations(t *testing.T) {
	t.Parallel()
	plan := Plan{Only: []string{"noHold", "naive"}, SmallNodes: 1}
	res, err := Run(t.Context(), short(1, 40*time.Minute), plan)
	if err != nil {
		t.Fatal(err)
	}
	if got := slices.Sorted(maps.Keys(res.Ablations)); !slices.Equal(got, []string{"baseline", "naive", "noHold"}) || len(res.Variants) != 0 {
		t.Errorf("played %v and %d days", got, len(res.Variants))
	}
	plan.Only = append(plan.Only, "noSuchLaw")
	if _, err := Run(t.Context(), short(1, time.Hour), plan); err == nil || !strings.Contains(err.Error(), "noSuchLaw") {
		t.Errorf("got %v", err)
	}
}

func TestResultSaysWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	res, err := Run(t.Context(), short(3, time.Hour), Plan{Ablations: true, Sweep: true, Together: true, SmallNodes: 2, JobsFrom: "invented"})
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(res)
	if err != nil {
		t.Fatal(err)
	}
	var said map[string]any
	if err := json.Unmarshal(b, &said); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"utilisationBefore", "utilisationAfter", "sloMissPercent", "naiveSloMissPercent", "evictions", "repeatEvictions", "ablations"} {
		if _, ok := said[key]; !ok {
			t.Errorf("the JSON has no %s", key)
		}
	}
	if len(res.Ablations) != len(ablations(short(1, time.Hour).Laws)) || len(res.Sweep) != 3 || res.Sweep[2].Naive == nil || res.Together == nil {
		t.Errorf("parts are missing: %d ablations, sweep %+v", len(res.Ablations), res.Sweep)
	}
	var page, table bytes.Buffer
	if err := errors.Join(res.WriteHTML(&page), res.WriteTable(&table)); err != nil {
		t.Fatal(err)
	}
	html := page.String()
	if strings.Count(html, "<svg") != 5 || strings.Count(html, "<svg") != strings.Count(html, "</svg>") || strings.Contains(html, "NaN") {
		t.Errorf("the page has %d pictures", strings.Count(html, "<svg"))
	}
	for _, outside := range []string{"http:", "https:", "src=", "url("} {
		if strings.Contains(html, outside) {
			t.Errorf("the page needs something else: %s", outside)
		}
	}
	if !strings.Contains(table.String(), "noFloor") || !strings.Contains(table.String(), "naive ×2") {
		t.Errorf("the table lacks rows:\n%s", table.String())
	}
}

// TestJobsAreInOnePlace holds the books of a run against the machines'.
func TestJobsAreInOnePlace(t *testing.T) {
	t.Parallel()
	o := short(8, time.Hour)
	o.Together = []Surge{{At: 30 * time.Minute, For: 10 * time.Minute, Factor: 3}}
	r, err := newRun(o, &Variant{Name: "hilbert", Mode: ModeHilbert})
	if err != nil {
		t.Fatal(err)
	}
	for ; r.now < 3600; r.now++ {
		if r.now%60 == 0 {
			r.newMinute()
		}
		r.second()
		on, jobs := 0, make(map[int64]string)
		for _, m := range r.machines {
			on += len(m.known)
			if m.node.Jobs() != len(m.known) {
				t.Fatalf("second %d: %s runs %d jobs and %d are known", r.now, m.name, m.node.Jobs(), len(m.known))
			}
			for _, p := range m.known {
				if other := jobs[p.job.id]; other != "" {
					t.Fatalf("second %d: job %d is on %s and %s", r.now, p.job.id, other, m.name)
				}
				jobs[p.job.id] = m.name
				if known := r.scheduler.Store().Pod(p.uid); known == nil || known.Node() != m.name {
					t.Fatalf("second %d: the ledger does not know that %s is on %s", r.now, p.name, m.name)
				}
			}
		}
		if on != r.runningJobs {
			t.Fatalf("second %d: %d jobs run, %d are counted", r.now, on, r.runningJobs)
		}
	}
	if r.runningJobs == 0 || r.out.Placements == 0 {
		t.Fatal("nothing ran")
	}
}

// TestNothingOnSilentNodes: once a report is stale, or the node is closed, nothing new goes there.
func TestNothingOnSilentNodes(t *testing.T) {
	t.Parallel()
	o := short(4, time.Hour)
	r, err := newRun(o, &Variant{Name: "hilbert", Mode: ModeHilbert})
	if err != nil {
		t.Fatal(err)
	}
	for ; r.now < 1800; r.now++ {
		if r.now%60 == 0 {
			r.newMinute()
		}
		if r.now == 600 {
			r.machines[0].silentUntil = 1800
		}
		r.second()
		if r.now < 600+2*staleAfter {
			continue
		}
		if store := r.scheduler.Store(); store.Headroom(store.Slot("node-0")).State != facts.HeadroomStale {
			t.Fatalf("second %d: what node-0 said is not stale", r.now)
		}
		for _, p := range r.machines[0].known {
			if p.started > 600+2*staleAfter+startLeast+startSpread {
				t.Fatalf("%s started at %d on a node that is silent", p.name, p.started)
			}
		}
	}
}

func TestLoadIsWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	o := short(60, 24*time.Hour)
	sum, n := 0.0, 0
	for _, l := range drawLoads(o) {
		requested := 0.0
		for i := range l.services {
			requested += l.services[i].Request
		}
		if share := requested / float64(o.Machine.NUMANodes*o.Machine.Divisible()); math.Abs(share-o.Requested) > 0.2 {
			t.Errorf("services ask for %.2f of a node", share)
		}
		for second := int64(0); second < 86400; second += 600 {
			for i, v := range l.mean(second) {
				sum += v
				if v < 0 || v > l.services[i].Request*mostOfRequest+1e-9 {
					t.Fatalf("a service that asked for %.1f CPUs wants %.1f", l.services[i].Request, v)
				}
			}
			n++
		}
	}
	if got := sum / float64(n*o.Machine.CPUs()); math.Abs(got-o.Offered) > 0.02*o.Offered {
		t.Errorf("services want %.4f of the fleet, not %.4f", got, o.Offered)
	}
}

func TestJobsOfATrace(t *testing.T) {
	const list = `name,cpu_milli,memory_mib,num_gpu,gpu_milli,qos,creation_time,deletion_time
online,8000,1024,0,0,LS,0,100
small,3152,5600,0,0,BE,10,310
large,32000,65536,1,500,BE,0,7200
endless,1000,1024,0,0,BE,0,
`
	tasks, err := trace.ReadOpenBPods("pods.csv", strings.NewReader(list))
	if err != nil {
		t.Fatal(err)
	}
	got := JobsOf(tasks)
	want := []JobKind{
		{MilliCPU: 3500, MemoryBytes: 6 << 30, Seconds: 300, Weight: 1},
		{MilliCPU: 8000, MemoryBytes: 16 << 30, Seconds: 7200, Weight: 4},
	}
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("jobs %+v, want %+v", got, want)
	}
	if tasks[0].Request(resource.NameCPU) == 0 {
		t.Error("the trace was changed")
	}
}

func TestBadOptions(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"no nodes":     func(o *Options) { o.Nodes = 0 },
		"no time":      func(o *Options) { o.Length = time.Second },
		"all warm-up":  func(o *Options) { o.WarmUp = o.Length },
		"half seconds": func(o *Options) { o.Tick = 1500 * time.Millisecond },
		"no tide":      func(o *Options) { o.Tide, o.Use = &trace.Curves{}, &trace.Curves{} },
		"no jobs":      func(o *Options) { o.Jobs = nil },
		"no load":      func(o *Options) { o.Offered = math.NaN() },
		"bad laws":     func(o *Options) { o.Laws.TargetUse = 0 },
	} {
		o := short(2, time.Hour)
		change(o)
		if _, err := Run(t.Context(), o, Plan{}); err == nil {
			t.Errorf("%s: played", name)
		}
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(cancelled, short(2, time.Hour), Plan{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
