package evict

import (
	"math"
	"time"

	"hilbert.dev/hilbert/api/spec"
)

// maxTime bounds Observation.At, so that no sum of times overflows.
const maxTime = time.Duration(math.MaxInt64 / 4)

// State is what Step remembers. The zero value is the start.
type State struct {
	// Begun says that a step was made, At when.
	Begun bool          `json:"begun"`
	At    time.Duration `json:"at"`
	// Watches are the pressures that stand, or come or go, by detector, NUMA node and pod.
	Watches []Watch `json:"watches,omitempty"`
	// Victims are the pods that have notice, were asked for, stopped, or leave while there is pressure.
	Victims []Victim `json:"victims,omitempty"`
	// Floored runs while reclaimed pods have the floor alone.
	Floored Timer `json:"floored"`
	// Requested, Urgent and Stopped run since the last request, urgent request and stop.
	Requested Timer `json:"requested"`
	Urgent    Timer `json:"urgent"`
	Stopped   Timer `json:"stopped"`
	// Granted are the times of the last requests because of what plugins found, the oldest first: no more than EvictionPlugins.PerHour in an hour.
	Granted []time.Duration `json:"granted,omitempty"`
	// GrantedNetwork are those because of the network, by EvictionNetwork.PerHour.
	GrantedNetwork []time.Duration `json:"grantedNetwork,omitempty"`
	// Closed is the node's last closing.
	Closed Closure `json:"closed"`
	Counts Counts  `json:"counts"`
}

// Timer runs from a time on, or does not run.
type Timer struct {
	On   bool          `json:"on"`
	From time.Duration `json:"from"`
}

// run lets the timer run as long as a condition holds.
func (t *Timer) run(holds bool, at time.Duration) {
	if holds && !t.On {
		t.From = at
	} else if !holds {
		t.From = 0
	}
	t.On = holds
}

func (t *Timer) start(at time.Duration) { *t = Timer{On: true, From: at} }

// ran says whether it has run for so long.
func (t *Timer) ran(at, d time.Duration) bool { return t.On && at-t.From >= d }

// runs says whether it runs, and for less than that.
func (t *Timer) runs(at, d time.Duration) bool { return t.On && at-t.From < d }

// free says whether something may be done that the timer says when it was done last.
func (t *Timer) free(at, interval time.Duration) bool { return !t.On || at-t.From >= interval }

func (t *Timer) shift(d time.Duration) {
	if t.On {
		t.From += d
	}
}

// Key names what a detector watches: the node, a NUMA node or a pod.
type Key struct {
	Detector Detector `json:"detector"`
	NUMANode int      `json:"numaNode"` // or AllNUMANodes
	UID      string   `json:"uid,omitempty"`
	// Finding is the name of a plugin's finding.
	Finding string `json:"finding,omitempty"`
}

// Watch is a pressure that stands, or comes or goes.
type Watch struct {
	Key
	Pod   *spec.PodRef `json:"pod,omitempty"`
	Level Level        `json:"level"`
	// Since and HardSince are when the levels began. Due runs since the API's help was due at the hard level, or since a request was last followed.
	Since     time.Duration `json:"since"`
	HardSince time.Duration `json:"hardSince"`
	Due       Timer         `json:"due"`
	// The levels' conditions have held since then: to begin, and to end.
	SoftOn  Timer `json:"softOn"`
	HardOn  Timer `json:"hardOn"`
	SoftOff Timer `json:"softOff"`
	HardOff Timer `json:"hardOff"`
	// Blind runs while the input is not known.
	Blind Timer `json:"blind"`
	// Reclaimed runs since the last order to reclaim.
	Reclaimed Timer `json:"reclaimed"`

	now   reading     // of this tick
	named []Candidate // of this tick: the pods that a plugin names
	index int         // of the NUMA node or pod
	seen  bool        // there was something to look at
}

// want is what must be given back for the level to end; nothing where that is not known.
func (w *Watch) want() float64 {
	switch {
	case !w.now.known || w.Level == None:
		return 0
	case w.Level == Hard:
		return w.now.hard.want()
	default:
		return w.now.soft.want()
	}
}

// idle: it can be forgotten.
func (w *Watch) idle() bool { return w.Level == None && !w.SoftOn.On && !w.HardOn.On }

func (w *Watch) shift(d time.Duration) {
	w.Since += d
	w.HardSince += d
	for _, t := range []*Timer{&w.Due, &w.SoftOn, &w.HardOn, &w.SoftOff, &w.HardOff, &w.Blind, &w.Reclaimed} {
		t.shift(d)
	}
}

// advance takes the time of an observation. Time without observations does not count for conditions that must last; a clock that was set back
// leaves every wait as long as it was.
func (m *State) advance(at time.Duration, p *Params) time.Duration {
	at = min(max(at, 0), maxTime)
	d := at - m.At
	waits := []*Timer{&m.Requested, &m.Urgent, &m.Stopped}
	switch {
	case !m.Begun || d >= 0 && d <= p.MaxGap.D():
	case d < 0:
		m.shift(d)
		for _, t := range waits {
			t.shift(d)
		}
		m.Closed.shift(d)
		m.Counts.ClockJumps++
	default:
		m.shift(d)
		m.Counts.ClockJumps++
	}
	for _, t := range waits {
		if t.ran(at, maxTime/2) { // so that no clock that jumps to and fro makes it overflow
			*t = Timer{}
		}
	}
	m.Closed.decay(at, &p.Close)
	m.Begun, m.At = true, at
	return at
}

func (m *State) shift(d time.Duration) {
	for i := range m.Watches {
		m.Watches[i].shift(d)
	}
	for i := range m.Victims {
		m.Victims[i].shift(d)
	}
	m.Floored.shift(d)
	for i := range m.Granted {
		m.Granted[i] += d
	}
	for i := range m.GrantedNetwork {
		m.GrantedNetwork[i] += d
	}
}

// watch is the one of a key, nil where there is none.
func (m *State) watch(k Key) *Watch {
	for i := range m.Watches {
		if m.Watches[i].Key == k {
			return &m.Watches[i]
		}
	}
	return nil
}

// follow takes a reading: it raises the level once that has been called for for long enough, and lowers it once it has been over.
func (w *Watch) follow(r *reading, v *view, at time.Duration, c *Counts) {
	w.now = *r
	w.Blind.run(!r.known, at)
	if !r.known {
		// What has not begun yet has not lasted; what has begun neither ends nor continues.
		w.SoftOn, w.HardOn, w.SoftOff, w.HardOff = Timer{}, Timer{}, Timer{}, Timer{}
		if w.Blind.ran(at, v.p.BlindFor.D()) {
			w.Level = None
		}
		return
	}
	soft, hard := r.soft.value >= r.soft.enter, r.hard.value >= r.hard.enter
	w.SoftOn.run(soft || hard, at)
	w.HardOn.run(hard, at)
	w.SoftOff.run(!soft && !hard && r.soft.value <= r.soft.clear, at)
	w.HardOff.run(!hard && r.hard.value <= r.hard.clear, at)
	softFor, hardFor := detectors[w.Detector].hold(v.p)
	if w.Level == None && (w.SoftOn.ran(at, softFor) || w.HardOn.ran(at, hardFor)) {
		w.Level, w.Since = Soft, at
		c.Soft[w.Detector]++
	}
	if w.Level == Soft && w.HardOn.ran(at, hardFor) {
		w.Level, w.HardSince, w.Due = Hard, at, Timer{}
		c.Hard[w.Detector]++
	}
	if w.Level == Hard && w.HardOff.ran(at, v.p.ReleaseAfter.D()) {
		w.Level = Soft
	}
	if w.Level == Soft && w.SoftOff.ran(at, v.p.ReleaseAfter.D()) {
		w.Level = None
	}
}

// detect looks with all detectors. What is not there any longer (a pod, a NUMA node) is forgotten.
func (s *step) detect() {
	for i := range s.m.Watches {
		s.m.Watches[i].seen = false
	}
	for d := range detectorCount {
		if s.p.Off.Has(d) {
			continue
		}
		row := &detectors[d]
		for i := range row.count(s.o) {
			r := row.read(&s.view, i)
			if !r.known {
				s.d.Unknown |= Of(d)
				s.m.Counts.Unknown[d]++
			}
			s.observe(d, i, &r)
		}
	}
	kept := s.m.Watches[:0]
	for i := range s.m.Watches {
		if w := &s.m.Watches[i]; w.seen && !w.idle() {
			kept = append(kept, *w)
		}
	}
	clear(s.m.Watches[len(kept):])
	s.m.Watches = kept
}

// observe finds the watch of a reading, and begins one where a level is called for.
func (s *step) observe(d Detector, i int, r *reading) {
	called := r.known && (r.soft.value >= r.soft.enter || r.hard.value >= r.hard.enter)
	if len(s.m.Watches) == 0 && !called {
		return
	}
	key, pod := Key{Detector: d, NUMANode: AllNUMANodes}, (*spec.PodRef)(nil)
	switch detectors[d].scope {
	case eachNUMANode:
		key.NUMANode = i
	case eachPod:
		pod = &s.o.Pods[i].PodRef
		key.UID = pod.UID
	case eachFinding:
		key.Finding = s.o.Findings[i].Name()
	case theNode:
	}
	w := s.m.watch(key)
	if w == nil {
		if !called {
			return
		}
		s.m.Watches = append(s.m.Watches, Watch{Key: key})
		w = &s.m.Watches[len(s.m.Watches)-1]
		if pod != nil {
			named := *pod
			w.Pod = &named
		}
	}
	w.index, w.seen = i, true
	if key.Finding != "" {
		w.named = s.o.Findings[i].Candidates
	}
	w.follow(r, &s.view, s.at, &s.m.Counts)
}
