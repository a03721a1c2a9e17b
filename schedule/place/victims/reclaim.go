package victims

import (
	"cmp"
	"math"
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/quota"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/place/index"
	"hilbert.dev/hilbert/schedule/place/pack"
)

// Reclaimer finds the pods that have to leave so that a unit fits: pods of lower priority, and what other queues have borrowed. It is used
// instead of Preemptor as soon as there are queues or gangs.
//
// Which pods may be victims (victimQuota.mayTake, gang):
//
//   - Never a pod with one of the system's own priorities. A pod that is being deleted is no victim: its room is counted as free, and waited for. So
//     is that of a pod that another Plan claims, if the unit might evict it by the rules that follow (victimGroups.shares); else that pod stays.
//   - In the unit's own queue, pods of lower priority, unless the queue or the unit says never, or they took back what the queue is guaranteed and the unit
//     does not ask for (victimQuota.wastesGuarantee).
//   - In another queue, only what that queue, and those above it up to its branch, have borrowed. The branch is the child, on its side, of the lowest
//     queue above both. Pods of any priority may be taken for what the unit claims: the unit's queue, and those above it up to the branching, are
//     guaranteed that and stay within their guarantees. Pods of lower priority may be taken for anything that the unit asks for. Nothing that the unit
//     does not claim is taken from a guarantee (victimQuota.cutsGuarantee).
//   - Never a pod of another queue that has not run for as long as that queue protects it (Protection).
//   - For the sake of a limit, only pods in the queue that it limits.
//
// Members beyond MinMember go singly, the least important first; all else of a gang goes whole. A gang that holds more than its queue has
// borrowed is left alone unless nothing else helps (victimQuota.strict).
//
// The search is greedy. Each node is asked what one more member there would cost: its candidates are taken off, the cheapest first, until the
// member fits, and put back, the most valuable first, as long as it does. The cheapest node wins. It takes into account what a gang that leaves
// frees on other nodes. At the end all victims that are not needed after all are put back. Of several domains the cheapest is taken.
//
// What that guarantees: the unit fits, by every filter and limit, as if the Plan were committed. If its members are of one class without
// constraints between pods, no victim is superfluous for the domain that was chosen; and as long as neither a budget nor a guarantee restricts
// the choice, no set of victims has a lower highest priority. For a unit of one, Violations is the least too if the candidates are of one
// size. It does not guarantee the least of what is summed up over several nodes, nor to find a set where only one combination of victims
// stays within budgets and guarantees: those are knapsack problems. Domains are compared before superfluous victims are put back, so that a
// gang with members in two domains may take one pod more along than the other domain would have asked for.
//
// One member costs some microseconds per node at first (per domain, if one is required), then as much per step. For single pods the nodes'
// answers are kept from one decision to the next (costTable).
type Reclaimer struct {
	packer   *pack.Packer
	index    *index.Index
	snapshot *cluster.Snapshot
	store    *cluster.Store
	pods     evictablePods
	search   victimSearch
	tables   map[costKey]*costTable
	uses     uint64 // counts uses of tables
}

// NewReclaimer returns a Reclaimer for the Packer's snapshot of the store.
func NewReclaimer(p *pack.Packer, store *cluster.Store) *Reclaimer {
	r := &Reclaimer{packer: p, index: p.Index(), snapshot: p.Index().Snapshot(), store: store, tables: make(map[costKey]*costTable)}
	r.search.connect(r)
	return r
}

// Eviction is the pods that have to leave so that a unit fits, and where the unit goes then.
type Eviction struct {
	// Placements of as many members as the unit needs. The others follow as they fit, no pod leaves for them.
	Placements []pack.MemberChoice
	// Victims, the most important first; those that are being deleted anyway are among them, on the nodes where their room is used.
	Victims []*cluster.Pod
	// Reclaims: some victim is taken by queue share, not by priority (Plan.Reclaims).
	Reclaims bool
	Cost     UnitCost
	// Protected is what may be evicted later, where nothing may be now.
	Protected Protection
	// Spared: pods of the unit's own queue were left alone where nothing may be evicted, and may be when the queue uses more of what it is guaranteed.
	Spared bool
}

// UnitCost orders sets of victims; less is better. The fields are in the order in which they decide:
//
//	disruption budgets violated   fewer first
//	highest priority              lower first
//	least over its share          further over first
//	gangs torn down               fewer first
//	work lost                     less first
//	pods                          fewer first
type UnitCost struct {
	// Violations is how many victims a disruption budget would have spared. Victims use up a budget together.
	Violations int
	// Highest is the highest priority of a victim.
	Highest int32
	// Over is how far over its share the queue is that is least so of those that lose something, in eighths of doublings. More is better.
	Over int32
	// Gangs is how many are torn down.
	Gangs int
	// Lost is the work that is lost: the part of the cluster that each victim holds, by its dominant resource, in millionths, times the
	// milliseconds that it has run for.
	Lost int64
	Pods int
}

// Compare is negative when c is cheaper than d.
func (c UnitCost) Compare(d UnitCost) int {
	switch {
	case c.Violations != d.Violations:
		return cmp.Compare(c.Violations, d.Violations)
	case c.Highest != d.Highest:
		return cmp.Compare(c.Highest, d.Highest)
	case c.Over != d.Over:
		return cmp.Compare(d.Over, c.Over)
	case c.Gangs != d.Gangs:
		return cmp.Compare(c.Gangs, d.Gangs)
	case c.Lost != d.Lost:
		return cmp.Compare(c.Lost, d.Lost)
	}
	return cmp.Compare(c.Pods, d.Pods)
}

// noCost is the cost of no victims.
func noCost() UnitCost { return UnitCost{Highest: math.MinInt32, Over: math.MaxInt32} }

// Evict returns the cheapest victims that it finds for a unit that does not fit, and where it goes when they have left. ok is false when
// there are none, or none are needed; then Protected says when to look again. now is in nanoseconds since 1970. The snapshot is brought to the store's newest state if it is behind
// (what was opened is closed then), and left as it was otherwise.
//
// Which of a gang's members will have places is not known before. If those that were found ask for fewer resources than others might have, victims are
// looked for anew, for these members alone: nobody loses a guarantee of something that nobody takes.
func (r *Reclaimer) Evict(ask *pack.Ask, now int64) (Eviction, bool) {
	found, ok := r.evict(ask, now)
	unasked := func(a resource.Amount) bool {
		return a.Value > 0 && !slices.ContainsFunc(found.Placements, func(p pack.MemberChoice) bool { return p.Pod.Class.Charge.Get(a.Kind) > 0 })
	}
	if !ok || len(found.Placements) == len(ask.Members) || !slices.ContainsFunc(r.search.quota.requested, unasked) {
		return found, ok
	}
	placed := *ask
	placed.Members = slices.DeleteFunc(slices.Clone(ask.Members), func(pod *cluster.Pod) bool {
		return !slices.ContainsFunc(found.Placements, func(p pack.MemberChoice) bool { return p.Pod == pod })
	})
	placed.Need = len(placed.Members)
	return r.evict(&placed, now)
}

func (r *Reclaimer) evict(ask *pack.Ask, now int64) (Eviction, bool) {
	if !r.begin(ask, now) {
		return Eviction{}, false
	}
	s := &r.search
	if found, ok, known := r.fromTable(ask, now); known {
		return found, ok
	}
	for {
		found, ok := s.rounds()
		if ok || !s.quota.strict {
			if !ok {
				found.Protected, found.Spared = s.groups.protected, s.quota.spared
			}
			return found, ok
		}
		s.quota.strict = false
	}
}

// begin prepares the search. It answers false when there is nothing to look for.
func (r *Reclaimer) begin(ask *pack.Ask, now int64) bool {
	if len(ask.Members) == 0 {
		return false
	}
	r.follow(ask)
	r.search.open(ask, now)
	return !r.search.quota.limitsEaseSoon()
}

// follow brings the snapshot and the evictable pods to the store's newest state. A class that is new is no change of any node, but to be learned.
func (r *Reclaimer) follow(ask *pack.Ask) {
	unknown := func(pod *cluster.Pod) bool { return !r.snapshot.Counts().Knows(pod.Class.Constraints) }
	if r.snapshot.Revision() != r.store.Revision() || slices.ContainsFunc(ask.Members, unknown) {
		r.snapshot.Advance(r.store)
	}
	r.pods.follow(r.store)
}

// NoVictims reports that no pod may be evicted for the unit, and none is leaving, whatever room that would make. It costs some nanoseconds
// per node and queue.
func (r *Reclaimer) NoVictims(ask *pack.Ask) bool {
	if len(ask.Members) == 0 {
		return true
	}
	r.follow(ask)
	b := &r.search.quota
	b.open(r.store, ask)
	b.strict = false
	if len(r.pods.leavingSlots) > 0 {
		return false
	}
	byPriority := false
	for q := range queues(r.store.Quota().Root()) {
		a := b.account(q)
		if !a.classified {
			b.classify(a)
		}
		if a.branch.direct && len(q.Tenants()) == 0 {
			continue // nothing is directly in it
		}
		byPriority = byPriority || a.priority
		if b.borrowed(a, a.reclaimable, b.requested, false) {
			return false
		}
	}
	return !byPriority || !slices.ContainsFunc(r.pods.lowest, func(lowest int64) bool { return lowest < int64(b.priority) })
}

// queues goes through a queue and those below it.
func queues(q *quota.Queue) func(yield func(*quota.Queue) bool) {
	return func(yield func(*quota.Queue) bool) { eachQueue(q, yield) }
}

func eachQueue(q *quota.Queue, yield func(*quota.Queue) bool) bool {
	if !yield(q) {
		return false
	}
	for _, child := range q.Children() {
		if !eachQueue(child, yield) {
			return false
		}
	}
	return true
}

// plus is the cost of two sets of victims together.
func (c UnitCost) plus(d UnitCost) UnitCost {
	return UnitCost{
		Violations: c.Violations + d.Violations, Highest: max(c.Highest, d.Highest), Over: min(c.Over, d.Over), Gangs: c.Gangs + d.Gangs,
		Lost: resource.Add(c.Lost, d.Lost), Pods: c.Pods + d.Pods,
	}
}
