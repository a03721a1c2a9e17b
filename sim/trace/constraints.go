package trace

import (
	"maps"

	"hilbert.dev/hilbert/cluster/facts"
)

// LabelKind is the pod label that names the kind of a synthetic pod's class; labelClass names the class.
const (
	LabelKind  = "hilbert.dev/kind"
	labelClass = "hilbert.dev/class"
)

// zonelessOneIn nodes has no zone, where there are constraints between pods.
const zonelessOneIn = 8

// tiedKinds are the kinds with constraints between pods. A term is about the pods of a kind in the pod's namespace; every other round of
// the kinds is in a namespace of its own, so that equal labels there mean nothing here.
func tiedKinds() []kind {
	type (
		requirements = facts.Requirements
		peers        = func(string) facts.PodSelector
	)
	term := func(key string, pods facts.PodSelector) []facts.AffinityTerm {
		return []facts.AffinityTerm{{TopologyKey: key, Pods: pods}}
	}
	return []kind{
		{name: "spread", weight: 150, offline: true, memory: 2, tie: func(r *requirements, of peers) {
			r.Spread = []facts.SpreadConstraint{spread(LabelZone, 1, true, of("spread"))}
		}},
		// Five in a zone: with three zones where four are wanted, the emptiest counts as empty for good.
		{name: "wide", weight: 100, memory: 2, tie: func(r *requirements, of peers) {
			r.Spread = []facts.SpreadConstraint{spread(LabelZone, 5, true, of("wide")), spread(facts.HostnameKey, 1, true, of("wide"))}
			r.Spread[0].MinDomains, r.Spread[1].HonorTaints = zones+1, true
		}},
		{name: "apart", weight: 150, offline: true, memory: 2, tie: func(r *requirements, of peers) {
			r.AntiAffinity = term(facts.HostnameKey, of("apart"))
		}},
		// Batch jobs have no term of their own: only the quiet ones' keeps them away.
		{name: "quiet", weight: 100, offline: true, memory: 2, tie: func(r *requirements, of peers) {
			r.AntiAffinity = term(facts.HostnameKey, of("batch"))
		}},
		{name: "together", weight: 100, offline: true, memory: 2, tie: func(r *requirements, of peers) {
			r.Affinity = term(LabelZone, of("together"))
		}},
		{name: "follow", weight: 50, memory: 1, tie: func(r *requirements, of peers) {
			r.Affinity = term(facts.HostnameKey, of("apart"))
		}},
		{name: "soft", weight: 100, memory: 2, tie: func(r *requirements, of peers) {
			r.Spread = []facts.SpreadConstraint{spread(LabelZone, 1, false, of("soft")), spread(facts.HostnameKey, 1, false, of("soft"))}
			r.PreferredPods = []facts.WeightedAffinityTerm{
				{Weight: 10, AffinityTerm: term(LabelZone, of("together"))[0]}, {Weight: -20, AffinityTerm: term(facts.HostnameKey, of("web"))[0]},
			}
		}},
		{name: replicated, weight: 100, memory: 2},
	}
}

// replicated is the kind whose pods belong to a ReplicaSet, one for each class, and have no constraint of their own.
const replicated = "replica"

// spread has Kubernetes' defaults where it does not say otherwise.
func spread(key string, skew int32, hard bool, pods facts.PodSelector) facts.SpreadConstraint {
	return facts.SpreadConstraint{TopologyKey: key, MaxSkew: skew, Hard: hard, MinDomains: 1, Pods: pods, HonorAffinity: true}
}

// namespace of the pods of a class.
func (c *class) namespace() string {
	if c.round%2 == 1 {
		return "other"
	}
	return "default"
}

func selects(key, value string) facts.LabelSelector {
	return facts.LabelSelector{Expressions: []facts.Requirement{{Key: key, Operator: facts.In, Values: []string{value}}}}
}

// tie gives pods labels and owners, their classes constraints between pods, and nodes the labels that these look at. It draws nothing.
func (w *Workload) tie(classes []class) {
	w.Identities = make(map[string]Identity, len(classes))
	for i := range classes {
		c := &classes[i]
		identity := Identity{
			Namespace: c.namespace(),
			Labels:    []facts.Label{{Key: labelClass, Value: c.name}, {Key: LabelKind, Value: c.kind.name}},
		}
		if c.tie != nil {
			c.tie(c.requirements, func(kind string) facts.PodSelector {
				return facts.PodSelector{Namespaces: []string{identity.Namespace}, Labels: selects(LabelKind, kind)}
			})
		}
		if c.kind.name == replicated {
			identity.Owner = facts.Owner{Kind: facts.ReplicaSet, Name: c.name}
			w.Controllers = append(w.Controllers, &facts.Workload{
				Kind: facts.ReplicaSet, Namespace: identity.Namespace, Name: c.name, Pods: selects(labelClass, c.name),
			})
		}
		w.Identities[c.name] = identity
	}
	for i, n := range w.Nodes {
		n.Labels = maps.Clone(n.Labels)
		n.Labels[facts.HostnameKey] = n.Name
		if i%zonelessOneIn == zonelessOneIn-1 {
			delete(n.Labels, LabelZone)
		}
	}
}
