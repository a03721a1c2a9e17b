package advise

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// tide is days of an online load on one NUMA node of 64 CPUs: a wave by day, noise, and now and then a crowd that doubles it at once.
type tide struct {
	r            *rand.Rand
	noise, crowd float64
}

func (l *tide) demand(wall time.Time) float64 {
	hour := float64(wall.Hour()) + float64(wall.Minute())/60
	l.noise = 0.9*l.noise + l.r.NormFloat64()*0.03
	switch {
	case l.crowd > 0.01:
		l.crowd *= 0.99
	case l.r.IntN(2*3600) == 0:
		l.crowd = 1
	}
	return max(0, 16*(1-0.7*math.Cos((hour-3)*math.Pi/12))*(1+l.noise+l.crowd))
}

// day is what came of a day, as shares: of the machine's CPUs busy, and of the time in which the shared pools were so busy that online pods wait.
type day struct{ busy, online, waited, headroom float64 }

// live runs days of it with enough reclaimed work; what is lent is there a second later.
func live(p *Params, days int, seed uint64) (out []day) {
	const cpus, full = 64, 0.9
	l := tide{r: rand.New(rand.NewPCG(seed, 1))}
	o, m := quiet(1), State{}
	o.NUMANodes[0].Divisible, o.NUMANodes[0].SharedRequests = cpus, Known(cpus)
	o.Wall = o.Wall.Truncate(24 * time.Hour)
	for range days {
		d := day{}
		const ticks = 24 * 3600
		for range ticks {
			o.At, o.Wall = o.At+time.Second, o.Wall.Add(time.Second)
			z := &o.NUMANodes[0]
			shared, want := float64(cpus-z.Lent), l.demand(o.Wall)
			use := min(want, shared)
			busy := use / shared
			z.SharedUse, z.SharedDelay = Known(use), Known(queue(busy, shared)+want-use)
			o.Node.CPUPressure = Known(min(1, z.SharedDelay.Value/shared))
			d.online += use / cpus / ticks
			d.busy += (use + float64(z.Lent)) / cpus / ticks
			if want > full*shared {
				d.waited += 1.0 / ticks
			}
			a := Step(o, p, &m)
			d.headroom += float64(a.NUMANodes[0].CPU.Published) / 1000 / cpus / ticks
			z.Lent = a.NUMANodes[0].Lend * z.Threads
		}
		out = append(out, d)
	}
	return out
}

// queue is about how many threads wait for CPUs that are so busy (Sakasegawa's approximation of M/M/c).
func queue(busy, cpus float64) float64 {
	if busy >= 1 {
		return 1
	}
	return math.Pow(busy, math.Sqrt(2*(cpus+1))) / (1 - busy)
}

// The day of a machine whose online pods use a quarter of it fills up, and they do not pay for it; with the feedback off, they do.
func TestTide(t *testing.T) {
	p := Defaults()
	for i, d := range live(&p, 3, 1) {
		t.Logf("day %d: %+v", i, d)
		if d.online > 0.31 || d.busy < 0.6 || d.waited > 0.005 {
			t.Errorf("day %d: %+v, want 60 %% busy and less than 0.5 %% of the time waited", i, d)
		}
	}
	p.TargetUse, p.Margin, p.MarginShare, p.RequestShare, p.ShrinkAfter, p.CutShare, p.HoldMin, p.HoldMax = 1, 0, 0, 0, 0, 0, 0, 0
	p.DelayHigh, p.DelayCritical, p.PressureHigh, p.PressureCritical = 1e9, 1e9, 1e9, 1e9
	if d := live(&p, 1, 1)[0]; d.waited < 0.05 {
		t.Errorf("without feedback they hardly wait: %+v", d)
	} else {
		t.Logf("without: %+v", d)
	}
}
