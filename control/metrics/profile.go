package metrics

import (
	"cmp"
	"slices"
	"time"

	"hilbert.dev/hilbert/control/forecast"
	"hilbert.dev/hilbert/internal/fairshare"
)

// profile is what a workload used, of as many steps as forecasts look back.
type profile struct {
	series *forecast.Series
	asked  time.Time
	// The step under way: its number, and the values that were seen in it.
	step   int64
	sum    float64
	values int
	// filled: what was before it began has been asked for.
	filled bool
}

// wanted is the greatest of the live load and a forecast that is trusted. Without a live load there is none: a forecast alone is a guess.
func (s *Store) wanted(w Workload, n *Name, now time.Time) (Value, error) {
	v, err := s.live(w, n, now)
	if err != nil {
		return v, err
	}
	p := s.profiles[w]
	if p == nil {
		if len(s.profiles) >= s.params.MaxProfiles && !s.makeRoom(w.Namespace) {
			s.left.Forecasts++
			v.Why = "the live load: there are as many forecasts as metrics.maxForecasts allows"
			return v, nil
		}
		p = &profile{series: forecast.NewSeries(&s.params.Forecast)}
		s.profiles[w] = p
	}
	p.asked = now
	prediction := p.series.Predict()
	load, why := forecast.Wanted(float64(v.Amount)/Micro, &prediction, 0)
	v.Amount, v.Why = max(v.Amount, int64(load*Micro)), why
	if !prediction.Trusted {
		v.Why += ": " + prediction.Reason
	}
	return v, nil
}

// Tick has profiles see the live load. Call it at least once a step, better more often: a step's load is the mean of what was seen in it. A step in which nothing was known is not known.
func (s *Store) Tick(now time.Time) {
	n, _ := Find("hilbert_cpu_use_forecast")
	for w, p := range s.profiles {
		if now.Sub(p.asked) > s.params.KeepAsked {
			delete(s.profiles, w)
			continue
		}
		step := now.UnixNano() / int64(s.params.Forecast.Step)
		if step != p.step {
			p.close(s.params.Forecast.Step)
			p.step = step
		}
		if v, err := s.live(w, &n, now); err == nil {
			p.sum += float64(v.Amount) / Micro
			p.values++
		}
	}
}

// close ends the step under way.
func (p *profile) close(length time.Duration) {
	if p.values > 0 {
		p.series.See(p.sum/float64(p.values), time.Unix(0, p.step*int64(length)))
	}
	p.sum, p.values = 0, 0
}

// Load is what a workload used in a step.
type Load struct {
	At    time.Time
	Cores float64
}

// Unfilled is the next workload after another, round and round, whose profile knows nothing of what was before it began; false: there is none.
func (s *Store) Unfilled(after Workload) (Workload, bool) {
	var unfilled []Workload
	for w, p := range s.profiles {
		if !p.filled {
			unfilled = append(unfilled, w)
		}
	}
	if len(unfilled) == 0 {
		return Workload{}, false
	}
	slices.SortFunc(unfilled, Workload.compare)
	next := slices.IndexFunc(unfilled, func(w Workload) bool { return w.compare(after) > 0 })
	return unfilled[max(next, 0)], true
}

func (w Workload) compare(other Workload) int {
	return cmp.Or(cmp.Compare(w.Namespace, other.Namespace), cmp.Compare(w.Kind, other.Kind), cmp.Compare(w.Name, other.Name))
}

// Fill gives a profile what was before it began, by time. A load at or after the step under way is passed over; so is all of it if the profile has been filled.
func (s *Store) Fill(w Workload, history []Load) {
	p := s.profiles[w]
	if p == nil || p.filled {
		return
	}
	p.filled = true
	began := p.series
	p.series = forecast.NewSeries(&s.params.Forecast)
	newest, own := began.Loads()
	first := newest.Add(-time.Duration(len(own)) * s.params.Forecast.Step)
	for _, l := range history {
		if (len(own) == 0 || !l.At.After(first)) && (p.step == 0 || l.At.UnixNano()/int64(s.params.Forecast.Step) < p.step) {
			p.series.See(l.Cores, l.At)
		}
	}
	s.replay(p.series, newest, own)
}

// replay has a series see loads that end at a time. Those that are not known are no numbers, which it passes over.
func (s *Store) replay(to *forecast.Series, newest time.Time, loads []float64) {
	step := s.params.Forecast.Step
	for i, load := range loads {
		to.See(load, newest.Add(-time.Duration(len(loads)-1-i)*step))
	}
}

// makeRoom forgets a profile of the namespace that has most, for one of a namespace that has fewer: the one that nobody has asked for the longest. False: there is none.
func (s *Store) makeRoom(namespace string) bool {
	held := make(map[string]int)
	for w := range s.profiles {
		held[w.Namespace]++
	}
	from, ok := fairshare.Yields(held, namespace)
	if !ok {
		return false
	}
	var oldest Workload
	for w, p := range s.profiles {
		if was := s.profiles[oldest]; w.Namespace == from && (was == nil || p.asked.Before(was.asked) || p.asked.Equal(was.asked) && w.String() < oldest.String()) {
			oldest = w
		}
	}
	delete(s.profiles, oldest)
	return true
}
