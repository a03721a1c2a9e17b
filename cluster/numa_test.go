package cluster_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/internal/script"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/place/rules"
	"hilbert.dev/hilbert/topology"
)

// hall is a ledger of a few nodes whose agents report NUMA nodes, and what somebody who starts now would see.
type hall struct {
	store    *cluster.Store
	follower *cluster.Snapshot
	nodes    map[string]*facts.Node
	pods     map[facts.UID]facts.Pod // that are bound
	reports  map[string]*facts.NodeReport
}

// TestNUMAFollowFromWhatIsThere lets pods come and go, be promised NUMA nodes, be moved, guessed and confirmed, with and without nodes and reports, in
// random order. The ledger's invariants hold at every step, a snapshot that follows is as a fresh one, and in the end the ledger is as one that
// sees everything at once, in another order.
func TestNUMAFollowFromWhatIsThere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := &hall{
			store: cluster.NewStore(), follower: cluster.NewSnapshot(), nodes: make(map[string]*facts.Node),
			pods: make(map[facts.UID]facts.Pod), reports: make(map[string]*facts.NodeReport),
		}
		wire := newCopied(t)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			h.step(t)
			if err := h.store.Verify(); err != nil {
				t.Fatal(err)
			}
			fresh := cluster.NewSnapshot()
			fresh.Advance(h.store)
			h.follower.Advance(h.store)
			if err := sameRows(&h.follower.State, &fresh.State); err != nil {
				t.Fatalf("a snapshot that followed the log differs from a fresh one: %v", err)
			}
			h.sameInCopy(t, wire)
		}
		h.settle()
		anew := h.anew(t)
		for uid := range h.pods {
			if got, want := h.store.Pod(uid), anew.Pod(uid); got.Grant() != want.Grant() || got.Confirmed() != want.Confirmed() || got.Moved() != want.Moved() {
				t.Fatalf("pod %s holds %q and %q, in a ledger that sees all at once %q and %q", uid, got.Grant().NUMANodes, got.Grant().Resources, want.Grant().NUMANodes, want.Grant().Resources)
			}
		}
		loaded, err := cluster.Load(h.store.Dump())
		if err != nil {
			t.Fatal(err)
		}
		for name := range h.nodes {
			for what, other := range map[string]*cluster.Store{"sees all at once": anew, "was loaded": loaded} {
				if got, want := h.row(h.store, name), h.row(other, name); got != want {
					t.Fatalf("node %s: %s\nin a ledger that %s: %s", name, got, what, want)
				}
			}
		}
	})
}

func (h *hall) row(s *cluster.Store, node string) string {
	slot := s.Slot(node)
	numaNodes, free := s.NUMANodes(slot)
	shape, v := s.Shape(slot), s.View(slot)
	text := fmt.Sprint(s.Requested(slot, resource.CPU), s.Requested(slot, resource.Memory), *numaNodes, *free, shape.GPUs, s.HasGPUs(slot), *s.GPUs(slot))
	if v.Devices != nil {
		text += fmt.Sprint(*shape.Devices, *v.Devices)
	}
	return text + resourcesText(&s.State, slot)
}

func (h *hall) step(t *rapid.T) {
	node := fmt.Sprint("n", rapid.IntRange(0, 2).Draw(t, "node"))
	uid := facts.UID(fmt.Sprint("p", rapid.IntRange(0, 7).Draw(t, "pod")))
	switch rapid.IntRange(0, 9).Draw(t, "op") {
	case 0:
		h.nodes[node] = &facts.Node{Name: node, GPU: topology.Shape{GPUs: rapid.IntRange(0, 3).Draw(t, "counted")}, Allocatable: []resource.Quantity{
			{Name: resource.NameCPU, Amount: 16000}, {Name: resource.NameMemory, Amount: 16 << 30}, {Name: resource.NamePods, Amount: 20},
		}}
		h.store.Apply(facts.NodeUpserted{Node: h.nodes[node]})
	case 1:
		if rapid.IntRange(0, 3).Draw(t, "gone") == 0 {
			delete(h.nodes, node)
			h.store.Apply(facts.NodeRemoved{Name: node})
		}
	case 2, 3, 4:
		h.report(t, node)
	case 5:
		delete(h.pods, uid)
		h.store.Apply(facts.PodRemoved{UID: uid})
	case 6, 7:
		h.bindForeign(t, uid, node)
	default:
		h.commit(t, uid)
	}
}

func drawHallGrant(t *rapid.T) (g topology.NUMAGrant) {
	for g.IsZero() {
		for z := range 2 {
			g.CPUs[z] = 2 * uint16(rapid.IntRange(0, 2).Draw(t, "granted"))
			g.Memory[z] = 512 * uint32(rapid.IntRange(0, 2).Draw(t, "bound"))
		}
	}
	return g
}

func (h *hall) report(t *rapid.T, node string) {
	if rapid.IntRange(0, 4).Draw(t, "silent") == 0 {
		delete(h.reports, node)
		h.store.Apply(facts.NodeReportRemoved{Node: node})
		return
	}
	r := &facts.NodeReport{}
	r.NUMANodes.Ruler = rapid.SampledFrom([]topology.Ruler{topology.RulerAgent, topology.RulerAgent, topology.RulerKubelet, topology.RulerNone}).Draw(t, "ruler")
	r.NUMANodes.NUMANodes, r.NUMANodes.Threads = 2, 2
	r.NUMANodes.BindsShared = rapid.IntRange(0, 3).Draw(t, "binds shared") > 0
	r.NUMANodes.SeparatesBandwidth = rapid.IntRange(0, 3).Draw(t, "separates bandwidth") > 0
	for z := range 2 {
		r.NUMANodes.NUMANode[z] = topology.NUMACapacity{CPUs: 2 * uint16(rapid.IntRange(0, 4).Draw(t, "cpus")), Memory: 4 << 10}
	}
	for i := range 9 { // the last is never known
		if rapid.IntRange(0, 4).Draw(t, "held") == 0 {
			r.Held = append(r.Held, facts.HeldNUMA{UID: facts.UID(fmt.Sprint("p", i)), Grant: drawHallGrant(t)})
		}
	}
	if rapid.IntRange(0, 2).Draw(t, "devices") > 0 {
		r.Devices = rapid.SampledFrom(hallDevices).Draw(t, "which")
	}
	for i := range 9 {
		if rapid.IntRange(0, 5).Draw(t, "holds") == 0 {
			r.HeldDevices = append(r.HeldDevices, facts.HeldDevices{UID: facts.UID(fmt.Sprint("p", i)), Grant: drawHallDevices(t)})
		}
	}
	drawHallResources(t, r)
	if r.NUMANodes.Ruler == topology.RulerNone {
		r.Why = facts.ReportStale
	}
	h.reports[node] = r
	h.store.Apply(facts.NodeReported{Node: node, Report: r})
}

func drawHallNeeds(t *rapid.T) *facts.Requirements {
	cpus, memory := int64(rapid.IntRange(1, 5).Draw(t, "cpus")), int64(rapid.IntRange(0, 3).Draw(t, "memory"))
	r := &facts.Requirements{
		Requests: []resource.Quantity{{Name: resource.NameCPU, Amount: 1000 * cpus}, {Name: resource.NameMemory, Amount: memory << 30}},
		ScoreCPU: 1000 * cpus, ScoreMemory: memory << 30,
	}
	if rapid.IntRange(0, 3).Draw(t, "dedicated") > 0 {
		r.NUMANodes = topology.NUMARequest{CPUs: uint16(cpus), Binding: topology.Binding(rapid.IntRange(0, 3).Draw(t, "binding"))}
		if r.NUMANodes.Binding != topology.Unbound {
			r.NUMANodes.Memory = uint32(memory << 10)
		}
	}
	if rapid.Bool().Draw(t, "gpu") {
		r.GPU = rapid.SampledFrom(hallRequests).Draw(t, "request")
	}
	drawHallAsks(t, r)
	return r
}

// bindForeign shows a pod bound by somebody else, with or without a record.
func (h *hall) bindForeign(t *rapid.T, uid facts.UID, node string) {
	f := facts.Pod{UID: uid, Name: string(uid), Node: node, Requirements: drawHallNeeds(t)}
	if known, ok := h.pods[uid]; ok {
		if h.store.Pod(uid).Phase != cluster.Bound {
			return
		}
		f.Node, f.Requirements = known.Node, known.Requirements
	} else if h.store.Pod(uid) != nil {
		return
	}
	if !f.Requirements.NUMANodes.IsZero() && rapid.Bool().Draw(t, "recorded") {
		f.Grant.NUMANodes = drawHallGrant(t)
	}
	if g := drawHallDevices(t); f.Requirements.GPU.Count() > 0 && g.Answers(&f.Requirements.GPU) {
		g.NUMANodes = f.Grant.NUMANodes
		f.Grant = g
	}
	if g := drawHallHeld(t); g.Answers(f.Requirements.GPU.Resources) {
		f.Grant.Resources = g
	}
	h.store.Apply(facts.PodUpserted{Pod: f})
	if known, ok := h.pods[uid]; ok { // of what it does not mention it says nothing new
		numaNodes, resources := f.Grant.NUMANodes, f.Grant.Resources
		if f.Grant.GPUs|f.Grant.NICs == 0 {
			f.Grant = known.Grant
		}
		if f.Grant.Resources = resources; resources == "" {
			f.Grant.Resources = known.Grant.Resources
		}
		if f.Grant.NUMANodes = numaNodes; numaNodes.IsZero() {
			f.Grant.NUMANodes = known.Grant.NUMANodes
		}
	}
	h.pods[uid] = f
}

// commit lets a pod wait, and places it where it fits, or gives up its place.
func (h *hall) commit(t *rapid.T, uid facts.UID) {
	if pod := h.store.Pod(uid); pod != nil {
		if pod.Phase == cluster.Assumed && rapid.Bool().Draw(t, "release") {
			h.store.Release(uid)
			h.store.Apply(facts.PodRemoved{UID: uid})
			delete(h.pods, uid)
			return
		}
		h.store.Confirm(uid)
		return
	}
	f := facts.Pod{UID: uid, Name: string(uid), Ours: true, Priority: 5, Requirements: drawHallNeeds(t)}
	h.store.Apply(facts.PodUpserted{Pod: f})
	class := h.store.Pod(uid).Class
	if class.Absent != "" { // no node has it
		h.store.Apply(facts.PodRemoved{UID: uid})
		return
	}
	for _, name := range slices.Sorted(maps.Keys(h.nodes)) {
		slot := h.store.Slot(name)
		plan := &cluster.Plan{}
		off := h.victim(t, slot)
		trial := h.store.Try(slot, false)
		for _, victim := range off {
			plan.Victims = append(plan.Victims, victim.UID)
			trial.Take(victim)
		}
		grant, _ := h.store.Offer(slot, class)
		fits := rules.Fits(&h.store.State, slot, class)
		trial.End()
		plan.Placements = []cluster.Placement{{Pod: uid, Node: name, Grant: grant}}
		before := script.Dump(h.store)
		v := h.store.Commit(plan, rules.Commits)
		if v.Committed != fits {
			t.Fatalf("%s on %s: fits: %v, and %v", uid, name, fits, v)
		}
		if !v.Committed {
			if after := script.Dump(h.store); after != before {
				t.Fatalf("a rejected Plan left something behind; before:\n%s\nafter:\n%s", before, after)
			}
			continue
		}
		if why := h.overPromised(slot, uid, &grant, len(off) > 0); why != "" {
			t.Fatal(why)
		}
		if len(off) == 0 && !h.store.Pod(uid).Confirmed() && !slices.ContainsFunc(h.store.PodsOn(slot), (*cluster.Pod).Guessed) {
			h.cpusLeft(t, slot, &grant)
		}
		if reason := h.store.Recheck(uid, rules.Commits); reason != "" && len(off) == 0 && !h.store.Pod(uid).Confirmed() {
			t.Fatalf("what was just committed is refused: %s", reason)
		}
		f.Node, f.Grant = name, grant
		h.pods[uid] = f
		return
	}
	h.store.Apply(facts.PodRemoved{UID: uid})
}

// cpusLeft holds that no NUMA node of a grant has fewer CPUs than are promised.
func (h *hall) cpusLeft(t *rapid.T, slot cluster.Slot, grant *topology.Grant) {
	_, free := h.store.NUMANodes(slot)
	for z := range topology.MaxNUMANodes {
		if grant.NUMANodes.CPUs[z] > 0 && free[z].CPUs < 0 {
			t.Fatalf("NUMA node %d is over-promised: %+v", z, free[z])
		}
	}
}

// victim is a pod of lower priority on the node, now and then.
func (h *hall) victim(t *rapid.T, slot cluster.Slot) []*cluster.Pod {
	for _, pod := range h.store.PodsOn(slot) {
		if pod.Priority < 5 && !pod.Guessed() && rapid.IntRange(0, 3).Draw(t, "victim") == 0 {
			return []*cluster.Pod{pod}
		}
	}
	return nil
}

// settle makes every node say again what it said last: who has left and is named is there.
func (h *hall) settle() {
	for node, r := range h.reports {
		h.store.Apply(facts.NodeReported{Node: node, Report: r})
	}
}

// anew makes a ledger of what is there, in random order.
func (h *hall) anew(t *rapid.T) *cluster.Store {
	var events []facts.Event
	for _, name := range slices.Sorted(maps.Keys(h.nodes)) {
		events = append(events, facts.NodeUpserted{Node: h.nodes[name]})
	}
	for _, name := range slices.Sorted(maps.Keys(h.reports)) {
		events = append(events, facts.NodeReported{Node: name, Report: h.reports[name]})
	}
	for _, uid := range slices.Sorted(maps.Keys(h.pods)) {
		events = append(events, facts.PodUpserted{Pod: h.pods[uid]})
	}
	store := cluster.NewStore()
	for _, event := range rapid.Permutation(events).Draw(t, "order") {
		store.Apply(event)
	}
	return store
}
