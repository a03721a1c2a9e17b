package queue

import (
	"math"
	"slices"

	"hilbert.dev/hilbert/cluster/quota"
	"hilbert.dev/hilbert/internal/heap"
	"hilbert.dev/hilbert/resource"
)

// quotaBlock is the units of one shape queue for which a queue's limit leaves no room. They ask for the same, so when room comes only as many are
// woken as fit: a thousand blocked units are not all tried for each one that ends.
//
// Example: queue a may use 3 CPUs and uses all of them; four pods of one CPU are blocked. A pod of one CPU ends. One of the four is woken, on trial.
// While it is decided, the others stay blocked. If it turns out that it fits no node, the trial lapses: the room is still there, so the next is woken.
//
// One refusal of a pod speaks for all pods of the block. It does not for gangs, because what is left may be reserved for one of them. So the other
// gangs are tried too, each once (refused).
type quotaBlock struct {
	shapeQueue *ShapeQueue
	limiting   *quota.Queue      // the queue whose limit it is: that of the units, or one above it
	units      *heap.Heap[*Unit] // that may be woken
	refused    []*Unit           // gangs that were refused since limiting has last eased
	eased      uint64            // limiting.Eased() when it was last read
	trials     int               // units that were woken and are not decided yet
	grant      resource.Amount   // what the latest of them would have been given, if that was what had no room
	recheck    bool              // the room for which a unit was woken may still be there
	position   int               // among the blocks of limiting
}

// quotaBlocks is all quota blocks, by the queue whose limit blocks them.
type quotaBlocks struct {
	queues  *shapeQueues
	byLimit map[*quota.Queue][]*quotaBlock
	recheck []*quotaBlock // those with recheck set
	units   int
}

// add blocks a unit until the limit of a queue leaves room for it.
func (b *quotaBlocks) add(u *Unit, sq *ShapeQueue, limiting *quota.Queue) {
	b.queues.use(sq)
	block := sq.blocked
	switch {
	case block == nil:
		block = &quotaBlock{shapeQueue: sq, limiting: limiting, units: heap.New(sq.node.policy.units, setUnit)}
		sq.blocked = block
		b.list(block, limiting)
	case block.limiting != limiting:
		b.unlist(block)
		b.list(block, limiting)
	}
	block.eased = limiting.Eased()
	u.location, u.shapeQueue, u.Shape = inQuotaBlock, sq, sq.Shape
	if u.refused = u.gang != nil; u.refused {
		u.position = len(block.refused)
		block.refused = append(block.refused, u)
	} else {
		block.units.Push(u)
	}
	b.units++
}

// remove takes a unit out of its quota block.
func (b *quotaBlocks) remove(u *Unit) {
	block := u.shapeQueue.blocked
	if u.refused {
		last := block.refused[len(block.refused)-1]
		block.refused[u.position], last.position = last, u.position
		block.refused = slices.Delete(block.refused, len(block.refused)-1, len(block.refused))
	} else {
		block.units.Remove(u.position)
	}
	u.location, u.refused = popped, false
	b.units--
	if block.len() > 0 {
		return
	}
	block.shapeQueue.blocked = nil
	b.unlist(block)
	b.queues.retireIfEmpty(block.shapeQueue)
}

func (b *quotaBlocks) list(block *quotaBlock, limiting *quota.Queue) {
	block.limiting, block.position = limiting, len(b.byLimit[limiting])
	b.byLimit[limiting] = append(b.byLimit[limiting], block)
}

func (b *quotaBlocks) unlist(block *quotaBlock) {
	list := b.byLimit[block.limiting]
	last := list[len(list)-1]
	list[block.position], last.position = last, block.position
	list = slices.Delete(list, len(list)-1, len(list))
	if len(list) == 0 {
		delete(b.byLimit, block.limiting)
		return
	}
	b.byLimit[block.limiting] = list
}

// clear forgets all blocks, before their units go to new ones in a new tree.
func (b *quotaBlocks) clear() {
	clear(b.byLimit)
	b.recheck, b.units = nil, 0
}

// endTrial takes note that a unit that was woken on trial is decided. If the trial lapsed, the room may still be there for another unit.
func (b *quotaBlocks) endTrial(u *Unit, lapsed bool) {
	block := u.trialOf
	if block == nil {
		return
	}
	u.trialOf = nil
	block.trials--
	if lapsed && !block.recheck && block.units.Len() > 0 {
		block.recheck = true
		b.recheck = append(b.recheck, block)
	}
}

// toRecheck returns the blocks whose room may still be there, and forgets that they are to be rechecked.
func (b *quotaBlocks) toRecheck() []*quotaBlock {
	list := b.recheck
	b.recheck = nil
	return list
}

// take takes the next unit out of a block, on trial.
func (b *quotaBlocks) take(block *quotaBlock) *Unit {
	u := block.units.First()
	b.remove(u)
	u.trialOf = block
	block.trials++
	return u
}

// room returns how many more units of the block may be woken now: as many as the limit leaves room for, less those on trial. It is 0 if nothing
// has changed since it was last asked.
func (block *quotaBlock) room() int64 {
	eased := block.limiting.Eased()
	if block.eased == eased && !block.recheck {
		return 0
	}
	if block.eased != eased {
		for _, u := range block.refused {
			u.refused = false
			block.units.Push(u)
		}
		block.refused = block.refused[:0]
	}
	block.eased, block.recheck = eased, false
	return unitsThatFit(block.limiting, block.shapeQueue.Shape, block.grant) - int64(block.trials)
}

// unitsThatFit is how many units of a shape a queue's limits leave room for, at most, if one takes as much as a grant.
func unitsThatFit(limiting *quota.Queue, shape *Shape, grant resource.Amount) int64 {
	n := int64(math.MaxInt32)
	for _, a := range shape.Ask {
		value := a.Value
		if a.Kind == grant.Kind {
			value = max(value, grant.Value)
		}
		if limit := limiting.Limit(a.Kind); limit != quota.Unlimited {
			n = min(n, max(limit-limiting.Used(a.Kind), 0)/value)
		}
	}
	return n
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
