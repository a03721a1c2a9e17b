package cluster

import (
	"errors"
	"fmt"
	"slices"

	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

// Verify recomputes the columns from the pods and returns the first difference. It costs time proportional to the ledger: tests and the
// simulator call it.
func (s *Store) Verify() error {
	charged, reclaimed := 0, 0
	var promises Promises
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
		if err := s.verifySlot(slot, node); err != nil {
			return fmt.Errorf("node %s: %w", node.Name, err)
		}
		charged += len(s.onSlot[slot])
	}
	for _, pod := range s.pods {
		if err := s.verifyClaims(pod); err != nil {
			return err
		}
		placed := pod.node != ""
		if placed != (pod.Phase == Assumed || pod.Phase == Bound) {
			return fmt.Errorf("pod %s is %s but its node is %q", pod.UID, pod.Phase, pod.node)
		}
		if pod.slot != NoSlot && pod.Class.Reclaimed {
			reclaimed++
		}
		if pod.slot != NoSlot {
			charged--
			promises.count(pod, 1)
		}
	}
	if charged != 0 {
		return fmt.Errorf("%d pods are charged without being in the ledger", charged)
	}
	if reclaimed != s.reclaimed {
		return fmt.Errorf("%d reclaimed pods are counted, %d are there", s.reclaimed, reclaimed)
	}
	if promises != s.promises {
		return fmt.Errorf("promises say %+v, pods say %+v", s.promises, promises)
	}
	if err := s.verifyBooks(); err != nil {
		return err
	}
	return s.verifyCensuses()
}

// verifyTallies asks every selector about every pod on the slot.
func (s *Store) verifyTallies(slot Slot) error {
	want := make(map[TallyID]int32)
	for _, pod := range s.onSlot[slot] {
		for id, def := range s.registry.tallies {
			if def != nil && !def.carried && (!def.liveOnly || !pod.Deleting) && def.matches(pod.identity, s.namespaces) {
				want[TallyID(id)]++
			}
		}
		for _, id := range pod.Class.base.carries {
			want[id]++
		}
	}
	for _, t := range s.tallies[slot] {
		if want[t.ID] != t.Count {
			return fmt.Errorf("tally %d says %d, pods say %d", t.ID, t.Count, want[t.ID])
		}
	}
	if len(want) != len(s.tallies[slot]) {
		return fmt.Errorf("%d tallies, pods say %d", len(s.tallies[slot]), len(want))
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

func (s *Store) verifySlot(slot Slot, node *Node) error {
	requested := make([]int64, len(s.requested))
	var cpu, memory int64
	ports := 0
	for i, pod := range s.onSlot[slot] {
		if pod.slot != slot || int(pod.position) != i || pod.node != node.Name {
			return fmt.Errorf("pod %s stands at %d but says slot %d, position %d, node %s", pod.UID, i, pod.slot, pod.position, pod.node)
		}
		for _, a := range pod.Class.Amounts {
			requested[a.Kind] += a.Value
		}
		moreCPU, moreMemory := Excess(pod.Class, pod.Zones())
		requested[resource.CPU], requested[resource.Memory] = requested[resource.CPU]+moreCPU, requested[resource.Memory]+moreMemory
		cpu, memory = cpu+pod.Class.ScoreCPU+moreCPU, memory+pod.Class.ScoreMemory+moreMemory
		ports += len(pod.Class.Ports)
	}
	if err := s.verifyAllocatable(slot, node); err != nil {
		return err
	}
	for kind := range requested {
		if requested[kind] != s.requested[kind][slot] {
			return fmt.Errorf("%s: column says %d requested, pods say %d", s.kinds.Name(resource.Kind(kind)), s.requested[kind][slot], requested[kind])
		}
	}
	if cpu != s.scoreCPU[slot] || memory != s.scoreMemory[slot] {
		return fmt.Errorf("score columns say %d, %d; pods say %d, %d", s.scoreCPU[slot], s.scoreMemory[slot], cpu, memory)
	}
	if ports != len(s.ports[slot]) {
		return fmt.Errorf("%d host ports taken, pods say %d", len(s.ports[slot]), ports)
	}
	if err := s.verifyTallies(slot); err != nil {
		return err
	}
	return s.verifyHeld(slot, node)
}

// verifyAllocatable holds what pods may request against what the node and its report say.
func (s *Store) verifyAllocatable(slot Slot, node *Node) error {
	want := make([]int64, len(s.allocatable))
	for _, q := range node.Allocatable {
		if kind, err := s.kinds.Intern(q.Name); err == nil && int(kind) < len(want) && !isReclaimed(q.Name) {
			want[kind] = q.Amount
		}
	}
	h := s.Headroom(slot)
	cpu, memory := h.Offered()
	for i, amount := range [...]int64{cpu, memory} {
		if kind := s.lent[i]; kind != 0 {
			want[kind] = amount
		} else if amount != 0 && s.kinds.Len() < resource.MaxKinds {
			return fmt.Errorf("%d of %s are offered, which is not counted", amount, reclaimedName(i))
		}
	}
	for kind := range want {
		if want[kind] != s.allocatable[kind][slot] {
			return fmt.Errorf("%s: column says %d allocatable, the node says %d", s.kinds.Name(resource.Kind(kind)), s.allocatable[kind][slot], want[kind])
		}
	}
	return nil
}

// verifyHeld counts what is left of a slot's GPUs, zones and devices anew: from what the node and its report say, and what the pods hold.
func (s *Store) verifyHeld(slot Slot, node *Node) error {
	var r *NodeReport
	if known := s.reports[node.Name]; known != nil {
		r = known.NodeReport
	}
	if s.Report(slot) != r {
		return errors.New("the row has another report than the store")
	}
	if s.hasGPUs[slot] != (s.Shape(slot).GPUs > 0) {
		return fmt.Errorf("the column says that there are GPUs: %v; there are %d", s.hasGPUs[slot], s.Shape(slot).GPUs)
	}
	if has := r != nil && r.Devices != nil; has != (s.Shape(slot).Devices != nil) {
		return fmt.Errorf("the report names devices: %v; the row has them: %v", has, !has)
	}
	var l left
	v, guesses := l.empty(&s.State, slot), int32(0)
	for _, pod := range s.onSlot[slot] {
		said, which := r.holds(pod.UID)
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
	s.eachForeign(slot, node.Name, func(g *topology.Grant) { commit(&v, g) })
	if !l.is(&s.State, slot) || guesses != s.guesses[slot] {
		return fmt.Errorf("%v GPUs, and of zones and devices %+v, are free, and %d pods are guessed; pods say %+v and %d",
			s.gpus[slot], s.rows[slot], s.guesses[slot], l, guesses)
	}
	return nil
}

// verifyClaims holds a pod and its victims against one another.
func (s *Store) verifyClaims(pod *Pod) error {
	for _, victim := range pod.victims {
		if pod.Phase != Assumed || s.pods[victim.UID] != victim || !slices.Contains(victim.claims, pod) {
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
	_, zones := s.Zones(slot)
	return s.Report(slot) != nil && slices.ContainsFunc(zones[:], func(z topology.ZoneRoom) bool { return z.CPUs < 0 || z.Memory < 0 })
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
