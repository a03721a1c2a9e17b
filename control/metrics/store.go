package metrics

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"hilbert.dev/hilbert/control/forecast"
)

// Params are what a Store answers by.
type Params struct {
	// StaleAfter is the age from which a value is not answered.
	StaleAfter time.Duration
	// Grace is how long a pod may run before it counts as one that should be known.
	Grace time.Duration
	// Coverage is the share of a workload's pods, 0 to 1, that have to be known.
	Coverage float64
	// PeaksFor is for how long at least peaks of containers are answered: whoever asks as often misses none.
	PeaksFor time.Duration
	// MaxProfiles bounds the workloads of which there are forecasts; KeepAsked is how long one is kept that nobody asks for.
	MaxProfiles int
	KeepAsked   time.Duration
	// Forecast is what forecasts are made by.
	Forecast forecast.Params
}

// DefaultParams are for agents that report every 15 seconds.
func DefaultParams() Params {
	const step, lead = 5 * time.Minute, 15 * time.Minute
	return Params{
		StaleAfter: time.Minute, Grace: time.Minute, Coverage: 0.8, PeaksFor: time.Minute, MaxProfiles: 200, KeepAsked: 7 * 24 * time.Hour,
		Forecast: forecast.DefaultParams(step, lead),
	}
}

// Workload is what pods belong to, such as a Deployment.
type Workload struct{ Namespace, Kind, Name string }

// String is how errors name it.
func (w Workload) String() string { return fmt.Sprintf("%s %s/%s", w.Kind, w.Namespace, w.Name) }

// Pod is a pod that exists.
type Pod struct {
	UID, Namespace, Name string
	Node                 string
	Labels               map[string]string
	// Workload is zero where the pod belongs to none.
	Workload Workload
	// Running since then; zero: it does not run, or is being deleted.
	Running time.Time
}

// Store is what is known of all pods. It is not safe for use by several goroutines.
type Store struct {
	params     Params
	pods       map[string]*podState            // by UID
	namespaces map[string]map[string]*podState // by namespace and UID
	workloads  map[Workload]map[string]*podState
	profiles   map[Workload]*profile
	peaks      map[Workload][]forecast.Peak
	left       LeftOut
}

// podState is a pod with what was read of it last.
type podState struct {
	Pod
	values [metricCount]reading
	peaks  map[string]*containerPeak // by the container's name
}

// reading is what one report says of one metric.
type reading struct {
	Distribution
	until  time.Time
	window time.Duration
}

// NewStore returns an empty store. Its forecast parameters have to be valid.
func NewStore(p *Params) *Store {
	return &Store{
		params: *p, pods: make(map[string]*podState), namespaces: make(map[string]map[string]*podState), workloads: make(map[Workload]map[string]*podState),
		profiles: make(map[Workload]*profile), peaks: make(map[Workload][]forecast.Peak),
	}
}

// SetPeaks says which peaks are planned. Their loads are in cores, or in whatever else the autoscaler's target is.
func (s *Store) SetPeaks(peaks map[Workload][]forecast.Peak) { s.peaks = peaks }

// SetPod tells of a pod that exists. What was read of it stays.
func (s *Store) SetPod(p *Pod) {
	state := &podState{Pod: *p}
	if was := s.pods[p.UID]; was != nil {
		state.values, state.peaks = was.values, was.peaks
		s.DeletePod(p.UID)
	}
	s.pods[p.UID] = state
	put(s.namespaces, p.Namespace, state)
	if p.Workload != (Workload{}) {
		put(s.workloads, p.Workload, state)
	}
}

func put[K comparable](in map[K]map[string]*podState, key K, p *podState) {
	if in[key] == nil {
		in[key] = make(map[string]*podState)
	}
	in[key][p.UID] = p
}

// DeletePod forgets a pod.
func (s *Store) DeletePod(uid string) {
	p := s.pods[uid]
	if p == nil {
		return
	}
	delete(s.pods, uid)
	drop(s.namespaces, p.Namespace, uid)
	drop(s.workloads, p.Workload, uid)
}

func drop[K comparable](in map[K]map[string]*podState, key K, uid string) {
	delete(in[key], uid)
	if len(in[key]) == 0 {
		delete(in, key)
	}
}

// KeepPods forgets all pods but these.
func (s *Store) KeepPods(uids map[string]bool) {
	for uid := range s.pods {
		if !uids[uid] {
			s.DeletePod(uid)
		}
	}
}

// Taken is what became of a report: how many of its pods were taken in, are not known yet, with their node, or are of another node.
type Taken struct{ Taken, Unknown, Foreign int }

// Take takes a report in that a node has sent now.
func (s *Store) Take(node string, r *Report, now time.Time) (t Taken) {
	for i := range r.Pods {
		from := &r.Pods[i]
		p := s.pods[from.UID]
		switch {
		case p == nil || p.Node == "": // an agent may know of a pod, or that it is its own, before the watch does
			t.Unknown++
			continue
		case p.Node != node:
			t.Foreign++
			continue
		}
		t.Taken++
		until := now.Add(-time.Duration(from.AgeMS) * time.Millisecond)
		for m := range metricCount {
			d, known := from.Values[m.String()]
			if !known || d.Count == 0 || until.Before(p.values[m].until) {
				continue
			}
			p.values[m] = reading{d, until, time.Duration(from.WindowMS) * time.Millisecond}
		}
		s.takePeaks(p, from.Peaks, until)
	}
	return t
}

// Counts are how many pods there are, and of how many something is known that may be answered.
func (s *Store) Counts(now time.Time) (pods, known int) {
	for _, p := range s.pods {
		if slices.ContainsFunc(p.values[:], func(r reading) bool { return s.fresh(&r, now) }) {
			known++
		}
	}
	return len(s.pods), known
}

// LeftOut is what it has left out.
func (s *Store) LeftOut() LeftOut { return s.left }

// Profiles is of how many workloads forecasts are made.
func (s *Store) Profiles() int { return len(s.profiles) }

func (s *Store) fresh(r *reading, now time.Time) bool {
	return r.Count > 0 && now.Sub(r.until) < s.params.StaleAfter
}

// sorted is a set of pods in order.
func sorted(set map[string]*podState) []*podState {
	out := make([]*podState, 0, len(set))
	for _, p := range set {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b *podState) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID)) })
	return out
}
