package victims

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/resource"
)

// evictablePods keeps, for every node, who is on it and could be evicted, and who is leaving it. It follows the ledger's logs.
type evictablePods struct {
	cursor    changeCursor
	built     bool
	evictable [][]*cluster.Pod // by slot, the least important first; without the system's own
	leaving   [][]*cluster.Pod // by slot: being deleted, or claimed by somebody's Plan
	lowest    []int64          // by slot: the lowest priority of those who stay, nobody for none
	// leavingSlots are the slots that somebody is leaving.
	leavingSlots map[cluster.Slot]struct{}
}

func (l *evictablePods) follow(store *cluster.Store) {
	for len(l.evictable) < store.Slots() {
		l.evictable, l.leaving, l.lowest = append(l.evictable, nil), append(l.leaving, nil), append(l.lowest, noPod)
	}
	if l.built && l.cursor.catchUp(store, func(slot cluster.Slot) { l.sort(store, slot) }) {
		return
	}
	l.built, l.leavingSlots = true, make(map[cluster.Slot]struct{})
	l.cursor.start(store)
	for i := range l.evictable {
		l.sort(store, cluster.Slot(i))
	}
}

func (l *evictablePods) sort(store *cluster.Store, slot cluster.Slot) {
	clear(l.evictable[slot]) // so that pods which are gone can be collected
	clear(l.leaving[slot])
	stays, leaving := l.evictable[slot][:0], l.leaving[slot][:0]
	for _, pod := range store.PodsOn(slot) {
		switch {
		case pod.Deleting || pod.Claimed():
			leaving = append(leaving, pod)
		case pod.Priority < spec.CriticalPriority:
			stays = append(stays, pod)
		}
	}
	slices.SortFunc(stays, func(a, b *cluster.Pod) int { return cluster.MoreImportant(b, a) })
	slices.SortFunc(leaving, func(a, b *cluster.Pod) int { return strings.Compare(string(a.UID), string(b.UID)) })
	l.evictable[slot], l.leaving[slot], l.lowest[slot] = stays, leaving, noPod
	if len(stays) > 0 {
		l.lowest[slot] = int64(stays[0].Priority)
	}
	if len(leaving) > 0 {
		l.leavingSlots[slot] = struct{}{}
	} else {
		delete(l.leavingSlots, slot)
	}
}

// victimGroup is who leaves together: one pod, or a gang.
type victimGroup struct {
	pod     *cluster.Pod
	gang    *gang // nil for a single pod
	account *queueAccount
	highest int32
	lost    int64
}

// gang is a unit that stands or falls together, while victims are looked for.
type gang struct {
	unit *cluster.Unit
	// members is nil when it must not go, because a member is claimed by another Plan, cannot be evicted, or is on a node that is not known.
	members []*cluster.Pod
	surplus map[*cluster.Pod]bool // may go singly
	highest int32
	lost    int64
	taken   bool
	// remaining is whole without those who have remaining singly, and holds what they hold; stale when somebody has or has come back since.
	remaining []*cluster.Pod
	holds     resource.List
	stale     bool
}

// refresh works out who is left of a gang.
func (s *victimSearch) refresh(g *gang) {
	g.stale = false
	g.remaining, g.holds = g.remaining[:0], nil
	for _, pod := range g.members {
		if !s.removed[pod] {
			g.remaining = append(g.remaining, pod)
		}
	}
	for from := 0; from < len(g.remaining); { // as a rule all are of one class
		class, n := g.remaining[from].Class, int64(0)
		for ; from < len(g.remaining) && g.remaining[from].Class == class; from++ {
			n++
		}
		g.holds = g.holds.Plus(class.Charge, n)
	}
}

// gangOf returns what the seeker knows of a gang.
func (s *victimSearch) gangOf(u *cluster.Unit) *gang {
	if g := s.gangs[u]; g != nil {
		return g
	}
	g := &gang{unit: u, highest: math.MinInt32}
	s.gangs[u] = g
	var members []*cluster.Pod
	claimed, movable := 0, true
	for _, pod := range u.Pods() {
		switch {
		case !pod.Placed():
			continue
		case pod.Claimed():
			claimed++
		case s.r.store.Slot(pod.Node()) == cluster.NoSlot || pod.Priority >= spec.CriticalPriority:
			movable = false
		}
		members = append(members, pod)
	}
	slices.SortFunc(members, cluster.MoreImportant)
	if spare := u.Spare() - claimed; spare > 0 {
		g.surplus = make(map[*cluster.Pod]bool, spare)
		for _, pod := range members[len(members)-min(spare, len(members)):] {
			g.surplus[pod] = true
		}
	}
	if claimed > 0 || !movable {
		return g
	}
	g.members = members
	s.refresh(g)
	for _, pod := range members {
		g.highest = max(g.highest, pod.Priority)
		g.lost = resource.Add(g.lost, s.lost(pod))
	}
	return g
}

// groupOf returns with whom a pod would leave; ok is false when it must not.
func (s *victimSearch) groupOf(pod *cluster.Pod) (victimGroup, bool) {
	a := s.quota.accountOf(pod)
	if u := pod.Unit; u != nil {
		if u == s.unit {
			return victimGroup{}, false
		}
		if u.Atomic() {
			if g := s.gangOf(u); !g.surplus[pod] {
				if g.members == nil || !s.quota.mayTake(a, g.holds, g.highest, true) {
					return victimGroup{}, false
				}
				return victimGroup{gang: g, account: a, highest: g.highest, lost: g.lost}, true
			}
		}
	}
	if !s.quota.mayTake(a, pod.Class.Charge, pod.Priority, false) {
		return victimGroup{}, false
	}
	return victimGroup{pod: pod, account: a, highest: pod.Priority, lost: s.lost(pod)}, true
}

// pods returns who leaves: of a gang whoever has not left singly before.
func (s *victimSearch) pods(p *victimGroup) []*cluster.Pod {
	if p.gang == nil {
		s.single[0] = p.pod
		return s.single[:]
	}
	if p.gang.stale {
		s.refresh(p.gang)
	}
	return p.gang.remaining
}

// lost is the work that is lost with a pod, see UnitCost.
func (s *victimSearch) lost(pod *cluster.Pod) int64 {
	if pod.Started == 0 || pod.Started >= s.now {
		return 0
	}
	fraction, known := s.fractions[pod.Class.ID]
	if !known {
		for _, a := range pod.Class.Charge {
			if capacity := s.r.store.Capacity(a.Kind); capacity > 0 && a.Kind != resource.Pods {
				fraction = max(fraction, int64(float64(a.Value)/float64(capacity)*1e6))
			}
		}
		s.fractions[pod.Class.ID] = fraction
	}
	return fraction * ((s.now - pod.Started) / 1e6)
}

// cheaper orders parties on one node by how early they should be taken, apart from budgets.
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
