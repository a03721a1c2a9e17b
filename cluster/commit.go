package cluster

import (
	"math"
	"slices"

	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/quota"
	"hilbert.dev/hilbert/topology"
)

// judgement decides on one Plan.
//
// The order of Commit is: find the victims and check them; suppose that they have left and that the nodes reserved for the Plan are open; place
// pod after pod, each checked on the state that the placements before it left; on the first failure take the placements back; end the
// supposition. After a rejection the ledger is as it was, but for its log. What a judgement takes away and gives back changes no queue's
// right to look again, which is what chargeBook.supposing says.
type judgement struct {
	s       *Store
	plan    *Plan
	victims []*Pod
	given   []givenPlace
	owners  []*Pod          // of the placeholders that the Plan takes
	short   quota.Shortfall // with RejectQuota
}

// givenPlace is a place that a pod gives up for the Plan.
type givenPlace struct {
	pod     *Pod
	since   int64 // its Scheduled
	took    bool  // it TookBack
	class   *Class
	phase   Phase
	node    string
	slot    Slot
	grant   topology.Grant
	victims []*Pod
	running bool // its unit ran
}

// Commit takes the Plan whole or not at all. On success each pod is Assumed and charged to its node; with victims beside them, and Obliged
// until they have left. The judgement is made as if they had.
func (s *Store) Commit(plan *Plan, check Check) (verdict Verdict) {
	j := judgement{s: s, plan: plan}
	if reason := j.findVictims(); reason != "" {
		return Verdict{Reason: reason, Revision: s.log.Len()}
	}
	if !j.mayGiveUp() {
		return Verdict{Reason: RejectPodGone, Revision: s.log.Len()}
	}
	if !j.mayTake() {
		return Verdict{Reason: RejectPlaceholder, Revision: s.log.Len()}
	}
	j.giveUp()
	s.supposing(j.victims, plan.Through, func() { verdict = j.place(check) })
	defer j.keepRunning()
	if !verdict.Committed {
		if j.restore() {
			verdict.Revision = s.log.Len()
		}
		return verdict
	}
	j.guessAnew()
	j.ease()
	j.markTakers()
	j.settlePlaceholders()
	j.claim()
	return verdict
}

// markTakers takes note of which pods hold what was taken back for a guarantee.
func (j *judgement) markTakers() {
	took := func(victim *Pod) bool { return victim.tookBack }
	if !j.plan.Reclaims && !slices.ContainsFunc(j.victims, took) {
		return
	}
	for i := range j.plan.Placements {
		j.s.pods.byUID[j.plan.Placements[i].Pod].tookBack = true
	}
}

// mayGiveUp reports whether all pods that the Plan replaces have places that they may give up.
func (j *judgement) mayGiveUp() bool {
	for _, uid := range j.plan.Replaces {
		if pod := j.s.pods.byUID[uid]; pod == nil || pod.Phase != Assumed || pod.Claimed() {
			return false
		}
	}
	return true
}

// giveUp takes the pods that the Plan replaces off their nodes. What other pods there are guessed to hold is not guessed anew before the Plan is judged: that might be the very
// GPUs that the Plan takes, though others are as free.
func (j *judgement) giveUp() {
	j.s.charges.supposing, j.s.keepGuesses = true, true
	for _, uid := range slices.Concat(j.plan.Replaces, j.plan.Takes) {
		pod := j.s.pods.byUID[uid]
		j.given = append(j.given, givenPlace{pod, pod.Scheduled, pod.tookBack, pod.Class, pod.Phase, pod.node, pod.slot, pod.Grant(), slices.Clone(pod.victims), pod.Unit != nil && pod.Unit.Running()})
		j.s.takeBack(pod)
		j.s.catchUp(pod)
	}
	j.s.charges.supposing, j.s.keepGuesses = false, false
}

// guessAnew guesses again what pods hold on nodes on which others gave up their places.
func (j *judgement) guessAnew() {
	for i := range j.given {
		if slot := j.given[i].slot; slot != NoSlot && j.s.grants.guessed[slot] > 0 {
			j.s.grants.recharge(slot)
		}
	}
}

// restore gives the pods their places back, with the victims that they wait for. A pod that asks for something else by now stays Pending: its place
// was for what it had asked before. some says that there were any.
func (j *judgement) restore() (some bool) {
	defer j.guessAnew()
	for i := range j.given {
		g := &j.given[i]
		if g.pod.Class != g.class && (g.pod.Class.private || g.pod.Class.request != g.class.request || !sameNeeds(g.pod.Class, g.class)) || g.pod.Deleting {
			j.s.charges.ease(g.pod)
			continue
		}
		if slot, ok := j.s.slots.byNode[g.node]; ok {
			j.s.claims.takeVolumes(g.pod, slot, func(facts.UID) bool { return true }) // nobody has taken them meanwhile
			j.s.claims.takeDevices(g.pod, slot)
		}
		j.s.place(g.pod, g.node, &g.grant)
		j.s.units.setPhase(g.pod, g.phase)
		g.pod.Scheduled, g.pod.tookBack = g.since, g.took
		for _, victim := range g.victims {
			j.s.victims.note(victim.slot)
			g.pod.victims, victim.claims = append(g.pod.victims, victim), append(victim.claims, g.pod)
		}
	}
	return len(j.given) > 0
}

// keepRunning: that a unit had no place while the Plan was judged is not its end.
func (j *judgement) keepRunning() {
	for i := range j.given {
		if u := j.given[i].pod.Unit; j.given[i].running && u != nil && u.placed+u.done > 0 {
			u.reached = true
		}
	}
}

// wasRunning reports whether a unit ran before the Plan took places from it.
func (j *judgement) wasRunning(u *Unit) bool {
	return slices.ContainsFunc(j.given, func(g givenPlace) bool { return g.pod.Unit == u && g.running })
}

// ease tells the queues of pods that the Plan replaces without a new place.
func (j *judgement) ease() {
	for i := range j.given {
		if pod := j.given[i].pod; pod.Phase == Pending {
			j.s.charges.ease(pod)
		}
	}
}

// place places the pods of the Plan one after the other, or none of them.
func (j *judgement) place(check Check) Verdict {
	placements := j.plan.Placements
	incomplete, spread := j.incomplete(), j.unpacked()
	for i := range placements {
		if reason, seen := j.placeOne(&placements[i], check); reason != "" {
			j.undo(i)
			return Verdict{Reason: reason, Revision: seen, Placement: i, Short: j.short}
		}
	}
	if incomplete >= 0 {
		j.undo(len(placements))
		return Verdict{Reason: RejectPartial, Revision: j.s.log.Len(), Placement: incomplete}
	}
	if spread >= 0 {
		j.undo(len(placements))
		return Verdict{Reason: RejectPacking, Revision: j.s.log.Len(), Placement: spread}
	}
	return Verdict{Committed: true, Revision: j.s.log.Len()}
}

func (j *judgement) placeOne(p *Placement, check Check) (reason string, seen changes.Revision) {
	pod := j.s.pods.byUID[p.Pod]
	if pod == nil || pod.Phase != Pending || pod.Deleting {
		return RejectPodGone, j.s.log.Len()
	}
	if !pod.expected() || pod.Class.private || pod.Class.Absent != "" { // its class counts nothing of it, or not all
		return RejectHeld, j.s.log.Len()
	}
	slot, ok := j.s.slots.byNode[p.Node]
	if !ok {
		return RejectNodeGone, j.s.log.Len()
	}
	grant := &p.Grant
	if grant.Milli > 0 && grant.Milli < topology.FullGPU && grant.Isolation == topology.IsolationAny {
		copied := p.Grant // a copy for all would be made on the heap
		account(&copied)
		grant = &copied
	}
	if reason := check(&j.s.State, slot, pod.Class, grant); reason != "" {
		return reason, j.s.touched[slot]
	}
	if short, over := j.s.charges.shortfall(pod, slot, grant); over && !j.isCharged(pod) {
		j.short = short
		return RejectQuota, j.s.log.Len()
	}
	if !j.s.claims.takeVolumes(pod, slot, j.s.Lifted) {
		return RejectVolumes, j.s.log.Len()
	}
	if !j.s.claims.takeDevices(pod, slot) {
		j.s.claims.releaseVolumes(pod)
		return RejectDevices, j.s.log.Len()
	}
	j.s.place(pod, p.Node, &p.Grant)
	j.s.units.setPhase(pod, Assumed)
	pod.Scheduled = j.plan.Decided
	return "", 0
}

// undo takes back the first placements of the Plan, which is rejected.
func (j *judgement) undo(placed int) {
	for i := range j.plan.Placements[:placed] {
		j.s.takeBack(j.s.pods.byUID[j.plan.Placements[i].Pod])
	}
}

// incomplete returns the first placement whose unit is given fewer places than it needs, -1 if there is none. It is asked before the first is
// taken: one member placed makes a unit that was whole once look as if it ran.
func (j *judgement) incomplete() int {
	if len(j.s.units.byName) == 0 {
		return -1
	}
	var last *Unit
	for i := range j.plan.Placements {
		pod := j.s.pods.byUID[j.plan.Placements[i].Pod]
		if pod == nil || pod.Unit == nil || pod.Unit == last {
			continue
		}
		last = pod.Unit
		if need := last.Need(); need > 1 && j.placing(last) < need && !j.wasRunning(last) {
			return i
		}
	}
	return -1
}

// placing is how many members of a unit the Plan places.
func (j *judgement) placing(u *Unit) (members int) {
	for i := range j.plan.Placements {
		if pod := j.s.pods.byUID[j.plan.Placements[i].Pod]; pod != nil && pod.Unit == u {
			members++
		}
	}
	return members
}

// findVictims looks the victims of the Plan up, and says what is wrong with them, if anything is.
func (j *judgement) findVictims() string {
	if len(j.plan.Victims) == 0 {
		return ""
	}
	takers := j.takers()
	named := make(map[facts.UID]bool, len(j.plan.Victims))
	for _, uid := range j.plan.Victims {
		victim := j.s.pods.byUID[uid]
		if victim == nil || victim.slot == NoSlot || named[uid] {
			return RejectVictimGone
		}
		named[uid] = true
		if _, ok := takers[victim.node]; !ok && (victim.Unit == nil || !victim.Unit.Atomic()) {
			return RejectVictimGone
		}
		if !j.plan.Reclaims && !victim.Deleting && takers.outranked(victim) { // one that leaves anyway loses nothing
			return RejectVictimOutranks
		}
		j.victims = append(j.victims, victim)
	}
	if j.tears() {
		return RejectBelowMinCount
	}
	return ""
}

// takers is the lowest priority among the pods that a Plan puts on each node; under anywhere, of all.
type takers map[string]int32

const anywhere = ""

func (j *judgement) takers() takers {
	lowest := make(takers, len(j.plan.Placements)+1)
	for i := range j.plan.Placements {
		p := &j.plan.Placements[i]
		priority := int32(math.MaxInt32) // of one that is gone, which is rejected later
		if pod := j.s.pods.byUID[p.Pod]; pod != nil {
			priority = pod.Priority
		}
		for _, place := range [...]string{p.Node, anywhere} {
			if known, ok := lowest[place]; !ok || priority < known {
				lowest[place] = priority
			}
		}
	}
	return lowest
}

// outranked reports whether a victim has as high a priority as a pod that is to take its place. A member of a unit makes room everywhere.
func (t takers) outranked(victim *Pod) bool {
	place := victim.node
	if victim.Unit != nil {
		place = anywhere
	}
	priority, ok := t[place]
	return ok && priority <= victim.Priority
}

// tears reports whether the victims leave a unit that is more than its pods with fewer than it needs, but with some.
func (j *judgement) tears() bool {
	var taken map[*Unit]int
	for _, victim := range j.victims {
		if u := victim.Unit; u != nil && u.Atomic() && victim.Placed() {
			if taken == nil {
				taken = make(map[*Unit]int)
			}
			taken[u]++
		}
	}
	for u, n := range taken {
		if n > u.Spare() && n < u.placed {
			return true
		}
	}
	return false
}

// claim makes the pods of a Plan wait for the victims on their nodes.
func (j *judgement) claim() {
	if len(j.victims) == 0 {
		return
	}
	on := make(map[string][]*Pod, len(j.plan.Placements))
	for i := range j.plan.Placements {
		pod := j.s.pods.byUID[j.plan.Placements[i].Pod]
		on[pod.node] = append(on[pod.node], pod)
	}
	first := []*Pod{j.s.pods.byUID[j.plan.Placements[0].Pod]}
	for _, victim := range j.victims {
		j.s.victims.note(victim.slot)
		waiting := on[victim.node]
		if len(waiting) == 0 {
			waiting = first
		}
		for _, pod := range waiting {
			pod.victims, victim.claims = append(pod.victims, victim), append(victim.claims, pod)
		}
	}
}

// packed is a label of which the members of a unit, or of one of its subgroups, must all have one value.
type packed struct {
	unit     *Unit
	subgroup string
	sub      bool // of the subgroup alone
	key      string
}

// unpacked returns the first placement of a Plan with which a unit would have members under more than one value of a label that it
// requires, or that must be uniform; -1 if there is none. It is asked before the first is taken. Where the nodes of members that run already have
// several values, because labels were edited, any of them will do.
func (j *judgement) unpacked() int {
	if len(j.s.units.byName) == 0 {
		return -1
	}
	var allowed map[packed][]string
	for i := range j.plan.Placements {
		pod, slot := j.s.pods.byUID[j.plan.Placements[i].Pod], j.s.Slot(j.plan.Placements[i].Node)
		if pod == nil || pod.Unit == nil || pod.Unit.Facts == nil || slot == NoSlot {
			continue
		}
		for _, p := range pod.packings() {
			if p.key == "" {
				continue
			}
			if allowed == nil {
				allowed = make(map[packed][]string)
			}
			values, known := allowed[p]
			if !known {
				values = j.valuesOf(p)
			}
			value, has := j.s.nodes[slot].Labels[p.key]
			if !has || len(values) > 0 && !slices.Contains(values, value) {
				return i
			}
			if len(values) == 0 {
				values = []string{value}
			}
			if !known {
				allowed[p] = values
			}
		}
	}
	return -1
}

// packings are the labels of which the pod's unit, and its subgroup, ask for one value; those without a key ask for nothing.
func (p *Pod) packings() (list [4]packed) {
	f := p.Unit.Facts
	for i, key := range [...]string{f.Topology.Required, f.Topology.Uniform} {
		list[i] = packed{unit: p.Unit, key: key}
	}
	if p.Subgroup != "" {
		for i, key := range [...]string{f.SubgroupTopology.Required, f.SubgroupTopology.Uniform} {
			list[2+i] = packed{p.Unit, p.Subgroup, true, key}
		}
	}
	return list
}

// valuesOf lists the values that the nodes of members have which run already.
func (j *judgement) valuesOf(p packed) (values []string) {
	for _, pod := range p.unit.pods {
		if pod.slot == NoSlot || !pod.Placed() || p.sub && pod.Subgroup != p.subgroup {
			continue
		}
		if value, has := j.s.nodes[pod.slot].Labels[p.key]; has && !slices.Contains(values, value) {
			values = append(values, value)
		}
	}
	return values
}
