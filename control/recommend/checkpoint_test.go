package recommend

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestCheckpointHolds: a profile that was stored and restored recommends what the other one does, at once and after more samples.
func TestCheckpointHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := DefaultParams()
		f, now := NewProfile(&p), start
		see := func(f *Profile, seed int) {
			at := now
			for i := range 50 {
				at = at.Add(5 * time.Minute)
				f.See(Sample{CPU: float64((seed*7+i*13)%40) / 10, Memory: float64(1+(seed+i)%30) * (64 << 20)}, at)
			}
		}
		for n := range rapid.IntRange(1, 12).Draw(t, "batches") {
			see(f, n)
			now = now.Add(time.Duration(rapid.SampledFrom([]int{5, 24, 72}).Draw(t, "hours")) * time.Hour)
		}
		if rapid.Bool().Draw(t, "ran out") {
			f.RanOut(2<<30, now)
		}
		data, err := json.Marshal(f.Checkpoint())
		if err != nil {
			t.Fatal(err)
		}
		if len(data) > 16<<10 {
			t.Fatalf("a checkpoint has %d bytes", len(data))
		}
		var stored Checkpoint
		if err := json.Unmarshal(data, &stored); err != nil {
			t.Fatal(err)
		}
		g, err := Restore(&p, &stored)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			a, known := f.Recommend(nil, now)
			b, too := g.Recommend(nil, now)
			if known != too || a.Confidence != b.Confidence || !near(a.Target.CPU, b.Target.CPU) || a.Target.Memory != b.Target.Memory || a.MemoryLeast != b.MemoryLeast {
				t.Fatalf("stored %+v, restored %+v", a, b)
			}
			see(f, 5)
			see(g, 5)
			now = now.Add(5 * time.Hour)
		}
	})
}

// near allows a bucket: weights are rounded.
func near(a, b float64) bool { return math.Abs(a-b) <= 0.051*max(a, b) }

// TestRestoreRefuses: what no profile has is no checkpoint.
func TestRestoreRefuses(t *testing.T) {
	p := DefaultParams()
	f := NewProfile(&p)
	f.See(Sample{CPU: 1, Memory: 1 << 30}, start)
	for name, spoil := range map[string]func(*Checkpoint){
		"fewer histograms":        func(c *Checkpoint) { c.CPU = c.CPU[1:] },
		"another half-life":       func(c *Checkpoint) { c.CPU[0].HalfLife = 7 },
		"weights past the end":    func(c *Checkpoint) { c.CPU[0].First = 1 << 20 },
		"a bucket past all":       func(c *Checkpoint) { c.CPU[0].First = math.MaxInt },
		"a bucket before all":     func(c *Checkpoint) { c.CPU[0].First = -1 },
		"fewer costs":             func(c *Checkpoint) { c.Cost = c.Cost[1:] },
		"a negative cost":         func(c *Checkpoint) { c.Cost[3] = -1 },
		"days in the wrong order": func(c *Checkpoint) { c.Memory = append(c.Memory, c.Memory[0]) },
		"more days than kept":     func(c *Checkpoint) { c.Memory = make([]PeakCheckpoint, 9) },
		"samples without weight":  func(c *Checkpoint) { c.CPU[0].Weights = nil },
	} {
		c := f.Checkpoint()
		spoil(c)
		if _, err := Restore(&p, c); err == nil {
			t.Errorf("%s: it is restored", name)
		}
	}
}

// TestCheckpointKeepsRarePeaks: one sample in many thousands is what the highest percentile is about.
func TestCheckpointKeepsRarePeaks(t *testing.T) {
	p := DefaultParams()
	f := NewProfile(&p)
	f.See(Sample{CPU: 8, Memory: 1 << 30}, start)
	for range 20_000 {
		f.See(Sample{CPU: 0.1, Memory: 1 << 30}, start)
	}
	g, err := Restore(&p, f.Checkpoint())
	if err != nil {
		t.Fatal(err)
	}
	want, _ := f.cpu[0].Percentile(1)
	if got, _ := g.cpu[0].Percentile(1); got != want || want < 8 {
		t.Errorf("the highest percentile is %g, it was %g", got, want)
	}
}
