package bind

import (
	"cmp"
	"slices"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/volumes"
	"hilbert.dev/hilbert/internal/heap"
	"hilbert.dev/hilbert/topology"
)

// placements is the table of rows: which placements are not certain yet, and where the next write about each stands. It moves rows between its queue, the
// flights and the pauses; what an answer means, and what else a row waits for, others decide.
//
// A pod has one row at most. A row is in the queue, in flight, pausing, or in none of these while it waits for something to be seen. A row that is taken out while
// its write is in flight leaves a count behind until the answer comes, so that no second write about its pod overtakes the first.
//
// Example: a Plan of pod a adds a row, which is queued. start hands its Binding out; land gives the row back with the answer; take ends it.
type placements struct {
	store *cluster.Store
	out   *outbox

	rows    map[facts.UID]*row
	queue   *heap.Heap[*row] // queued, by servedBefore; some are decided already
	queued  uint64           // counts what was ever queued
	flights map[uint64]*row  // nominations, Bindings, reads and writes about claims under way, by the number of the write
	pausing *heap.Heap[*row]

	unanswered map[facts.UID]int // writes in flight whose row is decided already, by pod
}

func newPlacements(store *cluster.Store, out *outbox) placements {
	return placements{
		store: store, out: out,
		rows: make(map[facts.UID]*row), flights: make(map[uint64]*row), unanswered: make(map[facts.UID]int),
		pausing: heap.New(
			func(a, b *row) bool { return cmp.Or(a.until.Compare(b.until), cmp.Compare(a.pod, b.pod)) < 0 },
			func(r *row, i int) { r.position = i }),
		queue: heap.New(servedBefore, nil),
	}
}

// add begins a row.
func (p *placements) add(r *row) {
	p.rows[r.pod] = r
	p.enqueue(r)
}

// enqueue lets a row wait for a place in flight.
func (p *placements) enqueue(r *row) {
	pod := p.store.Pod(r.pod)
	p.queued++
	r.priority, r.reclaimed, r.sequence = pod.Priority, pod.Class.Reclaimed, p.queued
	p.queue.Push(r)
}

// pause lets a row wait until a time, for its next write or for something to be seen.
func (p *placements) pause(r *row, kind WriteKind, now time.Time, d time.Duration) {
	r.kind, r.stage, r.until = kind, pausing, now.Add(d)
	p.pausing.Push(r)
}

// endPause takes a row out of the pauses before its time.
func (p *placements) endPause(r *row) { p.pausing.Remove(r.position) }

// start hands out the row's write.
func (p *placements) start(r *row) {
	pod := p.store.Pod(r.pod)
	r.stage = inFlight
	write := Write{Kind: r.kind, Pod: r.pod, Namespace: pod.Namespace, Name: pod.Name, Node: r.node, Grant: r.grant}
	switch r.kind {
	case WriteNomination:
		write.Grant, write.Condition, r.nominated = topology.Grant{}, r.why, true
	case WriteVolume:
		write.Grant, write.Volume = topology.Grant{}, r.obligation
		if r.claim != nil {
			write.Kind, write.Volume, write.Claim = WriteClaim, volumes.Obligation{}, *r.claim
		}
	case WriteBinding:
		write.Placeholder = p.store.Placeholders().TakenBy(pod)
		write.Resources = resourcesOf(p.store.ResourceClaims().Extended(r.pod), p.store.Brought(r.node))
		write.Reclaimed, write.Priority = reclaimedBy(pod.Class), pod.Priority
		write.TellsPriority = pod.Class.Reclaimed || p.store.Reports(r.node)
	default:
	}
	p.flights[p.out.add(OwnerPlacement, &write)] = r
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

// land gives back the row whose write was answered, nil if the number is none of its. Of a row that is decided already the answer counts no more.
func (p *placements) land(number uint64) *row {
	r := p.flights[number]
	if r == nil {
		return nil
	}
	delete(p.flights, number)
	r.stage = queued
	if r.decided {
		if p.unanswered[r.pod]--; p.unanswered[r.pod] == 0 {
			delete(p.unanswered, r.pod)
		}
	}
	return r
}

// take ends a row.
func (p *placements) take(r *row) {
	delete(p.rows, r.pod)
	r.decided = true
	switch r.stage {
	case pausing:
		p.endPause(r)
	case inFlight:
		p.unanswered[r.pod]++
	default:
	}
}

// unsettled reports whether a pod has a row, or a write about an earlier one of its rows is under way.
func (p *placements) unsettled(pod facts.UID) bool {
	return p.rows[pod] != nil || p.unanswered[pod] > 0
}

// nextPaused takes out the next row whose pause has ended, nil if there is none.
func (p *placements) nextPaused(now time.Time) *row {
	if p.pausing.Len() == 0 || p.pausing.First().until.After(now) {
		return nil
	}
	return p.pausing.Pop()
}

// nextQueued takes out the next row of the queue, nil if there is none.
func (p *placements) nextQueued() *row {
	if p.queue.Len() == 0 {
		return nil
	}
	return p.queue.Pop()
}

// onLostNodes are the rows whose place can be given up because its node does not exist any more, in the order of their pods.
func (p *placements) onLostNodes() (lost []*row) {
	for _, r := range p.rows {
		if r.unsent() && p.store.Slot(r.node) == cluster.NoSlot {
			lost = append(lost, r)
		}
	}
	slices.SortFunc(lost, func(x, y *row) int { return cmp.Compare(x.pod, y.pod) })
	return lost
}
