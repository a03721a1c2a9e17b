package fragment

import (
	"cmp"
	"slices"
)

// HostPrices prices the CPU and memory of nodes without GPUs, for pods without GPUs. A price is that of room for one more pod of a kind: how often the
// kind arrives, divided by how many of it would fit in all the nodes, and one. So room for large pods, which few nodes have, is dear. A placement costs the room
// that it takes away. It is only about kinds that arrive often, at most MaxHostKinds.
//
// Example: pods of 8 and of 32 CPUs arrive equally often. Node a has 32 free CPUs, b has 12. A pod of 8 takes room for one of four small pods and the only
// large one on a, and for the only small one on b. Five small pods and one large one fit in all, so it costs 1/6 + 1/2 on a and 1/6 on b, so it goes to b.
//
// The zero value prices nothing.
type HostPrices struct {
	kinds []hostKind
}

// hostKind is a kind of pod, and the price of room for one.
type hostKind struct {
	cpu, memory int64
	price       float64
}

// MaxHostKinds bounds the kinds that are priced: the most frequent ones.
const MaxHostKinds = 16

// Learn finds prices for the pods of a mix without GPUs, and what nodes without GPUs have free.
func (p *HostPrices) Learn(mix *Mix, nodes []Node) {
	p.kinds = p.kinds[:0]
	for i := range mix.kinds {
		if k := &mix.kinds[i]; k.request.GPU.IsZero() && (k.request.CPU > 0 || k.request.Memory > 0) {
			p.kinds = append(p.kinds, hostKind{k.request.CPU, k.request.Memory, k.count})
		}
	}
	slices.SortStableFunc(p.kinds, func(a, b hostKind) int {
		return cmp.Or(cmp.Compare(b.price, a.price), cmp.Compare(a.cpu, b.cpu), cmp.Compare(a.memory, b.memory))
	})
	p.kinds = p.kinds[:min(len(p.kinds), MaxHostKinds)]
	for i := range p.kinds {
		k := &p.kinds[i]
		fit := int64(1)
		for j := range nodes {
			if n := &nodes[j]; n.Shape.GPUs == 0 {
				fit += k.fits(n.CPU, n.Memory)
			}
		}
		k.price /= float64(fit)
	}
}

// fits is how many pods of the kind fit.
func (k *hostKind) fits(cpu, memory int64) int64 {
	cpu, memory = max(cpu, 0), max(memory, 0)
	switch {
	case k.cpu == 0:
		return memory / k.memory
	case k.memory == 0:
		return cpu / k.cpu
	}
	return min(cpu/k.cpu, memory/k.memory)
}

// Worth is how little room a pod takes away from a node that has so much CPU and memory free: 1 where it takes none, and less the more it takes, beside what it would take
// if kinds could be cut as one likes.
func (p *HostPrices) Worth(cpu, memory int64, r *Request) float64 {
	loss, even := 0.0, 0.0
	for i := range p.kinds {
		k := &p.kinds[i]
		loss += float64(k.price * float64(k.fits(cpu, memory)-k.fits(cpu-r.CPU, memory-r.Memory)))
		share := 0.0
		if k.cpu > 0 {
			share = float64(r.CPU) / float64(k.cpu)
		}
		if k.memory > 0 {
			share = max(share, float64(r.Memory)/float64(k.memory))
		}
		even += float64(k.price * share)
	}
	if even == 0 {
		return 1
	}
	return even / (even + loss)
}
