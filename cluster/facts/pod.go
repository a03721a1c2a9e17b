package facts

import (
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/topology"
)

// UID identifies a pod over its whole life; a pod that is created anew under the same name has another.
type UID string

// Pod is a pod as a door saw it.
type Pod struct {
	UID             UID
	Namespace, Name string
	// Created is in nanoseconds since the Unix epoch (or since the simulation began).
	Created  int64
	Priority int32
	// Ours: spec.schedulerName names this scheduler.
	Ours bool
	// Profile is the scheduling profile that spec.schedulerName chooses, as spec.Scheduling.ProfileNumbers has it; 0: none.
	Profile uint8
	// Node is where the pod is bound; empty while it is not.
	Node string
	// Finished: phase Succeeded or Failed; it holds nothing any more.
	Finished bool
	// Deleting: it has a deletion timestamp; an unbound one needs no place.
	Deleting bool
	// Gated: it has scheduling gates and is not to be placed yet.
	Gated bool
	// Mirror: the pod stands for one that the kubelet has from a file.
	Mirror bool
	// Labels, sorted by key. The slice may be shared between pods.
	Labels []Label
	// Owner is the pod's controller, if it is one that default spreading looks at.
	Owner Owner
	// Started is when its node took it up (status.startTime), in nanoseconds as Created; 0 when that is not known.
	Started int64
	// Scheduled is when it was bound to its node (the condition PodScheduled), in nanoseconds as Created; 0 when that is not known.
	Scheduled int64
	// NeverPreempts: preemptionPolicy Never.
	NeverPreempts bool
	// Nominated is the node that a preemption has promised to the pod (status.nominatedNodeName).
	Nominated string
	// Requirements is all that its placement depends on. It must not be nil.
	Requirements *Requirements
	// Grant is the GPUs that a bound pod was given, zero where no record says.
	Grant topology.Grant
	// Reported is the condition that the pod carries already.
	Reported Condition
	// Unit is the name of the pod's PodGroup, in its namespace; empty: the pod is a unit of its own. Subgroup is the part of it.
	Unit, Subgroup string
	// Claims are its volumes that stand for claims, in the order of its spec; they never change. A pod that neither is ours nor has a node has none.
	Claims []ClaimUse
	// ResourceClaims are the entries of its spec.resourceClaims that ask for anything, with the names of the claims that were made from templates. Only our own pods
	// have them.
	ResourceClaims []ResourceClaimUse
	// Extended is what containers ask for of extended resources, for which DeviceClasses may stand. Only our own pods have it.
	Extended []ExtendedContainer
	// Controller is the pod's controller, of whatever kind. Only pods that wait need have it.
	Controller Controller
	// Placeholder is the UID of the placeholder whose room a bound pod has, as its Binding says; empty: none.
	Placeholder UID
	// Deadline in nanoseconds is the most that the pod may run (spec.activeDeadlineSeconds); 0: for ever.
	Deadline int64
	// Consent is whether it may be moved.
	Consent spec.Consent
}

// FinishedMember is all that is told of a member of a unit that has finished. That a pod has finished is final. Finished pods that no unit counts are
// told of as removed.
func FinishedMember(uid UID, unit UnitName, name string) Pod {
	return Pod{UID: uid, Namespace: unit.Namespace, Name: name, Unit: unit.Name, Ours: true, Finished: true, Requirements: &Requirements{}}
}

// UnitName names the pod's UnitName.
func (f *Pod) UnitName() UnitName {
	if f.Unit == "" {
		return UnitName{}
	}
	return UnitName{f.Namespace, f.Unit}
}

// Condition is a PodScheduled=False condition; the zero value is none.
type Condition struct{ Reason, Message string }

// Owner is the controller of a pod, as far as default spreading looks at it.
type Owner struct {
	Kind WorkloadKind // zero: none that matters
	Name string
}
