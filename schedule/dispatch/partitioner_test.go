package dispatch

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var start = time.Unix(1_700_000_000, 0)

// run observes a load each ten seconds for a time, and returns when the partitions changed.
func run(p *Partitioner, of time.Duration, load func(time.Duration) Load) (changes []time.Duration) {
	for at := time.Duration(0); at < of; at += 10 * time.Second {
		if p.Observe(start.Add(at), load(at)) != "" {
			changes = append(changes, at)
		}
	}
	return changes
}

// TestTriggers holds each rule: what splits, what merges, and what does not.
func TestTriggers(t *testing.T) {
	for _, test := range []struct {
		name          string
		before, after Load
		parts         int
	}{
		{"a full cluster", Load{4, 0.5, 0, 0}, Load{4, 0.95, 0, 0}, 4},
		{"not full enough", Load{4, 0.5, 0, 0}, Load{4, 0.89, 0, 0}, 1},
		{"many pods that conflict", Load{4, 0.5, 0, 0}, Load{4, 0.5, 3000, 0.05}, 4},
		{"many pods that do not", Load{4, 0.5, 0, 0}, Load{4, 0.5, 3000, 0.005}, 1},
		{"few pods that conflict", Load{4, 0.5, 0, 0}, Load{4, 0.5, 1900, 0.5}, 1},
		{"one scheduler", Load{1, 0.5, 0, 0}, Load{1, 0.99, 5000, 0.5}, 1},
		{"less full, but not by enough", Load{4, 0.95, 0, 0}, Load{4, 0.85, 0, 0}, 4},
		{"less full", Load{4, 0.95, 0, 0}, Load{4, 0.75, 0, 0}, 1},
		{"no more conflicts, for there are partitions", Load{4, 0.5, 3000, 0.05}, Load{4, 0.5, 3000, 0}, 4},
		{"fewer pods", Load{4, 0.5, 3000, 0.05}, Load{4, 0.5, 500, 0}, 1},
		{"another scheduler", Load{3, 0.95, 0, 0}, Load{4, 0.95, 0, 0}, 4},
		{"a scheduler less", Load{4, 0.95, 0, 0}, Load{3, 0.95, 0, 0}, 3},
	} {
		p := NewPartitioner(LoadRules())
		run(p, time.Hour, func(time.Duration) Load { return test.before })
		run(p, time.Hour, func(at time.Duration) Load { return test.after })
		if p.Parts() != test.parts {
			t.Errorf("%s: %d partitions, want %d", test.name, p.Parts(), test.parts)
		}
	}
}

// TestAPartitionHasAScheduler: partitions go at once with the scheduler that leaves.
func TestAPartitionHasAScheduler(t *testing.T) {
	p := NewPartitioner(LoadRules())
	run(p, time.Minute, func(time.Duration) Load { return Load{4, 0.95, 0, 0} })
	for left := 3; left >= 0; left-- {
		if p.Observe(start.Add(time.Minute), Load{left, 0.95, 0, 0}) == "" || p.Parts() != max(left, 1) {
			if left > 0 {
				t.Errorf("%d partitions with %d schedulers", p.Parts(), left)
			}
		}
	}
}

// TestAlways: by default there are as many partitions as schedulers, at once, as these come and go.
func TestAlways(t *testing.T) {
	p := NewPartitioner(DefaultRules())
	for i, schedulers := range []int{1, 3, 4, 4, 2, 1, 0, 2, MaxParts, MaxParts + 300} {
		before := p.Parts()
		why := p.Observe(start.Add(time.Duration(i)*time.Second), Load{Schedulers: schedulers})
		if p.Parts() != min(max(schedulers, 1), MaxParts) || (why != "") != (p.Parts() != before) {
			t.Errorf("%d partitions for %d schedulers, because %q", p.Parts(), schedulers, why)
		}
	}
}

// TestNothingFlaps plays a week of loads that swing about the limits with noise: a cluster that is 90 % full on average, and one whose rate crosses its limit
// each day. Partitions come and go with the tide and not with the noise. Without hysteresis and delay they change hundreds of times.
func TestNothingFlaps(t *testing.T) {
	const days = 7
	loads := map[string]func(*rand.Rand) func(time.Duration) Load{
		"fullness": func(rng *rand.Rand) func(time.Duration) Load {
			return func(at time.Duration) Load {
				return Load{4, 0.87 + 0.1*math.Sin(2*math.Pi*at.Hours()/24) + 0.02*rng.NormFloat64(), 100, 0}
			}
		},
		"rate": func(rng *rand.Rand) func(time.Duration) Load {
			return func(at time.Duration) Load {
				return Load{4, 0.5, max(1500+1300*math.Sin(2*math.Pi*at.Hours()/24)+200*rng.NormFloat64(), 0), 0.02 + 0.005*rng.NormFloat64()}
			}
		},
		"at the limit": func(rng *rand.Rand) func(time.Duration) Load {
			return func(time.Duration) Load { return Load{4, 0.9 + 0.01*rng.NormFloat64(), 0, 0} }
		},
	}
	count := func(name string, rules Rules) int {
		return len(run(NewPartitioner(rules), days*24*time.Hour, loads[name](rand.New(rand.NewPCG(1, 2)))))
	}
	hasty := LoadRules()
	hasty.MergeAllocated, hasty.MergePerSecond, hasty.SplitAfter, hasty.MergeAfter = hasty.SplitAllocated, hasty.SplitPerSecond, 0, 0
	for name, most := range map[string]int{"fullness": 2 * days, "rate": 2 * days, "at the limit": 1} {
		changes, without := count(name, LoadRules()), count(name, hasty)
		if changes == 0 && name != "at the limit" || changes > most {
			t.Errorf("%s: %d changes in %d days, want some and at most %d", name, changes, days, most)
		}
		if without < 10*most {
			t.Errorf("%s: %d changes without hysteresis: this load shows nothing", name, without)
		}
	}
}

// TestNeverMoreThanSchedulers holds what always is so, for any load.
func TestNeverMoreThanSchedulers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := NewPartitioner(LoadRules())
		now, last := start, time.Time{}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			now = now.Add(rapid.SampledFrom([]time.Duration{time.Second, 10 * time.Second, time.Minute}).Draw(t, "later"))
			l := Load{
				rapid.IntRange(0, 8).Draw(t, "schedulers"), rapid.Float64Range(0, 1).Draw(t, "allocated"),
				rapid.Float64Range(0, 5000).Draw(t, "rate"), rapid.Float64Range(0, 0.1).Draw(t, "conflicts"),
			}
			before := p.Parts()
			why := p.Observe(now, l)
			switch {
			case p.Parts() > max(l.Schedulers, 1) || p.Parts() < 1:
				t.Fatalf("%d partitions with %d schedulers", p.Parts(), l.Schedulers)
			case (why == "") != (p.Parts() == before):
				t.Fatalf("from %d to %d partitions, because %q", before, p.Parts(), why)
			case p.Parts() > before && now.Sub(last) < LoadRules().SplitAfter && !last.IsZero():
				t.Fatalf("split %s after the change before", now.Sub(last))
			}
			if p.Parts() != before {
				last = now
			}
		}
	})
}

// TestDivisionsAreFair: each partition has as many nodes of a kind as the others, but for one, and the free capacity of many nodes is divided evenly.
func TestDivisionsAreFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.IntRange(1, MaxParts).Draw(t, "parts")
		nodes := make([]Node, rapid.IntRange(0, 500).Draw(t, "nodes"))
		slots := 0
		for i := range nodes {
			slots += rapid.IntRange(1, 3).Draw(t, "gap")
			nodes[i] = Node{slots - 1, rapid.Int64Range(1, 3).Draw(t, "kind") * 1000, rapid.Int64Range(0, 1000).Draw(t, "free")}
		}
		of := Divide(nodes, parts, slots)
		counts := make(map[int64][]int)
		for _, n := range nodes {
			if counts[n.Kind] == nil {
				counts[n.Kind] = make([]int, parts)
			}
			counts[n.Kind][of[n.Slot]]++
		}
		for kind, list := range counts {
			least, most := math.MaxInt, 0
			for _, n := range list {
				least, most = min(least, n), max(most, n)
			}
			if most-least > 1 {
				t.Fatalf("kind %d: from %d to %d nodes", kind, least, most)
			}
		}
	})
	rng := rand.New(rand.NewPCG(3, 4))
	var nodes []Node
	for i := range 1000 {
		nodes = append(nodes, Node{i, 64_000, int64(rng.IntN(64_000))})
	}
	even := Divide(nodes, 8, 1000)
	if got := Imbalance(nodes, even, 8); got > 0.01 {
		t.Errorf("1,000 nodes: imbalance %.3f", got)
	}
	halves := make([]uint8, 1000)
	for i := range halves {
		halves[i] = uint8(min(int(nodes[i].Free)/8000, 7)) // the freest together
	}
	if got := Imbalance(nodes, halves, 8); got < 1 {
		t.Errorf("an uneven division has imbalance %.3f", got)
	}
}
