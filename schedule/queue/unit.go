package queue

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/quota"
)

// Unit is what waits: one pod, or the members of a gang that have no place yet. The scheduler decides about a unit at once, so that a gang never
// holds only a part of the places that it needs.
type Unit struct {
	// Gang is nil if the unit is one pod.
	Gang *cluster.Unit
	// Pod is that pod; empty for a gang.
	Pod facts.UID
	// Class of the pod, or of the first of Members.
	Class *cluster.Class
	// Shape is what its placement depends on. It is known once the unit has been ready.
	Shape *Shape
	// Priority of the pod, or the lowest of the members: a gang is worth what its least important member is.
	Priority int32
	// Early: it comes before all of its priority in its queue, or before all where the queue's order ignores priority.
	Early bool
	// Created in nanoseconds, of the pod or of the oldest member that waits.
	Created int64
	// Attempts counts refusals and failed Bindings; it sets the length of the next backoff.
	Attempts int
	// NotBefore is the revision that a scheduler must have seen before it decides on the unit again.
	NotBefore changes.Revision
	// Since is when it was first taken out to be tried, by the time of the latest Expire; zero before.
	Since time.Time

	sequence   uint64 // of arrival
	location   location
	position   int         // in the heap or list of its location
	need       int         // as of the latest refresh
	anchored   bool        // as of the latest refresh
	reclaimed  bool        // of a gang, as of the latest refresh: all members are
	facts      *facts.Unit // as of the latest refresh
	until      time.Time
	refused    bool            // among the refused of its quota block
	shapeQueue *ShapeQueue     // that it waits in, or in the quota block of
	trialOf    *quotaBlock     // that it was woken from, while it is not decided
	leaf       *node           // of its queue, where it counts as pending
	one        [1]*cluster.Pod // the pod, or the last that left the gang
	gang       *gang
}

// location of a unit: exactly one.
type location uint8

const (
	popped       location = iota // the caller decides on it
	inShapeQueue                 // ready, or its shape queue is parked
	inQuotaBlock                 // a queue's limit is in the way
	inBackoff                    // it waits out a backoff
	inGathering                  // it gathers members
)

// gang is the members of a unit that wait, kept in the order in which they are placed.
type gang struct {
	parts   []part
	members map[facts.UID]member
	list    []*cluster.Pod // what Members returns; nil: to be made anew
}

// part is the members of one subgroup and one class.
type part struct {
	subgroup string
	class    *cluster.Class
	members  []member
}

// member is a pod as it was when it joined: the ledger's record may have moved on.
type member struct {
	pod      *cluster.Pod
	uid      facts.UID
	class    *cluster.Class
	subgroup string
	priority int32
	created  int64
}

func memberOf(pod *cluster.Pod) member {
	return member{pod, pod.UID, pod.Class, pod.Subgroup, pod.Priority, pod.Created}
}

func compareMembers(a, b member) int {
	return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.created, b.created), strings.Compare(string(a.uid), string(b.uid)))
}

// Members returns the pods that wait, in the order in which to place them: by subgroup, class, priority, age and UID. The slice is valid
// until the queue changes.
func (u *Unit) Members() []*cluster.Pod {
	if u.gang == nil {
		return u.one[:]
	}
	if u.gang.list == nil {
		u.gang.list = make([]*cluster.Pod, 0, len(u.gang.members))
		for i := range u.gang.parts {
			for _, m := range u.gang.parts[i].members {
				u.gang.list = append(u.gang.list, m.pod)
			}
		}
	}
	return u.gang.list
}

// Need is how many of Members must be placed together.
func (u *Unit) Need() int {
	if u.Gang == nil {
		return 1
	}
	return u.Gang.Need()
}

// Queue is the queue that the unit is charged to.
func (u *Unit) Queue() *quota.Queue { return u.sample().Queue() }

// Tenant is the ShapeQueue.Tenant of the shape queue in which the unit waits when it is ready.
func (u *Unit) Tenant() string {
	if u.leaf.tenants == nil {
		return ""
	}
	return u.namespace()
}

// ShapeQueue returns the shape queue in which the unit is ready or parked; nil while it waits elsewhere.
func (u *Unit) ShapeQueue() *ShapeQueue {
	if u.location != inShapeQueue {
		return nil
	}
	return u.shapeQueue
}

// Key names the unit: namespace/PodGroup, or namespace/pod.
func (u *Unit) Key() string {
	if u.Gang != nil {
		return u.Gang.String()
	}
	return u.one[0].Namespace + "/" + u.one[0].Name
}

func (u *Unit) namespace() string { return u.sample().Namespace }

// sample returns any of the pods; of a gang without waiting members the last that waited.
func (u *Unit) sample() *cluster.Pod {
	if u.gang == nil || len(u.gang.parts) == 0 {
		return u.one[0]
	}
	return u.gang.parts[0].members[0].pod
}

// waiting is how many wait.
func (u *Unit) waiting() int {
	if u.gang == nil {
		return 1
	}
	return len(u.gang.members)
}

// join adds a member.
func (g *gang) join(m member) {
	i, found := slices.BinarySearchFunc(g.parts, m, comparePart)
	if !found {
		g.parts = slices.Insert(g.parts, i, part{subgroup: m.subgroup, class: m.class})
	}
	p := &g.parts[i]
	k, _ := slices.BinarySearchFunc(p.members, m, compareMembers)
	p.members = slices.Insert(p.members, k, m)
	g.members[m.uid] = m
	g.list = nil
}

// leave takes a member out.
func (g *gang) leave(uid facts.UID) {
	m := g.members[uid]
	delete(g.members, uid)
	i, _ := slices.BinarySearchFunc(g.parts, m, comparePart)
	p := &g.parts[i]
	k, _ := slices.BinarySearchFunc(p.members, m, compareMembers)
	p.members = slices.Delete(p.members, k, k+1)
	if len(p.members) == 0 {
		g.parts = slices.Delete(g.parts, i, i+1)
	}
	g.list = nil
}

func comparePart(p part, m member) int {
	return cmp.Or(strings.Compare(p.subgroup, m.subgroup), cmp.Compare(p.class.ID, m.class.ID))
}

// oldest returns when the first of the part was created.
func (p *part) oldest() int64 {
	first, last := p.members[0], p.members[len(p.members)-1]
	oldest := first.created
	if first.priority != last.priority {
		for _, m := range p.members {
			oldest = min(oldest, m.created)
		}
	}
	return oldest
}

// refresh reads again what the order and the readiness of a gang depend on.
func (u *Unit) refresh() {
	if u.gang == nil {
		return
	}
	parts := u.gang.parts
	u.need, u.anchored, u.facts, u.Class = u.Gang.Need(), isAnchored(u.Gang), u.Gang.Facts, parts[0].class
	u.reclaimed = !slices.ContainsFunc(parts, func(p part) bool { return !p.class.Reclaimed })
	u.Priority, u.Created = parts[0].members[0].priority, parts[0].members[0].created
	for i := range parts {
		p := &parts[i]
		u.Priority = min(u.Priority, p.members[len(p.members)-1].priority)
		u.Created = min(u.Created, p.oldest())
	}
}

// online reports whether some pod of the unit is of another QoS level than reclaimed.
func (u *Unit) online() bool {
	if u.gang == nil {
		return !u.Class.Reclaimed
	}
	return !u.reclaimed
}

// outdated reports whether a refresh would change something: the PodGroup has changed, or members with places came or went.
func (u *Unit) outdated() bool {
	return u.Gang != nil && (u.facts != u.Gang.Facts || u.need != u.Gang.Need() || u.anchored != isAnchored(u.Gang))
}

// isAnchored reports whether where the gang's other members may go depends on where some are already.
func isAnchored(g *cluster.Unit) bool {
	f := g.Facts
	return g.Placed() > 0 && f != nil && (!f.Topology.IsZero() || !f.SubgroupTopology.IsZero())
}
