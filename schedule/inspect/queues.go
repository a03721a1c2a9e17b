package inspect

import (
	"fmt"
	"time"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/quota"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/queue"
)

// QueueView is what waits: the queues, and in them the units and pods.
type QueueView struct {
	Revision changes.Revision `json:"revision"`
	// Queue is the one that was asked for, with all below it; empty: all.
	Queue string `json:"queue,omitempty"`
	// Counts of all pods, in every state; Pods are the first of them.
	Counts map[WaitingState]int `json:"counts"`
	// Queues are the tree: parents before children, siblings by name. It is empty while none is configured.
	Queues []QueueStatus `json:"queues,omitempty"`
	// Capacity is what the nodes have, by resource; it comes with Queues.
	Capacity map[string]int64 `json:"capacity,omitempty"`
	// Units are the first of the gangs and single pods that wait; empty while there are neither gangs nor queues.
	Units []WaitingUnit `json:"units,omitempty"`
	// MoreUnits wait that are not named.
	MoreUnits int       `json:"moreUnits,omitempty"`
	Pods      []Waiting `json:"pods"`
}

// WaitingUnit is a gang with members that wait, or a single pod that waits. A gang is listed once for each state of its members.
type WaitingUnit struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"` // of the PodGroup, or of the pod
	Gang      bool   `json:"gang,omitempty"`
	// Placeholder: it is no pod, but a place of the Reservation that it is named after.
	Placeholder bool   `json:"placeholder,omitempty"`
	Queue       string `json:"queue"`
	// Position in its queue, from 1, of the units that have a turn; 0: it has none, because it is placed already, backs off, gathers or is held.
	Position int          `json:"position,omitempty"`
	Priority int32        `json:"priority"`
	Created  time.Time    `json:"created"`
	State    WaitingState `json:"state"`
	// Waiting is how many of its pods are in that state.
	Waiting int `json:"waiting"`
	// Of a gang: how many of those that wait must be placed together, how many have places, and how many it takes to be whole.
	Need      int `json:"need,omitempty"`
	Placed    int `json:"placed,omitempty"`
	MinMember int `json:"minMember,omitempty"`
	// KeptNodes are reserved for it, and so is what becomes free of the limits of KeptQueues.
	KeptNodes  int       `json:"keptNodes,omitempty"`
	KeptQueues []string  `json:"keptQueues,omitempty"`
	Attempts   int       `json:"attempts,omitempty"`
	Until      time.Time `json:"until,omitzero"`
	Node       string    `json:"node,omitempty"` // binding: where to, or where the first goes
	Why        string    `json:"why,omitempty"`
}

// ViewOptions say what to look at.
type ViewOptions struct {
	// Limit bounds the pods, and the units, that are named.
	Limit int
	// Queue restricts the view to one queue and those below it; empty: all.
	Queue string
}

// NoQueue is the error about a queue that the ledger does not have.
type NoQueue struct{ Name string }

func (e *NoQueue) Error() string { return fmt.Sprintf("the scheduler knows no queue %q", e.Name) }

// View returns the queues and the first units and pods that wait. Where there are gangs or queues it makes a ledger of the dump, which costs about a
// second for 200,000 pods.
func (d *Dump) View(o ViewOptions) (*QueueView, error) {
	d.Sort()
	v := &QueueView{Revision: d.Ledger.Revision, Queue: o.Queue, Counts: d.Counts(), Pods: d.Queue[:min(o.Limit, len(d.Queue))]}
	if len(d.Ledger.Queues) == 0 && len(d.Ledger.Units) == 0 && o.Queue == "" {
		return v, nil
	}
	r, err := d.rehearse()
	if err != nil {
		return nil, err
	}
	return v, v.fill(d, r, o)
}

// fill takes in what only a ledger can tell.
func (v *QueueView) fill(d *Dump, r *rehearsal, o ViewOptions) error {
	within := r.store.Quota().Root()
	if o.Queue != "" {
		if within = r.store.Quota().Queue(o.Queue); within == nil {
			return &NoQueue{o.Queue}
		}
		v.restrict(d, r.store, within, o.Limit)
	}
	if r.store.Quota().Configured() {
		b := newQueueSums(r.store)
		within.Each(func(q *quota.Queue) { v.Queues = append(v.Queues, b.status(q)) })
		v.Capacity = make(map[string]int64)
		for kind := range resource.Kind(r.store.Kinds()) {
			if total := r.store.Quota().Capacity(kind); total > 0 {
				v.Capacity[r.store.KindName(kind)] = total
			}
		}
	}
	v.Units = d.units(r, within)
	v.MoreUnits = max(len(v.Units)-o.Limit, 0)
	v.Units = v.Units[:len(v.Units)-v.MoreUnits]
	return nil
}

// restrict leaves only the pods of a queue and those below it.
func (v *QueueView) restrict(d *Dump, store *cluster.Store, within *quota.Queue, limit int) {
	inside := insiders(store, within)
	clear(v.Counts)
	v.Pods = nil
	for i := range d.Queue {
		if w := &d.Queue[i]; inside(w.Namespace) {
			v.Counts[w.State]++
			if len(v.Pods) < limit {
				v.Pods = append(v.Pods, *w)
			}
		}
	}
	for _, state := range WaitingStates {
		v.Counts[state] += 0
	}
}

// insiders tells which namespaces feed a queue or one below it.
func insiders(store *cluster.Store, within *quota.Queue) func(namespace string) bool {
	known := make(map[string]bool)
	return func(namespace string) bool {
		in, ok := known[namespace]
		if !ok {
			for q := store.Quota().QueueOf(namespace); q != nil && !in; q = q.Parent() {
				in = q == within
			}
			known[namespace] = in
		}
		return in
	}
}

// units makes of the pods that wait the units that they are, in the order of the pods.
func (d *Dump) units(r *rehearsal, within *quota.Queue) (list []WaitingUnit) {
	type key struct {
		namespace, gang string
		state           WaitingState
	}
	at := make(map[key]int)
	inside := insiders(r.store, within)
	queued := make(map[facts.UID]*queue.Unit)
	for i := range d.Queue {
		if u := r.queue.Unit(d.Queue[i].UID); u != nil {
			queued[d.Queue[i].UID] = u
		}
	}
	turns := r.positions()
	for i := range d.Queue {
		w := &d.Queue[i]
		if !inside(w.Namespace) {
			continue
		}
		if k := (key{w.Namespace, w.Unit, w.State}); w.Unit != "" {
			if n, ok := at[k]; ok {
				list[n].Waiting++
				continue
			}
			at[k] = len(list)
		}
		unit := newWaitingUnit(w, r.store)
		if u := queued[w.UID]; u != nil {
			unit.Priority = u.Priority
			if w.State == WaitingActive || w.State == WaitingUnschedulable || w.State == WaitingQuota {
				unit.Position = turns[u]
			}
		}
		d.markKept(&unit)
		list = append(list, unit)
	}
	return list
}

func newWaitingUnit(w *Waiting, store *cluster.Store) WaitingUnit {
	unit := WaitingUnit{
		Namespace: w.Namespace, Name: w.Name, Queue: store.Quota().QueueOf(w.Namespace).Name, Priority: w.Priority, Created: w.Created, State: w.State,
		Waiting: 1, Attempts: w.Attempts, Until: w.Until, Node: w.Node, Why: w.Why, Placeholder: w.Placeholder,
	}
	if w.Unit == "" {
		return unit
	}
	unit.Name, unit.Gang = w.Unit, true
	if u := store.Units().Get(facts.UnitName{Namespace: w.Namespace, Name: w.Unit}); u != nil {
		unit.Need, unit.Placed, unit.MinMember = u.Need(), u.Placed(), u.MinMember()
		if u.Facts != nil && u.Facts.Prioritized {
			unit.Priority = u.Facts.Priority
		}
	}
	return unit
}

// markKept says what is kept for a unit.
func (d *Dump) markKept(unit *WaitingUnit) {
	if !unit.Gang || unit.State == WaitingBinding {
		return
	}
	for i := range d.Kept {
		k := &d.Kept[i]
		if k.Namespace != unit.Namespace || k.Name != unit.Name {
			continue
		}
		unit.KeptQueues = k.Queues
		for _, x := range d.Ledger.Reservations {
			if k.Reservation != cluster.NoReservation && x.By == k.Reservation {
				unit.KeptNodes++
			}
		}
	}
}
