package cores

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/topology"
	"hilbert.dev/hilbert/topology/topologytest"
)

func mustAllocator(t *testing.T, m *topology.Machine, reserved topology.CPUSet) *Allocator {
	t.Helper()
	a, err := NewAllocator(m, reserved, 0)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestReserve(t *testing.T) {
	m := topologytest.Machine(2, 3, 2, 3, 1000)
	for cores, want := range []string{"", "0-1", "0-1,6-7", "0-3,6-7", "0-3,6-9"} {
		if got := Reserve(m, cores); got.String() != want {
			t.Errorf("%d cores: %v, want %s", cores, got, want)
		}
	}
	if got := Reserve(m, 99); got != m.AllCPUs() {
		t.Errorf("more than there are: %v", got)
	}
	if got := Reserve(&topology.Machine{CPUs: []topology.CPU{{ID: topology.MaxCPUs}}}, 1); !got.IsEmpty() {
		t.Errorf("of a machine that cannot be: %v", got)
	}
}

// TestCoresByL3 takes cores one pod after the other from a NUMA node with L3 groups of four cores.
func TestCoresByL3(t *testing.T) {
	a := mustAllocator(t, topologytest.Machine(1, 12, 1, 4, 1000), topology.CPUs(0))
	for i, step := range []struct {
		cpus int
		want string
		why  string
	}{
		{3, "1-3", "the group that it fills exactly"},
		{1, "4", "both groups are whole: the lowest core"},
		{2, "5-6", "the smallest group that holds it, beside those that are held"},
		{4, "8-11", "the group that it fills exactly"},
		{1, "7", "what is left"},
	} {
		o, ok := a.Offer(topology.NUMARequest{CPUs: uint16(step.cpus)}, topology.NUMAGrant{}, 0xff)
		if !ok || o.CPUs.String() != step.want {
			t.Fatalf("%d cores: %v, want %s: %s", step.cpus, o.CPUs, step.want, step.why)
		}
		if err := a.Commit(fmt.Sprint(i), o); err != nil {
			t.Fatal(err)
		}
	}
	a.Release("1")
	a.Release("3")
	o, _ := a.Offer(topology.NUMARequest{CPUs: 5}, topology.NUMAGrant{}, 0xff)
	if o.CPUs.String() != "4,8-11" {
		t.Errorf("5 cores: %v, want the largest group and what is missing from the smallest", o.CPUs)
	}
}

// TestHolesAreFilled: a core between two that are held comes before one at the edge.
func TestHolesAreFilled(t *testing.T) {
	a := mustAllocator(t, topologytest.Machine(1, 8, 1, 8, 1000), topology.CPUSet{})
	for _, cpu := range []int{2, 4} {
		h := Holding{Request: topology.NUMARequest{CPUs: 1}, Grant: topology.NUMAGrant{CPUs: [topology.MaxNUMANodes]uint16{1}}, CPUs: topology.CPUs(cpu)}
		if err := a.Adopt(fmt.Sprint(cpu), h); err != nil {
			t.Fatal(err)
		}
	}
	o, _ := a.Offer(topology.NUMARequest{CPUs: 2}, topology.NUMAGrant{}, 0xff)
	if o.CPUs.String() != "1,3" {
		t.Errorf("took %v, want the hole at 3 and then its lowest neighbour", o.CPUs)
	}
}

// TestIrregularCores: a core that lacks a thread is nobody's own, and in the pools.
func TestIrregularCores(t *testing.T) {
	m := topologytest.Machine(1, 3, 2, 3, 1000)
	m.CPUs = append(m.CPUs[:3], m.CPUs[4:]...) // CPU 3 is offline
	a := mustAllocator(t, m, topology.CPUSet{})
	if s := a.Shape(); s.NUMANode[0].CPUs != 4 || s.Threads != 2 {
		t.Errorf("shape %+v", s)
	}
	o, ok := a.Offer(topology.NUMARequest{CPUs: 4, Binding: topology.Exclusive}, topology.NUMAGrant{}, 0xff)
	if !ok || o.CPUs.String() != "0-1,4-5" {
		t.Fatalf("offered %v %v", o.CPUs, ok)
	}
	if err := a.Commit("a", o); err != nil {
		t.Fatal(err)
	}
	p := a.Pools()
	if !p.Shared[SharePool].IsEmpty() || p.Runs(p.Shared[SharePool]) != topology.CPUs(2) {
		t.Errorf("pools %v run on %v: a NUMA node that somebody has alone gives nothing as long as there is anything else", p, p.Runs(topology.CPUSet{}))
	}
	for _, cpus := range []topology.CPUSet{topology.CPUs(2), topology.CPUs(0), topology.CPUs(9), {}} {
		h := Holding{Request: topology.NUMARequest{CPUs: 1}, CPUs: cpus}
		h.Grant = a.GrantOf(h.Request, cpus)
		if err := a.Adopt("b", h); err == nil {
			t.Errorf("adopted %v", cpus)
		}
	}
}

func TestMachinesThatCannotBe(t *testing.T) {
	cpu := func(c topology.CPU) *topology.Machine {
		return &topology.Machine{CPUs: []topology.CPU{{}, c}, NUMA: []topology.NUMANode{{}, {ID: 1}}}
	}
	for want, m := range map[string]*topology.Machine{
		"no CPU":            {},
		"not from 0":        cpu(topology.CPU{ID: topology.MaxCPUs, Core: 1}),
		"CPU -1":            cpu(topology.CPU{ID: -1, Core: 1}),
		"stands twice":      cpu(topology.CPU{ID: 0, Core: 1}),
		"which is not":      cpu(topology.CPU{ID: 1, Core: 1, NUMA: 7}),
		"in two NUMA nodes": cpu(topology.CPU{ID: 1, NUMA: 1}),
	} {
		if _, err := NewAllocator(m, topology.CPUSet{}, 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	a := mustAllocator(t, &topology.Machine{CPUs: []topology.CPU{{ID: 3}, {ID: 1, Core: 1, L3: -1}}}, topology.CPUs(700))
	if s := a.Shape(); s.NUMANodes != 1 || s.NUMANode[0].CPUs != 2 || !a.Reserved().IsEmpty() {
		t.Errorf("without NUMA nodes: %+v, reserved %v", s, a.Reserved())
	}
}

// TestTooManyNUMANodes: nothing is promised, and the pools take the machine for one NUMA node.
func TestTooManyNUMANodes(t *testing.T) {
	a := mustAllocator(t, topologytest.Machine(topology.MaxNUMANodes+1, 2, 1, 2, 1000), topology.CPUs(0))
	if _, ok := a.Offer(topology.NUMARequest{CPUs: 1}, topology.NUMAGrant{}, 0xff); ok || a.Shape().Ruler != topology.RulerNone || a.Shape().NUMANodes != 0 {
		t.Errorf("offered with shape %+v", a.Shape())
	}
	p := a.Divide(Division{Shared: []PoolDemand{{SharePool, 0, 0}}, Reclaimed: [topology.MaxNUMANodes]int{3}})
	if p.Reclaimed.String() != "15-17" || p.Shared[SharePool].String() != "1-14" {
		t.Errorf("pools %v", p)
	}
	if err := a.SetRuler(topology.RulerAgent); !errors.Is(err, ErrUnfit) {
		t.Errorf("promises by NUMA node: %v", err)
	}
}

// TestKubeletRules: any CPUs can be taken note of, and nothing is offered.
func TestKubeletRules(t *testing.T) {
	a := mustAllocator(t, topologytest.Machine(1, 3, 2, 3, 1000), topology.CPUs(0, 1))
	if err := a.SetRuler(topology.RulerKubelet); err != nil {
		t.Fatal(err)
	}
	if _, ok := a.Offer(topology.NUMARequest{CPUs: 2}, topology.NUMAGrant{}, 0xff); ok {
		t.Error("offered where the kubelet rules")
	}
	if err := a.Adopt("a", Holding{CPUs: topology.CPUs(1, 2)}); err != nil {
		t.Fatal(err)
	}
	p := a.Pools()
	if p.System != topology.CPUs(0) || p.Shared[SharePool] != topology.CPUs(3, 4, 5) {
		t.Errorf("pools %v", p)
	}
	if err := a.Adopt("b", Holding{CPUs: topology.CPUs(2)}); !errors.Is(err, ErrHeld) {
		t.Errorf("adopted twice: %v", err)
	}
	if err := a.Adopt("b", Holding{CPUs: topology.CPUs(3), Request: topology.NUMARequest{CPUs: 1}}); !errors.Is(err, ErrUnfit) {
		t.Errorf("a request where the kubelet rules: %v", err)
	}
	if err := a.SetRuler(topology.RulerAgent); !errors.Is(err, ErrHeld) {
		t.Errorf("ruler changed under a holding: %v", err)
	}
	if err := a.Verify(); err != nil {
		t.Error(err)
	}
}

// TestPoolsStay tells the story of pools on two NUMA nodes of four cores.
func TestPoolsStay(t *testing.T) {
	a := mustAllocator(t, topologytest.Machine(2, 4, 1, 4, 1000), topology.CPUSet{})
	show := func() string {
		p := a.Pools()
		return fmt.Sprintf("share %v, ads %v, reclaimed %v", p.Shared[SharePool], p.Shared["ads"], p.Reclaimed)
	}
	both := [topology.MaxNUMANodes]int{1, 1}
	for _, step := range []struct {
		d    Division
		want string
	}{
		{Division{Reclaimed: both}, "share 0-2,4-6, ads , reclaimed 3,7"},
		{Division{Shared: []PoolDemand{{"ads", 2500, 2500}}, Reclaimed: both}, "share 0,4-5, ads 1-2,6, reclaimed 3,7"},
		{Division{Shared: []PoolDemand{{"ads", 2500, 2500}}}, "share 0,3-5,7, ads 1-2,6, reclaimed "},
		// What one pool gives up goes to the others, and nothing else moves: not even for the high end.
		{Division{Shared: []PoolDemand{{"ads", 1000, 1000}}, Reclaimed: both}, "share 0,3-5,7, ads 1, reclaimed 2,6"},
		// A name is worth no core, and less than a core is asked of share.
		{Division{Shared: []PoolDemand{{"ads", 999, 999}}, Reclaimed: both}, "share 0-1,3-5,7, ads , reclaimed 2,6"},
		// What is wanted beyond requests goes by what the others' requests leave.
		{Division{Shared: []PoolDemand{{"ads", 1000, 8000}, {SharePool, 3500, 3500}}, Reclaimed: both}, "share 0-1,4-5, ads 3,7, reclaimed 2,6"},
		// Three cores for each are not there: each has one, and the rest goes by what they ask beyond it.
		{Division{Shared: []PoolDemand{{"ads", 6000, 6000}, {SharePool, 3000, 3000}}, Reclaimed: both}, "share 0,4, ads 1,3,5,7, reclaimed 2,6"},
		// Reclaimed yields before a pool goes without.
		{Division{Shared: []PoolDemand{{"ads", 1000, 1000}, {SharePool, 0, 0}}, Reclaimed: [topology.MaxNUMANodes]int{9, 9}}, "share 0, ads 5, reclaimed 1-4,6-7"},
	} {
		a.Divide(step.d)
		if got := show(); got != step.want {
			t.Errorf("%+v:\n%s, want\n%s", step.d, got, step.want)
		}
		if err := a.Verify(); err != nil {
			t.Error(err)
		}
	}
}

// BenchmarkAllocator admits and releases a pod on a machine of two sockets with 64 cores each, in eight NUMA nodes, with five pools.
func BenchmarkAllocator(b *testing.B) {
	m := topologytest.Machine(8, 16, 2, 8, 1000)
	a, err := NewAllocator(m, Reserve(m, 2), 0)
	if err != nil {
		b.Fatal(err)
	}
	d := Division{Shared: []PoolDemand{{SharePool, 20000, 20000}, {"a", 8000, 8000}, {"b", 12000, 12000}, {"c", 500, 500}}}
	for z := range d.Reclaimed {
		d.Reclaimed[z] = 2
	}
	a.Divide(d)
	for b.Loop() {
		o, ok := a.Offer(topology.NUMARequest{CPUs: 12, Binding: topology.Bound, Memory: 100}, topology.NUMAGrant{}, 0xff)
		if !ok || a.Commit("x", o) != nil || !a.Release("x") {
			b.Fatal("does not fit")
		}
	}
}

// TestAloneIsAlone: where somebody has a NUMA node alone nobody has so much as memory of it, and nobody gets it alone who is not.
func TestAloneIsAlone(t *testing.T) {
	a := mustAllocator(t, topologytest.Machine(2, 2, 1, 2, 1000), topology.CPUSet{})
	alone := Holding{Request: topology.NUMARequest{CPUs: 1, Binding: topology.Exclusive}, CPUs: topology.CPUs(2, 3)}
	alone.Grant = a.GrantOf(alone.Request, alone.CPUs)
	near := Holding{
		Request: topology.NUMARequest{CPUs: 1, Binding: topology.Bound, Memory: 20}, CPUs: topology.CPUs(0),
		Grant: topology.NUMAGrant{CPUs: [topology.MaxNUMANodes]uint16{1}, Memory: [topology.MaxNUMANodes]uint32{10, 10}},
	}
	for _, order := range [][2]Holding{{alone, near}, {near, alone}} {
		if err := a.Adopt("first", order[0]); err != nil {
			t.Fatal(err)
		}
		if err := a.Adopt("second", order[1]); !errors.Is(err, ErrHeld) {
			t.Errorf("after %v %v: %v", order[0].Grant, order[1].Grant, err)
		}
		if _, ok := a.Offer(topology.NUMARequest{CPUs: 2, Binding: topology.Exclusive}, topology.NUMAGrant{}, 0b10); ok {
			t.Error("NUMA node 1 was offered to be had alone")
		}
		a.Release("first")
	}
}

// TestResizeAndClosedNUMANodes: a closed NUMA node gives no more, not even to who is in it; another one may.
func TestResizeAndClosedNUMANodes(t *testing.T) {
	a := mustAllocator(t, topologytest.Machine(2, 3, 1, 3, 1000), topology.CPUs(0))
	for id, b := range map[string]topology.Binding{"bound": topology.Bound, "free": topology.Unbound} {
		o, ok := a.Offer(topology.NUMARequest{CPUs: 1, Binding: b}, topology.NUMAGrant{}, 0b10)
		if !ok || a.Commit(id, o) != nil {
			t.Fatalf("%s: %v", id, o)
		}
	}
	a.Close(1, true)
	if a.Resize("bound", 2) {
		t.Error("a bound pod grew in a closed NUMA node")
	}
	if !a.Resize("free", 2) {
		t.Error("an unbound pod did not grow into the NUMA node that is open")
	}
	if h, _ := a.Holding("free"); h.Grant.CPUs != [topology.MaxNUMANodes]uint16{1, 1} {
		t.Errorf("it has %v", h.Grant)
	}
	for _, id := range []string{"nobody", "bound"} {
		if a.Resize(id, 0) || a.Resize(id, 65535) {
			t.Errorf("%s was resized", id)
		}
	}
	a.Close(-1, true)
	a.Close(2, true)
	if a.Shape().Closed != 0b10 {
		t.Errorf("closed %b", a.Shape().Closed)
	}
}

// TestRollbackExpiresOffers: what was offered before Rollback was offered of another state.
func TestRollbackExpiresOffers(t *testing.T) {
	a := mustAllocator(t, topologytest.Machine(1, 3, 1, 3, 1000), topology.CPUSet{})
	first, _ := a.Offer(topology.NUMARequest{CPUs: 1}, topology.NUMAGrant{}, 0xff)
	m := a.Mark()
	if err := a.Commit("a", first); err != nil {
		t.Fatal(err)
	}
	second, _ := a.Offer(topology.NUMARequest{CPUs: 1}, topology.NUMAGrant{}, 0xff)
	a.Rollback(m)
	for _, o := range []Offer{first, second} {
		if err := a.Commit("b", o); !errors.Is(err, ErrExpired) {
			t.Errorf("an offer of revision %d at %d: %v", o.Revision, a.Revision(), err)
		}
	}
	if len(a.Holders()) > 0 {
		t.Errorf("%v hold something", a.Holders())
	}
}

// TestGrowsInItsCache: cores that a pod gets later come from the L3 groups that it is in, though others would be filled exactly.
func TestGrowsInItsCache(t *testing.T) {
	a := mustAllocator(t, topologytest.Machine(1, 8, 1, 4, 1000), topology.CPUs(0, 1))
	h := Holding{Request: topology.NUMARequest{CPUs: 1}, Grant: topology.NUMAGrant{CPUs: [topology.MaxNUMANodes]uint16{1}}, CPUs: topology.CPUs(5)}
	if err := a.Adopt("a", h); err != nil {
		t.Fatal(err)
	}
	if !a.Resize("a", 3) {
		t.Fatal("it does not fit")
	}
	if h, _ := a.Holding("a"); h.CPUs.String() != "4-6" {
		t.Errorf("it has %v, want 4-6", h.CPUs)
	}
}

// TestGivable holds Givable to its words: whole cores of the asked CPUs, none of which is held, reserved or missing.
func TestGivable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := topologytest.Machine(rapid.IntRange(1, 2).Draw(t, "NUMA nodes"), rapid.IntRange(1, 4).Draw(t, "cores"), rapid.IntRange(1, 2).Draw(t, "threads"), 2, 1000)
		some := func(what string) (out topology.CPUSet) {
			for i, c := range m.CPUs {
				if rapid.Bool().Draw(t, fmt.Sprint(what, i)) {
					out.Add(c.ID)
				}
			}
			return out
		}
		reserved := Reserve(m, rapid.IntRange(0, 2).Draw(t, "reserved cores"))
		a, err := NewAllocator(m, reserved, 0)
		if err != nil {
			t.Fatal(err)
		}
		for i := range rapid.IntRange(0, 3).Draw(t, "pods") {
			if o, ok := a.Offer(topology.NUMARequest{CPUs: uint16(rapid.IntRange(1, 4).Draw(t, "CPUs"))}, topology.NUMAGrant{}, 0xff); ok {
				if err := a.Commit(fmt.Sprint(i), o); err != nil {
					t.Fatal(err)
				}
			}
		}
		asked := some("asked")
		want := givable(m, asked, a.Held().Union(reserved))
		if got := a.Givable(asked); got != want {
			t.Fatalf("of %v, where %v are held and %v reserved, %v are givable, want %v", asked, a.Held(), reserved, got, want)
		}
	})
}

// givable is the naive answer: the cores of which all CPUs are asked for and none is taken.
func givable(m *topology.Machine, asked, taken topology.CPUSet) (out topology.CPUSet) {
	for _, c := range m.CPUs {
		whole := true
		for _, sibling := range m.CPUs {
			if sibling.Core == c.Core && sibling.Socket == c.Socket {
				whole = whole && asked.Has(sibling.ID) && !taken.Has(sibling.ID)
			}
		}
		if whole {
			out.Add(c.ID)
		}
	}
	return out
}
