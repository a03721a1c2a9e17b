package cluster

import (
	"cmp"
	"slices"
	"strings"

	"hilbert.dev/hilbert/resource"
)

// Dump is everything that a Store knows, as values. A Store that is loaded from it gives the same answers to every question about
// placement; only its slots, IDs and log are its own. What it points to is shared with the Store and immutable.
type Dump struct {
	// Revision of the Store that was dumped.
	Revision Revision
	// Resources are the names in the order in which they were interned: which ones found room decides who can be placed.
	Resources []string
	Defaults  []SpreadDefault

	Namespaces []Namespace
	Workloads  []*Workload
	Budgets    []*Budget
	Queues     []*QueueFacts
	Units      []UnitRecord
	Nodes      []*Node // in slot order
	Pods       []PodRecord
	// Reservations are the nodes that are kept free.
	Reservations []ReservationRecord
	// Reports are what the nodes' agents say, of nodes that are not known too.
	Reports []NodeReported
}

// PodRecord is a pod of the ledger. Facts.Node is where it is charged or bound; Facts.Grant what it was given by its Binding, without what is a guess.
type PodRecord struct {
	Facts PodFacts
	Phase Phase
	// Victims of its Plan that have not left.
	Victims []UID
}

// UnitRecord is a unit of the ledger: its PodGroup, and what is remembered of members that may be gone. Its members say themselves that they
// are.
type UnitRecord struct {
	Facts UnitFacts // of one that is not Known nothing but the name
	Known bool      // there is a PodGroup
	// Reached: MinMember members had places at once. Done is how many members were seen to finish.
	Reached bool
	Done    int
}

// ReservationRecord is a node that is kept free, and the number of the unit that it is kept for.
type ReservationRecord struct {
	Node string
	By   ReservationID
}

// Record returns what is known of the pod.
func (p *Pod) Record() PodRecord {
	r := PodRecord{
		Facts: PodFacts{
			UID: p.UID, Namespace: p.Namespace, Name: p.Name, Created: p.Created, Priority: p.own, Ours: p.Ours, Node: p.node,
			Finished: p.Phase == Finished, Deleting: p.Deleting, Gated: p.Gated, Owner: p.owner, Started: p.Started,
			NeverPreempts: p.NeverPreempts, Nominated: p.Nominated, Requirements: p.requirements, Reported: p.Reported,
			Subgroup: p.Subgroup, Deadline: p.Deadline,
		},
		Phase: p.Phase,
	}
	if p.Unit != nil {
		r.Facts.Unit = p.Unit.Name
	}
	if p.identity != nil {
		r.Facts.Labels = p.identity.labels
	}
	r.Facts.Grant, _ = p.Promise()
	for _, victim := range p.victims {
		r.Victims = append(r.Victims, victim.UID)
	}
	return r
}

// Dump copies out what the Store knows. It costs time proportional to it, about half a microsecond a pod. The lists are in no particular order
// until Sort.
func (s *Store) Dump() *Dump {
	d := &Dump{Revision: s.Revision(), Defaults: s.spreadDefaults, Pods: make([]PodRecord, 0, len(s.pods))}
	for kind := range s.kinds.Len() {
		d.Resources = append(d.Resources, s.kinds.Name(resource.Kind(kind)))
	}
	for name, labels := range s.namespaces {
		d.Namespaces = append(d.Namespaces, Namespace{name, labels})
	}
	for _, w := range s.workloads {
		d.Workloads = append(d.Workloads, w)
	}
	for _, b := range s.budgets {
		d.Budgets = append(d.Budgets, b)
	}
	for _, q := range s.queues {
		if q.Facts != nil {
			d.Queues = append(d.Queues, q.Facts)
		}
	}
	for _, u := range s.units {
		if u.Facts != nil || u.done > 0 {
			d.Units = append(d.Units, u.record())
		}
	}
	for slot, n := range s.nodes {
		if n != nil {
			d.Nodes = append(d.Nodes, n)
		}
		if by := s.reserved[slot]; by != NoReservation {
			d.Reservations = append(d.Reservations, ReservationRecord{n.Name, by})
		}
	}
	d.Reports = s.dumpReports()
	for _, pod := range s.pods {
		d.Pods = append(d.Pods, pod.Record())
	}
	return d
}

func (u *Unit) record() UnitRecord {
	r := UnitRecord{Facts: UnitFacts{UnitName: u.UnitName}, Known: u.Facts != nil, Reached: u.reached, Done: u.done}
	if r.Known {
		r.Facts = *u.Facts
	}
	return r
}

// Sort puts everything but the nodes and the resources in order of its name; pods in order of their UID.
func (d *Dump) Sort() {
	slices.SortFunc(d.Namespaces, func(a, b Namespace) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(d.Workloads, func(a, b *Workload) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	slices.SortFunc(d.Budgets, func(a, b *Budget) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	slices.SortFunc(d.Queues, func(a, b *QueueFacts) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(d.Units, func(a, b UnitRecord) int { return compareUnitNames(a.Facts.UnitName, b.Facts.UnitName) })
	slices.SortFunc(d.Reservations, func(a, b ReservationRecord) int { return strings.Compare(a.Node, b.Node) })
	slices.SortFunc(d.Reports, func(a, b NodeReported) int { return strings.Compare(a.Node, b.Node) })
	slices.SortFunc(d.Pods, func(a, b PodRecord) int { return strings.Compare(string(a.Facts.UID), string(b.Facts.UID)) })
}

// Named returns the UIDs of the pods of that name, sorted: for a moment there may be two, one that is gone and its successor.
func (d *Dump) Named(namespace, name string) []UID {
	var found []UID
	for i := range d.Pods {
		if f := &d.Pods[i].Facts; f.Namespace == namespace && f.Name == name {
			found = append(found, f.UID)
		}
	}
	slices.Sort(found)
	return found
}
