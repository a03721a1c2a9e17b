package advise

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/api/spec"
)

const (
	mib = 1 << 20
	gib = 1 << 30
)

// mem is a node of 16 GiB with room, where nobody feels pressure and there is no swap.
func mem(pods ...MemoryPod) *MemoryObservation {
	return &MemoryObservation{
		At: time.Second, Total: Known(16 * gib), Free: Known(8 * gib), SwapTotal: Known(0), SwapFree: Known(0), OnlinePressure: Known(0), Headroom: Known(8 * gib), Pods: pods,
	}
}

// offline is a reclaimed pod of an amount that holds something, half of it inactive page cache; what is given in MiB.
func offline(id string, amount, holds int64) MemoryPod {
	return MemoryPod{
		ID: id, Dir: "kubepods/besteffort/" + id, Reclaimed: true, Amount: amount * mib, NUMANode: AnyNUMANode,
		Current: Known(float64(holds * mib)), Anon: Known(float64(holds * mib / 2)), InactiveFile: Known(float64(holds * mib / 2)), ActiveFile: Known(0),
		Pressure: Known(1), Refaults: Known(0), SwapRoom: Known(0),
	}
}

// online is an online pod of one container that holds something, of which some is inactive page cache.
func online(id string, request, holds, inactive int64) MemoryPod {
	dir := "kubepods/burstable/" + id
	return MemoryPod{
		ID: id, Dir: dir, NUMANode: AnyNUMANode, Current: Known(float64(holds * mib)), Anon: Known(float64((holds - inactive) * mib)),
		InactiveFile: Known(float64(inactive * mib)), ActiveFile: Known(0), Pressure: Known(0), Refaults: Known(0), SwapRoom: Known(0),
		Containers: []MemoryContainer{{Dir: dir + "/main", Request: request * mib, Current: Known(float64(holds * mib)), InactiveFile: Known(float64(inactive * mib))}},
	}
}

// say renders what was advised, in MiB.
func say(a *MemoryAdvice) string {
	var out []string
	size := func(n int64) string {
		switch n {
		case 0:
			return "-"
		case Unlimited:
			return "max"
		}
		return fmt.Sprint(n / mib)
	}
	for _, l := range a.Limits {
		out = append(out, fmt.Sprintf("%s:%s/%s", l.Pod, size(l.Max), size(l.High)))
	}
	for _, k := range a.Reclaims {
		only := ""
		if k.FileOnly {
			only = " file"
		}
		out = append(out, fmt.Sprintf("%s %s %d%s", k.Why, k.Pod, k.Bytes/mib, only))
	}
	if a.Paused != "" {
		out = append(out, "held "+string(a.Paused))
	}
	if a.Move != nil {
		out = append(out, fmt.Sprintf("move %s %d>%d %d", a.Move.Pod, a.Move.From, a.Move.To, a.Move.Bytes/mib))
	}
	return strings.Join(out, ", ")
}

func memExpect(t *testing.T, what string, a MemoryAdvice, want string) {
	t.Helper()
	a.Lows, a.Protection = nil, nil
	if got := say(&a); got != want {
		t.Errorf("%s:\n got %s\nwant %s", what, got, want)
	}
}

func TestMemoryLimits(t *testing.T) {
	unknown := offline("a", 1000, 0)
	unknown.Current = Sample{}
	reportsNUMA := offline("a", 1000, 100)
	reportsNUMA.NUMANode = 0
	for _, c := range []struct {
		name      string
		pods      []MemoryPod
		headroom  Sample
		numaNodes []MemoryNUMANode
		want      string
	}{
		{"there is room for all", []MemoryPod{offline("a", 1000, 100)}, Known(8 * gib), nil, "a:1000/max"},
		{"without an amount", []MemoryPod{offline("a", 0, 10)}, Known(8 * gib), nil, ""},
		{"without an amount, others have their part", []MemoryPod{offline("a", 0, 500), offline("b", 1000, 100)}, Known(1000 * mib), nil, "b:1000/666"},
		{"it holds more than its amount", []MemoryPod{offline("a", 100, 200)}, Known(8 * gib), nil, "a:232/max, Ceiling a 100"},
		{"what it holds is not known", []MemoryPod{unknown}, Known(8 * gib), nil, "a:-/max"},
		{"headroom is not known", []MemoryPod{offline("a", 1000, 100)}, Sample{}, nil, "a:1000/-"},
		{"in proportion", []MemoryPod{offline("a", 1000, 100), offline("b", 3000, 100)}, Known(2000 * mib), nil, "a:1000/500, b:3000/1500"},
		{"a step below what it holds", []MemoryPod{offline("a", 1000, 800)}, Known(500 * mib), nil, "a:1000/768, Ceiling a 256"},
		{"no headroom at all", []MemoryPod{offline("a", 1000, 40)}, Known(0), nil, "a:1000/64"},
		{"a NUMA node has less", []MemoryPod{reportsNUMA, offline("b", 1000, 100)}, Known(8 * gib), []MemoryNUMANode{{Headroom: Known(300 * mib)}}, "a:1000/300, b:1000/max"},
		{"a NUMA node's is not known", []MemoryPod{reportsNUMA, offline("b", 1000, 100)}, Known(1500 * mib), []MemoryNUMANode{{}}, "a:1000/-, b:1000/750"},
		{"not a number", []MemoryPod{offline("a", 1000, 100)}, Known(math.NaN()), nil, "a:1000/-"},
	} {
		o, p := mem(c.pods...), spec.DefaultNodeMemory()
		o.Headroom, o.NUMANodes = c.headroom, c.numaNodes
		memExpect(t, c.name, StepMemory(o, &p, &MemoryState{}), c.want)
	}
}

// A pod that holds more than it may is brought down step by step, by a kernel that takes what is asked for, and never has a limit below what it holds by
// more than a step. When there is headroom again it has it at once.
func TestMemoryCeilingClosedLoop(t *testing.T) {
	p, m := spec.DefaultNodeMemory(), MemoryState{}
	p.Offload.Reclaimed = false
	pod := offline("a", 2000, 1800)
	holds, asks := int64(1800*mib), 0
	step := func(second int, headroom int64) MemoryLimit {
		pod.Current, pod.InactiveFile = Known(float64(holds)), Known(float64(holds))
		o := mem(pod)
		o.At, o.Headroom = time.Duration(second)*time.Second, Known(float64(headroom))
		a := StepMemory(o, &p, &m)
		if high := a.Limits[0].High; high != Unlimited && high < holds-p.Limits.Step {
			t.Fatalf("at %d s memory.high is %d MiB of %d", second, high/mib, holds/mib)
		}
		pod.Last = ReclaimResult{}
		for _, ask := range a.Reclaims {
			if ask.Bytes > p.Reclaim.Most {
				t.Fatalf("asked for %d MiB", ask.Bytes/mib)
			}
			asks++
			holds -= ask.Bytes
			pod.Last = ReclaimResult{Asked: ask.Bytes, Got: ask.Bytes, Ended: o.At}
		}
		return a.Limits[0]
	}
	var last MemoryLimit
	for second := 1; second <= 60; second++ {
		last = step(second, 900*mib)
	}
	if holds > 900*mib || asks < 3 || last.High != 900*mib || last.Max != 2000*mib {
		t.Errorf("after a minute it holds %d MiB, asked %d times, %+v", holds/mib, asks, last)
	}
	if got := step(61, 4*gib); got.High != Unlimited {
		t.Errorf("with headroom again: %+v", got)
	}
}

// memory.high is lowered once in an interval, and memory.max of a pod that holds too much only falls.
func TestMemoryLimitsFallSlowly(t *testing.T) {
	p, m := spec.DefaultNodeMemory(), MemoryState{}
	steer := func(second int, amount, holds, headroom int64) MemoryLimit {
		o := mem(offline("a", amount, holds))
		o.At, o.Headroom = time.Duration(second)*time.Second, Known(float64(headroom*mib))
		return StepMemory(o, &p, &m).Limits[0]
	}
	for _, c := range []struct {
		second                  int
		amount, holds, headroom int64
		max, high               int64
	}{
		{1, 1000, 900, 500, 1000, 868},
		{2, 1000, 600, 500, 1000, 868}, // too early
		{6, 1000, 600, 500, 1000, 568},
		{12, 1000, 400, 500, 1000, 500},
		{13, 1000, 400, 520, 1000, 500}, // too little
		{14, 1000, 400, 600, 1000, 600},
		{15, 300, 400, 8000, 432, Unlimited / mib}, // its amount was lowered
		{16, 300, 450, 8000, 432, Unlimited / mib},
		{17, 300, 350, 8000, 382, Unlimited / mib},
		{18, 300, 380, 8000, 382, Unlimited / mib},
		{19, 300, 290, 8000, 300, Unlimited / mib},
		{1, 300, 290, 100, 300, 258}, // the clock
	} {
		got := steer(c.second, c.amount, c.holds, c.headroom)
		if got.Max/mib != c.max || got.High/mib != c.high {
			t.Errorf("at %d s: %d, %d; want %d, %d", c.second, got.Max/mib, got.High/mib, c.max, c.high)
		}
	}
}

func TestMemoryAsks(t *testing.T) {
	limited := func(pod MemoryPod, limit int64) MemoryPod { pod.Limit = Known(float64(limit * mib)); return pod }
	with := func(pod MemoryPod, change func(*MemoryPod)) MemoryPod { change(&pod); return pod }
	for _, c := range []struct {
		name   string
		pods   []MemoryPod
		change func(*MemoryObservation)
		want   string
	}{
		{"near its limit", []MemoryPod{offline("a", 1000, 950)}, nil, "a:1000/max, Limit a 150"},
		{"near its limit, and what is taken comes back", []MemoryPod{with(offline("a", 1000, 950), func(p *MemoryPod) { p.Refaults = Known(3 * mib) })}, nil, "a:1000/max"},
		{"perhaps it does", []MemoryPod{with(offline("a", 1000, 950), func(p *MemoryPod) { p.Refaults = Sample{} })}, nil, "a:1000/max"},
		{"not near", []MemoryPod{offline("a", 1000, 890)}, nil, "a:1000/max"},
		{"an online pod near its limit", []MemoryPod{limited(online("a", 0, 950, 300), 1000)}, nil, "Limit a 150"},
		{"with swap: page cache alone", []MemoryPod{limited(online("a", 0, 950, 300), 1000)}, func(o *MemoryObservation) { o.SwapTotal, o.SwapFree = Known(gib), Known(gib) }, "Limit a 150 file"},
		{"an online pod without a limit", []MemoryPod{online("a", 0, 950, 300)}, nil, ""},
		{"no more than it has", []MemoryPod{limited(online("a", 0, 950, 30), 1000)}, nil, "Limit a 30"},
		{"one at a time", []MemoryPod{with(offline("a", 1000, 950), func(p *MemoryPod) { p.Reclaiming = true })}, nil, "a:1000/max"},
		{"page cache not known", []MemoryPod{with(offline("a", 1000, 950), func(p *MemoryPod) { p.ActiveFile = Sample{} })}, nil, "a:1000/max"},
		{"online pods feel pressure", []MemoryPod{offline("a", 1000, 950)}, func(o *MemoryObservation) { o.OnlinePressure = Known(0.2) }, "a:1000/max, held Pressure"},
		{"perhaps they do", []MemoryPod{offline("a", 1000, 950)}, func(o *MemoryObservation) { o.OnlinePressure = Sample{} }, "a:1000/max, held Missing"},
		{
			"anonymous memory where there is swap",
			[]MemoryPod{with(offline("a", 1000, 990), func(p *MemoryPod) { p.InactiveFile, p.SwapRoom = Known(0), Known(gib) })},
			func(o *MemoryObservation) { o.SwapTotal, o.SwapFree = Known(gib), Known(164*mib) }, "a:1000/max, Limit a 100",
		},
		{
			"never of an online pod",
			[]MemoryPod{with(limited(online("a", 0, 950, 30), 1000), func(p *MemoryPod) { p.SwapRoom = Known(gib) })},
			func(o *MemoryObservation) { o.SwapTotal, o.SwapFree = Known(gib), Known(gib) }, "Limit a 30 file",
		},
		{
			"not where it may not swap",
			[]MemoryPod{with(offline("a", 1000, 990), func(p *MemoryPod) { p.InactiveFile = Known(0) })},
			func(o *MemoryObservation) { o.SwapTotal, o.SwapFree = Known(gib), Known(gib) }, "a:1000/max",
		},
		{
			"little is free: reclaimed pods first",
			[]MemoryPod{online("a", 100, 1000, 600), offline("b", 4000, 1000)},
			func(o *MemoryObservation) { o.Free = Known(491 * mib) }, "b:4000/max, Free b 256, Free a 72", // 819 - 491
		},
		{
			"an online pod keeps some",
			[]MemoryPod{online("a", 100, 1000, 250)},
			func(o *MemoryObservation) { o.Free = Known(400 * mib) }, "Free a 62",
		},
		{
			"what is under way counts",
			[]MemoryPod{offline("a", 2000, 1900), online("b", 100, 1000, 600)},
			func(o *MemoryObservation) { o.Free = Known(491 * mib) }, "a:2000/max, Limit a 256, Free b 72",
		},
		{"free is not known", []MemoryPod{offline("b", 4000, 1000)}, func(o *MemoryObservation) { o.Free = Sample{} }, "b:4000/max"},
		{
			"a NUMA node has little",
			[]MemoryPod{with(offline("a", 4000, 1000), func(p *MemoryPod) {
				p.NUMANodes = []MemoryShare{{Known(0), Known(500 * mib)}, {Known(0), Known(0)}}
			}), with(offline("b", 4000, 1000), func(p *MemoryPod) { p.NUMANodes = []MemoryShare{{Known(0), Known(0)}, {Known(0), Known(120 * mib)}} })},
			func(o *MemoryObservation) {
				o.NUMANodes = []MemoryNUMANode{{Known(8 * gib), Known(4 * gib), Sample{}}, {Known(8 * gib), Known(100 * mib), Sample{}}}
			}, "a:4000/max, b:4000/max, Free b 120",
		},
		{"no pressure: a little", []MemoryPod{with(offline("a", 4000, 1000), func(p *MemoryPod) { p.Pressure = Known(0) })}, nil, "a:4000/max, Offload a 2"},
		{"half the pressure: half", []MemoryPod{with(offline("a", 4000, 1000), func(p *MemoryPod) { p.Pressure = Known(0.005) })}, nil, "a:4000/max, Offload a 1"},
		{"refaults", []MemoryPod{with(offline("a", 4000, 1000), func(p *MemoryPod) { p.Pressure, p.Refaults = Known(0), Known(3*mib) })}, nil, "a:4000/max"},
		{"refaults are not known", []MemoryPod{with(offline("a", 4000, 1000), func(p *MemoryPod) { p.Pressure, p.Refaults = Known(0), Sample{} })}, nil, "a:4000/max"},
		{"online pods are not offloaded", []MemoryPod{online("a", 0, 1000, 500)}, nil, ""},
	} {
		o, p := mem(c.pods...), spec.DefaultNodeMemory()
		if c.change != nil {
			c.change(o)
		}
		memExpect(t, c.name, StepMemory(o, &p, &MemoryState{}), c.want)
	}
	o, p := mem(online("a", 0, 1000, 500)), spec.DefaultNodeMemory()
	p.Offload.Online, o.SwapTotal = true, Known(gib)
	memExpect(t, "online pods, switched on", StepMemory(o, &p, &MemoryState{}), "Offload a 2 file")
}

// Page cache is dropped from below the one watermark up to the other, and what is under way is not asked for twice.
func TestMemoryDropUntilEnough(t *testing.T) {
	p, m := spec.DefaultNodeMemory(), MemoryState{}
	p.Reclaim.Most = 100 * mib
	a, b := offline("a", 4000, 1000), offline("b", 4000, 900)
	for i, c := range []struct {
		free      int64
		shrinking bool
		want      string
	}{
		{600, false, ""}, // above 491
		{480, false, "Free a 100, Free b 100"},
		{650, true, "Free b 69"}, // up to 819, of which a gives 100
		{820, false, ""},
		{700, false, ""},
		{480, false, "Free a 100, Free b 100"},
	} {
		a.Reclaiming = c.shrinking
		o := mem(a, b)
		o.At, o.Free = time.Duration(10*i)*time.Second, Known(float64(c.free*mib))
		got := StepMemory(o, &p, &m)
		got.Limits = nil
		memExpect(t, fmt.Sprintf("%d MiB are free", c.free), got, c.want)
	}
}

// A request that gets nothing is made ever more rarely; after one that gets something the next comes soon.
func TestMemoryAsksBackOff(t *testing.T) {
	p, m := spec.DefaultNodeMemory(), MemoryState{}
	pod := offline("a", 1000, 950)
	var asks []int
	for second := 1; second <= 1200; second++ {
		o := mem(pod)
		o.At = time.Duration(second) * time.Second
		if a := StepMemory(o, &p, &m); len(a.Reclaims) > 0 {
			asks = append(asks, second)
			pod.Last = ReclaimResult{Asked: a.Reclaims[0].Bytes, Ended: o.At}
			if pod.Last.Cut = second > 1000 && len(asks)%2 == 0; second > 1000 && !pod.Last.Cut {
				pod.Last.Got = pod.Last.Asked
			}
		}
	}
	if len(asks) < 8 || asks[1]-asks[0] > 4 || asks[7]-asks[6] < 120 {
		t.Errorf("asked at %v", asks)
	}
	if last := asks[len(asks)-1] - asks[len(asks)-3]; last > 8 {
		t.Errorf("after a success, and after one that was cut short, the next two come %d s later", last)
	}
}

// Senpai in a closed loop: a pod's cold memory goes, its working set stays, whatever it began with.
func TestMemoryOffloadClosedLoop(t *testing.T) {
	p := spec.DefaultNodeMemory()
	for _, cold := range []float64{0, 200 * mib, 800 * mib} {
		const working = 400 * mib
		m, holds, taken := MemoryState{}, working+cold, 0.0
		pod := offline("a", 4000, 0)
		for second := 1; second <= 7200; second++ {
			missing := max(working-holds, 0)
			pod.Pressure = Known(missing / working * 0.5) // a page in fifty is missing: it waits 1 % of the time
			pod.Refaults = Known(missing * 0.1)
			holds += missing * 0.1
			pod.Current, pod.Anon, pod.InactiveFile = Known(holds), Known(0), Known(holds)
			o := mem(pod)
			o.At = time.Duration(second) * time.Second
			for _, ask := range StepMemory(o, &p, &m).Reclaims {
				holds -= float64(ask.Bytes)
				taken += float64(ask.Bytes)
				pod.Last = ReclaimResult{Asked: ask.Bytes, Got: ask.Bytes, Ended: o.At}
			}
		}
		if holds > 1.02*working || holds < 0.95*working {
			t.Errorf("with %.0f MiB cold it holds %.0f MiB of a working set of %d", cold/mib, holds/mib, working/mib)
		}
		if cold == 0 && taken > 3*working {
			t.Errorf("%.0f MiB were taken in two hours of what is all in use", taken/mib)
		}
	}
}

func TestMemoryMove(t *testing.T) {
	p, m := spec.DefaultNodeMemory(), MemoryState{}
	in := func(id string, numa0, numa1 float64) MemoryPod {
		pod := offline(id, 4000, 1000)
		pod.InactiveFile = Known(0)
		pod.NUMANodes = []MemoryShare{{Known(numa0 * mib), Known(0)}, {Known(numa1 * mib), Known(0)}}
		return pod
	}
	bound := in("bound", 500, 0)
	bound.NUMANode = 0
	big, own := in("big", 900, 0), online("own", 100, 400, 0)
	own.NUMANodes = []MemoryShare{{Known(400 * mib), Known(0)}, {Known(0), Known(0)}}
	steer := func(second int, free0, free1 Sample, a, b MemoryPod) MemoryAdvice {
		o := mem(a, b, big, bound, own)
		o.At = time.Duration(second) * time.Second
		o.NUMANodes = []MemoryNUMANode{{Known(8 * gib), free0, Known(4 * gib)}, {Known(8 * gib), free1, Known(4 * gib)}}
		return StepMemory(o, &p, &m)
	}
	low, room := Known(200*mib), Known(4*gib)
	for _, c := range []struct {
		second     int
		free0      Sample
		free1      Sample
		a, b, want float64
	}{
		{1, low, room, 100, 300, -1},
		{6, Known(gib), room, 100, 300, -1}, // not for long
		{7, low, room, 100, 300, -1},
		{12, Sample{}, room, 100, 300, -1}, // not known
		{13, low, room, 100, 300, -1},
		{22, low, room, 100, 300, -1},
		{23, low, low, 100, 300, -1},             // no other has room
		{24, low, Known(600 * mib), 100, 300, 0}, // for a alone
		{25, low, room, 50, 300, 0},
		{26, low, room, 9, 300, -1}, // done
		{27, low, room, 100, 300, -1},
		{87, low, room, 100, 300, 1},
		{116, low, room, 100, 300, 1},
		{117, low, room, 100, 300, -1}, // late
		{200, low, room, 100, 300, -1}, // both have moved lately
		{700, low, room, 100, 300, 1},
	} {
		a := steer(c.second, c.free0, c.free1, in("a", c.a, 0), in("b", c.b, 0))
		want := map[float64]string{-1: "", 0: "a", 1: "b"}[c.want]
		got := ""
		if a.Move != nil {
			got = a.Move.Pod
			if a.Move.From != 0 || a.Move.To != 1 || a.Move.Bytes > p.Moves.Most || a.Move.Until-m.At > p.Moves.Deadline.D() {
				t.Errorf("at %d s %+v", c.second, a.Move)
			}
		}
		if got != want {
			t.Errorf("at %d s %q moves, want %q", c.second, got, want)
		}
	}
}

// tree is what the kernel says of a path where each cgroup has the given memory.low in MiB; "-": there is no such file.
func tree(rows ...string) (out []MemoryGroup) {
	for _, row := range rows {
		var g MemoryGroup
		var low, least, current string
		if _, err := fmt.Sscan(row, &g.Dir, &low, &least, &current); err != nil {
			panic(err)
		}
		for i, s := range []*Sample{&g.Low, &g.Min, &g.Current} {
			var n float64
			if _, err := fmt.Sscan([]string{low, least, current}[i], &n); err == nil {
				*s = Known(n * mib)
			}
		}
		out = append(out, g)
	}
	return out
}

func TestMemoryProtection(t *testing.T) {
	right := []string{"kubepods 150 0 2000", "kubepods/burstable 150 0 400", "kubepods/burstable/a 100 0 201", "kubepods/burstable/a/main 100 0 200", "kubepods/burstable/b 50 0 100", "kubepods/burstable/b/main 50 0 100"}
	const wanted = "kubepods:150 kubepods/burstable:150 kubepods/burstable/a:100 kubepods/burstable/a/main:100 kubepods/burstable/b:50 kubepods/burstable/b/main:50"
	replaced := func(i int, row string) []string {
		return append(append(append([]string{}, right[:i]...), row), right[i+1:]...)
	}
	for _, c := range []struct {
		name      string
		groups    []string
		recursive bool
		change    func(*MemoryObservation)
		lows, a   string
	}{
		{"all is there", right, false, nil, wanted, "100 of 100"},
		{"the topmost is protected whole", replaced(0, "kubepods 9e12 0 2000"), false, nil, wanted, "100 of 100"},
		{"the topmost has nothing", replaced(0, "kubepods 0 0 2000"), false, nil, wanted, "0 of 100 Short kubepods"},
		{"the class has half", replaced(1, "kubepods/burstable 75 0 400"), false, nil, wanted, "50 of 100 Short kubepods/burstable"},
		{"the container has nothing", replaced(3, "kubepods/burstable/a/main 0 0 200"), false, nil, wanted, "0 of 100 Short kubepods/burstable/a/main"},
		{"and need not", replaced(3, "kubepods/burstable/a/main 0 0 200"), true, nil, wanted, "100 of 100"},
		{"no such file", replaced(1, "kubepods/burstable - 0 400"), false, nil, wanted, "? of 100 Unsupported kubepods/burstable"},
		{"the kubelet's", replaced(0, "kubepods 0 200 2000"), false, nil, "", "0 of 0 Kubelet kubepods"},
		{"nothing is known of the path", nil, false, nil, wanted, "? of 100 Missing kubepods"},
		{
			"what it uses is not known", right, false, func(o *MemoryObservation) { o.Pods[0].Containers[0].Current = Sample{} },
			"kubepods:150 kubepods/burstable:150 kubepods/burstable/b:50 kubepods/burstable/b/main:50", "100 of 0 Missing kubepods/burstable/a/main",
		},
		{
			"no more than it holds", right, false, func(o *MemoryObservation) { o.Pods[0].Containers[0].Current = Known(50 * mib) },
			strings.ReplaceAll(strings.ReplaceAll(wanted, ":150", ":105"), ":100", ":55"), "100 of 55",
		},
		{
			"no more than the node can", right, false, func(o *MemoryObservation) { o.Total = Known(150 * mib) },
			"kubepods:105 kubepods/burstable:105 kubepods/burstable/a:70 kubepods/burstable/a/main:70 kubepods/burstable/b:35 kubepods/burstable/b/main:35", "100 of 70",
		},
		{"the node's memory is not known", right, false, func(o *MemoryObservation) { o.Total = Sample{} }, "kubepods:150 kubepods/burstable:150", "100 of 0 Missing kubepods/burstable/a/main"},
		{"nobody is left", right[:2], false, func(o *MemoryObservation) { o.Pods = o.Pods[2:] }, "kubepods:0 kubepods/burstable:0", ""},
		{"and the kernel knows", []string{"kubepods 0 0 1", "kubepods/burstable 0 0 1"}, false, func(o *MemoryObservation) { o.Pods = o.Pods[2:] }, "", ""},
	} {
		o, p := mem(online("a", 100, 200, 50), online("b", 50, 100, 0), offline("c", 1000, 100)), spec.DefaultNodeMemory()
		o.Groups, o.Recursive = tree(c.groups...), c.recursive
		if c.change != nil {
			c.change(o)
		}
		a := StepMemory(o, &p, &MemoryState{Shared: []string{"kubepods", "kubepods/burstable"}})
		var lows []string
		for _, l := range a.Lows {
			lows = append(lows, fmt.Sprintf("%s:%d", l.Dir, l.Bytes/mib))
		}
		if got := strings.Join(lows, " "); got != c.lows {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.lows)
		}
		got := ""
		if len(a.Protection) > 0 {
			x := a.Protection[0]
			has := "?"
			if x.Effective.Known {
				has = fmt.Sprintf("%.0f", x.Effective.Value/mib)
			}
			got = strings.TrimSpace(fmt.Sprintf("%s of %d %s %s", has, x.Wanted/mib, x.Reason, x.At))
		}
		if got != c.a {
			t.Errorf("%s: %q, want %q", c.name, got, c.a)
		}
	}
}

// Where the kernel can tell used page cache from unused, what is unused may be left out.
func TestMemoryProtectionOfCache(t *testing.T) {
	for share, want := range map[float64]int64{0: 55, 0.5: 110, 1: 165} {
		p := spec.DefaultNodeMemory()
		p.Protection.Cache = share
		if a := StepMemory(mem(online("a", 1000, 150, 100)), &p, &MemoryState{}); a.Lows[0].Bytes/mib != want {
			t.Errorf("with %g of the cache: %d MiB, want %d", share, a.Lows[0].Bytes/mib, want)
		}
	}
}

// When the last online pod has gone, the cgroups above it are told to protect nothing, until the kernel has that.
func TestMemoryProtectionEnds(t *testing.T) {
	p, m := spec.DefaultNodeMemory(), MemoryState{}
	steer := func(second, low int, pods ...MemoryPod) string {
		o := mem(pods...)
		o.At, o.Groups = time.Duration(second)*time.Second, tree(fmt.Sprintf("kubepods %d 0 100", low), fmt.Sprintf("kubepods/burstable %d 0 100", low))
		a := StepMemory(o, &p, &m)
		return fmt.Sprint(a.Lows)
	}
	for i, c := range []struct {
		low  int
		pods []MemoryPod
		want string
	}{
		{0, []MemoryPod{online("a", 4, 100, 0)}, "[{kubepods 4194304} {kubepods/burstable 4194304} {kubepods/burstable/a 4194304} {kubepods/burstable/a/main 4194304}]"},
		{4, nil, "[{kubepods 0} {kubepods/burstable 0}]"},
		{4, nil, "[{kubepods 0} {kubepods/burstable 0}]"},
		{0, nil, "[]"},
		{4, nil, "[]"}, // somebody else's
	} {
		if got := steer(i+1, c.low, c.pods...); got != c.want {
			t.Errorf("%d: %s, want %s", i, got, c.want)
		}
	}
}

// BenchmarkSteerMemory is a tick of a node with 100 pods of two containers.
func BenchmarkSteerMemory(b *testing.B) {
	var pods []MemoryPod
	for i := range 100 {
		pod := online(fmt.Sprint("p", 100+i), 100, 200, 50)
		if i%2 == 0 {
			pod = offline(pod.ID, 1000, 950)
		}
		pods = append(pods, pod)
	}
	o, p, m := mem(pods...), spec.DefaultNodeMemory(), MemoryState{}
	for b.Loop() {
		StepMemory(o, &p, &m)
	}
}

// A protection rises at once, falls after a while of less, and neither for little.
func TestMemoryProtectionFallsSlowly(t *testing.T) {
	p, m := spec.DefaultNodeMemory(), MemoryState{}
	for _, c := range []struct {
		second      int
		holds, want int64
	}{{1, 100, 110}, {2, 103, 110}, {3, 200, 220}, {4, 100, 220}, {40, 190, 209}, {41, 100, 220}} {
		o := mem(online("a", 1000, c.holds, 0))
		o.At = time.Duration(c.second) * time.Second
		got := StepMemory(o, &p, &m).Lows[0].Bytes / mib
		if c.second == 40 {
			if got != 220 {
				t.Errorf("little less at 40 s: %d", got)
			}
			continue
		}
		if got != c.want {
			t.Errorf("at %d s %d, want %d", c.second, got, c.want)
		}
	}
	for second := 42; second <= 101; second++ {
		o := mem(online("a", 1000, 100, 0))
		o.At = time.Duration(second) * time.Second
		got := StepMemory(o, &p, &m).Lows[0].Bytes / mib
		if want := map[bool]int64{true: 110, false: 220}[second >= 100]; got != want {
			t.Fatalf("at %d s %d, want %d", second, got, want)
		}
	}
}

func memSample() *rapid.Generator[Sample] {
	return rapid.OneOf(
		rapid.Map(rapid.Int64Range(0, 20*gib), func(n int64) Sample { return Known(float64(n)) }),
		rapid.SampledFrom([]Sample{{}, Known(0), Known(-1), Known(math.NaN()), Known(math.Inf(1)), {Value: 5 * gib}}),
	)
}

func memRate() *rapid.Generator[Sample] {
	return rapid.OneOf(rapid.Map(rapid.Float64Range(0, 0.2), Known), rapid.SampledFrom([]Sample{{}, Known(0), Known(math.NaN()), Known(-1)}))
}

func memPod(t *rapid.T, i int) MemoryPod {
	b := memSample()
	pod := offline(fmt.Sprint("p", i), 0, 0)
	if pod.Reclaimed = rapid.Bool().Draw(t, "reclaimed"); !pod.Reclaimed {
		pod = online(pod.ID, rapid.Int64Range(0, 10_000).Draw(t, "request"), 0, 0)
		pod.Containers[0].Current, pod.Containers[0].InactiveFile = b.Draw(t, "c"), b.Draw(t, "ci")
	}
	pod.Amount = rapid.Int64Range(-1, 30*gib).Draw(t, "amount")
	pod.NUMANode = rapid.IntRange(-1, 2).Draw(t, "numaNode")
	for _, s := range []*Sample{&pod.Current, &pod.Anon, &pod.InactiveFile, &pod.ActiveFile, &pod.Limit, &pod.SwapRoom, &pod.Refaults} {
		*s = b.Draw(t, "bytes")
	}
	pod.Pressure = memRate().Draw(t, "pressure")
	for range rapid.IntRange(0, 2).Draw(t, "numaNodes") {
		pod.NUMANodes = append(pod.NUMANodes, MemoryShare{b.Draw(t, "anon"), b.Draw(t, "file")})
	}
	pod.Reclaiming = rapid.Bool().Draw(t, "shrinking")
	pod.Last = ReclaimResult{Asked: rapid.Int64Range(0, gib).Draw(t, "asked"), Got: rapid.Int64Range(0, gib).Draw(t, "got"), Ended: time.Duration(rapid.IntRange(0, 1000).Draw(t, "ended")) * time.Second}
	return pod
}

func memObservation(t *rapid.T) *MemoryObservation {
	b := memSample()
	o := &MemoryObservation{At: time.Duration(rapid.IntRange(0, 1000).Draw(t, "at")) * time.Second, Recursive: rapid.Bool().Draw(t, "recursive")}
	for _, s := range []*Sample{&o.Total, &o.Free, &o.SwapTotal, &o.SwapFree, &o.Headroom} {
		*s = b.Draw(t, "node")
	}
	o.OnlinePressure = memRate().Draw(t, "online")
	for range rapid.IntRange(0, 2).Draw(t, "numaNodes") {
		o.NUMANodes = append(o.NUMANodes, MemoryNUMANode{b.Draw(t, "total"), b.Draw(t, "free"), b.Draw(t, "headroom")})
	}
	for i := range rapid.IntRange(0, 5).Draw(t, "pods") {
		if rapid.IntRange(0, 4).Draw(t, "gone") > 0 {
			o.Pods = append(o.Pods, memPod(t, i))
		}
	}
	for _, dir := range []string{"kubepods", "kubepods/burstable", "kubepods/burstable/p0", "kubepods/burstable/p0/main", "kubepods/burstable/p1"} {
		if rapid.Bool().Draw(t, dir) {
			o.Groups = append(o.Groups, MemoryGroup{dir, b.Draw(t, "low"), rapid.SampledFrom([]Sample{{}, Known(0), Known(mib)}).Draw(t, "min"), b.Draw(t, "current")})
		}
	}
	return o
}

// Whatever is seen: amounts are within their bounds, anonymous memory of an online pod is never asked for, a limit never falls below what a pod is
// known to hold by more than a step, what is below a cgroup is no more than it has, and the same inputs give the same advice.
func TestMemoryAlways(t *testing.T) {
	p := spec.DefaultNodeMemory()
	rapid.Check(t, func(t *rapid.T) {
		var m MemoryState
		for range rapid.IntRange(1, 6).Draw(t, "ticks") {
			o, before := memObservation(t), m.Clone()
			a := StepMemory(o, &p, &m)
			again := before.Clone()
			if b := StepMemory(o, &p, &again); !reflect.DeepEqual(a, b) {
				t.Fatalf("%+v\n%+v", a, b)
			}
			if _, err := json.Marshal(a); err != nil {
				t.Fatal(err)
			}
			if _, err := json.Marshal(m); err != nil {
				t.Fatal(err)
			}
			memBounds(t, o, &p, &a)
			memFalls(t, o, &p, &a, &before)
		}
	})
}

func memBounds(t *rapid.T, o *MemoryObservation, p *spec.NodeMemory, a *MemoryAdvice) {
	pods := map[string]*MemoryPod{}
	for i := range o.Pods {
		pods[o.Pods[i].ID] = &o.Pods[i]
	}
	var sum int64
	for _, ask := range a.Reclaims {
		pod := pods[ask.Pod]
		sum += ask.Bytes
		swap, known := bytesOf(o.SwapTotal)
		switch {
		case ask.Bytes < p.Reclaim.Least || ask.Bytes > p.Reclaim.Most || pod.Reclaiming:
			t.Fatalf("%+v of %+v", ask, pod)
		case !pod.Reclaimed && !ask.FileOnly && (!known || swap > 0):
			t.Fatalf("anonymous memory of an online pod: %+v", ask)
		}
	}
	if sum > p.Reclaim.Total || (a.Paused != "" && len(a.Reclaims) > 0) {
		t.Fatalf("%d bytes, held %q", sum, a.Paused)
	}
	if v := o.OnlinePressure; a.Paused == "" && !(v.Known && v.Value < p.Reclaim.Pressure) {
		t.Fatalf("acts under pressure %+v", v)
	}
	if a.Move != nil {
		if pod := pods[a.Move.Pod]; !pod.Reclaimed || a.Move.From == a.Move.To || a.Move.Bytes > p.Moves.Most {
			t.Fatalf("%+v", a.Move)
		}
	}
	lows := map[string]int64{}
	below := map[string]int64{}
	for _, l := range a.Lows {
		lows[l.Dir] = l.Bytes
		below[parentOf(l.Dir)] += l.Bytes
	}
	for dir, n := range below {
		if _, there := lows[dir]; dir != "" && n > lows[dir] && there {
			t.Fatalf("below %s are %d, it has %d", dir, n, lows[dir])
		}
	}
}

func memFalls(t *rapid.T, o *MemoryObservation, p *spec.NodeMemory, a *MemoryAdvice, before *MemoryState) {
	for _, l := range a.Limits {
		had, has := before.Pods[l.Pod], Sample{}
		for i := range o.Pods {
			if o.Pods[i].ID == l.Pod {
				has = o.Pods[i].Current
			}
		}
		holds, known := bytesOf(has)
		if l.Max != 0 && l.Max < had.Max && (!known || l.Max < holds) {
			t.Fatalf("memory.max falls to %d of %v, had %+v", l.Max, has, had)
		}
		if l.High != 0 && l.High < had.High && (!known || l.High < holds-p.Limits.Step) {
			t.Fatalf("memory.high falls to %d of %v, had %+v", l.High, has, had)
		}
	}
}
