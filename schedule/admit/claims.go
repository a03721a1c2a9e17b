package admit

import (
	"cmp"
	"maps"
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/quota"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/queue"
)

// Claims reserve what is left of queues' limits for gangs that have waited long, as Reservations do with nodes: others are admitted only
// while there is room for both. A queue has at most one claim, that of the gang of highest rank.
//
// Example: queue ml may use 8 GPUs and 6 of them are in use. Gang train waits for 4 and claims the limit. A pod that asks for one GPU is not
// admitted, though two are left: 6 + 1 + 4 is more than 8. When 3 GPUs are released, train is admitted.
type Claims struct {
	store   *cluster.Store
	byQueue map[*quota.Queue]claim
}

type claim struct {
	unit facts.UnitName
	ask  resource.List
}

// Of returns the gang that claims the limits of a queue, and how much; zero: none does.
func (c *Claims) Of(q *quota.Queue) (unit facts.UnitName, ask []resource.Quantity) {
	held := c.byQueue[q]
	for _, a := range held.ask {
		ask = append(ask, resource.Quantity{Name: c.store.KindName(a.Kind), Amount: a.Value})
	}
	return held.unit, ask
}

// Len counts the queues that have a claim.
func (c *Claims) Len() int { return len(c.byQueue) }

// Restore claims the limits of a queue for a gang that waits, as a dump says.
func (c *Claims) Restore(q *quota.Queue, u *queue.Unit) {
	c.byQueue[q] = claim{u.Gang.UnitName, needed(u)}
}

// Suspend forgets all claims until resume is called.
func (c *Claims) Suspend() (resume func()) {
	held := c.byQueue
	c.byQueue = nil
	return func() { c.byQueue = held }
}

// admit reports whether the limits of a unit's queues leave room for a request beside what others have claimed.
func (c *Claims) admit(u *queue.Unit, ask resource.List) (Shortfall, bool) {
	for q := u.Queue(); q != nil; q = q.Parent() {
		held, claimed := c.byQueue[q]
		if !claimed || u.Gang != nil && held.unit == u.Gang.UnitName {
			continue
		}
		for _, a := range ask {
			reserved := held.ask.Get(a.Kind)
			if limit := q.Limit(a.Kind); resource.Add(a.Value, reserved) > limit-q.Used(a.Kind) {
				short := quota.Shortfall{Queue: q, Kind: a.Kind, Asked: a.Value, Used: q.Used(a.Kind), Limit: limit}
				return Shortfall{Shortfall: short, ReservedFor: held.unit, Reserved: reserved}, false
			}
		}
	}
	return Shortfall{}, true
}

// addClaims claims the limits of a unit's queues, where no unit of higher rank has.
func addClaims(to map[*quota.Queue]claim, u *queue.Unit) {
	ask := needed(u)
	for q := u.Queue(); q != nil; q = q.Parent() {
		if _, taken := to[q]; taken {
			continue
		}
		for _, a := range ask {
			if q.Limit(a.Kind) != quota.Unlimited {
				to[q] = claim{u.Gang.UnitName, ask}
				break
			}
		}
	}
}

// replace replaces the claims. Units that waited for a claim that is over are tried again.
func (c *Claims) replace(claims map[*quota.Queue]claim) {
	for _, q := range c.queues() {
		if now, still := claims[q]; !still || now.unit != c.byQueue[q].unit {
			c.store.Quota().Ease(q)
		}
	}
	c.byQueue = claims
}

// drop ends a unit's claims.
func (c *Claims) drop(name facts.UnitName) {
	for _, q := range c.queues() {
		if c.byQueue[q].unit == name {
			delete(c.byQueue, q)
			c.store.Quota().Ease(q)
		}
	}
}

// queues lists the queues that have a claim, in an order that every run has.
func (c *Claims) queues() []*quota.Queue {
	return slices.SortedFunc(maps.Keys(c.byQueue), func(a, b *quota.Queue) int { return cmp.Compare(a.Name, b.Name) })
}
