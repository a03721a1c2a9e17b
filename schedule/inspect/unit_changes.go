package inspect

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/place/explain"
	"hilbert.dev/hilbert/schedule/place/pack"
)

// UnitChange is what would have to be otherwise so that a unit is placed. All that it names must be so together: one thing, or one and the
// limits of queues.
type UnitChange struct {
	// Limits that are higher.
	Limits []LimitChange `json:"limits,omitempty"`
	// Packing that is asked for no more, or at a wider level.
	Packing *PackingChange `json:"packing,omitempty"`
	// Gone is a gang or a single pod that is gone: namespace/name.
	Gone string `json:"gone,omitempty"`
	// Members of the unit that exist besides.
	Members int `json:"members,omitempty"`
	// Nodes that exist besides, each like Like.
	Nodes int    `json:"nodes,omitempty"`
	Like  string `json:"like,omitempty"`
	// Opened: nothing is reserved for other units.
	Opened bool `json:"opened,omitempty"`
}

// LimitChange is a limit that is higher by More than it is.
type LimitChange struct {
	Queue    string `json:"queue"`
	Resource string `json:"resource"`
	Limit    int64  `json:"limit"`
	More     int64  `json:"more"`
	// Borrows: the limit is the queue's guarantee, because it must not borrow; it would have to be allowed to.
	Borrows bool `json:"borrows,omitempty"`
}

// PackingChange is a label that is not asked for, or another one in its place.
type PackingChange struct {
	// Of is what is asked: required or uniform, of the unit or of its subgroups.
	Of      string `json:"of"`
	Key     string `json:"key"`
	Instead string `json:"instead,omitempty"`
}

// String continues a sentence that begins with "it would be placed if".
func (c *UnitChange) String() string {
	var parts []string
	for _, l := range c.Limits {
		text := fmt.Sprintf("queue %s had %s", l.Queue, strings.Replace(explain.AmountText(l.Resource, l.More), " ", " more ", 1))
		if l.Borrows {
			text += ", borrowed"
		}
		parts = append(parts, text)
	}
	switch {
	case c.Packing != nil && c.Packing.Instead != "":
		parts = append(parts, fmt.Sprintf("%s were %s instead of %s", c.Packing.Of, c.Packing.Instead, c.Packing.Key))
	case c.Packing != nil:
		parts = append(parts, fmt.Sprintf("%s %s were not asked for", c.Packing.Of, c.Packing.Key))
	case c.Gone != "":
		parts = append(parts, c.Gone+" were gone")
	case c.Members > 0:
		parts = append(parts, Count(c.Members, "more member", "more members")+" waited")
	case c.Nodes > 0:
		parts = append(parts, Count(c.Nodes, "more node", "more nodes")+" like "+c.Like+" were there")
	case c.Opened:
		parts = append(parts, "nothing were reserved for units that have waited longer")
	}
	return strings.Join(parts, " and ")
}

func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprint(n, " ", many)
}

const (
	// maxRaises bounds the limits that a change raises.
	maxRaises = 16
	// maxGone bounds the units that are tried to be gone.
	maxGone = 64
	// maxNewNodes bounds the nodes that are tried to be added, and maxTemplates the kinds of them.
	maxNewNodes  = 256
	maxTemplates = 4
)

// changes tries what could help, one thing at a time; then, where limits are in the way, with those raised. It leaves the ledger as it was.
func (t *trial) changes() {
	raised, undo := t.raise()
	if len(raised) > 0 && t.fits(t.unit) {
		t.propose(UnitChange{Limits: raised})
		raised = nil // nothing else is needed
	}
	undo()
	t.others(nil)
	if len(raised) > 0 {
		_, undo = t.raise()
		t.others(raised)
		undo()
	}
}

// propose takes a change down, unless what it names besides limits does alone.
func (t *trial) propose(c UnitChange) {
	alone := c
	alone.Limits = nil
	if len(c.Limits) == 0 || !slices.ContainsFunc(t.answer.Changes, func(known UnitChange) bool { return known.String() == alone.String() }) {
		t.answer.Changes = append(t.answer.Changes, c)
	}
}

// others tries everything but limits, with some limits raised already.
func (t *trial) others(raised []LimitChange) {
	ask, _, admitted := t.gate.Ask(t.unit)
	if admitted {
		t.lessPacking(ask, raised)
	}
	if _, fits := t.opened(); fits {
		t.propose(UnitChange{Limits: raised, Opened: true})
	}
	t.withoutOne(ask, raised)
	if admitted {
		t.moreNodes(raised)
	}
}

// raise raises the limits that are in the unit's way until they leave room for what it needs. undo takes it back.
func (t *trial) raise() (list []LimitChange, undo func()) {
	before := make(map[string]*facts.Queue)
	for range maxRaises {
		_, short, admitted := t.gate.Ask(t.unit)
		if admitted {
			break
		}
		q, name := short.Queue, t.store.KindName(short.Kind)
		change := LimitChange{Queue: q.Name, Resource: name, Limit: short.Limit, More: short.Asked + short.Reserved + short.Used - short.Limit}
		if _, known := before[q.Name]; !known {
			before[q.Name] = q.Facts
		}
		seen := change.apply(q.Facts)
		t.store.Apply(facts.QueueUpserted{Queue: seen})
		if q.Limit(short.Kind) < change.Limit+change.More {
			change.Borrows = true
			t.store.Apply(facts.QueueUpserted{Queue: change.apply(seen)})
		}
		list = append(list, change)
	}
	undo = func() {
		for _, name := range slices.Sorted(maps.Keys(before)) {
			t.store.Apply(facts.QueueUpserted{Queue: before[name]})
		}
	}
	if _, _, admitted := t.gate.Ask(t.unit); !admitted {
		undo()
		return nil, func() {}
	}
	return list, undo
}

// apply returns the facts of the queue with the limit raised.
func (c *LimitChange) apply(f *facts.Queue) *facts.Queue {
	g := *f
	g.Max = slices.Clone(f.Max)
	for i := range g.Max {
		if g.Max[i].Name == c.Resource {
			g.Max[i].Amount = max(g.Max[i].Amount, c.Limit+c.More)
		}
	}
	if c.Borrows {
		g.BorrowsNothing = false
	}
	return &g
}

// lessPacking tries to drop, one after the other, what is asked of the topology; or to ask for it at a wider level.
func (t *trial) lessPacking(ask *pack.Ask, raised []LimitChange) {
	for _, drop := range packings {
		key := *drop.of(ask)
		if key == "" {
			continue
		}
		with := func(instead string) bool {
			return t.finds(t.unit, ask, func(a *pack.Ask) { *drop.of(a) = instead })
		}
		if !with("") {
			continue
		}
		change := UnitChange{Limits: raised, Packing: &PackingChange{Of: drop.name, Key: key}}
		if at := slices.Index(t.levels, key); drop.widens && at > 0 {
			for _, wider := range slices.Backward(t.levels[:at]) {
				if with(wider) {
					change.Packing.Instead = wider
					break
				}
			}
		}
		t.propose(change)
	}
}

// packings are what keeps a unit from places where its members fit.
var packings = []struct {
	name   string
	widens bool // to a level above
	of     func(*pack.Ask) *string
}{
	{"the required topology", true, func(a *pack.Ask) *string { return &a.Topology.Required }},
	{"the uniform label", false, func(a *pack.Ask) *string { return &a.Topology.Uniform }},
	{"the subgroups' required topology", true, func(a *pack.Ask) *string { return &a.Subgroups.Required }},
	{"the subgroups' uniform label", false, func(a *pack.Ask) *string { return &a.Subgroups.Uniform }},
}

// withoutOne looks for the least valuable other unit without which this one would fit.
func (t *trial) withoutOne(ask *pack.Ask, raised []LimitChange) {
	end := t.opens(t.unit)
	name, ok := t.decider().Reclaims.BlockingUnit(ask, maxGone)
	end()
	if !ok {
		return
	}
	restore := t.remove(name)
	fits := t.fits(t.unit)
	restore()
	if fits {
		t.propose(UnitChange{Limits: raised, Gone: name})
	}
}

// remove takes the placed pods of a unit away; restore brings them back, those that were on their way as bound.
func (t *trial) remove(name string) (restore func()) {
	namespace, short, _ := strings.Cut(name, "/")
	var gone []facts.Pod
	t.store.EachPod(func(pod *cluster.Pod) {
		if pod.Namespace != namespace || pod.Node() == "" || pod.Phase == cluster.Finished {
			return
		}
		if pod.Unit != nil && pod.Unit.Name == short || pod.Unit == nil && pod.Name == short {
			f := pod.Record().Facts
			f.Claims = t.store.Volumes().Uses(pod.UID)
			f.ResourceClaims = t.store.ResourceClaims().Uses(pod.UID)
			gone = append(gone, f)
		}
	})
	for i := range gone {
		t.store.Apply(facts.PodRemoved{UID: gone[i].UID})
	}
	return func() {
		for i := range gone {
			t.store.Apply(facts.PodUpserted{Pod: gone[i]})
		}
	}
}

// withMembers tries whether it would do that the missing members came, each like the first that waits.
func (t *trial) withMembers() {
	missing := t.answer.Missing
	like := t.unit.Members()[0].Record().Facts
	var added []facts.UID
	for i := range missing {
		f := like
		f.UID, f.Name = facts.UID(fmt.Sprintf("%s+%d", like.UID, i+1)), fmt.Sprintf("%s+%d", like.Name, i+1)
		f.Nominated, f.Reported = "", facts.Condition{}
		t.store.Apply(facts.PodUpserted{Pod: f})
		t.queue.Add(t.store.Pod(f.UID))
		added = append(added, f.UID)
	}
	if t.fits(t.unit) {
		t.propose(UnitChange{Members: missing})
	} else if raised, undo := t.raise(); len(raised) > 0 {
		if t.fits(t.unit) {
			t.propose(UnitChange{Limits: raised, Members: missing})
		}
		undo()
	}
	for _, uid := range added {
		t.queue.Remove(uid)
		t.store.Apply(facts.PodRemoved{UID: uid})
	}
}

// moreNodes looks for the fewest nodes like one that is there which would have to be added.
func (t *trial) moreNodes(raised []LimitChange) {
	best, like := maxNewNodes+1, ""
	for _, node := range t.templates() {
		if fewest := t.fewestNodes(node, best-1); fewest > 0 {
			best, like = fewest, node.Name
		}
	}
	if like != "" {
		t.propose(UnitChange{Limits: raised, Nodes: best, Like: like})
	}
}

// fewestNodes is how many more nodes like one it takes, 0 if most would not do.
func (t *trial) fewestNodes(like *facts.Node, most int) int {
	if most == 0 {
		return 0
	}
	low, high := 0, 1 // low are too few
	for !t.fitsWithNodes(like, high) {
		if high == most {
			return 0
		}
		low, high = high, min(high*2, most)
	}
	for low+1 < high {
		if middle := (low + high) / 2; t.fitsWithNodes(like, middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return high
}

// templates are nodes to have more of: the first by name of each size, where the unit needs one domain of the one that has most room.
func (t *trial) templates() (list []*facts.Node) {
	var nodes []*facts.Node
	s := &t.store.State
	e := t.answer.Explanation
	for slot := range cluster.Slot(s.Slots()) {
		node := s.Node(slot)
		if node == nil || node.Unschedulable || e != nil && e.Domain != "" && node.Labels[e.Key] != e.Domain {
			continue
		}
		nodes = append(nodes, node)
	}
	slices.SortFunc(nodes, func(a, b *facts.Node) int { return naturally(a.Name, b.Name) })
	sizes := make(map[string]bool)
	for _, node := range nodes {
		shape, _ := s.NUMANodes(t.store.Slot(node.Name))
		size := fmt.Sprint(node.Allocatable, node.GPU, node.Taints, *shape)
		if !sizes[size] && len(list) < maxTemplates {
			sizes[size] = true
			list = append(list, node)
		}
	}
	return list
}

// fitsWithNodes tries whether the unit would fit with this many more nodes like the given one.
func (t *trial) fitsWithNodes(like *facts.Node, count int) bool {
	var added []string
	for i := range count {
		node := anotherNode(like, i+1)
		t.store.Apply(facts.NodeUpserted{Node: node})
		if r := t.store.Report(t.store.Slot(like.Name)); r != nil {
			t.store.Apply(facts.NodeReported{Node: node.Name, Report: &facts.NodeReport{NUMANodes: r.NUMANodes, Why: r.Why}})
		}
		added = append(added, node.Name)
	}
	fits := t.fits(t.unit)
	for _, name := range added {
		t.store.Apply(facts.NodeRemoved{Name: name})
		t.store.Apply(facts.NodeReportRemoved{Node: name})
	}
	return fits
}

// anotherNode is a copy of a node with another name.
func anotherNode(like *facts.Node, number int) *facts.Node {
	node := *like
	node.Name = fmt.Sprintf("%s+%d", like.Name, number)
	node.Labels = maps.Clone(like.Labels)
	if _, labelled := node.Labels[facts.HostnameKey]; labelled {
		node.Labels[facts.HostnameKey] = node.Name
	}
	return &node
}
