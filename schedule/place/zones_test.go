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

// drawReport returns what a node's agent says of a few small zones; nil: nothing, for most nodes.
func drawReport(t *rapid.T) *facts.NodeReport {
	if rapid.IntRange(0, 2).Draw(t, "reports") > 0 {
		return nil
	}
	r := &facts.NodeReport{}
	r.Zones.Ruler = rapid.SampledFrom([]topology.Ruler{topology.RulerAgent, topology.RulerAgent, topology.RulerAgent, topology.RulerKubelet, topology.RulerNone}).Draw(t, "ruler")
	r.Zones.Zones, r.Zones.Threads = uint8(rapid.IntRange(0, 3).Draw(t, "zones")), uint8(rapid.IntRange(1, 2).Draw(t, "threads"))
	for z := range r.Zones.Zones {
		r.Zones.Zone[z] = topology.ZoneCapacity{
			CPUs:   uint16(rapid.IntRange(0, 3).Draw(t, "cores")) * uint16(r.Zones.Threads),
			Socket: uint8(rapid.IntRange(0, 1).Draw(t, "socket")), Memory: uint32(rapid.IntRange(0, 4).Draw(t, "memory")) << 10,
		}
		if rapid.IntRange(0, 5).Draw(t, "closed") == 0 {
			r.Zones.Closed |= 1 << z
		}
	}
	r.Devices = reportDevices(t)
	return r
}

// drawZones makes some requirements dedicated.
func drawZones(t *rapid.T, r *facts.Requirements) {
	if rapid.IntRange(0, 3).Draw(t, "dedicated") > 0 {
		return
	}
	r.Zones = topology.ZoneRequest{CPUs: uint16(rapid.IntRange(1, 4).Draw(t, "exclusive")), Binding: topology.Binding(rapid.IntRange(0, 2).Draw(t, "binding"))}
	if r.Zones.Binding != topology.Unbound {
		r.Zones.Memory = uint32(rapid.IntRange(0, 3).Draw(t, "bound")) << 10
	}
}

// dualZones is two zones of 8 CPUs and 8 GiB each.
func dualZones() topology.ZoneShape {
	s := topology.ZoneShape{Ruler: topology.RulerAgent, Zones: 2, Threads: 2}
	for z := range s.Zones {
		s.Zone[z] = topology.ZoneCapacity{CPUs: 8, Memory: 8 << 10}
	}
	return s
}

func zonesOf(cpus ...uint16) (g topology.ZoneGrant) {
	copy(g.CPUs[:], cpus)
	return g
}

// zoneStore is one node of two zones of 8 CPUs and 8 GiB each, and what its agent says.
func zoneStore(r *facts.NodeReport) (*cluster.Store, cluster.Slot) {
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
		Zones: topology.ZoneRequest{CPUs: cpus, Binding: binding},
	}
	if binding != topology.Unbound {
		r.Zones.Memory = memory
	}
	return r
}

func TestZoneFitSaysWhy(t *testing.T) {
	shape := dualZones()
	stale, kubelet, none := shape, shape, shape
	stale.Ruler, kubelet.Ruler, none.Zones = topology.RulerNone, topology.RulerKubelet, 0
	for _, c := range []struct {
		name   string
		report *facts.NodeReport
		ask    *facts.Requirements
		other  *facts.Requirements // runs there
		held   topology.ZoneGrant
		phrase string // empty: it fits
		say    string
	}{
		{name: "fits", report: &facts.NodeReport{Zones: shape}, ask: dedicated(8, topology.Bound, 8<<10)},
		{name: "no report", ask: dedicated(1, topology.Unbound, 0), phrase: "node(s) had no zone report", say: "reports no zones"},
		{
			name: "stale", report: &facts.NodeReport{Zones: stale, Why: facts.ReportStale}, ask: dedicated(1, topology.Unbound, 0),
			phrase: "node(s) had no fresh zone report", say: "has no fresh report of its zones",
		},
		{
			name: "malformed", report: &facts.NodeReport{Why: facts.ReportMalformed}, ask: dedicated(1, topology.Unbound, 0),
			phrase: "node(s) had an unreadable zone report", say: "has an unreadable report of its zones",
		},
		{
			name: "kubelet", report: &facts.NodeReport{Zones: kubelet}, ask: dedicated(1, topology.Bound, 1),
			phrase: "node(s) left their CPUs to the kubelet", say: "leaves its CPUs to the kubelet, which promises nothing by zone",
		},
		{name: "kubelet, unbound", report: &facts.NodeReport{Zones: kubelet}, ask: dedicated(1, topology.Unbound, 0)},
		{
			name: "no zones", report: &facts.NodeReport{Zones: none}, ask: dedicated(1, topology.Unbound, 0),
			phrase: "node(s) had no zones that could be promised", say: "has no zones that could be promised",
		},
		{
			name: "cores", report: &facts.NodeReport{Zones: shape}, ask: dedicated(9, topology.Bound, 1), other: dedicated(8, topology.Unbound, 0), held: zonesOf(6, 2),
			phrase: "node(s) had too few exclusive cores in one set of zones",
			say:    "has too few exclusive cores in its zones (9 CPUs, NUMA-bound, asked; free by zone 2, 6)",
		},
		{
			name: "memory", report: &facts.NodeReport{Zones: shape}, ask: dedicated(2, topology.Bound, 15<<10), other: dedicated(8, topology.Unbound, 0), held: zonesOf(8),
			phrase: "node(s) had too little memory in one set of zones",
			say:    "has too little memory in its zones (2 CPUs, NUMA-bound, asked with 15360 MiB; free by zone 8192 MiB, 8192 MiB)",
		},
		{
			name: "unused", report: &facts.NodeReport{Zones: shape}, ask: dedicated(9, topology.Exclusive, 1), other: dedicated(2, topology.Unbound, 0), held: zonesOf(2),
			phrase: "node(s) had too few unused zones", say: "has too few unused zones (9 CPUs, NUMA-exclusive, asked; free by zone 6, 8)",
		},
		{
			name: "rest", report: &facts.NodeReport{Zones: shape}, ask: dedicated(1, topology.Exclusive, 1),
			other:  &facts.Requirements{Requests: quantities("cpu", 9000)},
			phrase: "node(s) had no room for the whole cores or zones that the pod would occupy",
			say:    "has no room for the whole cores or zones that the pod would occupy",
		},
	} {
		store, slot := zoneStore(c.report)
		if c.other != nil {
			store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: "other", Name: "other", Node: "n", Requirements: c.other, Grant: topology.Grant{Zones: c.held}}})
		}
		class := store.Class(c.ask)
		if fits := filterNamed("ZoneFit").Fits(&store.State, slot, class); fits != (c.phrase == "") {
			t.Errorf("%s: fits: %v", c.name, fits)
		} else if fits {
			continue
		}
		var got string
		filterNamed("ZoneFit").Why(&store.State, slot, class, func(phrase string) { got += phrase })
		if say := sayOne(&store.State, slot, class, "ZoneFit"); got != c.phrase || say != c.say {
			t.Errorf("%s: %q, %q; want %q, %q", c.name, got, say, c.phrase, c.say)
		}
	}
}

func TestCommitRefusesWrongZones(t *testing.T) {
	store, slot := zoneStore(&facts.NodeReport{Zones: dualZones()})
	plain, dedicated := store.Class(&facts.Requirements{}), store.Class(dedicated(3, topology.Unbound, 0))
	for _, c := range []struct {
		class *cluster.Class
		grant topology.ZoneGrant
		want  bool
	}{
		{plain, topology.ZoneGrant{}, true},
		{plain, zonesOf(2), false},
		{dedicated, topology.ZoneGrant{}, false},
		{dedicated, zonesOf(4), true},
		{dedicated, zonesOf(0, 4), true},
		{dedicated, zonesOf(2, 2), true},
		{dedicated, zonesOf(3), false},
		{dedicated, zonesOf(2), false},
		{dedicated, zonesOf(0, 0, 4), false},
	} {
		if got := filterNamed("ZoneFit").Commits(&store.State, slot, c.class, &topology.Grant{Zones: c.grant}); got != c.want {
			t.Errorf("%+v with %q: %v, want %v", c.class.Zones, c.grant, got, c.want)
		}
	}
}

// Two schedulers promise the same room: the second is told from which revision on to look again, and the rest of the zone is charged to the node.
func TestSecondPlanForTheSameZone(t *testing.T) {
	store, slot := zoneStore(&facts.NodeReport{Zones: dualZones()})
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
		t.Errorf("%d millicores and %d bytes are requested, want the whole zone", cpu, memory)
	}
	if v := store.Commit(&plans[1], rules.Commits); v.Committed || v.Reason != "ZoneFit" || v.Revision != store.Touched(slot) {
		t.Errorf("the second: %v", v)
	}
	store.Release("a")
	if cpu, memory := store.Requested(slot, resource.CPU), store.Requested(slot, resource.Memory); cpu != 0 || memory != 0 {
		t.Errorf("%d millicores and %d bytes are left behind", cpu, memory)
	}
}

// The packing score prefers the zone that is used up, and the change names the fewest CPUs that would do.
func TestZonePackingAndSmallestChange(t *testing.T) {
	store := cluster.NewStore()
	for name, used := range map[string]uint16{"empty": 0, "begun": 4, "full": 6} {
		store.Apply(facts.NodeUpserted{Node: &facts.Node{Name: name, Allocatable: quantities("cpu", 32000, "memory", 16<<30, "pods", 20)}})
		store.Apply(facts.NodeReported{Node: name, Report: &facts.NodeReport{Zones: dualZones()}})
		if used > 0 {
			store.Apply(facts.PodUpserted{Pod: facts.Pod{
				UID: facts.UID(name), Name: name, Node: name, Requirements: dedicated(2*used, topology.Unbound, 0), Grant: topology.Grant{Zones: zonesOf(used, used)},
			}})
		}
	}
	four := store.Class(dedicated(4, topology.Bound, 1))
	for name, want := range map[string]int64{"empty": 50, "begun": 100, "full": 100} { // in the last it needs both zones, and fills them
		if got := scoreNamed("ZonePacking")(nil, &store.State, store.Slot(name), four); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
	if got := scoreNamed("ZonePacking")(nil, &store.State, store.Slot("full"), store.Class(&facts.Requirements{})); got != 0 {
		t.Errorf("a pod without zones scores %d", got)
	}
	six := store.Class(dedicated(6, topology.Unbound, 0))
	store.Apply(facts.NodeRemoved{Name: "empty"})
	store.Apply(facts.NodeRemoved{Name: "begun"})
	if got := explain.Explain(&store.State, six).Changes[0].String(); got != "2 more exclusive CPUs free in one zone of full" {
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
