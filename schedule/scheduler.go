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

// maxCostIndexes bounds the classes and priorities whose preemption costs are kept for every node.
const maxCostIndexes = 16

// Scheduler is the pipeline: it owns the ledger, the queue, the instances and the binder, and is the only one that changes them. So no part needs a lock,
// and the same inputs give the same outputs. Its methods must not run concurrently.
//
// Example: a shell calls Apply for each event, then Step, then starts the writes of Ready, and gives each answer to Finish. A pod that arrives in Apply
// is placed in the next Step, and its Binding is among the writes of the next Ready.
type Scheduler struct {
	cfg    spec.Scheduling
	store  *cluster.Store
	queue  *queue.Queue
	binder *bind.Binder
	gate   *admit.Gate
	market *rules.Market

	blocked    blocked
	notices    notices
	gangs      gangs
	obliged    obliged
	waiting    waitingPods
	partitions partitions
	decisions  decisions
	redecider  redecider
	places     places
	sharing    sharing

	relief    *relief.Relief
	events    *events.Recorder
	podEvents *events.Pods
	reserved  *reserve.Status

	endedSteps int          // Steps that ended because their decisions had looked at many nodes: see maxLooks
	writes     []bind.Write // scratch of Ready
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
	s := &Scheduler{cfg: o.Config, store: cluster.NewStore(defaults...), market: set.Market()}
	s.store.ResourceClaims().SetAllocator(o.Devices)
	if most := o.Config.MaxWaitingClasses; most != nil {
		s.store.Waiting().SetMost(*most)
	}
	s.queue = queue.New(s.store)
	s.gate = admit.NewGate(s.store, o.Config.Units.MaxReservations)
	s.binder = bind.New(s.store, rules.Commits, o.Config.Binding, o.Config.Conditions)
	s.relief, s.events = relief.New(s.store, o.Config.Evictions), events.New(s.store)
	s.podEvents = events.NewPods(s.store, o.Config.Events.Scheduled)
	s.reserved = reserve.NewStatus(s.store, o.NoPodEvents)
	s.join(&o)
	for i := range max(o.Instances, 1) {
		s.decisions.instances = append(s.decisions.instances, newInstance(i, s.store, cluster.NewSnapshot(), set, &s.cfg))
	}
	if o.Partitions != nil {
		s.partitions = partitions{partitioner: dispatch.NewPartitioner(*o.Partitions), store: s.store, instances: s.decisions.instances}
	}
	if n := o.Config.Schedulers; n > 1 {
		s.sharing.workers = newWorkers(n, o.Runner, s.store, set, &s.cfg)
		s.partitions = partitions{partitioner: dispatch.NewPartitioner(partitionRules(&s.cfg.Partitions)), store: s.store, confined: true}
		for _, w := range s.sharing.workers.list {
			s.partitions.instances = append(s.partitions.instances, w.instance)
		}
		s.store.BeforeDefinitionsChange(s.sharing.workers.idle)
	}
	return s, nil
}

// join makes the parts, and gives each the others that it works with.
func (s *Scheduler) join(o *Options) {
	observer := o.Observer
	if observer == nil {
		observer = silent{}
	}
	auditor, _ := observer.(Auditor)
	lag := o.Lag
	if lag == nil {
		lag = func(int) bool { return false }
	}
	owners, turns := reserve.NewOwners(s.store), reserve.NewTurns(s.store)
	s.blocked = newBlocked(s.store, s.queue, s.gate.Reservations, o.Config.Conditions.MinInterval.D())
	s.obliged = newObliged(s.store, s.binder)
	s.notices = notices{
		store: s.store, conditions: s.binder.Conditions(), events: s.podEvents, noEvents: o.NoPodEvents,
		timers: &s.gangs.timers, reservations: s.gate.Reservations,
	}
	s.gangs = gangs{
		timers: newGangTimers(o.Config.Units, s.gate), store: s.store, queue: s.queue, binder: s.binder, gate: s.gate, blocked: &s.blocked, notices: &s.notices,
	}
	s.waiting = waitingPods{
		store: s.store, queue: s.queue, binder: s.binder, gate: s.gate, blocked: &s.blocked, gangs: &s.gangs, obliged: &s.obliged, notices: &s.notices,
		owners: owners, turns: turns, observer: observer,
		retries: retries{cfg: o.Config.Backoff, failed: make(map[facts.UID]int)},
		held:    make(map[facts.UID]changes.Revision), vanished: make(map[facts.UID]struct{}),
	}
	s.decisions = decisions{
		store: s.store, queue: s.queue, binder: s.binder, market: s.market, gate: s.gate, blocked: &s.blocked, gangs: &s.gangs, obliged: &s.obliged,
		notices: &s.notices, waiting: &s.waiting, partitions: &s.partitions, observer: observer, auditor: auditor,
		dispatcher: dispatch.New(max(o.Instances, 1)), lag: lag,
	}
	s.redecider = redecider{d: &s.decisions, obliged: &s.obliged}
	s.places = places{d: &s.decisions, owners: owners, turns: turns}
	s.sharing = sharing{d: &s.decisions, cfg: &s.cfg}
	s.sharing.outsiders.sharing = &s.sharing
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
		HeldBack: waiting.Held(), HeldBackIn: waiting.Crowded(), Events: s.podEvents.Backlog(), NodeEvents: s.events.Waiting(), Apart: s.decisions.apart.Counts(),
	}
	for _, in := range s.decisions.instances {
		c.GPUStates.Add(in.placers.GPUStates())
	}
	s.sharing.workers.idle()
	for _, w := range s.sharing.workers.list {
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
func (s *Scheduler) Held() iter.Seq[*cluster.Pod] { return s.waiting.all() }

// Standings returns how each pod in the queue stands.
func (s *Scheduler) Standings() []queue.WaitingPod {
	list := s.queue.View().Pods()
	for i := range list {
		list[i].Attempts = max(list[i].Attempts, s.waiting.retries.of(list[i].Pod))
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
		s.sharing.workers.idle() // they read of nodes, queues and workloads what this may change
	}
	s.countArrivals(event)
	effects := s.store.Apply(event)
	for _, effect := range effects {
		s.waiting.apply(effect, now)
	}
	s.gangs.refresh(now)
	s.decisions.apart.Apply(s.store, event, now)
	switch event.(type) {
	case facts.NodeRemoved, facts.NodesListed:
		s.binder.ReleaseFromLostNodes()
		s.waiting.report(now)
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

// Ready returns the API writes to start now; each must be answered with Finish. The slice is valid until the next call.
func (s *Scheduler) Ready(now time.Time) []bind.Write {
	writes := s.binder.Ready(now)
	s.waiting.report(now)
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
		s.waiting.report(now)
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
	next.Add(s.gangs.nextWake())
	next.Add(s.blocked.nextReclaim())
	next.Add(s.reserved.NextWake())
	next.Add(s.places.nextWake())
	next.Add(s.sharing.outsiders.nextWake())
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
		Active: waiting.Ready + s.sharing.pending(), Backoff: waiting.BackingOff, Unschedulable: waiting.Parked, Quota: waiting.QuotaBlocked, Gathering: waiting.Gathering,
		Held: len(s.waiting.held), InFlight: s.binder.Len(),
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
	return s.waiting.verify()
}

// Outside are the schedulers in other processes.
func (s *Scheduler) Outside() *Outsiders { return &s.sharing.outsiders }

// Workers returns what has come of the units that were handed out to other schedulers.
func (s *Scheduler) Workers() WorkerCounts { return s.sharing.sum() }

type silent struct{}

func (silent) Placed(*cluster.Pod, time.Time)                       {}
func (silent) Preempting(*cluster.Pod, []*cluster.Pod, time.Time)   {}
func (silent) Cleared(*cluster.Pod, time.Time)                      {}
func (silent) Rejected(string, time.Time)                           {}
func (silent) Unschedulable(*cluster.Pod, []FilterCount, time.Time) {}
func (silent) Bound(*cluster.Pod, time.Time)                        {}
func (silent) Released(*cluster.Pod, string, time.Time)             {}
func (silent) MissedWakeup(*cluster.Pod, time.Time)                 {}
