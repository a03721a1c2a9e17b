package diff

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// affinity draws constraints of a pod with the labels.
func (g *generator) affinity(own map[string]string) *corev1.Affinity {
	a := &corev1.Affinity{NodeAffinity: g.nodeAffinity()}
	if required, preferred := g.terms(g.taste.podAffinity, own), g.weighted(own); required != nil || preferred != nil {
		a.PodAffinity = &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: required, PreferredDuringSchedulingIgnoredDuringExecution: preferred,
		}
	}
	if required, preferred := g.terms(g.taste.podAntiAffinity, own), g.weighted(own); required != nil || preferred != nil {
		a.PodAntiAffinity = &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: required, PreferredDuringSchedulingIgnoredDuringExecution: preferred,
		}
	}
	if a.NodeAffinity == nil && a.PodAffinity == nil && a.PodAntiAffinity == nil && g.chance(0.9) {
		return nil
	}
	return a
}

func (g *generator) nodeAffinity() *corev1.NodeAffinity {
	a := &corev1.NodeAffinity{}
	if g.chance(g.taste.affinity) {
		a.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{}
		for range 1 + g.IntN(3) {
			terms := &a.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
			*terms = append(*terms, g.nodeTerm(true))
		}
	}
	if g.chance(g.taste.prefer) {
		for range 1 + g.IntN(3) {
			a.PreferredDuringSchedulingIgnoredDuringExecution = append(a.PreferredDuringSchedulingIgnoredDuringExecution,
				corev1.PreferredSchedulingTerm{Weight: pick[int32](g, 1, 2, 10, 33, 100), Preference: g.nodeTerm(g.chance(0.03))})
		}
	}
	if a.RequiredDuringSchedulingIgnoredDuringExecution == nil && a.PreferredDuringSchedulingIgnoredDuringExecution == nil && g.chance(0.95) {
		return nil
	}
	return a
}

// nodeTerm draws a term; malformed allows a number that is none, which the API server admits.
func (g *generator) nodeTerm(malformed bool) corev1.NodeSelectorTerm {
	var t corev1.NodeSelectorTerm
	if g.chance(0.05) {
		return t
	}
	for range min(g.IntN(3), 1+g.IntN(2)) {
		t.MatchExpressions = append(t.MatchExpressions, g.nodeExpression(malformed))
	}
	if len(t.MatchExpressions) == 0 || g.chance(0.1) {
		name := "elsewhere"
		if len(g.nodes) > 0 && g.chance(0.9) {
			name = pick(g, g.nodes...).Name
		}
		t.MatchFields = []corev1.NodeSelectorRequirement{{
			Key: "metadata.name", Operator: pick(g, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn), Values: []string{name},
		}}
	}
	return t
}

func (g *generator) nodeExpression(malformed bool) corev1.NodeSelectorRequirement {
	p := pick(g, nodeLabels...)
	e := corev1.NodeSelectorRequirement{Key: p.key}
	e.Operator = pick(g, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn, corev1.NodeSelectorOpExists,
		corev1.NodeSelectorOpDoesNotExist, corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt)
	switch e.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		e.Values = g.values(p)
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		e.Key = pick(g, "cores", "cores", "cores", "rack", p.key)
		e.Values = []string{pick(g, "5", "4", "0", "08", "12", "9223372036854775807")}
		if malformed && g.chance(0.15) {
			e.Values = []string{pick(g, "abc", "", "1.5", "9223372036854775808")}
		}
	}
	return e
}

// values draws one to three values of a pool.
func (g *generator) values(p pool) []string {
	var out []string
	for range 1 + g.IntN(3) {
		if v := pick(g, p.values...); v != absent && !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	if out == nil {
		out = []string{p.values[0]}
	}
	return out
}

// labelSelector draws a selector over labels of the pools: nil, empty, or with one to three expressions.
func (g *generator) labelSelector(pools []pool) *metav1.LabelSelector {
	switch g.IntN(20) {
	case 0:
		return nil
	case 1, 2:
		return &metav1.LabelSelector{}
	}
	s := &metav1.LabelSelector{}
	if g.chance(0.7) {
		p := pools[min(g.IntN(len(pools)), g.IntN(len(pools)))]
		s.MatchLabels = map[string]string{p.key: g.values(p)[0]}
	}
	for s.MatchLabels == nil && s.MatchExpressions == nil || g.chance(0.15) {
		s.MatchExpressions = append(s.MatchExpressions, g.labelExpression(pick(g, pools...)))
	}
	return s
}

func (g *generator) labelExpression(p pool) metav1.LabelSelectorRequirement {
	e := metav1.LabelSelectorRequirement{Key: p.key}
	e.Operator = pick(g, metav1.LabelSelectorOpIn, metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist)
	if e.Operator == metav1.LabelSelectorOpIn || e.Operator == metav1.LabelSelectorOpNotIn {
		e.Values = g.values(p)
	}
	return e
}

// terms draws required terms with the probability, nil otherwise.
func (g *generator) terms(probability float64, own map[string]string) []corev1.PodAffinityTerm {
	var out []corev1.PodAffinityTerm
	for g.chance(probability) && len(out) < 3 {
		out = append(out, g.podTerm(own))
		probability /= 2
	}
	return out
}

func (g *generator) weighted(own map[string]string) []corev1.WeightedPodAffinityTerm {
	var out []corev1.WeightedPodAffinityTerm
	for g.chance(g.taste.podPrefer) && len(out) < 3 {
		out = append(out, corev1.WeightedPodAffinityTerm{Weight: pick[int32](g, 1, 2, 10, 50, 100), PodAffinityTerm: g.podTerm(own)})
	}
	return out
}

func (g *generator) podTerm(own map[string]string) corev1.PodAffinityTerm {
	t := corev1.PodAffinityTerm{TopologyKey: pick(g, topologyKeys...), LabelSelector: g.labelSelector(podLabels)}
	if g.chance(g.taste.namespaced) {
		switch g.IntN(4) {
		case 0:
			t.Namespaces = []string{g.namespace()}
		case 1:
			t.NamespaceSelector = g.labelSelector(namespaceLabels)
		case 2:
			t.Namespaces = []string{g.namespace(), "elsewhere"}
			t.NamespaceSelector = g.labelSelector(namespaceLabels)
		case 3:
			t.NamespaceSelector = &metav1.LabelSelector{}
		}
	}
	if g.chance(0.1) && !selects(t.LabelSelector, "hash") {
		// A scheduler that merges these keys too does it once too often.
		if g.chance(0.5) {
			t.MatchLabelKeys = []string{"hash", "nowhere"}
			merge(t.LabelSelector, metav1.LabelSelectorOpIn, "hash", own)
		} else {
			t.MismatchLabelKeys = []string{"hash"}
			merge(t.LabelSelector, metav1.LabelSelectorOpNotIn, "hash", own)
		}
	}
	return t
}

// selects reports whether a selector says anything about a label; nil does, as it says no to all.
func selects(s *metav1.LabelSelector, key string) bool {
	if s == nil {
		return true
	}
	_, ok := s.MatchLabels[key]
	return ok || slices.ContainsFunc(s.MatchExpressions, func(e metav1.LabelSelectorRequirement) bool { return e.Key == key })
}

// merge asks for the pod's own value of a label, or for others, as the API server does when the pod is created.
func merge(s *metav1.LabelSelector, operator metav1.LabelSelectorOperator, key string, own map[string]string) {
	if value, ok := own[key]; ok {
		s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{Key: key, Operator: operator, Values: []string{value}})
	}
}

// spread draws constraints. Two for one key differ in what happens when they cannot be met, as the API server demands.
func (g *generator) spread(pod *corev1.Pod) {
	seen := make(map[string]bool)
	for g.chance(g.taste.spread) && len(seen) < 4 {
		c := corev1.TopologySpreadConstraint{
			TopologyKey:       pick(g, topologyKeys...),
			MaxSkew:           pick[int32](g, 1, 1, 2, 5),
			WhenUnsatisfiable: pick(g, corev1.DoNotSchedule, corev1.ScheduleAnyway),
			LabelSelector:     g.labelSelector(podLabels),
		}
		if id := c.TopologyKey + string(c.WhenUnsatisfiable); seen[id] {
			return
		} else {
			seen[id] = true
		}
		if c.WhenUnsatisfiable == corev1.DoNotSchedule && g.chance(0.3) {
			c.MinDomains = new(pick[int32](g, 1, 2, 3, 5))
		}
		if g.chance(0.3) {
			c.NodeAffinityPolicy = new(pick(g, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore))
		}
		if g.chance(0.5) {
			c.NodeTaintsPolicy = new(pick(g, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore))
		}
		if g.chance(0.2) && !selects(c.LabelSelector, "hash") {
			c.MatchLabelKeys = pick(g, []string{"hash"}, []string{"hash", "nowhere"}, []string{"nowhere"})
			if c.MatchLabelKeys[0] == "hash" && g.chance(0.5) { // an older API server leaves it to the scheduler
				merge(c.LabelSelector, metav1.LabelSelectorOpIn, "hash", pod.Labels)
			}
		}
		pod.Spec.TopologySpreadConstraints = append(pod.Spec.TopologySpreadConstraints, c)
	}
}

// selecting returns a map that selects pods, or nil.
func (g *generator) selecting() map[string]string {
	switch g.IntN(10) {
	case 0:
		return nil
	case 1:
		return map[string]string{}
	}
	out := make(map[string]string)
	for i := range podLabels {
		if len(out) == 0 || g.chance(0.3) {
			maps.Copy(out, g.labels(podLabels[i:i+1]))
		}
	}
	return out
}
