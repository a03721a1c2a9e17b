package advise

import "math"

// waitGrade says how much online pods wait for CPUs.
type waitGrade int

const (
	unjudged waitGrade = iota // neither delay nor pressure is known
	calm
	uneasy // between the thresholds: what is stays
	waiting
	critical
)

// grade judges a NUMA node by the threads that wait there, and by the pressure that pods feel unless no thread waits in this NUMA node. The threads of BestEffort
// pods wait by right: those are taken off, but then the others' pressure counts all the more, as it is not known where who waits.
func (t *tick) grade(z *NUMANode) waitGrade {
	g, p := unjudged, t.p
	delay, known := amount(z.SharedDelay, most)
	if known {
		delay /= max(1, float64(divisible(z)-lent(z)*threads(z)))
		g = scale(delay*(1-t.surplus.delay), p.DelayLow, p.DelayHigh, p.DelayCritical)
		if delay < p.DelayQuiet {
			return g
		}
	}
	if felt, ok := amount(t.pressure, most); ok {
		g = max(g, scale(felt, p.PressureLow, p.PressureHigh, p.PressureCritical))
	}
	return g
}

func scale(v, low, high, worst float64) waitGrade {
	switch {
	case v < low:
		return calm
	case v < high:
		return uneasy
	case v < worst:
		return waiting
	}
	return critical
}

// CPUPressure is the worst that a shared pod feels, for each CPU that it uses. The kernel reports the share of time in which some thread of a pod waits, so of
// two pods whose threads wait equally the larger has more of it: of n threads none waits for as long as all n are lucky. What the agent says of the
// node is the most that is believed.
func (p *Params) CPUPressure(o *Observation) Sample {
	felt, known := amount(o.Node.CPUPressure, 1)
	if !known || felt < p.PressureLow {
		return o.Node.CPUPressure
	}
	worst, told := 0.0, false
	for i := range o.Services {
		s := &o.Services[i]
		some, known := amount(s.CPUPressure, 1)
		if s.Pool == "" || s.BestEffort || !known { // it has CPUs of its own, is entitled to none, or waits for its own limit
			continue
		}
		told = true
		if use, _ := amount(s.CPUUse, most); use > 1 && some >= p.PressureLow {
			some = 1 - math.Pow(1-some, 1/use)
		}
		worst = max(worst, some)
	}
	if !told {
		return o.Node.CPUPressure
	}
	return Known(min(worst, felt))
}

// judge finds the level of suppression that waiting leads to: up by how bad it is and how long it lasts, down one level at a time after calm.
func (t *tick) judge() {
	worst, m := unjudged, t.m
	for i := range t.o.NUMANodes {
		worst = max(worst, t.grade(&t.o.NUMANodes[i]))
	}
	if worst == unjudged { // what is not known neither raises nor lowers
		return
	}
	m.Waiting.see(worst >= waiting, t.now)
	m.Critical.see(worst == critical, t.now)
	m.Calm.see(worst == calm, t.now)
	switch {
	case m.Critical.lasted(t.now, t.p.CriticalAfter) || m.Waiting.lasted(t.now, t.p.FloorAfter):
		m.Level = SuppressFloor
	case worst >= waiting:
		m.Level = max(m.Level, SuppressWeight)
	case m.Level > SuppressNone && m.Calm.lasted(t.now, t.p.CalmAfter):
		m.Level--
		m.Calm.At = t.now
	}
}

// starve is the level with what reclaimed pods feel: those that have had the floor alone for long, whether because online pods wait or because they
// need their CPUs, and get next to nothing, do better elsewhere.
func (t *tick) starve() Suppression {
	m, floored := t.m, len(t.o.Reclaimed) > 0 && len(t.o.NUMANodes) > 0
	for i := range t.o.NUMANodes { // a loan that went because something is not known is no reason to evict
		floored = floored && t.m.numaNodes[i].Lend <= t.p.ReclaimedFloor && !t.m.NUMANodes[i].CPUMissing.So
	}
	got, wanted := 0.0, 0.0
	for i := range t.o.Reclaimed {
		r := &t.o.Reclaimed[i]
		use, used := amount(r.CPUUse, most)
		delay, delayed := amount(r.RunDelay, most)
		if used && delayed {
			got, wanted = got+use, wanted+use+delay
		}
	}
	m.Floored.see(floored, t.now)
	m.Starving.see(wanted > 0 && got < wanted*t.p.StarveShare, t.now)
	if m.Floored.lasted(t.now, t.p.EvictAfter) && m.Starving.lasted(t.now, t.p.EvictAfter) {
		return SuppressEvict
	}
	return m.Level
}
