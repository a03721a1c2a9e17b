package cluster

import (
	"fmt"
	"slices"
	"strings"

	"hilbert.dev/hilbert/topology"
)

// Names of the vocabulary's small sets, by value; Kubernetes' own where it has one. They stand in dumps and in explanations.
var (
	effectNames = []string{
		NoSchedule: "NoSchedule", PreferNoSchedule: "PreferNoSchedule", NoExecute: "NoExecute",
	}
	operatorNames = []string{
		In: "In", NotIn: "NotIn", Exists: "Exists", DoesNotExist: "DoesNotExist", Gt: "Gt", Lt: "Lt",
	}
	workloadNames = []string{
		Service: "Service", ReplicationController: "ReplicationController", ReplicaSet: "ReplicaSet", StatefulSet: "StatefulSet",
	}
	phaseNames = []string{
		Pending: "pending", Assumed: "assumed", Bound: "bound", Finished: "finished",
	}
	sortNames = []string{
		SortDefault: "Default", PriorityFIFO: "PriorityFIFO", FIFO: "FIFO", Fair: "Fair", FairHistory: "FairHistory", SmallestFirst: "SmallestFirst",
	}
	bindingNames = []string{
		topology.Unbound: "unbound", topology.Bound: "bound", topology.Exclusive: "exclusive",
	}
	rulerNames = []string{
		topology.RulerNone: "none", topology.RulerAgent: "agent", topology.RulerKubelet: "kubelet",
	}
	headroomNames = []string{
		HeadroomUnsaid: "unsaid", HeadroomOpen: "open", HeadroomClosed: "closed", HeadroomStale: "stale", HeadroomMalformed: "malformed",
	}
)

// String names the effect; the zero value, which stands for every effect, is empty.
func (e TaintEffect) String() string { return nameOf(effectNames, e) }

// String names the operator.
func (o Operator) String() string { return nameOf(operatorNames, o) }

// String names the kind; the zero value is empty.
func (k WorkloadKind) String() string { return nameOf(workloadNames, k) }

// String names the policy.
func (p SortPolicy) String() string { return nameOf(sortNames, p) }

// String renders the expression: "zone In [a b]", "gpu Exists".
func (r *Requirement) String() string {
	if len(r.Values) == 0 {
		return r.Key + " " + r.Operator.String()
	}
	return fmt.Sprintf("%s %s [%s]", r.Key, r.Operator, strings.Join(r.Values, " "))
}

func nameOf[T ~uint8](names []string, value T) string {
	if int(value) < len(names) {
		return names[value]
	}
	return fmt.Sprintf("unknown(%d)", value)
}

// named is the value that has a name.
func named[T ~uint8](names []string, name string) (T, error) {
	if i := slices.Index(names, name); i >= 0 {
		return T(i), nil
	}
	known := slices.DeleteFunc(slices.Clone(names), func(s string) bool { return s == "" })
	return 0, fmt.Errorf("%q is not known; known are %s", name, strings.Join(known, ", "))
}

// RulerName names who rules a node's CPUs: agent, kubelet or none.
func RulerName(r topology.Ruler) string { return nameOf(rulerNames, rulerText(r)) }
