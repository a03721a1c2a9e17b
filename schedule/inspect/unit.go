package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/admit"
	"hilbert.dev/hilbert/schedule/place/explain"
	"hilbert.dev/hilbert/schedule/place/pack"
	"hilbert.dev/hilbert/schedule/profiles"
	"hilbert.dev/hilbert/schedule/queue"
)

// UnitAnswer says where a gang stands, what is in its way and what would help. It depends on the Dump and on nothing else.
type UnitAnswer struct {
	Revision  changes.Revision `json:"revision"`
	Namespace string           `json:"namespace"`
	Name      string           `json:"name"`
	// Known: there is a PodGroup of the name. What follows of it is zero otherwise.
	Known     bool         `json:"known"`
	UID       facts.UID    `json:"uid,omitempty"`
	Created   time.Time    `json:"created,omitzero"`
	MinMember int          `json:"minMember"`
	Topology  UnitTopology `json:"topology,omitzero"`
	Subgroups UnitTopology `json:"subgroupTopology,omitzero"`
	Priority  int32        `json:"priority"`
	// Running: it was whole once, and some of it is still there.
	Running bool `json:"running"`
	// Placed members have a place or are on their way to one, Waiting ones wait for one; Missing are to be created yet before it can start,
	// and Need of those that wait must be placed together.
	Placed  int `json:"placed"`
	Waiting int `json:"waiting"`
	Need    int `json:"need"`
	Missing int `json:"missing"`
	// Members by name, at most MaxMembers of them.
	Members     []UnitMember `json:"members,omitempty"`
	MoreMembers int          `json:"moreMembers,omitempty"`

	// Queue is the path of its queue. Ahead units of the queue come before it, if it HasTurn.
	Queue   string `json:"queue"`
	HasTurn bool   `json:"hasTurn"`
	Ahead   int    `json:"ahead"`
	// KeptNodes are reserved for it, and so is what becomes free of the limits of KeptQueues.
	KeptNodes  int      `json:"keptNodes,omitempty"`
	KeptQueues []string `json:"keptQueues,omitempty"`

	// FitsNow: if it were its turn now, it would be placed.
	FitsNow bool `json:"fitsNow"`
	// Blocks are what is in its way now.
	Blocks []UnitBlock `json:"blocks,omitempty"`
	// Changes are the single changes after which it would be placed, if it were its turn. Each was tried.
	Changes []UnitChange `json:"changes,omitempty"`
	// Explanation is what the nodes say, if it is they that have no room.
	Explanation *explain.UnitExplanation `json:"explanation,omitempty"`
}

// UnitTopology is what is asked of the topology; each field is a node label.
type UnitTopology struct {
	Required  string `json:"required,omitempty"`
	Preferred string `json:"preferred,omitempty"`
	Spread    string `json:"spread,omitempty"`
	Uniform   string `json:"uniform,omitempty"`
}

// UnitMember is a pod of a unit.
type UnitMember struct {
	Name     string `json:"name"`
	Subgroup string `json:"subgroup,omitempty"`
	// State is bound, finished or leaving, or how it waits.
	State string `json:"state"`
	Node  string `json:"node,omitempty"`
	Why   string `json:"why,omitempty"`
}

// UnitBlock is something that is in a unit's way.
type UnitBlock struct {
	Kind    BlockKind `json:"kind"`
	Message string    `json:"message"`
}

// BlockKind is what kind of thing is in the way.
type BlockKind string

// The kinds, in the order in which they are reported.
const (
	BlockPodGroup BlockKind = "podGroup" // there is none, or it asks for what cannot be
	BlockQueue    BlockKind = "queue"    // the queue is unknown or invalid
	BlockRefused  BlockKind = "refused"  // members can never be placed, or are held
	BlockBackoff  BlockKind = "backoff"  // it waits out a backoff
	BlockMembers  BlockKind = "members"  // fewer wait than must be placed together
	BlockQuota    BlockKind = "quota"    // a limit leaves no room
	BlockReserved BlockKind = "reserved" // nodes that it could use are kept free for others
	BlockTopology BlockKind = "topology" // it would fit, but not packed as it asks
	BlockRoom     BlockKind = "room"     // the nodes have no room for it
)

// MaxMembers is how many members a UnitAnswer names.
const MaxMembers = 1000

// NoUnit is the error about a unit that the ledger does not have.
type NoUnit struct{ Namespace, Name string }

func (e *NoUnit) Error() string {
	return fmt.Sprintf("the scheduler knows neither a PodGroup %s/%s nor a pod that names it", e.Namespace, e.Name)
}

// ExplainUnit answers for the gang of that name. It makes a ledger of the dump, which costs about a second for 200,000 pods, and tries each
// change on it.
func (d *Dump) ExplainUnit(namespace, name string) (*UnitAnswer, error) {
	r, err := d.rehearse()
	if err != nil {
		return nil, err
	}
	gang := r.store.Units().Get(facts.UnitName{Namespace: namespace, Name: name})
	if gang == nil {
		return nil, &NoUnit{namespace, name}
	}
	a := &UnitAnswer{
		Revision: d.Ledger.Revision, Namespace: namespace, Name: name, Known: gang.Facts != nil, MinMember: gang.MinMember(),
		Running: gang.Running(), Placed: gang.Placed(), Need: gang.Need(), Queue: r.store.Quota().QueueOf(namespace).Path(),
	}
	if f := gang.Facts; f != nil {
		a.UID, a.Created = f.UID, time.Unix(0, f.Created).UTC()
		a.Topology, a.Subgroups = UnitTopology(f.Topology), UnitTopology(f.SubgroupTopology)
		if f.Prioritized {
			a.Priority = f.Priority
		}
	}
	a.list(d, gang)
	kept := WaitingUnit{Namespace: namespace, Name: name, Gang: true}
	d.markKept(&kept)
	a.KeptNodes, a.KeptQueues = kept.KeptNodes, kept.KeptQueues
	a.judge(d, r, gang)
	return a, nil
}

// list names the members.
func (a *UnitAnswer) list(d *Dump, gang *cluster.Unit) {
	waiting := make(map[facts.UID]*Waiting)
	for i := range d.Queue {
		waiting[d.Queue[i].UID] = &d.Queue[i]
	}
	pods := slices.SortedFunc(slices.Values(gang.Pods()), func(x, y *cluster.Pod) int {
		return cmp.Or(strings.Compare(x.Subgroup, y.Subgroup), naturally(x.Name, y.Name), strings.Compare(string(x.UID), string(y.UID)))
	})
	for _, pod := range pods {
		if isPending(pod) {
			a.Waiting++
		}
		if len(a.Members) == MaxMembers {
			a.MoreMembers++
			continue
		}
		m := UnitMember{Name: pod.Name, Subgroup: pod.Subgroup, State: pod.Phase.String(), Node: pod.Node()}
		switch w := waiting[pod.UID]; {
		case w != nil:
			m.State, m.Why = string(w.State), w.Why
		case pod.Deleting:
			m.State = string(WaitingLeaving)
		}
		a.Members = append(a.Members, m)
	}
}

// naturally orders names so that w-2 comes before w-10.
func naturally(a, b string) int {
	return cmp.Or(cmp.Compare(strings.TrimRight(a, "0123456789"), strings.TrimRight(b, "0123456789")), cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

// judge finds out what is in the way of the members that wait, and what would help.
func (a *UnitAnswer) judge(d *Dump, r *rehearsal, gang *cluster.Unit) {
	a.refusals(gang)
	if len(a.Blocks) > 0 || gang.Facts == nil {
		return
	}
	u := r.queue.Gang(gang)
	waiting := 0
	if u != nil {
		a.Priority, waiting = u.Priority, len(u.Members())
	}
	if a.Missing = max(a.Need-waiting, 0); a.Started() {
		a.Missing = 0
	}
	if waiting == 0 && a.Missing == 0 {
		return // no member waits
	}
	t := &trial{rehearsal: r, dump: d, gang: gang, unit: u, answer: a}
	if a.Missing > 0 {
		a.block(BlockMembers, fmt.Sprintf("%d of %d members are missing: %s, %d have places", a.Missing, a.MinMember, Count(waiting, "waits", "wait"), a.Placed))
		if u != nil {
			t.withMembers()
		}
		return
	}
	a.HasTurn, a.Ahead = true, r.queue.View().Position(u)
	t.look()
	if !a.FitsNow {
		t.changes()
	}
}

// Started reports whether it runs, or all that it needs are on their way.
func (a *UnitAnswer) Started() bool { return a.Running || a.Known && a.Placed >= a.MinMember }

func (a *UnitAnswer) block(kind BlockKind, message string) {
	a.Blocks = append(a.Blocks, UnitBlock{kind, message})
}

// refusals tells what keeps the unit from being looked at altogether.
func (a *UnitAnswer) refusals(gang *cluster.Unit) {
	refusals := make(map[string]int)
	var order []string
	for _, pod := range gang.Pods() {
		if !pod.Ours || pod.Phase != cluster.Pending || pod.Deleting {
			continue
		}
		why, refused := admit.Refuse(pod)
		switch {
		case refused && (why.Reason == spec.ReasonWaitingForPodGroup || why.Reason == spec.ReasonInvalidPodGroup):
			a.Blocks = []UnitBlock{{BlockPodGroup, why.Message}}
			return
		case refused && pod.Refusal() == "":
			a.Blocks = []UnitBlock{{BlockQueue, why.Message}}
			return
		case pod.Gated:
			why.Message = heldBy(pod)
		case !refused:
			continue
		}
		if refusals[why.Message]++; refusals[why.Message] == 1 {
			order = append(order, why.Message)
		}
	}
	slices.Sort(order)
	free := 0
	for _, pod := range gang.Pods() {
		if pod.Schedulable() {
			free++
		}
	}
	if free >= gang.Need() {
		return // enough members remain
	}
	for _, message := range order {
		a.block(BlockRefused, fmt.Sprintf("%s: %s", Count(refusals[message], "member is held", "members are held"), message))
	}
}

// trial is one unit, and the ledger on which changes are tried.
type trial struct {
	*rehearsal
	dump   *Dump
	gang   *cluster.Unit
	unit   *queue.Unit
	answer *UnitAnswer
}

// look finds out whether the unit fits now, and if not, what is in its way.
func (t *trial) look() {
	a := t.answer
	if w := t.backoff(); w != nil {
		a.block(BlockBackoff, "it backs off until "+w.Until.Format(time.RFC3339))
	}
	ask, short, admitted := t.gate.Ask(t.unit)
	if !admitted {
		a.block(BlockQuota, t.gate.Condition(&short).Message)
	}
	roomy := t.finds(t.unit, ask, nil)
	if a.FitsNow = roomy && admitted; a.FitsNow {
		return
	}
	if roomy {
		return
	}
	if nodes, fits := t.opened(); fits && admitted {
		a.block(BlockReserved, fmt.Sprintf("it would fit if %s not reserved for units that have waited longer", Count(nodes, "node were", "nodes were")))
		return
	}
	t.lacksRoom(ask)
}

// backoff returns how a member waits that backs off.
func (t *trial) backoff() *Waiting {
	for i := range t.dump.Queue {
		w := &t.dump.Queue[i]
		if w.Namespace == t.gang.Namespace && w.Unit == t.gang.Name && w.State == WaitingBackoff {
			return w
		}
	}
	return nil
}

// lacksRoom tells why no nodes take the unit.
func (t *trial) lacksRoom(ask *pack.Ask) {
	defer t.opens(t.unit)()
	e := t.decider().ExplainUnit(ask)
	t.answer.Explanation = &e
	kind := BlockRoom
	if e.Unpacked() {
		kind = BlockTopology
	}
	t.answer.block(kind, e.String())
}

// decider decides on the unit by its profile.
func (t *trial) decider() *profiles.Decider { return t.placers.For(t.unit.Members()[0]) }

// opened reports whether the unit would fit if nothing were kept for others, neither nodes nor limits; and how many nodes are.
func (t *trial) opened() (nodes int, fits bool) {
	claims := t.gate.Claims.Len()
	defer t.gate.Claims.Suspend()()
	ask, _, admitted := t.gate.Ask(t.unit)
	if !admitted {
		return 0, false
	}
	snapshot := t.snapshot
	snapshot.Advance(t.store)
	mark := snapshot.Mark()
	defer snapshot.Rollback(mark)
	for slot := range cluster.Slot(snapshot.Slots()) {
		if snapshot.Node(slot) != nil && snapshot.Reservation(slot) != cluster.NoReservation {
			snapshot.Open(slot)
			nodes++
		}
	}
	if nodes == 0 && claims == 0 {
		return 0, false
	}
	_, fits = t.decider().PlaceUnit(ask)
	return nodes, fits
}
