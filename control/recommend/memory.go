package recommend

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// daysKept is how many daily peaks of memory are kept.
const daysKept = 8

// peak is the most memory of a day. The days are of UTC, so that all replicas of a controller agree on them.
type peak struct {
	day   int64
	bytes float64
	// ranOut: what a pod needed that ran out of memory, more than was seen in use.
	ranOut bool
}

// memoryUse is what is known of a workload's memory: the peaks of its last days, the newest last.
type memoryUse struct {
	params *Params
	peaks  []peak
	latest time.Time
}

// see notes the most memory of a day.
func (m *memoryUse) see(p peak) {
	n := len(m.peaks)
	switch {
	case n == 0 || m.peaks[n-1].day < p.day:
		m.peaks = append(m.peaks, p)
		if len(m.peaks) > daysKept {
			m.peaks = append(m.peaks[:0], m.peaks[1:]...)
		}
	case m.peaks[n-1].day == p.day && m.peaks[n-1].bytes < p.bytes:
		m.peaks[n-1] = p
	}
}

// dayOf counts days.
func dayOf(at time.Time) int64 {
	const day = int64(24 * time.Hour / time.Second)
	return at.Unix() / day
}

// ranOut notes that a pod with this much memory ran out of it.
func (m *memoryUse) ranOut(bytes float64, at time.Time) {
	day := dayOf(at)
	if n := len(m.peaks); n > 0 && m.peaks[n-1].day == day && !m.peaks[n-1].ranOut {
		bytes = max(bytes, m.peaks[n-1].bytes)
	}
	m.see(peak{day, max(bytes*m.params.OOMFactor, bytes+m.params.OOMBytes), true})
}

// known are the peaks of the days kept, the lowest first.
func (m *memoryUse) known(now time.Time) []peak {
	oldest := dayOf(now) - daysKept
	var list []peak
	for _, p := range m.peaks {
		if p.day > oldest {
			list = append(list, p)
		}
	}
	slices.SortStableFunc(list, func(a, b peak) int {
		switch {
		case a.bytes < b.bytes:
			return -1
		case a.bytes > b.bytes:
			return 1
		}
		return 0
	})
	return list
}

// weighted is the percentile of peaks whose weight halves with age, as the Vertical Pod Autoscaler takes it, without its buckets.
func (m *memoryUse) weighted(list []peak, now time.Time) peak {
	today, sum := dayOf(now), 0.0
	weight := func(p *peak) float64 {
		age := time.Duration(today-p.day) * 24 * time.Hour
		return math.Exp2(-float64(age) / float64(m.params.MemoryHalfLife))
	}
	for i := range list {
		sum += weight(&list[i])
	}
	want := sum * m.params.MemoryPercentile
	for i := range list {
		if want -= weight(&list[i]); want <= 1e-9*sum {
			return list[i]
		}
	}
	return list[len(list)-1]
}

// spread is how far the peaks of days lie apart: the mean distance from the highest, as a share of it.
func spread(list []peak) float64 {
	most, sum := list[len(list)-1].bytes, 0.0
	for _, p := range list {
		sum += (most - p.bytes) / most
	}
	return sum / float64(len(list)-1)
}

// margin is what is added to a peak: more, the more the peaks of days differ.
func (m *memoryUse) margin(list []peak) float64 {
	if len(list) < 2 {
		return m.params.MemoryMarginFirst
	}
	return min(m.params.MemoryMargin+m.params.MemorySpread*spread(list), m.params.MemoryMarginMost)
}

// target is what to ask for, the least that memory may shrink to, and why; false: no peak is known.
func (m *memoryUse) target(now time.Time) (target, least float64, why string, known bool) {
	list := m.known(now)
	if len(list) == 0 || list[len(list)-1].bytes <= 0 {
		return 0, 0, "no use of memory is known", false
	}
	p, margin := m.weighted(list, now), m.margin(list)
	target = p.bytes * (1 + margin)
	why = fmt.Sprintf("memory: peak of %s %s + %.0f %%", plural(len(list), "day"), bytesInWords(p.bytes), 100*margin)
	if p.ranOut {
		why = fmt.Sprintf("memory: a pod ran out of it and needs %s, + %.0f %%", bytesInWords(p.bytes), 100*margin)
	}
	// What was in use today and yesterday may be in use still.
	least = target
	for _, p := range list {
		if p.day >= dayOf(now)-1 {
			least = max(least, p.bytes*(1+m.params.MemoryMargin))
		}
	}
	if floor := m.params.Floor.Memory; target < floor {
		target, why = floor, "memory: the floor of "+bytesInWords(floor)
	}
	return target, max(least, m.params.Floor.Memory), why, true
}
