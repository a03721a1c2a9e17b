package reschedule

import (
	"cmp"
	"time"
)

// Cost is what it costs others to make room for a growth. Costs are compared field by field: nobody's disruption budget is passed over to save work, and nobody is left
// without a place to disturb fewer.
//
// Example: one pod can be moved, which loses an hour of its work; or a pod of lower priority can be evicted, whose replacement fits on another node and which loses nothing.
// The eviction is cheaper. If the replacement fitted nowhere, the move would be.
type Cost struct {
	// Protected are pods that their disruption budgets would spare.
	Protected int
	// Unplaced are pods that nobody replaces, that are in a gang, or whose replacements fit nowhere.
	Unplaced int
	// Lost is work that begins anew, in thousandths of a GPU, as moves are charged for it.
	Lost float64
	// Pods are all that are disturbed.
	Pods int
}

// Compare is less than 0 if a costs less than b.
func (a Cost) Compare(b Cost) int {
	return cmp.Or(cmp.Compare(a.Protected, b.Protected), cmp.Compare(a.Unplaced, b.Unplaced), cmp.Compare(a.Lost, b.Lost), cmp.Compare(a.Pods, b.Pods))
}

// MovingCost is what moves cost: each has its target.
func MovingCost(v *View, pods []int, p *Params, now time.Time) (c Cost) {
	for _, i := range pods {
		c.Lost += p.lost(&v.Pods[i], now)
		c.Pods++
	}
	return c
}

// EvictingCost is what evictions cost. unplaced: the replacement fits nowhere, as a rehearsal found.
func EvictingCost(v *View, pods []int, unplaced func(pod int) bool, p *Params, now time.Time) (c Cost) {
	c = MovingCost(v, pods, p, now)
	for _, i := range pods {
		pod := &v.Pods[i]
		if pod.Protected != "" {
			c.Protected++
		}
		if pod.Workload == "" || pod.Unit != "" || unplaced(i) {
			c.Unplaced++
		}
	}
	return c
}
