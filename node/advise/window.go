package advise

import "time"

// A window covers its length in windowSlots parts, and up to one part more: it may say too long, never too short.
const windowSlots = 12

// window says what the part of time is that now lies in.
func part(now, length time.Duration) int64 {
	width := max(length/windowSlots, time.Millisecond)
	return int64(now / width)
}

// Highest is the greatest value of the last while.
type Highest struct {
	Slots [windowSlots + 1]float64 `json:"slots"`
	Part  int64                    `json:"part"`
}

// see adds a value and returns the greatest. Parts in which nothing was seen have the value that the part before them had.
func (w *Highest) see(value float64, now, length time.Duration) float64 {
	at := part(now, length)
	last := w.Slots[index(w.Part)]
	for skipped := min(at-w.Part, windowSlots+1); skipped > 1; skipped-- {
		w.Slots[index(at-skipped+1)] = last
	}
	if at != w.Part {
		w.Part = at
		w.Slots[index(at)] = value
	}
	slot := &w.Slots[index(at)]
	*slot = max(*slot, value)
	most := *slot
	for _, v := range w.Slots {
		most = max(most, v)
	}
	return most
}

// Lowest is the least value of the last while. At its start all was 0.
type Lowest struct {
	Slots [windowSlots + 1]int64 `json:"slots"`
	Part  int64                  `json:"part"`
}

// see adds a value and returns the least; quiet is what the parts count for in which nothing was seen.
func (w *Lowest) see(value, quiet int64, now, length time.Duration) int64 {
	at := part(now, length)
	for skipped := min(at-w.Part, windowSlots+1); skipped > 1; skipped-- {
		w.Slots[index(at-skipped+1)] = quiet
	}
	if at != w.Part {
		w.Part = at
		w.Slots[index(at)] = value
	}
	slot := &w.Slots[index(at)]
	*slot = min(*slot, value)
	least := *slot
	for _, v := range w.Slots {
		least = min(least, v)
	}
	return least
}

// restart has every part count for a value.
func (w *Lowest) restart(value int64, now, length time.Duration) {
	w.Part = part(now, length)
	for i := range w.Slots {
		w.Slots[i] = value
	}
}

func (w *Highest) restart(now, length time.Duration) {
	most := 0.0
	for _, v := range w.Slots {
		most = max(most, v)
	}
	*w = Highest{Part: part(now, length)}
	w.Slots[index(w.Part)] = most
}

func index(part int64) int { return int(part % (windowSlots + 1)) }

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
