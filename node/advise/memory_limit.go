package advise

const (
	// pageBytes is what limits are rounded to, so that the kernel keeps them as they are.
	pageBytes = 4096
	// highGrain is what a part of the headroom is rounded down to: less is no reason to write.
	highGrain = 1 << 20
)

// limits gives each reclaimed pod its memory.max, from its amount, and its memory.high, from its part of the headroom.
func (t *memoryTick) limits() {
	t.divide()
	for i := range t.o.Pods {
		pod := &t.o.Pods[i]
		if !pod.Reclaimed {
			t.ceiling[i], _ = bytesOf(pod.Limit)
			continue
		}
		s := &t.pods[i]
		s.Max = t.max(pod, s)
		t.lower(pod, s, t.target[i])
		if t.ceiling[i] = s.Max; s.High > 0 && (s.Max == 0 || s.High < s.Max) {
			t.ceiling[i] = s.High
		}
		if s.Max > 0 || s.High > 0 {
			t.advice.Limits = append(t.advice.Limits, MemoryLimit{Pod: pod.ID, Dir: pod.Dir, Max: s.Max, High: s.High})
		}
	}
}

// amount is the limit that a pod's amount makes; 0: it names none, and none is made up.
func (t *memoryTick) amount(pod *MemoryPod) int64 {
	if pod.Amount <= 0 {
		return 0
	}
	return min(max(pod.Amount, t.p.Limits.Least), mostBytes) / pageBytes * pageBytes
}

// max is a pod's memory.max: its amount; where it holds more already, that, and from then on only less. A pod gets its first limit when it is created;
// one that is found later, and what it holds is not known, is left alone. So is one whose amount is not known.
func (t *memoryTick) max(pod *MemoryPod, s *MemoryPodState) int64 {
	amount := t.amount(pod)
	current, known := bytesOf(pod.Current)
	switch {
	case amount == 0:
		return s.Max
	case !known && s.Max == 0:
		return 0
	case !known:
		return max(amount, s.Max) // what it holds may be as much as it was given last
	case current <= amount:
		return amount
	}
	holds := (current + t.p.Limits.Step) / pageBytes * pageBytes
	if s.Max > 0 {
		holds = min(holds, max(s.Max, amount))
	}
	return holds
}

// divide makes each pod's part of the headroom: in proportion to the amounts where they are more than there is, first in each NUMA node that pods are bound
// to, then on the node. A pod whose part is less than Least, beside what its sockets
// take, has that: the eviction manager ends it.
func (t *memoryTick) divide() {
	for i := range t.o.Pods {
		if pod := &t.o.Pods[i]; pod.Reclaimed {
			t.target[i] = t.amount(pod)
		}
	}
	for z := range t.o.NUMANodes {
		t.scale(t.o.NUMANodes[z].Headroom, func(pod *MemoryPod) bool { return pod.NUMANode == z })
	}
	t.scale(t.o.Headroom, func(*MemoryPod) bool { return true })
	for i := range t.o.Pods {
		if pod := &t.o.Pods[i]; pod.Reclaimed && t.target[i] > 0 {
			if t.target[i] == t.amount(pod) {
				t.target[i] = Unlimited // memory.max is enough
				continue
			}
			sockets, _ := bytesOf(pod.Sockets) // what they take, reclaim cannot get
			t.target[i] = max(t.target[i]/highGrain*highGrain, min(t.p.Limits.Least+sockets/pageBytes*pageBytes, t.amount(pod)))
		}
	}
}

// mayHold is what a pod without a target may hold: its amount, or if it names none, what it holds.
func (t *memoryTick) mayHold(pod *MemoryPod) int64 {
	if amount := t.amount(pod); amount > 0 {
		return amount
	}
	current, _ := bytesOf(pod.Current)
	return max(current, t.p.Limits.Least)
}

// scale brings the parts of some reclaimed pods down to what there is; where that is not known, they are not known either.
func (t *memoryTick) scale(room Sample, of func(*MemoryPod) bool) {
	most, known := bytesOf(room)
	var sum int64
	for i := range t.o.Pods {
		switch pod := &t.o.Pods[i]; {
		case !pod.Reclaimed || !of(pod):
		case t.target[i] == 0:
			sum += t.mayHold(pod)
		default:
			sum += t.target[i]
		}
	}
	if known && sum <= most {
		return
	}
	for i := range t.o.Pods {
		switch {
		case !of(&t.o.Pods[i]) || t.target[i] == 0:
		case !known:
			t.target[i] = 0
		default:
			t.target[i] = max(partOf(t.target[i], float64(most)/float64(sum)), 1)
		}
	}
}

// lower brings a pod's memory.high to its part of the headroom: up at once, down once in StepInterval and never more than Step below what the pod holds,
// for the kernel reclaims what is above while it is written, and slows the pod down.
func (t *memoryTick) lower(pod *MemoryPod, s *MemoryPodState, target int64) {
	had := s.High
	if had == 0 {
		had = Unlimited
	}
	switch {
	case target == 0: // not known: as it was
		return
	case target == Unlimited, target >= had+t.p.Limits.Step && had < Unlimited:
		s.High = target
		return
	case target >= had: // too little more to write it
		return
	}
	current, known := bytesOf(pod.Current)
	if !known || (s.HighAt > 0 && t.now-s.HighAt < t.p.Limits.StepInterval.D()) {
		return
	}
	next := max(target, (current-t.p.Limits.Step+pageBytes-1)/pageBytes*pageBytes)
	if next < had {
		s.High, s.HighAt = next, max(t.now, 1)
	}
}
