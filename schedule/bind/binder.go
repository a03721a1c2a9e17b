package bind

import (
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/internal/heap"
	"hilbert.dev/hilbert/topology"
)

// Event is what became of a placement.
type Event uint8

const (
	// Bound: the API server has the Binding.
	Bound Event = iota + 1
	// Released: the Binding failed for good; the pod is Pending again and wants another try.
	Released
	// Vanished: the pod is gone or settled otherwise; the watch tells the rest.
	Vanished
	// Cleared: all victims of the placement have left; the Binding follows.
	Cleared
	// Preempted: the placement was given up, unwritten, for a pod of higher priority; the pod is Pending again.
	Preempted
)

// Report tells the caller what became of a placement.
type Report struct {
	Event   Event
	Pod     cluster.UID
	Message string // Released: why
	Unsent  bool   // Released: the API server has not been asked, so there is nothing to tell the pod's owner
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

// row is one placement whose Binding is not certain yet.
type row struct {
	pod      cluster.UID
	node     string
	grant    topology.Grant
	stage    stage
	kind     WriteKind // WriteNomination, then WriteBinding or ReadPod
	attempts int       // writes with an unknown outcome
	refused  string    // a refusal that came after an unknown outcome
	settled  bool      // it is decided; the answer in flight only frees its place
	until    time.Time
	position int // in the heap of pausing rows

	why       cluster.Condition // WriteNomination
	evictions []*eviction       // that it waits for
	mates     *mates            // rows of one Plan with victims, nil for a row on its own
	reclaims  bool              // the victims hold what their queues have borrowed
}

// obliged reports whether the row's victims may not have left yet.
func (r *row) obliged() bool { return r.kind == WriteNomination || r.stage == waiting }

// Binder is the committer. It is the only one that calls Store.Commit, Confirm and Release.
type Binder struct {
	store *cluster.Store
	check cluster.Check
	cfg   spec.Binding

	rows    map[cluster.UID]*row
	queue   []*row // queued, oldest first; head is queueHead
	head    int
	flights map[WriteID]*row
	pausing *heap.Heap[*row]
	next    WriteID
	flying  int // nominations, Bindings and reads under way

	trailing map[cluster.UID]int // of those, the ones whose row is settled

	evictions  evictions
	conditions conditions
	ready      []Write
	reports    []Report
	told       []Report // handed out by Reports
}

// New returns a Binder over the ledger. check is the filter table's commit check.
func New(store *cluster.Store, check cluster.Check, cfg spec.Binding, conds spec.Conditions) *Binder {
	return &Binder{
		store: store, check: check, cfg: cfg,
		rows:    make(map[cluster.UID]*row),
		flights: make(map[WriteID]*row), trailing: make(map[cluster.UID]int),
		pausing: heap.New(
			func(a, b *row) bool {
				if c := a.until.Compare(b.until); c != 0 {
					return c < 0
				}
				return a.pod < b.pod
			},
			func(r *row, i int) { r.position = i }),
		evictions:  newEvictions(),
		conditions: newConditions(conds),
	}
}

// Propose commits a Plan and queues its Bindings, or rejects it. With victims, the nominations are queued; they say why the pods wait.
func (b *Binder) Propose(plan *cluster.Plan, why cluster.Condition) cluster.Verdict {
	verdict := b.store.Commit(plan, b.check)
	if !verdict.Committed {
		return verdict
	}
	var together *mates
	if len(plan.Victims) > 0 && len(plan.Placements) > 1 {
		together = &mates{}
	}
	for i := range plan.Placements {
		p := &plan.Placements[i]
		r := &row{mates: together, reclaims: plan.Reclaims, pod: p.Pod, node: p.Node, grant: p.Grant, kind: WriteBinding, why: why, position: -1}
		if b.store.Pod(p.Pod).Obliged() {
			r.kind = WriteNomination
		}
		if together != nil {
			together.rows = append(together.rows, r)
		}
		b.rows[p.Pod] = r
		b.queue = append(b.queue, r)
	}
	for _, uid := range plan.Victims {
		b.displace(uid)
	}
	return verdict
}

// Reports returns what has become of placements since the last call. The slice is valid until the next call.
func (b *Binder) Reports() []Report {
	b.reports, b.told = b.told[:0], b.reports
	return b.told
}

func (b *Binder) report(r Report) { b.reports = append(b.reports, r) }

// Full reports whether as many placements wait for a place in flight as may.
func (b *Binder) Full() bool { return len(b.queue)-b.head >= b.cfg.MaxAhead }

// Len is the number of placements whose Binding is not certain yet.
func (b *Binder) Len() int { return len(b.rows) }

// InFlight is the number of Bindings and reads that the shell has.
func (b *Binder) InFlight() int { return b.flying }

// Settle takes note that the watch has seen what became of a pod: bound, deleted or finished. It reports Bound the first time that a
// pod which was on its way is seen on its node.
func (b *Binder) Settle(pod *cluster.Pod, gone bool) {
	b.conditions.forget(subject{pod: pod.UID})
	r := b.rows[pod.UID]
	switch {
	case r == nil:
	case pod.Phase != cluster.Assumed || gone:
		b.drop(r)
		if !gone && pod.Phase == cluster.Bound && pod.Node() == r.node {
			b.report(Report{Event: Bound, Pod: pod.UID})
		}
	case pod.Deleting && r.obliged(): // nobody need leave for it any more
		b.drop(r)
		b.store.Release(pod.UID)
	}
	if r != nil && r.settled {
		b.breakUp(r.mates)
	}
	b.press(pod.UID)
}

// drop forgets a row.
func (b *Binder) drop(r *row) {
	delete(b.rows, r.pod)
	r.settled = true
	switch r.stage {
	case pausing:
		b.pausing.Remove(r.position)
	case inFlight:
		b.trailing[r.pod]++
	default:
	}
	b.abandon(r)
}

// Ready returns the writes to start now. The slice is valid until the next call.
func (b *Binder) Ready(now time.Time) []Write {
	b.ready = b.ready[:0]
	for b.flying < b.cfg.MaxInFlight && b.pausing.Len() > 0 && !b.pausing.First().until.After(now) {
		b.start(b.pausing.Pop())
	}
	for b.flying < b.cfg.MaxInFlight && b.head < len(b.queue) {
		r := b.queue[b.head]
		b.queue[b.head] = nil
		b.head++
		switch {
		case r.settled:
		case r.kind == WriteNomination && !b.unnominated(r), r.kind == WriteBinding && r.mates.wait():
			b.evict(r)
		default:
			b.start(r)
		}
	}
	if b.head*2 >= len(b.queue) {
		b.queue, b.head = append(b.queue[:0], b.queue[b.head:]...), 0
	}
	b.startEvictions(now)
	b.ready = b.conditions.ready(b.store, b.ready, &b.next, now)
	return b.ready
}

func (b *Binder) start(r *row) {
	pod := b.store.Pod(r.pod)
	b.next++
	b.flights[b.next] = r
	b.flying++
	r.stage = inFlight
	write := Write{ID: b.next, Kind: r.kind, Pod: r.pod, Namespace: pod.Namespace, Name: pod.Name, Node: r.node, Grant: r.grant}
	switch r.kind {
	case WriteNomination:
		write.Grant, write.Condition = topology.Grant{}, r.why
	case WriteBinding:
		if write.Reclaimed = reclaimedBy(pod.Class); pod.Class.Reclaimed {
			write.Priority = pod.Priority
		}
	default:
	}
	b.ready = append(b.ready, write)
}

// reclaimedBy is what a pod of the class may have on its node, which tells nobody there of such resources; MiB are rounded up.
func reclaimedBy(c *cluster.Class) (out spec.ReclaimedAmounts) {
	if !c.Reclaimed || !c.AsksReclaimed() {
		return out
	}
	amounts := c.Reclaims()
	out.MilliCPU = amounts[0].Value
	out.MemoryMiB = (amounts[1].Value + topology.Mebibyte - 1) / topology.Mebibyte
	return out
}

// NextWake is when Ready may have more to give though nothing happened meanwhile.
func (b *Binder) NextWake(now time.Time) (time.Time, bool) {
	at, ok := b.conditions.nextWake(now)
	if b.pausing.Len() > 0 && b.flying < b.cfg.MaxInFlight {
		if first := b.pausing.First().until; !ok || first.Before(at) {
			at, ok = first, true
		}
	}
	if first, some := b.evictions.nextWake(); some && (!ok || first.Before(at)) {
		at, ok = first, true
	}
	return at, ok
}

// Finish takes the answer to a Write. What became of the placement, if that is certain now, is among the Reports.
func (b *Binder) Finish(result Result, now time.Time) {
	r := b.flights[result.ID]
	if r == nil {
		if !b.finishEviction(result, now) {
			b.conditions.finish(result, now)
		}
		return
	}
	delete(b.flights, result.ID)
	b.flying--
	r.stage = queued
	switch {
	case r.settled:
		b.trailing[r.pod]--
		if b.trailing[r.pod] == 0 {
			delete(b.trailing, r.pod)
			b.press(r.pod)
		}
	case r.kind == ReadPod:
		b.finishRead(r, result, now)
	case r.kind == WriteNomination:
		b.finishNomination(r, result, now)
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
	case Conflict: // bound already: by an earlier try of ours whose answer was lost, or by somebody else
		b.pause(r, ReadPod, now, 0)
	case Refused, Withheld:
		if r.attempts == 0 {
			b.released(r, result.Message, false)
			return
		}
		r.refused = result.Message
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
	case result.Outcome == Written && r.refused != "":
		b.released(r, r.refused, false)
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
	b.report(Report{Event: Bound, Pod: r.pod})
	b.press(r.pod)
}

func (b *Binder) released(r *row, message string, unsent bool) {
	b.giveUp(r, Report{Event: Released, Pod: r.pod, Message: message, Unsent: unsent})
}

// vanished gives the node's room back; the pod is not tried again until the watch says what became of it.
func (b *Binder) vanished(r *row) { b.giveUp(r, Report{Event: Vanished, Pod: r.pod}) }

// giveUp releases a placement, and sees to who waited for it to leave.
func (b *Binder) giveUp(r *row, report Report) {
	b.drop(r)
	b.store.Release(r.pod)
	b.report(report)
	b.press(r.pod)
	b.breakUp(r.mates)
}

// Assumes reports whether the pod has a row here.
func (b *Binder) Assumes(uid cluster.UID) bool { return b.rows[uid] != nil }
