package schedule

import (
	"cmp"
	"fmt"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/quota"
	"hilbert.dev/hilbert/internal/heap"
	"hilbert.dev/hilbert/schedule/admission"
	"hilbert.dev/hilbert/schedule/bind"
	"hilbert.dev/hilbert/schedule/dispatch"
	"hilbert.dev/hilbert/schedule/place"
	"hilbert.dev/hilbert/schedule/place/rules"
	"hilbert.dev/hilbert/schedule/place/victims"
	"hilbert.dev/hilbert/schedule/queue"
	"hilbert.dev/hilbert/schedule/relief"
)

// maxRejections is how often in a row a unit is decided again at once after its Plan was rejected; then it backs off.
const maxRejections = 8

// maxCostIndexes bounds the classes and priorities whose preemption costs are kept for every node.
const maxCostIndexes = 16

// Scheduler is the pipeline. Its methods must not run beside one another.
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

	attempts map[facts.UID]int              // failed attempts of pods that wait or are on their way
	held     map[facts.UID]cluster.Revision // what must have been seen before they are decided on
	vanished map[facts.UID]struct{}         // the API server says they are gone or bound elsewhere; the watch has not said so yet
	verdicts map[*queue.Shape]*verdict
	vain     map[sleeper]vain // of those that sleep
	gained   map[sleeper]int  // of gangs that sleep: for how many more members there may be room than when they were explained
	looked   cluster.Revision // those that sleep have been checked against changes up to here

	patient  map[facts.UnitName]*patience // gangs that wait
	reviews  *heap.Heap[*patience]
	reserved reservations
	claims   map[*quota.Queue]claim
	hope     hope
	reclaims reclaims
	relief   *relief.Relief
	writes   []bind.Write // scratch of Ready
}

// instance is one place replica.
type instance struct {
	number   int
	snapshot *cluster.Snapshot
	placer   *place.Placer
	preempts *victims.Preemptor
	reclaims *victims.Reclaimer
}

// verdict is the latest explanation of a shape that fits nowhere, kept so that it is computed at most once per conditions.minInterval.
type verdict struct {
	at        time.Time
	condition facts.Condition
	counts    []FilterCount
	missing   int // of a gang: members that found no place
}

// New returns an empty pipeline. It fails on a score name that does not exist.
func New(o Options) (*Scheduler, error) {
	profile, err := rules.NewProfile(o.Config.Scores)
	if err != nil {
		return nil, err
	}
	if len(o.Config.CapacityRatio) > 0 {
		profile.WithRatio(o.Config.CapacityRatio)
	}
	var defaults []facts.SpreadDefault
	if o.Config.DefaultSpread == spec.DefaultSpreadSystem {
		defaults = facts.SystemSpreadDefaults
	}
	s := &Scheduler{
		cfg:        o.Config,
		store:      cluster.NewStore(defaults...),
		dispatcher: dispatch.New(max(o.Instances, 1)),
		market:     profile.Market(),
		lag:        o.Lag,
		observer:   o.Observer,
		attempts:   make(map[facts.UID]int),
		held:       make(map[facts.UID]cluster.Revision),
		vanished:   make(map[facts.UID]struct{}),
		verdicts:   make(map[*queue.Shape]*verdict),
		vain:       make(map[sleeper]vain),
		gained:     make(map[sleeper]int),
		patient:    make(map[facts.UnitName]*patience),
		reserved:   reservations{overdue: make(map[facts.UnitName]*queue.Unit)},
		reviews: heap.New(
			func(a, b *patience) bool {
				return cmp.Or(a.review.Compare(b.review), a.since.Compare(b.since), cmp.Compare(a.gang.String(), b.gang.String())) < 0
			},
			func(p *patience, i int) { p.position = i }),
	}
	s.queue = queue.New(s.store)
	if s.lag == nil {
		s.lag = func(int) bool { return false }
	}
	if s.observer == nil {
		s.observer = silent{}
	}
	s.auditor, _ = s.observer.(Auditor)
	s.relief = relief.New(s.store, o.Config.Evictions)
	s.binder = bind.New(s.store, rules.Commits, o.Config.Binding, o.Config.Conditions)
	for i := range max(o.Instances, 1) {
		snapshot := cluster.NewSnapshot()
		// Each instance breaks ties its own way, so that instances on equal snapshots do not all want the same node.
		seed := o.Config.Seed + uint64(i)*0x9e3779b97f4a7c15
		placer := place.NewPlacer(snapshot, profile, seed, o.Config.MaxClassIndexes)
		placer.SetLevels(o.Config.Topology.Levels)
		s.instances = append(s.instances, &instance{i, snapshot, placer, place.NewPreemptor(placer, s.store, maxCostIndexes), place.NewReclaimer(placer, s.store)})
	}
	return s, nil
}

// Store returns the ledger, to read.
func (s *Scheduler) Store() *cluster.Store { return s.store }

// Apply takes in what a door saw.
func (s *Scheduler) Apply(event facts.Event, now time.Time) {
	s.arrive(event)
	for _, effect := range s.store.Apply(event) {
		s.effect(effect, now)
	}
	s.follow(now)
	switch event.(type) {
	case facts.NodeRemoved, facts.NodesListed:
		s.binder.ReleaseFromLostNodes()
		s.report(now)
	}
}

// arrive tells the market of pods that were not known before.
func (s *Scheduler) arrive(event facts.Event) {
	arrived := func(f *facts.Pod) {
		kept := (f.Ours || f.Node != "") && !f.Finished && !f.Deleting // others the store forgets, and would hear of as new each time
		if !f.Requirements.GPU.IsZero() && kept && s.store.Pod(f.UID) == nil {
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

func (s *Scheduler) effect(e cluster.Effect, now time.Time) {
	pod := e.Pod
	seen, held := s.held[pod.UID]
	delete(s.held, pod.UID)
	delete(s.vanished, pod.UID)
	switch e.Kind {
	case cluster.Waits:
		if held {
			s.binder.WithdrawCondition(pod)
		}
		s.enqueue(pod, seen, now)
	case cluster.Held:
		s.held[pod.UID] = max(seen, s.queue.Remove(pod.UID))
		if condition, refused := admission.Refuse(pod); refused && !pod.Gated {
			s.binder.SetCondition(pod, condition, now)
		}
	case cluster.Settled:
		s.queue.Remove(pod.UID)
		if e.Gone || pod.Phase != cluster.Assumed {
			delete(s.attempts, pod.UID)
		}
		s.binder.Settle(pod, e.Gone)
		s.report(now)
	}
}

// enqueue makes a pod wait, to be decided on by who has seen a revision; if its class is known to fit nowhere, the pod is told so at once.
func (s *Scheduler) enqueue(pod *cluster.Pod, seen cluster.Revision, now time.Time) {
	if s.binder.Assumes(pod.UID) {
		return
	}
	u, parked := s.queue.Add(pod)
	u.NotBefore = max(u.NotBefore, seen)
	s.await(u, false, now)
	if !parked {
		return
	}
	if s.hopes(u, now) {
		s.queue.Wake(u.ShapeQueue())
	} else if v := s.verdicts[u.Shape]; v != nil {
		s.binder.SetCondition(pod, v.condition, now)
	}
}

// Ready returns the API writes to start now; each must be answered with Finish. The slice is valid until the next call.
func (s *Scheduler) Ready(now time.Time) []bind.Write {
	writes := s.binder.Ready(now)
	s.report(now)
	if evictions := s.relief.Ready(now); len(evictions) > 0 {
		s.writes = append(append(s.writes[:0], writes...), evictions...)
		return s.writes
	}
	return writes
}

// Finish takes the answer to a write.
func (s *Scheduler) Finish(result bind.Result, now time.Time) {
	if result.ID.Owner == bind.OwnerRelief {
		s.relief.Finish(result, now)
		return
	}
	s.binder.Finish(result, now)
	s.report(now)
}

// report goes on with what the binder has to tell.
func (s *Scheduler) report(now time.Time) {
	for _, r := range s.binder.Transitions() {
		s.became(r, now)
	}
	s.follow(now)
}

func (s *Scheduler) became(r bind.Transition, now time.Time) {
	pod := s.store.Pod(r.Pod)
	if pod == nil {
		return
	}
	switch r.Event {
	case bind.Bound:
		delete(s.attempts, r.Pod)
		s.observer.Bound(pod, now)
	case bind.Released:
		s.observer.Released(pod, r.Message, now)
		if !pod.Schedulable() {
			return
		}
		s.queue.AddDelayed(pod, s.backoff(r.Pod, now))
		if !r.Unsent {
			s.binder.SetCondition(pod, facts.Condition{Reason: spec.ReasonBindingFailed, Message: r.Message}, now)
		}
	case bind.VictimsGone:
		s.observer.Cleared(pod, now)
	case bind.Preempted:
		s.observer.Released(pod, r.Message, now)
		if pod.Schedulable() {
			s.enqueue(pod, 0, now)
		}
	case bind.Vanished:
		delete(s.attempts, r.Pod)
		s.vanished[r.Pod] = struct{}{}
	}
}

// backoff is when a pod is tried again after one more failure; the pause doubles each time.
func (s *Scheduler) backoff(uid facts.UID, now time.Time) time.Time {
	s.attempts[uid]++
	pause := s.cfg.Backoff.Initial.D() << min(s.attempts[uid]-1, 16)
	return now.Add(min(pause, s.cfg.Backoff.Max.D()))
}

// NextWake is when Step or Ready have something to do though nothing was applied or finished meanwhile.
func (s *Scheduler) NextWake(now time.Time) (time.Time, bool) {
	at, ok := s.binder.NextWake(now)
	if expiry, waits := s.queue.NextExpiry(); waits && (!ok || expiry.Before(at)) {
		at, ok = expiry, true
	}
	if next, waits := s.relief.NextWake(now); waits && (!ok || next.Before(at)) {
		at, ok = next, true
	}
	if next, waits := s.nextTend(); waits && (!ok || next.Before(at)) {
		at, ok = next, true
	}
	return at, ok
}

// Pending counts the pods that wait.
func (s *Scheduler) Pending() Pending {
	waiting := s.queue.Counts()
	return Pending{
		Active: waiting.Ready, Backoff: waiting.BackingOff, Unschedulable: waiting.Parked, Quota: waiting.QuotaBlocked, Gathering: waiting.Gathering,
		Held: len(s.held), InFlight: s.binder.Len(),
	}
}

// Relief returns what has come of the evictions that nodes wish, and how the wishes stand.
func (s *Scheduler) Relief() (relief.Counts, relief.Status) {
	return s.relief.Counts(), s.relief.Status()
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
