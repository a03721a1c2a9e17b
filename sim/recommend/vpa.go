package recommend

import (
	"math"
	"time"

	"hilbert.dev/hilbert/control/recommend"
)

// The defaults of the Vertical Pod Autoscaler, version 1.5: pkg/recommender/logic/recommender.go, model/aggregations_config.go and
// pkg/updater/priority/update_priority_calculator.go.
const (
	vpaMargin                   = 0.15
	vpaTarget, vpaLow, vpaHigh  = 0.9, 0.5, 0.95
	vpaHalfLife, vpaPeakLength  = 24 * time.Hour, 24 * time.Hour
	vpaFloorCPU, vpaFloorMemory = 0.025, 250 << 20
	vpaMinWeight                = 0.1
	oomFactor, oomBytes         = 1.2, 100 << 20
	vpaLifetime, vpaDifference  = 12 * time.Hour, 0.1
)

// vpa is the Vertical Pod Autoscaler: its recommender's estimates, and its updater's rule of when a pod is made anew. In place, the pod is resized
// instead, which changes only that its age goes on.
type vpa struct {
	inPlace             bool
	cpu, memory         *recommend.Histogram
	first, last         time.Time
	samples             int64
	windowEnd           time.Time
	memoryPeak, oomPeak float64
	held                recommend.Amounts
	started             time.Time
	updates             int
	ranOutNow           bool
}

func newVPA(inPlace bool) *vpa {
	return &vpa{
		inPlace: inPlace,
		cpu:     recommend.NewHistogram(recommend.Scale{First: 0.01, Growth: 1.05, Most: 1000}, vpaHalfLife),
		memory:  recommend.NewHistogram(recommend.Scale{First: 1e7, Growth: 1.05, Most: 1e12}, vpaHalfLife),
	}
}

func (p *vpa) see(s recommend.Sample, at time.Time) {
	if s.CPU >= 0 {
		if p.first.IsZero() {
			p.first = at
		}
		p.cpu.Add(s.CPU, vpaMinWeight, at)
		p.last = at
		p.samples++
	}
	if s.Memory >= 0 {
		p.addMemory(s.Memory, at, false)
	}
}

// addMemory keeps one peak a window, as ContainerState.addMemorySample does.
func (p *vpa) addMemory(bytes float64, at time.Time, oom bool) {
	if p.windowEnd.IsZero() {
		p.windowEnd = at
	}
	add := false
	if at.Before(p.windowEnd) {
		if old := max(p.memoryPeak, p.oomPeak); old != 0 && bytes > old {
			p.memory.Subtract(old, 1, p.windowEnd)
			add = true
		}
	} else {
		p.windowEnd = p.windowEnd.Add(at.Sub(p.windowEnd).Truncate(vpaPeakLength) + vpaPeakLength)
		p.memoryPeak, p.oomPeak = 0, 0
		add = true
	}
	if !add {
		return
	}
	p.memory.Add(bytes, 1, p.windowEnd)
	if oom {
		p.oomPeak = bytes
	} else {
		p.memoryPeak = bytes
	}
}

func (p *vpa) ranOut(had float64, at time.Time) {
	used := max(had, p.memoryPeak)
	p.addMemory(max(used+oomBytes, used*oomFactor), at, true)
	p.ranOutNow = true
}

// estimate is a percentile with margin, not below the floor.
func (p *vpa) estimate(share float64) recommend.Amounts {
	cpu, _ := p.cpu.Percentile(share)
	memory, _ := p.memory.Percentile(share)
	return recommend.Amounts{CPU: max(cpu*(1+vpaMargin), vpaFloorCPU), Memory: max(memory*(1+vpaMargin), vpaFloorMemory)}
}

// confidence is days of history, by its length or by its samples, of which there would be one a minute: here the length.
func (p *vpa) confidence() float64 { return p.last.Sub(p.first).Hours() / 24 }

func (p *vpa) allocate(now time.Time, fresh bool) recommend.Amounts {
	if p.samples == 0 {
		return p.held
	}
	target := p.estimate(vpaTarget)
	if fresh || p.held == (recommend.Amounts{}) {
		p.held, p.started, p.ranOutNow = target, now, false
		return p.held
	}
	c := p.confidence()
	low, high := p.estimate(vpaLow), p.estimate(vpaHigh)
	below, above := math.Pow(1+0.001/c, -2), 1+1/c
	outside := p.held.CPU < low.CPU*below || p.held.Memory < low.Memory*below || p.held.CPU > high.CPU*above || p.held.Memory > high.Memory*above
	difference := math.Abs(target.CPU-p.held.CPU)/p.held.CPU + math.Abs(target.Memory-p.held.Memory)/p.held.Memory
	old := now.Sub(p.started) >= vpaLifetime
	if outside || p.ranOutNow || old && difference >= vpaDifference {
		p.held = target
		if !p.inPlace || p.ranOutNow {
			p.started = now
		}
		p.ranOutNow = false
		p.updates++
	}
	return p.held
}
