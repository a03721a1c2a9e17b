package advise

import "hilbert.dev/hilbert/api/spec"

// memory finds the headroom of memory of all NUMA nodes, bounds the sum by what the node has, and publishes.
func (t *tick) memory() {
	t.untouched = t.notTouched()
	sum, held, kept, promised := 0.0, 0.0, 0.0, 0.0
	for i := range t.o.NUMANodes {
		r := t.memoryBudget(&t.o.NUMANodes[i], &t.m.NUMANodes[i])
		sum, held, kept, promised = sum+r.sum(), held+r.reclaimed, kept+r.kept(), promised+r.promised
		t.m.numaNodes[i].Memory = Headroom{Now: int64(r.sum()), Reason: BoundByUse}
	}
	share, available := 1.0, 0.0
	if _, known := recall(t.o.Node.MemoryAvailable, &t.m.Available); known || t.m.Available.Known {
		available = max(0, t.m.Available.Value+held+t.untouched-max(kept, promised+leave(t.o.Node.EvictBelow)))
		if available < sum {
			share = available / sum
		}
	}
	for i := range t.o.NUMANodes {
		t.publishMemory(i, share)
	}
}

// memoryBudget is what there is of a NUMA node's memory, in bytes.
type memoryBudget struct {
	free, file, reclaimed        float64
	watermark, promised, reserve float64
	growth, untouched            float64
	// eviction is what must be left beyond all that is kept, so that no pod has to go.
	eviction float64
	// none of it is lent.
	none bool
}

// leave is what must stay available where less than mark is short.
func leave(mark Sample) float64 {
	bytes, _ := amount(mark, most)
	return spec.ReserveFactor * bytes
}

func (r *memoryBudget) kept() float64 { return r.promised + r.reserve + r.growth }

// sum is never negative.
func (r *memoryBudget) sum() float64 {
	if r.none {
		return 0
	}
	return max(0, min(r.free+r.file+r.reclaimed+r.untouched-r.watermark-r.kept()-r.eviction, most))
}

// memoryBudget has the last known value in place of a missing one.
func (t *tick) memoryBudget(z *NUMANode, s *NUMAState) memoryBudget {
	l := &s.Last
	total, a := recall(z.MemoryTotal, &l.MemoryTotal)
	free, b := recall(z.MemoryFree, &l.MemoryFree)
	file, c := recall(z.InactiveFile, &l.InactiveFile)
	reclaimed, d := recall(z.ReclaimedMemory, &l.Reclaimed)
	touched, _ := recall(z.PromisedUse, &l.PromisedUse) // never known: none is touched, which is the most that can be asked for
	_, e := amount(t.o.Node.MemoryAvailable, most)
	s.MemoryMissing.see(!a || !b || !c || !d || !e, t.now)
	r := memoryBudget{
		free: free, file: file * t.p.FileShare, reclaimed: reclaimed,
		watermark: total * t.p.Watermark, growth: total * t.p.GrowthReserve,
		untouched: t.untouched * t.partOfMemory(s),
		promised:  max(0, float64(z.Promised)-touched), reserve: max(0, float64(z.Reserved)),
	}
	if r.none = z.MemoryOnly; r.none { // nor is anything kept of it
		r.growth, r.reserve, r.reclaimed = 0, 0, 0
		return r
	}
	r.eviction = max(0, leave(z.EvictBelow)-r.watermark-r.growth-r.reserve)
	return r
}

// publishMemory bounds what was found and publishes it.
func (t *tick) publishMemory(i int, share float64) {
	z, s, h := &t.o.NUMANodes[i], &t.m.NUMANodes[i], &t.m.numaNodes[i].Memory
	if share < 1 {
		h.Now, h.Reason = int64(float64(h.Now)*share), BoundByCapacity
	}
	pressure, _ := amount(t.o.Node.MemoryPressure, most)
	rise := mayRise
	if pressure >= t.p.MemoryPressureHigh {
		h.Reason, rise = BoundByPressure, frozen
		if pressure >= t.p.MemoryPressureCritical {
			h.Now = min(h.Now, int64(s.Last.Reclaimed.Value))
		}
	}
	if s.MemoryMissing.So {
		h.Now, h.Reason, rise = min(h.Now, s.Memory.Value), BoundByMissing, unseen
		if s.MemoryMissing.lasted(t.now, t.p.MissingFor) {
			h.Now = min(h.Now, t.runningMemory(s))
		}
	}
	if t.o.NoMemory {
		h.Now, h.Reason, rise = min(h.Now, t.runningMemory(s)), BoundByKubelet, unseen
	}
	if t.o.StopLending {
		h.Now, h.Reason, rise = min(h.Now, t.runningMemory(s)), BoundByStop, unseen
	}
	h.Published = s.Memory.see(h.Now, t.p.MemoryDeadband, rise, t.now, t.p.RiseAfter)
	if t.p.Explain {
		r := t.memoryBudget(z, s)
		h.Terms = h.rest([]Term{
			{"free", int64(r.free)},
			{"inactive file", int64(r.file)},
			{"held by reclaimed pods", int64(r.reclaimed)},
			{"asked for and not held", int64(r.untouched)},
			{"watermark", -int64(r.watermark)},
			{"promised", -int64(r.promised)},
			{"reserved", -int64(r.reserve)},
			{"growth of online pods", -int64(r.growth)},
			{"kept from eviction", -int64(r.eviction)},
		})
	}
}

// runningMemory is the NUMA node's part of what the reclaimed pods that run may hold, by the sizes of the NUMA nodes.
func (t *tick) runningMemory(s *NUMAState) int64 {
	return int64(min(t.wantedMemory*t.partOfMemory(s), most))
}

// notTouched is what counts as free of the memory that reclaimed pods asked for and do not hold. It rises only after it was higher for RiseAfter, so
// that a pod that has just started does not count as one that needs little.
func (t *tick) notTouched() float64 {
	held := 0.0
	for i := range t.o.NUMANodes {
		z, last := &t.o.NUMANodes[i], &t.m.NUMANodes[i].Last
		recall(z.MemoryTotal, &last.MemoryTotal) // of all NUMA nodes, before the part of one is asked for
		has, _ := recall(z.ReclaimedMemory, &last.Reclaimed)
		held += has
	}
	return t.p.UntouchedShare * max(0, min(t.wantedMemory, most)-held)
}

// partOfMemory is the NUMA node's part of the node's memory.
func (t *tick) partOfMemory(s *NUMAState) float64 {
	all := 0.0
	for i := range t.m.NUMANodes {
		all += t.m.NUMANodes[i].Last.MemoryTotal.Value
	}
	if all == 0 {
		return 0
	}
	return s.Last.MemoryTotal.Value / all
}
