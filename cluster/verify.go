package cluster

import (
	"errors"
	"fmt"
	"slices"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/quota"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

// audit recomputes the ledger from its pods: it walks the slots, then the pods, sums what they hold, and holds the sums against the books.
type audit struct {
	s         *Store
	charged   int // pods on slots
	reclaimed int
	promises  Promises
	holding   map[*quota.Tenant]*quota.Holding
}

// Verify recomputes the columns from the pods and returns the first difference. It costs time proportional to the ledger: tests and the
// simulator call it.
func (s *Store) Verify() error {
	a := audit{s: s, holding: make(map[*quota.Tenant]*quota.Holding)}
	if err := a.slots(); err != nil {
		return err
	}
	if err := a.pods(); err != nil {
		return err
	}
	if a.reclaimed != s.reclaimed {
		return fmt.Errorf("%d reclaimed pods are counted, %d are there", s.reclaimed, a.reclaimed)
	}
	if a.promises != s.promises {
		return fmt.Errorf("promises say %+v, pods say %+v", s.promises, a.promises)
	}
	if err := a.books(); err != nil {
		return err
	}
	return s.verifyCensuses()
}

// slots verifies each slot, and counts the pods on them.
func (a *audit) slots() error {
	s := a.s
	for i, node := range s.nodes {
		slot := Slot(i)
		if node == nil {
			if len(s.onSlot[slot]) > 0 {
				return fmt.Errorf("vacant slot %d holds %d pods", slot, len(s.onSlot[slot]))
			}
			continue
		}
		if s.slots[node.Name] != slot {
			return fmt.Errorf("node %s is in slot %d but indexed in %d", node.Name, slot, s.slots[node.Name])
		}
		if err := a.slot(slot, node); err != nil {
			return fmt.Errorf("node %s: %w", node.Name, err)
		}
		a.charged += len(s.onSlot[slot])
	}
	return nil
}

// pods verifies each pod, and sums what they hold.
func (a *audit) pods() error {
	charged := 0
	for _, pod := range a.s.pods {
		if err := a.claims(pod); err != nil {
			return err
		}
		placed := pod.node != ""
		if placed != (pod.Phase == Assumed || pod.Phase == Bound) {
			return fmt.Errorf("pod %s is %s but its node is %q", pod.UID, pod.Phase, pod.node)
		}
		count(a.holding, pod, pod.slot != NoSlot)
		if pod.slot == NoSlot {
			continue
		}
		charged++
		a.promises.count(pod, 1)
		if pod.Class.Reclaimed {
			a.reclaimed++
		}
	}
	if charged != a.charged {
		return fmt.Errorf("%d pods are charged without being in the ledger", a.charged-charged)
	}
	return nil
}

// tallies asks every selector about every pod on the slot.
func (a *audit) tallies(slot Slot) error {
	want := make(map[TallyID]int32)
	for _, pod := range a.s.onSlot[slot] {
		for id, def := range a.s.registry.tallies {
			if def != nil && !def.carried && (!def.liveOnly || !pod.Deleting) && def.matches(pod.identity, a.s.selection.namespaces) {
				want[TallyID(id)]++
			}
		}
		for _, id := range pod.Class.base.carries {
			want[id]++
		}
	}
	for _, t := range a.s.tallies[slot] {
		if want[t.ID] != t.Count {
			return fmt.Errorf("tally %d says %d, pods say %d", t.ID, t.Count, want[t.ID])
		}
	}
	if len(want) != len(a.s.tallies[slot]) {
		return fmt.Errorf("%d tallies, pods say %d", len(a.s.tallies[slot]), len(want))
	}
	return nil
}

// verifyCensuses counts every census anew. Snapshots have censuses too, so it is a method of State.
func (s *State) verifyCensuses() error {
	for id, h := range s.holders {
		if h == nil || h.def != s.registry.tallies[id] {
			continue
		}
		holding := 0
		for slot := range s.nodes {
			if _, listed := h.at[Slot(slot)]; listed != (s.TallyAt(Slot(slot), TallyID(id)) > 0) {
				return fmt.Errorf("tally %d on slot %d: %d pods, listed as a holder: %v", id, slot, s.TallyAt(Slot(slot), TallyID(id)), listed)
			} else if listed {
				holding++
			}
		}
		if holding != len(h.slots) {
			return fmt.Errorf("tally %d: %d holders are listed, %d slots hold some", id, len(h.slots), holding)
		}
	}
	for id, c := range s.censuses {
		if c == nil || !s.has(CensusID(id)) {
			continue
		}
		fresh := s.newCensus(c.def)
		if fresh.sum != c.sum || fresh.domains != c.domains || fresh.Least() != c.Least() {
			return fmt.Errorf("census %d says %d pods in %d domains, at least %d; rows say %d, %d, %d",
				id, c.sum, c.domains, c.Least(), fresh.sum, fresh.domains, fresh.Least())
		}
		for d := range c.counts {
			if c.Count(DomainID(d)) != fresh.Count(DomainID(d)) {
				return fmt.Errorf("census %d says %d pods in domain %q, rows say %d",
					id, c.counts[d], s.DomainName(c.def.key, DomainID(d)), fresh.Count(DomainID(d)))
			}
		}
	}
	return nil
}

func (a *audit) slot(slot Slot, node *facts.Node) error {
	requested := make([]int64, len(a.s.requested))
	var cpu, memory int64
	ports := 0
	for i, pod := range a.s.onSlot[slot] {
		if pod.slot != slot || int(pod.position) != i || pod.node != node.Name {
			return fmt.Errorf("pod %s stands at %d but says slot %d, position %d, node %s", pod.UID, i, pod.slot, pod.position, pod.node)
		}
		for _, a := range pod.Class.Amounts {
			requested[a.Kind] += a.Value
		}
		moreCPU, moreMemory := Excess(pod.Class, pod.NUMANodes())
		requested[resource.CPU], requested[resource.Memory] = requested[resource.CPU]+moreCPU, requested[resource.Memory]+moreMemory
		cpu, memory = cpu+pod.Class.ScoreCPU+moreCPU, memory+pod.Class.ScoreMemory+moreMemory
		ports += len(pod.Class.Ports)
	}
	if err := a.allocatable(slot, node); err != nil {
		return err
	}
	for kind := range requested {
		if requested[kind] != a.s.requested[kind][slot] {
			return fmt.Errorf("%s: column says %d requested, pods say %d", a.s.kinds.Name(resource.Kind(kind)), a.s.requested[kind][slot], requested[kind])
		}
	}
	if cpu != a.s.scoreCPU[slot] || memory != a.s.scoreMemory[slot] {
		return fmt.Errorf("score columns say %d, %d; pods say %d, %d", a.s.scoreCPU[slot], a.s.scoreMemory[slot], cpu, memory)
	}
	if ports != len(a.s.ports[slot]) {
		return fmt.Errorf("%d host ports taken, pods say %d", len(a.s.ports[slot]), ports)
	}
	if err := a.tallies(slot); err != nil {
		return err
	}
	return a.held(slot, node)
}

// allocatable holds what pods may request against what the node and its report say.
func (a *audit) allocatable(slot Slot, node *facts.Node) error {
	want := make([]int64, len(a.s.allocatable))
	for _, q := range node.Allocatable {
		if kind, err := a.s.kinds.Intern(q.Name); err == nil && int(kind) < len(want) && !facts.IsReclaimed(q.Name) {
			want[kind] = q.Amount
		}
	}
	h := a.s.Headroom(slot)
	cpu, memory := h.Offered()
	for i, amount := range [...]int64{cpu, memory} {
		if kind := a.s.lent[i]; kind != 0 {
			want[kind] = amount
		} else if amount != 0 && a.s.kinds.Len() < resource.MaxKinds {
			return fmt.Errorf("%d of %s are offered, which is not counted", amount, facts.ReclaimedName(i))
		}
	}
	for kind := range want {
		if want[kind] != a.s.allocatable[kind][slot] {
			return fmt.Errorf("%s: column says %d allocatable, the node says %d", a.s.kinds.Name(resource.Kind(kind)), a.s.allocatable[kind][slot], want[kind])
		}
	}
	return nil
}

// held counts what is left of a slot's GPUs, NUMA nodes and devices anew: from what the node and its report say, and what the pods hold.
func (a *audit) held(slot Slot, node *facts.Node) error {
	var r *facts.NodeReport
	if known := a.s.reports[node.Name]; known != nil {
		r = known.NodeReport
	}
	if a.s.Report(slot) != r {
		return errors.New("the row has another report than the store")
	}
	if a.s.hasGPUs[slot] != (a.s.Shape(slot).GPUs > 0) {
		return fmt.Errorf("the column says that there are GPUs: %v; there are %d", a.s.hasGPUs[slot], a.s.Shape(slot).GPUs)
	}
	if has := r != nil && r.Devices != nil; has != (a.s.Shape(slot).Devices != nil) {
		return fmt.Errorf("the report names devices: %v; the row has them: %v", has, !has)
	}
	var l left
	v, guesses := l.empty(&a.s.State, slot), int32(0)
	for _, pod := range a.s.onSlot[slot] {
		said, which := heldBy(r, pod.UID)
		g := pod.Grant()
		want := g
		take(&want, &said, which)
		normalize(&want)
		if which != pod.said || want != g || pod.lifted {
			return fmt.Errorf("pod %s holds %+v, said by its node are parts %b; the node says %b: %+v", pod.UID, g, pod.said, which, said)
		}
		if pod.Guessed() {
			guesses++
		}
		commit(&v, &g)
	}
	a.s.eachForeign(slot, node.Name, func(g *topology.Grant) { commit(&v, g) })
	if !l.is(&a.s.State, slot) || guesses != a.s.guesses[slot] {
		return fmt.Errorf("%v GPUs, and of NUMA nodes and devices %+v, are free, and %d pods are guessed; pods say %+v and %d",
			a.s.gpus[slot], a.s.rows[slot], a.s.guesses[slot], l, guesses)
	}
	return nil
}

// claims holds a pod and its victims against one another.
func (a *audit) claims(pod *Pod) error {
	for _, victim := range pod.victims {
		if pod.Phase != Assumed || a.s.pods[victim.UID] != victim || !slices.Contains(victim.claims, pod) {
			return fmt.Errorf("pod %s (%s on %q) waits for %s (on %q), which does not know it", pod.UID, pod.Phase, pod.node, victim.UID, victim.node)
		}
	}
	for _, waiting := range pod.claims {
		if !slices.Contains(waiting.victims, pod) {
			return fmt.Errorf("pod %s is claimed by %s, which does not wait for it", pod.UID, waiting.UID)
		}
	}
	return nil
}

// Overcommitted returns the nodes on which pods request more than is allocatable, in slot order, not counting victims that are about to
// leave. Only the outside world can bring that about; Commit never does.
func (s *Store) Overcommitted() []string {
	var names []string
	for i, node := range s.nodes {
		if node == nil || !s.exceeded(Slot(i)) {
			continue
		}
		var leaving []*Pod
		for _, pod := range s.onSlot[i] {
			if pod.Claimed() {
				leaving = append(leaving, pod)
			}
		}
		trial := s.Try(Slot(i), false)
		for _, pod := range leaving {
			trial.Take(pod)
		}
		if s.exceeded(Slot(i)) {
			names = append(names, node.Name)
		}
		trial.End(leaving)
	}
	return names
}

func (s *Store) exceeded(slot Slot) bool {
	unsaid := s.Shape(slot).GPUs == 0 && s.Report(slot) == nil // nobody says what there is
	if !unsaid && slices.ContainsFunc(s.gpus[slot][:], func(free int32) bool { return free < 0 }) || s.overdrawn(slot) {
		return true
	}
	for kind := range s.allocatable {
		if s.requested[kind][slot] > s.allocatable[kind][slot] && !s.IsReclaimed(resource.Kind(kind)) { // headroom may fall below what runs
			return true
		}
	}
	_, numaNodes := s.NUMANodes(slot)
	return s.Report(slot) != nil && slices.ContainsFunc(numaNodes[:], func(z topology.NUMARoom) bool { return z.CPUs < 0 || z.Memory < 0 })
}

// overdrawn reports whether more is held of a slot's devices, beside the compute of GPUs, than there is.
func (s *State) overdrawn(slot Slot) bool {
	row := s.rows[slot]
	if row == nil || row.devices == nil {
		return false
	}
	d := row.devices
	for i := range topology.MaxGPUs {
		if d.Memory[i] < 0 || d.Clients[i] < 0 || d.Holders[i]&^0x11111111 != 0 {
			return true
		}
	}
	return slices.ContainsFunc(d.Bandwidth[:], func(left int32) bool { return left < 0 }) ||
		slices.ContainsFunc(d.Functions[:], func(left int16) bool { return left < 0 })
}

// books holds tenants, queues and units against the pods, and the capacity against the nodes.
func (a *audit) books() error {
	if err := a.s.quota.Verify(a.holding, a.capacity()); err != nil {
		return err
	}
	if err := a.s.units.verify(a.s.pods); err != nil {
		return err
	}
	for slot, by := range a.s.reserved {
		if by != NoReservation && a.s.nodes[slot] == nil {
			return fmt.Errorf("vacant slot %d is reserved by %d", slot, by)
		}
	}
	if a.s.inJudgement {
		return errors.New("a judgement has not ended")
	}
	return nil
}

// count adds a pod to what its tenant holds.
func count(holding map[*quota.Tenant]*quota.Holding, pod *Pod, charged bool) {
	h := holding[pod.tenant]
	if h == nil {
		h = &quota.Holding{}
		holding[pod.tenant] = h
	}
	if charged {
		h.Add(pod.Class.Charge)
		return
	}
	h.Add(nil)
}

func (b *unitBook) verify(pods map[facts.UID]*Pod) error {
	atomic := 0
	for name, u := range b.byName {
		if u.UnitName != name || u.Facts != nil && u.Facts.UnitName != name || u.Facts == nil && len(u.pods) == 0 {
			return fmt.Errorf("unit %s is known as %s, or nothing is left of it", u.UnitName, name)
		}
		if u.Atomic() {
			atomic++
		}
		if err := u.verify(pods); err != nil {
			return fmt.Errorf("unit %s: %w", name, err)
		}
	}
	if atomic != b.atomic {
		return fmt.Errorf("%d units stand or fall together, %d are counted", atomic, b.atomic)
	}
	for _, pod := range pods {
		if u := pod.Unit; u != nil && (b.byName[u.UnitName] != u || !slices.Contains(u.pods, pod)) {
			return fmt.Errorf("pod %s is not a member of its unit %s", pod.UID, u.UnitName)
		}
		if pod.Unit == nil && pod.Priority != pod.own {
			return fmt.Errorf("pod %s has no unit, and its priority is %d instead of its own, %d", pod.UID, pod.Priority, pod.own)
		}
	}
	return nil
}

// verify counts the members of a unit.
func (u *Unit) verify(pods map[facts.UID]*Pod) error {
	placed, bound := 0, 0
	for seat, pod := range u.pods {
		if pod.Unit != u || int(pod.seat) != seat || pods[pod.UID] != pod || pod.Priority != u.priorityOf(pod.own) {
			return fmt.Errorf("pod %s on seat %d is not its member, sits on %d or has another priority", pod.UID, seat, pod.seat)
		}
		if pod.Placed() {
			placed++
		}
		bound += pod.certain()
	}
	if placed != u.placed || bound != u.bound || u.done < 0 {
		return fmt.Errorf("it says %d members are placed, %d bound and %d done, pods say %d and %d", u.placed, u.bound, u.done, placed, bound)
	}
	if whole := u.Facts != nil && bound >= u.MinMember(); whole && !u.reached || u.reached && (u.Facts == nil || placed+u.done == 0) {
		return fmt.Errorf("it was whole: %v; %d of %d members are bound, %d placed and %d done", u.reached, bound, u.MinMember(), placed, u.done)
	}
	return nil
}

// capacity sums what the nodes provide.
func (a *audit) capacity() []int64 {
	capacity := make([]int64, a.s.kinds.Len())
	for slot, node := range a.s.nodes {
		if node == nil {
			continue
		}
		for kind := range a.s.allocatable {
			capacity[kind] += a.s.allocatable[kind][slot]
		}
		capacity[a.s.quota.GPUKind()] += int64(a.s.Shape(Slot(slot)).GPUs) * topology.FullGPU
	}
	return capacity
}

// Exceeded returns the queues that hold more than their limit, parents first, not counting victims that are about to leave. Only the
// outside world can bring that about: somebody else's bindings, a limit that was lowered, a queue or a namespace that has moved.
func (s *Store) Exceeded() []*quota.Queue {
	leaving := make(map[*quota.Tenant]*quota.Holding)
	for _, pod := range s.pods {
		if pod.Claimed() && pod.slot != NoSlot {
			count(leaving, pod, true)
		}
	}
	return s.quota.Exceeded(leaving)
}
