package numa

import (
	"context"
	"slices"
)

// Published is what the Gödel paper tells of NUMA-aware placement of a recommender's data fetches, on its own machines.
type Published struct {
	MeanPercent float64 `json:"meanPercent"`
	P99Percent  float64 `json:"p99Percent"`
}

// Latency is what requests took, in milliseconds.
type Latency struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
}

// Outcome is a placement on all machines of one seed, or the mean of all seeds.
type Outcome struct {
	Placement Placement `json:"placement"`
	Latency   Latency   `json:"latencyMs"`
	Local     float64   `json:"localPercent"` // accesses to memory of the thread's own NUMA node
	Near      float64   `json:"nearPercent"`  // to another NUMA node of its socket
	Far       float64   `json:"farPercent"`   // to another socket
	Split     float64   `json:"splitPercent"` // servers with CPUs of several NUMA nodes
	Link      float64   `json:"linkPercent"`  // use of the busiest link between sockets
	Busy      float64   `json:"busyPercent"`  // of the servers' CPUs
	Requests  int       `json:"requests"`
	Servers   int       `json:"servers"`
	Refused   int       `json:"refused"` // servers that the aware placements had no place for; they are nowhere
}

// SeedOutcome is one seed.
type SeedOutcome struct {
	Seed     uint64    `json:"seed"`
	Outcomes []Outcome `json:"placements"`
}

// Spread is a figure over the seeds.
type Spread struct {
	Mean      float64 `json:"mean"`
	Deviation float64 `json:"deviation"`
	Min       float64 `json:"min"`
	Max       float64 `json:"max"`
}

// Gain is how much less latency a placement has than another, in percent of the other's.
type Gain struct {
	Of      Placement `json:"of"`
	Against Placement `json:"against"`
	Mean    Spread    `json:"meanPercent"`
	P50     Spread    `json:"p50Percent"`
	P99     Spread    `json:"p99Percent"`
}

// Point is the gain with one parameter changed.
type Point struct {
	Name  string  `json:"name"`
	Busy  float64 `json:"busyPercent"` // of the placement that is busiest; near 100 it is overloaded, and its latency has no bound
	Gains []Gain  `json:"gains"`
}

// Result is the whole experiment.
type Result struct {
	Setup     Options       `json:"setup"`
	Published Published     `json:"published"`
	Mean      []Outcome     `json:"mean"`
	Gains     []Gain        `json:"gains"`
	Runs      []SeedOutcome `json:"runs"`
	Sweep     []Point       `json:"sweep,omitempty"`
}

// Run plays every seed under every placement.
func Run(ctx context.Context, o Options) (*Result, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	res := &Result{Setup: o, Published: Published{MeanPercent: 21, P99Percent: 22.8}}
	var err error
	if res.Runs, err = runSeeds(ctx, &o); err != nil {
		return nil, err
	}
	for by := range placements {
		res.Mean = append(res.Mean, meanOf(res.Runs, by))
	}
	res.Gains = gains(res.Runs)
	if o.Sweep == 0 {
		return res, nil
	}
	for _, v := range variations() {
		with := o
		with.Nodes, with.Seeds = 1, o.Sweep
		v.change(&with)
		runs, err := runSeeds(ctx, &with)
		if err != nil {
			return nil, err
		}
		busy := 0.0
		for by := range placements {
			busy = max(busy, meanOf(runs, by).Busy)
		}
		res.Sweep = append(res.Sweep, Point{Name: v.name, Busy: busy, Gains: gains(runs)})
	}
	return res, nil
}

func runSeeds(ctx context.Context, o *Options) ([]SeedOutcome, error) {
	var all []SeedOutcome
	for i := range uint64(o.Seeds) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		all = append(all, runSeed(o, o.Seed+i))
	}
	return all, nil
}

// runSeed plays the machines of one seed.
func runSeed(o *Options, seed uint64) SeedOutcome {
	var sums [placements]sum
	for i := range uint64(o.Nodes) {
		own := seed<<20 | i // machines of a seed differ
		f := newFleet(o, newDraw(own))
		for by, n := range f.nodes {
			sums[by].add(serve(o, n, own), n, f.refused)
		}
	}
	s := SeedOutcome{Seed: seed}
	for by := range placements {
		s.Outcomes = append(s.Outcomes, sums[by].outcome(by))
	}
	return s
}

// sum is the tally of several machines.
type sum struct {
	tally

	capacity                float64 // workers × seconds
	servers, split, refused int
}

func (s *sum) add(t *tally, n *node, refused int) {
	s.latencies = append(s.latencies, t.latencies...)
	s.local, s.near, s.far = s.local+t.local, s.near+t.near, s.far+t.far
	s.link, s.busy, s.span = s.link+t.link, s.busy+t.busy, s.span+t.span
	s.capacity += float64(t.workers) * t.span
	s.servers += len(n.seats)
	s.refused += refused
	for i := range n.seats {
		numaNodes := 0
		for _, cpus := range n.seats[i].grant.CPUs {
			if cpus > 0 {
				numaNodes++
			}
		}
		if numaNodes != 1 { // 0: they run anywhere
			s.split++
		}
	}
}

func (s *sum) outcome(by Placement) Outcome {
	slices.Sort(s.latencies)
	accesses := max(s.local+s.near+s.far, 1e-9)
	return Outcome{
		Placement: by, Latency: latencyOf(s.latencies),
		Local: 100 * s.local / accesses, Near: 100 * s.near / accesses, Far: 100 * s.far / accesses,
		Split: 100 * float64(s.split) / float64(max(s.servers, 1)),
		Link:  100 * s.link / max(s.span, 1e-9), Busy: 100 * s.busy / max(s.capacity, 1e-9),
		Requests: len(s.latencies), Servers: s.servers, Refused: s.refused,
	}
}

// latencyOf reads sorted seconds.
func latencyOf(sorted []float64) (l Latency) {
	if len(sorted) == 0 {
		return l
	}
	for _, x := range sorted {
		l.Mean += x
	}
	l.Mean *= 1000 / float64(len(sorted))
	l.P50 = 1000 * sorted[len(sorted)/2]
	l.P99 = 1000 * sorted[len(sorted)*99/100]
	return l
}

// meanOf is the mean of the seeds' figures.
func meanOf(runs []SeedOutcome, by Placement) Outcome {
	m := Outcome{Placement: by}
	for i := range runs {
		o := &runs[i].Outcomes[by]
		m.Latency.Mean += o.Latency.Mean
		m.Latency.P50 += o.Latency.P50
		m.Latency.P99 += o.Latency.P99
		m.Local, m.Near, m.Far = m.Local+o.Local, m.Near+o.Near, m.Far+o.Far
		m.Split, m.Link, m.Busy = m.Split+o.Split, m.Link+o.Link, m.Busy+o.Busy
		m.Requests, m.Servers, m.Refused = m.Requests+o.Requests, m.Servers+o.Servers, m.Refused+o.Refused
	}
	for _, x := range []*float64{&m.Latency.Mean, &m.Latency.P50, &m.Latency.P99, &m.Local, &m.Near, &m.Far, &m.Split, &m.Link, &m.Busy} {
		*x /= float64(len(runs))
	}
	return m
}
