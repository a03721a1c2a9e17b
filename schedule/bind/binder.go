package bind

import (
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/dra"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/volumes"
	"hilbert.dev/hilbert/internal/deadline"
	"hilbert.dev/hilbert/internal/heap"
	"hilbert.dev/hilbert/topology"
)

// Event is what became of a placement.
type Event uint8

const (
	// Bound: the API server has the Binding.
	Bound Event = iota + 1
	// Released: the Binding failed for good; the pod is Pending again and has to be decided again.
	Released
	// Vanished: the pod is gone, or another scheduler bound it; the watch brings the rest.
	Vanished
	// VictimsGone: all victims of the placement have left; the Binding follows.
	VictimsGone
	// Preempted: the placement was released before it was written, for a pod of higher priority; the pod is Pending again.
	Preempted
	// VictimDeleted: the API server has deleted Victim, which Pod is to take the place of. The placement waits until it is gone.
	VictimDeleted
)

// Transition tells the caller what became of one placement.
type Transition struct {
	Event   Event
	Pod     facts.UID
	Message string // Released: why
	Unsent  bool   // Released: the API server has not been asked, so there is nothing to tell the pod's owner
	// Nominated: a nomination of the pod for the node was written, or may have been.
	Nominated bool
	// Of VictimDeleted: the pod that has to leave, and its node.
	Victim PodName
	Node   string
}

// retryBase and retryMax bound the pause before an uncertain Binding is repeated, or the pod read again.
const (
	retryBase = 100 * time.Millisecond
	retryMax  = 10 * time.Second
)

type stage uint8

const (
	queued   stage = iota // waits for a place in flight
	inFlight              // the shell has it
	pausing               // its outcome is unknown; waits to be repeated or read
	waiting               // nothing to write until something is seen: victims have to leave
)

// row is one placement whose Binding is not certain yet. It begins in Propose and ends when the Binding is certain, one way or the other.
type row struct {
	pod      facts.UID
	node     string
	grant    topology.Grant
	stage    stage
	kind     WriteKind // WriteNomination, WriteVolume, then WriteBinding or ReadPod
	attempts int       // writes with an unknown outcome
	refusal  string    // a refusal that came after an unknown outcome
	decided  bool      // the outcome is known; the answer in flight only frees its place
	until    time.Time
	position int // in the heap of pausing rows
	// The order in which queued rows are served: priority and reclaimed are the pod's.
	priority  int32
	reclaimed bool
	sequence  uint64

	why       facts.Condition // WriteNomination
	nominated bool            // its nomination was sent
	evictions []*eviction     // that it waits for
	group     *planGroup      // rows of one Plan with victims, nil for a row on its own
	reclaims  bool            // the victims hold what their queues have borrowed

	// Of WriteVolume, see volumes.go.
	obligation    volumes.Obligation // the write in flight
	told          []facts.ClaimName  // claims about which was written
	awaitsVolumes bool               // it pauses until its claims are bound
	volumesReady  bool               // they are

	// Of ResourceClaims, see claims.go.
	claim       *dra.Obligation   // the write in flight, nil: it is not about one
	protected   []facts.ClaimName // that have their finalizer
	claimsSince int64             // when the first was written
}

// hasVictims reports whether some victims of the row may not have left yet.
func (r *row) hasVictims() bool {
	return (r.kind == WriteNomination || r.stage == waiting) && !r.bindsVolumes()
}

// bindsVolumes reports whether the victims of the row, and of its plan group, have left, and claims are being bound.
func (r *row) bindsVolumes() bool {
	return r.kind == WriteVolume || r.group != nil && r.group.bindsVolumes
}

// Binder is the committer: the only caller of Store.Commit, Confirm and Release, so that all places are given and taken back in one order.
//
// It is a state machine over rows. Propose adds one row per placement, Ready turns rows into writes, Finish applies the answers, and
// Transitions returns the outcomes of the placements. Settle and ReleaseFromLostNodes apply what the watch has seen.
type Binder struct {
	store *cluster.Store
	check cluster.Check
	cfg   spec.Binding

	rows     map[facts.UID]*row
	queue    *heap.Heap[*row] // queued, by servedBefore; some are decided already
	queued   uint64           // counts what was ever queued
	flights  map[uint64]*row  // by the number of the write
	pausing  *heap.Heap[*row]
	next     uint64 // number of the latest write
	inFlight int    // nominations, Bindings and reads under way

	groups map[*cluster.Unit]*planGroup // of gangs, until all their rows are decided

	unanswered map[facts.UID]int // writes in flight whose row is decided already, by pod

	evictions   evictions
	giveBacks   giveBacks
	conditions  conditions
	ready       []Write
	transitions []Transition
	handedOut   []Transition // what the latest Transitions returned
}

// New returns a Binder over the ledger. check is the filter table's commit check.
func New(store *cluster.Store, check cluster.Check, cfg spec.Binding, conds spec.Conditions) *Binder {
	return &Binder{
		store: store, check: check, cfg: cfg,
		rows:    make(map[facts.UID]*row),
		flights: make(map[uint64]*row), unanswered: make(map[facts.UID]int), groups: make(map[*cluster.Unit]*planGroup),
		pausing: heap.New(
			func(a, b *row) bool {
				if c := a.until.Compare(b.until); c != 0 {
					return c < 0
				}
				return a.pod < b.pod
			},
			func(r *row, i int) { r.position = i }),
		queue:      heap.New(servedBefore, nil),
		evictions:  newEvictions(),
		giveBacks:  giveBacks{flights: make(map[uint64]giveBack)},
		conditions: newConditions(conds),
	}
}

// Propose commits a Plan and queues its Bindings, or rejects it. If the Plan has victims, it queues nominations instead; why is the condition
// that they write.
func (b *Binder) Propose(plan *cluster.Plan, why facts.Condition) cluster.Verdict {
	verdict := b.store.Commit(plan, b.check)
	b.replaced(plan, verdict.Committed)
	if !verdict.Committed {
		return verdict
	}
	if first := b.store.Pod(plan.Placements[0].Pod); first.Placeholder() && !first.Obliged() { // a Plan of its own; nothing has to be written for it to hold
		if old := b.rows[first.UID]; old != nil {
			b.drop(old)
		}
		return verdict
	}
	group := b.groupFor(plan)
	for i := range plan.Placements {
		p := &plan.Placements[i]
		r := &row{group: group, reclaims: plan.Reclaims, pod: p.Pod, node: p.Node, grant: p.Grant, kind: WriteBinding, why: why, position: -1}
		switch {
		case b.store.Pod(p.Pod).Obliged():
			r.kind = WriteNomination
		case len(plan.Victims) == 0 && b.owes(r) && (group == nil || group.bindsVolumes):
			r.kind = WriteVolume
		}
		if group != nil {
			group.rows, group.left = append(group.rows, r), group.left+1
		}
		if old := b.rows[p.Pod]; old != nil {
			b.drop(old) // the Plan replaces it
		}
		b.rows[p.Pod] = r
		b.enqueue(r)
	}
	for _, uid := range plan.Victims {
		b.withdrawVictim(uid)
	}
	return verdict
}

// enqueue lets a row wait for a place in flight.
func (b *Binder) enqueue(r *row) {
	pod := b.store.Pod(r.pod)
	b.queued++
	r.priority, r.reclaimed, r.sequence = pod.Priority, pod.Class.Reclaimed, b.queued
	b.queue.Push(r)
}

// servedBefore orders rows as units wait in a queue: by priority, then online before reclaimed pods, then by when they were queued.
func servedBefore(x, y *row) bool {
	switch {
	case x.priority != y.priority:
		return x.priority > y.priority
	case x.reclaimed != y.reclaimed:
		return y.reclaimed
	}
	return x.sequence < y.sequence
}

// Transitions returns what has become of placements since the last call. The slice is valid until the next call.
func (b *Binder) Transitions() []Transition {
	b.transitions, b.handedOut = b.handedOut[:0], b.transitions
	return b.handedOut
}

func (b *Binder) record(t Transition) { b.transitions = append(b.transitions, t) }

// Reconfigure goes on with other settings.
func (b *Binder) Reconfigure(cfg spec.Binding, conds spec.Conditions) {
	b.conditions.tokens = max(b.conditions.tokens+float64(conds.Burst-b.conditions.cfg.Burst), 0) // a full bucket stays full
	b.cfg, b.conditions.cfg = cfg, conds
}

// Full reports whether MaxAhead placements wait for their writes: the caller has to stop deciding for a while.
func (b *Binder) Full() bool { return b.queue.Len() >= b.cfg.MaxAhead }

// Len is the number of placements whose Binding is not certain yet.
func (b *Binder) Len() int { return len(b.rows) }

// InFlight is the number of Bindings and reads that the shell has.
func (b *Binder) InFlight() int { return b.inFlight }

// Settle applies what the watch has seen of a pod: it is bound, deleted or finished. The first time that a pod with a placement is seen on its
// node, the Transition is Bound.
func (b *Binder) Settle(pod *cluster.Pod, gone bool) {
	b.conditions.forget(subject{pod: pod.UID})
	r := b.rows[pod.UID]
	switch {
	case r == nil:
	case pod.Phase != cluster.Assumed || gone:
		b.drop(r)
		if !gone && pod.Phase == cluster.Bound && pod.Node() == r.node {
			b.record(Transition{Event: Bound, Pod: pod.UID})
		}
	case pod.Deleting && (r.hasVictims() || r.bindsVolumes()): // its victims need not leave any more, nor its claims be bound
		b.drop(r)
		b.store.Release(pod.UID)
	}
	if r != nil && r.decided {
		b.breakGroup(r.group)
	}
	b.recheckEviction(pod.UID)
}

// drop removes a row.
func (b *Binder) drop(r *row) {
	delete(b.rows, r.pod)
	r.decided = true
	b.leaveGroup(r.group)
	switch r.stage {
	case pausing:
		b.pausing.Remove(r.position)
	case inFlight:
		b.unanswered[r.pod]++
	default:
	}
	b.leaveEvictions(r)
}

// Ready returns the writes to start now. The slice is valid until the next call.
func (b *Binder) Ready(now time.Time) []Write {
	b.ready = b.ready[:0]
	for b.inFlight < b.cfg.MaxInFlight && b.pausing.Len() > 0 && !b.pausing.First().until.After(now) {
		r := b.pausing.Pop()
		switch {
		case r.awaitsVolumes:
			b.volumesTimedOut(r)
		case r.kind == WriteNomination && b.conditions.withdraws(r.pod):
			b.pause(r, WriteNomination, now, retryBase)
		case r.kind == WriteVolume && r.claim == nil && r.obligation.Volume == "": // the claim may have been told, or have another version. A volume was chosen at its version
			r.stage = queued
			b.startVolume(r, now)
		default:
			b.start(r)
		}
	}
	for b.inFlight < b.cfg.MaxInFlight && b.queue.Len() > 0 {
		r := b.queue.Pop()
		switch {
		case r.decided:
		case r.group != nil && r.group.broken: // it came while other members were leaving
			b.released(r, lostMember, true)
		case r.kind == WriteNomination && !b.needsNomination(r), r.kind == WriteBinding && r.group.waits():
			b.awaitVictims(r)
		case r.kind == WriteNomination && b.conditions.withdraws(r.pod): // it must not overtake the withdrawal of an earlier one
			b.pause(r, WriteNomination, now, retryBase)
		case r.kind == WriteVolume:
			b.startVolume(r, now)
		default:
			b.start(r)
		}
	}
	b.startEvictions(now)
	b.startGiveBacks(now)
	b.ready = b.conditions.ready(b.store, b.ready, &b.next, now)
	return b.ready
}

func (b *Binder) start(r *row) {
	pod := b.store.Pod(r.pod)
	b.next++
	b.flights[b.next] = r
	b.inFlight++
	r.stage = inFlight
	write := Write{ID: WriteID{OwnerPlacement, b.next}, Kind: r.kind, Pod: r.pod, Namespace: pod.Namespace, Name: pod.Name, Node: r.node, Grant: r.grant}
	switch r.kind {
	case WriteNomination:
		write.Grant, write.Condition, r.nominated = topology.Grant{}, r.why, true
	case WriteVolume:
		write.Grant, write.Volume = topology.Grant{}, r.obligation
		if r.claim != nil {
			write.Kind, write.Volume, write.Claim = WriteClaim, volumes.Obligation{}, *r.claim
		}
	case WriteBinding:
		write.Placeholder = b.store.Placeholders().TakenBy(pod)
		write.Resources = resourcesOf(b.store.Extended(r.pod), b.store.Brought(r.node))
		write.Reclaimed, write.Priority = reclaimedBy(pod.Class), pod.Priority
		write.TellsPriority = pod.Class.Reclaimed || b.store.Reports(r.node)
	default:
	}
	b.ready = append(b.ready, write)
}

// reclaimedBy is how much of the reclaimed resources a pod of the class may use, for the Binding's annotation: the kubelet does not tell the
// node's agent. MiB are rounded up.
func reclaimedBy(c *cluster.Class) (out spec.ReclaimedAmounts) {
	if !c.Reclaimed || !c.AsksReclaimed() {
		return out
	}
	amounts := c.Reclaims()
	out.MilliCPU = amounts[0].Value
	out.MemoryMiB = (amounts[1].Value + topology.Mebibyte - 1) / topology.Mebibyte
	return out
}

// NextWake is when Ready may have more writes even if nothing happens until then.
func (b *Binder) NextWake(now time.Time) (time.Time, bool) {
	var next deadline.Earliest
	next.Add(b.conditions.nextWake(now))
	next.Add(b.evictions.nextWake())
	next.Add(b.giveBacks.nextWake())
	if b.pausing.Len() > 0 && b.inFlight < b.cfg.MaxInFlight {
		next.Add(b.pausing.First().until, true)
	}
	return next.Time()
}

// Finish applies the result of a Write. If the outcome of a placement is certain now, it is among the Transitions.
func (b *Binder) Finish(result Result, now time.Time) {
	switch result.ID.Owner {
	case OwnerPlacement:
		b.finishPlacement(result, now)
	case OwnerEviction:
		b.finishEviction(result, now)
	case OwnerCondition:
		b.conditions.finish(result, now)
	case OwnerClaims:
		b.finishGiveBack(result, now)
	case OwnerRelief, OwnerEvents, OwnerPodEvents, OwnerReservations: // not ours
	}
}

func (b *Binder) finishPlacement(result Result, now time.Time) {
	r := b.flights[result.ID.Number]
	if r == nil {
		return
	}
	delete(b.flights, result.ID.Number)
	b.inFlight--
	r.stage = queued
	switch {
	case r.decided:
		b.unanswered[r.pod]--
		if b.unanswered[r.pod] == 0 {
			delete(b.unanswered, r.pod)
			b.recheckEviction(r.pod)
		}
	case r.kind == ReadPod:
		b.finishRead(r, result, now)
	case r.kind == WriteNomination:
		b.finishNomination(r, result, now)
	case r.kind == WriteVolume:
		b.finishVolume(r, result, now)
	default:
		b.finishBinding(r, result, now)
	}
}

func (b *Binder) finishBinding(r *row, result Result, now time.Time) {
	switch result.Outcome {
	case Written:
		b.bound(r)
	case Gone:
		b.vanished(r)
	case Conflict: // bound already: by an earlier write of ours whose answer was lost, or by somebody else
		b.pause(r, ReadPod, now, 0)
	case Refused, Withheld:
		if r.attempts == 0 {
			b.released(r, result.Message, false)
			return
		}
		r.refusal = result.Message
		b.pause(r, ReadPod, now, 0)
	case NotSent:
		if r.attempts == 0 {
			b.released(r, "not sent: "+result.Message, true)
			return
		}
		b.pause(r, ReadPod, now, retryBase)
	case Unknown:
		r.attempts++
		kind := WriteBinding
		if r.attempts%b.cfg.MaxAttempts == 0 {
			kind = ReadPod
		}
		b.pause(r, kind, now, backoff(r.attempts))
	}
}

func (b *Binder) finishRead(r *row, result Result, now time.Time) {
	switch {
	case result.Outcome == Gone:
		b.vanished(r)
	case result.Outcome == Written && result.Node == r.node:
		b.bound(r)
	case result.Outcome == Written && result.Node != "":
		b.vanished(r) // somebody else's; the watch moves it
	case result.Outcome == Written && r.refusal != "":
		b.released(r, r.refusal, false)
	case result.Outcome == Written: // still unbound: the same Binding again, on the same node
		r.attempts++
		b.pause(r, WriteBinding, now, backoff(r.attempts))
	default:
		r.attempts++
		b.pause(r, ReadPod, now, backoff(r.attempts))
	}
}

func backoff(attempts int) time.Duration {
	return min(retryBase<<min(attempts-1, 10), retryMax)
}

func (b *Binder) pause(r *row, kind WriteKind, now time.Time, d time.Duration) {
	r.kind, r.stage, r.until = kind, pausing, now.Add(d)
	b.pausing.Push(r)
}

func (b *Binder) bound(r *row) {
	b.drop(r)
	b.store.Confirm(r.pod)
	b.record(Transition{Event: Bound, Pod: r.pod})
	b.recheckEviction(r.pod)
}

func (b *Binder) released(r *row, message string, unsent bool) {
	b.release(r, Transition{Event: Released, Pod: r.pod, Message: message, Unsent: unsent})
}

// vanished releases the node; the pod is not decided again until the watch says what became of it.
func (b *Binder) vanished(r *row) { b.release(r, Transition{Event: Vanished, Pod: r.pod}) }

// release takes a placement back, then continues with the placements that waited for this pod to leave.
func (b *Binder) release(r *row, t Transition) {
	b.drop(r)
	b.store.Release(r.pod)
	t.Nominated = r.nominated
	b.record(t)
	b.recheckEviction(r.pod)
	b.breakGroup(r.group)
}

// Assumes reports whether the pod has a placement here whose Binding is not certain yet.
func (b *Binder) Assumes(uid facts.UID) bool { return b.rows[uid] != nil }
