package victims

import (
	"math"
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/quota"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/place/pack"
)

// victimQuota says from which queue how much may still be taken while victims for one unit are looked for, and whether the unit's own
// limits admit another member. It protects guarantees: what a queue is guaranteed is taken by no other queue.
//
// Example: queue a is guaranteed 8 CPUs and holds 4, queue b is guaranteed 8 and holds 12. For a unit of a that asks for 4 CPUs, b is
// reclaimable: excess is 4 CPUs. After a victim of 3 CPUs the excess is 1, and another pod may be taken; then the excess is gone. If b is also
// guaranteed the GPUs that it holds, and a is guaranteed none, none of b's pods with a GPU may be taken.
type victimQuota struct {
	store     *cluster.Store
	queued    bool         // queues are configured
	queue     *quota.Queue // the unit's
	ancestors []*quota.Queue
	priority  int32
	never     bool // the unit must not evict by priority
	// requested is the most that the needed members can ask for together, of each resource. claimable is the part of it for which something may
	// be taken from another queue: all resources but the count of pods.
	requested, claimable resource.List
	// strict: a gang that holds more than its queue has borrowed is left alone.
	strict bool
	// spared: pods were not taken because that wastesGuarantee. They may be when the queue uses more.
	spared bool

	accounts    map[*quota.Queue]*queueAccount
	lastAccount *queueAccount
	limits      []limit
	placed      resource.Sums // by limit: what members are charged that have a place
}

// queueAccount is a queue while victims are looked for.
type queueAccount struct {
	queue  *quota.Queue
	parent *queueAccount
	// direct: it stands for the units directly in an inner queue above the asking one, which are a child without a guarantee.
	direct bool
	// leaving is the part of its use that is leaving or taken, by kind. credited is the part of that which the Plan names as victims, because Commit counts
	// only those.
	leaving, credited resource.Sums
	over              int32 // how far over its share it is, see overShare
	minRuntime        int64 // quota.Queue.ReclaimMinRuntime

	// As a victim's queue, seen from the asking one:
	classified  bool
	ownQueue    bool // it is the asking one
	branch      *queueAccount
	reclaimable resource.List // resources for which its pods may be taken whatever their priority
	priority    bool          // its pods of lower priority may be taken
}

// limit is a limit of a queue above the unit, on a resource that the unit asks for, and how far the queue is from it.
type limit struct {
	account *queueAccount
	kind    resource.Kind
	free    int64 // for what is placed and still to be placed, before anything is taken
}

// open begins a search.
func (b *victimQuota) open(store *cluster.Store, ask *pack.Ask) {
	first := ask.Members[0]
	b.store, b.queued, b.queue = store, store.Quota().Configured(), first.Queue()
	b.accounts, b.lastAccount, b.limits, b.ancestors = make(map[*quota.Queue]*queueAccount), nil, b.limits[:0], b.ancestors[:0]
	b.placed.Clear()
	b.priority, b.never, b.strict, b.spared = math.MaxInt32, false, b.queued, false
	for _, pod := range ask.Members {
		b.priority = min(b.priority, pod.Priority)
		b.never = b.never || pod.NeverPreempts
	}
	if u := first.Unit; u != nil && u.Facts != nil {
		b.never = b.never || u.Facts.NeverPreempts
	}
	b.requested = mostOf(ask)
	b.claimable = nil
	for _, a := range b.requested {
		if a.Kind != resource.Pods {
			b.claimable = append(b.claimable, a)
		}
	}
	for q := b.queue; q != nil; q = q.Parent() {
		b.ancestors = append(b.ancestors, q)
		for _, a := range b.requested {
			if most := q.Limit(a.Kind); most != quota.Unlimited {
				b.limits = append(b.limits, limit{account: b.account(q), kind: a.Kind, free: most - q.Used(a.Kind)})
			}
		}
	}
	b.placed.Grow(len(b.limits))
}

// mostOf is the most that as many members as are needed can ask for together, of each resource: which of them it will be is not known yet.
func mostOf(ask *pack.Ask) (most resource.List) {
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
func (b *victimQuota) account(q *quota.Queue) *queueAccount {
	if a := b.accounts[q]; a != nil {
		return a
	}
	a := &queueAccount{queue: q, minRuntime: q.ReclaimMinRuntime()}
	b.accounts[q] = a
	if q.Parent() != nil {
		a.parent = b.account(q.Parent())
	}
	a.leaving.Grow(b.store.Kinds())
	a.credited.Grow(b.store.Kinds())
	a.over = b.overShare(a)
	return a
}

// accountOf returns the account that a pod's victimhood is judged by.
func (b *victimQuota) accountOf(pod *cluster.Pod) *queueAccount {
	q := pod.Queue()
	if b.lastAccount != nil && b.lastAccount.queue == q && b.lastAccount.classified {
		return b.lastAccount
	}
	a := b.account(q)
	if !a.classified {
		b.classify(a)
	}
	b.lastAccount = a
	return a
}

// classify finds out what the asking unit's queue may take from another queue.
func (b *victimQuota) classify(a *queueAccount) {
	a.classified = true
	lenient := !b.never
	if a.queue == b.queue {
		a.ownQueue, a.branch = true, a
		a.priority = lenient && !neverPreempts(a.queue)
		return
	}
	keeps, common := false, a
	var branch *queueAccount
	for b.rank(common.queue) < 0 {
		keeps = keeps || keepsBorrowed(common.queue)
		branch, common = common, common.parent
	}
	if branch == nil { // the asking queue is below it
		keeps = keepsBorrowed(a.queue)
		branch = &queueAccount{queue: a.queue, direct: true}
	}
	a.branch = branch
	if keeps {
		return
	}
	a.priority = lenient && !neverPreempts(common.queue)
	a.reclaimable = b.withinGuarantees(b.ancestors[:b.rank(common.queue)])
}

// rank is how far above the asking unit's queue another is, −1 for one that is not above it.
func (b *victimQuota) rank(q *quota.Queue) int {
	for i, above := range b.ancestors {
		if above == q {
			return i
		}
	}
	return -1
}

// withinGuarantees returns of what the unit asks that which all these queues have a guarantee for; nil when one of them would exceed a guarantee
// with the unit added. A resource without a guarantee gives a queue no claim, and prevents none.
func (b *victimQuota) withinGuarantees(queues []*quota.Queue) resource.List {
	if len(queues) == 0 {
		return nil
	}
	var claims resource.List
	for _, ask := range b.claimable {
		within := true
		for _, q := range queues {
			has := q.Guaranteed(ask.Kind)
			within = within && has > 0
			if has > 0 && q.Used(ask.Kind)+ask.Value > has {
				return nil
			}
		}
		if within {
			claims = append(claims, ask)
		}
	}
	return claims
}

func keepsBorrowed(q *quota.Queue) bool { return q.Facts != nil && q.Facts.KeepsBorrowed }

func neverPreempts(q *quota.Queue) bool { return q.Facts != nil && q.Facts.NeverPreempts }

// mayTake reports whether pods that leave together may be taken, as far as queues and priorities are concerned. holds is what they hold.
func (b *victimQuota) mayTake(p *victimGroup, holds resource.List) bool {
	a, wholeGang := p.account, p.gang != nil
	lower := a.priority && p.highest < b.priority
	if a.ownQueue {
		return lower && (!p.tookBack || !b.wastesGuarantee(a, holds))
	}
	if len(a.reclaimable) > 0 && b.borrowed(a, a.reclaimable, holds, wholeGang) && !b.cutsGuarantee(a, a.reclaimable, holds) {
		return true
	}
	return lower && b.borrowed(a, b.claimable, holds, wholeGang) && !b.cutsGuarantee(a, nil, holds)
}

// wastesGuarantee reports whether pods of the unit's own queue, which took back what the queue is guaranteed, hold some of it that the unit does not ask
// for. The unit waits, although its priority is higher, until the queue uses more: else the pods that had to make room were evicted for nothing. And
// three pods would evict one another for ever: a takes memory and CPU back from b of another queue, because its own is guaranteed the CPU; c of the
// same queue preempts a for the memory, which it borrows; b, of the highest priority, preempts c; and a takes back the CPU, which its queue has lost.
func (b *victimQuota) wastesGuarantee(a *queueAccount, holds resource.List) bool {
	for _, held := range holds {
		if held.Kind == resource.Pods || held.Value == 0 || b.requested.Get(held.Kind) > 0 {
			continue
		}
		for up := a; up.parent != nil; up = up.parent { // the root is guaranteed nothing itself
			if up.queue.Guaranteed(held.Kind) > 0 && b.excess(up, held.Kind) < held.Value {
				b.spared = true
				return true
			}
		}
	}
	return false
}

// cutsGuarantee reports whether the pods hold something that the unit has no claim to, and without which a queue of theirs, up to the branch, would
// have less than it is guaranteed. Without that rule a queue that is guaranteed GPUs loses its pods to one that is guaranteed CPUs, and takes them
// back: two queues with guarantees of different resources evict each other for ever. Whether the unit asks for that resource too makes no difference. A higher
// priority is no claim. Of what the unit does claim, the last pod that is taken may leave its queue with less than it is guaranteed, because pods
// cannot be divided; that pod cannot be taken back, because with it its queue was beyond its guarantee.
func (b *victimQuota) cutsGuarantee(a *queueAccount, claims, holds resource.List) bool {
	if a.branch.direct {
		return false // no child is guaranteed what the pods of an inner queue itself hold
	}
	for _, held := range holds {
		if held.Kind == resource.Pods || held.Value == 0 || claims.Get(held.Kind) > 0 {
			continue
		}
		for up := a; ; up = up.parent {
			if up.queue.Guaranteed(held.Kind) > 0 && b.excess(up, held.Kind) < held.Value {
				return true
			}
			if up == a.branch {
				break
			}
		}
	}
	return false
}

// borrowed reports whether the pods hold some of the claimed resources that their queue, and every queue up to the branch, has borrowed. Strictly, a
// gang must not hold more of it than the branch has borrowed.
func (b *victimQuota) borrowed(a *queueAccount, claims, holds resource.List, wholeGang bool) bool {
	found := false
	for _, claim := range claims {
		held := holds.Get(claim.Kind)
		excess := b.excess(a.branch, claim.Kind)
		if held == 0 || excess <= 0 {
			continue
		}
		if b.strict && wholeGang && held > excess {
			return false
		}
		found = found || b.borrowedBelow(a, claim.Kind)
	}
	return found
}

func (b *victimQuota) borrowedBelow(a *queueAccount, kind resource.Kind) bool {
	if a.branch.direct {
		return true
	}
	for branch := a.branch; a != branch; a = a.parent {
		if b.excess(a, kind) <= 0 {
			return false
		}
	}
	return true
}

// excess is how much more than its guarantee a queue would hold when all have left that leave anyway, and all that are taken.
func (b *victimQuota) excess(a *queueAccount, kind resource.Kind) int64 {
	if a.direct {
		return math.MaxInt64 // whatever its pods hold it has borrowed
	}
	return a.queue.Used(kind) - a.leaving.At(int(kind)) - a.queue.Guaranteed(kind)
}

// leave notes that a pod of a queue leaves anyway.
func (b *victimQuota) leave(pod *cluster.Pod) {
	for a := b.account(pod.Queue()); a != nil; a = a.parent {
		add(&a.leaving, pod.Charge(), 1)
		a.over = b.overShare(a)
	}
}

// stays counts what leaves a queue as staying, sign 1, or as leaving again, sign −1. Levels do not follow.
func (b *victimQuota) stays(a *queueAccount, holds resource.List, sign int64) {
	for ; a != nil; a = a.parent {
		add(&a.leaving, holds, -sign)
	}
}

// take takes from a queue, sign 1, or gives back, sign −1. The levels of the accounts follow on settle.
func (b *victimQuota) take(a *queueAccount, holds resource.List, sign int64) {
	for ; a != nil; a = a.parent {
		add(&a.leaving, holds, sign)
		add(&a.credited, holds, sign)
	}
}

// updateLevels brings the levels of a queue and those above it up to date.
func (b *victimQuota) updateLevels(a *queueAccount) {
	if !b.queued {
		return
	}
	for ; a != nil; a = a.parent {
		a.over = b.overShare(a)
	}
}

// countOn makes the Plan count on the departure of a pod that leaves anyway, or with sign −1 no longer.
func (b *victimQuota) countOn(pod *cluster.Pod, sign int64) {
	for a := b.account(pod.Queue()); a != nil; a = a.parent {
		add(&a.credited, pod.Charge(), sign)
	}
}

// place charges a member of the unit, sign times.
func (b *victimQuota) place(class *cluster.Class, sign int64) {
	for i := range b.limits {
		b.placed.Add(i, sign*class.Charge.Get(b.limits[i].kind))
	}
}

// admits reports whether the limits leave room for one more member.
func (b *victimQuota) admits(class *cluster.Class) bool {
	for i := range b.limits {
		l := &b.limits[i]
		if b.placed.At(i)+class.Charge.Get(l.kind) > l.free+l.account.credited.At(int(l.kind)) {
			return false
		}
	}
	return true
}

// limitsEaseSoon reports whether a limit is in the way that will not be once all have left that are leaving anyway.
func (b *victimQuota) limitsEaseSoon() bool {
	short := false
	for i := range b.limits {
		l := &b.limits[i]
		over := b.requested.Get(l.kind) - l.free
		if over > l.account.leaving.At(int(l.kind)) {
			return false
		}
		short = short || over > 0
	}
	return short
}

// leastOver is how far over its share the queue is that a pod would be taken from: the least of those up to the branch.
func (a *queueAccount) leastOver() int32 {
	least := a.over
	if a.branch.direct {
		return least
	}
	for branch := a.branch; a != branch; a = a.parent {
		least = min(least, a.parent.over)
	}
	return least
}

// overShare is how far a queue is over its share, in eighths of doublings, so that small changes do not count: what it holds above its
// guarantee of the resource where that is the greatest part of the cluster, by its weight. 0: not at all.
func (b *victimQuota) overShare(a *queueAccount) int32 {
	if !b.queued {
		return 0
	}
	most := 0.0
	for kind := range resource.Kind(a.leaving.Len()) {
		if capacity := b.store.Quota().Capacity(kind); capacity > 0 && kind != resource.Pods {
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

func add(column *resource.Sums, amounts resource.List, sign int64) {
	for _, a := range amounts {
		column.Add(int(a.Kind), sign*a.Value)
	}
}

// exceeded reports whether what is placed exceeds a limit.
func (b *victimQuota) exceeded() bool {
	for i := range b.limits {
		if l := &b.limits[i]; b.placed.At(i) > l.free+l.account.credited.At(int(l.kind)) {
			return true
		}
	}
	return false
}

// exceedsLimits reports whether the limits leave no room for all that the unit asks.
func (b *victimQuota) exceedsLimits() bool {
	for i := range b.limits {
		if l := &b.limits[i]; b.requested.Get(l.kind) > l.free+l.account.credited.At(int(l.kind)) {
			return true
		}
	}
	return false
}
