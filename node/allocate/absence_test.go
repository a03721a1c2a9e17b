package allocate

import (
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/topology"
)

// Looking at the node without its loan changes nothing, and gives each pool what it requests.
func TestWithoutLoan(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		machine := &topology.Machine{}
		for id := range 16 {
			machine.CPUs = append(machine.CPUs, topology.CPU{ID: id, Core: id, L3: id / 8, Socket: id / 8, NUMA: id / 8})
		}
		for id := range 2 {
			var set topology.CPUSet
			for c := range 8 {
				set = set.Union(topology.CPUs(8*id + c))
			}
			machine.NUMA = append(machine.NUMA, topology.NUMANode{ID: id, CPUs: set, Memory: 8 << 30, Distances: []int{10 + 11*id, 21 - 11*id}})
		}
		m, err := New(machine, Params{ReservedCores: 1, ReclaimedCores: 1, Mode: spec.ModeAgent})
		if err != nil {
			r.Fatal(err)
		}
		for i := range rapid.IntRange(0, 8).Draw(r, "pods") {
			p := Pod{UID: fmt.Sprint(i), Namespace: "a", Name: fmt.Sprint(i), MilliCPU: rapid.Int64Range(0, 4000).Draw(r, "milli")}
			p.QoS.Level = rapid.SampledFrom([]spec.QoSLevel{spec.QoSShared, spec.QoSReclaimed, spec.QoSDedicated}).Draw(r, "level")
			p.QoS.Pool = rapid.SampledFrom([]string{"", "web"}).Draw(r, "pool")
			if p.QoS.Level == spec.QoSDedicated {
				p.Request.CPUs = uint16(rapid.IntRange(1, 3).Draw(r, "cpus"))
			}
			if p.QoS.Level != spec.QoSShared {
				p.QoS.Pool = ""
			}
			m.Admit(p)
		}
		m.Pools.SetReclaimed([topology.MaxNUMANodes]int{rapid.IntRange(0, 7).Draw(r, "lent"), rapid.IntRange(0, 7).Draw(r, "lent")})
		m.Pools.SetDemands(map[string]int64{"a/web": rapid.Int64Range(0, 8000).Draw(r, "demand")})
		before := m.Checkpoint()
		var idle, share int
		m.WithoutLoan(func() {
			for _, z := range m.Pools.NUMANodes() {
				idle += z.Reclaimed.Len()
				share += z.Shared.Len()
			}
		})
		if after := m.Checkpoint(); !reflect.DeepEqual(before, after) {
			r.Fatalf("it was\n%+v\nand is\n%+v", before, after)
		}
		if idle > 2 {
			r.Fatalf("%d CPUs are lent when nothing is, beside the floor of one in each NUMA node", idle)
		}
	})
}

// TestShareable: a CPU is shareable exactly if it is reserved, or nobody holds it and nobody has its NUMA node alone. What the pools have is.
func TestShareable(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		n := newNode(r, spec.ModeAgent)
		for range rapid.IntRange(1, 20).Draw(r, "steps") {
			_, do := n.step(r)
			do(n.m)
		}
		got, alloc := n.m.Shareable(), n.m.capacity.alloc
		for _, cpu := range n.m.capacity.machine.CPUs {
			free := true
			for _, uid := range alloc.Holders() {
				h, _ := alloc.Holding(uid)
				alone := h.Request.Binding == topology.Exclusive && !h.CPUs.Intersection(alloc.NUMANode(cpu.NUMA)).IsEmpty()
				free = free && !h.CPUs.Has(cpu.ID) && !alone
			}
			if want := free || alloc.Reserved().Has(cpu.ID); got.Has(cpu.ID) != want {
				r.Fatalf("CPU %d is shareable: %v, want %v; held are %v", cpu.ID, got.Has(cpu.ID), want, alloc.Held())
			}
		}
		for _, z := range n.m.Pools.NUMANodes() {
			if outside := z.Shared.Union(z.Reclaimed).Minus(got); !outside.IsEmpty() {
				r.Fatalf("the pools have %v, which is not shareable", outside)
			}
		}
	})
}
