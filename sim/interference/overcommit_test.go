package interference

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/node/overcommit"
	"hilbert.dev/hilbert/sim/corun"
)

// packed is a machine that takes as many services as it may promise CPUs to. A service asks for two CPUs, uses some 24 percent of them on an idle machine, and stays for hours. Each minute is one second
// of the machine model.
type packed struct {
	random   *rand.Rand
	node     *corun.Node
	services []corun.Service
	ends     []int // minutes
	cpus     float64
	params   overcommit.Params
	state    overcommit.State
	percent  int
	fixed    bool // the percent stays what it is
	minute   int
	seen     advise.Observation
}

const asks = 2.0

func newPacked(seed uint64) *packed {
	machine, params := corun.DefaultMachine(), corun.DefaultParams()
	p := &packed{random: rand.New(rand.NewPCG(seed, 11)), node: corun.NewNode(&machine, &params, nil, false), params: overcommit.DefaultParams(), percent: 100}
	p.cpus = float64(machine.NUMANodes * machine.Divisible())
	return p
}

// pass lets minutes go by, and returns the share of services' seconds in which requests were late.
func (p *packed) pass(minutes int) float64 {
	before := *p.node.Measured()
	for range minutes {
		p.place()
		tide := 0.24 + 0.04*math.Sin(2*math.Pi*float64(p.minute)/(24*60))
		offered := make([]float64, len(p.services))
		for i := range offered {
			offered[i] = asks * tide * (1 + 0.1*p.random.NormFloat64())
		}
		p.node.Step(offered)
		p.judge()
		p.minute++
	}
	after := p.node.Measured()
	return float64(after.Late-before.Late) / float64(max(after.Seconds-before.Seconds, 1))
}

// place lets services end, and others come while there is room: at most one a minute, as the scheduler would for as long as the percent allows it.
func (p *packed) place() {
	for i, end := range slices.Backward(p.ends) {
		if end <= p.minute {
			p.node.RemoveService(i)
			p.services, p.ends = append(p.services[:i], p.services[i+1:]...), append(p.ends[:i], p.ends[i+1:]...)
		}
	}
	if asks*float64(len(p.services)+1) > p.cpus*float64(p.percent)/100 {
		return
	}
	here := [2]int{}
	for i := range p.services {
		here[p.services[i].NUMANode]++
	}
	s := corun.Service{NUMANode: 0, Request: asks, Mean: 0.005, Target: 0.1, Bandwidth: 0.5, Cache: 0.2, Memory: 1 << 30}
	if here[1] < here[0] {
		s.NUMANode = 1
	}
	p.node.AddService(s)
	p.services, p.ends = append(p.services, s), append(p.ends, p.minute+60+int(240*p.random.ExpFloat64()))
}

// judge shows the law what an agent sees.
func (p *packed) judge() {
	wall := time.Date(2026, time.March, 2, 0, p.minute, 0, 0, time.UTC)
	p.node.Observe(&p.seen, time.Duration(p.minute)*time.Minute, wall)
	r := overcommit.Reading{Wall: wall, CPUs: p.cpus, Asked: asks * float64(len(p.services))}
	for z := range p.seen.NUMANodes {
		r.Delay += p.seen.NUMANodes[z].SharedDelay.Value / p.cpus
	}
	for i := range p.seen.Services {
		r.Use += p.seen.Services[i].CPUUse.Value
		r.Pressure += p.seen.Services[i].CPUPressure.Value / float64(len(p.seen.Services))
	}
	if d := overcommit.Step(&r, &p.params, &p.state); !p.fixed {
		p.percent = d.Percent
	}
}

// TestRatioFallsAndVictimsRecover: nodes are over-committed after some days without harm to anybody; a hog comes, the ratio falls, services that end are not replaced, and those that
// stay recover; at a percent that a person fixed they do not. When the hog has gone the ratio rises again.
func TestRatioFallsAndVictimsRecover(t *testing.T) {
	t.Parallel()
	const hour, day = 60, 24 * 60
	for seed := range uint64(4) {
		var recovered [2]float64
		for i, fixed := range []bool{false, true} {
			p := newPacked(seed)
			p.pass(day)
			calm := p.pass(2 * day)
			if calm > 0.02 || p.percent < 130 || asks*float64(len(p.services)) < 1.2*p.cpus {
				t.Fatalf("seed %d: after three days %d percent, %d services, late in %.3f of the time", seed, p.percent, len(p.services), calm)
			}
			p.fixed = fixed
			p.node.Start(corun.Job{ID: 1, Demand: 24, Work: 1e9, Bandwidth: 1, Cache: 0.5, Memory: 1 << 30})
			harmed := p.pass(hour)
			if !fixed && p.percent > 100 {
				t.Errorf("seed %d: an hour after the hog came %d percent are promised", seed, p.percent)
			}
			p.pass(6 * hour)
			recovered[i] = p.pass(3 * hour)
			t.Logf("seed %d, fixed %t: late %.3f, with the hog %.3f, in the end %.3f; %d services at %d percent", seed, fixed, calm, harmed, recovered[i], len(p.services), p.percent)
			p.node.End(1)
			p.pass(8 * hour)
			if !fixed && p.percent <= 100 { // its hours are among the peaks of the week
				t.Errorf("seed %d: %d percent are promised eight hours after the hog has gone", seed, p.percent)
			}
		}
		if recovered[0] > 0.5*recovered[1] {
			t.Errorf("seed %d: late in %.3f of the time, and in %.3f at a fixed percent", seed, recovered[0], recovered[1])
		}
	}
}
