package advise

import (
	"math"
	"slices"
	"time"
)

// State is what the laws remember from tick to tick. The zero value is the start; as JSON it can be kept over a restart.
type State struct {
	At        time.Duration `json:"at"`
	NUMANodes []NUMAState   `json:"numaNodes,omitempty"`
	// Level is what waiting alone has led to. Waiting, Critical, Calm, Floored and Starving are since when it is so.
	Level    Suppression `json:"level"`
	Waiting  Since       `json:"waiting"`
	Critical Since       `json:"critical"`
	Calm     Since       `json:"calm"`
	Floored  Since       `json:"floored"`
	Starving Since       `json:"starving"`
	// Available is the last known memory that is available in the node.
	Available Sample `json:"available"`
	// Profiles is what is remembered of the pools that profiles steer.
	Profiles ProfileState `json:"profiles,omitzero"`

	// NUMA nodes is what Advice.NUMANodes is made of, so that a tick allocates nothing.
	numaNodes []NUMAAdvice
}

// NUMAState is what is remembered of one NUMA node. CPUs are logical, memory is in bytes.
type NUMAState struct {
	// Lend is the advice of the tick before, in cores, Lending whether there was one, and Stepped when it last rose or was stepped back.
	Lend    int           `json:"lend"`
	Lending bool          `json:"lending"`
	Stepped time.Duration `json:"stepped"`
	// Held: online pods have waited, last at Waited. Until HoldMin after that no more than Cap cores are lent, and then no more than Safe until Until. Hold
	// is how long all of that lasts.
	Held   bool          `json:"held,omitempty"`
	Cap    int           `json:"cap,omitempty"`
	Safe   int           `json:"safe,omitempty"`
	Waited time.Duration `json:"waited,omitempty"`
	Hold   time.Duration `json:"hold,omitempty"`
	Until  time.Duration `json:"until,omitempty"`
	// Need is what the shared pools needed in the last while, Began when that was first known. Smooth is their use, smoothed.
	Need   Highest `json:"need"`
	Began  Since   `json:"began"`
	Smooth Sample  `json:"smooth"`
	// CPUMissing and MemoryMissing are since when an input is.
	CPUMissing    Since `json:"cpuMissing"`
	MemoryMissing Since `json:"memoryMissing"`
	// Last is what was last known of each input.
	Last Inputs `json:"last"`
	// CPU and Memory are what is published.
	CPU    Published `json:"cpu"`
	Memory Published `json:"memory"`
}

// Inputs are those of a NUMA node that are recalled when they are missing.
type Inputs struct {
	Use          Sample `json:"use"`
	Requests     Sample `json:"requests"`
	MemoryTotal  Sample `json:"memoryTotal"`
	MemoryFree   Sample `json:"memoryFree"`
	InactiveFile Sample `json:"inactiveFile"`
	Reclaimed    Sample `json:"reclaimed"`
	PromisedUse  Sample `json:"promisedUse"`
}

// Clone is a copy that shares nothing with m.
func (m *State) Clone() State {
	c := *m
	c.NUMANodes, c.numaNodes, c.Profiles = slices.Clone(m.NUMANodes), nil, m.Profiles.Clone()
	return c
}

// tick is one Step under way.
type tick struct {
	o   *Observation
	p   *Params
	m   *State
	now time.Duration
	// passed is the time since the tick before.
	passed time.Duration
	// wantedCPU and wantedMemory are what the reclaimed pods that run may hold: millicores and bytes of the node.
	wantedCPU, wantedMemory float64
	divisible               int // of all NUMA nodes
	// pressure is what online pods feel of CPU.
	pressure Sample
	// untouched is what counts as free of what those pods may hold and do not, in bytes of the node.
	untouched float64
	// surplus is of BestEffort pods.
	surplus surplus
	// pools are the CPUs that profiles steer pools to, steered the sum of them, and steeredUse what those pools use of CPUs.
	pools               map[string]int
	steered, steeredUse float64
}

// Step is one tick of all laws. It changes m in place. Advice.NUMANodes belongs to m and is valid until the next Step with it; a caller that keeps an advice
// clones them. Without Params.Explain and profiles it allocates nothing once it knows the number of NUMA nodes. p must be valid.
func Step(o *Observation, p *Params, m *State) Advice {
	t := begin(o, p, m)
	t.bestEffort()
	t.steer(steerPools(o, p, &m.Profiles))
	t.judge()
	for i := range o.NUMANodes {
		t.numa(&o.NUMANodes[i], &m.NUMANodes[i], &m.numaNodes[i])
	}
	t.memory()
	return Advice{NUMANodes: m.numaNodes, Pools: t.pools, Suppression: t.starve()}
}

// steer notes what profiles want. What the pods of such a pool use is not known of all: then the rest counts as use of others, and as a need.
func (t *tick) steer(pools map[string]int) {
	if t.pools = pools; len(pools) == 0 {
		return
	}
	for _, cpus := range pools {
		t.steered += float64(clamp(cpus, 0, 1<<20))
	}
	for i := range t.o.Services {
		if _, ok := pools[t.o.Services[i].Pool]; ok {
			use, _ := amount(t.o.Services[i].CPUUse, most)
			t.steeredUse += use
		}
	}
}

// begin makes room and, where time went backwards, has everything wait from now on.
func begin(o *Observation, p *Params, m *State) tick {
	t := tick{o: o, p: p, m: m, now: clamp(o.At, 0, math.MaxInt64/4), pressure: p.CPUPressure(o)}
	if len(m.NUMANodes) != len(o.NUMANodes) {
		m.NUMANodes, m.numaNodes = make([]NUMAState, len(o.NUMANodes)), nil
	}
	if len(m.numaNodes) != len(o.NUMANodes) {
		m.numaNodes = make([]NUMAAdvice, len(o.NUMANodes))
	}
	if t.now < m.At {
		m.rebase(t.now, p)
	}
	t.passed = t.now - m.At
	m.At = t.now
	for i := range o.Reclaimed {
		t.wantedCPU += float64(max(o.Reclaimed[i].MilliCPU, 0))
		t.wantedMemory += float64(max(o.Reclaimed[i].MemoryBytes, 0))
	}
	for i := range o.NUMANodes {
		t.divisible += divisible(&o.NUMANodes[i])
	}
	return t
}

// rebase forgets every time: the node has booted again.
func (m *State) rebase(now time.Duration, p *Params) {
	m.At = now
	for _, s := range []*Since{&m.Waiting, &m.Critical, &m.Calm, &m.Floored, &m.Starving} {
		s.At = now
	}
	for i := range m.NUMANodes {
		z := &m.NUMANodes[i]
		z.Stepped, z.Began.At, z.CPUMissing.At, z.MemoryMissing.At = now, now, now, now
		z.Lending = false // the pool has what it has
		if z.Held {
			z.Waited, z.Until = now, now+z.Hold
		}
		z.Need.restart(now, p.ShrinkAfter)
		z.CPU.Seen, z.Memory.Seen = now, now
		z.CPU.Low.restart(z.CPU.Value, now, p.RiseAfter)
		z.Memory.Low.restart(z.Memory.Value, now, p.RiseAfter)
	}
}

// NUMA node runs the laws of CPU for one NUMA node.
func (t *tick) numa(z *NUMANode, s *NUMAState, a *NUMAAdvice) {
	use, known := amount(z.SharedUse, float64(divisible(z)))
	use *= 1 - t.surplus.use
	if known {
		s.Last.Use = Known(use)
		t.smooth(&s.Smooth, use)
	}
	use = s.Last.Use.Value
	need := s.Need.see(t.need(use, t.p.TargetUse, z, s), t.now, t.p.ShrinkAfter)
	_, asked := recall(z.SharedRequests, &s.Last.Requests)
	grade := t.grade(z)
	missing := !known || grade == unjudged || (!asked && t.p.RequestShare > 0)
	s.CPUMissing.see(missing, t.now)
	s.Began.see(s.Began.So || !missing, t.now)
	t.hold(z, s, grade)
	a.Lend, a.LendReason = t.lend(z, s, need)
	a.CPU = t.cpu(z, s)
}

// smooth moves an average towards what is seen now.
func (t *tick) smooth(average *Sample, value float64) {
	if !average.Known {
		*average = Known(value)
		return
	}
	share := 1.0
	if over := t.p.UseOver; over > 0 {
		share = float64(t.passed) / float64(t.passed+over)
	}
	average.Value += (value - average.Value) * share
}

// need is how many CPUs the shared pools should have for the given use, to be at most this busy. Pools with a profile have the profile's size, and the
// others what they need beyond it.
func (t *tick) need(use, busy float64, z *NUMANode, s *NUMAState) float64 {
	margin := t.p.Margin + t.p.MarginShare*float64(divisible(z))
	need := max(use/busy+margin, t.least(z, s))
	if t.steered > 0 && t.divisible > 0 {
		part := float64(divisible(z)) / float64(t.divisible)
		need = max(need, t.steered*part+max(0, use-t.steeredUse*part)/busy+margin)
	}
	return need
}

// least is what the shared pools keep whatever they use.
func (t *tick) least(z *NUMANode, s *NUMAState) float64 {
	requests, _ := recall(z.SharedRequests, &s.Last.Requests)
	return max(float64(t.p.SharedFloor*threads(z)), requests*t.p.RequestShare)
}

// most is the greatest number that a law computes with: sums of it are exact enough and never infinite.
const most = 1 << 56

// amount is the value of a sample from 0 to limit. One that is no number, or negative, is not known.
func amount(s Sample, limit float64) (float64, bool) {
	if !s.Known || !(s.Value >= 0) {
		return 0, false
	}
	return min(s.Value, limit), true
}

// recall is the value of a sample and whether it is known now; else it is the last that was.
func recall(s Sample, last *Sample) (float64, bool) {
	value, known := amount(s, most)
	if known {
		*last = Known(value)
	}
	return last.Value, known
}

func divisible(z *NUMANode) int { return clamp(z.Divisible, 0, 1<<20) }

func threads(z *NUMANode) int { return clamp(z.Threads, 1, 1<<10) }

// cores are the whole cores that pools share, lent those that the reclaimed pool has.
func cores(z *NUMANode) int { return divisible(z) / threads(z) }

func lent(z *NUMANode) int { return clamp(z.Lent/threads(z), 0, cores(z)) }

func clamp[T ~int | ~int64](v, low, high T) T { return max(low, min(v, high)) }
