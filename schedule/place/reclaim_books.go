package place

import (
	"math"
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/resource"
)

// books is who may be taken from whom, and how much of it is left to take, while victims for one unit are looked for.
type books struct {
	store    *cluster.Store
	queued   bool           // somebody has configured queues
	asker    *cluster.Queue // the unit's
	above    []*cluster.Queue
	priority int32
	never    bool // the unit must not evict by priority
	// asks is the most that as many members as are needed ask for together, of each resource; grounds what of it may be a ground to take
	// something: all but pods.
	asks, grounds resource.List
	// strict: what helps only at the expense of a guarantee is left alone.
	strict bool

	accounts map[*cluster.Queue]*account
	last     *account
	limits   []limit
}

// account is a queue while victims are looked for.
type account struct {
	queue *cluster.Queue
	up    *account
	// own: it stands for the units directly in an inner queue above the asker's, which are a child without a guarantee.
	own bool
	// gone is what of its use is leaving or taken, by kind; off what of it the Plan names as victims, which is all that Commit counts.
	gone, off []int64
	over      int32 // how far over its share it is, see overLevel

	// As a victim's queue, seen from the asker's:
	seen     bool
	same     bool // it is the asker's own
	fork     *account
	shares   resource.List // the grounds on which its pods may be taken whatever their priority
	priority bool          // its pods of lower priority may be taken
}

// limit is a limit of a queue above the unit that is about something the unit asks for, and how far it is from it.
type limit struct {
	account *account
	kind    resource.Kind
	room    int64 // for what is placed and still to be placed, before anything is taken
	placed  int64
}

// open begins a search.
func (b *books) open(store *cluster.Store, ask *Ask) {
	first := ask.Members[0]
	b.store, b.queued, b.asker = store, store.Queued(), first.Queue()
	b.accounts, b.last, b.limits, b.above = make(map[*cluster.Queue]*account), nil, b.limits[:0], b.above[:0]
	b.priority, b.never, b.strict = math.MaxInt32, false, b.queued
	for _, pod := range ask.Members {
		b.priority = min(b.priority, pod.Priority)
		b.never = b.never || pod.NeverPreempts
	}
	if u := first.Unit; u != nil && u.Facts != nil {
		b.never = b.never || u.Facts.NeverPreempts
	}
	b.asks = mostOf(ask)
	b.grounds = nil
	for _, a := range b.asks {
		if a.Kind != resource.Pods {
			b.grounds = append(b.grounds, a)
		}
	}
	for q := b.asker; q != nil; q = q.Parent() {
		b.above = append(b.above, q)
		for _, a := range b.asks {
			if most := q.Limit(a.Kind); most != cluster.Unlimited {
				b.limits = append(b.limits, limit{account: b.account(q), kind: a.Kind, room: most - q.Used(a.Kind)})
			}
		}
	}
}

// mostOf is the most that as many members as are needed can ask for together, of each resource: which of them it will be is not known yet.
func mostOf(ask *Ask) (most resource.List) {
	first, need := ask.Members[0].Class, max(ask.Need, 1)
	if !slices.ContainsFunc(ask.Members, func(pod *cluster.Pod) bool { return pod.Class != first }) {
		return most.Plus(first.Charge, int64(min(need, len(ask.Members))))
	}
	for _, pod := range ask.Members {
		most = most.Plus(pod.Class.Charge, 1)
	}
	values := make([]int64, len(ask.Members))
	for i := range most {
		for j, pod := range ask.Members {
			values[j] = pod.Class.Charge.Get(most[i].Kind)
		}
		slices.Sort(values)
		most[i].Value = 0
		for _, value := range values[max(len(values)-need, 0):] {
			most[i].Value = resource.Add(most[i].Value, value)
		}
	}
	return most
}

// account returns the account of a queue.
func (b *books) account(q *cluster.Queue) *account {
	if a := b.accounts[q]; a != nil {
		return a
	}
	a := &account{queue: q}
	b.accounts[q] = a
	if q.Parent() != nil {
		a.up = b.account(q.Parent())
	}
	a.gone, a.off = make([]int64, b.store.Kinds()), make([]int64, b.store.Kinds())
	a.over = b.overLevel(a)
	return a
}

// of returns the account that a pod's victimhood is judged by.
func (b *books) of(pod *cluster.Pod) *account {
	q := pod.Queue()
	if b.last != nil && b.last.queue == q && b.last.seen {
		return b.last
	}
	a := b.account(q)
	if !a.seen {
		b.see(a)
	}
	b.last = a
	return a
}

// see finds out what the asker may do to a queue.
func (b *books) see(a *account) {
	a.seen = true
	lenient := !b.never
	if a.queue == b.asker {
		a.same, a.fork = true, a
		a.priority = lenient && !neverPreempts(a.queue)
		return
	}
	keeps, common := false, a
	var fork *account
	for b.rank(common.queue) < 0 {
		keeps = keeps || keepsBorrowed(common.queue)
		fork, common = common, common.up
	}
	if fork == nil { // the asker's queue is below it
		keeps = keepsBorrowed(a.queue)
		fork = &account{queue: a.queue, own: true}
	}
	a.fork = fork
	if keeps {
		return
	}
	a.priority = lenient && !neverPreempts(common.queue)
	a.shares = b.entitled(b.above[:b.rank(common.queue)])
}

// rank is how far above the asker's queue another is, −1 for one that is not.
func (b *books) rank(q *cluster.Queue) int {
	for i, above := range b.above {
		if above == q {
			return i
		}
	}
	return -1
}

// entitled returns of what the unit asks that which all these queues have a guarantee for; nil when one of them would exceed a guarantee
// with the unit added. A resource in which a queue has no guarantee is no ground to take anything, nor does it stand in the way.
func (b *books) entitled(queues []*cluster.Queue) resource.List {
	if len(queues) == 0 {
		return nil
	}
	var grounds resource.List
	for _, ask := range b.grounds {
		within := true
		for _, q := range queues {
			has := q.Guaranteed(ask.Kind)
			within = within && has > 0
			if has > 0 && q.Used(ask.Kind)+ask.Value > has {
				return nil
			}
		}
		if within {
			grounds = append(grounds, ask)
		}
	}
	return grounds
}

func keepsBorrowed(q *cluster.Queue) bool { return q.Facts != nil && q.Facts.KeepsBorrowed }

func neverPreempts(q *cluster.Queue) bool { return q.Facts != nil && q.Facts.NeverPreempts }

// may reports whether pods that go together may be taken: they hold so much, the highest of their priorities is so high. whole: they are a
// gang.
func (b *books) may(a *account, holds resource.List, highest int32, whole bool) bool {
	lower := a.priority && highest < b.priority
	if a.same {
		return lower
	}
	if lower && b.borrowed(a, b.grounds, holds, whole) {
		return true
	}
	return len(a.shares) > 0 && b.borrowed(a, a.shares, holds, whole)
}

// borrowed reports whether the pods hold something on one of the grounds that their queue has borrowed. Strictly, every queue up to the
// fork must have borrowed it, and a gang must not hold more of it than that.
func (b *books) borrowed(a *account, grounds, holds resource.List, whole bool) bool {
	found := false
	for _, ground := range grounds {
		held := holds.Get(ground.Kind)
		excess := b.excess(a.fork, ground.Kind)
		if held == 0 || excess <= 0 {
			continue
		}
		if b.strict {
			if whole && held > excess {
				return false
			}
			if !b.borrowedBelow(a, ground.Kind) {
				continue
			}
		}
		found = true
	}
	return found
}

func (b *books) borrowedBelow(a *account, kind resource.Kind) bool {
	if a.fork.own {
		return true
	}
	for fork := a.fork; a != fork; a = a.up {
		if b.excess(a, kind) <= 0 {
			return false
		}
	}
	return true
}

// excess is how much more than its guarantee a queue would hold when all have left that leave anyway, and all that are taken.
func (b *books) excess(a *account, kind resource.Kind) int64 {
	if a.own {
		return math.MaxInt64 // whatever its pods hold it has borrowed
	}
	return a.queue.Used(kind) - a.gone[kind] - a.queue.Guaranteed(kind)
}

// leave takes note that pods of a queue leave anyway.
func (b *books) leave(pod *cluster.Pod) {
	for a := b.account(pod.Queue()); a != nil; a = a.up {
		add(a.gone, pod.Class.Charge, 1)
		a.over = b.overLevel(a)
	}
}

// take takes from a queue, sign 1, or gives back, sign −1. The levels of the accounts follow on settle.
func (b *books) take(a *account, holds resource.List, sign int64) {
	for ; a != nil; a = a.up {
		add(a.gone, holds, sign)
		add(a.off, holds, sign)
	}
}

// settle brings the levels of a queue and those above it up to date.
func (b *books) settle(a *account) {
	if !b.queued {
		return
	}
	for ; a != nil; a = a.up {
		a.over = b.overLevel(a)
	}
}

// wait makes the Plan wait for a pod that leaves anyway, or with sign −1 not.
func (b *books) wait(pod *cluster.Pod, sign int64) {
	for a := b.account(pod.Queue()); a != nil; a = a.up {
		add(a.off, pod.Class.Charge, sign)
	}
}

// place charges a member of the unit, sign times.
func (b *books) place(class *cluster.Class, sign int64) {
	for i := range b.limits {
		b.limits[i].placed += sign * class.Charge.Get(b.limits[i].kind)
	}
}

// admits reports whether the limits leave room for one more member.
func (b *books) admits(class *cluster.Class) bool {
	for i := range b.limits {
		l := &b.limits[i]
		if l.placed+class.Charge.Get(l.kind) > l.room+l.account.off[l.kind] {
			return false
		}
	}
	return true
}

// easesSoon reports whether a limit is in the way that will not be once all have left that are leaving anyway.
func (b *books) easesSoon() bool {
	short := false
	for i := range b.limits {
		l := &b.limits[i]
		over := b.asks.Get(l.kind) - l.room
		if over > l.account.gone[l.kind] {
			return false
		}
		short = short || over > 0
	}
	return short
}

// over is how far over its share the queue is that a pod would be taken from: the least of those up to the fork.
func (a *account) least() int32 {
	least := a.over
	if a.fork.own {
		return least
	}
	for fork := a.fork; a != fork; a = a.up {
		least = min(least, a.up.over)
	}
	return least
}

// overLevel is how far a queue is over its share, in eighths of doublings, so that small changes do not count: what it holds above its
// guarantee of the resource where that is the greatest part of the cluster, by its weight. 0: not at all.
func (b *books) overLevel(a *account) int32 {
	if !b.queued {
		return 0
	}
	most := 0.0
	for kind := range resource.Kind(len(a.gone)) {
		if capacity := b.store.Capacity(kind); capacity > 0 && kind != resource.Pods {
			most = max(most, float64(b.excess(a, kind))/float64(capacity))
		}
	}
	if most <= 0 {
		return 0
	}
	fraction, exponent := math.Frexp(most / float64(a.queue.Weight())) // fraction in [½, 1)
	return max(int32(exponent)*8+int32(fraction*16)-8+overBase, 1)
}

// overBase makes the levels of all shares above 2⁻⁶³ positive.
const overBase = 64 * 8

func add(column []int64, amounts resource.List, sign int64) {
	for _, a := range amounts {
		column[a.Kind] += sign * a.Value
	}
}

// exceeded reports whether what is placed exceeds a limit.
func (b *books) exceeded() bool {
	for i := range b.limits {
		if l := &b.limits[i]; l.placed > l.room+l.account.off[l.kind] {
			return true
		}
	}
	return false
}

// short reports whether the limits leave no room for all that the unit asks.
func (b *books) short() bool {
	for i := range b.limits {
		if l := &b.limits[i]; b.asks.Get(l.kind) > l.room+l.account.off[l.kind] {
			return true
		}
	}
	return false
}
