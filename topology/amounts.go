package topology

import "math/bits"

// Amounts are how much there is of a resource near each NUMA node, by index, and near none of them.
type Amounts struct {
	NUMA [MaxNUMANodes]int64 `json:"numa"`
	Far  int64               `json:"far,omitempty"`
}

// Sum is all of it.
func (a *Amounts) Sum() int64 {
	sum := a.Far
	for _, n := range a.NUMA {
		sum += n
	}
	return sum
}

// Within is what there is in a set of NUMA nodes, and near none. What is overdrawn counts as nothing.
func (a *Amounts) Within(set uint8) int64 {
	sum := max(a.Far, 0)
	for ; set != 0; set &= set - 1 {
		sum += max(a.NUMA[bits.TrailingZeros8(set)], 0)
	}
	return sum
}

// Add adds to it.
func (a *Amounts) Add(b *Amounts) { a.move(b, 1) }

// Subtract takes from it.
func (a *Amounts) Subtract(b *Amounts) { a.move(b, -1) }

func (a *Amounts) move(b *Amounts, sign int64) {
	a.Far += sign * b.Far
	for z := range a.NUMA {
		a.NUMA[z] += sign * b.NUMA[z]
	}
}

// NUMANodes is the set of NUMA nodes that have any.
func (a *Amounts) NUMANodes() (set uint8) {
	for z, n := range a.NUMA {
		if n > 0 {
			set |= 1 << z
		}
	}
	return set
}

// give chooses where an amount comes from that the NUMA nodes of a set hold: from none of them if that is enough; else from as few as possible, first of those
// beside what the pod has, then the ones that have the least left, then the lowest. Several share it as evenly as their room allows.
func (a *Amounts) give(amount int64, among, beside uint8) (g Amounts) {
	if max(a.Far, 0) >= amount {
		g.Far = amount
		return g
	}
	among &= a.NUMANodes()
	best, found := uint8(0), false
	for set := among; set != 0; set = (set - 1) & among {
		if a.Within(set) >= amount && (!found || a.closer(set, best, beside)) {
			best, found = set, true
		}
	}
	near := min(amount, a.Within(best)-max(a.Far, 0))
	g.NUMA = SpreadEvenly(best, near, func(z int) int64 { return max(a.NUMA[z], 0) })
	g.Far = amount - near
	return g
}

// closer reports whether one set of NUMA nodes is to be preferred to another that holds the same.
func (a *Amounts) closer(x, y, beside uint8) bool {
	if m, n := bits.OnesCount8(x&^beside), bits.OnesCount8(y&^beside); m != n {
		return m < n
	}
	if m, n := bits.OnesCount8(x), bits.OnesCount8(y); m != n {
		return m < n
	}
	if m, n := a.Within(x), a.Within(y); m != n {
		return m < n
	}
	return x < y
}
