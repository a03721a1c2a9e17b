package interference

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// Reading is what was seen of a pod at one reading of the kernel's counters. NaN is not known.
type Reading struct {
	// ID is the pod's UID, and Name what people call it.
	ID, Name string
	// Watched: it is a service that is entitled to its Request, in CPUs.
	Watched bool
	Request float64
	// Limitable and Evictable are what may be done to it as a culprit.
	Limitable, Evictable bool
	// Use is in CPUs; Delay is threads that wait for a CPU; Pressure is the share of time in which some do; Indicator is the service's own; Cycles is what an instruction takes.
	Use, Delay, Pressure, Indicator, Cycles float64
	// Bandwidth is the memory bandwidth that it takes, in bytes per second.
	Bandwidth float64
	// Ahead is how long the threads of a service waited while something else ran on their CPU, in CPUs, by the ID of what ran; NoPod is what is none. Nil: nothing has looked.
	Ahead map[string]float64
}

// NoPod is the key in Reading.Ahead of all that is no pod, or that could not be told.
const NoPod = ""

// Rules are what a Book goes by besides Params.
type Rules struct {
	Watch Params
	// Share is what a culprit may go on to use of what it used, Least the least of it, in CPUs.
	Share, Least float64
	// EvictPause is the least time between two evictions.
	EvictPause time.Duration
}

// DefaultRules are for windows of ten seconds.
func DefaultRules() Rules {
	return Rules{Watch: DefaultParams(), Share: 0.25, Least: 0.1, EvictPause: 10 * time.Minute}
}

// Bounds of a Book.
const (
	// Length of a window, and how many of its readings must be known for it to be.
	Length     = 10 * time.Second
	knownShare = 0.5
	// MaxWatched bounds the services that are watched: the others are named, and not watched.
	MaxWatched = 64
	// silentFor is how long nothing may be known of a service until what is done for it is taken back.
	silentFor = 10 * time.Minute
	// maxApart bounds the pairs that are to be kept apart.
	maxApart = 16
	// maxProbed bounds the services that are probed at a time, and probeWindows for how many windows of one harm: what is not found by then is not found. So many windows without harm
	// give one of them back: a service can make its own threads wait whenever it likes, and would have the kernel looked into all the time.
	maxProbed    = 8
	probeWindows = 12
	probeRest    = 10
)

// Finding is a service that is harmed.
type Finding struct {
	Victim, Culprit string // by ID; no culprit: nobody can be named
	// Step is the last one of the ladder: StopGrowth, Narrow or Evict. LeftAlone: the culprit is not one that may be limited.
	Step      Kind
	LeftAlone bool
	Reason    string
	Since     time.Time

	wantsEviction bool
}

// Limit is the CPU that a culprit may go on to use.
type Limit struct {
	ID   string
	CPUs float64
}

// Pair is two pods that are better kept apart.
type Pair struct {
	Victim, Culprit string
	Until           time.Time
}

// Decision is what a Book says after a window; it stands until the next one.
type Decision struct {
	Findings []Finding // the longest first
	// StopGrowth: nothing more is lent.
	StopGrowth bool
	Limits     []Limit // by ID
	// Evict is the pod that has to go; empty: none. Why says why.
	Evict, Why string
	Apart      []Pair
	// Watched are services that are watched, Learning those of them whose baseline at their load is not known yet. Unwatched are those beyond MaxWatched.
	Watched, Learning, Unwatched int
	// Probe are services, by ID, of which it would help to know in the next window for whom their threads wait.
	Probe []string
}

// Book watches the services of a node. It has a bounded size.
type Book struct {
	rules    *Rules
	started  time.Time // of the first window
	begun    time.Time // of the window
	last     time.Time
	sums     map[string]*sum
	services map[string]*service
	limits   map[string]*limit // by the culprit's ID
	evicted  time.Time         // when an eviction was last begun
	evict    string
	why      string
	apart    []Pair
	// unwatched are the services beyond MaxWatched, as of the last window.
	unwatched int
	history   history
	closed    time.Time                   // when the last window ended
	restored  map[string][][signals]Usual // what an agent before this one knew of services that have not been seen yet
	// Actions counts what was decided.
	Actions map[Kind]uint64
}

// limit is what a culprit may go on to use; its request may be more.
type limit struct {
	cpus, used float64 // what it used when it was limited
	windows    int     // for which it has been so
}

// binds reports whether a culprit uses what its limit leaves it, and used more before. Where others have the CPUs it gets less than that; one that leaves more than half of it has little to do.
func (l *limit) binds(r *Reading) bool {
	const most = 0.5
	left := max(l.cpus, r.Request)
	return l.used > left && r.Use >= most*left // not where its use is not known
}

// sum adds the readings of a pod in a window up.
type sum struct {
	last   Reading
	n      int
	values [6]float64
	known  [6]int
	ahead  map[string]float64
	probed int
}

// service is one that is watched.
type service struct {
	watch   *Watch
	finding *Finding
	known   time.Time // when a window of it was last known
	learned bool
	probed  int // windows for which it was asked whom it waits for, less those that were given back
	rested  int // windows without harm since the last one was given back
}

// NewBook returns an empty one. The rules have to be valid and stay as they are.
func NewBook(r *Rules) *Book {
	return &Book{rules: r, sums: make(map[string]*sum), services: make(map[string]*service), limits: make(map[string]*limit), Actions: make(map[Kind]uint64)}
}

// Step takes a reading of all pods of the node in. It returns a new Decision when a window has ended, else nil.
func (b *Book) Step(now time.Time, pods []Reading) *Decision {
	if b.begun.IsZero() || now.Before(b.last) {
		if b.begun.IsZero() {
			b.started = now
		}
		b.begun, b.sums = now, make(map[string]*sum) // the clock went back: the window is not known
	}
	b.last = now
	for i := range pods {
		p := &pods[i]
		s := b.sums[p.ID]
		if s == nil {
			s = &sum{}
			b.sums[p.ID] = s
		}
		s.last = *p
		s.n++
		for k, v := range [...]float64{p.Use, p.Delay, p.Pressure, p.Indicator, p.Cycles, p.Bandwidth} {
			if v >= 0 && !math.IsInf(v, 0) {
				s.values[k] += v
				s.known[k]++
			}
		}
		s.probe(p.Ahead)
	}
	if now.Sub(b.begun) < Length {
		return nil
	}
	seen := b.close()
	b.begun, b.sums = now, make(map[string]*sum)
	return b.decide(now, seen)
}

// Evicted is when an eviction was last begun.
func (b *Book) Evicted() time.Time { return b.evicted }

// Restart begins the ladder anew for all services, and forgets what was decided: what was only told is not carried out at once. Baselines stay. evicted is when a pod was last evicted indeed.
func (b *Book) Restart(evicted time.Time) {
	for _, s := range b.services {
		s.watch.Restart()
		s.finding = nil
	}
	clear(b.limits)
	b.evict, b.why, b.evicted, b.apart = "", "", evicted, nil
}

// probe adds what a reading says of whom threads waited for.
func (s *sum) probe(ahead map[string]float64) {
	unknown := func(waited float64) bool { return math.IsNaN(orUnknown(waited)) }
	if ahead == nil || slices.ContainsFunc(slices.Collect(maps.Values(ahead)), unknown) { // of a look of which a part is not known, no share is
		return
	}
	s.probed++
	if s.ahead == nil {
		s.ahead = make(map[string]float64, len(ahead))
	}
	for id, waited := range ahead {
		if waited > 0 {
			s.ahead[id] += waited
		}
	}
}

// close returns the means of the window by pod, in the order of IDs.
func (b *Book) close() []Reading {
	out := make([]Reading, 0, len(b.sums))
	for _, id := range slices.Sorted(maps.Keys(b.sums)) {
		s := b.sums[id]
		mean := func(k int) float64 {
			if float64(s.known[k]) < knownShare*float64(s.n) || s.known[k] == 0 {
				return math.NaN()
			}
			return s.values[k] / float64(s.known[k])
		}
		r := s.last
		r.Use, r.Delay, r.Pressure, r.Indicator, r.Cycles, r.Bandwidth = mean(0), mean(1), mean(2), mean(3), mean(4), mean(5)
		if r.Ahead = nil; s.probed > 0 { // the probe looks at parts of windows too: shares are the same
			r.Ahead = make(map[string]float64, len(s.ahead))
			for other, waited := range s.ahead {
				r.Ahead[other] = waited / float64(s.probed)
			}
		}
		out = append(out, r)
	}
	return out
}

// decide shows the window to the services' watches.
func (b *Book) decide(now time.Time, seen []Reading) *Decision {
	byID := make(map[string]*Reading, len(seen))
	neighbours, byName := make([]Neighbour, 0, len(seen)), make(map[string]*Neighbour, len(seen))
	for i := range seen {
		byID[seen[i].ID] = &seen[i]
		n := Neighbour{Name: seen[i].ID, Use: seen[i].Use, Bandwidth: seen[i].Bandwidth}
		if l := b.limits[n.Name]; l != nil {
			n.Limited, n.Wants = true, l.binds(&seen[i])
			l.windows++
		}
		neighbours = append(neighbours, n)
		byName[n.Name] = &neighbours[i]
	}
	if late := now.Sub(b.closed) - Length; !b.closed.IsZero() && late >= Length/2 { // nobody looked for a while
		b.history.skip(int((late+Length/2)/Length), b.rules.Watch.Kept)
	}
	b.closed = now
	b.choose(seen, now)
	windows := make(map[string]*Window, len(b.services))
	for id, s := range b.services {
		if r := byID[id]; r != nil {
			windows[id] = windowOf(r)
			byName[id].Harmed = s.watch.High(windows[id])
		}
	}
	for _, id := range slices.Sorted(maps.Keys(windows)) {
		s, r, x := b.services[id], byID[id], windows[id]
		x.Neighbours = slices.DeleteFunc(slices.Clone(neighbours), func(n Neighbour) bool { return n.Name == id })
		x.probe(r.Ahead)
		if x.Load >= 0 {
			s.known = now
		}
		s.learned = s.watch.Learned(x.Load)
		for _, a := range s.watch.See(x, now) {
			b.obey(s, r, &a, byID, now)
		}
	}
	b.history.add(neighbours, windows, b.rules.Watch.Kept)
	b.limitCulprits(byID)
	b.forget(byID, now)
	b.nextEviction(now)
	d := b.decision(byID)
	d.Probe = b.probes()
	return d
}

// windowOf is what was seen of a service itself.
func windowOf(r *Reading) *Window {
	x := &Window{Load: r.Use / r.Request}
	x.Signals[Delay], x.Signals[Pressure], x.Signals[Indicator], x.Signals[Cycles] = r.Delay, r.Pressure, r.Indicator, r.Cycles
	return x
}

// probe has the window say whom the service waited for.
func (x *Window) probe(ahead map[string]float64) {
	if x.Probed = ahead != nil; !x.Probed {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(ahead)) { // the same order gives the same sum
		x.Waited += ahead[id]
	}
	for i := range x.Neighbours {
		x.Neighbours[i].Ahead = ahead[x.Neighbours[i].Name]
	}
}

// probes are the services of which it shall be looked whom they wait for: those with harm and no culprit, for some windows of each harm. Where they are too many, those that were looked at
// least come first.
func (b *Book) probes() []string {
	var list []string
	for _, id := range slices.Sorted(maps.Keys(b.services)) {
		s := b.services[id]
		if s.watch.Suspects() {
			if s.probed < probeWindows {
				list = append(list, id)
			}
			continue
		}
		if !s.watch.Calm() {
			continue
		}
		if s.rested++; s.rested >= probeRest {
			s.probed, s.rested = max(s.probed-1, 0), 0
		}
	}
	slices.SortStableFunc(list, func(x, y string) int { return cmp.Compare(b.services[x].probed, b.services[y].probed) })
	list = list[:min(len(list), maxProbed)]
	for _, id := range list {
		b.services[id].probed++
	}
	slices.Sort(list)
	return list
}

// nextEviction asks for the eviction of a culprit that a limit did not stop: one at a time, not too often, and only while the harm lasts.
func (b *Book) nextEviction(now time.Time) {
	if b.evict != "" || !b.evicted.IsZero() && now.Sub(b.evicted) < b.rules.EvictPause {
		return
	}
	var first *Finding
	for _, id := range slices.Sorted(maps.Keys(b.services)) {
		s := b.services[id]
		if f := s.finding; f != nil && f.wantsEviction && f.Step != Evict && s.watch.Harmed() && b.limitedInVain(f.Culprit) && (first == nil || f.Since.Before(first.Since)) {
			first = f
		}
	}
	if first != nil {
		first.Step, b.evict, b.why, b.evicted = Evict, first.Culprit, first.Reason, now
	}
}

// limitedInVain reports whether a culprit has been limited for as long as a step has to help.
func (b *Book) limitedInVain(id string) bool {
	l := b.limits[id]
	return l != nil && l.windows >= b.rules.Watch.Patience
}

// choose has the services watched that ask for most.
func (b *Book) choose(seen []Reading, now time.Time) {
	var list []*Reading
	for i := range seen {
		if seen[i].Watched && seen[i].Request > 0 {
			list = append(list, &seen[i])
		}
	}
	slices.SortStableFunc(list, func(x, y *Reading) int { return cmp.Compare(y.Request, x.Request) })
	b.unwatched = max(len(list)-MaxWatched, 0)
	wanted := make(map[string]bool, MaxWatched)
	for _, r := range list[:min(len(list), MaxWatched)] {
		wanted[r.ID] = true
		if b.services[r.ID] == nil {
			b.services[r.ID] = &service{watch: b.watch(r.ID), known: now}
		}
	}
	maps.DeleteFunc(b.services, func(id string, _ *service) bool { return !wanted[id] })
}

// watch begins to watch a service, with what is known of it from before.
func (b *Book) watch(id string) *Watch {
	w := NewWatch(&b.rules.Watch)
	if bins := b.restored[id]; bins != nil {
		w.takeUsual(bins)
		b.history.show(w, id)
		delete(b.restored, id)
	}
	return w
}

// obey keeps what an action says.
func (b *Book) obey(s *service, victim *Reading, a *Action, byID map[string]*Reading, now time.Time) {
	culprit := byID[a.Neighbour]
	b.Actions[a.Kind]++
	if a.Kind == Release {
		s.finding = nil
		return
	}
	if s.finding == nil {
		s.finding = &Finding{Victim: victim.ID, Since: now}
	}
	f := s.finding
	f.Reason = fmt.Sprintf("%s: %s; the use of no neighbour goes with it", victim.Name, a.Harm)
	if culprit != nil {
		f.Reason = fmt.Sprintf("%s: %s; %s", victim.Name, a.Harm, a.Evidence.Of(culprit.Name))
	}
	switch a.Kind {
	case StopGrowth:
		f.Step = StopGrowth
	case Narrow:
		f.Step, f.Culprit, f.LeftAlone, f.wantsEviction = Narrow, a.Neighbour, culprit == nil || !culprit.Limitable, false
	case Evict:
		f.Step, f.Culprit, f.LeftAlone, f.wantsEviction = Narrow, a.Neighbour, culprit == nil || !culprit.Limitable, true // forget looks whether it may
	case KeepApart:
		b.apart = slices.DeleteFunc(b.apart, func(p Pair) bool { return p.Victim == victim.ID && p.Culprit == a.Neighbour })
		b.apart = append(b.apart, Pair{victim.ID, a.Neighbour, a.Until})
		if len(b.apart) > maxApart {
			b.apart = b.apart[1:] // the oldest
		}
	case Release:
	}
}

// limitCulprits limits those that are named, once it is known what they use.
func (b *Book) limitCulprits(byID map[string]*Reading) {
	for _, id := range slices.Sorted(maps.Keys(b.services)) {
		f := b.services[id].finding
		if f == nil || f.Culprit == "" || f.LeftAlone || b.limits[f.Culprit] != nil { // a second victim would take a share of what the limit has left of it
			continue
		}
		if r := byID[f.Culprit]; r != nil && r.Use >= 0 {
			b.limits[f.Culprit] = &limit{cpus: max(b.rules.Share*r.Use, b.rules.Least), used: r.Use}
		}
	}
}

// forget takes back what nobody needs any more: of services that have gone or of which nothing is known for long, of culprits that have gone.
func (b *Book) forget(byID map[string]*Reading, now time.Time) {
	named := make(map[string]bool)
	for id, s := range b.services {
		if now.Sub(s.known) > silentFor {
			delete(b.services, id) // a new watch begins at the next window
			continue
		}
		if f := s.finding; f != nil && f.Culprit != "" {
			named[f.Culprit] = true
			f.wantsEviction = f.wantsEviction && byID[f.Culprit] != nil && byID[f.Culprit].Evictable
		}
	}
	if len(b.restored) > 0 && b.begun.Sub(b.started) > silentFor { // they have gone
		b.restored = nil
	}
	maps.DeleteFunc(b.limits, func(id string, _ *limit) bool { return !named[id] || byID[id] == nil || !byID[id].Limitable })
	if byID[b.evict] == nil || !named[b.evict] || !byID[b.evict].Evictable {
		b.evict, b.why = "", ""
	}
	b.apart = slices.DeleteFunc(b.apart, func(p Pair) bool { return !now.Before(p.Until) })
}

// decision is what stands now.
func (b *Book) decision(byID map[string]*Reading) *Decision {
	d := &Decision{Evict: b.evict, Why: b.why, Apart: slices.Clone(b.apart), Watched: len(b.services), Unwatched: b.unwatched}
	for _, id := range slices.Sorted(maps.Keys(b.services)) {
		s := b.services[id]
		if !s.learned {
			d.Learning++
		}
		if s.finding != nil {
			d.StopGrowth = true
			d.Findings = append(d.Findings, *s.finding)
		}
	}
	slices.SortStableFunc(d.Findings, func(x, y Finding) int { return x.Since.Compare(y.Since) })
	for _, id := range slices.Sorted(maps.Keys(b.limits)) {
		d.Limits = append(d.Limits, Limit{id, max(b.limits[id].cpus, byID[id].Request)}) // it may ask for more meanwhile
	}
	return d
}
