package advise

// MemorySwap is how far a reclaimed pod may swap: memory.swap.max of its own cgroup, and of its containers', to which the kubelet gives nothing. Release: what was set goes back
// to what runtime and kubelet make it, and Max is Unlimited. Zswap is memory.zswap.max of the pod.
type MemorySwap struct {
	Pod     string `json:"pod"`
	Dir     string `json:"dir"`
	Max     int64  `json:"max"`
	Zswap   int64  `json:"zswap"`
	Release bool   `json:"release,omitempty"`
}

// swapping says how far reclaimed pods may swap. A pod may have a step more in swap than it has, once an interval, up to a share of its amount: that bounds the rate, whoever in
// the kernel swaps. While it or an online pod waits for memory, or keeps no more than the floor in memory, it may have no more than it has.
func (t *memoryTick) swapping() {
	p := &t.p.Swap
	for i := range t.o.Pods {
		pod, s := &t.o.Pods[i], &t.pods[i]
		if !pod.Reclaimed {
			continue
		}
		total, known := bytesOf(t.o.SwapTotal)
		if p.Share == 0 || known && total == 0 || pod.Amount <= 0 {
			s.Swap = nil
			if has := pod.SwapMax; has.Known && has.Value < Unlimited {
				t.advice.Swaps = append(t.advice.Swaps, MemorySwap{Pod: pod.ID, Dir: pod.Dir, Max: Unlimited, Zswap: Unlimited, Release: true})
			}
			continue
		}
		t.swap(pod, s)
		if s.Swap == nil {
			continue
		}
		one := MemorySwap{Pod: pod.ID, Dir: pod.Dir, Max: *s.Swap, Zswap: Unlimited}
		if p.ZswapShare > 0 {
			one.Zswap = partOf(t.amount(pod), p.ZswapShare) / pageBytes * pageBytes
		}
		t.advice.Swaps = append(t.advice.Swaps, one)
	}
}

// swap is one pod's. Where what it has in swap is not known, its bound stays as it was.
func (t *memoryTick) swap(pod *MemoryPod, s *MemoryPodState) {
	p := &t.p.Swap
	used, known := bytesOf(pod.Swap)
	if !known {
		return
	}
	held := (used + pageBytes - 1) / pageBytes * pageBytes
	switch {
	case !t.maySwap(pod):
		if s.Swap == nil {
			s.SwapAt = max(t.now, 1) // the first step is an interval away
		}
		if s.Swap == nil || *s.Swap > held {
			s.Swap = &held
		}
	case s.Swap == nil || t.now-s.SwapAt >= p.Interval.D():
		free, _ := bytesOf(t.o.SwapFree)
		next := min(partOf(t.amount(pod), p.Share), held+min(p.Step, max(free-t.p.Offload.SwapReserve, 0))) / pageBytes * pageBytes
		s.Swap, s.SwapAt = &next, max(t.now, 1)
	}
}

// maySwap reports whether a pod may have more in swap.
func (t *memoryTick) maySwap(pod *MemoryPod) bool {
	online, a := shareOf(t.o.OnlinePressure)
	own, b := shareOf(pod.Pressure)
	current, c := bytesOf(pod.Current)
	free, d := bytesOf(t.o.SwapFree)
	total, e := bytesOf(t.o.SwapTotal)
	return a && b && c && d && e && total > 0 && online < t.p.Reclaim.Pressure && own < t.p.Offload.Pressure &&
		current > t.p.Swap.Floor && free > t.p.Offload.SwapReserve && !t.refaulting(pod, current)
}
