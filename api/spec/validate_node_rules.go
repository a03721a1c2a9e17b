package spec

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"time"
)

// ReserveFactor is how much memory headroom leaves of what the eviction manager calls short: reclaimed pods that hold all that they were offered must not be
// evicted for it. A shortage ends when as much is available (EvictionWatermarks.Clear), so what is lent right after it does not bring it back.
const ReserveFactor = 1.25

// bounds are the least and the most of numbers by their path; durations are in seconds.
type bounds map[string][2]float64

const (
	page      = 4096
	mostBytes = 1 << 50 // more than a machine has
	mostCount = 1 << 60
	day       = 24 * 3600
	// mostWaiting is more threads than wait for a CPU, and more millicores than a change of headroom has.
	mostWaiting = math.MaxInt32
)

// The bounds of what has other ones than its kind: 0 to 24h, 0 to mostBytes, 0 to mostCount.
var (
	headroomBounds = bounds{
		"fileShare": {0, 1}, "watermark": {0, 1}, "growthReserve": {0, 1}, "untouchedShare": {0, 0.9},
		"memoryPressureHigh": {0, math.MaxInt32}, "memoryPressureCritical": {0, math.MaxInt32}, "memoryDeadband": {0, 1 << 40},
	}
	memoryBounds = bounds{
		"limits.least": {page, mostBytes}, "limits.step": {page, mostBytes}, "limits.stepInterval": {0.1, day},
		"reclaim.at": {0, 1}, "reclaim.to": {0, 1}, "reclaim.poor": {0, 1}, "reclaim.pressure": {0, 1}, "reclaim.interval": {0.1, day}, "reclaim.maxInterval": {0.1, day},
		"reclaim.most": {page, mostBytes}, "reclaim.least": {page, mostBytes}, "reclaim.total": {page, mostBytes},
		"cache.freeLow": {0, 0.5}, "cache.freeHigh": {0, 0.5}, "cache.keep": {0, 10},
		"offload.share": {0, 0.1}, "offload.pressure": {0.0001, 1}, "offload.refaults": {0, 1}, "offload.interval": {0.1, day},
		"swap.share": {0, 4}, "swap.zswapShare": {0, 1}, "swap.step": {page, mostBytes}, "swap.interval": {0.1, day},
		"moves.most": {page, mostBytes}, "moves.deadline": {0.1, day}, "moves.interval": {0.1, day},
		"protection.cache": {0, 1}, "protection.margin": {0, 1}, "protection.share": {0, 0.9},
		"writes.step": {LeastMemoryWrite, MaxMemoryWrite}, "writes.stepTime": {0.001, 60}, "writes.rest": {0, 60}, "writes.deadline": {0.1, 3600}, "writes.workers": {1, MaxMemoryWorkers},
	}
	evictionBounds = bounds{
		"pressure.some": {0.001, 1}, "pressure.full": {0.001, 1}, "pressure.clear": {0.001, 1}, "suppressed.share": {0.001, 1}, "cpu.pressure": {0.001, 1}, "cpu.clear": {0.001, 1},
		"overuse.tolerance": {0, 100}, "online.tolerance": {0, 100}, "watermarkFactor": {0, 100}, "maxGap": {1, day},
		"escalation.reclaimShare": {0.001, 1}, "escalation.reclaimInterval": {1, day}, "escalation.requestInterval": {1, day}, "escalation.urgentInterval": {1, day},
		"escalation.answerWithin": {1, day}, "escalation.unreachableFor": {1, day}, "escalation.stopInterval": {10, day},
		"escalation.leastMemory": {1, mostBytes}, "escalation.leastDisk": {1, mostBytes}, "escalation.leastInodes": {1, mostCount}, "escalation.leastCPU": {0.001, mostCount},
		"plugins.perHour": {0, 1000}, "network.perHour": {0, 1000}, "network.least": {1, mostBytes}, "close.first": {1, day}, "close.again": {1, day},
	}
	markBounds = [2]float64{0, 0.99} // of shares and mosts of thresholds
)

// Check returns what of the headroom cannot be worked with, joined; each names its field.
func (h *MemoryHeadroom) Check() error { return collect(func(bad report) { h.check("", bad) }) }

func (h *MemoryHeadroom) check(at string, bad report) {
	checkNumbers(at, reflect.ValueOf(h).Elem(), headroomBounds, bad)
	if h.MemoryPressureHigh > h.MemoryPressureCritical {
		bad(at+"memoryPressureHigh", "%v is above memoryPressureCritical, %v; lower the one or raise the other", h.MemoryPressureHigh, h.MemoryPressureCritical)
	}
}

// Check returns what of the parameters of memory cannot be worked with, joined; each names its field.
func (m *NodeMemory) Check() error { return collect(func(bad report) { m.check("", bad) }) }

func (m *NodeMemory) check(at string, bad report) {
	m.Headroom.check(at+"headroom.", bad)
	checkNumbers(at, reflect.ValueOf(m).Elem(), memoryBounds, bad)
	oneOf(bad, at+"oom.order", m.OOM.Order, OOMLevels, OOMReclaimed)
	for _, x := range []struct {
		low, high         string
		lowValue, highest float64
	}{
		{"reclaim.to", "reclaim.at", m.Reclaim.To, m.Reclaim.At},
		{"cache.freeLow", "cache.freeHigh", m.Cache.FreeLow, m.Cache.FreeHigh},
		{"reclaim.least", "reclaim.most", float64(m.Reclaim.Least), float64(m.Reclaim.Most)},
		{"reclaim.interval", "reclaim.maxInterval", float64(m.Reclaim.Interval), float64(m.Reclaim.MaxInterval)},
	} {
		if x.lowValue > x.highest {
			bad(at+x.low, "it is above %s%s; lower the one or raise the other", at, x.high)
		}
	}
}

// Check returns what of the parameters of eviction cannot be worked with, joined; each names its field.
func (e *NodeEviction) Check() error { return collect(func(bad report) { e.check("", bad) }) }

func (e *NodeEviction) check(at string, bad report) {
	checkNumbers(at, reflect.ValueOf(e).Elem(), evictionBounds, bad)
	oneOf(bad, at+"online.mode", e.Online.Mode, OnlineReport, OnlineOff)
	for _, x := range []struct {
		name string
		w    *EvictionWatermarks
	}{{"memory", &e.Memory}, {"numaNode", &e.NUMANode}, {"root", &e.Root}, {"rootInodes", &e.RootInodes}, {"images", &e.Images}, {"imageInodes", &e.ImageInodes}} {
		soft, hard := &x.w.Soft, &x.w.Hard
		if soft.Share < hard.Share || soft.Amount < hard.Amount || *soft == *hard {
			bad(at+x.name+".soft", "share %v and amount %v are not above those of %s%s.hard, %v and %v; raise the soft threshold or lower the hard one",
				soft.Share, soft.Amount, at, x.name, hard.Share, hard.Amount)
		}
	}
	if e.Close.Most < e.Close.First {
		bad(at+"close.most", "%v is less than %sclose.first, %v; raise the one or lower the other", e.Close.Most.D(), at, e.Close.First.D())
	}
}

// CheckReserve refuses thresholds within which the headroom of memory has its setpoint: reclaimed pods that hold all that they were told they may have would be evicted
// for it, come back elsewhere, and be told the same there. Nor may a pod that waits for memory at its own limit evict others while headroom is at its setpoint.
// Absolute thresholds need no check: headroom leaves ReserveFactor times what they are on the machine.
func CheckReserve(h *MemoryHeadroom, e *NodeEviction) error {
	return collect(func(bad report) { checkReserve(h, e, "headroom.", "", bad) })
}

func checkReserve(h *MemoryHeadroom, e *NodeEviction, headroom, eviction string, bad report) {
	const percent, rounding = 100, 1e-9
	reserve := h.Watermark + h.GrowthReserve
	for _, m := range []struct {
		name          string
		share, factor float64
	}{
		{"memory.soft.share", e.Memory.Soft.Share, ReserveFactor},
		{"numaNode.soft.share", e.NUMANode.Soft.Share, ReserveFactor},
		{"pressure.below.share", e.Pressure.Below.Share, 1},
	} {
		if want := m.share * m.factor; reserve < want-rounding {
			bad(headroom+"growthReserve", "%.4g %% and %swatermark, %.4g %%, are less than %.4g %%, which is %.4g times %s%s: raise growthReserve to %.4g %%, or lower %s%s",
				h.GrowthReserve*percent, headroom, h.Watermark*percent, want*percent, m.factor, eviction, m.name, (want-h.Watermark)*percent, eviction, m.name)
		}
	}
}

// validateNodeRules checks the parameters of CPUs, of memory and of eviction, together.
func validateNodeRules(n *Node, bad report) {
	n.CPU.check("node.cpu.", bad)
	n.CPUBurst.check("node.cpuBurst.", bad)
	n.Interference.check("node.interference.", bad)
	n.MemoryBandwidth.check("node.memoryBandwidth.", bad)
	n.Overcommit.check("node.overcommit.", bad)
	n.Memory.check("node.memory.", bad)
	n.Eviction.check("node.eviction.", bad)
	checkReserve(&n.Memory.Headroom, &n.Eviction, "node.memory.headroom.", "node.eviction.", bad)
	oneOf(bad, "node.kubeletThresholds", n.KubeletThresholds, ThresholdsAsk, ThresholdsFile)
}

// checkNumbers checks each number of a struct and of the structs in it.
func checkNumbers(at string, v reflect.Value, known bounds, bad report) {
	checkFields(at, "", v, known, bad)
}

// checkFields is checkNumbers for a struct at a path in the whole.
func checkFields(at, path string, v reflect.Value, known bounds, bad report) {
	for i, field := range reflect.VisibleFields(v.Type()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		inner := path + name
		value, low, high := v.Field(i), 0.0, float64(mostCount)
		if value.Kind() == reflect.Struct {
			if field.Type != reflect.TypeFor[MemoryHeadroom]() { // it is checked by itself
				checkFields(at, inner+".", value, known, bad)
			}
			continue
		}
		var number float64
		duration := field.Type == reflect.TypeFor[Duration]()
		switch {
		case duration:
			number, high = time.Duration(value.Int()).Seconds(), day
		case value.CanInt():
			number, high = float64(value.Int()), mostBytes
		case value.CanFloat():
			number = value.Float()
		default:
			continue // a switch
		}
		if b, ok := known[inner]; ok {
			low, high = b[0], b[1]
		} else if v.Type() == reflect.TypeFor[EvictionMark]() && (name == "share" || name == "most") {
			low, high = markBounds[0], markBounds[1]
		}
		if number >= low && number <= high { // NaN is neither
			continue
		}
		if duration {
			bad(at+inner, "%v is out of range; write %v to %v", time.Duration(value.Int()), time.Duration(low*float64(time.Second)), time.Duration(high*float64(time.Second)))
		} else {
			bad(at+inner, "%v is out of range; write %v to %v", value.Interface(), low, high)
		}
	}
}

func collect(check func(report)) error {
	var errs []error
	check(collector(&errs))
	return errors.Join(errs...)
}
