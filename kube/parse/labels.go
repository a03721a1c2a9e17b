package parse

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/cluster/facts"
)

// labelSets gives equal sets of labels the same slice: a workload's pods carry the same ones.
type labelSets struct {
	strings *interner
	known   map[string][]facts.Label
	key     specKey
}

// of lists a set of labels, sorted by key; nil for none. The result is shared: do not change it.
func (s *labelSets) of(set map[string]string) []facts.Label {
	if len(set) == 0 {
		return nil
	}
	s.key.reset()
	s.key.stringMap(set)
	if known, ok := s.known[string(s.key.bytes)]; ok {
		return known
	}
	out := make([]facts.Label, 0, len(set))
	for key, value := range set {
		out = append(out, facts.Label{Key: s.strings.get(key), Value: s.strings.get(value)})
	}
	slices.SortFunc(out, func(a, b facts.Label) int { return cmp.Compare(a.Key, b.Key) })
	if s.known == nil || len(s.known) >= maxMemo {
		s.known = make(map[string][]facts.Label)
	}
	s.known[string(s.key.bytes)] = out
	return out
}

// labelOperators gives each label selector operator our name.
var labelOperators = map[metav1.LabelSelectorOperator]facts.Operator{
	metav1.LabelSelectorOpIn:           facts.In,
	metav1.LabelSelectorOpNotIn:        facts.NotIn,
	metav1.LabelSelectorOpExists:       facts.Exists,
	metav1.LabelSelectorOpDoesNotExist: facts.DoesNotExist,
}

// selector parses a label selector: none matches nothing, an empty one everything. Equal meanings that are spelled in another order
// give equal results. It fails where upstream cannot read the selector.
func (c constraints) selector(s *metav1.LabelSelector) (facts.LabelSelector, error) {
	if s == nil {
		return facts.LabelSelector{Nothing: true}, nil
	}
	if _, err := metav1.LabelSelectorAsSelector(s); err != nil {
		return facts.LabelSelector{Nothing: true}, err
	}
	out := c.equalities(s.MatchLabels)
	for i := range s.MatchExpressions {
		e := &s.MatchExpressions[i]
		out = append(out, facts.Requirement{Key: c.strings.get(e.Key), Operator: labelOperators[e.Operator], Values: c.sortedSet(e.Values)})
	}
	return facts.LabelSelector{Expressions: facts.Canonical(out)}, nil
}

// equalities asks for each of the labels, in the order of their keys.
func (c constraints) equalities(set map[string]string) []facts.Requirement {
	var out []facts.Requirement
	for key, value := range set {
		out = append(out, facts.Requirement{Key: c.strings.get(key), Operator: facts.In, Values: []string{c.strings.get(value)}})
	}
	return facts.Canonical(out)
}

// sortedSet copies a list as a sorted set; nil for none.
func (c constraints) sortedSet(list []string) []string {
	var out []string
	for _, s := range list {
		out = append(out, c.strings.get(s))
	}
	slices.Sort(out)
	return slices.Compact(out)
}
