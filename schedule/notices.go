package schedule

import (
	"fmt"
	"strings"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/admit"
	"hilbert.dev/hilbert/schedule/bind"
	"hilbert.dev/hilbert/schedule/events"
	"hilbert.dev/hilbert/schedule/queue"
)

// notices tells users why pods and gangs wait: in the conditions of pods and PodGroups, and in Events. It decides what is said to whom; when a condition is
// written, and that it is not written too often, bind.Conditions sees to.
//
// A place of a Reservation is a pod that the API server does not have: what is said of it goes into the status of its Reservation.
//
// Example: gang train fits nowhere. Its PodGroup is told "3 of 4 members find room", and its pods the same; once nodes are reserved for it, the
// PodGroup says Reserved, while its pods go on to say Unschedulable, for which autoscalers add nodes.
type notices struct {
	store        *cluster.Store
	conditions   *bind.Conditions
	events       *events.Pods
	noEvents     bool
	timers       *gangTimers
	reservations *admit.Reservations
}

// sayWhy says why a pod waits: in its condition, and in an Event.
func (n *notices) sayWhy(pod *cluster.Pod, why facts.Condition, now time.Time) {
	if pod.Placeholder() { // the API server has no such pod
		n.store.Placeholders().Say(pod.UID, why)
		return
	}
	n.conditions.Set(pod, why, now)
	if !n.noEvents {
		n.events.Failed(pod, why.Message)
	}
}

// sayWhyUnit says why a unit waits: of its PodGroup, and of its members that wait.
func (n *notices) sayWhyUnit(u *queue.Unit, why facts.Condition, now time.Time) {
	said := ofPods(why)
	if u.Gang != nil {
		if x := n.reservations.Of(u.Gang.UnitName); x != nil && (why.Reason == spec.ReasonUnschedulable || why.Reason == spec.ReasonTopologyPlacementFailed) {
			why = reservedCondition(x, why)
			said = ofPods(why)
		}
		if n.timers.timedOut(u.Gang, now) {
			why = facts.Condition{Reason: spec.ReasonTimedOut, Message: "not complete within its timeout; Hilbert keeps trying. " + why.Message}
			said.Message = why.Reason + ": " + why.Message
		}
		if n.conditions.SetUnit(u.Gang, facts.UnitCondition{Reason: why.Reason, Message: why.Message}, now) && !n.noEvents {
			n.events.UnitFailed(u.Gang, why.Message)
		}
	}
	for _, pod := range u.Members() {
		n.sayWhy(pod, said, now)
	}
}

// sayWhole says of a gang that as many members as it needs have places.
func (n *notices) sayWhole(gang *cluster.Unit, now time.Time) {
	whole := facts.UnitCondition{
		Met: true, Reason: spec.ReasonScheduled, Message: fmt.Sprintf("%d members have places, %d are needed", gang.Bound(), gang.MinMember()),
	}
	if n.conditions.SetUnit(gang, whole, now) && !n.noEvents {
		n.events.UnitPlaced(gang, whole.Message)
	}
}

// sayEvicted says of a victim that was deleted for whom it had to leave.
func (n *notices) sayEvicted(r *bind.Transition) {
	if pod := n.store.Pod(r.Pod); pod != nil && !n.noEvents {
		n.events.Preempted(r.Victim, r.Node, pod)
	}
}

// withdrawNomination clears the nomination of a pod that has lost the place which its victims were to make room for. written says that this process
// has written one.
func (n *notices) withdrawNomination(pod *cluster.Pod, written bool, now time.Time) {
	if written || pod.Nominated != "" {
		n.conditions.WithdrawNomination(pod, now)
	}
}

// forgetUnit drops what was to be said of a gang without a PodGroup.
func (n *notices) forgetUnit(name facts.UnitName) {
	n.conditions.ForgetUnit(name)
	n.events.ForgetUnit(name)
}

// ofPods is a gang's condition as its pods have it. Autoscalers add nodes for pods whose condition has the reason Unschedulable, and for no others; so all that more
// nodes could help have that reason, and the message begins with what is known beside it. What waits for quota, other members or a change of its own keeps its reason:
// a new node would stay empty.
func ofPods(why facts.Condition) facts.Condition {
	switch why.Reason {
	case spec.ReasonTopologyPlacementFailed, spec.ReasonReserved:
		return facts.Condition{Reason: spec.ReasonUnschedulable, Message: why.Reason + ": " + why.Message}
	}
	return why
}

// reservedCondition is the condition of a gang for which nodes are reserved: how many are, and why it does not fit yet.
func reservedCondition(x *admit.Reservation, why facts.Condition) facts.Condition {
	return facts.Condition{
		Reason:  spec.ReasonReserved,
		Message: strings.TrimSpace(fmt.Sprintf("%d nodes are reserved for it; it starts when enough pods on them have ended. %s", len(x.Slots), why.Message)),
	}
}
