package metrics

import (
	"maps"
	"slices"
	"time"
)

// containerPeak is the most memory of a container: in the time that began at from, and in the one before. So an answer reaches back for at least Params.PeaksFor, and for less than twice
// that and one report, in two numbers.
type containerPeak struct {
	from, until time.Time
	most        int64
	before      int64 // 0: nothing is known of the time before
}

// takePeaks takes in the peaks that a report has of a pod, which were read until then.
func (s *Store) takePeaks(p *podState, peaks map[string]int64, until time.Time) {
	if len(peaks) == 0 {
		return
	}
	// Names of a pod's containers change with debugging containers alone; those that are not told of any more make room.
	maps.DeleteFunc(p.peaks, func(_ string, c *containerPeak) bool { return until.Sub(c.until) >= s.params.StaleAfter })
	if p.peaks == nil {
		p.peaks = make(map[string]*containerPeak)
	}
	for _, name := range slices.Sorted(maps.Keys(peaks)) {
		c := p.peaks[name]
		switch {
		case c == nil && len(p.peaks) >= MaxContainers:
			s.left.Containers++
			continue
		case c == nil:
			c = &containerPeak{from: until}
			p.peaks[name] = c
		case until.Before(c.until): // another report of the same readings, late
			continue
		case until.Sub(c.from) >= s.params.PeaksFor:
			c.from, c.before, c.most = until, c.most, 0
		}
		c.until, c.most = until, max(c.most, peaks[name])
	}
}

// peaksOf are the peaks of a pod's containers that may be answered, by name, and when the newest of all was read.
func (s *Store) peaksOf(p *podState, now time.Time) (out []PodValue, newest time.Time) {
	for _, name := range slices.Sorted(maps.Keys(p.peaks)) {
		c := p.peaks[name]
		newest = later(newest, c.until)
		if now.Sub(c.until) < s.params.StaleAfter {
			out = append(out, PodValue{Value: Value{Amount: max(c.most, c.before), At: c.until, Window: s.params.PeaksFor, Pods: 1}, Pod: p.Name, Container: name})
		}
	}
	return out, newest
}
