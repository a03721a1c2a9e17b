package metrics

import (
	"fmt"
	"time"

	"hilbert.dev/hilbert/control/forecast"
)

// Value is an answer.
type Value struct {
	// Amount is in the units of the metric: millionths or whole.
	Amount int64
	// At is when the oldest of the readings that it is made of was the last of its pod, Window over how long they were made.
	At     time.Time
	Window time.Duration
	// Pods is of how many pods it is made, Missing how many that run are not known.
	Pods, Missing int
	// Why says which of several sources it is; empty where there is one.
	Why string
}

// PodValue is an answer for one pod.
type PodValue struct {
	Value
	Pod string // its name
	// Container is its name, where the value is of one.
	Container string
}

// NoData is the error of a question that has no answer now. Whoever scales by it has to leave everything as it is.
type NoData struct{ Message string }

func (e *NoData) Error() string { return e.Message }

func noData(format string, args ...any) error { return &NoData{fmt.Sprintf(format, args...)} }

// Pods answers for each pod of a namespace that matches and is known, by name. None: the error says why.
func (s *Store) Pods(namespace string, match func(p *Pod) bool, n *Name, now time.Time) ([]PodValue, error) {
	if !n.PerPod {
		return nil, noData("%s is not of single pods; ask for a workload's", n.Name)
	}
	var out []PodValue
	asked, running, newest := 0, 0, time.Time{}
	for _, p := range sorted(s.namespaces[namespace]) {
		if !match(&p.Pod) {
			continue
		}
		asked++
		if p.Running.IsZero() {
			continue
		}
		running++
		if n.OfContainers {
			values, at := s.peaksOf(p, now)
			out = append(out, values...)
			newest = later(newest, at)
			continue
		}
		r := &p.values[n.Metric]
		newest = later(newest, r.until)
		if !s.fresh(r, now) {
			continue
		}
		out = append(out, PodValue{Value: Value{Amount: ofPod(r, n.Peak), At: r.until, Window: r.window, Pods: 1}, Pod: p.Name})
	}
	if len(out) == 0 {
		return nil, noData("%s is not known of any of %d pods in the namespace %s, of which %d run: %s", n.Name, asked, namespace, running, s.silence(newest, now))
	}
	return out, nil
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func ofPod(r *reading, peak bool) int64 {
	if peak {
		return r.Most
	}
	mean, _ := r.Mean()
	return mean
}

// silence says since when nothing was heard.
func (s *Store) silence(newest, now time.Time) string {
	if newest.IsZero() {
		return "no agent has reported it yet"
	}
	return fmt.Sprintf("the last report is of %s ago, and nothing older than %s is answered", now.Sub(newest).Round(time.Second), s.params.StaleAfter)
}

// Workload answers for a workload as a whole.
func (s *Store) Workload(w Workload, n *Name, now time.Time) (Value, error) {
	if n.OfContainers {
		return Value{}, noData("%s is of single containers; ask for pods, with the metric's selector container", n.Name)
	}
	switch n.Kind {
	case Forecast:
		return s.wanted(w, n, now)
	case Planned:
		return s.planned(w, now)
	case Live:
	}
	return s.live(w, n, now)
}

// live is made of the readings of now.
func (s *Store) live(w Workload, n *Name, now time.Time) (Value, error) {
	v, all, newest := Value{At: now}, Distribution{}, time.Time{}
	var sum int64
	grown := 0 // pods that have run long enough to be known
	missing := 0
	for _, p := range s.workloads[w] {
		if p.Running.IsZero() {
			continue
		}
		r := &p.values[n.Metric]
		newest = later(newest, r.until)
		if !s.fresh(r, now) {
			v.Missing++
			if now.Sub(p.Running) >= s.params.Grace {
				grown, missing = grown+1, missing+1
			}
			continue
		}
		grown++
		v.Pods++
		sum = plus(sum, ofPod(r, n.Peak))
		if n.Statistic == P95 || n.Statistic == Highest { // merging is the dear part
			all = Merge(all, r.Distribution)
		}
		if r.until.Before(v.At) {
			v.At = r.until
		}
		v.Window = max(v.Window, r.window)
	}
	switch {
	case v.Pods == 0 && v.Missing == 0:
		return v, noData("%s has no pods that run", w)
	case v.Pods == 0:
		return v, noData("%s is not known of any of the %d pods of %s: %s", n.Name, v.Missing, w, s.silence(newest, now))
	case float64(v.Pods) < s.params.Coverage*float64(grown):
		return v, noData("%s is known of %d of %d pods of %s: want %g %%", n.Name, v.Pods, grown, w, s.params.Coverage*percent)
	}
	switch n.Statistic {
	case Sum:
		// A pod that has just begun is left out: it does no work yet, and would have the workload grow because it grows.
		v.Amount = times(sum/int64(v.Pods), int64(v.Pods+missing))
		if missing == 0 {
			v.Amount = sum
		}
	case Mean:
		v.Amount = sum / int64(v.Pods)
	case P95:
		v.Amount, _ = all.Quantile(p95)
	case Highest:
		v.Amount = all.Most
	}
	return v, nil
}

const (
	percent = 100
	p95     = 0.95
)

// planned is the highest peak that has begun or begins within the lead. Between peaks it is 0, and that is known.
func (s *Store) planned(w Workload, now time.Time) (Value, error) {
	peaks := s.peaks[w]
	if len(peaks) == 0 {
		return Value{}, noData("no peak is planned for %s: see metrics.peaks in the configuration", w)
	}
	load, name := forecast.Planned(peaks, now, s.params.Forecast.Lead)
	return Value{Amount: int64(load * Micro), At: now, Why: name}, nil
}
