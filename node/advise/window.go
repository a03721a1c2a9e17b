package advise

import "time"

// A window covers its length in windowSlots parts, and up to one part more: it may say too long, never too short.
const windowSlots = 12

// part is the number of the part of time that contains now.
func part(now, length time.Duration) int64 {
	return int64(now / max(length/windowSlots, time.Millisecond))
}

func index(part int64) int { return int(part % (windowSlots + 1)) }

// Highest is the greatest value of the last while.
type Highest struct {
	Slots [windowSlots + 1]float64 `json:"slots"`
	Most  float64                  `json:"most"`
	Part  int64                    `json:"part"`
}

// see adds a value and returns the greatest. Parts in which nothing was seen have what the part before them had.
func (w *Highest) see(value float64, now, length time.Duration) float64 {
	if at := part(now, length); at != w.Part {
		last := w.Slots[index(w.Part)]
		for skipped := min(at-w.Part, windowSlots+1); skipped > 1; skipped-- {
			w.Slots[index(at-skipped+1)] = last
		}
		w.Part = at
		w.Slots[index(at)], w.Most = value, value
		for _, v := range w.Slots {
			w.Most = max(w.Most, v)
		}
	} else if slot := &w.Slots[index(at)]; value > *slot {
		*slot, w.Most = value, max(w.Most, value)
	}
	return w.Most
}

// restart keeps the greatest for one more while.
func (w *Highest) restart(now, length time.Duration) {
	*w = Highest{Part: part(now, length), Most: w.Most}
	w.Slots[index(w.Part)] = w.Most
}

// Lowest is the least value of the last while. At its start all was 0.
type Lowest struct {
	Slots [windowSlots + 1]int64 `json:"slots"`
	Least int64                  `json:"least"`
	Part  int64                  `json:"part"`
}

// see adds a value and returns the least; quiet is what the parts count for in which nothing was seen.
func (w *Lowest) see(value, quiet int64, now, length time.Duration) int64 {
	if *w == (Lowest{}) {
		w.Part = part(now, length) // of this part only the end is seen, so it counts as what was before
	}
	if at := part(now, length); at != w.Part {
		for skipped := min(at-w.Part, windowSlots+1); skipped > 1; skipped-- {
			w.Slots[index(at-skipped+1)] = quiet
		}
		w.Part = at
		w.Slots[index(at)], w.Least = value, value
		for _, v := range w.Slots {
			w.Least = min(w.Least, v)
		}
	} else if slot := &w.Slots[index(at)]; value < *slot {
		*slot, w.Least = value, min(w.Least, value)
	}
	return w.Least
}

// restart has every part count for a value.
func (w *Lowest) restart(value int64, now, length time.Duration) {
	w.Part, w.Least = part(now, length), value
	for i := range w.Slots {
		w.Slots[i] = value
	}
}

// Since is how long something has been so.
type Since struct {
	So bool          `json:"so"`
	At time.Duration `json:"at"`
}

func (s *Since) see(so bool, now time.Duration) {
	if so && !s.So {
		s.At = now
	}
	s.So = so
}

// lasted reports whether it has been so for at least that long.
func (s *Since) lasted(now, long time.Duration) bool { return s.So && now-s.At >= long }
