package forecast

import "time"

// Schedule is when something begins. A cron expression with its time zone is one; whoever reads expressions gives it.
type Schedule interface {
	// Next is the first instant after one, and zero if there is none.
	Next(after time.Time) time.Time
}

// Peak is a planned load: each time the schedule begins, for so long. A campaign of one day is a schedule that begins once.
type Peak struct {
	Name     string
	Begins   Schedule
	Duration time.Duration
	Load     float64
}

// Planned is the most that peaks ask for within the lead, and the name of that peak.
func Planned(peaks []Peak, now time.Time, lead time.Duration) (load float64, name string) {
	for i := range peaks {
		p := &peaks[i]
		// A peak that began after now-Duration is not over; one that begins within the lead counts already.
		if begins := p.Begins.Next(now.Add(-p.Duration)); !begins.IsZero() && !begins.After(now.Add(lead)) && p.Load > load {
			load, name = p.Load, p.Name
		}
	}
	return load, name
}

// Wanted is what capacity has to be there for: the live load, a trusted forecast, or a planned peak, whichever is most; and which it is.
func Wanted(live float64, p *Prediction, planned float64) (load float64, why string) {
	load, why = live, "the live load"
	if p.Trusted && p.High > load {
		load, why = p.High, "the forecast"
	}
	if planned > load {
		load, why = planned, "a planned peak"
	}
	return load, why
}
