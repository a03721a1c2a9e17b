package advise

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/api/spec"
)

const gibibyte = 1 << 30

// usageMachine has 16 CPUs and 64 GiB. It takes a reading each second.
type usageMachine struct {
	state UsageState
	at    time.Duration
}

func (m *usageMachine) reading(cpu, reclaimed, gib float64) *UsageReading {
	return &UsageReading{
		At: m.at, CPU: Known(cpu), ReclaimedCPU: Known(reclaimed), CPUs: 16, Memory: Known(gib * gibibyte), Reclaimed: Known(gibibyte), MemoryTotal: Known(64 * gibibyte),
	}
}

// run lets so many seconds pass.
func (m *usageMachine) run(seconds int, cpu, reclaimed, gib float64) (said *spec.NodeUsage) {
	for range seconds {
		m.at += time.Second
		said = Usage(m.reading(cpu, reclaimed, gib), &m.state)
	}
	return said
}

func (m *usageMachine) blind(seconds int) (said *spec.NodeUsage) {
	for range seconds {
		m.at += time.Second
		said = Usage(&UsageReading{At: m.at, CPUs: 16}, &m.state)
	}
	return said
}

// wantSteady: 4 CPUs and 16 GiB are said.
func wantSteady(t *testing.T, when string, got *spec.NodeUsage) {
	t.Helper()
	if got == nil || got.MilliCPU != 4000 || got.MemoryMiB != 16<<10 || got.WindowSeconds != 90 {
		t.Errorf("%s: %+v; want 4 CPUs and 16 GiB", when, got)
	}
}

// The node uses what its pods do, reclaimed pods apart, and says so when enough was seen.
func TestUsage(t *testing.T) {
	m := &usageMachine{}
	if got := m.run(90, 6, 2, 17); got != nil {
		t.Errorf("after 90 readings, which are 89 seconds: %+v", got)
	}
	wantSteady(t, "after the window", m.run(1, 6, 2, 17))
	wantSteady(t, "reclaimed pods use more", m.run(100, 12, 8, 17))
	wantSteady(t, "a little more is not said", m.run(300, 6.7, 2, 19))
	got := m.run(30, 10, 2, 17)
	if got.MilliCPU < 5500 || got.MilliCPU > 7000 {
		t.Errorf("half a minute after a step from 4.7 to 8 CPUs: %+v", got)
	}
	if got = m.run(90, 10, 2, 17); got.MilliCPU < 7200 || got.MilliCPU > 8000 {
		t.Errorf("two minutes after it: %+v", got)
	}
	if got = m.run(120, 10, 2, 33); got.MemoryMiB < 28<<10 {
		t.Errorf("two minutes after a step of memory to 32 GiB: %+v", got)
	}
}

// What is not seen is not known, and not zero.
func TestUsageIsNotKnown(t *testing.T) {
	m := &usageMachine{}
	m.run(200, 6, 2, 17)
	wantSteady(t, "readings are missing", m.blind(20))
	wantSteady(t, "they are there again", m.run(1, 6, 2, 17))
	if got := m.blind(31); got != nil {
		t.Errorf("blind for half a minute: %+v", got)
	}
	if got := m.run(90, 6, 2, 17); got != nil {
		t.Errorf("a new average is said before it covers its window: %+v", got)
	}
	wantSteady(t, "after the window", m.run(1, 6, 2, 17))
	m.at -= time.Hour
	if got := m.run(1, 6, 2, 17); got != nil {
		t.Errorf("the clock went back: %+v", got)
	}
	for name, spoil := range map[string]func(*UsageReading){
		"CPU": func(r *UsageReading) { r.CPU = Sample{} }, "reclaimed CPU": func(r *UsageReading) { r.ReclaimedCPU = Sample{} },
		"memory": func(r *UsageReading) { r.Memory = Sample{} }, "reclaimed memory": func(r *UsageReading) { r.Reclaimed = Sample{} },
		"total": func(r *UsageReading) { r.MemoryTotal = Sample{} },
	} {
		m := &usageMachine{}
		for range 200 {
			m.at += time.Second
			r := m.reading(6, 2, 17)
			spoil(r)
			if got := Usage(r, &m.state); got != nil {
				t.Fatalf("%s was never seen: %+v", name, got)
			}
		}
	}
}

// What is said lies between the least and the greatest reading, and is never further from the average than a step.
func TestUsageBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &usageMachine{}
		least, most := math.Inf(1), math.Inf(-1)
		for range rapid.IntRange(1, 30).Draw(t, "phases") {
			cpu := rapid.Float64Range(0, 20).Draw(t, "cpu")
			if rapid.IntRange(0, 5).Draw(t, "blind") == 0 {
				if seconds := rapid.IntRange(1, 60).Draw(t, "blind for"); m.blind(seconds) == nil && !m.state.seen {
					least, most = math.Inf(1), math.Inf(-1)
				}
				continue
			}
			least, most = min(least, cpu), max(most, cpu)
			said := m.run(rapid.IntRange(1, 100).Draw(t, "seconds"), cpu, 0, 8)
			if said == nil {
				continue
			}
			value := float64(said.MilliCPU) / 1000
			if value < least-0.001 || value > most+0.001 || math.Abs(value-m.state.cpu) > usageStep*16+0.001 {
				t.Fatalf("%v is said; readings were from %v to %v, the average is %v", value, least, most, m.state.cpu)
			}
		}
	})
}
