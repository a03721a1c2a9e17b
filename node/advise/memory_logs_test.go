package advise

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/api/spec"
)

// Pages of log files are dropped while free memory is short, by the rate and by what is lacking, also where online pods wait; and never where that is off or free memory is not known.
func TestLogPages(t *testing.T) {
	p := spec.DefaultNodeMemory()
	p.Logs.BytesPerSecond = 8 * mib
	p.Cache.FreeLow, p.Cache.FreeHigh = 0.03, 0.05
	const low, between = gib / 100, gib * 4 / 100
	o := MemoryObservation{At: time.Hour, Total: Known(gib), OnlinePressure: Known(0.5), NUMANodes: []MemoryNUMANode{{Total: Known(gib / 2), Free: Known(gib / 4)}}}
	var m MemoryState
	for _, c := range []struct {
		name  string
		after time.Duration
		free  Sample
		busy  bool
		want  int64
	}{
		{"there is enough", time.Second, Known(gib / 2), false, 0},
		{"not yet short", time.Second, Known(between), false, 0},
		{"short", time.Second, Known(low), false, 8 * mib},
		{"a longer tick", 2 * time.Second, Known(low), false, 16 * mib},
		{"a step is under way", time.Second, Known(low), true, 0},
		{"after it", time.Second, Known(low), false, 16 * mib},
		{"until there is more", time.Second, Known(between), false, 8 * mib},
		{"little is lacking", time.Second, Known(gib*5/100 - mib), false, mib},
		{"after a long time", time.Hour, Known(low), false, partOf(gib, 0.05) - low}, // ten seconds' rate is more than is lacking
		{"not known", time.Second, Sample{}, false, 0},
		{"and forgotten", time.Second, Known(between), false, 0},
	} {
		o.At += c.after
		o.Free, o.DroppingLogs = c.free, c.busy
		if got := StepMemory(&o, &p, &m).LogPages; got > c.want || got < c.want-1 {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
	o.Free, o.NUMANodes[0].Free = Known(gib/2), Known(0)
	o.At += time.Second
	if got := StepMemory(&o, &p, &m).LogPages; got != 8*mib {
		t.Errorf("a NUMA node is short: %d", got)
	}
	p.Logs.BytesPerSecond = 0
	o.At += time.Second
	if got := StepMemory(&o, &p, &m).LogPages; got != 0 {
		t.Errorf("switched off: %d", got)
	}
}

// Over any series of ticks no more is dropped than the rate and ten seconds of it, and never more at once than is lacking.
func TestLogPagesAlways(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := spec.DefaultNodeMemory()
		p.Logs.BytesPerSecond = rapid.Int64Range(0, gib).Draw(r, "rate")
		var m MemoryState
		var sum float64
		begin := rapid.Int64Range(0, 1000).Draw(r, "begin")
		o := MemoryObservation{At: time.Duration(begin) * time.Second, Total: Known(gib)}
		var first time.Duration // the first tick, which may be before begin
		for i := range rapid.IntRange(1, 50).Draw(r, "ticks") {
			o.At += time.Duration(rapid.Int64Range(-1000, 20_000).Draw(r, "after")) * time.Millisecond
			o.Free = Sample{Value: rapid.SampledFrom([]float64{0, gib / 100, gib / 25, gib, -1, math.NaN()}).Draw(r, "free"), Known: rapid.Bool().Draw(r, "known")}
			o.DroppingLogs = rapid.Bool().Draw(r, "busy")
			got := StepMemory(&o, &p, &m).LogPages
			if i == 0 {
				first = m.At
			}
			sum += float64(got)
			if got < 0 || got > 0 && (!o.Free.Known || o.DroppingLogs || float64(got) > 0.05*gib-o.Free.Value+1) {
				r.Fatalf("%d bytes at %+v", got, o)
			}
		}
		if most := float64(p.Logs.BytesPerSecond) * ((m.At - first).Seconds() + logsGap.Seconds()); sum > most+1 {
			r.Fatalf("%g bytes, want %g at most", sum, most)
		}
	})
}
