package fragment

import (
	"cmp"
	"math/bits"

	"hilbert.dev/hilbert/topology"
)

// departures is a set of pods that have to leave a node so that another pod fits.
type departures struct {
	node, gpu int
	leave     uint64 // a set of indices of the node's pods
	moves     int    // how many pods have to move for that, as the last Survey says
	waste     int64  // thousandths on the GPU that would be left
}

func (c departures) compare(o departures) int {
	return cmp.Or(cmp.Compare(c.moves, o.moves), cmp.Compare(c.waste, o.waste), cmp.Compare(c.node, o.node))
}

// candidates is the pods of one node that may leave for a pod of some kind: they are small enough, and few enough moves put them elsewhere.
type candidates struct {
	n       *Node
	q       *Request
	node    int
	kinds   []Request
	pods    []Occupant
	moves   []int8 // by kind
	movable uint64
	limit   int
}

// fewestDepartures finds the fewest moves, at most limit, that let a pod of this kind onto a node. anySize: not only smaller pods leave.
func (m *Mover) fewestDepartures(t *Assignment, at int, kind int32, limit int, anySize bool) (best departures, ok bool) {
	n, q := &t.Nodes[at], &t.Kinds[kind]
	if limit < 0 || !q.GPU.IsZero() && (n.Shape.GPUs < q.GPU.Count() || !q.Models.Allows(n.Shape.Model) || q.GPU.Milli > 0 && !n.Shape.Shareable) {
		return best, false
	}
	o := candidates{n: n, q: q, node: at, kinds: t.Kinds, pods: t.Pods[at], moves: m.moves, limit: limit}
	o.pods = o.pods[:min(len(o.pods), MaxPods)]
	for i := range o.pods {
		p := &t.Kinds[o.pods[i].Kind]
		smaller := p.GPU.Total() < q.GPU.Total() || p.GPU.Total() == q.GPU.Total() && p.CPU < q.CPU
		stays := m.MaxGPUs > 0 && p.GPU.Count() > m.MaxGPUs
		if (smaller || anySize) && !stays && int(m.moves[o.pods[i].Kind]) <= limit {
			o.movable |= 1 << i
		}
	}
	switch {
	case q.GPU.IsZero():
		return o.addForCPUAndMemory(departures{node: at})
	case q.GPU.Milli == 0:
		c, ok := o.fromWholeGPUs()
		if !ok {
			return c, false
		}
		return o.addForCPUAndMemory(c)
	}
	for g := range n.Shape.GPUs {
		if !n.first(g) && n.Free[g] >= int32(q.GPU.Milli) {
			continue
		}
		c, fits := o.fromOneGPU(g)
		if !fits {
			continue
		}
		if c, fits = o.addForCPUAndMemory(c); fits && (!ok || c.compare(best) < 0) {
			best, ok = c, true
		}
	}
	return best, ok
}

// fromOneGPU finds the fewest moves that leave enough of one GPU.
func (o *candidates) fromOneGPU(g int) (best departures, ok bool) {
	lacking := int64(o.q.GPU.Milli) - int64(o.n.Free[g])
	if lacking <= 0 {
		return departures{node: o.node, gpu: g, waste: -lacking}, true
	}
	var on [MaxOnGPU]int
	count, sum := 0, int64(0)
	for set := o.movable; set != 0 && count < MaxOnGPU; set &= set - 1 {
		i := bits.TrailingZeros64(set)
		if held := &o.pods[i].Grant; held.GPUs == 1<<g && held.Milli < topology.FullGPU {
			on[count] = i
			count++
			sum += int64(held.Milli)
		}
	}
	if sum < lacking {
		return best, false
	}
	for subset := 1; subset < 1<<count; subset++ {
		c := departures{node: o.node, gpu: g, waste: -lacking}
		for j := range count {
			if subset>>j&1 == 1 {
				c.leave |= 1 << on[j]
				c.moves += o.cost(on[j])
				c.waste += int64(o.pods[on[j]].Grant.Milli)
			}
		}
		if c.waste >= 0 && c.moves <= o.limit && (!ok || c.compare(best) < 0) {
			best, ok = c, true
		}
	}
	return best, ok
}

// fromWholeGPUs finds the GPUs that can be emptied by the fewest moves, and of such sets the smallest. A pod that holds several GPUs empties all of them or none.
func (o *candidates) fromWholeGPUs() (c departures, ok bool) {
	c.node = o.node
	parts := o.emptied()
	// ways[n] is the cheapest set of parts with n GPUs in all.
	type way struct {
		moves int
		leave uint64
		ok    bool
	}
	var ways [2*topology.MaxGPUs + 1]way
	ways[0].ok = true
	need := int(o.q.GPU.Whole)
	for i := range parts {
		p := &parts[i]
		if p.gpus == 0 || p.moves > o.limit {
			continue
		}
		for n := need - 1; n >= 0; n-- { // whoever has enough takes no more
			w := &ways[n]
			if sum := w.moves + p.moves; w.ok && sum <= o.limit && (!ways[n+p.gpus].ok || sum < ways[n+p.gpus].moves) {
				ways[n+p.gpus] = way{sum, w.leave | p.leave, true}
			}
		}
	}
	for n := need; n < len(ways); n++ {
		if w := &ways[n]; w.ok && (!ok || w.moves < c.moves) {
			c.moves, c.leave, c.waste, ok = w.moves, w.leave, int64(n-need)*topology.FullGPU, true
		}
	}
	return c, ok
}

// part is GPUs that are free once some pods have left, all of them together.
type part struct {
	gpus  int
	moves int
	leave uint64
}

// emptied lists what of the node's GPUs could be free. A GPU that is free already, or is shared by parts of pods, is a part by itself; those of a pod with several are one. What
// pods that stay hold is left out.
func (o *candidates) emptied() (parts [topology.MaxGPUs]part) {
	var free [topology.MaxGPUs]int32
	var first [topology.MaxGPUs]int // the lowest GPU of the part
	copy(free[:], o.n.Free[:o.n.Shape.GPUs])
	for g := range first {
		first[g] = g
	}
	for set := o.movable; set != 0; set &= set - 1 {
		i := bits.TrailingZeros64(set)
		held := &o.pods[i].Grant
		if held.GPUs == 0 {
			continue
		}
		at := first[bits.TrailingZeros16(held.GPUs)]
		for gpus := held.GPUs; gpus != 0; gpus &= gpus - 1 {
			g := bits.TrailingZeros16(gpus)
			free[g] += int32(held.Milli)
			o.join(&parts, &first, at, first[g])
		}
		parts[at].leave |= 1 << i
		parts[at].moves += o.cost(i)
	}
	for g := range o.n.Shape.GPUs {
		p := &parts[first[g]]
		if p.gpus++; free[g] != topology.FullGPU {
			p.gpus = -topology.MaxGPUs // somebody stays on one of them
		}
	}
	for g := range parts {
		parts[g].gpus = max(parts[g].gpus, 0)
	}
	return parts
}

// join makes one part of two.
func (o *candidates) join(parts *[topology.MaxGPUs]part, first *[topology.MaxGPUs]int, to, from int) {
	if to == from {
		return
	}
	parts[to].leave |= parts[from].leave
	parts[to].moves += parts[from].moves
	parts[from] = part{}
	for g := range first {
		if first[g] == from {
			first[g] = to
		}
	}
}

// addForCPUAndMemory lets more pods leave where CPU or memory is lacking: the one with the least that is enough, else the one with the most.
func (o *candidates) addForCPUAndMemory(c departures) (departures, bool) {
	cpu, memory := o.q.CPU-o.n.CPU, o.q.Memory-o.n.Memory
	for set := c.leave; set != 0; set &= set - 1 {
		p := o.kind(bits.TrailingZeros64(set))
		cpu, memory = cpu-p.CPU, memory-p.Memory
	}
	for cpu > 0 || memory > 0 {
		next := -1
		var enough bool
		for set := o.movable &^ c.leave; set != 0; set &= set - 1 {
			i := bits.TrailingZeros64(set)
			p := o.kind(i)
			covers := p.CPU >= cpu && p.Memory >= memory
			if c.moves+o.cost(i) > o.limit || cpu > 0 && p.CPU == 0 || next >= 0 && enough && !covers {
				continue
			}
			if next < 0 || covers && !enough || o.prefer(i, next, covers, cpu > 0) {
				next, enough = i, covers
			}
		}
		if next < 0 {
			return c, false
		}
		p := o.kind(next)
		cpu, memory = cpu-p.CPU, memory-p.Memory
		c.leave |= 1 << next
		c.moves += o.cost(next)
	}
	return c, true
}

// prefer reports whether pod i is to leave rather than j, where both are enough or neither is.
func (o *candidates) prefer(i, j int, enough, cpu bool) bool {
	p, q := o.kind(i), o.kind(j)
	a, b := p.Memory, q.Memory
	if cpu {
		a, b = p.CPU, q.CPU
	}
	if enough {
		return cmp.Or(cmp.Compare(o.cost(i), o.cost(j)), cmp.Compare(p.GPU.Total(), q.GPU.Total()), cmp.Compare(a, b)) < 0
	}
	return a*int64(o.cost(j)) > b*int64(o.cost(i))
}

func (o *candidates) kind(i int) *Request { return &o.kinds[o.pods[i].Kind] }

// cost is how many moves it takes that pod i leaves.
func (o *candidates) cost(i int) int { return int(o.moves[o.pods[i].Kind]) }
