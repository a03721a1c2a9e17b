package place

import (
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/place/explain"
	"hilbert.dev/hilbert/schedule/place/rules"
	"hilbert.dev/hilbert/topology"
)

// drawReport returns what a node's agent says of a few small NUMA nodes; nil: nothing, for most nodes.
func drawReport(t *rapid.T) *facts.NodeReport {
	if rapid.IntRange(0, 2).Draw(t, "reports") > 0 {
		return nil
	}
	r := &facts.NodeReport{}
	r.NUMANodes.Ruler = rapid.SampledFrom([]topology.Ruler{topology.RulerAgent, topology.RulerAgent, topology.RulerAgent, topology.RulerKubelet, topology.RulerNone}).Draw(t, "ruler")
	r.NUMANodes.NUMANodes, r.NUMANodes.Threads = uint8(rapid.IntRange(0, 3).Draw(t, "numaNodes")), uint8(rapid.IntRange(1, 2).Draw(t, "threads"))
	r.NUMANodes.BindsShared = rapid.IntRange(0, 3).Draw(t, "binds shared") > 0
	r.NUMANodes.SeparatesBandwidth = rapid.IntRange(0, 3).Draw(t, "separates bandwidth") > 0
	for z := range r.NUMANodes.NUMANodes {
		r.NUMANodes.NUMANode[z] = topology.NUMACapacity{
			CPUs:   uint16(rapid.IntRange(0, 3).Draw(t, "cores")) * uint16(r.NUMANodes.Threads),
			Socket: uint8(rapid.IntRange(0, 1).Draw(t, "socket")), Memory: uint32(rapid.IntRange(0, 4).Draw(t, "memory")) << 10,
		}
		if rapid.IntRange(0, 5).Draw(t, "closed") == 0 {
			r.NUMANodes.Closed |= 1 << z
		}
	}
	r.Devices = reportDevices(t)
	reportResources(t, r)
	if rapid.Bool().Draw(t, "measured") {
		r.Usage = drawUsage(t)
	}
	return r
}

func drawUsage(t *rapid.T) facts.Usage {
	return facts.Usage{
		MilliCPU: rapid.Int64Range(0, 2).Draw(t, "used") * 4000, Memory: rapid.Int64Range(0, 2).Draw(t, "used memory") << 32, Since: rapid.Int64Range(0, 3).Draw(t, "since"),
	}
}

// drawNUMANodes makes some requirements dedicated, and has some ask for what plugins bring.
func drawNUMANodes(t *rapid.T, r *facts.Requirements) {
	drawResources(t, r)
	if rapid.IntRange(0, 3).Draw(t, "dedicated") > 0 {
		return
	}
	r.NUMANodes = topology.NUMARequest{CPUs: uint16(rapid.IntRange(1, 4).Draw(t, "exclusive")), Binding: topology.Binding(rapid.IntRange(0, 3).Draw(t, "binding"))}
	if r.NUMANodes.Binding != topology.Unbound {
		r.NUMANodes.Memory = uint32(rapid.IntRange(0, 3).Draw(t, "bound")) << 10
	}
	r.NUMANodes.Bandwidth = rapid.SampledFrom([]topology.Bandwidth{0, 0, topology.BandwidthIntensive, topology.BandwidthSensitive}).Draw(t, "bandwidth")
}

// dualNUMANodes is two NUMA nodes of 8 CPUs and 8 GiB each.
func dualNUMANodes() topology.NUMAShape {
	s := topology.NUMAShape{Ruler: topology.RulerAgent, NUMANodes: 2, Threads: 2}
	for z := range s.NUMANodes {
		s.NUMANode[z] = topology.NUMACapacity{CPUs: 8, Memory: 8 << 10}
	}
	return s
}

func numaOf(cpus ...uint16) (g topology.NUMAGrant) {
	copy(g.CPUs[:], cpus)
	return g
}

// numaStore is one node of two NUMA nodes of 8 CPUs and 8 GiB each, and what its agent says.
func numaStore(r *facts.NodeReport) (*cluster.Store, cluster.Slot) {
	store := cluster.NewStore()
	store.Apply(facts.NodeUpserted{Node: &facts.Node{Name: "n", Allocatable: quantities("cpu", 16000, "memory", 16<<30, "pods", 20)}})
	if r != nil {
		store.Apply(facts.NodeReported{Node: "n", Report: r})
	}
	return store, store.Slot("n")
}

func dedicated(cpus uint16, binding topology.Binding, memory uint32) *facts.Requirements {
	r := &facts.Requirements{
		Requests: quantities("cpu", int(cpus)*1000, "memory", int(memory)<<20), ScoreCPU: int64(cpus) * 1000,
		NUMANodes: topology.NUMARequest{CPUs: cpus, Binding: binding},
	}
	if binding != topology.Unbound {
		r.NUMANodes.Memory = memory
	}
	return r
}

func TestNUMAFitSaysWhy(t *testing.T) {
	shape := dualNUMANodes()
	stale, kubelet, none := shape, shape, shape
	stale.Ruler, kubelet.Ruler, none.NUMANodes = topology.RulerNone, topology.RulerKubelet, 0
	for _, c := range []struct {
		name   string
		report *facts.NodeReport
		ask    *facts.Requirements
		other  *facts.Requirements // runs there
		held   topology.NUMAGrant
		phrase string // empty: it fits
		say    string
	}{
		{name: "fits", report: &facts.NodeReport{NUMANodes: shape}, ask: dedicated(8, topology.Bound, 8<<10)},
		{name: "no report", ask: dedicated(1, topology.Unbound, 0), phrase: "node(s) had no NUMA node report", say: "reports no NUMA nodes"},
		{
			name: "stale", report: &facts.NodeReport{NUMANodes: stale, Why: facts.ReportStale}, ask: dedicated(1, topology.Unbound, 0),
			phrase: "node(s) had no fresh NUMA node report", say: "has no fresh report of its NUMA nodes",
		},
		{
			name: "malformed", report: &facts.NodeReport{Why: facts.ReportMalformed}, ask: dedicated(1, topology.Unbound, 0),
			phrase: "node(s) had an unreadable NUMA node report", say: "has an unreadable report of its NUMA nodes",
		},
		{
			name: "kubelet", report: &facts.NodeReport{NUMANodes: kubelet}, ask: dedicated(1, topology.Bound, 1),
			phrase: "node(s) left their CPUs to the kubelet", say: "leaves its CPUs to the kubelet, which promises nothing by NUMA node",
		},
		{name: "kubelet, unbound", report: &facts.NodeReport{NUMANodes: kubelet}, ask: dedicated(1, topology.Unbound, 0)},
		{
			name: "no NUMA nodes", report: &facts.NodeReport{NUMANodes: none}, ask: dedicated(1, topology.Unbound, 0),
			phrase: "node(s) had no NUMA nodes that could be promised", say: "has no NUMA nodes that could be promised",
		},
		{
			name: "cores", report: &facts.NodeReport{NUMANodes: shape}, ask: dedicated(9, topology.Bound, 1), other: dedicated(8, topology.Unbound, 0), held: numaOf(6, 2),
			phrase: "node(s) had too few exclusive cores in one set of NUMA nodes",
			say:    "has too few exclusive cores in its NUMA nodes (9 CPUs, NUMA-bound, asked; free by NUMA node 2, 6)",
		},
		{
			name: "memory", report: &facts.NodeReport{NUMANodes: shape}, ask: dedicated(2, topology.Bound, 15<<10), other: dedicated(8, topology.Unbound, 0), held: numaOf(8),
			phrase: "node(s) had too little memory in one set of NUMA nodes",
			say:    "has too little memory in its NUMA nodes (2 CPUs, NUMA-bound, asked with 15360 MiB; free by NUMA node 8192 MiB, 8192 MiB)",
		},
		{
			name: "unused", report: &facts.NodeReport{NUMANodes: shape}, ask: dedicated(9, topology.Exclusive, 1), other: dedicated(2, topology.Unbound, 0), held: numaOf(2),
			phrase: "node(s) had too few unused NUMA nodes", say: "has too few unused NUMA nodes (9 CPUs, NUMA-exclusive, asked; free by NUMA node 6, 8)",
		},
		{
			name: "rest", report: &facts.NodeReport{NUMANodes: shape}, ask: dedicated(1, topology.Exclusive, 1),
			other:  &facts.Requirements{Requests: quantities("cpu", 9000)},
			phrase: "node(s) had no room for the whole cores or NUMA nodes that the pod would occupy",
			say:    "has no room for the whole cores or NUMA nodes that the pod would occupy",
		},
	} {
		store, slot := numaStore(c.report)
		if c.other != nil {
			store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: "other", Name: "other", Node: "n", Requirements: c.other, Grant: topology.Grant{NUMANodes: c.held}}})
		}
		class := store.Class(c.ask)
		if fits := filterNamed("NUMAFit").Fits(&store.State, slot, class); fits != (c.phrase == "") {
			t.Errorf("%s: fits: %v", c.name, fits)
		} else if fits {
			continue
		}
		var got string
		filterNamed("NUMAFit").Why(&store.State, slot, class, func(phrase string) { got += phrase })
		if say := sayOne(&store.State, slot, class, "NUMAFit"); got != c.phrase || say != c.say {
			t.Errorf("%s: %q, %q; want %q, %q", c.name, got, say, c.phrase, c.say)
		}
	}
}

func TestCommitRefusesWrongNUMANodes(t *testing.T) {
	store, slot := numaStore(&facts.NodeReport{NUMANodes: dualNUMANodes()})
	plain, dedicated := store.Class(&facts.Requirements{}), store.Class(dedicated(3, topology.Unbound, 0))
	for _, c := range []struct {
		class *cluster.Class
		grant topology.NUMAGrant
		want  bool
	}{
		{plain, topology.NUMAGrant{}, true},
		{plain, numaOf(2), false},
		{dedicated, topology.NUMAGrant{}, false},
		{dedicated, numaOf(4), true},
		{dedicated, numaOf(0, 4), true},
		{dedicated, numaOf(2, 2), true},
		{dedicated, numaOf(3), false},
		{dedicated, numaOf(2), false},
		{dedicated, numaOf(0, 0, 4), false},
	} {
		if got := filterNamed("NUMAFit").Commits(&store.State, slot, c.class, &topology.Grant{NUMANodes: c.grant}); got != c.want {
			t.Errorf("%+v with %q: %v, want %v", c.class.NUMANodes, c.grant, got, c.want)
		}
	}
}

// Two schedulers promise the same room: the second is told from which revision on to look again, and the rest of the NUMA node is charged to the node.
func TestSecondPlanForTheSameNUMANode(t *testing.T) {
	store, slot := numaStore(&facts.NodeReport{NUMANodes: dualNUMANodes()})
	ask := dedicated(5, topology.Exclusive, 1<<10)
	var plans []cluster.Plan
	snapshot := cluster.NewSnapshot()
	snapshot.Advance(store)
	for _, uid := range []facts.UID{"a", "b"} {
		store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: uid, Name: string(uid), Ours: true, Requirements: ask}})
		grant, ok := snapshot.Offer(slot, store.Pod(uid).Class)
		if !ok {
			t.Fatal("no offer")
		}
		plans = append(plans, cluster.Plan{Placements: []cluster.Placement{{Pod: uid, Node: "n", Grant: grant}}})
	}
	if v := store.Commit(&plans[0], rules.Commits); !v.Committed {
		t.Fatal(v)
	}
	if cpu, memory := store.Requested(slot, resource.CPU), store.Requested(slot, resource.Memory); cpu != 8000 || memory != 8<<30 {
		t.Errorf("%d millicores and %d bytes are requested, want the whole NUMA node", cpu, memory)
	}
	if v := store.Commit(&plans[1], rules.Commits); v.Committed || v.Reason != "NUMAFit" || v.Revision != store.Touched(slot) {
		t.Errorf("the second: %v", v)
	}
	store.Release("a")
	if cpu, memory := store.Requested(slot, resource.CPU), store.Requested(slot, resource.Memory); cpu != 0 || memory != 0 {
		t.Errorf("%d millicores and %d bytes are left behind", cpu, memory)
	}
}

// The packing score prefers the NUMA node that is used up, and the change names the fewest CPUs that would do.
func TestNUMAPackingAndSmallestChange(t *testing.T) {
	store := cluster.NewStore()
	for name, used := range map[string]uint16{"empty": 0, "begun": 4, "full": 6} {
		store.Apply(facts.NodeUpserted{Node: &facts.Node{Name: name, Allocatable: quantities("cpu", 32000, "memory", 16<<30, "pods", 20)}})
		store.Apply(facts.NodeReported{Node: name, Report: &facts.NodeReport{NUMANodes: dualNUMANodes()}})
		if used > 0 {
			store.Apply(facts.PodUpserted{Pod: facts.Pod{
				UID: facts.UID(name), Name: name, Node: name, Requirements: dedicated(2*used, topology.Unbound, 0), Grant: topology.Grant{NUMANodes: numaOf(used, used)},
			}})
		}
	}
	four := store.Class(dedicated(4, topology.Bound, 1))
	for name, want := range map[string]int64{"empty": 50, "begun": 100, "full": 100} { // in the last it needs both NUMA nodes, and fills them
		if got := scoreNamed("NUMAPacking")(nil, &store.State, store.Slot(name), four); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
	if got := scoreNamed("NUMAPacking")(nil, &store.State, store.Slot("full"), store.Class(&facts.Requirements{})); got != 0 {
		t.Errorf("a pod without NUMA nodes scores %d", got)
	}
	six := store.Class(dedicated(6, topology.Unbound, 0))
	store.Apply(facts.NodeRemoved{Name: "empty"})
	store.Apply(facts.NodeRemoved{Name: "begun"})
	if got := explain.Explain(&store.State, six).Changes[0].String(); got != "2 more exclusive CPUs free in one NUMA node of full" {
		t.Errorf("%q", got)
	}
}

// sayOne is what an explanation says of the obstacle of one filter on a node.
func sayOne(s *cluster.State, slot cluster.Slot, c *cluster.Class, filter string) string {
	for _, o := range explain.Obstacles(s, slot, c) {
		if o.Filter == filter {
			return o.What
		}
	}
	return ""
}
