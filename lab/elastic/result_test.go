package elastic

import (
	"cmp"
	"slices"
)

// Result is what was seen. Times are in seconds since the load rose, negative before.
type Result struct {
	Options  Options  `json:"options"`
	LoadAvg  []string `json:"loadAvg"` // of this machine: at the start, when the load rose, and at the end
	CPUs     int      `json:"cpus"`    // of this machine
	Began    float64  `json:"began"`
	Offered  float64  `json:"offered"` // all nodes lend
	Filled   float64  `json:"filled"`  // the whole queue runs
	Fell     float64  `json:"fell"`    // the load; 0: it did not
	Ended    float64  `json:"ended"`
	Probed   float64  `json:"probed"` // more reclaimed pods were asked for, to see where they go
	Nodes    []Node   `json:"nodes"`
	Events   []Event  `json:"events"`
	Samples  []Sample `json:"samples"`
	Figures  Figures  `json:"figures"`
	Mistakes []string `json:"mistakes"` // what Judge found
}

// Node is one of them.
type Node struct {
	Name string `json:"name"`
	Role string `json:"role"`
	// Short is until when its online pods lacked CPUs after the load rose; 0: they never did. StillShort: they did so when it was looked at.
	Short      float64 `json:"short"`
	StillShort bool    `json:"stillShort,omitempty"`
	// Reported is when its agent last reported, if it was killed.
	Reported float64 `json:"reported,omitempty"`
	// Resumed is when its reclaimed pods had all that they wanted again after the load fell; 0: not seen.
	Resumed float64 `json:"resumed,omitempty"`
}

// The kinds of events.
const (
	created = "created"
	bound   = "bound"
	runs    = "runs"
	leaves  = "leaves" // it is being deleted
)

// Event is something that happened to a pod. Its line is it and those that were made in its place.
type Event struct {
	At     float64 `json:"at"`
	What   string  `json:"what"`
	Pod    string  `json:"pod"`
	Line   int     `json:"line"`
	Node   string  `json:"node,omitempty"`
	Online bool    `json:"online,omitempty"`
	Probe  bool    `json:"probe,omitempty"`
}

// Sample is the sum over the nodes of a role at one moment, in CPUs.
type Sample struct {
	At             float64 `json:"at"`
	Role           string  `json:"role"`
	OnlineWants    float64 `json:"onlineWants"`
	OnlineGets     float64 `json:"onlineGets"`
	ReclaimedWants float64 `json:"reclaimedWants"`
	ReclaimedGets  float64 `json:"reclaimedGets"`
	Lent           float64 `json:"lent"`
	Headroom       float64 `json:"headroom"`
	Closed         int     `json:"closed"` // nodes
}

// Figures are what came out of it, in seconds.
type Figures struct {
	OfferedAfter    float64 `json:"offeredAfter"`
	FilledAfter     float64 `json:"filledAfter"`
	Cores           Spread  `json:"cores"` // until online pods had theirs
	FirstEviction   float64 `json:"firstEviction"`
	LastEviction    float64 `json:"lastEviction"`
	Elsewhere       Spread  `json:"elsewhere"` // from the rise of the load until who was evicted ran on another node
	Again           Spread  `json:"again"`     // from the eviction until then
	Evictions       int     `json:"evictions"`
	WhileHigh       int     `json:"whileHigh"`       // of the evictions: of lines not evicted before, before the load fell
	RepeatEvictions int     `json:"repeatEvictions"` // of pods whose line was evicted before
	TwiceInTen      int     `json:"twiceIn10min"`
	OnlineTouched   int     `json:"onlineTouched"`
	OntoStale       int     `json:"ontoStale"`   // pods bound to a killed node later than its last report was known to be stale
	FromKilled      int     `json:"fromKilled"`  // evictions there
	OntoClosed      int     `json:"ontoClosed"`  // pods bound to a node less than five minutes after an eviction there
	WorstMinute     int     `json:"worstMinute"` // evictions
	Resumed         Spread  `json:"resumed"`     // after the load fell: reclaimed pods there have what they want
	Back            Spread  `json:"back"`        // after the load fell: each pod that was bound there anew
}

// Spread says how values lie.
type Spread struct {
	N     int     `json:"n"`
	P50   float64 `json:"p50"`
	P99   float64 `json:"p99"`
	Worst float64 `json:"worst"`
}

func spread(values []float64) (s Spread) {
	if s.N = len(values); s.N == 0 {
		return s
	}
	slices.Sort(values)
	at := func(share float64) float64 { return values[min(s.N-1, int(share*float64(s.N)))] }
	s.P50, s.P99, s.Worst = at(0.5), at(0.99), values[s.N-1]
	return s
}

// seconds that the judge knows of.
const (
	tenMinutes  = 600
	closedFirst = 300
	aMinute     = 60
	// slack is for what was on its way when a report became stale, or a node closed: a decision, a Binding, a watch.
	slack = 3
)

// figures works the figures out from what was seen.
func (r *Result) figures() (f Figures) {
	f.OfferedAfter, f.FilledAfter = r.Offered-r.Began, r.Filled-r.Offered
	roles, reported := make(map[string]string), make(map[string]float64)
	var cores, resumed []float64
	for _, n := range r.Nodes {
		roles[n.Name], reported[n.Name] = n.Role, n.Reported
		if n.Role == roleTide {
			cores = append(cores, n.Short)
			if r.Fell > 0 && n.Resumed > 0 {
				resumed = append(resumed, n.Resumed-r.Fell)
			}
		}
	}
	f.Cores, f.Resumed = spread(cores), spread(resumed)
	slices.SortStableFunc(r.Events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	f.count(r, roles, reported)
	return f
}

// count goes through the events.
func (f *Figures) count(r *Result, roles map[string]string, reported map[string]float64) {
	var elsewhere, again, back, all []float64
	last := make(map[int]Event)        // evictions by line
	lately := make(map[string]float64) // evictions by node
	waiting := make(map[int]bool)
	for _, e := range r.Events {
		switch {
		case e.What == leaves && e.Online:
			f.OnlineTouched++
		case e.What == leaves:
			f.Evictions++
			all = append(all, e.At)
			before, ok := last[e.Line]
			if !ok && (r.Fell == 0 || e.At < r.Fell) {
				f.WhileHigh++
			}
			if ok {
				f.RepeatEvictions++
				if e.At-before.At < tenMinutes {
					f.TwiceInTen++
				}
			}
			if roles[e.Node] == roleKill {
				f.FromKilled++
			}
			last[e.Line], lately[e.Node], waiting[e.Line] = e, e.At, true
		case e.What == bound && !e.Online:
			if at, ok := lately[e.Node]; ok && e.At-at > slack && e.At-at < closedFirst {
				f.OntoClosed++
			}
			if roles[e.Node] == roleKill && e.At > reported[e.Node]+r.Options.knownStale()+slack {
				f.OntoStale++
			}
			if r.Fell > 0 && e.At > r.Fell && roles[e.Node] == roleTide {
				back = append(back, e.At-r.Fell)
			}
		case e.What == runs && waiting[e.Line] && e.Node != last[e.Line].Node:
			elsewhere, again = append(elsewhere, e.At), append(again, e.At-last[e.Line].At)
			waiting[e.Line] = false
		}
	}
	f.Elsewhere, f.Again, f.Back = spread(elsewhere), spread(again), spread(back)
	if len(all) > 0 {
		f.FirstEviction, f.LastEviction = all[0], all[len(all)-1]
	}
	for i, at := range all {
		n := 0
		for _, other := range all[i:] {
			if other < at+aMinute {
				n++
			}
		}
		f.WorstMinute = max(f.WorstMinute, n)
	}
}
