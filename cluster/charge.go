package cluster

import (
	"fmt"
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

// chargeBook is the ledger's account with the tree of queues: what the pods on nodes are charged, and what the nodes provide.
//
// A pod is charged while it is on a slot, and at no other time; and always what is due there by what it holds and what its node has. Whoever changes one of these says
// recharge. For example, a node of 8 CPUs comes back with 4: a foreign pod of 6 CPUs, which was charged 6, is charged 4 from then on.
type chargeBook struct {
	state *State
	pods  *podTable
	tree  *quota.Tree
	// supposing: a Plan is being judged. What is freed now was taken by the judgement itself, and gives no queue the right to look again.
	supposing bool
}

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
func (b *chargeBook) due(pod *Pod, slot Slot) resource.List {
	if pod.mirror {
		return nil
	}
	charge := pod.Class.Charge
	if !pod.holding().isZero() {
		grant := pod.Grant()
		charge = b.state.Charge(slot, pod.Class, &grant)
	}
	for _, a := range charge {
		if a.Value <= b.state.Allocatable(slot, a.Kind) {
			continue
		}
		if most, bounded := b.most(pod, slot, a.Kind); bounded && a.Value > most {
			charge = with(charge, a.Kind, most-a.Value)
		}
	}
	return charge
}

// most is the most that a pod on a slot may be charged of a kind. A pod of ours fitted when it was placed; if its node has nothing of a resource
// now, its device plugin may be restarting.
func (b *chargeBook) most(pod *Pod, slot Slot, kind resource.Kind) (most int64, bounded bool) {
	switch {
	case kind == resource.Pods || b.state.IsReclaimed(kind):
		return 0, false
	case kind == b.state.gpuKind:
		most = int64(b.state.Shape(slot).GPUs) * topology.FullGPU
	default:
		most = b.state.Allocatable(slot, kind)
	}
	return most, most > 0 || !pod.Ours
}

// spend charges the pod to its tenant and all queues above, or with a negative sign takes it away.
func (b *chargeBook) spend(pod *Pod, sign int64) {
	if sign < 0 {
		b.tree.Discharge(pod.tenant, pod.Charge(), !b.supposing)
		pod.tenant.Differ(string(pod.UID), nil, false)
		return
	}
	charge := b.due(pod, pod.slot)
	pod.tenant.Differ(string(pod.UID), charge, !slices.Equal(charge, pod.Class.Charge))
	b.tree.Charge(pod.tenant, charge)
}

// recharge charges the pods on a slot what they hold of it now. Those that are lifted for a judgement keep what they have.
func (b *chargeBook) recharge(slot Slot) {
	for _, pod := range b.pods.onSlot[slot] {
		if !pod.lifted && !slices.Equal(pod.Charge(), b.due(pod, slot)) {
			b.spend(pod, -1)
			b.spend(pod, 1)
		}
	}
}

// shortfall is the limit that has no room for a pod on a node that gives it a grant.
func (b *chargeBook) shortfall(pod *Pod, slot Slot, g *topology.Grant) (quota.Shortfall, bool) {
	short, ok := pod.Queue().Admits(b.state.Charge(slot, pod.Class, g))
	return short, !ok
}

// ease says that a pod's queues have more to give.
func (b *chargeBook) ease(pod *Pod) {
	for q := pod.Queue(); q != nil; q = q.Parent() {
		b.tree.Ease(q)
	}
}

// provide adds a slot's allocatable, sign times, to the cluster's capacity.
func (b *chargeBook) provide(slot Slot, sign int64) {
	for kind, column := range b.state.allocatable {
		if len(column) > 0 {
			b.tree.Provide(resource.Kind(kind), sign*column[slot])
		}
	}
}

// provideGPUs adds a slot's GPUs, sign times, to the capacity; a vacant one has none.
func (b *chargeBook) provideGPUs(slot Slot, sign int64) {
	if b.state.nodes[slot] != nil {
		b.tree.Provide(b.tree.GPUKind(), sign*int64(b.state.Shape(slot).GPUs)*topology.FullGPU)
	}
}

// verify holds what the tree has been told of a pod against what is due; differs reports whether that is something else than its class says.
func (b *chargeBook) verify(pod *Pod) (differs bool, err error) {
	charge, differs := pod.tenant.Differs(string(pod.UID))
	if pod.slot == NoSlot {
		if differs {
			return differs, fmt.Errorf("pod %s is on no node and charged %v", pod.UID, charge)
		}
		return differs, nil
	}
	if due := b.due(pod, pod.slot); !slices.Equal(due, pod.Charge()) {
		return differs, fmt.Errorf("pod %s is charged %v, and takes %v of its node", pod.UID, pod.Charge(), due)
	}
	return differs, nil
}

// capacity counts anew what the nodes provide.
func (b *chargeBook) capacity() quota.Exact {
	capacity := make(quota.Exact, b.state.kinds.Len())
	for slot, node := range b.state.nodes {
		if node == nil {
			continue
		}
		for kind := range b.state.allocatable {
			capacity.Add(resource.Kind(kind), b.state.Allocatable(Slot(slot), resource.Kind(kind)))
		}
		capacity.Add(b.tree.GPUKind(), int64(b.state.Shape(Slot(slot)).GPUs)*topology.FullGPU)
	}
	return capacity
}
