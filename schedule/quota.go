package schedule

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/quota"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/place/explain"
	"hilbert.dev/hilbert/schedule/queue"
)

// claim keeps what frees of a queue's limit for a unit that has waited long, as a reservation does with nodes: others are let in only as
// far as there is room for both.
type claim struct {
	unit facts.UnitName
	ask  resource.List
}

// shortfall is the limit that stands in a unit's way, and for whom it is kept, if that is why.
type shortfall struct {
	quota.Shortfall
	kept facts.UnitName
}

// hopeless reports whether no waiting helps: the request alone is more than the limit.
func (s *shortfall) hopeless() bool { return s.kept.IsZero() && s.Asked > s.Limit }

// admits reports whether the limits of a unit's queues leave room for a request.
func (s *Scheduler) admits(u *queue.Unit, ask resource.List) (shortfall, bool) {
	short, ok := u.Queue().Admits(ask)
	if !ok || len(s.claims) == 0 {
		return shortfall{Shortfall: short}, ok
	}
	for q := u.Queue(); q != nil; q = q.Parent() {
		c, kept := s.claims[q]
		if !kept || u.Gang != nil && c.unit == u.Gang.UnitName {
			continue
		}
		for _, a := range ask {
			if limit := q.Limit(a.Kind); resource.Add(a.Value, c.ask.Get(a.Kind)) > limit-q.Used(a.Kind) {
				return shortfall{quota.Shortfall{Queue: q, Kind: a.Kind, Asked: a.Value, Used: q.Used(a.Kind), Limit: limit}, c.unit}, false
			}
		}
	}
	return shortfall{}, true
}

// KeptLimit says for whom what is left of a queue's limit is kept, and how much; none: nobody.
func (s *Scheduler) KeptLimit(name string) (unit facts.UnitName, kept []resource.Quantity) {
	c := s.claims[s.store.Quota().Queue(name)]
	for _, a := range c.ask {
		kept = append(kept, resource.Quantity{Name: s.store.KindName(a.Kind), Amount: a.Value})
	}
	return c.unit, kept
}

// claim keeps the limits of a unit's queues for it, where nobody of higher rank has claimed them.
func (s *Scheduler) claim(u *queue.Unit, claims map[*quota.Queue]claim) {
	ask := chargeOf(u.Members()[:u.Need()])
	for q := u.Queue(); q != nil; q = q.Parent() {
		if _, taken := claims[q]; taken {
			continue
		}
		for _, a := range ask {
			if q.Limit(a.Kind) != quota.Unlimited {
				claims[q] = claim{u.Gang.UnitName, ask}
				break
			}
		}
	}
}

// setClaims replaces the claims; who waited for one that is over looks again.
func (s *Scheduler) setClaims(claims map[*quota.Queue]claim) {
	for _, q := range s.claimed() {
		if now, still := claims[q]; !still || now.unit != s.claims[q].unit {
			s.store.Quota().Ease(q)
		}
	}
	s.claims = claims
}

// claimed lists the queues that somebody claims the limits of, in an order that every run has.
func (s *Scheduler) claimed() []*quota.Queue {
	return slices.SortedFunc(maps.Keys(s.claims), func(a, b *quota.Queue) int { return cmp.Compare(a.Name, b.Name) })
}

// unclaim ends a unit's claims.
func (s *Scheduler) unclaim(name facts.UnitName) {
	for _, q := range s.claimed() {
		if s.claims[q].unit == name {
			delete(s.claims, q)
			s.store.Quota().Ease(q)
		}
	}
}

func (s *Scheduler) quotaCondition(short *shortfall) facts.Condition {
	name := s.store.KindName(short.Kind)
	asked, limit := explain.AmountText(name, short.Asked), explain.AmountText(name, short.Limit)
	switch {
	case short.hopeless():
		return facts.Condition{
			Reason:  spec.ReasonExceedsQuota,
			Message: fmt.Sprintf("it asks for %s, but queue %s never has more than %s: ask for less, or raise the queue's limit", asked, short.Queue.Name, limit),
		}
	case !short.kept.IsZero():
		return facts.Condition{
			Reason:  spec.ReasonWaitingForQuota,
			Message: fmt.Sprintf("it asks for %s; what is left of queue %s is kept for %s, which has waited longer", asked, short.Queue.Name, short.kept),
		}
	}
	return facts.Condition{
		Reason:  spec.ReasonWaitingForQuota,
		Message: fmt.Sprintf("it asks for %s; queue %s has %s of %s in use", asked, short.Queue.Name, explain.AmountText(name, short.Used), limit),
	}
}
