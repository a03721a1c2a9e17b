package cluster

import (
	"maps"
	"slices"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/quota"
	"hilbert.dev/hilbert/resource"
)

// MaxIdleClasses bounds the classes that are remembered though no pod refers to them, so that a class that comes and goes keeps its ID
// and with it the indexes built for it.
const MaxIdleClasses = 1024

// Store is the ledger. It has a single writer: its methods must not run beside one another.
type Store struct {
	State
	slots   map[string]Slot
	vacant  []Slot
	pods    map[facts.UID]*Pod
	onSlot  [][]*Pod          // pods charged to each slot
	orphans map[string][]*Pod // bound to a node that is not known
	guesses []int32           // pods on each slot that hold something which is guessed

	reports  map[string]*reported // by node
	promises Promises

	lent      [facts.ReclaimedKinds]resource.Kind // that only reports give; 0: not met yet
	evictions EvictionRequests
	reclaimed int // pods of the level on known nodes

	bases     map[string]*base
	idle      int // classes without pods
	nextClass ClassID

	selection selection
	budgets   budgetBook
	recheck   []*Pod // what they wait for may have changed
	victimLog Log

	units unitBook

	quota       *quota.Tree
	inJudgement bool // a Plan is being judged: what is freed now was taken by the judgement itself

	effects []Effect
	scratch []byte
}

// NewStore returns an empty ledger. The defaults spread the pods that have no constraint of their own.
func NewStore(defaults ...facts.SpreadDefault) *Store {
	s := &Store{
		slots:     make(map[string]Slot),
		pods:      make(map[facts.UID]*Pod),
		orphans:   make(map[string][]*Pod),
		reports:   make(map[string]*reported),
		evictions: EvictionRequests{byNode: make(map[string][]facts.EvictionRequest)},
		bases:     make(map[string]*base),

		budgets: budgetBook{byKey: make(map[budgetKey]*facts.Budget)},
	}
	s.selection = newSelection(defaults)
	s.kinds, s.registry, s.images = resource.NewTable(), newRegistry(), make(map[string]imageCount)
	s.selection.registry = s.registry
	s.growKinds()
	s.units.byName = make(map[facts.UnitName]*Unit)
	s.quota = quota.NewTree(s.kinds, func(namespace string) []facts.Label { return s.selection.namespaces[namespace] })
	s.growKinds()
	return s
}

// Revision counts the changes so far.
func (s *Store) Revision() Revision { return s.log.Len() }

// Pod returns the record of a pod, nil when it is not known.
func (s *Store) Pod(uid facts.UID) *Pod { return s.pods[uid] }

// Pods is the number of pods known.
func (s *Store) Pods() int { return len(s.pods) }

// Nodes is the number of nodes known.
func (s *Store) Nodes() int { return len(s.slots) }

// Slot returns the slot of a node, NoSlot when it is not known.
func (s *Store) Slot(node string) Slot {
	if slot, ok := s.slots[node]; ok {
		return slot
	}
	return NoSlot
}

// PodsOn returns the pods charged to a slot; the caller must not change the slice.
func (s *Store) PodsOn(slot Slot) []*Pod { return s.onSlot[slot] }

// Apply takes in what a door saw and returns what it did to pods. The slice is valid until the next call.
func (s *Store) Apply(event facts.Event) []Effect {
	s.effects = s.effects[:0]
	switch e := event.(type) {
	case facts.NodeUpserted:
		s.upsertNode(e.Node)
	case facts.NodeRemoved:
		s.removeNode(e.Name)
	case facts.PodUpserted:
		s.upsertPod(&e.Pod)
	case facts.PodRemoved:
		s.removePod(e.UID)
	case facts.NodesListed:
		s.listNodes(e.Nodes)
	case facts.PodsListed:
		s.listPods(e.Pods)
	case facts.NodeReported:
		s.report(e.Node, e.Report)
	case facts.NodeReportRemoved:
		s.report(e.Node, nil)
	case facts.ReportsListed:
		s.listReports(e.Reports)
	default:
		s.applyPolicy(event)
	}
	s.recheckPods()
	return s.effects
}

// applyPolicy takes in what is neither a node nor a pod.
func (s *Store) applyPolicy(event facts.Event) {
	switch e := event.(type) {
	case facts.NamespaceUpserted:
		s.setNamespace(e.Namespace.Name, e.Namespace.Labels, true)
	case facts.NamespaceRemoved:
		s.setNamespace(e.Name, nil, false)
	case facts.NamespacesListed:
		s.listNamespaces(e.Namespaces)
	case facts.WorkloadUpserted:
		s.upsertWorkload(e.Workload)
	case facts.WorkloadRemoved:
		s.removeWorkload(workloadKey{e.Kind, e.Namespace, e.Name})
	case facts.WorkloadsListed:
		s.listWorkloads(e.Kind, e.Workloads)
	case facts.UnitUpserted:
		s.upsertUnit(e.Unit)
	case facts.UnitRemoved:
		s.removeUnit(e.Name)
	case facts.UnitsListed:
		s.listUnits(e.Units)
	case facts.QueueUpserted:
		s.tell(s.quota.Upsert(e.Queue)...)
	case facts.QueueRemoved:
		s.tell(s.quota.Remove(e.Name)...)
	case facts.QueuesListed:
		s.tell(s.quota.Replace(e.Queues)...)
	case facts.BudgetUpserted:
		s.setBudget(keyOfBudget(e.Budget), e.Budget)
	case facts.BudgetRemoved:
		s.setBudget(budgetKey{e.Namespace, e.Name}, nil)
	case facts.BudgetsListed:
		s.listBudgets(e.Budgets)
	}
}

func (s *Store) listNodes(nodes []*facts.Node) {
	listed := make(map[string]bool, len(nodes))
	for _, n := range nodes {
		listed[n.Name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(s.slots)) {
		if !listed[name] {
			s.removeNode(name)
		}
	}
	for _, n := range nodes {
		s.upsertNode(n)
	}
}

func (s *Store) listPods(pods []facts.Pod) {
	listed := make(map[facts.UID]bool, len(pods))
	for i := range pods {
		listed[pods[i].UID] = true
	}
	for _, uid := range slices.Sorted(maps.Keys(s.pods)) {
		if !listed[uid] {
			s.removePod(uid)
		}
	}
	for i := range pods {
		s.upsertPod(&pods[i])
	}
}

func (s *Store) note(slot Slot, kind ChangeKind) {
	s.log.append(Change{slot, kind})
	s.touched[slot] = s.log.Len()
}

func (s *Store) upsertNode(n *facts.Node) {
	slot, known := s.slots[n.Name]
	if known && facts.SameNode(s.nodes[slot], n) {
		return
	}
	if !known {
		slot = s.takeSlot()
		s.slots[n.Name] = slot
	}
	if known && facts.SameButImages(s.nodes[slot], n) {
		s.setNode(slot, n)
		s.note(slot, Reimaged)
		return
	}
	s.setAllocatable(slot, n)
	s.provideGPUs(slot, -1)
	regpu := s.nodes[slot] == nil || s.nodes[slot].GPU != n.GPU
	s.setNode(slot, n)
	if r := s.reports[n.Name]; r != nil && !known {
		s.row(slot).report = r.NodeReport
	}
	if s.reshape(slot) || regpu {
		s.recount(slot)
	}
	s.provideGPUs(slot, 1)
	if orphans := s.orphans[n.Name]; !known && len(orphans) > 0 {
		delete(s.orphans, n.Name)
		for _, pod := range orphans {
			s.attach(pod, slot)
		}
	}
	s.note(slot, Redefined|Freed|Charged)
}

func (s *Store) takeSlot() Slot {
	if n := len(s.vacant); n > 0 {
		slot := s.vacant[n-1]
		s.vacant = s.vacant[:n-1]
		return slot
	}
	s.onSlot = append(s.onSlot, nil)
	s.guesses = append(s.guesses, 0)
	return s.addSlot()
}

func (s *Store) setAllocatable(slot Slot, n *facts.Node) {
	s.provide(slot, -1)
	for kind := range s.allocatable {
		s.allocatable[kind][slot] = 0
	}
	for _, q := range n.Allocatable {
		if facts.IsReclaimed(q.Name) {
			continue
		}
		kind, err := s.kinds.Intern(q.Name)
		if err != nil {
			continue // the table is full: nobody can be given this resource, which is safe
		}
		s.growKinds()
		s.allocatable[kind][slot] = q.Amount
	}
	s.provide(slot, 1)
	s.relend(slot, n.Name)
}

func (s *Store) removeNode(name string) {
	slot, known := s.slots[name]
	if !known {
		return
	}
	for _, pod := range s.onSlot[slot] {
		s.spend(pod, -1)
		s.promises.count(pod, -1)
		s.countReclaimed(pod, -1)
		pod.slot = NoSlot
		pod.recall() // what is a guess is guessed anew should the node come back
		s.orphans[name] = append(s.orphans[name], pod)
	}
	s.onSlot[slot] = nil
	s.guesses[slot] = 0
	s.provide(slot, -1)
	s.provideGPUs(slot, -1)
	s.vacate(slot)
	delete(s.slots, name)
	s.vacant = append(s.vacant, slot)
	s.note(slot, Redefined|Charged)
}

func (s *Store) upsertPod(seen *facts.Pod) {
	pod := s.pods[seen.UID]
	if pod == nil {
		if seen.Node == "" && !seen.Ours || seen.Finished && (!seen.Ours || seen.Unit == "") {
			return // somebody else's business, or nobody's any more; but a unit remembers who is done
		}
		pod = &Pod{UID: seen.UID, Namespace: seen.Namespace, Name: seen.Name, Created: seen.Created, slot: NoSlot}
		s.enter(pod)
	}
	if seen.Node == "" && !seen.Finished && (pod.Phase == Bound || pod.Phase == Assumed) {
		// Older than what we know: a bound pod never becomes unbound. While a Binding is under way only its deletion matters, and where
		// it was nominated for if it comes to nothing.
		pod.Nominated = seen.Nominated
		if seen.Deleting && !pod.Deleting {
			s.retally(pod, func() { s.units.setDeleting(pod, true) })
			if pod.Obliged() {
				s.emit(pod) // nobody need leave for it any more
			}
		}
		return
	}
	s.observe(pod, seen)
	class := s.classify(pod, seen.Node == "" && !seen.Finished)
	switch {
	case seen.Finished:
		s.unplace(pod)
		s.reclass(pod, class)
		s.units.setPhase(pod, Finished)
	case seen.Node != "":
		s.observeBound(pod, class, seen)
	default:
		s.reclass(pod, class)
	}
	s.emit(pod)
}

// observe records what a pod says about itself, apart from where it is.
func (s *Store) observe(pod *Pod, seen *facts.Pod) {
	s.units.join(pod, seen.UnitName())
	priority := pod.Unit.priorityOf(seen.Priority)
	if pod.Priority != priority || pod.Started != seen.Started {
		s.noteVictims(pod.slot)
	}
	pod.own, pod.Subgroup, pod.Deadline = seen.Priority, seen.Subgroup, seen.Deadline
	pod.Priority, pod.Ours, pod.Gated, pod.Reported = priority, seen.Ours, seen.Gated, seen.Reported
	pod.Started, pod.NeverPreempts, pod.Nominated = seen.Started, seen.NeverPreempts, seen.Nominated
	pod.requirements, pod.owner = seen.Requirements, seen.Owner
	id := s.selection.identify(seen.Namespace, seen.Labels)
	switch {
	case pod.identity == nil:
		s.selection.set(pod, id)
		s.units.setDeleting(pod, seen.Deleting)
	case pod.identity != id || pod.Deleting != seen.Deleting:
		s.retally(pod, func() {
			s.selection.set(pod, id)
			s.units.setDeleting(pod, seen.Deleting)
		})
	}
}

// observeBound charges a pod where it was seen, moving it if the ledger had it elsewhere.
func (s *Store) observeBound(pod *Pod, class *Class, seen *facts.Pod) {
	promise := seen.Grant
	normalize(&promise)
	known := pod.Class != nil && pod.Class.base == class.base && pod.node == seen.Node
	if known {
		before, _ := pod.Promise()
		take(&promise, &before, class.lacking(&promise)) // an update that says nothing new
		known = promise == before
	}
	if !known {
		s.unplace(pod)
		s.reclass(pod, class)
		s.place(pod, seen.Node, &promise)
	}
	s.spare(pod)
	s.units.setPhase(pod, Bound)
}

func (s *Store) emit(pod *Pod) {
	effect := Effect{Kind: Settled, Pod: pod}
	switch {
	case pod.Schedulable():
		effect.Kind = Waits
	case pod.wants():
		effect.Kind = Held
	}
	s.effects = append(s.effects, effect)
}

func (s *Store) removePod(uid facts.UID) {
	pod := s.pods[uid]
	if pod == nil {
		return
	}
	s.unplace(pod)
	s.reclass(pod, nil)
	s.units.join(pod, facts.UnitName{})
	s.selection.set(pod, nil)
	s.quota.Leave(pod.tenant)
	delete(s.pods, uid)
	s.effects = append(s.effects, Effect{Kind: Settled, Pod: pod, Gone: true})
}

// EachPod visits every record, in no particular order.
func (s *Store) EachPod(visit func(*Pod)) {
	for _, pod := range s.pods {
		visit(pod)
	}
}

// enter files the record of a pod that was not known.
func (s *Store) enter(pod *Pod) {
	s.pods[pod.UID] = pod
	pod.tenant = s.quota.Join(pod.Namespace)
}
