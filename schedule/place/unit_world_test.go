package place

import (
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/place/pack"
	"hilbert.dev/hilbert/schedule/place/rules"
	"hilbert.dev/hilbert/topology"
)

// Labels of the clusters in these tests, from wide to narrow, and one that lies across them.
const (
	block = "net/block"
	rack  = "net/rack"
	host  = facts.HostnameKey
	model = "gpu/model"
)

// unitWorld is a small cluster of blocks, racks and hosts, partly filled, and a unit that wants to be placed on it.
type unitWorld struct {
	store    *cluster.Store
	snapshot *cluster.Snapshot
	placer   *Placer
	ask      pack.Ask
	bound    bool // members may have constraints between them
	plain    bool // they have none, and all are alike
	levels   []string
}

func drawUnitWorld(t *rapid.T) *unitWorld {
	profile, err := rules.NewProfile(map[string]int64{"MostAllocated": rapid.Int64Range(0, 3).Draw(t, "weight")})
	if err != nil {
		t.Fatal(err)
	}
	w := &unitWorld{store: cluster.NewStore(), snapshot: cluster.NewSnapshot()}
	w.placer = NewPlacer(w.snapshot, profile, 7, rapid.IntRange(1, 5).Draw(t, "indexes"))
	w.levels = []string{block, rack, host}
	w.placer.SetLevels(w.levels)
	names := w.drawUnitNodes(t)
	for i := range rapid.IntRange(0, 12).Draw(t, "running") {
		w.apply(&facts.Pod{
			UID: facts.UID(fmt.Sprint("running-", i)), Namespace: "x", Labels: []facts.Label{{Key: "app", Value: "a"}},
			Node: rapid.SampledFrom(names).Draw(t, "on"), Requirements: drawMember(t, false),
		})
	}
	w.drawMembers(t, names)
	w.snapshot.Advance(w.store)
	return w
}

func (w *unitWorld) drawUnitNodes(t *rapid.T) (names []string) {
	for i := range rapid.IntRange(1, 14).Draw(t, "nodes") {
		name := fmt.Sprint("n", i)
		n := &facts.Node{
			Name: name,
			Labels: map[string]string{
				block: fmt.Sprint(rapid.IntRange(0, 1).Draw(t, "block")), rack: fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "rack")),
				host: name, model: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "model"),
			},
			Allocatable: quantities("cpu", 500*rapid.IntRange(0, 10).Draw(t, "cpu"), "memory", 8<<30, "pods", rapid.IntRange(1, 9).Draw(t, "pods")),
		}
		for _, key := range []string{block, rack, host, model} {
			if rapid.IntRange(0, 19).Draw(t, "missing") == 0 {
				delete(n.Labels, key)
			}
		}
		if gpus := rapid.IntRange(0, 4).Draw(t, "gpus"); gpus > 0 {
			n.GPU = topology.Shape{GPUs: gpus, Shareable: rapid.Bool().Draw(t, "share")}
		}
		if rapid.IntRange(0, 5).Draw(t, "tainted") == 0 {
			n.Taints = []facts.Taint{{Key: "x", Effect: facts.TaintEffect(rapid.IntRange(1, 3).Draw(t, "effect"))}}
		}
		w.store.Apply(facts.NodeUpserted{Node: n})
		if report := drawReport(t); report != nil {
			w.store.Apply(facts.NodeReported{Node: name, Report: report})
		}
		if rapid.IntRange(0, 14).Draw(t, "reserved") == 0 {
			w.store.Reserve([]cluster.Slot{w.store.Slot(name)}, 1)
		}
		names = append(names, name)
	}
	return names
}

// drawMember returns what a member of a unit asks of its node, and, if bound, of where the others are.
func drawMember(t *rapid.T, bound bool) *facts.Requirements {
	cpu := 500 * rapid.Int64Range(0, 3).Draw(t, "cpu")
	r := &facts.Requirements{Requests: []resource.Quantity{{Name: resource.NameCPU, Amount: cpu}}, ScoreCPU: max(cpu, 100), ScoreMemory: 1 << 20}
	switch rapid.IntRange(0, 5).Draw(t, "gpu") {
	case 0:
		r.GPU.Milli = int16(rapid.IntRange(1, 999).Draw(t, "milli"))
	case 1:
		r.GPU.Whole = int8(rapid.IntRange(1, 2).Draw(t, "whole"))
	}
	drawNUMANodes(t, r)
	drawDevices(t, &r.GPU)
	if rapid.IntRange(0, 3).Draw(t, "tolerate") == 0 {
		r.Tolerations = []facts.Toleration{{Key: "x", Exists: true}}
	}
	if rapid.IntRange(0, 7).Draw(t, "port") == 0 {
		r.Ports = []facts.HostPort{{Protocol: "TCP", IP: facts.AnyIP, Port: 80}}
	}
	if rapid.IntRange(0, 7).Draw(t, "prefer") == 0 {
		r.Preferred = []facts.WeightedTerm{{Weight: 50, Term: facts.Term{
			Expressions: []facts.Requirement{{Key: model, Operator: facts.In, Values: []string{"a"}}},
		}}}
	}
	if !bound {
		return r
	}
	pods := facts.PodSelector{Namespaces: []string{"x"}, Labels: facts.LabelSelector{
		Expressions: []facts.Requirement{{Key: "app", Operator: facts.In, Values: []string{rapid.SampledFrom([]string{"a", "m"}).Draw(t, "app")}}},
	}}
	key := rapid.SampledFrom([]string{block, rack, host})
	switch rapid.IntRange(0, 2).Draw(t, "constraint") {
	case 0:
		r.AntiAffinity = []facts.AffinityTerm{{TopologyKey: key.Draw(t, "apart"), Pods: pods}}
	case 1:
		r.Affinity = []facts.AffinityTerm{{TopologyKey: key.Draw(t, "near"), Pods: pods}}
	case 2:
		r.Spread = []facts.SpreadConstraint{{TopologyKey: key.Draw(t, "over"), MaxSkew: 1, MinDomains: 1, Hard: rapid.Bool().Draw(t, "hard"), Pods: pods}}
	}
	return r
}

// drawMembers adds the pods of the unit, those that wait and those that run, and what it asks.
func (w *unitWorld) drawMembers(t *rapid.T, names []string) {
	w.bound = rapid.IntRange(0, 2).Draw(t, "bound") == 0
	classes := []*facts.Requirements{drawMember(t, w.bound)}
	for range max(rapid.IntRange(-2, 2).Draw(t, "more classes"), 0) {
		classes = append(classes, drawMember(t, w.bound))
	}
	w.plain = !w.bound && len(classes) == 1
	packing := func(what string) (p facts.Packing) {
		key := rapid.SampledFrom([]string{"", "", block, rack, host})
		p.Required, p.Preferred = key.Draw(t, what+" required"), key.Draw(t, what+" preferred")
		p.Spread = rapid.SampledFrom([]string{"", "", "", rack, host, model}).Draw(t, what+" spread")
		p.Uniform = rapid.SampledFrom([]string{"", "", model}).Draw(t, what+" uniform")
		return p
	}
	w.ask.Topology = packing("unit")
	groups := []string{""}
	if rapid.IntRange(0, 2).Draw(t, "subgroups") == 0 {
		w.ask.Subgroups = packing("subgroup")
		groups = []string{"g1", "g2", ""}[:rapid.IntRange(1, 3).Draw(t, "groups")]
	}
	for _, group := range groups {
		for _, class := range classes {
			for range rapid.IntRange(0, 6).Draw(t, "members") {
				w.ask.Members = append(w.ask.Members, w.member(group, class, ""))
			}
		}
	}
	w.ask.Need = rapid.IntRange(0, len(w.ask.Members)).Draw(t, "need")
	for range max(rapid.IntRange(-3, 3).Draw(t, "anchors"), 0) {
		group := rapid.SampledFrom(groups).Draw(t, "group")
		pod := w.member(group, rapid.SampledFrom(classes).Draw(t, "class"), rapid.SampledFrom(names).Draw(t, "on"))
		w.ask.Anchors = append(w.ask.Anchors, pack.Anchor{Slot: w.store.Slot(pod.Node()), Subgroup: group})
	}
	if rapid.IntRange(0, 4).Draw(t, "restricted") == 0 {
		w.ask.Within = []cluster.Slot{}
		for _, name := range names {
			if rapid.Bool().Draw(t, "within") {
				w.ask.Within = append(w.ask.Within, w.store.Slot(name))
			}
		}
	}
}

func (w *unitWorld) member(group string, r *facts.Requirements, node string) *cluster.Pod {
	uid := facts.UID(fmt.Sprint("member-", w.store.Pods()))
	w.apply(&facts.Pod{
		UID: uid, Name: string(uid), Namespace: "x", Labels: []facts.Label{{Key: "app", Value: "m"}}, Ours: true, Subgroup: group, Requirements: r, Node: node,
	})
	return w.store.Pod(uid)
}

// apply adds a pod. One that runs has its GPUs on record: the ledger moves those that it has to guess, and forecasts fail by that.
func (w *unitWorld) apply(pod *facts.Pod) {
	if slot := w.store.Slot(pod.Node); slot != cluster.NoSlot {
		v := w.store.View(slot)
		pod.Grant = v.Force(&pod.Requirements.GPU, nil)
		shape, free := w.store.NUMANodes(slot)
		pod.Grant.NUMANodes = topology.ForceNUMA(shape, free, pod.Requirements.NUMANodes)
		copied := *pod.Requirements
		pod.Requirements = &copied
		if pod.Grant.GPUs == 0 && copied.GPU.Count() > 0 || pod.Grant.NICs == 0 && copied.GPU.NIC.Count > 0 {
			copied.GPU, pod.Grant = topology.Request{}, topology.Grant{NUMANodes: pod.Grant.NUMANodes}
		}
		if pod.Grant.Resources == "" {
			copied.GPU.Resources = ""
		}
		if pod.Grant.NUMANodes.IsZero() {
			copied.NUMANodes = topology.NUMARequest{}
		}
	}
	w.store.Apply(facts.PodUpserted{Pod: *pod})
}

// value is a label of the node in a slot; ok is false when it has none.
func (w *unitWorld) value(slot cluster.Slot, key string) (string, bool) {
	value, ok := w.store.Node(slot).Labels[key]
	return value, ok
}

func (w *unitWorld) allows(slot cluster.Slot) bool {
	return w.ask.Within == nil || slices.Contains(w.ask.Within, slot)
}

// capacity counts, from a snapshot of the ledger as it is, how many pods of the class fit on the slot, one after the other.
func (w *unitWorld) capacity(slot cluster.Slot, pod *cluster.Pod) (n int) {
	if !w.allows(slot) || !rules.Fits(&w.store.State, slot, pod.Class) {
		return 0
	}
	s := cluster.NewSnapshot()
	s.Advance(w.store)
	for rules.Fits(&s.State, slot, pod.Class) {
		grant, _ := s.Offer(slot, pod.Class)
		s.Assume(slot, pod, grant)
		n++
	}
	return n
}

// capacities sums the capacity by the values of labels, those of nodes that have all and for which in says yes.
func (w *unitWorld) capacities(pod *cluster.Pod, in func(cluster.Slot) bool, keys ...string) map[string]int {
	sums := make(map[string]int)
	for i := range w.store.Slots() {
		slot := cluster.Slot(i)
		if name, ok := w.domain(slot, keys...); ok && in(slot) {
			sums[name] += w.capacity(slot, pod)
		}
	}
	return sums
}

// domain names the domain of a slot under some labels; ok is false when it lacks one.
func (w *unitWorld) domain(slot cluster.Slot, keys ...string) (name string, ok bool) {
	for _, key := range keys {
		if key == "" {
			continue
		}
		value, ok := w.value(slot, key)
		if !ok {
			return "", false
		}
		name += value + "|"
	}
	return name, true
}

// rows spells out all that a snapshot has of its nodes.
func rows(s *cluster.Snapshot) string {
	text := ""
	for i := range s.Slots() {
		slot := cluster.Slot(i)
		for kind := range s.Kinds() {
			text += fmt.Sprint(s.Requested(slot, resource.Kind(kind)), " ")
		}
		cpu, memory := s.ScoreRequested(slot)
		_, numaNodes := s.NUMANodes(slot)
		text += fmt.Sprintln(cpu, memory, len(s.Ports(slot)), *s.GPUs(slot), *numaNodes, s.Reservation(slot))
		if v := s.View(slot); v.Devices != nil {
			text += fmt.Sprintln(*v.Devices)
		}
	}
	return text
}
