package cluster

import (
	"hilbert.dev/hilbert/cluster/agents"
	"hilbert.dev/hilbert/cluster/census"
	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/dra"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/quota"
	"hilbert.dev/hilbert/cluster/volumes"
	"hilbert.dev/hilbert/cluster/waiting"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

// Store is the ledger. It has a single writer: its methods must not run beside one another.
type Store struct {
	State
	slots        slotTable
	pods         podTable
	nodeBook     nodeBook
	grants       grantBook
	charges      chargeBook
	usage        usageBook
	classes      classBook
	classifier   classifier
	selection    selection
	units        Units
	quota        *quota.Tree
	budgets      Budgets
	evictions    agents.Requests
	placeholders Placeholders
	nodeEvents   agents.Events
	claims       claimBook

	placed      PodCounts
	victims     victimLog
	keepGuesses bool // pods give up places for a Plan: what others are guessed to hold stays as whoever made the Plan saw it

	effects effects
}

// NewStore returns an empty ledger. The defaults spread the pods that have no constraint of their own.
func NewStore(defaults ...facts.SpreadDefault) *Store {
	kinds, registry := resource.NewTable(), census.NewRegistry()
	s := &Store{
		State: State{
			amountColumns: amountColumns{kinds: kinds}, attachedColumn: attachedColumn{volumes: volumes.New()}, counts: census.NewCounts(registry), images: census.NewImages(),
		},
		slots:     slotTable{byNode: make(map[string]Slot)},
		pods:      newPodTable(),
		classes:   classBook{kinds: kinds, registry: registry, lent: lentKinds{kinds: kinds}, requests: make(map[string]*request), idle: idleClasses{byID: make(map[ClassID]*Class)}},
		units:     Units{byName: make(map[facts.UnitName]*Unit)},
		budgets:   Budgets{byKey: make(map[budgetKey]*facts.Budget)},
		evictions: agents.NewRequests(), nodeEvents: agents.NewEvents(),
	}
	s.grants = grantBook{state: &s.State, pods: &s.pods, reports: make(map[string]*reported), placed: &s.placed, charges: &s.charges}
	s.fitKinds()
	s.quota = quota.NewTree(kinds, func(namespace string) []facts.Label { return s.selection.namespaces[namespace] })
	s.pods.tree = s.quota
	s.charges = chargeBook{state: &s.State, pods: &s.pods, tree: s.quota}
	s.selection = newSelection(&s.State, registry, defaults)
	s.usage = usageBook{&s.State, &s.pods}
	s.placeholders = newPlaceholders(s)
	s.nodeBook = nodeBook{
		state: &s.State, slots: &s.slots, pods: &s.pods, grants: &s.grants, charges: &s.charges, lent: &s.classes.lent, brought: make(map[string]*broughtNode),
	}
	s.claims = claimBook{
		state: &s.State, slots: &s.slots, pods: &s.pods, attached: attachments{&s.State, &s.slots, &s.pods}, dra: dra.New(), selection: &s.selection, effects: &s.effects,
	}
	s.classifier = classifier{state: &s.State, pods: &s.pods, book: &s.classes, selection: &s.selection, claims: &s.claims, charges: &s.charges, effects: &s.effects}
	s.classes.gpuKind, s.gpuKind = s.quota.GPUKind(), s.quota.GPUKind()
	s.fitKinds()
	return s
}

// BeforeDefinitionsChange has a function called before what Snapshots share with the Store changes: the definitions of what is counted. It returns when nobody
// reads a Snapshot; nobody begins to before the Store's method has returned. What else they share never changes, or changes with nodes, queues and workloads.
func (s *Store) BeforeDefinitionsChange(wait func()) { s.classes.registry.BeforeChange(wait) }

// Revision counts the changes of slots so far.
func (s *Store) Revision() changes.Revision { return s.log.Len() }

// Pod returns the record of a pod, nil when it is not known.
func (s *Store) Pod(uid facts.UID) *Pod { return s.pods.byUID[uid] }

// Pods is the number of pods known.
func (s *Store) Pods() int { return len(s.pods.byUID) }

// EachPod visits every record, in no particular order.
func (s *Store) EachPod(visit func(*Pod)) {
	for _, pod := range s.pods.byUID {
		visit(pod)
	}
}

// PodsOn returns the pods charged to a slot; the caller must not change the slice.
func (s *Store) PodsOn(slot Slot) []*Pod { return s.pods.onSlot[slot] }

// PodCounts returns how many pods of some kinds are on known nodes, or on their way there. It costs nothing: they are counted as they change.
func (s *Store) PodCounts() PodCounts { return s.placed }

// Nodes is the number of nodes known.
func (s *Store) Nodes() int { return len(s.slots.byNode) }

// Slot returns the slot of a node, NoSlot when it is not known.
func (s *Store) Slot(node string) Slot {
	if slot, ok := s.slots.byNode[node]; ok {
		return slot
	}
	return NoSlot
}

// Units are the gangs.
func (s *Store) Units() *Units { return &s.units }

// Quota is the tree of queues; callers read it and follow its changes, and ease queues.
func (s *Store) Quota() *quota.Tree { return s.quota }

// Waiting is which pods are held back because too many others wait that are unlike them. It is bounded once, before the first event.
func (s *Store) Waiting() *waiting.Bound { return &s.classifier.waiting }

// Budgets are the disruption budgets.
func (s *Store) Budgets() *Budgets { return &s.budgets }

// Placeholders are the places that Reservations keep.
func (s *Store) Placeholders() *Placeholders { return &s.placeholders }

// EvictionRequests are what nodes ask to be evicted.
func (s *Store) EvictionRequests() *agents.Requests { return &s.evictions }

// NodeEvents are what nodes have to tell people.
func (s *Store) NodeEvents() *agents.Events { return &s.nodeEvents }

// VictimLog is the log of slots on which preemption would choose among the same pods in another order, or count other violations. Its
// entries are of kind Recounted.
func (s *Store) VictimLog() *changes.Log { return &s.victims.Log }

// LentKinds returns the kinds of what only reports give, CPU and then memory; 0 is one that no node has lent and no pod asked for.
func (s *Store) LentKinds() [facts.ReclaimedKinds]resource.Kind { return s.classes.lent.of }

// place charges a pod that its Binding gave something to a node, or files it as an orphan if the node is not known.
func (s *Store) place(pod *Pod, node string, held *topology.Grant) {
	pod.node = node
	pod.hold(holdingOf(held))
	pod.recorded, pod.said, pod.unrecorded = nil, 0, pod.Class.lacking(held)
	slot, ok := s.slots.byNode[node]
	if !ok {
		s.pods.orphans[node] = append(s.pods.orphans[node], pod)
		return
	}
	s.attach(pod, slot)
	s.note(slot, changes.Charged)
}

// attach charges a pod to a slot without noting it in the log.
func (s *Store) attach(pod *Pod, slot Slot) {
	s.pods.enter(pod, slot)
	s.placeholders.moved(pod, slot, 1)
	pod.tally(&s.counts, slot, 1)
	s.selection.act(pod.Class.request.carries)
	s.grants.arrive(pod, slot)
	s.charges.spend(pod, 1)
	s.placed.count(pod, 1)
	s.charge(slot, pod.Class, pod.holding())
	s.attachVolumes(slot, pod, 1)
	if s.usage.covers(slot, pod) {
		s.usage.recount(slot)
	}
	if s.grants.touches(slot, pod) {
		s.grants.recharge(slot)
	}
}

// unplace takes a pod off whatever node the ledger has it on.
func (s *Store) unplace(pod *Pod) {
	if pod.node == "" {
		return
	}
	pod.absolve(&s.victims)
	s.claims.release(pod)
	node, slot := pod.node, pod.slot
	pod.node = ""
	if slot == NoSlot {
		s.pods.dropOrphan(node, pod)
		pod.release()
		return
	}
	s.pods.leave(pod)
	s.placeholders.moved(pod, slot, -1)
	s.discharge(slot, pod.Class, pod.holding())
	s.attachVolumes(slot, pod, -1)
	pod.tally(&s.counts, slot, -1)
	s.charges.spend(pod, -1)
	s.placed.count(pod, -1)
	if s.usage.covers(slot, pod) {
		s.usage.recount(slot)
	}
	recount := s.grants.depart(pod, slot, node)
	pod.slot = NoSlot
	pod.release()
	if recount && !s.keepGuesses {
		s.grants.recharge(slot)
	}
	s.note(slot, changes.Freed)
}

// release leaves the pod without anything.
func (p *Pod) release() {
	p.hold(holding{})
	p.recorded, p.unrecorded, p.said = nil, 0, 0
}

// Queue is the queue that the pod is charged to, or will be.
func (p *Pod) Queue() *quota.Queue { return p.tenant.Queue() }

// Tenant is the account that the pod is charged to, or will be.
func (p *Pod) Tenant() *quota.Tenant { return p.tenant }
