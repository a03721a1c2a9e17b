package cluster

import (
	"math/bits"
	"slices"

	"hilbert.dev/hilbert/cluster/quota"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

// A queue is charged what its pods take from the cluster, which is what their nodes give up for them, the grant, and not what they request. A pod
// that asks for one CPU and NUMA nodes of its own is charged all CPUs and the memory of these; a slice of a GPU counts as the whole steps, or the MIG
// instance, that it was rounded up to. Class.Charge is what is known before: the least that a pod may be charged.
//
// The pod of a file on the node, which the kubelet mirrors to the API server, charges its node and never a queue: no tenant has asked for it. All
// others charge the queue of their namespace, whoever has bound them, or another scheduler would be a way around limits. What they ask for does not
// need to be there then, so that no pod is charged more than its node has.

// Charge is what the pod is charged to its queues, or will be at least; the caller must not change it.
func (p *Pod) Charge() resource.List {
	if charge, differs := p.tenant.Differs(string(p.UID)); differs {
		return charge
	}
	return p.Class.Charge
}

// Charge is what a pod of the class would be charged to its queues on a node that gives it the grant.
func (s *State) Charge(slot Slot, c *Class, g *topology.Grant) resource.List {
	charge := c.Charge
	if cpu, memory := Excess(c, &g.NUMANodes); cpu != 0 || memory != 0 {
		charge = with(with(charge, resource.CPU, cpu), resource.Memory, memory)
	}
	if g.GPUs != 0 {
		if g.Instance > 0 {
			complete := *g
			s.Shape(slot).Devices.Complete(&complete)
			g = &complete
		}
		given := int64(bits.OnesCount16(g.GPUs)) * int64(g.Milli)
		charge = with(charge, s.gpuKind, given-c.GPU.Total())
	}
	return charge
}

// with returns the list with an amount more of a kind, which may be negative. It does not change the list.
func with(list resource.List, kind resource.Kind, more int64) resource.List {
	if more == 0 {
		return list
	}
	at, found := slices.BinarySearchFunc(list, kind, func(a resource.Amount, kind resource.Kind) int { return int(a.Kind) - int(kind) })
	list = slices.Clone(list)
	if !found {
		return slices.Insert(list, at, resource.Amount{Kind: kind, Value: more})
	}
	if list[at].Value = resource.Add(list[at].Value, more); list[at].Value <= 0 {
		return slices.Delete(list, at, at+1)
	}
	return list
}

// due is what a pod on a slot has to be charged.
func (s *Store) due(pod *Pod, slot Slot) resource.List {
	if pod.mirror {
		return nil
	}
	charge := pod.Class.Charge
	if !pod.holding().isZero() {
		grant := pod.Grant()
		charge = s.Charge(slot, pod.Class, &grant)
	}
	for _, a := range charge {
		if a.Value <= s.Allocatable(slot, a.Kind) {
			continue
		}
		if most, bounded := s.most(pod, slot, a.Kind); bounded && a.Value > most {
			charge = with(charge, a.Kind, most-a.Value)
		}
	}
	return charge
}

// most is the most that a pod on a slot may be charged of a kind. A pod of ours fitted when it was placed; if its node has nothing of a resource
// now, its device plugin may be restarting.
func (s *Store) most(pod *Pod, slot Slot, kind resource.Kind) (most int64, bounded bool) {
	switch {
	case kind == resource.Pods || s.IsReclaimed(kind):
		return 0, false
	case kind == s.gpuKind:
		most = int64(s.Shape(slot).GPUs) * topology.FullGPU
	default:
		most = s.Allocatable(slot, kind)
	}
	return most, most > 0 || !pod.Ours
}

// spend charges the pod to its tenant and all queues above, or with a negative sign takes it away.
func (s *Store) spend(pod *Pod, sign int64) {
	if sign < 0 {
		s.quota.Discharge(pod.tenant, pod.Charge(), !s.inJudgement)
		pod.tenant.Differ(string(pod.UID), nil, false)
		return
	}
	charge := s.due(pod, pod.slot)
	pod.tenant.Differ(string(pod.UID), charge, !slices.Equal(charge, pod.Class.Charge))
	s.quota.Charge(pod.tenant, charge)
}

// recharge charges the pods on a slot what they hold of it now. Those that are lifted for a judgement keep what they have.
func (s *Store) recharge(slot Slot) {
	for _, pod := range s.pods.onSlot[slot] {
		if !pod.lifted && !slices.Equal(pod.Charge(), s.due(pod, slot)) {
			s.spend(pod, -1)
			s.spend(pod, 1)
		}
	}
}

// recountSlot counts anew what is left of a slot beside amounts, and charges the pods there what they hold.
func (s *Store) recountSlot(slot Slot) {
	s.grants.recount(slot)
	s.recharge(slot)
}

// shortfall is the limit that has no room for a pod on a node that gives it a grant.
func (s *Store) shortfall(pod *Pod, slot Slot, g *topology.Grant) (quota.Shortfall, bool) {
	short, ok := pod.Queue().Admits(s.Charge(slot, pod.Class, g))
	return short, !ok
}
