package rules

import (
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/census"
)

// fitsSpread holds a pod's DoNotSchedule constraints: with the pod, a domain must not have maxSkew more of the counted pods than the
// domain with the fewest. (Upstream's PodTopologySpread, filtering.)
func fitsSpread(s *cluster.State, slot cluster.Slot, c *cluster.Class) bool {
	if c.Constraints == nil {
		return true
	}
	for i := range c.Constraints.Hard {
		if spread := &c.Constraints.Hard[i]; SkewWith(s, slot, spread) > int64(spread.MaxSkew) {
			return false
		}
	}
	return true
}

// MissingKey is the skew of a node that does not have the topology key.
const MissingKey = int64(1) << 40

// skew is how far above the smallest domain the node's domain would be with the pod.
func SkewWith(s *cluster.State, slot cluster.Slot, spread *census.Spread) int64 {
	counts := s.Counts().Census(spread.Census)
	domain := counts.Domain(slot)
	if domain == census.NoDomain {
		return MissingKey
	}
	least := int64(counts.Least())
	if counts.Domains() < spread.MinDomains {
		least = 0
	}
	return int64(counts.Count(domain)) + int64(spread.Self) - least
}

func whySpread(s *cluster.State, slot cluster.Slot, c *cluster.Class, add func(string)) {
	for i := range c.Constraints.Hard {
		switch over := SkewWith(s, slot, &c.Constraints.Hard[i]); {
		case over == MissingKey:
			add("node(s) didn't match pod topology spread constraints (missing required label)")
			return
		case over > int64(c.Constraints.Hard[i].MaxSkew):
			add("node(s) didn't match pod topology spread constraints")
			return
		}
	}
}

// fitsPodAffinity holds required affinity and anti-affinity, the pod's own and that of pods that are there already. (Upstream's
// InterPodAffinity, filtering.)
func fitsPodAffinity(s *cluster.State, slot cluster.Slot, c *cluster.Class) bool {
	return c.Constraints == nil || AffinityMet(s, slot, c.Constraints) &&
		NoneNear(s, slot, c.Constraints.AntiAffinity) && NoneNear(s, slot, c.Constraints.ExistingAntiAffinity)
}

// AffinityMet reports whether the node's domains have the pods that the required affinity asks for. The first pod of a group that asks for its
// own kind may go to any node that has the keys.
func AffinityMet(s *cluster.State, slot cluster.Slot, c *census.Constraints) bool {
	present, anywhere := true, false
	for _, id := range c.Affinity {
		counts := s.Counts().Census(id)
		domain := counts.Domain(slot)
		if domain == census.NoDomain {
			return false
		}
		present = present && counts.Count(domain) > 0
		anywhere = anywhere || counts.Sum() > 0
	}
	return present || c.AffinitySelf && !anywhere
}

// NoneNear reports whether the node's domains have no pod of the censuses.
func NoneNear(s *cluster.State, slot cluster.Slot, censuses []census.ID) bool {
	for _, id := range censuses {
		if counts := s.Counts().Census(id); counts.Count(counts.Domain(slot)) > 0 {
			return false
		}
	}
	return true
}

func whyPodAffinity(s *cluster.State, slot cluster.Slot, c *cluster.Class, add func(string)) {
	switch {
	case !AffinityMet(s, slot, c.Constraints):
		add("node(s) didn't match pod affinity rules")
	case !NoneNear(s, slot, c.Constraints.AntiAffinity):
		add("node(s) didn't match pod anti-affinity rules")
	default:
		add("node(s) didn't satisfy existing pods anti-affinity rules")
	}
}
