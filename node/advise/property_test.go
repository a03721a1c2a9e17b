package advise

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// anySample is sensible, unknown, or nonsense.
func anySample(t *rapid.T, name string, high float64) Sample {
	switch rapid.IntRange(0, 9).Draw(t, name+" kind") {
	case 0:
		return Sample{}
	case 1:
		return Known(rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 1e300, 0}).Draw(t, name))
	}
	return Known(rapid.Float64Range(0, high).Draw(t, name))
}

// sane is a sample that a kernel can give, seldom unknown.
func sane(t *rapid.T, name string, high float64) Sample {
	if rapid.IntRange(0, 19).Draw(t, name+" known") == 0 {
		return Sample{}
	}
	return Known(rapid.Float64Range(0, high).Draw(t, name))
}

// drawn changes what is seen; with nonsense it need not be possible.
func drawn(t *rapid.T, o *Observation, nonsense bool) {
	of := sane
	if nonsense {
		of = anySample
	}
	o.At += time.Duration(rapid.IntRange(1, 15).Draw(t, "seconds")) * time.Second
	o.Wall = time.Unix(1_800_000_000, 0).UTC().Add(o.At)
	o.StopLending = rapid.IntRange(0, 30).Draw(t, "stop") == 0
	o.Node.CPUPressure = of(t, "pressure", 0.3)
	o.Node.MemoryPressure = of(t, "memory pressure", 0.1)
	o.Node.MemoryAvailable = of(t, "available", 256<<30)
	if rapid.IntRange(0, 9).Draw(t, "pods change") == 0 {
		o.Reclaimed = nil
		for i := range rapid.IntRange(0, 3).Draw(t, "pods") {
			o.Reclaimed = append(o.Reclaimed, Reclaimed{ID: fmt.Sprint(i), MilliCPU: 3000, MemoryBytes: 2 << 30, CPUUse: of(t, "got", 2), RunDelay: of(t, "waited", 9)})
		}
	}
	for i := range o.NUMANodes {
		z := &o.NUMANodes[i]
		if rapid.IntRange(0, 19).Draw(t, "cpus change") == 0 {
			z.Divisible = rapid.IntRange(0, 24).Draw(t, "cores") * z.Threads
		}
		z.SharedUse = of(t, "use", float64(max(z.Divisible, 0)))
		z.SharedDelay = of(t, "delay", 0.25*float64(max(z.Divisible, 0)))
		z.SharedRequests = of(t, "requests", 40)
		z.MemoryTotal = Known(64 << 30)
		z.MemoryFree = of(t, "free", 64<<30)
		z.InactiveFile = of(t, "file", 16<<30)
		z.ReclaimedMemory = of(t, "held", 16<<30)
		z.PromisedUse = of(t, "touched", 8<<30)
		z.Promised, z.Reserved = int64(rapid.IntRange(0, 8).Draw(t, "promised"))<<30, 1<<30
		if nonsense {
			z.Divisible = rapid.IntRange(-5, 40).Draw(t, "divisible")
			z.Threads = rapid.IntRange(-1, 4).Draw(t, "threads")
			z.Lent = rapid.IntRange(-5, 60).Draw(t, "lent")
			z.Promised = rapid.Int64().Draw(t, "promised at random")
			z.MemoryTotal = of(t, "total", 64<<30)
		}
	}
}

// start is a node of a drawn shape, and parameters near the defaults: short times, so that all is reached.
func start(t *rapid.T) (*Observation, Params) {
	o := quiet(rapid.IntRange(1, 3).Draw(t, "numaNodes"))
	for i := range o.NUMANodes {
		o.NUMANodes[i].Threads = rapid.IntRange(1, 2).Draw(t, "smt")
		o.NUMANodes[i].Divisible = rapid.IntRange(1, 24).Draw(t, "cores") * o.NUMANodes[i].Threads
		o.NUMANodes[i].Lent = 0
	}
	p := Defaults()
	p.ShrinkAfter = time.Duration(rapid.IntRange(0, 30).Draw(t, "shrink")) * time.Second
	p.RiseAfter = time.Duration(rapid.IntRange(0, 60).Draw(t, "rise")) * time.Second
	p.HoldMin = time.Duration(rapid.IntRange(0, 20).Draw(t, "hold")) * time.Second
	p.LendInterval = time.Duration(rapid.IntRange(1, 12).Draw(t, "interval")) * time.Second
	p.LendStep = rapid.Float64Range(0.05, 1).Draw(t, "step")
	p.MissingFor = 20 * time.Second
	p.DelayHigh, p.DelayCritical = 0.2, 0.24
	return o, p
}

// act has the pools follow the advice, or what is there stay.
func act(o *Observation, a *Advice, late bool) {
	for i := range o.NUMANodes {
		z := &o.NUMANodes[i]
		switch {
		case len(o.Reclaimed) == 0:
			z.Lent = 0
		case !late:
			z.Lent = a.NUMANodes[i].Lend * threads(z)
		}
		z.Lent = min(z.Lent, max(z.Divisible, 0))
	}
}

// Whatever is seen: no advice is negative, more than the machine has, or told late when it falls; the floor is kept.
func TestPropertyBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o, p := start(t)
		p.Explain = rapid.Bool().Draw(t, "explain")
		m, nonsense := State{}, rapid.Bool().Draw(t, "nonsense")
		for range rapid.IntRange(1, 60).Draw(t, "ticks") {
			drawn(t, o, nonsense)
			a := Step(o, &p, &m)
			bounded(t, o, &p, &a)
			act(o, &a, rapid.IntRange(0, 5).Draw(t, "late") == 0)
		}
	})
}

type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

func bounded(t failer, o *Observation, p *Params, a *Advice) {
	t.Helper()
	if len(a.NUMANodes) != len(o.NUMANodes) || a.Suppression < SuppressNone || a.Suppression > SuppressEvict {
		t.Fatalf("advice %+v", a)
	}
	for i, z := range a.NUMANodes {
		seen := &o.NUMANodes[i]
		if z.Lend < min(p.ReclaimedFloor, cores(seen)) || z.Lend > cores(seen) {
			t.Fatalf("NUMA node %d lends %d of %d cores", i, z.Lend, cores(seen))
		}
		if z.Lend > p.ReclaimedFloor && z.Lend > cores(seen)-p.SharedFloor {
			t.Fatalf("NUMA node %d lends %d of %d cores: the shared pools have a floor too", i, z.Lend, cores(seen))
		}
		if z.CPU.Now < 0 || z.CPU.Now > int64(divisible(seen))*1000 || z.CPU.Published < 0 {
			t.Fatalf("NUMA node %d: %d of %d CPUs, %d published", i, z.CPU.Now, divisible(seen), z.CPU.Published)
		}
		if z.CPU.Published > z.CPU.Now+p.CPUDeadband || z.Memory.Published > z.Memory.Now+p.MemoryDeadband {
			t.Fatalf("NUMA node %d hides a fall: %+v %+v", i, z.CPU, z.Memory)
		}
		if z.Memory.Now < 0 || z.Memory.Published < 0 || z.CPU.Reason == "" || z.Memory.Reason == "" || z.LendReason == "" {
			t.Fatalf("NUMA node %d: %+v", i, z)
		}
	}
}

// Lending moves one step in an interval, after the need was low for long enough; giving back and pressure are not slowed down.
func TestPropertySteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o, p := start(t)
		m, last, rose := State{}, Advice{}, make([]time.Duration, 3)
		needs := make([][]float64, 3)
		for range rapid.IntRange(1, 80).Draw(t, "ticks") {
			drawn(t, o, false)
			a := Step(o, &p, &m)
			for i := range o.NUMANodes {
				z, now := &o.NUMANodes[i], a.NUMANodes[i].Lend
				floor := min(p.ReclaimedFloor, cores(z))
				needs[i] = append(needs[i], z.SharedUse.Value/p.TargetUse+p.Margin)
				if z.SharedUse.Known && now > floor && float64(now*threads(z)) > float64(divisible(z))-needs[i][len(needs[i])-1]+1e-9 {
					t.Fatalf("%v: %d cores lent of %d CPUs while %v are needed", o.At, now, divisible(z), needs[i][len(needs[i])-1])
				}
				if len(last.NUMANodes) == 0 || now <= max(last.NUMANodes[i].Lend, floor, lent(z)) {
					continue
				}
				if step := max(1, int(float64(cores(z)-lent(z))*p.LendStep)); now-lent(z) > step {
					t.Fatalf("%v: from %d to %d cores at once, a step is %d", o.At, lent(z), now, step)
				}
				if o.At-rose[i] < p.LendInterval {
					t.Fatalf("%v: a step %v after the last", o.At, o.At-rose[i])
				}
				judged := tick{p: &p, pressure: o.Node.CPUPressure}
				grade := judged.grade(z)
				if !z.SharedUse.Known || !z.SharedRequests.Known || grade == unjudged || grade >= waiting || o.StopLending || len(o.Reclaimed) == 0 {
					t.Fatalf("%v: NUMA node %d lends more though it must not: %+v", o.At, i, z)
				}
				rose[i] = o.At
			}
			last = a
			last.NUMANodes = slices.Clone(a.NUMANodes)
			act(o, &a, rapid.IntRange(0, 3).Draw(t, "late") == 0)
		}
	})
}

// A headroom rises to no more than it was all the while, and not while anything is missing.
func TestPropertyRise(t *testing.T) {
	type point struct {
		at  time.Duration
		now int64
	}
	rapid.Check(t, func(t *rapid.T) {
		o, p := start(t)
		m, last := State{}, Advice{}
		cpu, memory := make([][]point, 3), make([][]point, 3)
		rises := func(i int, h, was Headroom, seen []point, missing bool) {
			if h.Published <= was.Published {
				return
			}
			if missing {
				t.Fatalf("%v: NUMA node %d rises to %d without its inputs", o.At, i, h.Published)
			}
			for _, at := range seen {
				if o.At-at.at <= p.RiseAfter && at.now < h.Published {
					t.Fatalf("%v: NUMA node %d rises to %d, but at %v it was %d", o.At, i, h.Published, at.at, at.now)
				}
			}
			if o.At-seen[0].at < p.RiseAfter {
				t.Fatalf("%v: NUMA node %d rises to %d after less than %v", o.At, i, h.Published, p.RiseAfter)
			}
		}
		for range rapid.IntRange(1, 80).Draw(t, "ticks") {
			drawn(t, o, false)
			a := Step(o, &p, &m)
			for i := range o.NUMANodes {
				z, was := &o.NUMANodes[i], NUMAAdvice{}
				if len(last.NUMANodes) > 0 {
					was = last.NUMANodes[i]
				}
				cpu[i] = append(cpu[i], point{o.At, a.NUMANodes[i].CPU.Now})
				memory[i] = append(memory[i], point{o.At, a.NUMANodes[i].Memory.Now})
				rises(i, a.NUMANodes[i].CPU, was.CPU, cpu[i], !z.SharedUse.Known)
				rises(i, a.NUMANodes[i].Memory, was.Memory, memory[i], !z.MemoryFree.Known || !z.InactiveFile.Known)
			}
			last = a
			last.NUMANodes = slices.Clone(a.NUMANodes)
			act(o, &a, false)
		}
	})
}

// grown is one tick after the same past, with a change to what is seen.
func grown(t *rapid.T, change func(*Observation)) (before, after Advice) {
	o, p := start(t)
	m := State{}
	for range rapid.IntRange(0, 40).Draw(t, "ticks") {
		drawn(t, o, false)
		a := Step(o, &p, &m)
		act(o, &a, false)
	}
	drawn(t, o, false)
	c := m.Clone()
	before = Step(o, &p, &m)
	change(o)
	return before, Step(o, &p, &c)
}

// More online use, delay or pressure never gives more to reclaimed pods.
func TestPropertyMonotoneInUse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		which := rapid.IntRange(0, 5).Draw(t, "input")
		more := rapid.Float64Range(0, 20).Draw(t, "more")
		before, after := grown(t, func(o *Observation) {
			z := &o.NUMANodes[0]
			switch which {
			case 0:
				z.SharedUse.Value = min(z.SharedUse.Value+more, float64(divisible(z)))
			case 1:
				z.SharedRequests.Value += more
			case 2: // so much that it cannot be quiet, for then pressure says what it had not said
				z.SharedDelay.Value += 0.02*float64(divisible(z)) + more
			case 3:
				o.Node.CPUPressure.Value += more
			case 4:
				z.MemoryFree.Value = max(0, z.MemoryFree.Value-more*(1<<30))
			case 5:
				o.Node.MemoryPressure.Value += more
			}
		})
		noMore(t, &before, &after)
	})
}

func noMore(t *rapid.T, before, after *Advice) {
	if before.Suppression != SuppressEvict && after.Suppression < before.Suppression {
		t.Fatalf("suppression falls from %v to %v", before.Suppression, after.Suppression)
	}
	b, a := before.NUMANodes[0], after.NUMANodes[0]
	if a.Lend > b.Lend || a.CPU.Now > b.CPU.Now || a.CPU.Published > b.CPU.Published || a.Memory.Now > b.Memory.Now || a.Memory.Published > b.Memory.Published {
		t.Fatalf("more is given\nbefore %+v\nafter  %+v", b, a)
	}
}

// More free CPUs or memory never give less.
func TestPropertyMonotoneInCapacity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		which := rapid.IntRange(0, 3).Draw(t, "input")
		more := rapid.IntRange(1, 8).Draw(t, "more")
		before, after := grown(t, func(o *Observation) {
			z := &o.NUMANodes[0]
			switch which {
			case 0:
				z.Divisible += more * z.Threads
			case 1:
				z.MemoryFree.Value += float64(more << 30)
			case 2:
				z.Promised = max(0, z.Promised-int64(more)<<30)
			case 3:
				o.Node.MemoryAvailable.Value += float64(more << 30)
			}
		})
		noMore(t, &after, &before)
	})
}

// What reclaimed pods use lowers no headroom, nor does what is lent while nobody waits.
func TestPropertyReclaimedUse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		use, delay := Known(rapid.Float64Range(0, 64).Draw(t, "use")), Known(rapid.Float64Range(0, 64).Draw(t, "delay"))
		before, after := grown(t, func(o *Observation) {
			for i := range o.NUMANodes {
				o.NUMANodes[i].LentUse = use
			}
			for i := range o.Reclaimed {
				o.Reclaimed[i].CPUUse, o.Reclaimed[i].RunDelay = use, delay
			}
		})
		for i := range before.NUMANodes {
			b, a := before.NUMANodes[i], after.NUMANodes[i]
			if a.CPU.Published != b.CPU.Published || a.Memory.Published != b.Memory.Published || a.Lend != b.Lend {
				t.Fatalf("before %+v\nafter  %+v", b, a)
			}
		}
	})
}

// Where use was never known, nothing but the floor is lent and nothing is offered, whatever else is.
func TestPropertyNeverKnown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o, p := start(t)
		m := State{}
		for range rapid.IntRange(1, 60).Draw(t, "ticks") {
			drawn(t, o, false)
			for i := range o.NUMANodes {
				o.NUMANodes[i].SharedUse, o.NUMANodes[i].MemoryFree = Sample{}, Sample{}
			}
			a := Step(o, &p, &m)
			for i, z := range a.NUMANodes {
				if z.Lend > p.ReclaimedFloor || z.CPU.Published > 0 || z.Memory.Published > 0 {
					t.Fatalf("NUMA node %d: %+v", i, z)
				}
			}
			if a.Suppression == SuppressEvict {
				t.Fatalf("evicts for what is not known")
			}
			act(o, &a, false)
		}
	})
}

// The same is advised for the same: from a memory that went through JSON, with the terms and without, and from the record.
func TestPropertyReplay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o, p := start(t)
		var m, plain State
		for range rapid.IntRange(0, 10).Draw(t, "before") {
			drawn(t, o, false)
			Step(o, &p, &m)
		}
		text, err := json.Marshal(&m)
		if err != nil || json.Unmarshal(text, &plain) != nil {
			t.Fatalf("the memory does not go through JSON: %v", err)
		}
		var b bytes.Buffer
		r, err := NewRecorder(&b, &p, &m)
		if err != nil {
			t.Fatal(err)
		}
		n, bare := rapid.IntRange(1, 20).Draw(t, "ticks"), p
		bare.Explain = true
		for range n {
			drawn(t, o, false)
			a, again := Step(o, &p, &m), Step(o, &bare, &plain)
			if !Same(&a, &again) {
				t.Fatalf("not the same:\n%+v\n%+v", a, again)
			}
			if err := r.Record(o, &a); err != nil {
				t.Fatal(err)
			}
			act(o, &a, false)
		}
		err = Replay(&b, nil, func(r Replayed) error {
			if n--; !Same(&r.Advice, r.Recorded) {
				return fmt.Errorf("line %d: %v", r.Line, Changes(r.Recorded, &r.Advice))
			}
			return nil
		})
		if err != nil || n != 0 {
			t.Fatalf("%d ticks not replayed, %v", n, err)
		}
	})
}

// FuzzStep runs the laws on whatever can be read as ticks.
func FuzzStep(f *testing.F) {
	seed, _ := json.Marshal(quiet(2))
	f.Add(string(seed) + "\n" + strings.ReplaceAll(string(seed), `"at":0`, `"at":5000000000`))
	f.Add(`{"at":-9223372036854775808,"numaNodes":[{"divisible":9223372036854775807,"threads":-1,"lent":-9223372036854775808}]}
{"at":9223372036854775807,"wall":"9999-12-31T23:59:59Z","numaNodes":[{"divisible":4,"sharedUse":{"value":1e308,"known":true},"promised":-9223372036854775808}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		d := json.NewDecoder(strings.NewReader(text))
		p, m := Defaults(), State{}
		p.Explain = true
		for range 50 {
			var o Observation
			if d.Decode(&o) != nil {
				return
			}
			a := Step(&o, &p, &m)
			bounded(t, &o, &p, &a)
			if _, err := json.Marshal(&a); err != nil {
				t.Fatal(err)
			}
			if _, err := json.Marshal(&m); err != nil {
				t.Fatal(err)
			}
		}
	})
}
