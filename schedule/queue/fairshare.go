package queue

import (
	"math/bits"
	"slices"
	"strings"

	"hilbert.dev/hilbert/cluster/quota"
	"hilbert.dev/hilbert/resource"
)

// FairShares works out what each queue would get, by kind, if the cluster's capacity were divided again: each queue first gets its guarantee, then
// a part of the rest in proportion to its weight, and never more than its limit or its demand. The root has the sum.
//
// Example: of 10 GPUs, queue a (guarantee 4, weight 1) and queue b (no guarantee, weight 2) both want all. a gets 4 + 2, b gets 4. If b wants
// only 3, a gets 7.
//
// demand is what the pods of a queue hold and wait for, without those of the queues below it; a queue that is not named demands nothing. Each
// resource is dealt out for itself. Where the guarantees are more than there is, each gets its proportion.
func FairShares(root *quota.Queue, capacity []int64, demand map[*quota.Queue][]int64) map[*quota.Queue][]int64 {
	shares := make(map[*quota.Queue][]int64)
	root.Each(func(q *quota.Queue) { shares[q] = make([]int64, len(capacity)) })
	for k, amount := range capacity {
		d := distribution{kind: resource.Kind(k), demand: demand, wants: make(map[*quota.Queue]int64, len(shares)), shares: shares}
		d.sumWants(root)
		d.distribute(root, min(amount, d.wants[root]))
	}
	return shares
}

// distribution deals out one resource.
type distribution struct {
	kind   resource.Kind
	demand map[*quota.Queue][]int64
	wants  map[*quota.Queue]int64 // those of the queues below included, as far as limits allow
	shares map[*quota.Queue][]int64
}

// own is what a queue's own pods want.
func (d *distribution) own(q *quota.Queue) int64 {
	if column := d.demand[q]; int(d.kind) < len(column) {
		return max(column[d.kind], 0)
	}
	return 0
}

// sumWants sums what a queue and those below it want.
func (d *distribution) sumWants(q *quota.Queue) {
	sum := d.own(q)
	for _, child := range q.Children() {
		d.sumWants(child)
		sum = resource.Add(sum, d.wants[child])
	}
	d.wants[q] = min(sum, q.Limit(d.kind))
}

// distribute divides an amount between a queue's own pods and its children.
func (d *distribution) distribute(q *quota.Queue, amount int64) {
	d.shares[q][d.kind] = amount
	if len(q.Children()) == 0 {
		return
	}
	claims := make([]claim, 0, len(q.Children())+1)
	claims = append(claims, claim{want: d.own(q), weight: 1})
	for _, child := range q.Children() {
		want := d.wants[child]
		claims = append(claims, claim{
			queue: child, name: child.Name, want: want, guaranteed: min(child.Guaranteed(d.kind), want), weight: child.Weight(),
		})
	}
	slices.SortFunc(claims, func(a, b claim) int { return strings.Compare(a.name, b.name) })
	divide(claims, amount)
	for i := range claims {
		if c := &claims[i]; c.queue != nil {
			d.distribute(c.queue, c.share)
		}
	}
}

// claim is what one of those that share asks for, and gets.
type claim struct {
	queue                           *quota.Queue // nil: the own pods of the queue that is shared
	name                            string
	want, guaranteed, weight, share int64
}

// divide fills all claims like vessels with one level: each gets its guarantee and then the level times its weight, until it has what it
// wants; the level is as high as the amount allows. What is left over by rounding goes to the first by name.
func divide(claims []claim, amount int64) {
	var guaranteed int64
	for i := range claims {
		guaranteed = resource.Add(guaranteed, claims[i].guaranteed)
	}
	if guaranteed > amount {
		divideGuarantees(claims, amount, guaranteed)
		return
	}
	var most int64
	for i := range claims {
		most = max(most, claims[i].want)
	}
	low, high := int64(0), most // the highest level that the amount reaches is between them
	for low < high {
		middle := high - (high-low)/2
		if filled(claims, middle) <= amount {
			low = middle
		} else {
			high = middle - 1
		}
	}
	rest := amount - filled(claims, low)
	for i := range claims {
		c := &claims[i]
		c.share = c.at(low)
		more := min(rest, c.at(resource.Add(low, 1))-c.share)
		c.share += more
		rest -= more
	}
}

// at is what a claim gets at a level.
func (c *claim) at(level int64) int64 {
	high, low := bits.Mul64(uint64(level), uint64(c.weight))
	if room := c.want - c.guaranteed; high > 0 || low > uint64(room) {
		return c.want
	}
	return c.guaranteed + int64(low)
}

// filled is what all get at a level.
func filled(claims []claim, level int64) (sum int64) {
	for i := range claims {
		sum = resource.Add(sum, claims[i].at(level))
	}
	return sum
}

// divideGuarantees gives each its proportion of what is guaranteed; the sum is the amount exactly.
func divideGuarantees(claims []claim, amount, guaranteed int64) {
	var before, given int64
	for i := range claims {
		before = resource.Add(before, claims[i].guaranteed)
		high, low := bits.Mul64(uint64(before), uint64(amount))
		upTo, _ := bits.Div64(high, low, uint64(guaranteed)) // amount < guaranteed, so that high < guaranteed
		claims[i].share = int64(upTo) - given
		given = int64(upTo)
	}
}
