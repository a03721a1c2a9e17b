package advise

import "time"

// maxTick is the longest time between two ticks in which what was found counts as seen all along.
const maxTick = 15 * time.Second

// Published is a headroom as it was last reported, and the lowest that it has been within RiseAfter.
type Published struct {
	Value int64  `json:"value"`
	Low   Lowest `json:"low"`
	// Seen is when it was last looked at; 0: never.
	Seen time.Duration `json:"seen"`
}

// freeze keeps a headroom from rising.
type freeze int

const (
	mayRise freeze = iota
	frozen         // not now
	unseen         // nor within a while after this: more was not observed
)

// see follows what is found now: it falls at once, and rises to what was found all the while.
func (h *Published) see(found, deadband int64, f freeze, now, length time.Duration) int64 {
	seen := found
	if f == unseen {
		seen = min(found, h.Value)
	}
	between := seen
	if h.Seen == 0 || now-h.Seen > maxTick {
		between = min(seen, h.Value)
	}
	h.Seen = now
	least := h.Low.see(seen, between, now, length)
	switch {
	case found < h.Value-deadband || found == 0:
		h.Value = found
	case f == mayRise && least >= h.Value+max(deadband, 1):
		h.Value = least
	}
	return h.Value
}

// cpu is the headroom of a NUMA node in millicores: what online pods do not need by what they use now. What is lent does not bound it, and
// what reclaimed pods use is not in it.
func (t *tick) cpu(z *NUMANode, s *NUMAState) Headroom {
	all, keep := float64(divisible(z)), t.least(z, s)
	need, reason := t.need(s.Smooth.Value, t.p.TargetUse, z, s), BoundByUse
	if need <= keep {
		reason = BoundByCapacity
	}
	found := millicores(all - need - all*t.p.CPUReserve)
	h := Headroom{Now: found, Reason: reason}
	if t.m.Level >= SuppressFloor {
		h.bound(int64(t.p.ReclaimedFloor*threads(z))*1000, BoundByPressure)
	}
	rise := mayRise
	if t.cuttingBack(s) || t.m.Level > SuppressNone {
		h.Reason, rise = BoundByPressure, frozen
	}
	if s.CPUMissing.So {
		h.Reason, rise = BoundByMissing, unseen
		h.Now = min(h.Now, s.CPU.Value)
		if s.CPUMissing.lasted(t.now, t.p.MissingFor) {
			h.Now = min(h.Now, t.running(z))
		}
	}
	if t.o.StopLending {
		h.Reason, rise = BoundByStop, unseen
		h.Now = min(h.Now, t.running(z))
	}
	h.Published = s.CPU.see(h.Now, t.p.CPUDeadband, rise, t.now, t.p.RiseAfter)
	if t.p.Explain {
		h.Terms = h.rest(t.cpuTerms(z, need, reason))
	}
	return h
}

// cpuTerms are the parts of the sum, in millicores.
func (t *tick) cpuTerms(z *NUMANode, need float64, by Reason) []Term {
	all := float64(divisible(z))
	names := map[Reason]string{BoundByUse: "needed for use", BoundByCapacity: "kept for online pods"}
	return []Term{
		{"divisible", millicores(all)},
		{names[by], -millicores(need)},
		{"reserve", -millicores(all * t.p.CPUReserve)},
	}
}

// rest adds what the sum of the terms does not say: what pressure, or a value that is missing, takes away.
func (h *Headroom) rest(terms []Term) []Term {
	sum := int64(0)
	for _, term := range terms {
		sum += term.Value
	}
	const rounding = 10
	if sum = max(sum, 0); h.Now < sum-rounding {
		terms = append(terms, Term{"held back", h.Now - sum})
	}
	return terms
}

// bound lowers what was found.
func (h *Headroom) bound(limit int64, reason Reason) {
	if h.Now > limit {
		h.Now, h.Reason = limit, reason
	}
}

// running is the NUMA node's part of what the reclaimed pods that run hold, in millicores. Their NUMA nodes are not known: it is by CPUs.
func (t *tick) running(z *NUMANode) int64 {
	if t.divisible == 0 {
		return 0
	}
	return int64(min(t.wantedCPU*float64(divisible(z))/float64(t.divisible), most))
}

// millicores of a number of CPUs, at least 0.
func millicores(cpus float64) int64 { return int64(max(0, min(cpus*1000, most))) }
