package check

import (
	"cmp"
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/sim/judge"
	"hilbert.dev/hilbert/topology"
)

// mirror is what the scheduler has been told, and has decided: what its ledger has to be. It shares no state with the core.
//
//	told(pod a, waits)       a waits
//	committed(a on n)        a is on n, assumed
//	told(pod a, bound to n)  a is on n
type mirror struct {
	nodes map[string]*facts.Node
	pods  map[facts.UID]*mirrored
	// on holds the pods that have a node, by its name.
	on       map[string][]*mirrored
	demanded map[facts.UID]changes.Revision // by a rejection: what the scheduler must have seen before the next try
	reports  map[string]*reported           // by node
	tenants  *judge.Tenants
	gangs    map[facts.UnitName]*gang
	kept     func() []Kept // by UID of the placeholders
}

func newMirror(kept func() []Kept) *mirror {
	return &mirror{
		kept:  kept,
		nodes: make(map[string]*facts.Node), pods: make(map[facts.UID]*mirrored), on: make(map[string][]*mirrored),
		demanded: make(map[facts.UID]changes.Revision), reports: make(map[string]*reported),
		tenants: judge.NewTenants(), gangs: make(map[facts.UnitName]*gang),
	}
}

// mirrored is a pod as the scheduler ought to know it.
type mirrored struct {
	uid          facts.UID
	namespace    string
	labels       []facts.Label
	requirements *facts.Requirements
	node         string // empty: waits
	grant        topology.Grant
	assumed      bool // the scheduler's own decision, not seen bound yet
	ours         bool
	leaving      bool // being deleted, or gated: it must not be placed
	deleting     bool
	priority     int32
	victims      []facts.UID   // that have to leave before it may be bound
	plan         *cluster.Plan // that has placed it
	nominated    string        // the node that its status names
	unit         facts.UnitName
	subgroup     string
	claims       bool // it uses volumes of claims, which decide where it may go
	started      int64
	tookBack     bool  // its place was taken back for a guarantee, or given up by a pod that had
	scheduled    int64 // when its Plan was committed, or it was bound
	settled      bool  // the API server has said that it is gone or is bound elsewhere, and no watch has yet
	evicting     bool  // its unit was stuck, so that it may be evicted
}

func (m *mirrored) resident(n *facts.Node) *judge.Resident {
	return &judge.Resident{Namespace: m.namespace, Labels: m.labels, Requirements: m.requirements, Deleting: m.deleting, Node: n}
}

// reported is a node's report as told, and which of the pods that it names have left since.
type reported struct {
	report *facts.NodeReport
	left   map[facts.UID]bool
}

// waiting are the other pods on a pod's node that wait there for victims of their own: they are not there yet.
func (mi *mirror) waiting(m *mirrored) (list []facts.UID) {
	for _, other := range mi.on[m.node] {
		if other != m && other.assumed && mi.obliged(other) {
			list = append(list, other.uid)
		}
	}
	return list
}

// obliged says whether a victim of a placement is still on its node.
func (mi *mirror) obliged(m *mirrored) bool {
	return slices.ContainsFunc(m.victims, func(uid facts.UID) bool {
		v := mi.pods[uid]
		return v != nil && v.node != ""
	})
}

// told mirrors an event that the scheduler is given.
func (mi *mirror) told(e facts.Event) {
	switch e := e.(type) {
	case facts.NodeUpserted:
		mi.nodes[e.Node.Name] = e.Node
	case facts.NodeRemoved:
		delete(mi.nodes, e.Name)
	case facts.NodesListed:
		clear(mi.nodes)
		for _, n := range e.Nodes {
			mi.nodes[n.Name] = n
		}
	case facts.PodUpserted:
		mi.toldPod(&e.Pod)
	case facts.PodRemoved:
		mi.drop(e.UID, false)
	case facts.PodsListed:
		listed := make(map[facts.UID]bool, len(e.Pods))
		for i := range e.Pods {
			listed[e.Pods[i].UID] = true
			mi.toldPod(&e.Pods[i])
		}
		for uid := range mi.pods {
			if !listed[uid] {
				mi.drop(uid, false)
			}
		}
	case facts.FinishedListed:
		listed := make(map[facts.UID]bool, len(e.Pods))
		for i := range e.Pods {
			listed[e.Pods[i].UID] = true
			mi.toldPod(&e.Pods[i])
		}
		for _, g := range mi.gangs {
			for uid := range g.ended {
				if !listed[uid] {
					mi.drop(uid, false)
				}
			}
		}
	default:
		if !mi.toldReport(e) {
			mi.toldTenants(e)
		}
	}
}

func (mi *mirror) toldPod(f *facts.Pod) {
	m := mi.pods[f.UID]
	switch {
	case f.Finished && m == nil:
		if name := unitNamed(f); f.Ours && !name.IsZero() && !mi.gang(name).ended[f.UID] {
			mi.leaveGang(name, f.UID, true)
		}
		return
	case f.Finished:
		mi.drop(f.UID, true)
		return
	case m == nil:
		m = &mirrored{
			uid: f.UID, namespace: f.Namespace, labels: f.Labels, requirements: f.Requirements, ours: f.Ours, priority: f.Priority, subgroup: f.Subgroup, claims: len(f.Claims) > 0,
		}
		m.unit = unitNamed(f)
		mi.pods[f.UID] = m
	}
	if !m.unit.IsZero() && (m.ours || f.Node != "") {
		mi.gang(m.unit).members[f.UID] = m
	}
	if !m.assumed || f.Nominated == m.node { // an older state may arrive after the answer to our own write
		m.nominated = f.Nominated
	}
	m.started = f.Started
	m.scheduled = cmp.Or(f.Scheduled, m.scheduled)
	m.leaving, m.deleting = f.Deleting || f.Gated, f.Deleting
	if f.Node != "" {
		grant := f.Grant
		if f.Node == m.node && grant.GPUs == 0 && !m.requirements.GPU.IsZero() {
			grant = m.grant // another scheduler bound it to the same node and recorded no devices: what was committed stays
			grant.NICs, grant.NIC, grant.NUMANodes = f.Grant.NICs, f.Grant.NIC, f.Grant.NUMANodes
		}
		mi.move(m, f.Node, grant)
		m.assumed, m.victims = false, nil
		delete(mi.demanded, f.UID)
	}
	mi.recount(m.unit)
}

// toldReport mirrors an event about reports; false if it is none.
func (mi *mirror) toldReport(e facts.Event) bool {
	switch e := e.(type) {
	case facts.NodeReported:
		mi.reports[e.Node] = &reported{e.Report, make(map[facts.UID]bool)}
	case facts.ReportsListed:
		clear(mi.reports)
		for _, r := range e.Reports {
			mi.toldReport(r)
		}
	default:
		return false
	}
	return true
}

// toldTenants mirrors an event about queues, namespaces or PodGroups.
func (mi *mirror) toldTenants(e facts.Event) {
	t := mi.tenants
	switch e := e.(type) {
	case facts.QueueUpserted:
		t.Queues[e.Queue.Name] = e.Queue
	case facts.QueueRemoved:
		delete(t.Queues, e.Name)
	case facts.QueuesListed:
		clear(t.Queues)
		for _, q := range e.Queues {
			t.Queues[q.Name] = q
		}
	case facts.NamespaceUpserted:
		t.Namespaces[e.Namespace.Name] = e.Namespace.Labels
	case facts.NamespaceRemoved:
		delete(t.Namespaces, e.Name)
	case facts.NamespacesListed:
		clear(t.Namespaces)
		for _, n := range e.Namespaces {
			t.Namespaces[n.Name] = n.Labels
		}
	case facts.UnitUpserted:
		mi.toldUnit(e.Unit.UnitName, e.Unit)
	case facts.UnitRemoved:
		mi.toldUnit(e.Name, nil)
	case facts.UnitsListed:
		listed := make(map[facts.UnitName]*facts.Unit)
		for _, f := range e.Units {
			listed[f.UnitName] = f
		}
		for _, name := range t.UnitNames() {
			if listed[name] == nil {
				mi.toldUnit(name, nil)
			}
		}
		for _, f := range e.Units {
			mi.toldUnit(f.UnitName, f)
		}
	}
}

func (mi *mirror) toldUnit(name facts.UnitName, f *facts.Unit) {
	old := mi.tenants.Units[name]
	if g := mi.gang(name); f == nil || old != nil && old.UID != f.UID {
		g.whole, g.lapsed, g.done = false, false, 0
	}
	if f == nil {
		delete(mi.tenants.Units, name)
		return
	}
	mi.tenants.Units[name] = f
	mi.recount(name)
}

func (mi *mirror) move(m *mirrored, node string, grant topology.Grant) {
	if m.node != "" {
		list := mi.on[m.node]
		at := slices.Index(list, m)
		mi.on[m.node] = slices.Delete(list, at, at+1)
	}
	mi.moved(m.uid, m.node, node)
	m.node, m.grant = node, grant
	if node != "" {
		mi.on[node] = append(mi.on[node], m)
	}
	mi.recount(m.unit)
}

// moved takes note that a pod left a node, or came.
func (mi *mirror) moved(uid facts.UID, from, to string) {
	if r := mi.reports[from]; r != nil {
		r.left[uid] = true
	}
	if r := mi.reports[to]; r != nil {
		delete(r.left, uid)
	}
}

// drop forgets a pod that has ended, or is gone.
func (mi *mirror) drop(uid facts.UID, ended bool) {
	if m := mi.pods[uid]; m != nil {
		mi.move(m, "", topology.Grant{})
		mi.leaveGang(m.unit, uid, ended)
		delete(mi.pods, uid)
		delete(mi.demanded, uid)
	} else if !ended {
		for name, g := range mi.gangs {
			if g.ended[uid] {
				mi.leaveGang(name, uid, false)
			}
		}
	}
}

// claimed says whether a pod that has a place waits for another to leave.
func (mi *mirror) claimed(uid facts.UID) bool {
	for _, m := range mi.pods {
		if m.assumed && slices.Contains(m.victims, uid) {
			return true
		}
	}
	return false
}

// unitNamed is the PodGroup that a pod names; the zero name for none.
func unitNamed(f *facts.Pod) facts.UnitName {
	if f.Unit == "" {
		return facts.UnitName{}
	}
	return facts.UnitName{Namespace: f.Namespace, Name: f.Unit}
}

// gang is what the mirror knows of a unit.
type gang struct {
	members map[facts.UID]*mirrored
	ended   map[facts.UID]bool // that have ended and are not removed
	done    int
	whole   bool // it had as many members bound at once as it needs, and some are left
	lapsed  bool // whole, and then none was left, and none was placed since
}

// placed counts the members that have places and are to keep them.
func (g *gang) placed() int {
	n := 0
	for _, m := range g.members {
		if m.node != "" && !m.deleting {
			n++
		}
	}
	return n
}

// bound counts those of them that are on their nodes.
func (g *gang) bound() int {
	n := 0
	for _, m := range g.members {
		if m.node != "" && !m.deleting && !m.assumed {
			n++
		}
	}
	return n
}

func (mi *mirror) gang(name facts.UnitName) *gang {
	g := mi.gangs[name]
	if g == nil {
		g = &gang{members: make(map[facts.UID]*mirrored), ended: make(map[facts.UID]bool)}
		mi.gangs[name] = g
	}
	return g
}

// leaveGang takes note that a pod has ended, or is gone.
func (mi *mirror) leaveGang(name facts.UnitName, uid facts.UID, ended bool) {
	if name.IsZero() {
		return
	}
	g := mi.gang(name)
	if ended {
		g.done++
		g.ended[uid] = true
		g.whole = g.whole || g.lapsed // its last members finished, and one watch said first that they were gone
	} else {
		delete(g.ended, uid)
	}
	delete(g.members, uid)
	if len(g.members)+len(g.ended) == 0 {
		g.done = 0
	}
	mi.recount(name)
}

// recount takes note that a unit has all the members that it needs, or none.
func (mi *mirror) recount(name facts.UnitName) {
	if name.IsZero() {
		return
	}
	g := mi.gang(name)
	if f := mi.tenants.Units[name]; f != nil && g.bound()+g.done >= int(f.MinMember) {
		g.whole = true
	}
	if g.placed() > 0 {
		g.lapsed = false
	}
	if g.placed()+g.done == 0 {
		g.lapsed = g.lapsed || g.whole
		g.whole = false
	}
}

// runs says whether a unit had all the members that it needs at once and still has some, so that further members join one by one.
func (mi *mirror) runs(name facts.UnitName) bool {
	g, f := mi.gang(name), mi.tenants.Units[name]
	return (g.whole || f != nil && f.Scheduled) && g.placed()+g.done > 0
}

// occupants lists the pods that the scheduler ought to know on a node, except one and those that count as gone.
func (mi *mirror) occupants(node string, except *mirrored, off ...facts.UID) []judge.Occupant {
	list := make([]judge.Occupant, 0, len(mi.on[node]))
	for _, m := range mi.on[node] {
		if m != except && !slices.Contains(off, m.uid) {
			list = append(list, judge.Occupant{Requirements: m.requirements, Grant: mi.holds(m)})
		}
	}
	if except != nil {
		off = append(off, except.uid)
	}
	return append(list, mi.keptOn(node, off...)...)
}

// holds is what the pod holds of its node's NUMA nodes and devices: what the node reports, else what was decided.
func (mi *mirror) holds(m *mirrored) topology.Grant {
	g := m.grant
	r := mi.reports[m.node]
	if r == nil {
		return g
	}
	for _, h := range r.report.HeldDevices {
		if h.UID == m.uid && judge.OwnerSaid(r.report) == judge.OwnerKubelet {
			if h.Grant.NICs != 0 {
				g.NICs, g.NIC = h.Grant.NICs, h.Grant.NIC
			}
		} else if h.UID == m.uid && r.report.Devices != nil {
			g = h.Grant
			g.NUMANodes = m.grant.NUMANodes
		}
	}
	for _, h := range r.report.Held {
		if h.UID == m.uid {
			g.NUMANodes = h.Grant
		}
	}
	return g
}

func (mi *mirror) holdsNUMANodes(m *mirrored) topology.NUMAGrant { return mi.holds(m).NUMANodes }

// offered is the node with the headroom of which the scheduler was told.
func (mi *mirror) offered(n *facts.Node) *facts.Node {
	if told := mi.reports[n.Name]; told != nil {
		return judge.WithHeadroom(n, &told.report.Headroom)
	}
	return n
}

// rank is the priority of a pod: its unit's, if that has one.
func (mi *mirror) rank(m *mirrored) int32 {
	if f := mi.tenants.Units[m.unit]; f != nil && f.Prioritized {
		return f.Priority
	}
	return m.priority
}

// costs is what a pod costs its queues where it is.
func (mi *mirror) costs(m *mirrored) map[string]int64 {
	n := mi.nodes[m.node]
	if n == nil {
		return judge.Charge(m.requirements)
	}
	var said *facts.NodeReport
	if told := mi.reports[m.node]; told != nil {
		said = told.report
	}
	return judge.ChargeOn(n, said, judge.Occupant{Requirements: m.requirements, Grant: mi.holds(m)}, m.ours)
}

// usage is the bill of the pods that the scheduler ought to know on nodes that it knows, except some.
func (mi *mirror) usage(off []facts.UID) judge.Bill {
	used := make(judge.Bill)
	for node, list := range mi.on {
		if mi.nodes[node] == nil {
			continue
		}
		for _, m := range list {
			if !slices.Contains(off, m.uid) {
				used.Add(mi.tenants, m.namespace, mi.costs(m))
			}
		}
	}
	mi.addKept(used, off)
	return used
}
