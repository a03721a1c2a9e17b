package allocate

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/topology/topologytest"
)

// TestHostilePoolsTakeNothing: whatever pools others name, and whatever is advised for these, the pods of pool share have the CPUs that they request, off the
// reserved cores, as long as the requests of all fit the node. So do pods of a pool of their own, down to whole cores.
func TestHostilePoolsTakeNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		numaNodes, cores, threads := rapid.IntRange(1, 2).Draw(t, "NUMA nodes"), rapid.IntRange(2, 24).Draw(t, "cores"), rapid.IntRange(1, 2).Draw(t, "threads")
		machine := topologytest.Machine(numaNodes, cores, threads, cores, 1<<16)
		m, err := New(machine, Params{ReservedCores: 1, ReclaimedCores: 1, Mode: spec.ModeAgent})
		if err != nil {
			t.Fatal(err)
		}
		room := int64((numaNodes*cores - 1) * threads * 1000)
		victims := rapid.Int64Range(1, room).Draw(t, "requests of share")
		m.Admit(Pod{UID: "victim", Namespace: "prod", Name: "web", MilliCPU: victims})
		// What the others request is less than what is left by a core, so that rounding to cores finds room.
		left := room - victims - int64(threads)*1000
		pools, inside := make(map[string]int64), victims
		demands := make(map[string]int64)
		for i := range rapid.IntRange(0, 250).Draw(t, "hostile pods") {
			milli := rapid.SampledFrom([]int64{0, 0, 1, 10, 999, 1000, 2000, 7500}).Draw(t, "request")
			if milli > left {
				milli = 0
			}
			left -= milli
			name := fmt.Sprint("p", rapid.IntRange(0, 250).Draw(t, "pool"))
			pools["evil/"+name] += milli
			m.Admit(Pod{
				UID: fmt.Sprint("x", i), Namespace: "evil", Name: fmt.Sprint(i), MilliCPU: milli, BestEffort: milli == 0,
				QoS: spec.QoS{Level: spec.QoSShared, Pool: name, Said: true},
			})
			if rapid.IntRange(0, 5).Draw(t, "steered") == 0 {
				demands["evil/"+name] = rapid.Int64Range(0, 200_000).Draw(t, "advised")
			}
		}
		m.Pools.SetDemands(demands)
		check := func(uid string, milli int64) {
			p, ok := m.Placement(uid)
			if !ok || int64(p.CPUs.Len())*1000 < milli || !p.CPUs.Intersection(m.capacity.alloc.Reserved()).IsEmpty() {
				t.Fatalf("%s requests %d millicores and runs on %v; reserved are %v; pools %+v", uid, milli, p.CPUs, m.capacity.alloc.Reserved(), m.Pools.List())
			}
		}
		core := int64(threads) * 1000
		for name, milli := range pools {
			if milli < core {
				inside += milli
			}
			if advised, steered := demands[name]; steered && advised < milli {
				continue
			}
			own := m.capacity.alloc.Pools().Shared[name]
			if filled := milli / core * core; int64(own.Len())*1000 < filled {
				t.Fatalf("the pods of pool %s request %d millicores and have %v", name, milli, own)
			}
		}
		check("victim", inside)
	})
}
