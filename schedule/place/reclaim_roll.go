package place

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/resource"
)

// roll keeps, for every node, who is on it and could be evicted, and who is leaving it. It follows the ledger's logs.
type roll struct {
	trail   trail
	built   bool
	stays   [][]*cluster.Pod // by slot, the least important first; without the system's own
	leaving [][]*cluster.Pod // by slot: being deleted, or claimed by somebody's Plan
	lowest  []int64          // by slot: the lowest priority of those who stay, nobody for none
	// departing are the slots that somebody is leaving.
	departing map[cluster.Slot]struct{}
}

func (l *roll) follow(store *cluster.Store) {
	for len(l.stays) < store.Slots() {
		l.stays, l.leaving, l.lowest = append(l.stays, nil), append(l.leaving, nil), append(l.lowest, nobody)
	}
	if l.built && l.trail.catchUp(store, func(slot cluster.Slot) { l.sort(store, slot) }) {
		return
	}
	l.built, l.departing = true, make(map[cluster.Slot]struct{})
	l.trail.start(store)
	for i := range l.stays {
		l.sort(store, cluster.Slot(i))
	}
}

func (l *roll) sort(store *cluster.Store, slot cluster.Slot) {
	clear(l.stays[slot]) // so that pods which are gone can be collected
	clear(l.leaving[slot])
	stays, leaving := l.stays[slot][:0], l.leaving[slot][:0]
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
	l.stays[slot], l.leaving[slot], l.lowest[slot] = stays, leaving, nobody
	if len(stays) > 0 {
		l.lowest[slot] = int64(stays[0].Priority)
	}
	if len(leaving) > 0 {
		l.departing[slot] = struct{}{}
	} else {
		delete(l.departing, slot)
	}
}

// party is who leaves together: one pod, or a gang.
type party struct {
	pod     *cluster.Pod
	gang    *gang // nil for a single pod
	account *account
	highest int32
	lost    int64
}

// gang is a unit that stands or falls together, while victims are looked for.
type gang struct {
	unit *cluster.Unit
	// whole is nil when it must not go, because a member is claimed by another Plan, cannot be evicted, or is on a node that is not known.
	whole   []*cluster.Pod
	spare   map[*cluster.Pod]bool // may go singly
	highest int32
	lost    int64
	taken   bool
	// left is whole without those who have left singly, and holds what they hold; stale when somebody has or has come back since.
	left  []*cluster.Pod
	holds resource.List
	stale bool
}

// refresh works out who is left of a gang.
func (s *seeker) refresh(g *gang) {
	g.stale = false
	g.left, g.holds = g.left[:0], nil
	for _, pod := range g.whole {
		if !s.lifted[pod] {
			g.left = append(g.left, pod)
		}
	}
	for from := 0; from < len(g.left); { // as a rule all are of one class
		class, n := g.left[from].Class, int64(0)
		for ; from < len(g.left) && g.left[from].Class == class; from++ {
			n++
		}
		g.holds = g.holds.Plus(class.Charge, n)
	}
}

// gangOf returns what the seeker knows of a gang.
func (s *seeker) gangOf(u *cluster.Unit) *gang {
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
		g.spare = make(map[*cluster.Pod]bool, spare)
		for _, pod := range members[len(members)-min(spare, len(members)):] {
			g.spare[pod] = true
		}
	}
	if claimed > 0 || !movable {
		return g
	}
	g.whole = members
	s.refresh(g)
	for _, pod := range members {
		g.highest = max(g.highest, pod.Priority)
		g.lost = resource.Add(g.lost, s.lost(pod))
	}
	return g
}

// party returns with whom a pod would leave; ok is false when it must not.
func (s *seeker) party(pod *cluster.Pod) (party, bool) {
	a := s.books.of(pod)
	if u := pod.Unit; u != nil {
		if u == s.unit {
			return party{}, false
		}
		if u.Atomic() {
			if g := s.gangOf(u); !g.spare[pod] {
				if g.whole == nil || !s.books.may(a, g.holds, g.highest, true) {
					return party{}, false
				}
				return party{gang: g, account: a, highest: g.highest, lost: g.lost}, true
			}
		}
	}
	if !s.books.may(a, pod.Class.Charge, pod.Priority, false) {
		return party{}, false
	}
	return party{pod: pod, account: a, highest: pod.Priority, lost: s.lost(pod)}, true
}

// pods returns who leaves: of a gang whoever has not left singly before.
func (s *seeker) pods(p *party) []*cluster.Pod {
	if p.gang == nil {
		s.single[0] = p.pod
		return s.single[:]
	}
	if p.gang.stale {
		s.refresh(p.gang)
	}
	return p.gang.left
}

// lost is the work that is lost with a pod, see UnitCost.
func (s *seeker) lost(pod *cluster.Pod) int64 {
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
func cheaper(a, b *party) int {
	return cmp.Or(cmp.Compare(a.highest, b.highest), cmp.Compare(b.account.least(), a.account.least()), cmp.Compare(a.size(), b.size()),
		cmp.Compare(a.lost, b.lost))
}

// size is 0 for a single pod, else how many pods the gang has.
func (p *party) size() int {
	if p.gang == nil {
		return 0
	}
	return len(p.gang.whole)
}
