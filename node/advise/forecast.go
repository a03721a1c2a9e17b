package advise

import (
	"math"
	"time"
)

// A day is divided into slots, and of each slot the peaks of a few days are kept.
const (
	slotsOfDay = 96
	slotLength = 24 * time.Hour / slotsOfDay
	daysKept   = 8
	dayLength  = 24 * time.Hour
)

// Forecast knows what the shared pools of a NUMA node use in the course of a day.
//
// It follows Autopilot (Rzadca et al., EuroSys 2020): a percentile of the peaks of short intervals, with weights that halve with age;
// Autopilot and the Vertical Pod Autoscaler pour all of them into one histogram, here each quarter of an hour of the day has its own, of one
// peak a day, so that the tide is seen before it comes. Numbers are in CPUs; 0 is not known.
type Forecast struct {
	Slots [slotsOfDay]Slot `json:"slots"`
	// Minute is when the current minute began; Sum and Count are of its ticks.
	Minute time.Duration `json:"minute"`
	Sum    float64       `json:"sum"`
	Count  int           `json:"count"`
	// Peak is the greatest mean of a minute, fading.
	Peak float64 `json:"peak"`
	// Next is the forecast, Known whether there is one.
	Next  float64 `json:"next"`
	Known bool    `json:"known"`
}

// Slot is a quarter of an hour of the day. Peaks[0] is of Day, the others of the days before, in the local time of the node.
type Slot struct {
	Day   int64             `json:"day,omitempty"`
	Peaks [daysKept]float32 `json:"peaks"`
}

// see adds the use of this tick, and once a minute looks ahead.
func (f *Forecast) see(use float64, t *tick) {
	if passed := t.now - f.Minute; passed >= time.Minute && f.Count > 0 {
		f.fold(f.Sum/float64(f.Count), passed, t)
		f.Sum, f.Count, f.Minute = 0, 0, t.now
	} else if f.Count == 0 {
		f.Minute = t.now
	}
	f.Sum += use
	f.Count++
}

func (f *Forecast) fold(mean float64, passed time.Duration, t *tick) {
	day, slot := slotOf(t.o.Wall.Add(-passed / 2)) // the middle of the minute
	f.Slots[slot].see(day, mean)
	day, slot = slotOf(t.o.Wall)
	f.Peak = max(mean, f.Peak*math.Exp2(-float64(passed)/float64(t.p.FallbackHalfLife)))
	f.Next, f.Known = f.ahead(mean, day, slot, t.p), true
}

// ahead is the most that is expected within the horizon: what the days before had, plus what today has more than they had at this time. Of a
// slot that no day before knows, it is the fading peak and more.
func (f *Forecast) ahead(mean float64, day int64, slot int, p *Params) float64 {
	surplus := 0.0
	if usual, known := f.Slots[slot].percentile(day, p); known {
		surplus = max(0, mean-usual)
	}
	most := mean
	for i := range int(p.Horizon/slotLength) + 1 {
		next := slot + i
		usual, known := f.Slots[next%slotsOfDay].percentile(day+int64(next/slotsOfDay), p)
		if known {
			most = max(most, usual+surplus)
		} else {
			most = max(most, f.Peak*p.FallbackFactor)
		}
	}
	return most
}

// expect is the forecast, and before there is one, more than what is used.
func (f *Forecast) expect(t *tick, use float64) float64 {
	switch {
	case t.p.NoForecast:
		return 0
	case !f.Known:
		return use * t.p.FallbackFactor
	}
	return f.Next
}

// rebase has the current minute begin now.
func (f *Forecast) rebase(now time.Duration) { f.Minute, f.Sum, f.Count = now, 0, 0 }

// slotOf is the day, counted from some day on, and the slot of it, by the clock on the wall.
func slotOf(wall time.Time) (day int64, slot int) {
	_, east := wall.Zone()
	seconds := wall.Unix() + int64(east)
	length := int64(dayLength / time.Second)
	day = seconds / length
	if seconds%length < 0 {
		day--
	}
	return day, int((seconds - day*length) / int64(slotLength/time.Second))
}

// see notes the peak of a day. If the clock went back by more than a day, the slot starts over.
func (s *Slot) see(day int64, value float64) {
	switch forward := day - s.Day; {
	case forward < -1 || forward >= daysKept:
		*s = Slot{Day: day}
	case forward < 0:
		return
	case forward > 0:
		copy(s.Peaks[forward:], s.Peaks[:])
		clear(s.Peaks[:forward])
		s.Day = day
	}
	s.Peaks[0] = max(s.Peaks[0], float32(value), 1e-3)
}

// percentile is the weighted percentile of the peaks before that day, and whether there are any.
func (s *Slot) percentile(day int64, p *Params) (float64, bool) {
	var peaks [daysKept]float32
	var weights [daysKept]float64
	n, sum := 0, 0.0
	for i, peak := range s.Peaks {
		age := day - s.Day + int64(i)
		if peak <= 0 || age < 1 || age >= daysKept {
			continue
		}
		weight := math.Exp2(-float64(age) / p.ForecastHalfLife)
		at := n
		for ; at > 0 && peaks[at-1] < peak; at-- { // the greatest first
			peaks[at], weights[at] = peaks[at-1], weights[at-1]
		}
		peaks[at], weights[at] = peak, weight
		n, sum = n+1, sum+weight
	}
	above := sum * (1 - p.ForecastPercentile)
	for i := range n {
		if above -= weights[i]; above < 0 || i == n-1 {
			return float64(peaks[i]), true
		}
	}
	return 0, false
}
