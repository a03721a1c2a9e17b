package tide

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"hilbert.dev/hilbert/control/forecast"
	"hilbert.dev/hilbert/sim/trace"
)

// Way is a way to have capacity.
type Way string

// The ways, see the package's documentation.
const (
	HPAAlone     Way = "hpa alone"
	Hilbert      Way = "hilbert"
	LendingAlone Way = "lending alone"
	NodesByNeed  Way = "nodes by need"
	Nodes        Way = "nodes"
	Oracle       Way = "oracle"
)

// Ways are all of them.
var Ways = []Way{HPAAlone, Hilbert, LendingAlone, NodesByNeed, Nodes, Oracle}

// Outcome is what a way did on a series.
type Outcome struct {
	Series string `json:"series"`
	// Planned: a peak that was planned is on top.
	Planned bool    `json:"plannedPeak"`
	Way     Way     `json:"way"`
	Days    float64 `json:"days"`
	// Rises are times at which capacity was missing, Minutes how long each took on average until it was there, Longest the longest.
	Rises   int     `json:"rises"`
	Minutes float64 `json:"minutesToCapacity"`
	Longest float64 `json:"longestMinutes"`
	// Missed is the share of time in which capacity was missing.
	Missed float64 `json:"targetsMissed"`
	// MissedBy is Missed of ways with nodes by cause, of which CauseStart and CauseMetric are the autoscaler's own.
	MissedBy map[Cause]float64 `json:"targetsMissedBy,omitempty"`
	// Evictions of offline jobs, and the hours of work that they lost and that others did.
	Evictions int     `json:"evictions"`
	LostHours float64 `json:"workLostHours"`
	WorkHours float64 `json:"workDoneHours"`
	// ReplicaHours is what the replicas cost.
	ReplicaHours float64 `json:"replicaHours"`
	// Of ways with nodes: how many changed hands, how many replicas were moved for it, and the hours of nodes that online had.
	NodesHanded     int     `json:"nodesHanded,omitempty"`
	ReplicasMoved   int     `json:"replicasMoved,omitempty"`
	OnlineNodeHours float64 `json:"onlineNodeHours,omitempty"`
	// Trusted is the share of time in which the forecast was used, and Why the last word about it. NodesTrusted and NodesWhy are of the forecast of nodes.
	Trusted      float64 `json:"forecastTrusted"`
	Why          string  `json:"forecast,omitempty"`
	NodesTrusted float64 `json:"nodesForecastTrusted,omitempty"`
	NodesWhy     string  `json:"nodesForecast,omitempty"`
}

// game is one way on one series.
type game struct {
	o       *Options
	s       *trace.Series
	way     Way
	peaks   []forecast.Peak
	perPod  float64 // load that a replica can serve at most
	most    float64 // before what is judged
	cluster cluster
	pool    *pool   // of ways with nodes
	beside  *beside // of these
	hpa     hpa
	near    *forecast.Series // for replicas
	far     *forecast.Series // for slots that take no new jobs
	soon    forecast.Prediction
	later   forecast.Prediction
	out     Outcome
	missing []time.Duration
	trusted int
	ticks   int
	late    bool
}

// play has a way meet a series.
func play(o *Options, s *trace.Series, way Way, peaks []forecast.Peak) Outcome {
	g := newGame(o, s, way, peaks)
	from := len(s.Loads) * 3 / 4
	for i := range from {
		g.learn(i)
	}
	begin := s.Start.Add(time.Duration(from) * s.Step)
	g.hpa.replicas = g.replicas(g.load(from, 0, begin))
	g.cluster.scale(g.hpa.replicas, begin.Add(-g.o.Start))
	if way == NodesByNeed || way == Nodes || way == Oracle {
		g.pool, g.beside = newPool(g, begin), newBeside(g)
	}
	if way == LendingAlone {
		g.cluster.scale(g.replicas(g.most), begin.Add(-g.o.Start))
	}
	for i := from; i+1 < len(s.Loads); i++ {
		learnt := false
		for k := time.Duration(0); k < s.Step; k += syncPeriod {
			if !learnt && k >= o.MetricAge {
				g.learn(i)
				learnt = true
			}
			g.tick(i, k)
		}
	}
	return g.outcome(time.Duration(len(s.Loads)-1-from) * s.Step)
}

func newGame(o *Options, s *trace.Series, way Way, peaks []forecast.Peak) *game {
	g := &game{o: o, s: s, way: way, peaks: peaks}
	highest := mostOf(s.Loads)
	g.most = mostOf(s.Loads[:len(s.Loads)*3/4])
	for _, p := range peaks {
		highest = max(highest, p.Load)
	}
	g.perPod = o.perPod(g.most)
	slots := int(o.slots(highest, g.most))
	g.cluster = cluster{slots: slots, random: rand.New(rand.NewPCG(o.Seed, 1)), mean: o.Job, grace: o.Grace, start: o.Start}
	g.hpa = hpa{target: g.perPod * o.Target, low: 1, high: slots}
	near, far := o.params(s.Step, o.lead()), o.params(s.Step, o.lead()+o.Job)
	near.Rises = o.Rises
	g.near, g.far = forecast.NewSeries(near), forecast.NewSeries(far)
	return g
}

// lead is how long it takes from a load to a replica that serves it.
func (o *Options) lead() time.Duration { return o.Start + o.Grace + 2*syncPeriod + o.MetricAge }

// params are of a forecast that looks so far ahead, and a step more, because it has to last until the next one; of the periods that are multiples of the step.
func (o *Options) params(step, lead time.Duration) *forecast.Params {
	p := forecast.DefaultParams(step, lead+step)
	p.Periods = slices.DeleteFunc(p.Periods, func(period time.Duration) bool { return period%step != 0 })
	p.Recent, p.Quantile = max(p.Recent, step), o.Quantile
	return &p
}

// learn tells the forecasts the load at the beginning of a step. What they say holds until the next one.
func (g *game) learn(i int) {
	at := g.s.Start.Add(time.Duration(i) * g.s.Step)
	g.near.See(g.s.Loads[i], at)
	g.far.See(g.s.Loads[i], at)
	if (g.way == Hilbert || g.way == Nodes) && i >= len(g.s.Loads)*3/4 {
		g.soon, g.later = g.near.Predict(), g.far.Predict()
	}
}

// load is the load at some time into a step, with planned peaks on top.
func (g *game) load(i int, k time.Duration, now time.Time) float64 {
	planned, _ := forecast.Planned(g.peaks, now, 0)
	return max(g.recorded(i, k), planned)
}

// recorded is the load of the series at some time into a step.
func (g *game) recorded(i int, k time.Duration) float64 {
	a := known(g.s.Loads, min(i, len(g.s.Loads)-1))
	b := known(g.s.Loads, min(i+1, len(g.s.Loads)-1))
	return a + (b-a)*float64(k)/float64(g.s.Step)
}

// known is the load of a step, or of the last one before it that is known.
func known(loads []float64, i int) float64 {
	for ; i >= 0; i-- {
		if !math.IsNaN(loads[i]) {
			return loads[i]
		}
	}
	return 0
}

// replicas is how many the target asks for.
func (g *game) replicas(load float64) int {
	return min(max(int(math.Ceil(load/(g.perPod*g.o.Target)-1e-9)), 1), g.cluster.slots)
}

// tick lets a sync period pass.
func (g *game) tick(i int, k time.Duration) {
	now := g.s.Start.Add(time.Duration(i)*g.s.Step + k)
	load := g.load(i, k, now)
	seen := load
	if k >= g.o.MetricAge {
		seen = g.load(i, k-g.o.MetricAge, now.Add(-g.o.MetricAge))
	} else if i > 0 {
		seen = g.load(i-1, g.s.Step+k-g.o.MetricAge, now.Add(-g.o.MetricAge))
	}
	most := g.cluster.slots
	switch g.way {
	case HPAAlone:
		g.cluster.scale(g.hpa.sync(seen), now)
	case Hilbert:
		most = g.hilbert(seen, now)
	case NodesByNeed:
		g.onNodes(seen, load, load, now)
		return
	case Nodes:
		g.onNodes(g.wanted(seen, now), g.wanted(load, now), load, now)
		return
	case Oracle:
		g.onNodes(g.coming(i, k, g.o.lead(), now), g.coming(i, k, g.o.lead(), now), load, now)
		return
	case LendingAlone: // what replicas do not use is lent, and is taken back at once
		most = g.cluster.slots - int(math.Ceil(load/(g.perPod*g.o.Limit)))
		for len(g.cluster.jobs) > max(most, 0) {
			g.cluster.evict(now)
		}
		g.lend(now, most)
	}
	if g.way != LendingAlone {
		g.cluster.run(now, syncPeriod, most)
	}
	g.judge(load, g.cluster.ready(now))
}

// onNodes has a pool follow what is wanted, and says why capacity is missing. fresh is what would be wanted if the metric were not old.
func (g *game) onNodes(wanted, fresh, load float64, now time.Time) {
	g.pool.tick(g.hpa.sync(wanted), now)
	g.beside.scale(g.hpa.replicas, g.beside.freshHPA.sync(fresh), now)
	if !g.judge(load, g.pool.nodes.ready(now)) {
		g.beside.missed[g.pool.nodes.cause(g.beside, g.needed(load), now)] += syncPeriod
	}
}

// lend runs jobs beside replicas that do not need their slots.
func (g *game) lend(now time.Time, most int) {
	online := g.cluster.online
	g.cluster.online = online[:0]
	g.cluster.run(now, 0, most)
	g.cluster.online = online
	g.cluster.podTime += syncPeriod * time.Duration(len(online))
}

// hilbert scales by the greatest of live load, trusted forecast and planned peaks. It returns how many jobs may run: slots that will be needed while a
// job runs take none.
func (g *game) hilbert(seen float64, now time.Time) int {
	wanted := g.wanted(seen, now)
	g.cluster.scale(g.hpa.sync(wanted), now)
	planned, _ := forecast.Planned(g.peaks, now, g.o.lead()+g.o.Job)
	soon, _ := forecast.Wanted(wanted, &g.later, planned)
	return g.cluster.slots - g.replicas(soon)
}

// wanted is the greatest of live load, trusted forecast and planned peaks.
func (g *game) wanted(seen float64, now time.Time) float64 {
	planned, _ := forecast.Planned(g.peaks, now, g.o.lead())
	wanted, _ := forecast.Wanted(seen, &g.soon, planned)
	return wanted
}

// judge looks whether the capacity is there.
func (g *game) judge(load float64, ready int) bool {
	g.ticks++
	if g.soon.Trusted {
		g.trusted++
	}
	if load <= float64(ready)*g.perPod*g.o.Limit*(1+1e-9) {
		g.late = false
		return true
	}
	if !g.late {
		g.late = true
		g.missing = append(g.missing, 0)
	}
	g.missing[len(g.missing)-1] += syncPeriod
	return false
}

func (g *game) outcome(length time.Duration) Outcome {
	o := &g.out
	o.Why = g.soon.Reason
	o.Series, o.Planned, o.Way, o.Days = g.s.Name, len(g.peaks) > 0, g.way, length.Hours()/24
	var sum time.Duration
	for _, m := range g.missing {
		sum += m
		o.Longest = max(o.Longest, m.Minutes())
	}
	if o.Rises = len(g.missing); o.Rises > 0 {
		o.Minutes = sum.Minutes() / float64(o.Rises)
	}
	o.Missed = sum.Hours() / max(length.Hours(), 1e-9)
	o.Evictions, o.LostHours, o.WorkHours, o.ReplicaHours = g.cluster.evictions, g.cluster.lost.Hours(), g.cluster.done.Hours(), g.cluster.podTime.Hours()
	o.Trusted = float64(g.trusted) / float64(max(g.ticks, 1))
	if g.pool != nil {
		g.pool.outcome(o)
		o.MissedBy = make(map[Cause]float64, len(g.beside.missed))
		for c, missed := range g.beside.missed {
			o.MissedBy[c] = missed.Hours() / max(length.Hours(), 1e-9)
		}
	}
	return *o
}
