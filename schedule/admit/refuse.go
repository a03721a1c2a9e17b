package admit

import (
	"strings"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
)

// Refuse returns the condition of a pod that must not be placed whatever the nodes look like; refused is false when it may be placed.
//
// It depends on the pod's class, its PodGroup and its place in the tree of queues, never on what is in use, and on nodes only as far as none has a
// resource that the pod asks for. Example: a pod names PodGroup
// "train", which does not exist. It is refused with reason WaitingForPodGroup, and checked again when the PodGroup appears.
func Refuse(pod *cluster.Pod) (condition facts.Condition, refused bool) {
	class := pod.Class
	switch {
	case class.Impossible != "":
		return facts.Condition{Reason: spec.ReasonImpossibleRequest, Message: class.Impossible}, true
	case len(class.Unsupported) > 0:
		return facts.Condition{
			Reason: spec.ReasonUnsupportedConstraint,
			Message: "Hilbert does not honour this yet and places no pod in spite of it: " + strings.Join(class.Unsupported, ", ") +
				". Remove it, or set spec.schedulerName to a scheduler that does.",
		}, true
	case class.VolumesWait != "":
		return facts.Condition{Reason: spec.ReasonUnschedulable, Message: class.VolumesWait}, true
	case class.ClaimsWait != "":
		return facts.Condition{Reason: spec.ReasonUnschedulable, Message: class.ClaimsWait}, true
	case class.HeldBack != "":
		return facts.Condition{Reason: spec.ReasonTooManyDifferentPods, Message: class.HeldBack}, true
	case class.Absent != "":
		return facts.Condition{Reason: spec.ReasonUnschedulable, Message: class.Absent + ". The pod is placed when one does; or ask for something else."}, true
	case pod.Unit != nil && pod.Unit.Facts == nil:
		return facts.Condition{
			Reason:  spec.ReasonWaitingForPodGroup,
			Message: "there is no PodGroup " + pod.Unit.String() + ", which the pod names. Create it, or correct the name.",
		}, true
	case pod.Unit != nil && !pod.Unit.Ready():
		return facts.Condition{Reason: spec.ReasonInvalidPodGroup, Message: "PodGroup " + pod.Unit.String() + ": " + pod.Unit.Facts.Invalid}, true
	case pod.Queue().Refuses:
		q := pod.Queue()
		return facts.Condition{Reason: q.Problem.Reason, Message: "Queue " + q.Name + ": " + q.Problem.Message}, true
	}
	return facts.Condition{}, false
}
