package demo

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"time"

	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/sim/trace"
)

const (
	// arrivalTarget is how long the arrivals of a trace take when the time scale is chosen here.
	arrivalTarget = 100 * time.Second
	// arrivalsPerSecond bounds the mean rate of arrivals when the time scale is chosen here: what two cores carry with ease.
	arrivalsPerSecond = 150
	// quietest is the longest time without an arrival; longer quiet stretches of a trace are shortened to it.
	quietest = time.Second
	// loadTarget is the part of the scarcest resource that tasks ask for at the peak when the scale of lives is chosen here.
	loadTarget = 0.7
	// minScale and maxScale bound what is chosen and accepted.
	minScale, maxScale = 1e-3, 1e9
	// longestLife bounds a task's time to run.
	longestLife = 365 * 24 * time.Hour
)

// pace maps a trace's clock to that of the replay. Arrivals keep their order; their clock runs scale times faster, and faster still
// through quiet stretches. Lives are divided by a scale of their own: at the speed at which months of arrivals pass in minutes, most
// tasks of a real trace would be gone before they are seen.
type pace struct {
	scale, lifeScale float64
	shortened        int             // how many quiet stretches were
	knots            []int64         // trace times of arrivals, ascending, ns
	wall             []time.Duration // of the replay, at each knot
}

// newPace makes a pace. Without a scale (0) one is chosen here at which all arrive in arrivalTarget. Without a scale of lives it is that
// of arrivals, if that was given; else it is chosen such that the peak asks for loadTarget of the cluster.
func newPace(w *trace.Workload, scale, lifeScale float64) (pace, error) {
	for what, x := range map[string]float64{"time scale": scale, "life scale": lifeScale} {
		if x != 0 && !(x >= minScale && x <= maxScale) {
			return pace{}, fmt.Errorf("%s %g: want a number from %g to %g, or nothing to have one chosen", what, x, minScale, maxScale)
		}
	}
	var times []int64
	for i := range w.Tasks {
		times = append(times, w.Tasks[i].Created)
	}
	slices.Sort(times)
	p := pace{knots: slices.Compact(times), lifeScale: cmp.Or(lifeScale, scale)}
	p.run(cmp.Or(scale, p.chooseScale(len(w.Tasks))))
	if p.lifeScale == 0 {
		p.lifeScale = p.chooseLifeScale(w)
	}
	return p, nil
}

// run lays the knots out for a scale.
func (p *pace) run(scale float64) {
	p.scale, p.shortened = scale, 0
	p.wall = make([]time.Duration, len(p.knots))
	for i := 1; i < len(p.knots); i++ {
		gap := scaledBy(p.knots[i]-p.knots[i-1], scale)
		if gap > quietest {
			gap = quietest
			p.shortened++
		}
		p.wall[i] = p.wall[i-1] + gap
	}
}

func scaledBy(ns int64, scale float64) time.Duration {
	return time.Duration(min(float64(ns)/scale, float64(longestLife)))
}

// chooseScale is the least scale of at least 1 at which all have arrived in time.
func (p *pace) chooseScale(tasks int) float64 {
	target := max(arrivalTarget, time.Duration(float64(tasks)/arrivalsPerSecond*float64(time.Second)))
	return leastPower(maxScale, func(scale float64) bool {
		p.run(scale)
		return len(p.wall) == 0 || p.wall[len(p.wall)-1] <= target
	})
}

// chooseLifeScale is about the scale of at least 1 at which the peak asks for loadTarget of the scarcest resource.
func (p *pace) chooseLifeScale(w *trace.Workload) float64 {
	return leastPower(maxScale, func(scale float64) bool {
		p.lifeScale = scale
		return p.peakLoad(w) < loadTarget
	})
}

// leastPower is about the least number from 1 to most for which enough holds, or 1 if it holds for none; enough is monotone.
func leastPower(most float64, enough func(float64) bool) float64 {
	if !enough(most) {
		return 1
	}
	const steps = 400
	i := sort.Search(steps, func(i int) bool { return enough(math.Pow(most, float64(i)/steps)) })
	x := math.Pow(most, float64(i)/steps)
	digits := math.Pow10(int(math.Floor(math.Log10(x))) - 1)
	return math.Ceil(x/digits-1e-9) * digits // two digits are easier to repeat
}

// at is when a moment of the trace comes in the replay.
func (p *pace) at(ns int64) time.Duration {
	i, found := slices.BinarySearch(p.knots, ns)
	switch {
	case found:
		return p.wall[i]
	case i == 0:
		return 0
	case i == len(p.knots):
		return p.wall[i-1] + scaledBy(ns-p.knots[i-1], p.scale)
	}
	part := float64(ns-p.knots[i-1]) / float64(p.knots[i]-p.knots[i-1])
	return p.wall[i-1] + time.Duration(part*float64(p.wall[i]-p.wall[i-1]))
}

// life is how long a task runs in the replay; negative for ever.
func (p *pace) life(t *trace.Task) time.Duration {
	if t.Deleted == trace.Never {
		return -1
	}
	return scaledBy(t.Deleted-t.Created, p.lifeScale)
}

// peakLoad is the most that tasks ask for at one moment, as a part of what the nodes have, of the scarcest of CPU, memory and GPU, if
// every task started when it arrived.
func (p *pace) peakLoad(w *trace.Workload) float64 {
	type change struct {
		at               time.Duration
		cpu, memory, gpu int64
	}
	changes := make([]change, 0, 2*len(w.Tasks))
	for i := range w.Tasks {
		t := &w.Tasks[i]
		c := change{p.at(t.Created), t.Request(resource.NameCPU), t.Request(resource.NameMemory), t.Requirements.GPU.Total()}
		changes = append(changes, c)
		if life := p.life(t); life >= 0 {
			changes = append(changes, change{c.at + life, -c.cpu, -c.memory, -c.gpu})
		}
	}
	slices.SortStableFunc(changes, func(a, b change) int { return int(min(max(a.at-b.at, -1), 1)) })
	all := w.Capacity()
	part := func(used, all int64) float64 {
		if all <= 0 {
			return 0
		}
		return float64(used) / float64(all)
	}
	var now change
	most := 0.0
	for _, c := range changes {
		now.cpu, now.memory, now.gpu = now.cpu+c.cpu, now.memory+c.memory, now.gpu+c.gpu
		most = max(most, part(now.cpu, all.CPU), part(now.memory, all.Memory), part(now.gpu, all.GPUMilli))
	}
	return most
}

// notes says what the pace did to the trace.
func (p *pace) notes() []string {
	if len(p.knots) <= 1 {
		return []string{"All tasks of the trace arrive at once."}
	}
	note := fmt.Sprintf("Tasks arrive in the trace's order, %s times as fast", number(p.scale))
	if p.shortened > 0 {
		note += fmt.Sprintf("; %d quiet stretches were shortened to %g s", p.shortened, quietest.Seconds())
	}
	switch {
	case p.lifeScale < p.scale:
		note += fmt.Sprintf(". They live for their time in the trace divided by %s only, so that the cluster fills: at the speed of the arrivals most would be gone before they are seen",
			number(p.lifeScale))
	default:
		note += ". They live for their time in the trace divided by " + number(p.lifeScale)
	}
	return []string{note + "."}
}

func number(x float64) string {
	if x >= 10 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.2g", x)
}
