package victims

import (
	"cmp"
	"math"
	"slices"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/resource"
)

// victimGroups knows which pods leave together. A pod that is of no gang, or a member beyond its gang's MinMember, leaves alone; any other member
// takes its whole gang along, because a gang of fewer than MinMember cannot work.
//
// Example: a gang of five with MinMember 4. Its least important member may leave alone. If a second one has to leave, the four that
// remain leave together.
type victimGroups struct {
	store *cluster.Store
	quota *victimQuota
	unit  *cluster.Unit // that victims are looked for; nil for a single pod
	now   int64         // that lost work is measured at
	// decided is the time of the decision, by which protected is judged.
	decided   int64
	protected Protection
	// asker is the first pod of the unit. If it is the place of a Reservation, it may evict only whom that names.
	asker *cluster.Pod

	gangs     map[*cluster.Unit]*gang
	fractions map[cluster.ClassID]int64 // of the cluster that a pod holds, in millionths
	removed   map[*cluster.Pod]bool
	single    [1]*cluster.Pod // scratch
}

// open begins with no pod gone.
func (gs *victimGroups) open(unit *cluster.Unit, now int64) {
	gs.unit, gs.now, gs.decided, gs.protected = unit, now, now, Protection{}
	gs.gangs, gs.fractions, gs.removed = make(map[*cluster.Unit]*gang), make(map[cluster.ClassID]int64), make(map[*cluster.Pod]bool)
}

// victimGroup is the pods that leave together: one pod, or a gang.
type victimGroup struct {
	pod     *cluster.Pod
	gang    *gang // nil for a single pod
	account *queueAccount
	highest int32
	lost    int64
	// tookBack: one of the pods did, see cluster.Pod.TookBack.
	tookBack bool
}

// gang is a unit whose members can only leave together, but for those beyond MinMember.
type gang struct {
	unit *cluster.Unit
	// members is nil when the gang must not go: a member is claimed by another Plan, cannot be evicted, or is on an unknown node.
	members []*cluster.Pod
	// claimed is how many members other Plans claim. leaving is all of the gang, if it is claimed whole.
	claimed int
	leaving []*cluster.Pod
	surplus map[*cluster.Pod]bool // may go singly
	highest int32
	lost    int64
	since   int64 // when the last of the members that it needs began to run; 0: not known
	// tookBack: a member did, see cluster.Pod.TookBack.
	tookBack bool
	taken    bool
	// remaining is the members that have not left singly, and holds is what those hold; stale when a member has left or come back since.
	remaining []*cluster.Pod
	holds     resource.List
	stale     bool
}

// refresh works out which members of a gang are left.
func (gs *victimGroups) refresh(g *gang) {
	g.stale = false
	g.remaining = g.remaining[:0]
	for _, pod := range g.members {
		if !gs.removed[pod] {
			g.remaining = append(g.remaining, pod)
		}
	}
	g.holds = sumOf(g.remaining)
}

// sumOf is what pods hold together.
func sumOf(pods []*cluster.Pod) (holds resource.List) {
	for from := 0; from < len(pods); { // as a rule all are charged the same
		charge, n := pods[from].Charge(), int64(0)
		for ; from < len(pods) && slices.Equal(pods[from].Charge(), charge); from++ {
			n++
		}
		holds = holds.Plus(charge, n)
	}
	return holds
}

// gangOf returns what the search knows of a gang.
func (gs *victimGroups) gangOf(u *cluster.Unit) *gang {
	if g := gs.gangs[u]; g != nil {
		return g
	}
	g := &gang{unit: u, highest: math.MinInt32}
	gs.gangs[u] = g
	var members []*cluster.Pod
	movable := true
	for _, pod := range u.Pods() {
		if !pod.Placed() {
			continue
		}
		if pod.Claimed() {
			g.claimed++
		}
		movable = movable && gs.store.Slot(pod.Node()) != cluster.NoSlot && pod.Priority < spec.CriticalPriority
		members = append(members, pod)
	}
	slices.SortFunc(members, cluster.MoreImportant)
	if spare := u.Spare() - g.claimed; spare > 0 {
		g.surplus = make(map[*cluster.Pod]bool, spare)
		for _, pod := range members[len(members)-min(spare, len(members)):] {
			g.surplus[pod] = true
		}
	}
	switch {
	case !movable || g.claimed > 0 && g.claimed < len(members):
		return g
	case g.claimed > 0:
		g.leaving, g.holds = members, sumOf(members)
	default:
		g.members = members
		gs.refresh(g)
	}
	for i, pod := range members {
		g.highest, g.tookBack = max(g.highest, pod.Priority), g.tookBack || pod.TookBack()
		g.lost = resource.Add(g.lost, gs.lost(pod))
		if i < len(members)-u.Spare() {
			g.since = max(g.since, pod.RunningSince(gs.decided))
		}
	}
	return g
}

// groupOf returns the group that a pod would leave with; ok is false when it must not leave. A member beyond MinMember that is protected by its own time
// leaves with its gang, if that is not.
func (gs *victimGroups) groupOf(pod *cluster.Pod) (p victimGroup, ok bool) {
	a, u := gs.quota.accountOf(pod), pod.Unit
	if u != nil && u == gs.unit {
		return victimGroup{}, false
	}
	var g *gang
	if u != nil && u.Atomic() {
		g = gs.gangOf(u)
	}
	if g == nil || g.surplus[pod] {
		p = victimGroup{pod: pod, account: a, highest: pod.Priority, tookBack: pod.TookBack()}
		if !gs.protects(&p, pod.Charge(), pod.RunningSince(gs.decided)) {
			ok = gs.quota.mayTake(&p, pod.Charge())
			if ok {
				p.lost = gs.lost(pod)
			}
			return p, ok
		}
	}
	if g == nil || g.members == nil {
		return victimGroup{}, false
	}
	p = victimGroup{gang: g, account: a, highest: g.highest, lost: g.lost, tookBack: g.tookBack}
	return p, !gs.protects(&p, g.holds, g.since) && gs.quota.mayTake(&p, g.holds)
}

// pods returns the pods that leave: of a gang all that have not left singly before.
func (gs *victimGroups) pods(p *victimGroup) []*cluster.Pod {
	if p.gang == nil {
		gs.single[0] = p.pod
		return gs.single[:]
	}
	if p.gang.stale {
		gs.refresh(p.gang)
	}
	return p.gang.remaining
}

// lost is the work that is lost with a pod, see UnitCost.
func (gs *victimGroups) lost(pod *cluster.Pod) int64 {
	if pod.Started == 0 || pod.Started >= gs.now {
		return 0
	}
	fraction, known := gs.fractions[pod.Class.ID]
	if !known {
		for _, a := range pod.Class.Charge {
			if capacity := gs.store.Quota().Capacity(a.Kind); capacity > 0 && a.Kind != resource.Pods {
				fraction = max(fraction, int64(min(float64(a.Value)/float64(capacity), 1)*1e6))
			}
		}
		gs.fractions[pod.Class.ID] = fraction
	}
	return fraction * ((gs.now - pod.Started) / 1e6)
}

// holds is what a group holds of each resource.
func (gs *victimGroups) holds(p *victimGroup) resource.List {
	if p.gang == nil {
		return p.pod.Charge()
	}
	if p.gang.stale {
		gs.refresh(p.gang)
	}
	return p.gang.holds
}

// noteGang tells the gang that a victim is, or is a member of, that it is taken or not.
func (gs *victimGroups) noteGang(v *victim, taken bool) {
	if v.gang != nil {
		v.gang.taken = taken
		return
	}
	if v.pod.Unit != nil {
		if g := gs.gangs[v.pod.Unit]; g != nil {
			g.stale = true
		}
	}
}

// coveredByGang reports whether a victim was to leave singly before its whole gang was.
func (gs *victimGroups) coveredByGang(v *victim) bool {
	if v.gang != nil || v.pod.Unit == nil {
		return false
	}
	g := gs.gangs[v.pod.Unit]
	return g != nil && g.taken
}

// cheaper orders groups on one node by how early they should be taken, disruption budgets apart.
func cheaper(a, b *victimGroup) int {
	return cmp.Or(cmp.Compare(a.highest, b.highest), cmp.Compare(b.account.leastOver(), a.account.leastOver()), cmp.Compare(a.size(), b.size()),
		cmp.Compare(a.lost, b.lost))
}

// size is 0 for a single pod, else how many pods the gang has.
func (p *victimGroup) size() int {
	if p.gang == nil {
		return 0
	}
	return len(p.gang.members)
}
