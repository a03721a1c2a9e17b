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
)

// row is one placement whose Binding is not certain yet.
type row struct {
	pod      cluster.UID
	node     string
	grant    topology.Grant
	stage    stage
	kind     WriteKind // WriteBinding or ReadPod
	attempts int       // writes with an unknown outcome
	refused  string    // a refusal that came after an unknown outcome
	settled  bool      // the watch has decided; the answer in flight only frees its place
	until    time.Time
	position int // in the heap of pausing rows
}

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
	flying  int // Bindings and reads under way

	conditions conditions
	ready      []Write
}

// New returns a Binder over the ledger. check is the filter table's commit check.
func New(store *cluster.Store, check cluster.Check, cfg spec.Binding, conds spec.Conditions) *Binder {
	return &Binder{
		store: store, check: check, cfg: cfg,
		rows:    make(map[cluster.UID]*row),
		flights: make(map[WriteID]*row),
		pausing: heap.New(
			func(a, b *row) bool {
				if c := a.until.Compare(b.until); c != 0 {
					return c < 0
				}
				return a.pod < b.pod
			},
			func(r *row, i int) { r.position = i }),
		conditions: newConditions(conds),
	}
}

// Propose commits a Plan and queues its Bindings, or rejects it.
func (b *Binder) Propose(plan *cluster.Plan) cluster.Verdict {
	verdict := b.store.Commit(plan, b.check)
	if !verdict.Committed {
		return verdict
	}
	for i := range plan.Placements {
		p := &plan.Placements[i]
		r := &row{pod: p.Pod, node: p.Node, grant: p.Grant, kind: WriteBinding, position: -1}
		b.rows[p.Pod] = r
		b.queue = append(b.queue, r)
	}
	return verdict
}

// Full reports whether as many placements wait for a place in flight as may.
func (b *Binder) Full() bool { return len(b.queue)-b.head >= b.cfg.MaxAhead }

// Len is the number of placements whose Binding is not certain yet.
func (b *Binder) Len() int { return len(b.rows) }

// InFlight is the number of Bindings and reads that the shell has.
func (b *Binder) InFlight() int { return b.flying }

// Settle takes note that the watch has seen what became of a pod: bound, deleted or finished. It reports Bound the first time that a
// pod which was on its way is seen on its node.
func (b *Binder) Settle(pod *cluster.Pod, gone bool) (Report, bool) {
	b.conditions.forget(pod.UID)
	r := b.rows[pod.UID]
	if r == nil || pod.Phase == cluster.Assumed && !gone {
		return Report{}, false
	}
	delete(b.rows, pod.UID)
	r.settled = true
	if r.stage == pausing {
		b.pausing.Remove(r.position)
	}
	if !gone && pod.Phase == cluster.Bound && pod.Node() == r.node {
		return Report{Event: Bound, Pod: pod.UID}, true
	}
	return Report{}, false
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
		if !r.settled {
			b.start(r)
		}
	}
	if b.head*2 >= len(b.queue) {
		b.queue, b.head = append(b.queue[:0], b.queue[b.head:]...), 0
	}
	b.ready = b.conditions.ready(b.store, b.ready, &b.next, now)
	return b.ready
}

func (b *Binder) start(r *row) {
	pod := b.store.Pod(r.pod)
	b.next++
	b.flights[b.next] = r
	b.flying++
	r.stage = inFlight
	b.ready = append(b.ready, Write{
		ID: b.next, Kind: r.kind, Pod: r.pod, Namespace: pod.Namespace, Name: pod.Name, Node: r.node, Grant: r.grant,
	})
}

// NextWake is when Ready may have more to give though nothing happened meanwhile.
func (b *Binder) NextWake(now time.Time) (time.Time, bool) {
	at, ok := b.conditions.nextWake(now)
	if b.pausing.Len() > 0 && b.flying < b.cfg.MaxInFlight {
		if first := b.pausing.First().until; !ok || first.Before(at) {
			at, ok = first, true
		}
	}
	return at, ok
}

// Finish takes the answer to a Write. It reports what became of the placement, if that is certain now.
func (b *Binder) Finish(result Result, now time.Time) (Report, bool) {
	r := b.flights[result.ID]
	if r == nil {
		b.conditions.finish(result, now)
		return Report{}, false
	}
	delete(b.flights, result.ID)
	b.flying--
	if r.settled {
		return Report{}, false
	}
	if r.kind == ReadPod {
		return b.finishRead(r, result, now)
	}
	switch result.Outcome {
	case Written:
		return b.bound(r), true
	case Gone:
		return b.vanished(r), true
	case Conflict: // bound already: by an earlier try of ours whose answer was lost, or by somebody else
		b.pause(r, ReadPod, now, 0)
	case Refused:
		if r.attempts == 0 {
			return b.released(r, result.Message), true
		}
		r.refused = result.Message
		b.pause(r, ReadPod, now, 0)
	case NotSent:
		if r.attempts == 0 {
			report := b.released(r, "not sent: "+result.Message)
			report.Unsent = true
			return report, true
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
	return Report{}, false
}

func (b *Binder) finishRead(r *row, result Result, now time.Time) (Report, bool) {
	switch {
	case result.Outcome == Gone:
		return b.vanished(r), true
	case result.Outcome == Written && result.Node == r.node:
		return b.bound(r), true
	case result.Outcome == Written && result.Node != "":
		return b.vanished(r), true // somebody else's; the watch moves it
	case result.Outcome == Written && r.refused != "":
		return b.released(r, r.refused), true
	case result.Outcome == Written: // still unbound: the same Binding again, on the same node
		r.attempts++
		b.pause(r, WriteBinding, now, backoff(r.attempts))
	default:
		r.attempts++
		b.pause(r, ReadPod, now, backoff(r.attempts))
	}
	return Report{}, false
}

func backoff(attempts int) time.Duration {
	return min(retryBase<<min(attempts-1, 10), retryMax)
}

func (b *Binder) pause(r *row, kind WriteKind, now time.Time, d time.Duration) {
	r.kind, r.stage, r.until = kind, pausing, now.Add(d)
	b.pausing.Push(r)
}

func (b *Binder) bound(r *row) Report {
	delete(b.rows, r.pod)
	b.store.Confirm(r.pod)
	return Report{Event: Bound, Pod: r.pod}
}

func (b *Binder) released(r *row, message string) Report {
	delete(b.rows, r.pod)
	b.store.Release(r.pod)
	return Report{Event: Released, Pod: r.pod, Message: message}
}

// vanished gives the node's room back; the pod is not tried again until the watch says what became of it.
func (b *Binder) vanished(r *row) Report {
	delete(b.rows, r.pod)
	b.store.Release(r.pod)
	return Report{Event: Vanished, Pod: r.pod}
}

// Assumes reports whether the pod has a row here.
func (b *Binder) Assumes(uid cluster.UID) bool { return b.rows[uid] != nil }
