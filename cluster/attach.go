package cluster

import "slices"

// place charges a pod to a node, or files it as an orphan if the node is not known.
func (s *Store) place(pod *Pod, node string, held holding, inferred bool) {
	pod.node, pod.inferred = node, inferred
	pod.gpus, pod.milli, pod.zones = held.gpus, held.milli, held.zones
	pod.recorded, pod.confirmed, pod.guessed = nil, false, held.zones == nil && !pod.Class.Zones.IsZero()
	slot, ok := s.slots[node]
	if !ok {
		s.orphans[node] = append(s.orphans[node], pod)
		return
	}
	s.attach(pod, slot)
	s.note(slot, Charged)
}

// attach charges a pod to a slot without noting it in the log.
func (s *Store) attach(pod *Pod, slot Slot) {
	pod.slot, pod.position = slot, int32(len(s.onSlot[slot]))
	s.onSlot[slot] = append(s.onSlot[slot], pod)
	s.tally(pod, 1)
	s.spend(pod, 1)
	s.settleZones(pod, slot)
	s.promises.count(pod, 1)
	s.countReclaimed(pod, 1)
	held := pod.holding()
	if pod.inferred {
		held.gpus, held.milli = 0, 0
		s.guesses[slot]++
	}
	if pod.guessesZones() {
		s.zoneGuesses[slot]++
	}
	s.charge(slot, pod.Class, held)
	if s.guesses[slot] > 0 && !pod.Class.GPU.IsZero() {
		s.regrant(slot)
	}
	if s.touchesZones(slot, pod) {
		s.rezone(slot)
	}
}

// unplace takes a pod off whatever node the ledger has it on.
func (s *Store) unplace(pod *Pod) {
	if pod.node == "" {
		return
	}
	s.absolve(pod)
	node, slot := pod.node, pod.slot
	pod.node = ""
	if slot == NoSlot {
		s.dropOrphan(node, pod)
		pod.release()
		return
	}
	list := s.onSlot[slot]
	last := list[len(list)-1]
	list[pod.position], last.position = last, pod.position
	list[len(list)-1] = nil
	s.onSlot[slot] = list[:len(list)-1]
	s.discharge(slot, pod.Class, pod.holding())
	s.tally(pod, -1)
	s.spend(pod, -1)
	if pod.inferred {
		s.guesses[slot]--
	}
	if pod.guessesZones() {
		s.zoneGuesses[slot]--
	}
	s.promises.count(pod, -1)
	s.countReclaimed(pod, -1)
	s.depart(pod, slot, node)
	rezones := s.touchesZones(slot, pod)
	pod.slot = NoSlot
	pod.release()
	if s.guesses[slot] > 0 && !pod.Class.GPU.IsZero() {
		s.regrant(slot)
	}
	if rezones {
		s.rezone(slot)
	}
	s.note(slot, Freed)
}

// release leaves the pod without anything.
func (p *Pod) release() {
	p.gpus, p.milli, p.zones, p.recorded = 0, 0, nil, nil
	p.inferred, p.confirmed, p.guessed = false, false, false
}

func (s *Store) dropOrphan(node string, pod *Pod) {
	list := s.orphans[node]
	if i := slices.Index(list, pod); i >= 0 {
		list = slices.Delete(list, i, i+1)
	}
	if len(list) == 0 {
		delete(s.orphans, node)
		return
	}
	s.orphans[node] = list
}
