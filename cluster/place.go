package cluster

import (
	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/quota"
	"hilbert.dev/hilbert/topology"
)

// place charges a pod that its Binding gave something to a node, or files it as an orphan if the node is not known.
func (s *Store) place(pod *Pod, node string, held *topology.Grant) {
	pod.node = node
	pod.hold(holdingOf(held))
	pod.recorded, pod.said, pod.unrecorded = nil, 0, pod.Class.lacking(held)
	slot, ok := s.slots.byNode[node]
	if !ok {
		s.pods.orphans[node] = append(s.pods.orphans[node], pod)
		return
	}
	s.attach(pod, slot)
	s.note(slot, changes.Charged)
}

// attach charges a pod to a slot without noting it in the log.
func (s *Store) attach(pod *Pod, slot Slot) {
	s.pods.enter(pod, slot)
	s.placeholders.moved(pod, slot, 1)
	pod.tally(&s.counts, slot, 1)
	s.selection.act(pod.Class.request.carries)
	s.grants.arrive(pod, slot)
	s.charges.spend(pod, 1)
	s.placed.count(pod, 1)
	s.charge(slot, pod.Class, pod.holding())
	s.attachVolumes(slot, pod, 1)
	if s.usage.covers(slot, pod) {
		s.usage.recount(slot)
	}
	if s.grants.touches(slot, pod) {
		s.grants.recharge(slot)
	}
}

// unplace takes a pod off whatever node the ledger has it on.
func (s *Store) unplace(pod *Pod) {
	if pod.node == "" {
		return
	}
	pod.absolve(&s.victims)
	s.claims.release(pod)
	node, slot := pod.node, pod.slot
	pod.node = ""
	if slot == NoSlot {
		s.pods.dropOrphan(node, pod)
		pod.release()
		return
	}
	s.pods.leave(pod)
	s.placeholders.moved(pod, slot, -1)
	s.discharge(slot, pod.Class, pod.holding())
	s.attachVolumes(slot, pod, -1)
	pod.tally(&s.counts, slot, -1)
	s.charges.spend(pod, -1)
	s.placed.count(pod, -1)
	if s.usage.covers(slot, pod) {
		s.usage.recount(slot)
	}
	recount := s.grants.depart(pod, slot, node)
	pod.slot = NoSlot
	pod.release()
	if recount && !s.keepGuesses {
		s.grants.recharge(slot)
	}
	s.note(slot, changes.Freed)
}

// release leaves the pod without anything.
func (p *Pod) release() {
	p.hold(holding{})
	p.recorded, p.unrecorded, p.said = nil, 0, 0
}

// Queue is the queue that the pod is charged to, or will be.
func (p *Pod) Queue() *quota.Queue { return p.tenant.Queue() }

// Tenant is the account that the pod is charged to, or will be.
func (p *Pod) Tenant() *quota.Tenant { return p.tenant }
