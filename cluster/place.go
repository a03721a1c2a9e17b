package cluster

import (
	"slices"

	"hilbert.dev/hilbert/topology"
)

// place charges a pod that its Binding gave something to a node, or files it as an orphan if the node is not known.
func (s *Store) place(pod *Pod, node string, held *topology.Grant) {
	pod.node = node
	pod.hold(holdingOf(held))
	pod.recorded, pod.said, pod.unrecorded = nil, 0, pod.Class.lacking(held)
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
	s.settle(pod, slot)
	s.promises.count(pod, 1)
	s.countReclaimed(pod, 1)
	if pod.Guessed() {
		s.guesses[slot]++
	}
	s.charge(slot, pod.Class, pod.holding())
	if s.touches(slot, pod) {
		s.recount(slot)
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
	if pod.Guessed() {
		s.guesses[slot]--
	}
	touches := s.touches(slot, pod)
	s.promises.count(pod, -1)
	s.countReclaimed(pod, -1)
	s.depart(pod, slot, node)
	pod.slot = NoSlot
	pod.release()
	if touches {
		s.recount(slot)
	}
	s.note(slot, Freed)
}

// release leaves the pod without anything.
func (p *Pod) release() {
	p.hold(holding{})
	p.recorded, p.unrecorded, p.said = nil, 0, 0
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
