package numa

import (
	"fmt"
	"math"
)

// pairs are the comparisons: what binding alone is worth while CPUs are shared, and while they are not; and all that a dedicated pod changes.
func pairs() []Gain {
	return []Gain{{Of: Zoned, Against: Stock}, {Of: Bound, Against: Static}, {Of: Bound, Against: Stock}}
}

// gains compares placements, seed by seed.
func gains(runs []SeedOutcome) []Gain {
	all := pairs()
	for k := range all {
		g := &all[k]
		of := func(value func(*Latency) float64) Spread {
			var each []float64
			for i := range runs {
				blind, aware := value(&runs[i].Outcomes[g.Against].Latency), value(&runs[i].Outcomes[g.Of].Latency)
				if blind > 0 {
					each = append(each, 100*(1-aware/blind))
				}
			}
			return spread(each)
		}
		g.Mean = of(func(l *Latency) float64 { return l.Mean })
		g.P50 = of(func(l *Latency) float64 { return l.P50 })
		g.P99 = of(func(l *Latency) float64 { return l.P99 })
	}
	return all
}

// spread is the mean of the values and how far they lie apart. The deviation is that of a sample.
func spread(values []float64) (s Spread) {
	if len(values) == 0 {
		return s
	}
	s.Min, s.Max = values[0], values[0]
	for _, v := range values {
		s.Mean += v / float64(len(values))
		s.Min, s.Max = min(s.Min, v), max(s.Max, v)
	}
	squares := 0.0
	for _, v := range values {
		squares += (v - s.Mean) * (v - s.Mean)
	}
	s.Deviation = math.Sqrt(squares / float64(max(len(values)-1, 1)))
	return s
}

// variation is one parameter with another value.
type variation struct {
	name   string
	change func(*Options)
}

// scaled varies what a figure is beyond one, or from zero, times a half and twice.
func scaled(name string, beyond float64, fields func(*Options) []*float64) []variation {
	var all []variation
	for _, factor := range []float64{0.5, 2} {
		all = append(all, variation{fmt.Sprintf("%s ×%g", name, factor), func(o *Options) {
			for _, f := range fields(o) {
				*f = beyond + (*f-beyond)*factor
			}
		}})
	}
	return all
}

// set gives a parameter other values.
func set(name string, field func(*Options) *float64, values ...float64) []variation {
	var all []variation
	for _, v := range values {
		all = append(all, variation{fmt.Sprintf("%s %g", name, v), func(o *Options) { *field(o) = v }})
	}
	return all
}

// variations is the sweep: what is not named keeps its value.
func variations() []variation {
	all := []variation{{"as stated", func(*Options) {}}}
	for _, more := range [][]variation{
		scaled("distance", 1, func(o *Options) []*float64 { return []*float64{&o.Machine.Near, &o.Machine.Far} }),
		scaled("link", 0, func(o *Options) []*float64 { return []*float64{&o.Machine.Link} }),
		scaled("channels", 0, func(o *Options) []*float64 { return []*float64{&o.Machine.Bandwidth} }),
		scaled("flow", 0, func(o *Options) []*float64 { return []*float64{&o.Params.Flow} }),
		scaled("congestion", 0, func(o *Options) []*float64 { return []*float64{&o.Params.Congestion} }),
		set("sibling", func(o *Options) *float64 { return &o.Params.Sibling }, 0, 1),
		set("memoryBound", func(o *Options) *float64 { return &o.Params.MemoryBound }, 0, 0.25, 0.75),
		set("balanced", func(o *Options) *float64 { return &o.Params.Balanced }, 0, 0.5, 0.75, 1),
		set("load", func(o *Options) *float64 { return &o.Params.Load }, 0.3, 0.4, 0.6, 0.7),
		set("burst", func(o *Options) *float64 { return &o.Params.Burst }, 0.3, 0.6),
		set("variability", func(o *Options) *float64 { return &o.Params.Variability }, 0.25, 4),
		set("fixedMs", func(o *Options) *float64 { return &o.Params.Fixed }, 1, 5),
		set("full", func(o *Options) *float64 { return &o.Full }, 0.6, 0.95),
		{
			{"one loader", func(o *Options) { o.Params.OneLoader = true }},
			{"one NUMA node a socket", func(o *Options) {
				m := &o.Machine
				m.NUMANodes, m.CPUs, m.Memory, m.Bandwidth = 1, m.CPUs*m.NUMANodes, m.Memory*m.NUMANodes, m.Bandwidth*float64(m.NUMANodes)
			}},
		},
	} {
		all = append(all, more...)
	}
	return all
}
