package evict

import (
	"fmt"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/advise"
)

// of is the mark on something of a size.
func markOf(m Mark, total float64) float64 {
	amount := m.Amount
	if m.Most > 0 {
		amount = min(amount, m.Most*total)
	}
	return max(m.Share*total, amount)
}

// softOf is the soft mark on something of a size, of which the kernel's own mark makes the hard one at least floor.
func softOf(w *Watermarks, total, floor float64) float64 { return max(markOf(w.Soft, total), 2*floor) }

// floor is what the kernel's own mark makes the hard one at least.
func (p *Params) floor(watermark advise.Sample) float64 {
	x, _ := value(watermark)
	return x * p.WatermarkFactor
}

// NodeShortBelow and NUMAShortBelow are the available memory below which lending stops and pods begin to go; not known where the total is not. Headroom must leave
// more than that (advise.ReserveFactor).
func (p *Params) NodeShortBelow(total, minWatermark advise.Sample) advise.Sample {
	return p.shortBelow(&p.Memory, total, minWatermark)
}

// NUMAShortBelow is of one NUMA node.
func (p *Params) NUMAShortBelow(total, lowWatermark advise.Sample) advise.Sample {
	return p.shortBelow(&p.NUMANode, total, lowWatermark)
}

func (p *Params) shortBelow(w *Watermarks, total, watermark advise.Sample) advise.Sample {
	t, ok := value(total)
	if !ok || t == 0 {
		return advise.Sample{}
	}
	return advise.Known(softOf(w, t, p.floor(watermark)))
}

// below is the side of a level that begins where less than mark is there.
func below(available, mark, clear float64) side {
	over := mark * (1 + clear)
	return side{value: -available, enter: -mark, clear: -over, need: over - available}
}

// watermarked reads what is available of a total. The hard mark is at least floor, the soft one twice that.
func watermarked(w *Watermarks, total, available advise.Sample, floor float64) reading {
	t, ok := value(total)
	a, has := value(available)
	if !ok || !has || t == 0 {
		return reading{}
	}
	return reading{
		known: true,
		soft:  below(a, softOf(w, t, floor), w.Clear),
		hard:  below(a, max(markOf(w.Hard, t), floor), w.Clear),
	}
}

func memoryAvailable(v *view, _ int) reading {
	n := &v.o.Node
	return watermarked(&v.p.Memory, n.MemoryTotal, n.MemoryAvailable, v.p.floor(n.MinWatermark))
}

// memoryPressure counts only where memory is getting short: a pod that waits at its own limit needs no eviction of others. It is unknown
// how much memory would end the pressure, so one pod is requested at a time.
func memoryPressure(v *view, _ int) reading {
	n, rule := &v.o.Node, &v.p.Pressure
	total, ok := value(n.MemoryTotal)
	available, has := value(n.MemoryAvailable)
	some, hasSome := value(n.MemorySome)
	full, hasFull := value(n.MemoryFull)
	if !ok || !has || !hasSome || !hasFull {
		return reading{}
	}
	gate := markOf(rule.Below, total)
	if available >= gate {
		some, full = 0, 0
	}
	oneAtATime := v.p.Escalation.LeastMemory
	return reading{
		known:   true,
		soft:    side{some, rule.Some, rule.Some * rule.Clear, oneAtATime},
		hard:    side{full, rule.Full, rule.Full * rule.Clear, oneAtATime},
		reclaim: gate - available,
	}
}

// Ample reports whether so much of a memory is available that a task that waits for memory waits at a limit of its own.
func (p *Params) Ample(total, available advise.Sample) bool {
	t, ok := value(total)
	a, has := value(available)
	return ok && has && a >= markOf(p.Pressure.Below, t)
}

func numaAvailable(v *view, i int) reading {
	z := &v.o.NUMANodes[i]
	if z.MemoryOnly {
		return reading{known: true, hard: never(), soft: never()}
	}
	free, ok := value(z.Free)
	file, has := value(z.InactiveFile)
	if !ok || !has {
		return reading{}
	}
	return watermarked(&v.p.NUMANode, z.Total, advise.Known(free+file), v.p.floor(z.LowWatermark))
}

func rootSpace(v *view, _ int) reading {
	return watermarked(&v.p.Root, v.o.Root.BytesTotal, v.o.Root.Bytes, 0)
}

func rootInodesFree(v *view, _ int) reading {
	return watermarked(&v.p.RootInodes, v.o.Root.InodesTotal, v.o.Root.Inodes, 0)
}

func imageSpace(v *view, _ int) reading {
	return watermarked(&v.p.Images, v.o.Images.BytesTotal, v.o.Images.Bytes, 0)
}

func imageInodesFree(v *view, _ int) reading {
	return watermarked(&v.p.ImageInodes, v.o.Images.InodesTotal, v.o.Images.Inodes, 0)
}

// overuse has no hard level: the node itself need not be short.
func overuse(v *view, i int) reading {
	pod, rule := &v.o.Pods[i], &v.p.Overuse
	if pod.Level != spec.QoSReclaimed {
		return reading{known: true, hard: never(), soft: never()}
	}
	held, ok := value(pod.Memory)
	amount, has := value(pod.MemoryAmount)
	if !ok || !has {
		return reading{}
	}
	slack := amount*rule.Tolerance + rule.Slack
	return reading{known: true, hard: never(), soft: side{held, amount + slack, amount + slack/2, held - amount}}
}

// onlinePressure has no hard level: at the floor reclaimed pods have a core of each NUMA node, at the least weight, and a thread that holds a kernel
// lock needs it to release the lock.
func onlinePressure(v *view, _ int) reading {
	rule, oneAtATime := &v.p.CPU, v.p.Escalation.LeastCPU
	pressure, ok := value(v.o.Node.CPUPressure)
	if !ok {
		return reading{}
	}
	if v.floored < rule.After.D().Seconds() || v.o.Suppression < advise.SuppressFloor {
		pressure = 0
	}
	return reading{known: true, hard: never(), soft: side{pressure, rule.Pressure, rule.Pressure * rule.Clear, oneAtATime}}
}

// starvation has no hard level either: a pod that starves harms no other.
func starvation(v *view, _ int) reading {
	if v.o.Suppression < advise.SuppressFloor {
		return reading{known: true, hard: never(), soft: side{value: 0, enter: 1}}
	}
	asked, known, starving := false, false, 0.0
	for i := range v.o.Pods {
		pod := &v.o.Pods[i]
		if pod.Level != spec.QoSReclaimed || pod.Terminating {
			continue
		}
		asked = true
		use, want, ok := wanted(pod)
		if !ok {
			continue
		}
		known = true
		if v.hungry(use, want) {
			starving += want - use
		}
	}
	switch {
	case asked && !known:
		return reading{}
	case starving == 0:
		return reading{known: true, hard: never(), soft: side{value: 0, enter: 1}}
	}
	after := v.p.Suppressed.After.D().Seconds()
	lasted := v.floored
	if v.o.Suppression >= advise.SuppressEvict { // the law has waited for us
		lasted = max(lasted, after)
	}
	return reading{known: true, hard: never(), soft: side{lasted, after, 0, starving}}
}

// wanted is the CPUs that a pod uses and those that it would use if it had them: no more than its amount.
func wanted(pod *Pod) (use, want float64, ok bool) {
	use, ok = value(pod.CPU)
	delay, has := value(pod.RunDelay)
	if !ok || !has {
		return 0, 0, false
	}
	want = use + delay
	if amount, ok := value(pod.CPUAmount); ok {
		want = min(want, max(amount, use))
	}
	return use, want, true
}

func (v *view) hungry(use, want float64) bool {
	return want >= v.p.Suppressed.Least && use < want*v.p.Suppressed.Share
}

func (v *view) starves(pod *Pod) bool {
	use, want, ok := wanted(pod)
	return ok && v.hungry(use, want)
}

// What the detectors say.

func sayMemory(v *view, _ int, r *reading) string {
	n := &v.o.Node
	text := fmt.Sprintf("%s of memory available, soft below %s, hard below %s", bytes(-r.soft.value), bytes(-r.soft.enter), bytes(-r.hard.enter))
	if free, ok := value(n.SwapFree); ok {
		text += fmt.Sprintf("; %s of swap free", bytes(free))
	}
	return text
}

func sayPressure(v *view, _ int, r *reading) string {
	a, _ := value(v.o.Node.MemoryAvailable)
	return fmt.Sprintf("an online pod waits for memory %.0f %% of the time (soft from %.0f %%), all of it %.0f %% (hard from %.0f %%), with %s available",
		r.soft.value*percent, r.soft.enter*percent, r.hard.value*percent, r.hard.enter*percent, bytes(a))
}

func sayNUMANode(_ *view, i int, r *reading) string {
	return fmt.Sprintf("NUMA node %d has %s free or easily freed, soft below %s, hard below %s", i, bytes(-r.soft.value), bytes(-r.soft.enter), bytes(-r.hard.enter))
}

func saySpace(what string, r *reading) string {
	return fmt.Sprintf("%s available for %s, soft below %s, hard below %s", bytes(-r.soft.value), what, bytes(-r.soft.enter), bytes(-r.hard.enter))
}

func sayInodes(what string, r *reading) string {
	return fmt.Sprintf("%.0f inodes free for %s, soft below %.0f, hard below %.0f", -r.soft.value, what, -r.soft.enter, -r.hard.enter)
}

func sayRoot(_ *view, _ int, r *reading) string        { return saySpace("pods", r) }
func sayRootInodes(_ *view, _ int, r *reading) string  { return sayInodes("pods", r) }
func sayImages(_ *view, _ int, r *reading) string      { return saySpace("images", r) }
func sayImageInodes(_ *view, _ int, r *reading) string { return sayInodes("images", r) }

func sayOveruse(v *view, i int, r *reading) string {
	amount, _ := value(v.o.Pods[i].MemoryAmount)
	return fmt.Sprintf("it holds %s of memory and asked for %s", bytes(r.soft.value), bytes(amount))
}

func sayOnline(_ *view, _ int, r *reading) string {
	return fmt.Sprintf("an online pod waits for CPU %.0f %% of the time (from %.0f %%) with reclaimed pods at the floor",
		r.soft.value*percent, r.soft.enter*percent)
}

func sayStarvation(v *view, _ int, r *reading) string {
	return fmt.Sprintf("reclaimed pods have had the floor alone for more than %v and lack %.2f CPUs", v.p.Suppressed.After.D(), r.soft.need)
}

const percent = 100
