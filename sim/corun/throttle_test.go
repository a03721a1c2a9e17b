package corun

import (
	"math/rand/v2"
	"testing"
	"time"

	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/node/rdt/throttle"
)

// cpuMost is what one CPU moves at most in GB/s: of that the percentage is.
const cpuMost = 12.0

// throttled is what came of an hour.
type throttledHour struct {
	full       [MaxNUMANodes]int // seconds in which memory was full, from five minutes on
	late, work float64
	least      int // the least percentage
	changes    int
	held       int // readings at which growth was to be held
}

// playThrottle plays an hour on a machine of two NUMA nodes with services in both: light jobs, from the tenth minute on jobs that load the memory, from the fortieth on light ones again. The
// first NUMA node lends more cores in the twenty-fifth minute. law nil: the percentage stays.
func playThrottle(seed uint64, most int, law func(o *throttle.Observation, p *throttle.Params, s throttle.State) (throttle.Decision, throttle.State)) (out throttledHour, at map[int]int) {
	const every, minute = 10, 60
	m, costs := DefaultMachine(), DefaultParams()
	services := []Service{
		{NUMANode: 0, Request: 12, Mean: 0.01, Target: 0.13, Bandwidth: 3, Cache: 1, Memory: 8 << 30},
		{NUMANode: 1, Request: 12, Mean: 0.01, Target: 0.13, Bandwidth: 3, Cache: 1, Memory: 8 << 30},
	}
	n, random := NewNode(&m, &costs, services, true), rand.New(rand.NewPCG(seed, 7))
	p := throttle.Params{Carries: m.Bandwidth * 1e9, High: 0.9, Low: 0.8, Most: most, Least: 10, Step: throttle.DefaultStep, Hold: time.Minute, Stale: throttle.DefaultStale}
	percent, state, sums := [MaxNUMANodes]int{most, most}, throttle.State{}, [MaxNUMANodes][2]float64{}
	out.least, at = most, make(map[int]int)
	for z := range percent {
		n.Lend(z, 8, 0)
		n.Throttle(z, cpuMost*float64(most)/100)
	}
	job := func(id int64, bandwidth float64) {
		n.Start(Job{ID: id, MilliCPU: 60000, MemoryBytes: 8 << 30, Demand: 60, Work: 1e9, Bandwidth: bandwidth, Cache: 1, Memory: 8 << 30})
	}
	job(1, 0.5)
	for second := 1; second <= 60*minute; second++ {
		switch second {
		case 10 * minute:
			n.End(1)
			job(2, 6)
		case 25 * minute:
			n.Lend(0, 10, 0)
		case 40 * minute:
			n.End(2)
			job(3, 0.5)
		}
		n.Step([]float64{3.5 + random.Float64(), 3.5 + random.Float64()})
		o := throttle.Observation{At: time.Duration(second) * time.Second}
		for z := range percent {
			all, jobs := n.MemoryTraffic(z)
			sums[z][0], sums[z][1] = sums[z][0]+all, sums[z][1]+jobs
			if all >= 0.95*m.Bandwidth && second > 5*minute {
				out.full[z]++
			}
			if second%every == 0 {
				o.Domains = append(o.Domains, throttle.Domain{ID: z, Total: advise.Known(sums[z][0] / every * 1e9), Reclaimed: advise.Known(sums[z][1] / every * 1e9)})
				sums[z] = [2]float64{}
			}
		}
		if law == nil || second%every != 0 {
			continue
		}
		var d throttle.Decision
		d, state = law(&o, &p, state)
		if d.HoldGrowth {
			out.held++
		}
		for _, s := range d.Domains {
			if s.Percent != percent[s.Domain] {
				percent[s.Domain] = s.Percent
				out.changes++
				n.Throttle(s.Domain, cpuMost*float64(s.Percent)/100)
			}
			out.least = min(out.least, s.Percent)
		}
		if second%(10*minute) == 0 {
			at[second/minute] = percent[0]
		}
	}
	measured := n.Measured()
	out.late, out.work = float64(measured.Late)/float64(measured.Seconds), measured.Work
	return out, at
}

// The law keeps memory from being full where a fixed percentage does not, takes no more than that needs, changes seldom, and gives all back. More cores at the same percentage move more: it
// follows that too.
func TestThrottleClosesTheLoop(t *testing.T) {
	for seed := range uint64(5) {
		fixed, _ := playThrottle(seed, 60, nil)
		with, at := playThrottle(seed, 60, throttle.Step)
		t.Logf("seed %d: fixed %+v, with the law %+v, %v", seed, fixed, with, at)
		for z := range with.full {
			if fixed.full[z] < 25*60 || with.full[z] > 90 {
				t.Errorf("seed %d: of %d seconds in which memory of NUMA node %d is full the law leaves %d", seed, fixed.full[z], z, with.full[z])
			}
		}
		if with.late > fixed.late/4 || with.least < 20 || with.changes > 40 || with.held > 0 {
			t.Errorf("seed %d: %+v, fixed %+v", seed, with, fixed)
		}
		if at[10] != 60 || at[20] >= 60 || at[30] >= at[20] || at[60] != 60 {
			t.Errorf("seed %d: percentages by minute %v", seed, at)
		}
	}
}
