package advise

import (
	"cmp"
	"slices"
	"time"
)

// reclaims decides what is reclaimed now. A pod has one request at a time, for its most urgent reason. Nothing is asked for while online pods feel pressure,
// or may: reclaim takes CPU, locks and the disk from them, and what is then needed is the eviction manager.
func (t *memoryTick) reclaims() {
	pressure, known := shareOf(t.o.OnlinePressure)
	switch {
	case !known:
		t.advice.Paused = PausedByMissing
	case pressure >= t.p.Reclaim.Pressure:
		t.advice.Paused = PausedByPressure
	}
	for i := range t.o.Pods {
		t.results(&t.o.Pods[i], &t.pods[i])
	}
	if t.advice.Paused != "" {
		return
	}
	asked := make([]MemoryReclaim, len(t.o.Pods))
	for i := range t.o.Pods {
		if t.due(i) {
			asked[i] = t.overLimit(i)
		}
	}
	t.reclaimCache(asked)
	for i := range t.o.Pods {
		if t.due(i) && asked[i].Bytes == 0 {
			asked[i] = t.offload(i)
		}
	}
	t.order(asked)
}

// results looks at what came of a pod's last request. One that got little makes the next one late.
func (t *memoryTick) results(pod *MemoryPod, s *MemoryPodState) {
	if pod.Last.Ended <= s.Ended {
		return
	}
	s.Ended = pod.Last.Ended
	pause := t.p.Reclaim.Interval.D()
	if !pod.Last.Cut && float64(pod.Last.Got) < t.p.Reclaim.Poor*float64(pod.Last.Asked) {
		pause = min(max(2*s.Pause, t.p.Reclaim.Interval.D()), t.p.Reclaim.MaxInterval.D())
	}
	s.Pause, s.NextAsk = pause, t.now+pause
}

// due reports whether a pod may be asked.
func (t *memoryTick) due(i int) bool { return !t.o.Pods[i].Reclaiming && t.now >= t.pods[i].NextAsk }

// reclaimable is how much of a pod can be reclaimed at all, and whether page cache alone may be: anonymous memory only of reclaimed pods, and only
// as far as there is swap for it. Where there is no swap, swappiness does not matter.
func (t *memoryTick) reclaimable(pod *MemoryPod) (bytes int64, fileOnly, known bool) {
	inactive, a := bytesOf(pod.InactiveFile)
	active, b := bytesOf(pod.ActiveFile)
	total, c := bytesOf(t.o.SwapTotal)
	if !a || !b {
		return 0, true, false
	}
	bytes, fileOnly = inactive+active, !c || total > 0
	free, a := bytesOf(t.o.SwapFree)
	room, b := bytesOf(pod.SwapRoom)
	anon, c := bytesOf(pod.Anon)
	if swap := min(anon, room, free-t.p.Offload.SwapReserve); pod.Reclaimed && a && b && c && swap > 0 {
		return bytes + swap, false, true
	}
	return bytes, fileOnly, true
}

// overLimit asks a reclaimed pod for what it holds beyond its part, and any pod that is near its limit for some of what it holds.
func (t *memoryTick) overLimit(i int) MemoryReclaim {
	pod, limit := &t.o.Pods[i], t.ceiling[i]
	current, known := bytesOf(pod.Current)
	if !known {
		return MemoryReclaim{}
	}
	if part := t.amount(pod); pod.Reclaimed && part > 0 {
		if t.target[i] > 0 {
			part = min(part, t.target[i])
		}
		if current > part {
			return t.reclaim(i, current-part, ReclaimCeiling)
		}
	}
	if limit == 0 || limit == Unlimited || current <= partOf(limit, t.p.Reclaim.At) || t.refaulting(pod, current) {
		return MemoryReclaim{} // what comes back at once is better taken page by page, when the limit is met
	}
	return t.reclaim(i, current-partOf(limit, t.p.Reclaim.To), ReclaimLimit)
}

// reclaim is a request within its bounds; without bytes: there is none.
func (t *memoryTick) reclaim(i int, bytes int64, why MemoryReason) MemoryReclaim {
	pod := &t.o.Pods[i]
	most, fileOnly, known := t.reclaimable(pod)
	bytes = min(bytes, most, t.p.Reclaim.Most) / pageBytes * pageBytes
	if !known || bytes < t.p.Reclaim.Least {
		return MemoryReclaim{}
	}
	return MemoryReclaim{Pod: pod.ID, Dir: pod.Dir, Bytes: bytes, FileOnly: fileOnly, Why: why}
}

// offload takes from a pod what it does not miss, as Senpai does (Weiner et al., TMO: Transparent Memory Offloading in Datacenters, ASPLOS'22, §3.3):
//
//	reclaim = current · share · max(0, 1 − pressure / target)
//
// at each interval. Reclaim that comes back as refaults makes the interval longer.
func (t *memoryTick) offload(i int) MemoryReclaim {
	pod, s := &t.o.Pods[i], &t.pods[i]
	on := t.p.Offload.Online
	if pod.Reclaimed {
		on = t.p.Offload.Reclaimed
	}
	current, a := bytesOf(pod.Current)
	pressure, b := shareOf(pod.Pressure)
	if !on || !a || !b || !pod.Refaults.Known || t.now < s.NextOffload {
		return MemoryReclaim{}
	}
	if t.refaulting(pod, current) {
		s.OffloadPause = min(max(2*s.OffloadPause, t.p.Offload.Interval.D()), t.p.Reclaim.MaxInterval.D())
		s.NextOffload = t.now + s.OffloadPause
		return MemoryReclaim{}
	}
	s.OffloadPause, s.NextOffload = t.p.Offload.Interval.D(), t.now+t.p.Offload.Interval.D()
	return t.reclaim(i, partOf(current, t.p.Offload.Share*max(0, 1-pressure/t.p.Offload.Pressure)), ReclaimOffload)
}

// refaulting reports whether more of what was taken from a pod comes back than may, or may do so.
func (t *memoryTick) refaulting(pod *MemoryPod, current int64) bool {
	refaults, known := shareOf(pod.Refaults)
	return !known || refaults > t.p.Offload.Refaults*float64(current)
}

// order puts the asks down, the most urgent first, as far as a tick may ask.
func (t *memoryTick) order(asked []MemoryReclaim) {
	rank := map[MemoryReason]int{ReclaimCeiling: 0, ReclaimLimit: 1, ReclaimFree: 2, ReclaimOffload: 3}
	byUrgency := make([]int, 0, len(asked))
	for i := range asked {
		if asked[i].Bytes > 0 {
			byUrgency = append(byUrgency, i)
		}
	}
	slices.SortStableFunc(byUrgency, func(a, b int) int {
		return cmp.Or(cmp.Compare(rank[asked[a].Why], rank[asked[b].Why]), cmp.Compare(asked[b].Bytes, asked[a].Bytes))
	})
	left := t.p.Reclaim.Total
	for _, i := range byUrgency {
		ask := &asked[i]
		ask.Bytes = min(ask.Bytes, left) / pageBytes * pageBytes
		if ask.Bytes < t.p.Reclaim.Least {
			continue
		}
		left -= ask.Bytes
		s := &t.pods[i]
		s.Asked = ask.Bytes
		s.NextAsk = t.now + max(s.Pause, t.p.Reclaim.Interval.D(), time.Second)
		t.advice.Reclaims = append(t.advice.Reclaims, *ask)
	}
}
