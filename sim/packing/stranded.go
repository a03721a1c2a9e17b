package packing

import (
	"hilbert.dev/hilbert/schedule/fragment"
	"hilbert.dev/hilbert/topology"
)

// Causes of what is left, for a piece of a GPU. A cause is the least that would have to be different for a common kind of pod to use it.
const (
	CauseNobody = "nobody came" // a common kind fits as it is, but none came any more
	CauseCPU    = "cpu"         // it fits but for the node's CPU
	CauseMemory = "memory"      // it fits but for the node's memory, or both
	CauseModel  = "model"       // it fits but for the GPU's model
	CauseSmall  = "small"       // the piece is smaller than any common kind
)

// Causes lists them in the order of reports.
func Causes() []string { return []string{CauseSmall, CauseCPU, CauseMemory, CauseModel, CauseNobody} }

// stranded splits what is left of the GPUs by cause, in percent of the cluster's.
func (r *run) stranded() map[string]float64 {
	common := r.a.common()
	split := make(map[string]float64)
	for i := range r.nodes {
		n := &r.nodes[i]
		for g := range n.Shape.GPUs {
			if f := n.Free[g]; f > 0 {
				split[causeOf(common, n, f)] += 100 * float64(f) / float64(r.a.capacity)
			}
		}
	}
	return split
}

// common lists the kinds that make up most of the workload, with their memory.
func (a *Arrivals) common() []fragment.Request {
	frequent := make(map[fragment.Request]bool)
	for _, s := range a.workload.Common(fragment.CommonCover) {
		frequent[s.Request] = true
	}
	var list []fragment.Request
	for _, r := range a.kinds {
		bare := r
		bare.Memory = 0
		if frequent[bare] {
			list = append(list, r)
		}
	}
	return list
}

func causeOf(common []fragment.Request, n *fragment.Node, free int32) string {
	cause, rank := CauseSmall, 4
	better := func(c string, r int) {
		if r < rank {
			cause, rank = c, r
		}
	}
	for i := range common {
		q := &common[i]
		need := q.GPU.Total()
		if q.GPU.IsZero() || q.GPU.Whole > 1 || need > int64(free) || need == topology.FullGPU && free < topology.FullGPU {
			continue
		}
		switch {
		case !q.Models.Allows(n.Shape.Model):
			better(CauseModel, 3)
		case n.CPU < q.CPU:
			better(CauseCPU, 1)
		case n.Memory < q.Memory:
			better(CauseMemory, 2)
		default:
			better(CauseNobody, 0)
		}
	}
	return cause
}
