package queue

import (
	"cmp"
	"math"
	"strings"
	"time"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/quota"
	"hilbert.dev/hilbert/resource"
)

// policy is in which order a queue serves what is directly under it.
type policy struct {
	name string
	// units is the order in a leaf; where shares are compared, in each namespace of it.
	units func(a, b *Unit) bool
	// nodes is the order of child queues, or of the namespaces of a leaf.
	nodes func(a, b *node) bool
	// byShare: nodes compares what they hold. byHistory: and what they held.
	byShare, byHistory bool
	// bySize: units compares what part of the cluster units ask for.
	bySize bool
}

// policies by facts.SortPolicy.
var policies = [...]policy{
	facts.PriorityFIFO:  {name: "priority-fifo", units: Before, nodes: byFirst(Before)},
	facts.FIFO:          {name: "fifo", units: older, nodes: byFirst(older)},
	facts.Fair:          {name: "fair", units: Before, nodes: lowerShare, byShare: true},
	facts.FairHistory:   {name: "fair-history", units: Before, nodes: lowerShare, byShare: true, byHistory: true},
	facts.SmallestFirst: {name: "smallest-first", units: smaller, nodes: byFirst(smaller), bySize: true},
}

// Before is the order of units by priority, then those that are Early, then by QoS level, then age, then arrival. Of one priority, online units come before reclaimed ones: those are
// the work that gives way.
func Before(a, b *Unit) bool {
	if a.Priority != b.Priority {
		return a.Priority > b.Priority
	}
	if a.Early != b.Early {
		return a.Early
	}
	if online := a.online(); online != b.online() {
		return online
	}
	return older(a, b)
}

// older orders units by age, then arrival; those that are Early come first.
func older(a, b *Unit) bool {
	if a.Early != b.Early {
		return a.Early
	}
	return cmp.Or(cmp.Compare(a.Created, b.Created), cmp.Compare(a.sequence, b.sequence)) < 0
}

// smaller orders units by how much of the cluster they ask for; those that are Early come first.
func smaller(a, b *Unit) bool {
	if a.Early != b.Early {
		return a.Early
	}
	if a.Shape.size != b.Shape.size {
		return a.Shape.size < b.Shape.size
	}
	return Before(a, b)
}

// byFirst orders nodes by the units that they would give out.
func byFirst(units func(a, b *Unit) bool) func(a, b *node) bool {
	return func(a, b *node) bool { return units(a.first, b.first) }
}

// lowerShare orders nodes by their shares, then by name.
func lowerShare(a, b *node) bool {
	if a.share != b.share {
		return a.share.less(b.share)
	}
	return strings.Compare(a.name, b.name) < 0
}

// share is how well a queue, or a namespace, is served. The one with less comes first.
type share struct {
	// aboveGuarantee: it has its guarantee.
	aboveGuarantee bool
	// value is, below the guarantee, how much of it is used; else how much of the cluster is used beyond it, by weight.
	value float64
}

func (s share) less(other share) bool {
	if s.aboveGuarantee != other.aboveGuarantee {
		return other.aboveGuarantee
	}
	return s.value < other.value
}

// account is what a share is worked out of; quota.Queue is one.
type account interface {
	Used(resource.Kind) int64
	Guaranteed(resource.Kind) int64
	Weight() int64
}

// shareOf works out a share. Below the guarantee the resource counts that is used most in proportion to the guarantee; above it the
// dominant resource counts: the one with the largest use beyond the guarantee as a part of the cluster's capacity. (Dominant resource
// fairness: Ghodsi et al., NSDI 2011; here of what is borrowed only.) A resource that the cluster does not have counts nothing.
func shareOf(a account, capacity []int64) share {
	used, dominant := -1.0, math.Inf(-1)
	for k, total := range capacity {
		kind := resource.Kind(k)
		has, guaranteed := a.Used(kind), a.Guaranteed(kind)
		if guaranteed > 0 {
			used = max(used, float64(has)/float64(guaranteed))
		}
		if total > 0 && (has != 0 || guaranteed != 0) {
			dominant = max(dominant, float64(has-guaranteed)/float64(total))
		}
	}
	if used >= 0 && used < 1 {
		return share{value: used}
	}
	if math.IsInf(dominant, -1) {
		dominant = 0
	}
	return share{aboveGuarantee: true, value: dominant / float64(a.Weight())}
}

// tenantAccount is a namespace among those of a leaf: nothing is guaranteed to it, and all weigh the same.
type tenantAccount struct{ *quota.Tenant }

func (tenantAccount) Guaranteed(resource.Kind) int64 { return 0 }
func (tenantAccount) Weight() int64                  { return 1 }

// ownAccount is what the namespaces hold that feed an inner queue itself, beside its child queues.
type ownAccount struct{ queue *quota.Queue }

func (a ownAccount) Used(kind resource.Kind) (sum int64) {
	for _, t := range a.queue.Tenants() {
		sum = resource.Add(sum, t.Used(kind))
	}
	return sum
}
func (ownAccount) Guaranteed(resource.Kind) int64 { return 0 }
func (ownAccount) Weight() int64                  { return 1 }

// usageHistory is what a node has held beyond its guarantee, averaged over the past with weights that halve every half-life.
//
// For a share u(s), which is a step function of time, the average is h(t) = ∫ u(s)·λ·e^(−λ(t−s)) ds with λ = ln 2 / half-life. While u is
// constant, h moves towards it: h(t) = u + (h(t₀) − u)·2^(−(t−t₀)/half-life). So one number and the time it is of are enough, and a node
// that nothing happens to need not be visited: exponential decay is the case in which forward decay (Cormode, Shkapenyuk, Srivastava and
// Xu, ICDE 2009) needs no common landmark that could overflow.
//
// Nodes are compared by u + h. u does not decay, so two of them can change places though nothing happens. Therefore h is taken as of an
// epoch that is the same for all children of a queue, and an epoch lasts half-life/epochs; until it ends the order is fixed.
type usageHistory struct {
	average float64   // h, as of at
	at      time.Time // zero: no time is known yet
	current float64   // u since then
	counted float64   // h as of the epoch
}

// epochs is into how many parts a half-life is divided. What a node has held is wrong by less than 1-2^(-1/epochs), that is 0.3 %.
const epochs = 256

// settle brings the average up to a time.
func (h *usageHistory) settle(now time.Time, halfLife int64) {
	if !h.at.IsZero() && halfLife > 0 {
		h.average = h.current + (h.average-h.current)*math.Exp2(-float64(now.Sub(h.at))/float64(halfLife))
	}
	h.at = now
}
