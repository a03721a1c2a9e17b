package allocate

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/topology"
)

// hotplug is a node of two NUMA nodes with four cores of two threads each, whose CPUs come and go. When they do, the agent starts anew with its checkpoint, as it
// does after a crash.
type hotplug struct {
	online  topology.CPUSet
	m       *Manager
	pods    map[string]Pod             // what runs
	told    map[string]topology.CPUSet // what the runtime was told of each
	losers  map[string]bool            // pods that were told that they lose
	reserve int
}

func (h *hotplug) machine() *topology.Machine {
	m := &topology.Machine{}
	for z := range 2 {
		m.NUMA = append(m.NUMA, topology.NUMANode{ID: z, Memory: 8 << 30, Distances: []int{10 + 11*z, 21 - 11*z}})
	}
	for id := range h.online.All() {
		core := id / 2
		m.CPUs = append(m.CPUs, topology.CPU{ID: id, Core: core, L3: core / 4, Socket: core / 4, NUMA: core / 4})
		m.NUMA[core/4].CPUs.Add(id)
	}
	return m
}

// start begins with what the agent before it has left, and adopts what runs as admission does: pods that have all their CPUs come first.
func (h *hotplug) start(t *rapid.T) {
	var known *Checkpoint
	if h.m != nil {
		data, err := json.Marshal(h.m.Checkpoint())
		if err != nil {
			t.Fatal(err)
		}
		known = &Checkpoint{}
		if err := json.Unmarshal(data, known); err != nil {
			t.Fatal(err)
		}
	}
	m, err := New(h.machine(), Params{ReservedCores: h.reserve, ReclaimedCores: 1, Mode: spec.ModeAgent})
	if err != nil {
		t.Fatal(err)
	}
	h.m = m
	m.Restore(known)
	order := slices.Sorted(maps.Keys(h.pods))
	rank := func(uid string) int {
		switch p := h.pods[uid]; {
		case p.QoS.Level != spec.QoSDedicated:
			return 2
		case h.told[uid].Minus(h.online).IsEmpty():
			return 0
		}
		return 1
	}
	slices.SortStableFunc(order, func(x, y string) int { return rank(x) - rank(y) })
	for _, uid := range order {
		if _, known := m.Placement(uid); known {
			continue
		}
		p := h.pods[uid]
		p.Running = true
		if p.QoS.Level == spec.QoSDedicated {
			p.Fixed = h.told[uid]
		}
		v := m.Admit(p)
		if v.Refused != nil {
			t.Fatalf("%s runs on %v and is refused: %v", uid, h.told[uid], v.Refused)
		}
		if delete(h.losers, uid); v.Lost != nil { // one that has lost may find room when other CPUs come
			h.losers[uid] = true
		}
	}
}

func (h *hotplug) tell() {
	for uid := range h.pods {
		p, _ := h.m.Placement(uid)
		h.told[uid] = p.CPUs
	}
}

// check holds the promises.
func (h *hotplug) check(t *rapid.T) {
	if err := h.m.Verify(); err != nil {
		t.Fatal(err)
	}
	reserved := h.m.Report().Reserved
	if reserved.IsEmpty() || !reserved.Minus(h.online).IsEmpty() {
		t.Fatalf("reserved are %v of %v", reserved, h.online)
	}
	var alone, together topology.CPUSet
	for _, uid := range slices.Sorted(maps.Keys(h.pods)) {
		p, ok := h.m.Placement(uid)
		if !ok || !p.CPUs.Minus(h.online).IsEmpty() || p.CPUs.IsEmpty() {
			t.Fatalf("%s (%v) runs on %v; online are %v", uid, ok, p.CPUs, h.online)
		}
		if p.Pool != "" {
			together = together.Union(p.CPUs)
			continue
		}
		if twice := p.CPUs.Intersection(alone.Union(reserved)); !twice.IsEmpty() {
			t.Fatalf("CPUs %v are promised twice, or reserved", twice)
		}
		alone = alone.Union(p.CPUs)
		if asked := int(h.pods[uid].Request.CPUs); p.CPUs.Len() < asked && !h.losers[uid] {
			t.Fatalf("%s has %v, asked for %d, and was not told", uid, p.CPUs, asked)
		}
	}
	if both := alone.Intersection(together); !both.IsEmpty() {
		t.Fatalf("CPUs %v are promised to one pod and shared by others", both)
	}
	for uid := range h.losers {
		if p, ok := h.m.Placement(uid); ok && p.Pool == "" && p.CPUs.Len() >= int(h.pods[uid].Request.CPUs) {
			t.Fatalf("%s has %v, all that it asked for, and was told that it loses", uid, p.CPUs)
		}
	}
}

// No CPU that is offline is given, none is promised twice, and reserved cores stay, whatever CPUs come and go; whoever loses is told.
func TestCPUsComeAndGo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := &hotplug{
			pods: make(map[string]Pod), told: make(map[string]topology.CPUSet), losers: make(map[string]bool), reserve: rapid.IntRange(1, 3).Draw(t, "reserved"),
		}
		for id := range 16 {
			h.online.Add(id)
		}
		h.start(t)
		next := 0
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0, 1: // CPUs go or come, one or a core or SMT
				was := h.online
				change := topology.CPUs(rapid.SliceOfN(rapid.IntRange(0, 15), 1, 8).Draw(t, "CPUs")...)
				if rapid.Bool().Draw(t, "off") {
					h.online = h.online.Minus(change)
				} else {
					h.online = h.online.Union(change)
				}
				if h.online.Len() < 5 {
					h.online = was
				}
				h.start(t)
			case 2:
				h.start(t)
			case 3:
				if uids := slices.Sorted(maps.Keys(h.pods)); len(uids) > 0 {
					uid := rapid.SampledFrom(uids).Draw(t, "ends")
					h.m.Release(uid)
					delete(h.pods, uid)
					delete(h.told, uid)
					delete(h.losers, uid)
				}
			default:
				next++
				p := Pod{UID: fmt.Sprintf("p%02d", next), Namespace: "default", Name: fmt.Sprint(next), MilliCPU: 500}
				switch rapid.IntRange(0, 3).Draw(t, "level") {
				case 0:
					p.QoS = spec.QoS{Level: spec.QoSShared, Pool: spec.PoolShare}
				case 1:
					p.QoS, p.BestEffort, p.MilliCPU = spec.QoS{Level: spec.QoSReclaimed, Said: true}, true, 0
				default:
					cpus := rapid.IntRange(1, 6).Draw(t, "asks")
					p.QoS, p.MilliCPU = spec.QoS{Level: spec.QoSDedicated, Said: true}, int64(cpus)*1000
					p.Request = topology.NUMARequest{CPUs: uint16(cpus)}
				}
				if v := h.m.Admit(p); v.Refused == nil {
					h.pods[p.UID] = p
				}
				h.m.Pools.SetReclaimed([topology.MaxNUMANodes]int{rapid.IntRange(0, 4).Draw(t, "lent"), 1})
			}
			h.tell()
			h.check(t)
		}
	})
}

// Of a machine without SMT one sibling comes back, so that cores have two CPUs from now on, and one core is whole. The first of the pods that lose theirs takes it,
// and the pod that ran there loses too; it is not refused.
func TestPodTakesCoreOfOneThatLoses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := &hotplug{
			pods: make(map[string]Pod), told: make(map[string]topology.CPUSet), losers: make(map[string]bool), reserve: 1, online: topology.CPUs(1, 3, 5, 7, 9, 11, 13, 15),
		}
		h.start(t)
		for _, uid := range []string{"p1", "p2", "p3"} {
			p := Pod{UID: uid, MilliCPU: 1000, QoS: spec.QoS{Level: spec.QoSDedicated, Said: true}, Request: topology.NUMARequest{CPUs: 1}}
			if v := h.m.Admit(p); v.Refused != nil {
				t.Fatal(v.Refused)
			}
			h.pods[uid] = p
		}
		h.tell()
		beside := h.told[rapid.SampledFrom([]string{"p1", "p2", "p3"}).Draw(t, "runs beside the CPU that comes back")]
		back := beside.Next(0) - 1
		h.online.Add(back)
		h.start(t)
		h.tell()
		h.check(t)
		if got := h.told["p1"]; got != topology.CPUs(back, back+1) || len(h.losers) != 2 {
			t.Fatalf("p1 runs on %v, %d pods lose", got, len(h.losers))
		}
	})
}
