package cluster

import (
	"maps"
	"slices"

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
	pods    map[UID]*Pod
	onSlot  [][]*Pod          // pods charged to each slot
	orphans map[string][]*Pod // bound to a node that is not known
	guesses []int32           // pods on each slot that hold something which is guessed

	reports  map[string]*reported // by node
	promises Promises

	lent       [ReclaimedKinds]resource.Kind // that only reports give; 0: not met yet
	wishing    map[string][]Wish             // by node
	wishSerial uint64
	reclaimed  int // pods of the level on known nodes

	bases     map[string]*base
	idle      int // classes without pods
	nextClass ClassID

	identities  map[string]*identity
	inNamespace map[string][]*identity
	namespaces  map[string][]Label
	workloads   map[workloadKey]*Workload
	services    map[string][]*Workload // by namespace
	budgets     map[budgetKey]*Budget
	covers      map[*identity][]*Budget // a cache of covering
	restless    []*Pod                  // what they wait for may have changed
	reranked    Log

	spreadDefaults []SpreadDefault

	units        map[UnitName]*Unit
	changedUnits []*Unit
	atomic       int // units that stand or fall together

	root         *Queue
	queues       map[string]*Queue
	tenants      map[string]*Tenant
	selectors    []*Queue // that select namespaces, by name
	configured   int      // queues that somebody has configured
	easings      uint64   // times that a queue was eased
	judging      bool     // a Plan is being judged: what is freed now was taken by the judgement itself
	dirtyQueues  []*Queue
	dirtyTenants []*Tenant
	replanted    bool
	capacity     []int64 // by Kind
	gpuKind      resource.Kind

	effects []Effect
	scratch []byte
}

// NewStore returns an empty ledger. The defaults spread the pods that have no constraint of their own.
func NewStore(defaults ...SpreadDefault) *Store {
	s := &Store{
		slots:   make(map[string]Slot),
		pods:    make(map[UID]*Pod),
		orphans: make(map[string][]*Pod),
		reports: make(map[string]*reported),
		wishing: make(map[string][]Wish),
		bases:   make(map[string]*base),

		identities:  make(map[string]*identity),
		inNamespace: make(map[string][]*identity),
		namespaces:  make(map[string][]Label),
		workloads:   make(map[workloadKey]*Workload),
		services:    make(map[string][]*Workload),
		budgets:     make(map[budgetKey]*Budget),

		spreadDefaults: defaults,
	}
	s.kinds, s.registry, s.images = resource.NewTable(), newRegistry(), make(map[string]imageCount)
	s.growKinds()
	s.initQueues()
	return s
}

// Revision counts the changes so far.
func (s *Store) Revision() Revision { return s.log.Len() }

// Pod returns the record of a pod, nil when it is not known.
func (s *Store) Pod(uid UID) *Pod { return s.pods[uid] }

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
func (s *Store) Apply(event Event) []Effect {
	s.effects = s.effects[:0]
	switch e := event.(type) {
	case NodeUpserted:
		s.upsertNode(e.Node)
	case NodeRemoved:
		s.removeNode(e.Name)
	case PodUpserted:
		s.upsertPod(&e.Pod)
	case PodRemoved:
		s.removePod(e.UID)
	case NodesListed:
		s.listNodes(e.Nodes)
	case PodsListed:
		s.listPods(e.Pods)
	case NodeReported:
		s.report(e.Node, e.Report)
	case NodeReportRemoved:
		s.report(e.Node, nil)
	case ReportsListed:
		s.listReports(e.Reports)
	default:
		s.applyPolicy(event)
	}
	s.settleRestless()
	return s.effects
}

// applyPolicy takes in what is neither a node nor a pod.
func (s *Store) applyPolicy(event Event) {
	switch e := event.(type) {
	case NamespaceUpserted:
		s.setNamespace(e.Namespace.Name, e.Namespace.Labels, true)
	case NamespaceRemoved:
		s.setNamespace(e.Name, nil, false)
	case NamespacesListed:
		s.listNamespaces(e.Namespaces)
	case WorkloadUpserted:
		s.upsertWorkload(e.Workload)
	case WorkloadRemoved:
		s.removeWorkload(workloadKey{e.Kind, e.Namespace, e.Name})
	case WorkloadsListed:
		s.listWorkloads(e.Kind, e.Workloads)
	case UnitUpserted:
		s.upsertUnit(e.Unit)
	case UnitRemoved:
		s.removeUnit(e.Name)
	case UnitsListed:
		s.listUnits(e.Units)
	case QueueUpserted:
		s.upsertQueue(e.Queue)
	case QueueRemoved:
		s.removeQueue(e.Name)
	case QueuesListed:
		s.listQueues(e.Queues)
	case BudgetUpserted:
		s.setBudget(e.Budget.key(), e.Budget)
	case BudgetRemoved:
		s.setBudget(budgetKey{e.Namespace, e.Name}, nil)
	case BudgetsListed:
		s.listBudgets(e.Budgets)
	}
}

func (s *Store) listNodes(nodes []*Node) {
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

func (s *Store) listPods(pods []PodFacts) {
	listed := make(map[UID]bool, len(pods))
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

func (s *Store) upsertNode(n *Node) {
	slot, known := s.slots[n.Name]
	if known && SameNode(s.nodes[slot], n) {
		return
	}
	if !known {
		slot = s.takeSlot()
		s.slots[n.Name] = slot
	}
	if known && sameButImages(s.nodes[slot], n) {
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

func (s *Store) setAllocatable(slot Slot, n *Node) {
	s.provide(slot, -1)
	for kind := range s.allocatable {
		s.allocatable[kind][slot] = 0
	}
	for _, q := range n.Allocatable {
		if isReclaimed(q.Name) {
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

// SameNode reports whether two observations of a node differ in nothing that placement looks at.
func SameNode(a, b *Node) bool { return slices.Equal(a.Images, b.Images) && sameButImages(a, b) }

func sameButImages(a, b *Node) bool {
	return slices.Equal(a.Features, b.Features) && a.Unschedulable == b.Unschedulable && a.GPU == b.GPU && slices.Equal(a.Allocatable, b.Allocatable) &&
		slices.Equal(a.Taints, b.Taints) && maps.Equal(a.Labels, b.Labels)
}

func (s *Store) upsertPod(facts *PodFacts) {
	pod := s.pods[facts.UID]
	if pod == nil {
		if facts.Node == "" && !facts.Ours || facts.Finished && (!facts.Ours || facts.Unit == "") {
			return // somebody else's business, or nobody's any more; but a unit remembers who is done
		}
		pod = &Pod{UID: facts.UID, Namespace: facts.Namespace, Name: facts.Name, Created: facts.Created, slot: NoSlot}
		s.enter(pod)
	}
	if facts.Node == "" && !facts.Finished && (pod.Phase == Bound || pod.Phase == Assumed) {
		// Older than what we know: a bound pod never becomes unbound. While a Binding is under way only its deletion matters, and where
		// it was nominated for if it comes to nothing.
		pod.Nominated = facts.Nominated
		if facts.Deleting && !pod.Deleting {
			s.retally(pod, func() { s.setDeleting(pod, true) })
			if pod.Obliged() {
				s.emit(pod) // nobody need leave for it any more
			}
		}
		return
	}
	s.observe(pod, facts)
	class := s.classify(pod, facts.Node == "" && !facts.Finished)
	switch {
	case facts.Finished:
		s.unplace(pod)
		s.reclass(pod, class)
		s.setPhase(pod, Finished)
	case facts.Node != "":
		s.observeBound(pod, class, facts)
	default:
		s.reclass(pod, class)
	}
	s.emit(pod)
}

// observe records what a pod says about itself, apart from where it is.
func (s *Store) observe(pod *Pod, facts *PodFacts) {
	s.join(pod, facts.unit())
	priority := pod.Unit.priorityOf(facts.Priority)
	if pod.Priority != priority || pod.Started != facts.Started {
		s.rerank(pod.slot)
	}
	pod.own, pod.Subgroup, pod.Deadline = facts.Priority, facts.Subgroup, facts.Deadline
	pod.Priority, pod.Ours, pod.Gated, pod.Reported = priority, facts.Ours, facts.Gated, facts.Reported
	pod.Started, pod.NeverPreempts, pod.Nominated = facts.Started, facts.NeverPreempts, facts.Nominated
	pod.requirements, pod.owner = facts.Requirements, facts.Owner
	id := s.identify(facts.Namespace, facts.Labels)
	switch {
	case pod.identity == nil:
		s.setIdentity(pod, id)
		s.setDeleting(pod, facts.Deleting)
	case pod.identity != id || pod.Deleting != facts.Deleting:
		s.retally(pod, func() {
			s.setIdentity(pod, id)
			s.setDeleting(pod, facts.Deleting)
		})
	}
}

// observeBound charges a pod where it was seen, moving it if the ledger had it elsewhere.
func (s *Store) observeBound(pod *Pod, class *Class, facts *PodFacts) {
	promise := facts.Grant
	normalize(&promise)
	known := pod.Class != nil && pod.Class.base == class.base && pod.node == facts.Node
	if known {
		before, _ := pod.Promise()
		take(&promise, &before, class.lacking(&promise)) // an update that says nothing new
		known = promise == before
	}
	if !known {
		s.unplace(pod)
		s.reclass(pod, class)
		s.place(pod, facts.Node, &promise)
	}
	s.spare(pod)
	s.setPhase(pod, Bound)
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

func (s *Store) removePod(uid UID) {
	pod := s.pods[uid]
	if pod == nil {
		return
	}
	s.unplace(pod)
	s.reclass(pod, nil)
	s.join(pod, UnitName{})
	s.setIdentity(pod, nil)
	s.leaveTenant(pod)
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
	pod.tenant = s.tenant(pod.Namespace)
	pod.tenant.pods++
}

// unit names the pod's unit.
func (f *PodFacts) unit() UnitName {
	if f.Unit == "" {
		return UnitName{}
	}
	return UnitName{f.Namespace, f.Unit}
}
