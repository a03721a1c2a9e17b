package packing

import (
	"slices"

	"hilbert.dev/hilbert/schedule/fragment"
	"hilbert.dev/hilbert/topology"
)

// remembered is the fragmentation of nodes by one Target, kept by what it depends on: nodes are alike, and it is asked for again and again.
type remembered struct {
	target fragment.Target
	known  map[state]float64
}

// state is all that the fragmentation of a node depends on.
type state struct {
	cpu   int64
	model string
	free  [topology.MaxGPUs]int16
}

// mostRemembered bounds what is remembered.
const mostRemembered = 1 << 18

func remember(target fragment.Target) *remembered {
	return &remembered{target: target, known: make(map[state]float64)}
}

func (r *remembered) fragmentation(n *fragment.Node) float64 {
	s := state{cpu: n.CPU, model: n.Shape.Model}
	for i := range n.Shape.GPUs {
		s.free[i] = int16(n.Free[i])
	}
	slices.Sort(s.free[:n.Shape.GPUs])
	if x, ok := r.known[s]; ok {
		return x
	}
	if len(r.known) >= mostRemembered {
		clear(r.known)
	}
	x := r.target.Fragmentation(n)
	r.known[s] = x
	return x
}
