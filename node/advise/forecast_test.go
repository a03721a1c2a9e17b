package advise

import (
	"slices"
	"testing"
	"time"
)

// usual is a slot that had these peaks on the days up to that one, the last first; 0: not known.
func usual(day int64, peaks ...float64) *Slot {
	s := &Slot{}
	for i, peak := range slices.Backward(peaks) {
		if peak > 0 {
			s.see(day-int64(i), peak)
		}
	}
	return s
}

// The percentile is of the days before, where a day counts less the older it is.
func TestSlotPercentile(t *testing.T) {
	p := Defaults() // the 90th, halving in three days
	for _, c := range []struct {
		name  string
		peaks []float64 // of yesterday, the day before, …
		want  float64
	}{
		{"nothing", nil, 0},
		{"one day", []float64{5}, 5},
		{"the highest of three", []float64{5, 9, 5}, 9},
		{"yesterday was the highest", []float64{9, 5, 5, 5, 5, 5, 5}, 9},
		{"a week ago it was higher, once", []float64{5, 5, 5, 5, 5, 5, 9}, 5},
		{"twice, a week ago", []float64{5, 5, 5, 5, 5, 9, 9}, 9},
		{"days without a value", []float64{0, 0, 7, 0, 3}, 7},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := usual(99, c.peaks...)
			got, known := s.percentile(100, &p)
			if got != c.want || known != (c.want > 0) {
				t.Errorf("%v, %v, want %v", got, known, c.want)
			}
			s.see(100, 50) // today is no day before
			if again, _ := s.percentile(100, &p); again != got {
				t.Errorf("today makes it %v from %v", again, got)
			}
			if _, known := s.percentile(100+daysKept+1, &p); known {
				t.Error("it is known from more days ago than are kept")
			}
		})
	}
}

// A clock that was wrong by more than a day costs what was learnt under the wrong date, and no more.
func TestSlotClock(t *testing.T) {
	p := Defaults()
	s := usual(99, 5, 6)
	s.see(50_000, 9)
	s.see(100, 7)
	s.see(99, 30) // an hour back over midnight
	if got, known := s.percentile(101, &p); got != 7 || !known {
		t.Errorf("%v, %v, want 7", got, known)
	}
	if s.see(102, 8); s.Peaks != [daysKept]float32{8, 0, 7} {
		t.Errorf("peaks %v", s.Peaks)
	}
}

// The time of day is the local one, from before 1970 on.
func TestSlotOf(t *testing.T) {
	utc := time.Date(2026, 11, 20, 23, 31, 0, 0, time.UTC)
	day, slot := slotOf(utc)
	if slot != 94 {
		t.Errorf("23:31 is slot %d, want 94", slot)
	}
	if d, s := slotOf(utc.In(time.FixedZone("", 2*3600))); d != day+1 || s != 6 {
		t.Errorf("01:31 of the next day is slot %d of day %d, want 6 of %d", s, d, day+1)
	}
	if d, s := slotOf(time.Date(1969, 12, 31, 23, 59, 59, 0, time.UTC)); d != -1 || s != 95 {
		t.Errorf("the second before 1970 is slot %d of day %d", s, d)
	}
	if _, s := slotOf(time.Time{}); s != 0 {
		t.Errorf("no time at all is slot %d", s)
	}
}

// Ahead lie the slots within the horizon, over midnight too; what today has beyond the usual is expected to stay.
func TestForecastAhead(t *testing.T) {
	p := Defaults()
	f := &Forecast{Peak: 4}
	for slot, peak := range map[int]float64{94: 5, 95: 6} {
		f.Slots[slot] = *usual(99, peak)
	}
	f.Slots[0], f.Slots[1] = *usual(100, 20), *usual(100, 30)
	for _, c := range []struct {
		name string
		mean float64
		slot int
		want float64
	}{
		{"as usual", 4, 94, 20},
		{"more than usual", 8, 94, 23},
		{"the slots ahead are not known: the fading peak, and more", 1, 40, 5},
		{"more is used than that", 9, 40, 9},
	} {
		if got := f.ahead(c.mean, 100, c.slot, &p); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// Before the first minute is over the forecast is more than what is used.
func TestForecastFirstMinute(t *testing.T) {
	o, p, m := quiet(1), Defaults(), State{}
	p.ForecastUse = p.TargetUse
	a := Step(o, &p, &m)
	if want := millicores(32 - 32*p.CPUReserve - (4*p.FallbackFactor/p.TargetUse + p.Margin + 32*p.MarginShare)); a.NUMANodes[0].CPU.Now != want || a.NUMANodes[0].CPU.Reason != BoundByForecast {
		t.Errorf("%+v, want %d", a.NUMANodes[0].CPU, want)
	}
}
