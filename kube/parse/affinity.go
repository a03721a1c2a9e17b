package parse

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"hilbert.dev/hilbert/cluster/facts"
)

// constraints translates what a pod demands of nodes and of other pods: selectors, affinities, tolerations, spread. It remembers nothing, because
// equal demands are translated once: the memo of Requirements sees to that.
type constraints struct{ strings *interner }

// nodeSelector lists the labels that the pod asks for, sorted by key.
func (c constraints) nodeSelector(selector map[string]string) []facts.Label {
	if len(selector) == 0 {
		return nil
	}
	out := make([]facts.Label, 0, len(selector))
	for _, key := range slices.Sorted(maps.Keys(selector)) {
		out = append(out, facts.Label{Key: c.strings.get(key), Value: c.strings.get(selector[key])})
	}
	return out
}

// nodeAffinity fills in the required and the preferred terms.
func (c constraints) nodeAffinity(affinity *corev1.Affinity, r *facts.Requirements) {
	if affinity == nil || affinity.NodeAffinity == nil {
		return
	}
	if required := affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
		r.Required = []facts.Term{} // not nil: without a term that can match, nothing does
		for i := range required.NodeSelectorTerms {
			if term, ok := c.term(&required.NodeSelectorTerms[i]); ok {
				r.Required = append(r.Required, term)
			}
		}
	}
	for i := range affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
		preferred := &affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution[i]
		if preferred.Weight == 0 {
			continue
		}
		if term, ok := c.term(&preferred.Preference); ok {
			r.Preferred = append(r.Preferred, facts.WeightedTerm{Weight: preferred.Weight, Term: term})
		}
	}
}

// term parses one term; ok is false when it can match no node: it is empty, or one of its expressions is malformed.
func (c constraints) term(term *corev1.NodeSelectorTerm) (out facts.Term, ok bool) {
	if len(term.MatchExpressions) == 0 && len(term.MatchFields) == 0 {
		return out, false
	}
	for i := range term.MatchExpressions {
		e := &term.MatchExpressions[i]
		operator, known := operators[e.Operator]
		if !known {
			return out, false
		}
		if _, err := labels.NewRequirement(e.Key, operator.selection, e.Values); err != nil {
			return out, false
		}
		out.Expressions = append(out.Expressions, c.requirement(e, operator.ours))
	}
	for i := range term.MatchFields {
		e := &term.MatchFields[i]
		if len(e.Values) != 1 || (e.Operator != corev1.NodeSelectorOpIn && e.Operator != corev1.NodeSelectorOpNotIn) {
			return out, false
		}
		out.Fields = append(out.Fields, c.requirement(e, operators[e.Operator].ours))
	}
	return out, true
}

func (c constraints) requirement(e *corev1.NodeSelectorRequirement, operator facts.Operator) facts.Requirement {
	out := facts.Requirement{Key: c.strings.get(e.Key), Operator: operator}
	for _, value := range e.Values {
		out.Values = append(out.Values, c.strings.get(value))
	}
	return out
}

// operators gives each node selector operator our name, and the one under which apimachinery validates it.
var operators = map[corev1.NodeSelectorOperator]struct {
	ours      facts.Operator
	selection selection.Operator
}{
	corev1.NodeSelectorOpIn:           {facts.In, selection.In},
	corev1.NodeSelectorOpNotIn:        {facts.NotIn, selection.NotIn},
	corev1.NodeSelectorOpExists:       {facts.Exists, selection.Exists},
	corev1.NodeSelectorOpDoesNotExist: {facts.DoesNotExist, selection.DoesNotExist},
	corev1.NodeSelectorOpGt:           {facts.Gt, selection.GreaterThan},
	corev1.NodeSelectorOpLt:           {facts.Lt, selection.LessThan},
}

// tolerations parses those that mean something to us; unsupported names the rest.
func (c constraints) tolerations(tolerations []corev1.Toleration) []facts.Toleration {
	var out []facts.Toleration
	for i := range tolerations {
		t := &tolerations[i]
		if !toleranceKnown(t) {
			continue
		}
		out = append(out, facts.Toleration{
			Key:    c.strings.get(t.Key),
			Exists: t.Operator == corev1.TolerationOpExists,
			Value:  c.strings.get(t.Value),
			Effect: taintEffect(t.Effect),
		})
	}
	return out
}

// toleranceKnown reports whether we know what the toleration's operator and effect mean.
func toleranceKnown(t *corev1.Toleration) bool {
	operator := cmp.Or(t.Operator, corev1.TolerationOpEqual)
	return (operator == corev1.TolerationOpEqual || operator == corev1.TolerationOpExists) && (t.Effect == "" || taintEffect(t.Effect) != 0)
}
