package parse

import (
	"cmp"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"hilbert.dev/hilbert/cluster/facts"
)

// podAffinity fills in which pods the pod wants near or far. malformed names the first field that cannot be read, and why. The list of terms
// that it is in is then left out whole, as upstream does for a pod that is there already; one that waits is refused.
//
// matchLabelKeys and mismatchLabelKeys are not looked at: the API server has merged them into the selector when the pod was created.
func (c constraints) podAffinity(pod *corev1.Pod, r *facts.Requirements) (malformed string) {
	if pod.Spec.Affinity == nil {
		return ""
	}
	const required, preferred = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"
	note := func(field, trouble string) {
		if trouble != "" {
			malformed = cmp.Or(malformed, "spec.affinity."+field+trouble)
		}
	}
	if a := pod.Spec.Affinity.PodAffinity; a != nil {
		terms, trouble := c.affinityTerms(pod, a.RequiredDuringSchedulingIgnoredDuringExecution)
		note("podAffinity."+required, trouble)
		r.Affinity = terms
		weighted, trouble := c.weightedTerms(pod, a.PreferredDuringSchedulingIgnoredDuringExecution, 1)
		note("podAffinity."+preferred, trouble)
		r.PreferredPods = weighted
	}
	if a := pod.Spec.Affinity.PodAntiAffinity; a != nil {
		terms, trouble := c.affinityTerms(pod, a.RequiredDuringSchedulingIgnoredDuringExecution)
		note("podAntiAffinity."+required, trouble)
		r.AntiAffinity = terms
		weighted, trouble := c.weightedTerms(pod, a.PreferredDuringSchedulingIgnoredDuringExecution, -1)
		note("podAntiAffinity."+preferred, trouble)
		r.PreferredPods = append(r.PreferredPods, weighted...)
	}
	return malformed
}

func (c constraints) affinityTerms(pod *corev1.Pod, terms []corev1.PodAffinityTerm) (out []facts.AffinityTerm, trouble string) {
	for i := range terms {
		term, trouble := c.affinityTerm(pod, &terms[i])
		if trouble != "" {
			return nil, "[" + strconv.Itoa(i) + "]" + trouble
		}
		out = append(out, term)
	}
	return out, ""
}

// weightedTerms parses preferences; sign turns those for into those against. One without weight must be readable and does nothing.
func (c constraints) weightedTerms(pod *corev1.Pod, terms []corev1.WeightedPodAffinityTerm, sign int32) (out []facts.WeightedAffinityTerm, trouble string) {
	for i := range terms {
		term, trouble := c.affinityTerm(pod, &terms[i].PodAffinityTerm)
		if trouble != "" {
			return nil, "[" + strconv.Itoa(i) + "].podAffinityTerm" + trouble
		}
		if terms[i].Weight != 0 {
			out = append(out, facts.WeightedAffinityTerm{Weight: sign * terms[i].Weight, AffinityTerm: term})
		}
	}
	return out, ""
}

// affinityTerm parses one term. One that names no namespaces in any way is about the pod's own.
func (c constraints) affinityTerm(pod *corev1.Pod, term *corev1.PodAffinityTerm) (out facts.AffinityTerm, trouble string) {
	selected, err := c.selector(term.LabelSelector)
	if err != nil {
		return out, ".labelSelector: " + err.Error()
	}
	out = facts.AffinityTerm{
		TopologyKey: c.strings.get(term.TopologyKey),
		Pods:        facts.PodSelector{Namespaces: c.sortedSet(term.Namespaces), Labels: selected},
	}
	if term.NamespaceSelector != nil {
		namespaces, err := c.selector(term.NamespaceSelector)
		if err != nil {
			return out, ".namespaceSelector: " + err.Error()
		}
		out.Pods.NamespaceSelector = &namespaces
	} else if len(term.Namespaces) == 0 {
		out.Pods.Namespaces = []string{c.strings.get(pod.Namespace)}
	}
	return out, ""
}

// spread fills in the spread constraints of the pod's spec. malformed names the first field that cannot be read, and why.
func (c constraints) spread(pod *corev1.Pod, r *facts.Requirements) (malformed string) {
	for i := range pod.Spec.TopologySpreadConstraints {
		wanted := &pod.Spec.TopologySpreadConstraints[i]
		if wanted.WhenUnsatisfiable != corev1.DoNotSchedule && wanted.WhenUnsatisfiable != corev1.ScheduleAnyway {
			continue // the pod is refused as unsupported
		}
		selected, err := c.selector(wanted.LabelSelector)
		if err != nil {
			malformed = cmp.Or(malformed, "spec.topologySpreadConstraints["+strconv.Itoa(i)+"].labelSelector: "+err.Error())
			continue
		}
		out := facts.SpreadConstraint{
			TopologyKey:   c.strings.get(wanted.TopologyKey),
			MaxSkew:       wanted.MaxSkew,
			Hard:          wanted.WhenUnsatisfiable == corev1.DoNotSchedule,
			MinDomains:    1,
			Pods:          facts.PodSelector{Namespaces: []string{c.strings.get(pod.Namespace)}, Labels: c.withOwnLabels(selected, wanted.MatchLabelKeys, pod.Labels)},
			HonorAffinity: wanted.NodeAffinityPolicy == nil || *wanted.NodeAffinityPolicy == corev1.NodeInclusionPolicyHonor,
			HonorTaints:   wanted.NodeTaintsPolicy != nil && *wanted.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor,
		}
		if wanted.MinDomains != nil {
			out.MinDomains = max(*wanted.MinDomains, 1)
		}
		r.Spread = append(r.Spread, out)
	}
	return malformed
}

// withOwnLabels asks besides for the pod's own value of each of the labels. What matches nothing goes on doing so.
func (c constraints) withOwnLabels(s facts.LabelSelector, keys []string, own map[string]string) facts.LabelSelector {
	if s.Nothing {
		return s
	}
	s.Expressions = slices.Clone(s.Expressions)
	for _, key := range keys {
		if value, ok := own[key]; ok {
			s.Expressions = append(s.Expressions, facts.Requirement{Key: c.strings.get(key), Operator: facts.In, Values: []string{c.strings.get(value)}})
		}
	}
	s.Expressions = facts.Canonical(s.Expressions)
	return s
}
