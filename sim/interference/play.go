package interference

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/node/interference"
	"hilbert.dev/hilbert/sim/corun"
)

// The times of a mix: windows of ten seconds, an hour of learning with innocent neighbours, then half an hour in which a hog may come.
const (
	windowSeconds = 10
	learnWindows  = 360
	totalWindows  = 540
	calmWindows   = 3
	noise         = 0.03
	// ownChanges is by how much a service's own requests change what its instructions take, ownLasts how much of that is still so a window later.
	ownChanges = 0.04
	ownLasts   = 0.9
	// probeWindows is for how many windows of one harm an agent has the run queues looked at.
	probeWindows = 12
)

// neighbour is a job that comes and goes.
type neighbour struct {
	job     corun.Job
	name    string
	on      bool
	period  float64 // mean seconds between changes
	gone    bool
	counted bool // it was there in the last window, and its memory bandwidth was read
	apart   bool // it has CPUs of its own: its use is seen, and nobody waits for it
	at      int  // the window in which it comes; 0: it comes and goes, or is the hog
}

// mix is one drawn machine and its outcome.
type mix struct {
	random     *rand.Rand
	node       *corun.Node
	services   []corun.Service
	phase      []float64
	neighbours []neighbour
	hog        int // -1: a control
	hogAt      int // window
	watches    []*interference.Watch
	sees       way
	queues     *rand.Rand // what the probe of the run queues sees, and who comes with the hog
	probed     []int      // windows in a row in which it looks for a service
	loads      *rand.Rand // what is measured of memory bandwidth
	seen       advise.Observation
	requests   *rand.Rand // what the services are asked to do changes
	own        []float64  // what that makes of each service's cycles per instruction
	late       []float64  // share of late seconds, by window
	out        outcome
}

// outcome is what was said in a mix.
type outcome struct {
	hog, harmed, falseAlarm, right bool
	largest                        bool // the hog is the neighbour that uses most, when one is named
	kind                           string
	named, relief                  float64 // seconds after the hog came; -1: never
}

// newMix draws a mix.
func newMix(seed uint64, hog bool, sees way, p *interference.Params) *mix {
	m := &mix{random: rand.New(rand.NewPCG(seed, 7)), requests: rand.New(rand.NewPCG(seed, 8)), queues: rand.New(rand.NewPCG(seed, 9)), loads: rand.New(rand.NewPCG(seed, 10)), hog: -1, sees: sees}
	machine, params := corun.DefaultMachine(), corun.DefaultParams()
	for z := range machine.NUMANodes {
		m.services = append(m.services, corun.Service{
			NUMANode: z, Request: 12 + 6*m.random.Float64(), Mean: 0.004 + 0.006*m.random.Float64(), Target: 0.1,
			Bandwidth: 1 + m.random.Float64(), Cache: 1 + m.random.Float64(), Memory: 8 << 30,
		})
		m.phase = append(m.phase, 2*math.Pi*m.random.Float64())
		m.watches = append(m.watches, interference.NewWatch(p))
		m.own = append(m.own, 0)
		m.probed = append(m.probed, 0)
	}
	m.node = corun.NewNode(&machine, &params, m.services, false)
	for i := range 4 + m.random.IntN(4) {
		m.neighbours = append(m.neighbours, neighbour{
			name: fmt.Sprint("job-", i), period: 120 + 600*m.random.Float64(),
			job: corun.Job{ID: int64(i), Demand: 0.5 + 1.5*m.random.Float64(), Work: 1e9, Bandwidth: 1, Cache: 0.5, Memory: 1 << 30},
		})
	}
	// One is large and steady, so that the largest is not always the hog.
	m.neighbours = append(m.neighbours, neighbour{
		name: "steady", job: corun.Job{ID: 99, Demand: 10 + 8*m.random.Float64(), Work: 1e9, Bandwidth: 1, Cache: 0.5, Memory: 1 << 30},
	})
	m.hogAt = learnWindows + m.random.IntN(60)
	job, kind := m.drawHog()
	if sees.crowd != "" {
		job, kind = m.comeTogether(), sees.crowd
	}
	if hog {
		m.hog, m.out.hog, m.out.kind = len(m.neighbours), true, kind
		m.neighbours = append(m.neighbours, neighbour{name: "hog", job: job})
	}
	return m
}

// comeTogether draws a hog of many threads, or of memory bandwidth, and one that comes with it and uses about as much on CPUs of its own: by their use the two cannot be told apart.
func (m *mix) comeTogether() corun.Job {
	innocent := corun.Job{ID: 98, Demand: 20 + 40*m.queues.Float64()}
	if m.sees.crowd == hogBandwidth { // what is with it computes, and loads the memory little
		innocent.Demand, innocent.Bandwidth = 6+10*m.queues.Float64(), 0.2
	}
	m.neighbours = append(m.neighbours, neighbour{name: "pinned", job: innocent, apart: true})
	if m.sees.crowd == hogBandwidth {
		return corun.Job{ID: 100, Demand: 8 + 6*m.queues.Float64(), Work: 1e9, Bandwidth: 12 + 6*m.queues.Float64(), Cache: 0.5, Memory: 2 << 30}
	}
	return corun.Job{ID: 100, Demand: 30 + 20*m.queues.Float64(), Work: 1e9, Bandwidth: 1, Cache: 0.5, Memory: 2 << 30}
}

// drawHog draws a neighbour that harms.
func (m *mix) drawHog() (corun.Job, string) {
	job := corun.Job{ID: 100, Demand: 4 + 4*m.random.Float64(), Work: 1e9, Bandwidth: 1, Cache: 0.5, Memory: 2 << 30}
	switch m.random.IntN(3) {
	case 0:
		job.Demand = 30 + 20*m.random.Float64()
		return job, hogThreads
	case 1:
		job.Demand = 8 + 6*m.random.Float64()
		job.Bandwidth = 12 + 6*m.random.Float64()
		return job, hogBandwidth
	}
	job.Demand = 8 + 6*m.random.Float64()
	job.Cache = 8 + 8*m.random.Float64()
	return job, hogCache
}

// play lets the mix pass.
func (m *mix) play() outcome {
	m.out.named, m.out.relief = -1, -1
	for w := range totalWindows {
		m.change(w)
		before := *m.node.Measured()
		offered := m.load(w)
		for range windowSeconds {
			m.node.Step(offered)
		}
		after := m.node.Measured()
		m.late = append(m.late, float64(after.Late-before.Late)/float64(max(after.Seconds-before.Seconds, 1)))
		m.watch(w, offered)
	}
	m.judge()
	return m.out
}

// change lets neighbours come and go.
func (m *mix) change(w int) {
	for i := range m.neighbours {
		n := &m.neighbours[i]
		turn := n.period == 0 && w == 0 || n.period > 0 && m.random.Float64() < windowSeconds/n.period
		if i == m.hog || n.apart {
			turn = w == m.hogAt
		}
		if n.at > 0 {
			turn = w == n.at
		}
		if n.gone || !turn {
			continue
		}
		switch n.on = !n.on; {
		case n.apart:
		case n.on:
			m.node.Start(n.job)
		default:
			m.node.End(n.job.ID)
		}
	}
}

// load is a tide with chance, in CPUs of an idle machine.
func (m *mix) load(w int) []float64 {
	offered := make([]float64, len(m.services))
	for i := range m.services {
		tide := 0.4 + 0.12*math.Sin(2*math.Pi*float64(w)/180+m.phase[i])
		offered[i] = m.services[i].Request * tide * (1 + noise*m.random.NormFloat64())
	}
	return offered
}

// watch shows each service's window to its Watch, and does what it says.
func (m *mix) watch(w int, offered []float64) {
	m.node.Observe(&m.seen, time.Duration(w*windowSeconds)*time.Second, time.Time{})
	measured := func(x float64) float64 { return max(x*(1+noise*m.random.NormFloat64()), 0) }
	var list []interference.Neighbour
	for i := range m.neighbours {
		n, use := &m.neighbours[i], 0.0
		if n.apart && n.on {
			use = max(n.job.Demand*(1+noise*m.queues.NormFloat64()), 0)
		}
		for k := range m.seen.Reclaimed {
			if n.on && m.seen.Reclaimed[k].ID == strconv.FormatInt(n.job.ID, 10) {
				use = measured(m.seen.Reclaimed[k].CPUUse.Value)
			}
		}
		list = append(list, interference.Neighbour{Name: n.name, Use: use, Bandwidth: m.bandwidth(n, use)})
	}
	now := time.Unix(int64(w*windowSeconds), 0).UTC()
	for i, watch := range m.watches {
		use := m.seen.Services[i].CPUUse.Value
		x := interference.Window{Neighbours: list, Load: measured(use) / m.services[i].Request}
		x.Signals[interference.Delay] = measured(m.seen.NUMANodes[m.services[i].NUMANode].SharedDelay.Value)
		x.Signals[interference.Pressure] = measured(m.seen.Services[i].CPUPressure.Value)
		x.Signals[interference.Indicator], x.Signals[interference.Cycles] = math.NaN(), math.NaN()
		switch {
		case m.sees.cycles:
			x.Signals[interference.Cycles] = m.cycles(i)
		case m.sees.name == withIndicator, m.sees.name == asAgent:
			x.Signals[interference.Indicator] = measured(use / offered[i])
		}
		m.probe(i, use, &x)
		if m.sees.name == withIndicator {
			x.Load = measured(offered[i]) / m.services[i].Request
		}
		for _, a := range watch.See(&x, now) {
			m.obey(w, &a)
		}
	}
}

// bandwidth is what a neighbour takes of the memory, by what it used; of one that has just come it is not known, for there is no reading before.
func (m *mix) bandwidth(n *neighbour, use float64) float64 {
	const giga = 1e9
	was := n.counted
	if n.counted = n.on; !m.sees.bandwidth || n.on && !was {
		return math.NaN()
	}
	return max(giga*use*n.job.Bandwidth*(1+noise*m.loads.NormFloat64()), 0)
}

// probe tells for whom a service waited, where that is looked at: for whoever ran on its CPUs, each by how much it ran. It begins a window after harm began, as an agent does.
func (m *mix) probe(i int, own float64, x *interference.Window) {
	switch watch := m.watches[i]; {
	case !m.sees.queues || !watch.Suspects():
		m.probed[i] = 0
		return
	case m.probed[i] >= probeWindows:
		return
	}
	m.probed[i]++
	x.Neighbours = slices.Clone(x.Neighbours)
	ran := own
	for k := range x.Neighbours {
		if !m.neighbours[k].apart {
			ran += x.Neighbours[k].Use / float64(len(m.services)) // jobs are spread over the NUMA nodes
		}
	}
	x.Probed, x.Waited = true, x.Signals[interference.Delay]
	for k := range x.Neighbours {
		if n := &x.Neighbours[k]; ran > 0 && !m.neighbours[k].apart {
			n.Ahead = max(x.Waited*n.Use/float64(len(m.services))/ran*(1+noise*m.queues.NormFloat64()), 0)
		}
	}
}

// cycles are what the processor's counters say of a service: what neighbours make of them, what other requests do, and noise.
func (m *mix) cycles(i int) float64 {
	m.own[i] = ownLasts*m.own[i] + ownChanges*math.Sqrt(1-ownLasts*ownLasts)*m.requests.NormFloat64()
	return max(m.node.CyclesPerInstruction(i)*(1+m.own[i])*(1+noise*m.requests.NormFloat64()), 0.01)
}

// obey does what an action says, and notes what was said first.
func (m *mix) obey(w int, a *interference.Action) {
	if a.Kind == interference.StopGrowth && (m.hog < 0 || w < m.hogAt) {
		m.out.falseAlarm = true
	}
	for i := range m.neighbours {
		n := &m.neighbours[i]
		if n.name != a.Neighbour || n.gone {
			continue
		}
		if m.hog >= 0 && w >= m.hogAt && m.out.named < 0 {
			m.out.named, m.out.right = float64((w-m.hogAt+1)*windowSeconds), i == m.hog
			m.out.largest = m.largest() == m.hog
		}
		switch a.Kind {
		case interference.Narrow:
			n.job.Demand /= 4
		case interference.Evict:
			n.gone = true
		case interference.StopGrowth, interference.KeepApart, interference.Release:
			continue
		}
		if n.on && !n.apart {
			m.node.End(n.job.ID)
		}
		if n.on = n.on && !n.gone; n.on && !n.apart {
			m.node.Start(n.job)
		}
	}
}

// largest is the neighbour that wants most CPU.
func (m *mix) largest() int {
	best := -1
	for i := range m.neighbours {
		if n := &m.neighbours[i]; n.on && (best < 0 || n.job.Demand > m.neighbours[best].job.Demand) {
			best = i
		}
	}
	return best
}

// judge finds whether the hog harmed, and when that ended.
func (m *mix) judge() {
	if m.hog < 0 {
		return
	}
	usual := mean(m.late[learnWindows/2 : m.hogAt])
	m.out.harmed = mean(m.late[m.hogAt:min(m.hogAt+calmWindows, len(m.late))]) > usual+harm
	for w := m.hogAt; w+calmWindows <= len(m.late) && m.out.named >= 0; w++ {
		if mean(m.late[w:w+calmWindows]) <= usual+harm {
			m.out.relief = float64((w - m.hogAt) * windowSeconds)
			return
		}
	}
}

// harm is the share of seconds with late requests, beyond what is usual, from which on a service is harmed.
const harm = 0.05

func mean(list []float64) float64 {
	sum := 0.0
	for _, x := range list {
		sum += x
	}
	return sum / float64(max(len(list), 1))
}
