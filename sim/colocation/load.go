package colocation

import (
	"math"
	"math/rand/v2"
	"time"

	"hilbert.dev/hilbert/sim/corun"
)

// What services are like.
const (
	servicesPerNode = 6
	apps            = 48 // services are instances of so many applications
	appSpread       = 2 * time.Hour
	// noise of a service's load from second to second, and how long it lasts.
	noiseShare, noiseSeconds = 0.12, 20.0
	// burstEvery: a service has a burst about so often, of 5 to 90 s, in which it wants 1.3 to 2 times as much.
	burstEvery = 3 * time.Hour
	// most of what a service asked for it may want: then its CPUs are busy, as siblings slow them, and balancers send the rest elsewhere.
	mostOfRequest = 0.65
	// memoryUsed is what services' working sets have of the machine's memory; they ask for memoryAsked times that.
	memoryUsed, memoryAsked = 0.45, 1.5
)

// app is what the instances of one application have in common.
type app struct {
	curve            []float64
	tidal            bool
	shift            float64 // seconds
	mean, target     float64 // seconds
	bandwidth, cache float64
	weight           float64 // of its load, against others'
}

// drawApps makes the applications of a fleet: half follow tides, around a common time of day; the curves of the others are drawn for each instance.
func drawApps(o *Options) []app {
	r := rand.New(rand.NewPCG(o.Seed, streamApps))
	common := r.Float64() * 86400
	list := make([]app, apps)
	for i := range list {
		a := &list[i]
		a.tidal = len(o.Use.Rows) == 0 || len(o.Tide.Rows) > 0 && i%2 == 0
		if a.tidal {
			a.curve = o.Tide.Rows[r.IntN(len(o.Tide.Rows))]
		}
		a.shift = common + r.NormFloat64()*appSpread.Seconds()/2
		a.mean = 0.002 * math.Exp(r.Float64()*math.Log(10))
		a.target = a.mean * math.Log(100) * (1.8 + 1.2*r.Float64())
		a.bandwidth = 0.3 + 1.7*r.Float64()
		a.cache = 1 + 2*r.Float64()
		a.weight = math.Exp(0.3 * r.NormFloat64())
	}
	return list
}

// source is the load of one service.
type source struct {
	curve         []float64
	scale, shift  float64 // CPUs by point of the curve; seconds
	most          float64 // CPUs
	level, slope  float64 // of the current minute
	noise         float64
	burst         float64 // factor, while burstLeft seconds are left
	burstLeft     int
	dayly, jitter float64 // of today: a factor, and seconds
}

// load is what the services of one node want.
type load struct {
	services []corun.Service
	sources  []source
	rng      *rand.Rand
	offered  []float64
}

// drawLoads makes the services of all nodes, scaled so that the day's mean is Options.Offered.
func drawLoads(o *Options) []*load {
	list := drawApps(o)
	r := rand.New(rand.NewPCG(o.Seed, streamServices))
	loads, sum := make([]*load, o.Nodes), 0.0
	for i := range loads {
		loads[i] = drawLoad(o, list, r)
		loads[i].rng = rand.New(rand.NewPCG(o.Seed, streamNodes+uint64(i)))
		for k := range loads[i].sources {
			sum += loads[i].sources[k].dayMean()
		}
	}
	for range 4 { // because of the cap, scaling once is not enough
		factor := o.Offered * float64(o.Machine.CPUs()*o.Nodes) / sum
		sum = 0
		for _, l := range loads {
			for k := range l.sources {
				l.sources[k].scale *= factor
				sum += l.sources[k].dayMean()
			}
		}
	}
	return loads
}

func drawLoad(o *Options, list []app, r *rand.Rand) *load {
	l := &load{offered: make([]float64, servicesPerNode)}
	requested := o.Requested * float64(o.Machine.NUMANodes*o.Machine.Divisible())
	memory := memoryUsed * float64(o.Machine.Memory) * float64(o.Machine.NUMANodes)
	for i := range servicesPerNode {
		a := &list[r.IntN(len(list))]
		part := (0.8 + 0.4*r.Float64()) / servicesPerNode
		s := corun.Service{
			NUMANode: i % o.Machine.NUMANodes, Request: requested * part, Mean: a.mean, Target: a.target, Bandwidth: a.bandwidth, Cache: a.cache, Memory: memory * part,
		}
		src := source{curve: a.curve, shift: a.shift, scale: s.Request * a.weight, most: s.Request * mostOfRequest, burst: 1, dayly: 1}
		if !a.tidal {
			src.curve, src.shift = o.Use.Rows[r.IntN(len(o.Use.Rows))], 0
			src.scale *= usualUse // its points are shares, the tides' have mean 1
		}
		l.services, l.sources = append(l.services, s), append(l.sources, src)
	}
	return l
}

// usualUse makes what machines of a trace use worth what tides are: one over a mean use of an eighth.
const usualUse = 8

func (s *source) dayMean() float64 {
	sum := 0.0
	for _, v := range s.curve {
		sum += min(v*s.scale, s.most)
	}
	return sum / float64(len(s.curve))
}

// base is what the service wants at a second of the day, without noise.
func (s *source) base(second float64) float64 {
	at := math.Mod(second+s.shift+s.jitter, 86400)
	if at < 0 {
		at += 86400
	}
	at *= float64(len(s.curve)) / 86400
	i := int(at)
	if i >= len(s.curve) {
		i = 0
	}
	v := s.curve[i] + (s.curve[(i+1)%len(s.curve)]-s.curve[i])*(at-float64(i))
	return min(v*s.scale*s.dayly, s.most)
}

// newDay gives each service another day: a little more or less, a little earlier or later.
func (l *load) newDay() {
	for i := range l.sources {
		s := &l.sources[i]
		s.dayly = 0.85 + 0.3*l.rng.Float64()
		s.jitter = (l.rng.Float64()*2 - 1) * 900
	}
}

// newMinute looks at the curves, and draws bursts.
func (l *load) newMinute(second int64) {
	at := float64(second)
	for i := range l.sources {
		s := &l.sources[i]
		s.level = s.base(at)
		s.slope = (s.base(at+60) - s.level) / 60
		if s.burstLeft <= 0 && l.rng.Float64() < float64(time.Minute)/float64(burstEvery) {
			s.burst, s.burstLeft = 1.3+0.7*l.rng.Float64(), 5+l.rng.IntN(86)
		}
	}
}

// next is what each service wants in the next second, times factor, in CPUs.
func (l *load) next(factor float64) []float64 {
	const keep = 1 - 1/noiseSeconds
	for i := range l.sources {
		s := &l.sources[i]
		u := l.rng.Uint64() // the sum of four uniform numbers is nearly normal, and cheap
		sum := float64(u&0xffff) + float64(u>>16&0xffff) + float64(u>>32&0xffff) + float64(u>>48)
		normal := (sum/65535 - 2) * 1.7320508
		s.noise = keep*s.noise + noiseShare*0.3122499*normal // sqrt(1-keep²)
		v := s.level * max(1+s.noise, 0.2) * factor
		if s.burstLeft > 0 {
			v *= s.burst
			s.burstLeft--
		}
		l.offered[i] = min(v, s.most)
		s.level += s.slope
	}
	return l.offered
}

// mean is what each service wants at a second of the day without noise.
func (l *load) mean(second int64) []float64 {
	for i := range l.sources {
		l.offered[i] = l.sources[i].base(float64(second))
	}
	return l.offered
}
