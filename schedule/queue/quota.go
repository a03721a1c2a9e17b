package queue

import (
	"math"
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/internal/heap"
)

// quotaBlock is the units of a shape queue for which a queue's limit leaves no room. They ask for the same, so when room comes only as many are woken as
// fit, and a thousand that wait do not all get tried for each one that ends. One refusal of a pod speaks for all. It does not for gangs, as
// what is left may be kept for one of them: so the others are tried too, each once.
type quotaBlock struct {
	shapeQueue *ShapeQueue
	limiting   *cluster.Queue
	units      *heap.Heap[*Unit] // that may be woken
	refused    []*Unit           // gangs that were refused as things stand
	eased      uint64            // of at, when it was last looked at
	trials     int               // units that were woken and have not been answered yet
	recheck    bool              // the room that one of them was woken for may still be there
	position   int               // among the quota blocks at the queue
}

// BlockByQuota blocks a popped unit until the limit of a queue at or above its own, at, leaves room for it: until it has Eased beyond
// what it was, and the room suffices.
func (q *Queue) BlockByQuota(u *Unit, at *cluster.Queue) {
	if !q.holds(u) {
		return
	}
	if u.gang != nil {
		if u.refresh(); u.waiting() < u.need {
			q.route(u)
			return
		}
	}
	q.endTrial(u, u.gang != nil)
	sq := q.shapeQueueOf(u)
	if sq.idle {
		q.idle.remove(sq)
	}
	block := sq.blocked
	switch {
	case block == nil:
		block = &quotaBlock{shapeQueue: sq, limiting: at, units: heap.New(sq.node.policy.units, setUnit)}
		sq.blocked = block
		q.addBlock(block, at)
	case block.limiting != at:
		q.removeBlock(block)
		q.addBlock(block, at)
	}
	block.eased = at.Eased()
	u.location, u.shapeQueue, u.Shape = inQuotaBlock, sq, sq.Shape
	if u.refused = u.gang != nil; u.refused {
		u.position = len(block.refused)
		block.refused = append(block.refused, u)
	} else {
		block.units.Push(u)
	}
	q.blockedUnits++
}

func (q *Queue) addBlock(block *quotaBlock, at *cluster.Queue) {
	block.limiting, block.position = at, len(q.blocked[at])
	q.blocked[at] = append(q.blocked[at], block)
}

func (q *Queue) removeBlock(block *quotaBlock) {
	list := q.blocked[block.limiting]
	last := list[len(list)-1]
	list[block.position], last.position = last, block.position
	list = slices.Delete(list, len(list)-1, len(list))
	if len(list) == 0 {
		delete(q.blocked, block.limiting)
		return
	}
	q.blocked[block.limiting] = list
}

// unblock takes a unit out of its quota block.
func (q *Queue) unblock(u *Unit) {
	block := u.shapeQueue.blocked
	if u.refused {
		last := block.refused[len(block.refused)-1]
		block.refused[u.position], last.position = last, u.position
		block.refused = slices.Delete(block.refused, len(block.refused)-1, len(block.refused))
	} else {
		block.units.Remove(u.position)
	}
	u.location, u.refused = popped, false
	q.blockedUnits--
	if block.len() > 0 {
		return
	}
	block.shapeQueue.blocked = nil
	q.removeBlock(block)
	q.retireIfEmpty(block.shapeQueue)
}

func (block *quotaBlock) len() int { return block.units.Len() + len(block.refused) }

// each visits all units.
func (block *quotaBlock) each(visit func(*Unit)) {
	for i := range block.units.Len() {
		visit(block.units.At(i))
	}
	for _, u := range block.refused {
		visit(u)
	}
}

// endTrial takes note that what a unit was woken for has been decided. If it lapsed, the room may still be there for others.
func (q *Queue) endTrial(u *Unit, lapsed bool) {
	block := u.trialOf
	if block == nil {
		return
	}
	u.trialOf = nil
	block.trials--
	if lapsed && !block.recheck && block.units.Len() > 0 {
		block.recheck = true
		q.recheck = append(q.recheck, block)
	}
}

// wakeFitting wakes as many units of a quota block as there is room for now, beyond those that have been woken already.
func (q *Queue) wakeFitting(block *quotaBlock) {
	eased := block.limiting.Eased()
	if block.eased == eased && !block.recheck {
		return
	}
	if block.eased != eased {
		for _, u := range block.refused {
			u.refused = false
			block.units.Push(u)
		}
		block.refused = block.refused[:0]
	}
	block.eased, block.recheck = eased, false
	for n := unitsThatFit(block.limiting, block.shapeQueue.Shape) - int64(block.trials); n > 0 && block.units.Len() > 0; n-- {
		u := block.units.First()
		q.unblock(u)
		u.trialOf = block
		block.trials++
		q.enqueue(u)
	}
}

func (q *Queue) recheckBlocks() {
	list := q.recheck
	q.recheck = nil
	for _, block := range list {
		q.wakeFitting(block)
	}
}

// unitsThatFit is how many units of a shape a queue's limits leave unitsThatFit for, at most.
func unitsThatFit(at *cluster.Queue, shape *Shape) int64 {
	n := int64(math.MaxInt32)
	for _, a := range shape.Ask {
		if limit := at.Limit(a.Kind); limit != cluster.Unlimited {
			n = min(n, max(limit-at.Used(a.Kind), 0)/a.Value)
		}
	}
	return n
}
