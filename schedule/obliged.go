package schedule

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/quota"
	"hilbert.dev/hilbert/schedule/bind"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// maxObligedChecks bounds the questions "does this class fit on that node" of one recheck. With more, all classes are tried.
const maxObligedChecks = 1 << 14

// obliged is the units that have places beside the pods that they evict: they wait until these have left. A victim may be stuck, and the node may
// change. So the units are decided anew when that may help, and keep their places until they have better ones:
//
//	more is free on another node   a unit that would fit there as it is
//	more is free on their own      one that would fit though a victim is still there
//	their own node changes         one that must not be bound there any more; if it fits nowhere else, it gives its place up
//	others of a gang come or go    a gang of which other members have to go together now
//
// Single pods of one class are looked at together: where one finds no room, no other does. Where constraints between pods decide, that is so only for those on
// one node: a zone that has one pod too many is open to the pods of that zone. A gang has to find room for as many members as found none when it was tried last.
//
// Example: pod p is to replace pod v on n1, and v never ends, because n1 is unreachable. n2 is drained and comes back empty. The next Step sees that
// n2 changed, places p there, and spares v, if v is not being deleted yet.
type obliged struct {
	store  *cluster.Store
	binder *bind.Binder

	byPod   map[facts.UID]*obligedUnit
	onNode  map[string][]*obligedUnit
	classes map[obligedKey]*obligedGroup // of single pods
	groups  []*obligedGroup              // single pods by class, and gangs; in the order in which they came
	own     []*obligedUnit               // something changed on their own nodes
	checked changes.Revision
	slots   map[cluster.Slot]slotChange // scratch of recheck
	undone  []undone
}

// obligedKey is what single pods have in common that are looked at together.
type obligedKey struct {
	class *cluster.Class
	queue *quota.Queue
	node  string // that they have places on, if constraints between pods decide where they may go; else empty
}

// undone is a range of changes that a rejected Plan has made and taken back.
type undone struct{ from, to changes.Revision }

// slotChange is what happened to a node, and which revision that made at last.
type slotChange struct {
	kinds changes.Kind
	last  changes.Revision
}

// obligedUnit is the placements of one Plan with victims.
type obligedUnit struct {
	group   *obligedGroup
	members []*cluster.Pod
	nodes   []string         // of the members, each once
	since   changes.Revision // changes up to here have been looked at
	listed  bool             // in own
}

// obligedGroup is what is tried together.
type obligedGroup struct {
	obligedKey                // of single pods; zero for a gang
	units      []*obligedUnit // the most important first
	// due: there may be room. since: changes up to here have been looked at, of censuses up to domains.
	due     bool
	since   changes.Revision
	domains uint64
	// Of a gang: how many of its members had to go together when that was looked at last, how many of those found no room, and for how many there may be some since.
	need, lacking, gained int
	// refused: the limits of its queue left no room, or a Plan was rejected. It is tried again when the queue has eased.
	refused bool
	eased   uint64
}

func newObliged(store *cluster.Store, binder *bind.Binder) obliged {
	return obliged{
		store: store, binder: binder, byPod: make(map[facts.UID]*obligedUnit), onNode: make(map[string][]*obligedUnit),
		classes: make(map[obligedKey]*obligedGroup), slots: make(map[cluster.Slot]slotChange),
	}
}

// add takes note of a Plan with victims that was just committed. What has changed since the decision is to be looked at: the Plan itself may have
// released places of others. overQuota: its victims also make room below a queue's limit.
func (o *obliged) add(plan *cluster.Plan, overQuota bool) {
	u := &obligedUnit{since: plan.Revision}
	for i := range plan.Placements {
		pod := o.store.Pod(plan.Placements[i].Pod)
		u.members = append(u.members, pod)
		o.byPod[pod.UID] = u
		if !slices.Contains(u.nodes, pod.Node()) {
			u.nodes = append(u.nodes, pod.Node())
			o.onNode[pod.Node()] = append(o.onNode[pod.Node()], u)
		}
	}
	slices.SortFunc(u.members, inUnit)
	u.group = o.groupOf(u)
	if overQuota {
		u.group.refused, u.group.eased = true, 0 // the Plan itself may have eased the queue
	}
	at, _ := slices.BinarySearchFunc(u.group.units, u, func(a, b *obligedUnit) int { return moreUrgent(a.members[0], b.members[0]) })
	u.group.units = slices.Insert(u.group.units, at, u)
}

// groupOf is the group that a unit is tried in.
func (o *obliged) groupOf(u *obligedUnit) *obligedGroup {
	pod := u.members[0]
	g := &obligedGroup{since: u.since}
	if pod.Unit == nil {
		g.obligedKey = obligedKey{class: pod.Class, queue: pod.Queue()}
		if rules.UsesDomainFilters(pod.Class) {
			g.node = pod.Node()
		}
		if known := o.classes[g.obligedKey]; known != nil {
			return known
		}
		o.classes[g.obligedKey] = g
	}
	g.domains, g.need = o.domains(u), u.need()
	o.groups = append(o.groups, g)
	return g
}

// need is how many of the members have to get other places together. It changes with the others of the gang.
func (u *obligedUnit) need() int {
	if gang := u.members[0].Unit; gang != nil {
		return gang.NeedOf(len(u.members))
	}
	return 1
}

// inUnit orders members as they are placed.
func inUnit(a, b *cluster.Pod) int {
	return cmp.Or(strings.Compare(a.Subgroup, b.Subgroup), cmp.Compare(a.Class.ID, b.Class.ID), moreUrgent(a, b))
}

// moreUrgent orders pods by priority, then age.
func moreUrgent(a, b *cluster.Pod) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Created, b.Created), strings.Compare(string(a.UID), string(b.UID)))
}

// forget forgets the unit of a pod: it is bound, or has lost its place, or waits for victims no more.
func (o *obliged) forget(uid facts.UID) {
	u := o.byPod[uid]
	if u == nil {
		return
	}
	is := func(other *obligedUnit) bool { return other == u }
	for _, pod := range u.members {
		delete(o.byPod, pod.UID)
	}
	for _, node := range u.nodes {
		if o.onNode[node] = slices.DeleteFunc(o.onNode[node], is); len(o.onNode[node]) == 0 {
			delete(o.onNode, node)
		}
	}
	if u.listed {
		o.own = slices.DeleteFunc(o.own, is)
	}
	g := u.group
	if g.units = slices.DeleteFunc(g.units, is); len(g.units) == 0 {
		delete(o.classes, g.obligedKey)
		o.groups = slices.DeleteFunc(o.groups, func(other *obligedGroup) bool { return other == g })
	}
}

// domains is the version of the censuses that a unit's classes read.
func (o *obliged) domains(u *obligedUnit) (version uint64) {
	var last *cluster.Class
	for _, pod := range u.members {
		if pod.Class != last {
			version += o.store.Counts().Version(pod.Class.Constraints)
		}
		last = pod.Class
	}
	return version
}

// recheck looks at what has changed since the last time, and marks the units that it may help or hurt.
func (o *obliged) recheck() {
	since, newest := o.checked, o.store.Revision()
	o.checked = newest
	for _, g := range o.groups {
		need := g.units[0].need()
		if need != g.need || g.refused && g.chargedTo().Eased() != g.eased {
			g.due, g.refused, g.need = true, false, need
			for _, u := range g.units {
				o.list(u)
			}
		}
	}
	if len(o.groups) == 0 || since == newest {
		return
	}
	known := o.collect(since, newest)
	all := !known || len(o.slots)*len(o.groups) > maxObligedChecks
	for _, g := range o.groups {
		domains := o.domains(g.units[0])
		if all || domains != g.domains {
			g.due = true
			for _, u := range g.units {
				o.list(u)
			}
		} else if !g.due {
			g.due = o.gains(g)
		}
		g.domains = domains
	}
	for slot, c := range o.slots {
		if node := o.store.Node(slot); node != nil {
			for _, u := range o.onNode[node.Name] {
				if c.last >= u.since {
					o.list(u)
				}
			}
		}
	}
	slices.SortFunc(o.own, func(a, b *obligedUnit) int { return moreUrgent(a.members[0], b.members[0]) })
}

// collect notes what has happened to which nodes between two revisions; known is false when that is too long ago to tell.
func (o *obliged) collect(since, newest changes.Revision) (known bool) {
	log := o.store.Log()
	clear(o.slots)
	if known = log.Covers(since); known {
		for r := since; r < newest; r++ {
			c := log.At(r)
			if slices.ContainsFunc(o.undone, func(u undone) bool { return u.from <= r && r < u.to }) {
				continue
			}
			o.slots[c.Slot] = slotChange{o.slots[c.Slot].kinds | c.Kind, r}
		}
	}
	o.undone = o.undone[:0]
	return known
}

// list marks a unit whose own nodes have changed.
func (o *obliged) list(u *obligedUnit) {
	if !u.listed {
		u.listed = true
		o.own = append(o.own, u)
	}
}

// gains reports whether a group may have room on the nodes that have changed.
func (o *obliged) gains(g *obligedGroup) bool {
	const frees = changes.Freed | changes.Redefined | changes.Lent
	for slot, c := range o.slots {
		if c.kinds&frees == 0 || c.last < g.since {
			continue
		}
		if g.class != nil {
			if rules.FitsNode(&o.store.State, slot, g.class) {
				return true
			}
			continue
		}
		g.gained += o.roomOn(g.units[0], slot)
	}
	return g.gained > 0 && g.gained >= g.lacking
}

// roomOn is for how many members of a gang a node may have room, if none of them had a place there.
func (o *obliged) roomOn(u *obligedUnit, slot cluster.Slot) (room int) {
	s := &o.store.State
	trial := s.Try(slot, false)
	for _, pod := range u.members {
		if o.store.Slot(pod.Node()) == slot {
			trial.Take(pod)
		}
	}
	var last *cluster.Class
	for _, pod := range u.members {
		if pod.Class != last && rules.FitsNode(s, slot, pod.Class) {
			room += rules.PodsThatFit(s, slot, pod.Class)
		}
		last = pod.Class
	}
	trial.End()
	return room
}

// movable reports whether the unit may get other places now. While a write about a member is under way, or its PodGroup is not known, it may not.
func (o *obliged) movable(u *obligedUnit) bool {
	if gang := u.members[0].Unit; gang != nil && !gang.Ready() {
		return false
	}
	return !slices.ContainsFunc(u.members, func(pod *cluster.Pod) bool { return !o.binder.Replaceable(pod.UID) })
}

// next returns the unit to be decided anew, of at least a priority: the most important of those for which there may be room. nil: there is none.
func (o *obliged) next(priority int32) (best *obligedUnit) {
	for _, g := range o.groups {
		if !g.due {
			continue
		}
		at := slices.IndexFunc(g.units, o.movable)
		if at < 0 || g.units[at].members[0].Priority < priority {
			continue
		}
		if best == nil || moreUrgent(g.units[at].members[0], best.members[0]) < 0 {
			best = g.units[at]
		}
	}
	return best
}

// due reports whether there may be room for some.
func (o *obliged) due() bool {
	return slices.ContainsFunc(o.groups, func(g *obligedGroup) bool { return g.due })
}

// ready reports whether a unit is to be decided anew now.
func (o *obliged) ready() bool { return o.next(math.MinInt32) != nil }

// chargedTo is the queue of the group's pods.
func (g *obligedGroup) chargedTo() *quota.Queue { return g.units[0].members[0].Queue() }

// rejected takes note that a Plan for a unit was rejected. What it has changed in the ledger, it has taken back, unless a member asks for something
// else by now.
func (o *obliged) rejected(u *obligedUnit, before changes.Revision) {
	if !slices.ContainsFunc(u.members, func(pod *cluster.Pod) bool { return pod.Phase != cluster.Assumed }) {
		o.undone = append(o.undone, undone{before, o.store.Revision()})
	}
	u.group.refused, u.group.eased = true, u.group.chargedTo().Eased()
}

// tried takes note that a group has found no room.
func (g *obligedGroup) tried(lacking int, now changes.Revision) {
	g.due, g.since, g.lacking, g.gained = false, now, lacking, 0
}
