package facts

import (
	"slices"
	"strconv"
)

// FieldName is the only node field that a Term may name.
const FieldName = "metadata.name"

// Matches reports whether every expression holds on the node. A term without expressions matches nothing, as in Kubernetes.
func (t *Term) Matches(n *Node) bool {
	if len(t.Expressions) == 0 && len(t.Fields) == 0 {
		return false
	}
	for i := range t.Expressions {
		value, ok := n.Labels[t.Expressions[i].Key]
		if !t.Expressions[i].holds(value, ok) {
			return false
		}
	}
	for i := range t.Fields {
		if t.Fields[i].Key != FieldName || !t.Fields[i].holds(n.Name, true) {
			return false
		}
	}
	return true
}

// holds evaluates the expression on a label's value; ok says whether the label is there.
func (r *Requirement) holds(value string, ok bool) bool {
	switch r.Operator {
	case In:
		return ok && slices.Contains(r.Values, value)
	case NotIn:
		return !ok || !slices.Contains(r.Values, value)
	case Exists:
		return ok
	case DoesNotExist:
		return !ok
	case Gt, Lt:
		return ok && r.compares(value)
	}
	return false
}

// compares evaluates Gt and Lt: both sides are base-10 integers, else nothing matches.
func (r *Requirement) compares(value string) bool {
	if len(r.Values) != 1 {
		return false
	}
	left, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return false
	}
	right, err := strconv.ParseInt(r.Values[0], 10, 64)
	if err != nil {
		return false
	}
	if r.Operator == Gt {
		return left > right
	}
	return left < right
}

// Tolerates reports whether the toleration covers the taint.
func (t *Toleration) Tolerates(taint *Taint) bool {
	if t.Effect != 0 && t.Effect != taint.Effect {
		return false
	}
	if t.Key != "" && t.Key != taint.Key {
		return false
	}
	if t.Exists {
		return true
	}
	return t.Value == taint.Value
}

// Selects reports whether the node has the labels that the node selector asks for, and one of the required terms matches it.
func (r *Requirements) Selects(n *Node) bool {
	for _, want := range r.NodeSelector {
		if value, ok := n.Labels[want.Key]; !ok || value != want.Value {
			return false
		}
	}
	if r.Required == nil {
		return true
	}
	for i := range r.Required {
		if r.Required[i].Matches(n) {
			return true
		}
	}
	return false
}
