package facts

import (
	"fmt"
	"strings"
)

// Names of the vocabulary's small sets, by value; Kubernetes' own where it has one. They stand in dumps and in explanations.
var (
	taintEffects = []string{
		NoSchedule: "NoSchedule", PreferNoSchedule: "PreferNoSchedule", NoExecute: "NoExecute",
	}
	operators = []string{
		In: "In", NotIn: "NotIn", Exists: "Exists", DoesNotExist: "DoesNotExist", Gt: "Gt", Lt: "Lt",
	}
	workloadKinds = []string{
		Service: "Service", ReplicationController: "ReplicationController", ReplicaSet: "ReplicaSet", StatefulSet: "StatefulSet",
	}
	sortPolicies = []string{
		SortDefault: "Default", PriorityFIFO: "PriorityFIFO", FIFO: "FIFO", Fair: "Fair", FairHistory: "FairHistory", SmallestFirst: "SmallestFirst",
	}
	headroomStates = []string{
		HeadroomUnsaid: "unsaid", HeadroomOpen: "open", HeadroomClosed: "closed", HeadroomStale: "stale", HeadroomMalformed: "malformed",
	}
)

// String names the effect; the zero value, which stands for every effect, is empty.
func (e TaintEffect) String() string { return nameFrom(taintEffects, e) }

// String names the operator.
func (o Operator) String() string { return nameFrom(operators, o) }

// String names the kind; the zero value is empty.
func (k WorkloadKind) String() string { return nameFrom(workloadKinds, k) }

// String names the policy.
func (p SortPolicy) String() string { return nameFrom(sortPolicies, p) }

// String renders the expression: "zone In [a b]", "gpu Exists".
func (r *Requirement) String() string {
	if len(r.Values) == 0 {
		return r.Key + " " + r.Operator.String()
	}
	return fmt.Sprintf("%s %s [%s]", r.Key, r.Operator, strings.Join(r.Values, " "))
}

// String renders the selector: "app In [web], tier Exists", "everything", "nothing".
func (s *LabelSelector) String() string {
	switch {
	case s.Nothing:
		return "nothing"
	case len(s.Expressions) == 0:
		return "everything"
	}
	parts := make([]string, 0, len(s.Expressions))
	for i := range s.Expressions {
		parts = append(parts, s.Expressions[i].String())
	}
	return strings.Join(parts, ", ")
}

// String names the state.
func (h HeadroomState) String() string { return nameFrom(headroomStates, h) }

func nameFrom[T ~uint8](names []string, value T) string {
	if int(value) < len(names) {
		return names[value]
	}
	return fmt.Sprintf("unknown(%d)", value)
}
