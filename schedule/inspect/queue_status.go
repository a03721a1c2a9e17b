package inspect

import (
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/quota"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule"
	"hilbert.dev/hilbert/schedule/queue"
)

// QueueStatus is a queue as people look at it. What it counts is of the queue and of all below it. It depends on the ledger and on nothing
// else.
type QueueStatus struct {
	Name   string `json:"name"` // empty: the root, which is the whole cluster
	Parent string `json:"parent,omitempty"`
	Depth  int    `json:"depth"` // 0: the root
	Weight int64  `json:"weight"`
	Sort   string `json:"sortPolicy"`
	// Configured: there is a Queue of the name; Generation is the one that this is about.
	Configured bool  `json:"configured"`
	Generation int64 `json:"generation,omitempty"`
	// UID is the Queue's.
	UID facts.UID `json:"-"`
	// Ready: it gives places. Reason and Message say what is wrong with its configuration; a queue that is Ready can have a mistake too.
	Ready   bool   `json:"ready"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// PendingPods wait for a place, and PendingUnits are the gangs and single pods that they make; RunningPods have one. Pods with
	// scheduling gates and pods that can never be placed do not count.
	PendingUnits int `json:"pendingUnits"`
	PendingPods  int `json:"pendingPods"`
	RunningPods  int `json:"runningPods"`
	// Amounts by resource, without resources whose amounts are all zero.
	Amounts []QueueAmount `json:"resources,omitempty"`
}

// QueueAmount is what a queue has of one resource: millicores, bytes, a count, or thousandths of GPUs.
type QueueAmount struct {
	Resource string `json:"resource"`
	Used     int64  `json:"used"`
	// Guaranteed is what the queue can count on; of Used, what is beyond it is Borrowed.
	Guaranteed int64 `json:"guaranteed"`
	Borrowed   int64 `json:"borrowed"`
	// Limit is never exceeded; nil: there is none.
	Limit *int64 `json:"limit,omitempty"`
	// Pending is what the pods ask for that wait for a place.
	Pending int64 `json:"pending"`
	// FairShare is what the queue would have if all that is used and asked for now were divided fairly.
	FairShare int64 `json:"fairShare"`
}

// Amount returns what the queue has of a resource; the zero value but for the name if there is nothing to say.
func (q *QueueStatus) Amount(name string) QueueAmount {
	for i := range q.Amounts {
		if q.Amounts[i].Resource == name {
			return q.Amounts[i]
		}
	}
	return QueueAmount{Resource: name}
}

// QueueStatuses returns the status of every queue: the root first, parents before children, siblings by name. It is nil while no queues are
// configured. It costs time proportional to the pods, some 0.1 µs each, and to the queues, a few µs each.
func QueueStatuses(store *cluster.Store) (list []QueueStatus) {
	if !store.Quota().Configured() {
		return nil
	}
	sums := newQueueSums(store)
	store.Quota().Root().Each(func(q *quota.Queue) { list = append(list, sums.status(q)) })
	return list
}

// UnitState is how a gang stands.
type UnitState string

// The states of gangs.
const (
	UnitRunning   UnitState = "running"   // all that it needs have places, or had once and some still have
	UnitWaiting   UnitState = "waiting"   // as many members wait as it needs
	UnitGathering UnitState = "gathering" // members are missing
	UnitHeld      UnitState = "held"      // its PodGroup or its queue is unknown or invalid
)

// UnitCounts counts the gangs, in every state. A gang without pods gathers.
func UnitCounts(s *schedule.Scheduler) map[UnitState]int {
	counts := map[UnitState]int{UnitRunning: 0, UnitWaiting: 0, UnitGathering: 0, UnitHeld: 0}
	s.Store().Units().Each(func(u *cluster.Unit) {
		switch {
		case u.Running() || u.Ready() && u.Placed() >= u.MinMember():
			counts[UnitRunning]++
		case !u.Ready() || s.Store().Quota().QueueOf(u.Namespace).Refuses:
			counts[UnitHeld]++
		case s.Waiting(u)+u.Placed() < u.MinMember():
			counts[UnitGathering]++
		default:
			counts[UnitWaiting]++
		}
	})
	return counts
}

// PendingPods counts the pods that wait, by how; the units that Scheduler.Pending counts are fewer where there are gangs.
func PendingPods(s *schedule.Scheduler) map[WaitingState]int {
	p := s.Pending()
	counts := map[WaitingState]int{WaitingHeld: p.Held, WaitingBinding: p.InFlight}
	for _, state := range standingStates[queue.Ready:] {
		counts[state] = 0
	}
	gangs := false
	s.Store().Units().Each(func(*cluster.Unit) { gangs = true })
	if gangs {
		for _, standing := range s.Standings() {
			counts[standingStates[standing.State]]++
		}
		return counts
	}
	counts[WaitingActive], counts[WaitingBackoff], counts[WaitingUnschedulable], counts[WaitingQuota] = p.Active, p.Backoff, p.Unschedulable, p.Quota
	return counts
}

// queueSums are the sums that the ledger does not keep, by queue, all below included.
type queueSums struct {
	store *cluster.Store
	of    map[*quota.Queue]*queueSum
	fair  map[*quota.Queue][]int64
}

type queueSum struct {
	pending     []int64 // by kind
	units, pods int
}

// newQueueSums counts every pod.
func newQueueSums(store *cluster.Store) *queueSums {
	b := &queueSums{store: store, of: make(map[*quota.Queue]*queueSum)}
	store.Quota().Root().Each(func(q *quota.Queue) { b.of[q] = &queueSum{pending: make([]int64, store.Kinds())} })
	gangs := make(map[*cluster.Unit]bool)
	store.EachPod(func(pod *cluster.Pod) {
		if !isPending(pod) {
			return
		}
		at := b.of[pod.Queue()]
		at.pods++
		for _, a := range pod.Class.Charge {
			at.pending[a.Kind] = resource.Add(at.pending[a.Kind], a.Value)
		}
		if pod.Unit == nil {
			at.units++
		} else if !gangs[pod.Unit] {
			gangs[pod.Unit] = true
			at.units++
		}
	})
	b.fair = b.fairShares()
	b.addChildren(store.Quota().Root())
	return b
}

// isPending reports whether a pod waits for a place that it could be given one day, whatever is in the way: its PodGroup and its queue
// included.
func isPending(pod *cluster.Pod) bool {
	return pod.Phase == cluster.Pending && pod.Ours && !pod.Deleting && !pod.Gated && pod.Refusal() == ""
}

// fairShares works out what each queue ought to have of what is used and asked for. It must be called before addChildren.
func (b *queueSums) fairShares() map[*quota.Queue][]int64 {
	capacity := make([]int64, b.store.Kinds())
	for kind := range capacity {
		capacity[kind] = b.store.Quota().Capacity(resource.Kind(kind))
	}
	demand := make(map[*quota.Queue][]int64, len(b.of))
	for q, sum := range b.of {
		own := slices.Clone(sum.pending)
		for _, tenant := range q.Tenants() {
			for kind := range own {
				own[kind] = resource.Add(own[kind], tenant.Used(resource.Kind(kind)))
			}
		}
		demand[q] = own
	}
	return queue.FairShares(b.store.Quota().Root(), capacity, demand)
}

// addChildren adds the sums of all below to a queue's.
func (b *queueSums) addChildren(q *quota.Queue) {
	sum := b.of[q]
	for _, child := range q.Children() {
		b.addChildren(child)
		c := b.of[child]
		sum.units, sum.pods = sum.units+c.units, sum.pods+c.pods
		for kind, amount := range c.pending {
			sum.pending[kind] = resource.Add(sum.pending[kind], amount)
		}
	}
}

// status puts a queue and its sum into words.
func (b *queueSums) status(q *quota.Queue) QueueStatus {
	sum := b.of[q]
	s := QueueStatus{
		Name: q.Name, Weight: q.Weight(), Sort: sortNames[q.Sort()], Ready: !q.Refuses, Reason: q.Problem.Reason, Message: q.Problem.Message,
		PendingUnits: sum.units, PendingPods: sum.pods, RunningPods: int(q.Used(resource.Pods)),
	}
	for up := q.Parent(); up != nil; up = up.Parent() {
		s.Depth++
	}
	if q.Parent() != nil {
		s.Parent = q.Parent().Name
	}
	if q.Facts != nil {
		s.Configured, s.UID, s.Generation = true, q.Facts.UID, q.Facts.Generation
	}
	for kind := range resource.Kind(b.store.Kinds()) {
		a := QueueAmount{
			Resource: b.store.KindName(kind), Used: q.Used(kind), Guaranteed: q.Guaranteed(kind), Pending: sum.pending[kind],
		}
		if q.Parent() == nil { // what the cluster has
			a.Guaranteed = b.store.Quota().Capacity(kind)
		}
		if kind != resource.Pods || a.Guaranteed > 0 {
			a.Borrowed = max(a.Used-a.Guaranteed, 0)
		}
		if limit := q.Limit(kind); limit != quota.Unlimited {
			a.Limit = &limit
		}
		if shares := b.fair[q]; int(kind) < len(shares) {
			a.FairShare = shares[kind]
		}
		if a.Used != 0 || a.Guaranteed != 0 || a.Pending != 0 || a.Limit != nil {
			s.Amounts = append(s.Amounts, a)
		}
	}
	return s
}

// sortNames are the names of the sort policies as a Queue spells them.
var sortNames = [...]string{
	facts.SortDefault: "Default", facts.PriorityFIFO: "PriorityFIFO", facts.FIFO: "FIFO", facts.Fair: "Fair", facts.FairHistory: "FairHistory",
	facts.SmallestFirst: "SmallestFirst",
}
