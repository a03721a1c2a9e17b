package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/dra"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/quota"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

// Dump is everything that a Store knows, as values. A Store that is loaded from it gives the same answers to every question about
// placement; only its slots, IDs and log are its own. What it points to is shared with the Store and immutable.
type Dump struct {
	// Revision of the Store that was dumped.
	Revision changes.Revision
	// Resources are the names in the order in which they were interned: which ones found room decides which pods can be placed.
	Resources []string
	Defaults  []facts.SpreadDefault
	// MaxWaitingClasses bounds the pods that are taken in; 0: nothing does.
	MaxWaitingClasses int

	Namespaces []facts.Namespace
	Workloads  []*facts.Workload
	Budgets    []*facts.Budget
	Queues     []*facts.Queue
	Units      []UnitRecord
	Nodes      []*facts.Node // in slot order
	Pods       []PodRecord
	// Placeholders are the Reservations, with how their places stand. Files that are older have the placeholders alone, among the pods: nobody may have their room.
	Placeholders []PlaceholdersRecord
	// Reservations are the nodes that are kept free.
	Reservations []ReservationRecord
	// Reports are what the nodes' agents say, of nodes that are not known too.
	Reports []facts.NodeReported
	// Storage are the claims, volumes and classes that pods' volumes depend on, by name.
	Storage []facts.StorageObject
	// DRA are the claims of devices, the devices and their classes, by kind and name. A claim has what the ledger has promised it.
	DRA []facts.DRAObject

	allocator dra.Allocator
}

// Allocator is who chooses devices; nil: nobody.
func (d *Dump) Allocator() dra.Allocator { return d.allocator }

// SetAllocator sets who chooses devices on what Load makes of the Dump; without one nobody is given any.
func (d *Dump) SetAllocator(a dra.Allocator) { d.allocator = a }

// PodRecord is a pod of the ledger. Facts.Node is where it is charged or bound; Facts.Grant what it was given by its Binding, without what is a guess.
type PodRecord struct {
	Facts facts.Pod
	Phase Phase
	// HeldBack: too many others wait that are unlike it, see package waiting.
	HeldBack bool
	// Victims of its Plan that have not left.
	Victims []facts.UID
	// Placeholder: it is a place that a Reservation keeps, see Dump.Placeholders.
	Placeholder bool
}

// UnitRecord is a unit of the ledger: its PodGroup, and what is remembered of members that may be gone. Its members say themselves that they
// are.
type UnitRecord struct {
	Facts facts.Unit // of one that is not Known nothing but the name
	Known bool       // there is a PodGroup
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
		Facts: facts.Pod{
			UID: p.UID, Namespace: p.Namespace, Name: p.Name, Created: p.Created, Priority: p.own, Ours: p.Ours, Profile: p.Profile, Node: p.node,
			Finished: p.Phase == Finished, Deleting: p.Deleting, Gated: p.Gated, Mirror: p.mirror, Owner: p.owner, Started: p.Started, Scheduled: p.Scheduled,
			NeverPreempts: p.NeverPreempts, Nominated: p.Nominated, Requirements: p.requirements, Reported: p.Reported,
			Subgroup: p.Subgroup, Deadline: p.Deadline, Consent: p.consent,
		},
		Phase: p.Phase, Placeholder: p.placeholder,
	}
	if p.Unit != nil {
		r.Facts.Unit = p.Unit.Name
	}
	if p.Class != nil {
		r.HeldBack = p.Class.HeldBack != ""
	}
	if p.identity != nil {
		r.Facts.Labels = p.identity.Labels
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
	d := &Dump{Revision: s.Revision(), Defaults: s.selection.defaults, MaxWaitingClasses: s.classifier.waiting.Most(), Pods: make([]PodRecord, 0, len(s.pods.byUID))}
	for kind := range s.kinds.Len() {
		if name := s.kinds.Name(resource.Kind(kind)); name != "" {
			d.Resources = append(d.Resources, name)
		}
	}
	for name, labels := range s.selection.namespaces {
		d.Namespaces = append(d.Namespaces, facts.Namespace{Name: name, Labels: labels})
	}
	for _, w := range s.selection.workloads {
		d.Workloads = append(d.Workloads, w)
	}
	for _, b := range s.budgets.byKey {
		d.Budgets = append(d.Budgets, b)
	}
	s.quota.Each(func(q *quota.Queue) {
		if q.Facts != nil {
			d.Queues = append(d.Queues, q.Facts)
		}
	})
	for _, u := range s.units.byName {
		if u.Facts != nil || u.done > 0 {
			d.Units = append(d.Units, u.record())
		}
	}
	for slot, n := range s.nodes {
		if n != nil {
			d.Nodes = append(d.Nodes, s.nodeBook.said(n))
		}
		if by := s.reserved[slot]; by != NoReservation {
			d.Reservations = append(d.Reservations, ReservationRecord{n.Name, by})
		}
	}
	d.Reports = s.grants.said()
	d.Storage = s.volumes.Objects()
	d.DRA = s.claims.dra.Objects()
	d.Placeholders = s.placeholders.records()
	rooms := s.placeholders.rooms()
	for _, pod := range s.pods.byUID {
		r := pod.Record()
		r.Facts.Claims = s.volumes.Uses(pod.UID)
		r.Facts.ResourceClaims, r.Facts.Extended = s.claims.dra.Uses(pod.UID), s.claims.dra.Extended(pod.UID)
		r.Facts.Controller, r.Facts.Placeholder = s.placeholders.controllers[pod.UID], rooms[pod]
		d.Pods = append(d.Pods, r)
	}
	return d
}

func (u *Unit) record() UnitRecord {
	r := UnitRecord{Facts: facts.Unit{UnitName: u.UnitName}, Known: u.Facts != nil, Reached: u.reached, Done: u.done}
	if r.Known {
		r.Facts = *u.Facts
	}
	return r
}

// Sort puts everything but the nodes and the resources in order of its name; pods in order of their UID.
func (d *Dump) Sort() {
	slices.SortFunc(d.Namespaces, func(a, b facts.Namespace) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(d.Workloads, func(a, b *facts.Workload) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	slices.SortFunc(d.Budgets, func(a, b *facts.Budget) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	slices.SortFunc(d.Queues, func(a, b *facts.Queue) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(d.Units, func(a, b UnitRecord) int { return facts.CompareUnitNames(a.Facts.UnitName, b.Facts.UnitName) })
	slices.SortFunc(d.Placeholders, func(a, b PlaceholdersRecord) int { return cmp.Compare(a.Facts.UID, b.Facts.UID) })
	slices.SortFunc(d.Reservations, func(a, b ReservationRecord) int { return strings.Compare(a.Node, b.Node) })
	slices.SortFunc(d.Reports, func(a, b facts.NodeReported) int { return strings.Compare(a.Node, b.Node) })
	slices.SortFunc(d.Pods, func(a, b PodRecord) int { return strings.Compare(string(a.Facts.UID), string(b.Facts.UID)) })
}

// Named returns the UIDs of the pods of that name, sorted: for a moment there may be two, one that is gone and its successor.
func (d *Dump) Named(namespace, name string) []facts.UID {
	var found []facts.UID
	for i := range d.Pods {
		if f := &d.Pods[i].Facts; f.Namespace == namespace && f.Name == name {
			found = append(found, f.UID)
		}
	}
	slices.Sort(found)
	return found
}

// Load makes a Store of a Dump. The errors name what contradicts itself.
func Load(d *Dump) (*Store, error) {
	s := NewStore(d.Defaults...)
	l := loader{s}
	if d.allocator != nil {
		s.claims.dra.SetAllocator(d.allocator)
	}
	if err := d.check(); err != nil {
		return nil, err
	}
	for _, name := range d.Resources { // they keep their order; those that nothing else names go in the end
		s.kinds.Use(name)
	}
	s.fitKinds()
	s.Apply(facts.NamespacesListed{Namespaces: d.Namespaces})
	for _, w := range d.Workloads {
		s.Apply(facts.WorkloadUpserted{Workload: w})
	}
	s.Apply(facts.BudgetsListed{Budgets: d.Budgets})
	s.Apply(facts.QueuesListed{Queues: d.Queues})
	for i := range d.Units {
		if d.Units[i].Known {
			s.Apply(facts.UnitUpserted{Unit: &d.Units[i].Facts})
		}
	}
	s.Apply(facts.ReportsListed{Reports: d.Reports})
	for _, n := range d.Nodes {
		s.Apply(facts.NodeUpserted{Node: n})
	}
	for _, o := range d.Storage {
		s.Apply(facts.StorageUpserted{Object: o})
	}
	for _, o := range d.DRA {
		s.Apply(facts.DRAUpserted{Object: o})
	}
	s.classifier.waiting.SetMost(d.MaxWaitingClasses)
	l.pods(d.Pods)
	for i := range d.Pods {
		pod := s.pods.byUID[d.Pods[i].Facts.UID]
		for _, uid := range d.Pods[i].Victims {
			victim := s.pods.byUID[uid]
			pod.victims, victim.claims = append(pod.victims, victim), append(victim.claims, pod)
		}
	}
	l.units(d.Units)
	if err := l.placeholders(d.Placeholders); err != nil {
		return nil, err
	}
	for _, r := range d.Reservations {
		s.Reserve([]Slot{s.slots.byNode[r.Node]}, r.By)
	}
	for _, name := range d.Resources {
		s.kinds.Release(name)
	}
	s.settleKinds()
	s.classifier.recheck()
	s.classifier.takeIn()
	s.effects.reset()
	return s, nil
}

// loader fills an empty Store from a Dump.
type loader struct{ s *Store }

// units restores what units remember beyond their members.
func (l loader) units(units []UnitRecord) {
	for _, u := range l.s.units.byName {
		u.reached, u.done = false, 0
	}
	for i := range units {
		u := l.s.units.get(units[i].Facts.UnitName)
		u.reached, u.done = units[i].Reached, units[i].Done
		l.s.units.drop(u)
	}
}

// pods enters the pods: first those that have a place. Those that were held back come last, and are held back again.
func (l loader) pods(pods []PodRecord) {
	defer func() { l.s.classifier.restores = false }()
	turns := []func(*PodRecord) bool{
		func(r *PodRecord) bool { return r.Phase != Pending },
		func(r *PodRecord) bool { return r.Phase == Pending && !r.HeldBack },
		func(r *PodRecord) bool { return r.Phase == Pending && r.HeldBack },
	}
	for n, turn := range turns {
		l.s.classifier.restores = n < len(turns)-1
		for i := range pods {
			if turn(&pods[i]) {
				l.pod(&pods[i])
				l.s.claims.settle()
				l.s.classifier.recheck()
				l.s.classifier.takeIn()
			}
		}
	}
}

// pod enters a pod as it was recorded.
func (l loader) pod(r *PodRecord) {
	f := &r.Facts
	pod := &Pod{UID: f.UID, Namespace: f.Namespace, Name: f.Name, Created: f.Created, slot: NoSlot, placeholder: r.Placeholder}
	l.s.pods.file(pod)
	if !f.Finished {
		l.s.claims.enter(pod, f)
		l.s.claims.use(pod, f)
	}
	l.s.observe(pod, f)
	pod.Phase = r.Phase // its class depends on it
	class := l.s.classifier.classify(pod, r.Phase == Pending || r.Phase == Assumed)
	pod.Phase = Pending
	l.s.classifier.refer(pod, class)
	if f.Node != "" {
		slot, ok := l.s.slots.byNode[f.Node]
		if r.Phase != Assumed || !ok || !l.s.claims.takeVolumes(pod, slot, func(facts.UID) bool { return true }) {
			l.s.claims.hold(pod)
		}
		l.s.place(pod, f.Node, &f.Grant)
	}
	l.s.units.setPhase(pod, r.Phase)
	l.s.placeholders.follow(pod, f)
	l.s.classifier.count(pod)
}

// check returns the first contradiction.
func (d *Dump) check() error {
	nodes := make(map[string]bool, len(d.Nodes))
	for _, n := range d.Nodes {
		if n.Name == "" || nodes[n.Name] {
			return fmt.Errorf("node %q: the name is empty or stands twice", n.Name)
		}
		nodes[n.Name] = true
		if n.GPU.Devices != nil {
			return fmt.Errorf("node %q: it names devices, which are its agent's to name", n.Name)
		}
	}
	pods := make(map[facts.UID]*PodRecord, len(d.Pods))
	for i := range d.Pods {
		r := &d.Pods[i]
		if r.Facts.UID == "" || pods[r.Facts.UID] != nil {
			return fmt.Errorf("pod %s/%s: the UID %q is empty or stands twice", r.Facts.Namespace, r.Facts.Name, r.Facts.UID)
		}
		if err := r.check(); err != nil {
			return fmt.Errorf("pod %s/%s: %w", r.Facts.Namespace, r.Facts.Name, err)
		}
		pods[r.Facts.UID] = r
	}
	for i := range d.Pods {
		for _, uid := range d.Pods[i].Victims {
			if victim := pods[uid]; victim == nil || victim.Facts.Node == "" || d.Pods[i].Phase != Assumed {
				return fmt.Errorf("pod %s waits for %q to leave its node, which is not there", d.Pods[i].Facts.UID, uid)
			}
		}
	}
	if err := d.checkReports(); err != nil {
		return err
	}
	stored := make(map[facts.StorageName]bool, len(d.Storage))
	for _, o := range d.Storage {
		if name := o.StorageName(); name.Name == "" || stored[name] {
			return fmt.Errorf("storage %+v: the name is empty or stands twice", name)
		}
		stored[o.StorageName()] = true
	}
	devices := make(map[facts.DRAName]bool, len(d.DRA))
	for _, o := range d.DRA {
		if name := o.DRAName(); name.Name == "" || devices[name] {
			return fmt.Errorf("devices %+v: the name is empty or stands twice", name)
		}
		devices[o.DRAName()] = true
	}
	return d.checkBooks(nodes)
}

// checkBooks returns the first contradiction among queues, units and reservations.
func (d *Dump) checkBooks(nodes map[string]bool) error {
	queues := make(map[string]bool, len(d.Queues))
	for _, q := range d.Queues {
		if q.Name == facts.RootQueue || queues[q.Name] {
			return fmt.Errorf("queue %q: the name is empty or stands twice", q.Name)
		}
		queues[q.Name] = true
	}
	units := make(map[facts.UnitName]bool, len(d.Units))
	for i := range d.Units {
		u := &d.Units[i]
		switch name := u.Facts.UnitName; {
		case name.Name == "" || units[name]:
			return fmt.Errorf("unit %q: the name is empty or stands twice", name)
		case u.Done < 0:
			return fmt.Errorf("unit %q: %d members are done", name, u.Done)
		case !u.Known && u.Reached:
			return fmt.Errorf("unit %q: it was whole, and there is no PodGroup to say how much that is", name)
		}
		units[u.Facts.UnitName] = true
	}
	reserved := make(map[string]bool, len(d.Reservations))
	for _, r := range d.Reservations {
		if !nodes[r.Node] || reserved[r.Node] || r.By == NoReservation {
			return fmt.Errorf("reservation %d of node %q: the node is not there, or reserved twice, or for nobody", r.By, r.Node)
		}
		reserved[r.Node] = true
	}
	return nil
}

func (r *PodRecord) check() error {
	placed := r.Phase == Assumed || r.Phase == Bound
	switch {
	case r.Facts.Requirements == nil:
		return errors.New("it has no requirements")
	case r.Phase > Finished:
		return fmt.Errorf("%d is no phase", r.Phase)
	case placed != (r.Facts.Node != ""):
		return fmt.Errorf("it is %s, and its node is %q", r.Phase, r.Facts.Node)
	case (r.Phase == Finished) != r.Facts.Finished:
		return fmt.Errorf("it is %s, and finished: %v", r.Phase, r.Facts.Finished)
	case r.Facts.Grant.Milli < 0 || r.Facts.Grant.Milli > topology.FullGPU:
		return fmt.Errorf("%+v are no GPUs", r.Facts.Grant)
	}
	return nil
}

// checkReports returns the first contradiction among what nodes say.
func (d *Dump) checkReports() error {
	named := make(map[string]bool, len(d.Reports))
	for _, r := range d.Reports {
		switch {
		case r.Node == "" || named[r.Node]:
			return fmt.Errorf("report of node %q: the name is empty or stands twice", r.Node)
		case r.Report == nil:
			return fmt.Errorf("report of node %q: it says nothing", r.Node)
		case r.Report.Headroom.MilliCPU < 0 || r.Report.Headroom.Memory < 0:
			return fmt.Errorf("report of node %q: its headroom is negative", r.Node)
		case !slices.IsSortedFunc(r.Report.Held, func(a, b facts.HeldNUMA) int { return cmp.Or(cmp.Compare(a.UID, b.UID), -1) }):
			return fmt.Errorf("report of node %q: what pods hold is not sorted by UID, or one stands twice", r.Node)
		case !slices.IsSortedFunc(r.Report.HeldDevices, func(a, b facts.HeldDevices) int { return cmp.Or(cmp.Compare(a.UID, b.UID), -1) }):
			return fmt.Errorf("report of node %q: what pods hold of devices is not sorted by UID, or one stands twice", r.Node)
		case !slices.IsSortedFunc(r.Report.HeldResources, func(a, b facts.HeldResources) int { return cmp.Or(cmp.Compare(a.UID, b.UID), -1) }):
			return fmt.Errorf("report of node %q: what pods hold of plugins' resources is not sorted by UID, or one stands twice", r.Node)
		case !topology.SortedResources(r.Report.ByNUMANode) || len(r.Report.ByNUMANode) > topology.MaxResources:
			return fmt.Errorf("report of node %q: plugins' resources by NUMA node are more than %d, not sorted by name, or one stands twice", r.Node, topology.MaxResources)
		}
		named[r.Node] = true
	}
	return nil
}
