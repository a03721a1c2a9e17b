package admit

import (
	"fmt"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/quota"
	"hilbert.dev/hilbert/schedule/place/explain"
)

// Shortfall is the limit that blocks a unit.
type Shortfall struct {
	quota.Shortfall
	// ReservedFor is the gang that has claimed what is left of the limit, and Reserved how much; zero where the limit itself leaves no room.
	ReservedFor facts.UnitName
	Reserved    int64
	// Granted: the request has room, but not what the node that was chosen would give for it.
	Granted bool
}

// NeverFits reports whether no waiting helps: the request alone is more than the limit.
func (s *Shortfall) NeverFits() bool {
	return s.ReservedFor.IsZero() && s.Asked > s.Limit && !s.Granted
}

// Condition is the condition of a unit that waits because of the shortfall.
func (g *Gate) Condition(short *Shortfall) facts.Condition {
	name := g.store.KindName(short.Kind)
	asked, limit := explain.AmountText(name, short.Asked), explain.AmountText(name, short.Limit)
	switch {
	case short.NeverFits():
		return facts.Condition{
			Reason:  spec.ReasonExceedsQuota,
			Message: fmt.Sprintf("it asks for %s, but the limit of queue %s is %s: ask for less, or raise the limit", asked, short.Queue.Name, limit),
		}
	case short.Granted:
		return facts.Condition{
			Reason: spec.ReasonWaitingForQuota,
			Message: fmt.Sprintf("the best node would give it %s, whole NUMA nodes, cores or parts of GPUs counted in; queue %s has %s of %s in use",
				asked, short.Queue.Name, explain.AmountText(name, short.Used), limit),
		}
	case !short.ReservedFor.IsZero():
		return facts.Condition{
			Reason: spec.ReasonWaitingForQuota,
			Message: fmt.Sprintf("it asks for %s; what is left of queue %s is reserved for %s, which has waited longer",
				asked, short.Queue.Name, short.ReservedFor),
		}
	}
	return facts.Condition{
		Reason:  spec.ReasonWaitingForQuota,
		Message: fmt.Sprintf("it asks for %s; queue %s has %s of %s in use", asked, short.Queue.Name, explain.AmountText(name, short.Used), limit),
	}
}
