package reschedule

import (
	"slices"

	"hilbert.dev/hilbert/topology"
)

// Batches orders moves. Those of one batch enter room that is free before any of them begins: what a pod leaves is counted when its batch is done. Moves of one
// group stand or fall together. Where nobody can move because each waits for another, the group that wins the least is dropped.
func Batches(v *View, groups [][]Planned) (batches [][]Planned, dropped []Planned) {
	kept := slices.Clone(groups)
	for {
		list, stuck := order(v, kept)
		if len(stuck) == 0 {
			return list, dropped
		}
		least := -1
		for i, g := range kept {
			if slices.ContainsFunc(g, func(m Planned) bool { return stuck[m.Pod] }) && (least < 0 || g[0].Net < kept[least][0].Net) {
				least = i
			}
		}
		dropped = append(dropped, kept[least]...)
		kept = slices.Delete(kept, least, least+1)
	}
}

// order makes the batches; stuck are the pods that never find their room free.
func order(v *View, groups [][]Planned) (batches [][]Planned, stuck map[int]bool) {
	free := make(map[int]*Room)
	at := func(node int) *Room {
		if free[node] == nil {
			n := v.Nodes[node].Room
			n.Amounts = slices.Clone(n.Amounts)
			free[node] = &n
		}
		return free[node]
	}
	var left []Planned
	for _, g := range groups {
		left = append(left, g...)
	}
	for len(left) > 0 {
		var batch, later []Planned
		for _, m := range left {
			if at(m.To).enter(&v.Pods[m.Pod], m.GPU) {
				batch = append(batch, m)
			} else {
				later = append(later, m)
			}
		}
		if len(batch) == 0 {
			stuck = make(map[int]bool)
			for _, m := range left {
				stuck[m.Pod] = true
			}
			return batches, stuck
		}
		for _, m := range batch {
			at(m.From).leave(&v.Pods[m.Pod])
		}
		batches = append(batches, batch)
		left = later
	}
	return batches, nil
}

// enter takes what a pod asks for, if there is room.
func (r *Room) enter(p *Pod, gpu int) bool {
	for i, x := range p.Requests {
		if x > 0 && r.Amounts[i] < x {
			return false
		}
	}
	if !p.GPU.IsZero() {
		grant, ok := r.offer(p, gpu)
		if !ok {
			return false
		}
		r.Free.Commit(grant)
	}
	for i, x := range p.Requests {
		r.Amounts[i] -= x
	}
	return true
}

// offer is the GPUs that a pod would get: a part of the one that was planned, if it has room.
func (r *Room) offer(p *Pod, gpu int) (topology.Grant, bool) {
	if p.GPU.Milli > 0 && gpu < r.Shape.GPUs && r.Shape.Shareable && r.Free[gpu] >= int32(p.GPU.Milli) {
		return topology.Grant{GPUs: 1 << gpu, Milli: p.GPU.Milli}, true
	}
	return topology.OfferGPUs(r.Shape, &r.Free, p.GPU)
}

// leave gives back what a pod has.
func (r *Room) leave(p *Pod) {
	for i, x := range p.Requests {
		r.Amounts[i] += x
	}
	r.Free.Release(p.Grant)
}
