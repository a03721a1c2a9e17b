package moves

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/control/reschedule"
)

const (
	rack  = "rack"
	racks = 2
	// follow is how long members that are left behind may take to follow the first one that is evicted: a few lost writes, each of which is waited for.
	follow = int64(time.Minute)
)

// gangs are those of the world, whose members have a workload each.
type gangs struct {
	units []*facts.Unit
	of    map[string]string // by workload
	moved map[facts.UID]*movedGang
	whole int             // gangs of which all members were evicted for one move
	hurt  map[string]bool // gangs that have lost a member with its node: then the others run on, and wait for it
}

// movedGang is a move of a gang of which a member was evicted.
type movedGang struct {
	since int64
	pods  []string
}

// gang creates a gang of offline work whose members have to be in one rack, and run on nodes of it.
func (r *run) gang(name string, on ...string) {
	members := len(on)
	u := &facts.Unit{UnitName: facts.UnitName{Namespace: "ns", Name: name}, UID: facts.UID(name), Created: r.now, MinMember: int32(members), Topology: facts.Packing{Required: rack}}
	r.gangs.units = append(r.gangs.units, u)
	r.tell(facts.UnitUpserted{Unit: u})
	for i, node := range on {
		workload := fmt.Sprintf("%s-%s-%d", offlineWork, name, i)
		r.gangs.of[workload] = name
		r.create(workload, 1, 0)
		r.place(node, i+1)
	}
}

// tidalGangs has services, jobs and gangs, which fit together whatever side the nodes have.
func (r *run) tidalGangs() {
	r.scatter(services)
	r.gang("a", "n06", "n08", "n08")
	r.gang("b", "n07", "n09")
	r.create(offlineWork+"00", 1, 0)
}

// seeGang is what the controller sees of the move of a gang.
func (r *run) seeGang(m *reschedule.Carried) reschedule.Seen {
	members := make([]reschedule.Seen, m.Size())
	for i, p := range m.Gang.Members {
		members[i] = r.seePod(m, p.Pod, p.From)
	}
	var places []reschedule.Place
	why := "there is no Reservation any more"
	if t := r.targets[facts.UID(moveLabel+m.Wanted.Pod)]; t != nil {
		places, why = slices.Repeat([]reschedule.Place{reschedule.Asked}, t.Count), ""
		for _, place := range t.Places {
			places[place.Index] = map[facts.PlaceState]reschedule.Place{
				facts.PlaceReserved: reschedule.Reserved, facts.PlaceConsumed: reschedule.Consumed, facts.PlaceLost: reschedule.Lost,
			}[place.State]
		}
	}
	return reschedule.SeenGang(members, places, why)
}

// evictGang evicts as kube/moves does, and judges that: at the first eviction all places are reserved.
func (r *run) evictGang(uid facts.UID, m *reschedule.Carried) {
	begun := m.Begun
	delete(r.refused, m.Wanted.Pod)
	for _, member := range m.Gang.Members {
		p := r.pods[facts.UID(member.Pod)]
		switch {
		case p == nil || p.Deleting:
			begun = true
			continue
		case r.strikes(6): // it is refused
			if !begun {
				r.refused[m.Wanted.Pod] = "no"
				return
			}
			continue
		case r.strikes(8): // it is lost
			r.asking[m.Wanted.Pod] = r.now + int64(2*tick)
			if !begun {
				return
			}
			continue
		}
		if r.gangs.moved[uid] == nil {
			r.judgeFirst(uid, m)
			r.gangs.moved[uid] = &movedGang{since: r.now, pods: m.Pods()}
		}
		begun = true
		r.evicted[facts.UID(m.Wanted.Pod)] = true
		r.end(p)
		if r.strikes(8) { // its answer is
			r.asking[m.Wanted.Pod] = r.now + int64(2*tick)
		}
	}
}

// judgeFirst: all places are reserved in the status, in one rack, unless some members have left for another reason.
func (r *run) judgeFirst(uid facts.UID, m *reschedule.Carried) {
	for _, name := range m.Pods() {
		if p := r.pods[facts.UID(name)]; p == nil || p.Deleting {
			return
		}
	}
	in := make(map[string]bool)
	t := r.targets[uid]
	if t == nil || t.Count != m.Size() || len(t.Places) != t.Count {
		r.broken("gang %s is evicted, and has not its places: %+v", m.Gang.PodGroup, t)
		return
	}
	for _, place := range t.Places {
		if place.State != facts.PlaceReserved {
			r.broken("gang %s is evicted, and a place is %s", m.Gang.PodGroup, place.State)
		}
		if n := r.nodes[place.Node]; n != nil {
			in[n.Labels[rack]] = true
		}
	}
	if len(in) > 1 {
		r.broken("gang %s is evicted for places in %d racks", m.Gang.PodGroup, len(in))
	}
	for _, p := range r.pods {
		if p.Unit == m.Gang.PodGroup && (p.Deleting || p.Node == "") && !slices.Contains(m.Pods(), string(p.UID)) {
			r.broken("gang %s is evicted, and has pods that are not moved", m.Gang.PodGroup)
		}
	}
}

// whole looks at gangs some of whose members were evicted: the others follow within a time.
func (r *run) whole() {
	for _, uid := range slices.Sorted(maps.Keys(r.gangs.moved)) {
		g := r.gangs.moved[uid]
		left := 0
		for _, name := range g.pods {
			if p := r.pods[facts.UID(name)]; p != nil && !p.Deleting {
				left++
			}
		}
		switch {
		case left == 0:
			r.gangs.whole++
			delete(r.gangs.moved, uid)
		case r.now-g.since > follow:
			r.broken("a gang is torn: %d members have stayed for %v", left, time.Duration(r.now-g.since))
		}
	}
}

// gangsAtRest: each gang has all its members, in one rack, or none of them has a place.
func (r *run) gangsAtRest() {
	for _, u := range r.gangs.units {
		placed, in := 0, make(map[string]bool)
		for _, p := range r.pods {
			if n := r.nodes[p.Node]; p.Unit == u.Name && n != nil {
				placed++
				in[n.Labels[rack]] = true
			}
		}
		if r.gangs.hurt[u.Name] {
			continue
		}
		if placed != 0 && placed != int(u.MinMember) {
			r.broken("at rest gang %s has %d members", u.Name, placed)
		}
		if room := r.roomInRack(); placed == 0 && room >= int(u.MinMember) {
			r.broken("at rest gang %s waits, and would fit in a rack with %d GPUs for it", u.Name, room)
		}
		if len(in) > 1 {
			r.broken("at rest gang %s is in %d racks", u.Name, len(in))
		}
	}
}

// roomInRack is the most that offline work finds in one rack.
func (r *run) roomInRack() int {
	room := make(map[string]int)
	for name, n := range r.nodes {
		if n.Labels[spec.LabelTide] == spec.TideOffline {
			room[n.Labels[rack]] += max(r.free(name, true, 0, ""), 0)
		}
	}
	return slices.Max(append(slices.Collect(maps.Values(room)), 0))
}

// TestGangsUnderFaults: gangs on nodes that go to services are moved whole, each into one rack, while writes are lost, evictions refused, leaders change, foreign binders come and nodes die.
func TestGangsUnderFaults(t *testing.T) {
	var sum Report
	whole := 0
	for seed := range uint64(max(*seeds/6, 10)) {
		r := newRun(seed, true)
		r.pool = newPool(r)
		r.pool.mostOfGang = 8
		got, err := r.play(t.Context(), (*run).tidalGangs)
		if err != nil {
			t.Fatal(err)
		}
		sum.Evicted, sum.Done, sum.GivenBack, sum.Adopted, whole = sum.Evicted+got.Evicted, sum.Done+got.Done, sum.GivenBack+got.GivenBack, sum.Adopted+got.Adopted, whole+r.gangs.whole
	}
	t.Logf("%+v, %d gangs moved whole", sum, whole)
	if whole == 0 || sum.Done == 0 || sum.GivenBack == 0 || sum.Adopted == 0 {
		t.Errorf("something has never happened: %+v, %d gangs", sum, whole)
	}
}

// TestGangsWithoutFaults: no gang is left on a node of services, each is moved at once and ends in its places. Gangs that may not be moved stay.
func TestGangsWithoutFaults(t *testing.T) {
	for seed := range uint64(4) {
		for _, most := range []int{8, 0} {
			r := newRun(seed, false)
			r.pool = newPool(r)
			r.pool.mostOfGang = most
			got, err := r.play(t.Context(), (*run).tidalGangs)
			if err != nil {
				t.Fatal(err)
			}
			if moved := most > 0; moved != (r.gangs.whole > 0) || moved && r.pool.misplaced() > 0 || got.Done == 0 || got.Lost+got.Stayed+got.GivenBack > 0 {
				t.Errorf("seed %d, at most %d: %+v, %d gangs whole, %d misplaced", seed, most, got, r.gangs.whole, r.pool.misplaced())
			}
		}
	}
}
