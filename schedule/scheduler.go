package schedule

import (
	"fmt"
	"iter"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/internal/deadline"
	"hilbert.dev/hilbert/schedule/admit"
	"hilbert.dev/hilbert/schedule/apart"
	"hilbert.dev/hilbert/schedule/bind"
	"hilbert.dev/hilbert/schedule/dispatch"
	"hilbert.dev/hilbert/schedule/events"
	"hilbert.dev/hilbert/schedule/place/rules"
	"hilbert.dev/hilbert/schedule/profiles"
	"hilbert.dev/hilbert/schedule/queue"
	"hilbert.dev/hilbert/schedule/relief"
	"hilbert.dev/hilbert/schedule/reserve"
)

// maxRejections is how often in a row a unit is decided again at once after its Plan was rejected; then it backs off.
const maxRejections = 8

// maxCostIndexes bounds the classes and priorities whose preemption costs are kept for every node.
const maxCostIndexes = 16

// Scheduler is the pipeline: it owns the ledger, the queue, the instances and the binder, and is the only one that changes them. So no part needs a lock,
// and the same inputs give the same outputs. Its methods must not run concurrently.
//
// Example: a shell calls Apply for each event, then Step, then starts the writes of Ready, and gives each answer to Finish. A pod that arrives in Apply
// is placed in the next Step, and its Binding is among the writes of the next Ready.
type Scheduler struct {
	cfg        spec.Scheduling
	store      *cluster.Store
	queue      *queue.Queue
	dispatcher *dispatch.Dispatcher
	instances  []*instance
	binder     *bind.Binder
	market     *rules.Market
	lag        func(int) bool
	observer   Observer
	auditor    Auditor // nil when the observer is none

	held        map[facts.UID]changes.Revision // pods that must not be decided on, and the revision to have been seen before they are
	vanished    map[facts.UID]struct{}         // the API server says they are gone or bound elsewhere; the watch has not said so yet
	retries     retries
	blocked     blocked
	gate        *admit.Gate
	gangs       gangTimers
	obliged     obliged
	relief      *relief.Relief
	events      *events.Recorder
	podEvents   *events.Pods
	owners      *reserve.Owners
	turns       *reserve.Turns
	reserved    *reserve.Status
	noPodEvents bool
	partitions  partitions
	workers     workers
	outsiders   Outsiders

	apart apart.Book

	attempt            attempt      // the turn that is on
	looked, endedSteps int          // nodes that the decisions of this Step have looked at, and Steps that ended for that: see maxLooks
	writes             []bind.Write // scratch of Ready
}

// New returns an empty pipeline. It fails on a score name that does not exist.
func New(o Options) (*Scheduler, error) {
	set, err := profiles.New(&o.Config)
	if err != nil {
		return nil, err
	}
	var defaults []facts.SpreadDefault
	if o.Config.DefaultSpread == spec.DefaultSpreadSystem {
		defaults = facts.SystemSpreadDefaults
	}
	s := &Scheduler{
		cfg:        o.Config,
		store:      cluster.NewStore(defaults...),
		dispatcher: dispatch.New(max(o.Instances, 1)),
		market:     set.Market(),
		lag:        o.Lag,
		observer:   o.Observer,
		retries:    retries{cfg: o.Config.Backoff, failed: make(map[facts.UID]int)},
		held:       make(map[facts.UID]changes.Revision),
		vanished:   make(map[facts.UID]struct{}),
	}
	s.store.ResourceClaims().SetAllocator(o.Devices)
	if most := o.Config.MaxWaitingClasses; most != nil {
		s.store.Waiting().SetMost(*most)
	}
	s.queue = queue.New(s.store)
	s.gate = admit.NewGate(s.store, o.Config.Units.MaxReservations)
	s.blocked = newBlocked(s.store, s.queue, s.gate.Reservations, o.Config.Conditions.MinInterval.D())
	s.gangs = newGangTimers(o.Config.Units, s.gate)
	if s.lag == nil {
		s.lag = func(int) bool { return false }
	}
	if s.observer == nil {
		s.observer = silent{}
	}
	s.auditor, _ = s.observer.(Auditor)
	s.relief, s.events = relief.New(s.store, o.Config.Evictions), events.New(s.store)
	s.noPodEvents = o.NoPodEvents
	s.owners, s.reserved = reserve.NewOwners(s.store), reserve.NewStatus(s.store, o.NoPodEvents)
	s.turns = reserve.NewTurns(s.store)
	s.podEvents = events.NewPods(s.store, o.Config.Events.Scheduled)
	s.binder = bind.New(s.store, rules.Commits, o.Config.Binding, o.Config.Conditions)
	s.obliged = newObliged(s.store, s.binder)
	for i := range max(o.Instances, 1) {
		s.instances = append(s.instances, newInstance(i, s.store, cluster.NewSnapshot(), set, &s.cfg))
	}
	if o.Partitions != nil {
		s.partitions = partitions{partitioner: dispatch.NewPartitioner(*o.Partitions), store: s.store, instances: s.instances}
	}
	s.outsiders.s = s
	if n := o.Config.Schedulers; n > 1 {
		s.workers = newWorkers(n, o.Runner, s.store, set, &s.cfg)
		s.partitions = partitions{partitioner: dispatch.NewPartitioner(partitionRules(&s.cfg.Partitions)), store: s.store, confined: true}
		for _, w := range s.workers.list {
			s.partitions.instances = append(s.partitions.instances, w.instance)
		}
		s.store.BeforeDefinitionsChange(s.workers.idle)
	}
	return s, nil
}

// Store returns the ledger, to read.
func (s *Scheduler) Store() *cluster.Store { return s.store }

// Config returns the settings, with their defaults set.
func (s *Scheduler) Config() spec.Scheduling { return s.cfg }

// BoundCounts counts how often something was put off that one namespace could else have taken too much time with.
type BoundCounts struct {
	// PostponedExplanations of pods that fit nowhere, because their namespace had its share.
	PostponedExplanations int
	// EndedSteps ended before their limit of decisions, because these had looked at many nodes.
	EndedSteps int
	// ReservationTries are the gangs for which all nodes were looked at, to reserve some.
	ReservationTries int
	// HeldBack are the pods that are held back now because too many others of their namespace wait that are unlike them, and in how many namespaces.
	HeldBack, HeldBackIn int
	// GPUStates are those that all instances tell apart, for scores by price.
	GPUStates rules.GPUStateCounts
	// Events about pods that are to be written, or were left out; NodeEvents are the nodes that may have something to tell.
	Events     events.Backlog
	NodeEvents int
	Apart      apart.Counts
}

// Bounds returns how often bounds took effect.
func (s *Scheduler) Bounds() BoundCounts {
	waiting := s.store.Waiting()
	c := BoundCounts{
		PostponedExplanations: s.blocked.explanations.refused, EndedSteps: s.endedSteps, ReservationTries: s.gate.Reservations.Tried(),
		HeldBack: waiting.Held(), HeldBackIn: waiting.Crowded(), Events: s.podEvents.Backlog(), NodeEvents: s.events.Waiting(), Apart: s.apart.Counts(),
	}
	for _, in := range s.instances {
		c.GPUStates.Add(in.placers.GPUStates())
	}
	s.workers.idle()
	for _, w := range s.workers.list {
		c.GPUStates.Add(w.placers.GPUStates())
	}
	return c
}

// Partitions returns how the nodes are divided among the instances.
func (s *Scheduler) Partitions() PartitionCounts {
	c := s.partitions.counts
	c.Partitions = 1
	if s.partitions.of != nil {
		c.Partitions = s.partitions.partitioner.Parts()
	}
	return c
}

// Gate returns what admits units, to read.
func (s *Scheduler) Gate() *admit.Gate { return s.gate }

// Held yields the pods that are held: gated, or with something about them that must be mended first.
func (s *Scheduler) Held() iter.Seq[*cluster.Pod] {
	return func(yield func(*cluster.Pod) bool) {
		for uid := range s.held {
			if pod := s.store.Pod(uid); pod != nil && !yield(pod) {
				return
			}
		}
	}
}

// Standings returns how each pod in the queue stands.
func (s *Scheduler) Standings() []queue.WaitingPod {
	list := s.queue.View().Pods()
	for i := range list {
		list[i].Attempts = max(list[i].Attempts, s.retries.of(list[i].Pod))
	}
	return list
}

// Waiting counts the members of a gang that wait in the queue.
func (s *Scheduler) Waiting(gang *cluster.Unit) int {
	if u := s.queue.Gang(gang); u != nil {
		return len(u.Members())
	}
	return 0
}

// Apply takes in what a door saw. It returns how many pods were judged because of it.
func (s *Scheduler) Apply(event facts.Event, now time.Time) (judged int) {
	switch event.(type) {
	case facts.PodUpserted, facts.PodRemoved:
	default:
		s.workers.idle() // they read of nodes, queues and workloads what this may change
	}
	s.countArrivals(event)
	effects := s.store.Apply(event)
	for _, effect := range effects {
		s.applyEffect(effect, now)
	}
	s.refreshUnits(now)
	s.apart.Apply(s.store, event, now)
	switch event.(type) {
	case facts.NodeRemoved, facts.NodesListed:
		s.binder.ReleaseFromLostNodes()
		s.report(now)
	}
	return len(effects)
}

// countArrivals tells the market of pods that were not known before.
func (s *Scheduler) countArrivals(event facts.Event) {
	arrived := func(f *facts.Pod) {
		kept := (f.Ours || f.Node != "") && !f.Finished && !f.Deleting // others the store forgets, and would hear of as new each time
		if s.market.Counts(f.Requirements) && kept && s.store.Pod(f.UID) == nil {
			s.market.Arrived(f.Requirements)
		}
	}
	switch e := event.(type) {
	case facts.PodUpserted:
		arrived(&e.Pod)
	case facts.PodsListed:
		for i := range e.Pods {
			arrived(&e.Pods[i])
		}
	}
}

func (s *Scheduler) applyEffect(e cluster.Effect, now time.Time) {
	pod := e.Pod
	seen, held := s.held[pod.UID]
	delete(s.held, pod.UID)
	delete(s.vanished, pod.UID)
	switch e.Kind {
	case cluster.Waits:
		if held {
			s.binder.Conditions().Withdraw(pod)
		}
		s.enqueue(pod, seen, now)
	case cluster.VolumesMoved:
		s.binder.VolumesMoved(pod.UID)
		s.report(now)
	case cluster.Held:
		s.hold(pod, max(seen, s.queue.Remove(pod.UID)), now)
	case cluster.Settled:
		s.obliged.forget(pod.UID)
		s.queue.Remove(pod.UID)
		s.podEvents.Forget(pod.UID)
		if e.Gone || pod.Phase != cluster.Assumed {
			s.retries.forget(pod.UID)
		}
		s.binder.Settle(pod, e.Gone)
		s.report(now)
	}
}

// hold keeps a pod that waits, but must not be placed, and says why. It is not queued before a change of it has been seen.
func (s *Scheduler) hold(pod *cluster.Pod, seen changes.Revision, now time.Time) {
	if !pod.Ours || pod.Phase != cluster.Pending || pod.Deleting {
		return // it wants no place
	}
	s.held[pod.UID] = seen
	if condition, refused := admit.Refuse(pod); refused && !pod.Gated {
		s.sayWhy(pod, condition, now)
	}
}

// withdrawNomination clears the nomination of a pod that has lost the place which its victims were to make room for. written says that this process
// has written one.
func (s *Scheduler) withdrawNomination(pod *cluster.Pod, written bool, now time.Time) {
	if written || pod.Nominated != "" {
		s.binder.Conditions().WithdrawNomination(pod, now)
	}
}

// enqueue puts a pod into the queue, to be decided on a snapshot that has seen a revision. If its class is known to fit nowhere, its
// condition says so at once.
func (s *Scheduler) enqueue(pod *cluster.Pod, seen changes.Revision, now time.Time) {
	if s.binder.Assumes(pod.UID) {
		return
	}
	s.owners.Arrived(pod)
	s.turns.Arrived(pod)
	u, parked := s.queue.Add(pod)
	u.NotBefore = max(u.NotBefore, seen)
	s.gangs.waits(u, false, now)
	if !parked {
		if why := s.blocked.explanations.recent(u.Shape, now); why != nil {
			why.addNewcomer(pod.UID)
		}
		return
	}
	if s.mayTry(u, now) {
		s.queue.Wake(u.ShapeQueue())
	} else if why := s.blocked.explanations.of(u.Shape); why != nil {
		s.sayWhy(pod, ofPods(s.blocked.whyParked(u, why)), now)
	}
}

// mayTry reports whether a unit that came to others which sleep has to be tried nevertheless.
func (s *Scheduler) mayTry(u *queue.Unit, now time.Time) bool {
	if s.gate.Reservations.Backfills(u, now) {
		return true
	}
	for _, pod := range u.Members() {
		if pod.NeverPreempts {
			return false
		}
	}
	return s.blocked.mayHaveVictims(keyOf(u), u.Priority)
}

// Ready returns the API writes to start now; each must be answered with Finish. The slice is valid until the next call.
func (s *Scheduler) Ready(now time.Time) []bind.Write {
	writes := s.binder.Ready(now)
	s.report(now)
	evictions, told, about, reserved := s.relief.Ready(now), s.events.Ready(now), s.podEvents.Ready(now), s.reserved.Ready(now)
	if len(evictions)+len(told)+len(about)+len(reserved) == 0 {
		return writes
	}
	s.writes = append(append(append(append(append(s.writes[:0], writes...), evictions...), told...), about...), reserved...)
	return s.writes
}

// Finish takes the answer to a write.
func (s *Scheduler) Finish(result bind.Result, now time.Time) {
	switch result.ID.Owner {
	case bind.OwnerRelief:
		s.relief.Finish(result, now)
	case bind.OwnerEvents:
		s.events.Finish(result)
	case bind.OwnerReservations:
		s.reserved.Finish(result, now)
	case bind.OwnerPodEvents:
		s.podEvents.Finish(result)
	default:
		s.binder.Finish(result, now)
		s.report(now)
	}
}

// report handles the outcomes that the binder has.
func (s *Scheduler) report(now time.Time) {
	for _, r := range s.binder.Transitions() {
		s.transition(r, now)
	}
	s.refreshUnits(now)
}

func (s *Scheduler) transition(r bind.Transition, now time.Time) {
	if r.Event == bind.VictimDeleted {
		if pod := s.store.Pod(r.Pod); pod != nil && !s.noPodEvents {
			s.podEvents.Preempted(r.Victim, r.Node, pod)
		}
		return
	}
	s.obliged.forget(r.Pod)
	pod := s.store.Pod(r.Pod)
	if pod == nil {
		return
	}
	switch r.Event {
	case bind.Bound:
		s.retries.forget(r.Pod)
		s.observer.Bound(pod, now)
		s.podEvents.Placed(pod)
	case bind.Released:
		s.observer.Released(pod, r.Message, now)
		s.withdrawNomination(pod, r.Nominated, now)
		if !pod.Schedulable() {
			s.hold(pod, 0, now)
			return
		}
		s.owners.Arrived(pod)
		s.turns.Arrived(pod)
		s.queue.AddDelayed(pod, s.store.Revision(), s.retries.next(r.Pod, now)) // a snapshot from before does not know why it lost its place
		if !r.Unsent {
			s.sayWhy(pod, facts.Condition{Reason: spec.ReasonBindingFailed, Message: r.Message}, now)
		}
	case bind.VictimDeleted: // told above: the pod goes on waiting for the others
	case bind.VictimsGone:
		s.observer.Cleared(pod, now)
	case bind.Preempted:
		s.observer.Released(pod, r.Message, now)
		s.withdrawNomination(pod, r.Nominated, now)
		if !pod.Schedulable() {
			s.hold(pod, 0, now)
			return
		}
		s.enqueue(pod, s.store.Revision(), now)
	case bind.Vanished:
		s.retries.forget(r.Pod)
		s.vanished[r.Pod] = struct{}{}
	}
}

// NextWake is when Step or Ready have something to do though nothing was applied or finished meanwhile.
func (s *Scheduler) NextWake(now time.Time) (time.Time, bool) {
	var next deadline.Earliest
	next.Add(s.binder.NextWake(now))
	next.Add(s.queue.NextExpiry())
	next.Add(s.relief.NextWake(now))
	next.Add(s.events.NextWake(now))
	next.Add(s.podEvents.NextWake(now))
	next.Add(s.nextTimer())
	next.Add(s.reserved.NextWake())
	next.Add(s.nextExpiry())
	next.Add(s.outsiders.nextWake())
	return next.Time()
}

// Flush has some of the units that sleep tried again by the next Step, others each time. It guards against wake-ups that were missed: call it
// every minute or so. What it finds is told to Observer.MissedWakeup. What waits for a limit because of the grant that its node would have given is tried
// again too, which is no find.
func (s *Scheduler) Flush() {
	s.queue.ForgetGrants()
	s.gate.RetryGrants()
	s.blocked.flushSome()
}

// Pending counts the pods that wait.
func (s *Scheduler) Pending() Pending {
	waiting := s.queue.Counts()
	return Pending{
		Active: waiting.Ready + s.workers.pending() + s.outsiders.pending(), Backoff: waiting.BackingOff, Unschedulable: waiting.Parked, Quota: waiting.QuotaBlocked, Gathering: waiting.Gathering,
		Held: len(s.held), InFlight: s.binder.Len(),
	}
}

// Relief returns what has come of the evictions that nodes request, and how their requests stand.
func (s *Scheduler) Relief() (relief.Counts, relief.Status) {
	return s.relief.Counts(), s.relief.Status()
}

// Relieved is how many pods relief has evicted, and since when.
func (s *Scheduler) Relieved() (evicted int, since time.Time) {
	return s.relief.Counts().Evicted, s.relief.Since()
}

// Verify recomputes every invariant and returns the first that does not hold. It costs time proportional to everything.
func (s *Scheduler) Verify() error {
	if err := s.store.Verify(); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	var err error
	s.store.EachPod(func(pod *cluster.Pod) {
		_, held := s.held[pod.UID]
		_, vanished := s.vanished[pod.UID]
		waits, assumed := s.queue.Unit(pod.UID) != nil, s.binder.Assumes(pod.UID)
		switch {
		case assumed != (pod.Phase == cluster.Assumed):
			err = fmt.Errorf("pod %s is %s; binder has it: %v", pod.UID, pod.Phase, assumed)
		case waits && (held || assumed):
			err = fmt.Errorf("pod %s waits in the queue; held: %v, in the binder: %v", pod.UID, held, assumed)
		case waits && !pod.Schedulable():
			err = fmt.Errorf("pod %s waits in the queue but must not be placed", pod.UID)
		case pod.Schedulable() && !waits && !vanished:
			err = fmt.Errorf("pod %s wants a place and is lost: neither in the queue nor in the binder", pod.UID)
		}
	})
	return err
}

type silent struct{}

func (silent) Placed(*cluster.Pod, time.Time)                       {}
func (silent) Preempting(*cluster.Pod, []*cluster.Pod, time.Time)   {}
func (silent) Cleared(*cluster.Pod, time.Time)                      {}
func (silent) Rejected(string, time.Time)                           {}
func (silent) Unschedulable(*cluster.Pod, []FilterCount, time.Time) {}
func (silent) Bound(*cluster.Pod, time.Time)                        {}
func (silent) Released(*cluster.Pod, string, time.Time)             {}
func (silent) MissedWakeup(*cluster.Pod, time.Time)                 {}
