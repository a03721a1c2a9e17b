package write

import (
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/bind"
)

// statusBody encodes a strategic merge patch that sets one condition, and for a nomination the node, and touches nothing else:
// PodScheduled=False for a pod that waits, DisruptionTarget=True for one that has to leave.
func statusBody(w *bind.Write, schedulerName string, now time.Time) ([]byte, error) {
	patch := statusPatch{}
	patch.Metadata.UID = w.Pod
	condition := conditionEntry{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
		LastTransitionTime: now.UTC().Format(time.RFC3339), Reason: w.Condition.Reason, Message: w.Condition.Message,
	}
	switch w.Kind {
	case bind.WriteNomination:
		patch.Status.NominatedNodeName = &nodeName{w.Node}
	case bind.WriteDisruption:
		condition.Type, condition.Status = corev1.DisruptionTarget, corev1.ConditionTrue
		condition.Message = schedulerName + ": " + condition.Message
	default:
		if w.Withdraw {
			patch.Status.NominatedNodeName = &nodeName{}
		}
	}
	if w.Condition.Reason != "" {
		patch.Status.Conditions = []conditionEntry{condition}
	}
	body, err := json.Marshal(&patch)
	if err != nil {
		return nil, fmt.Errorf("encode the status of %s/%s: %w", w.Namespace, w.Name, err)
	}
	return body, nil
}

type statusPatch struct {
	Metadata struct {
		UID facts.UID `json:"uid"`
	} `json:"metadata"`
	Status struct {
		NominatedNodeName *nodeName        `json:"nominatedNodeName,omitempty"`
		Conditions        []conditionEntry `json:"conditions,omitempty"`
	} `json:"status"`
}

// nodeName is a name to be set; with an empty one the field is cleared.
type nodeName struct{ name string }

// MarshalJSON is part of json.Marshaler.
func (n *nodeName) MarshalJSON() ([]byte, error) {
	if n.name == "" {
		return []byte("null"), nil
	}
	return json.Marshal(n.name) //nolint:wrapcheck // the caller says of what
}

type conditionEntry struct {
	Type               corev1.PodConditionType `json:"type"`
	Status             corev1.ConditionStatus  `json:"status"`
	LastTransitionTime string                  `json:"lastTransitionTime"`
	Reason             string                  `json:"reason"`
	Message            string                  `json:"message"`
}

// deletionBody encodes the options of a DELETE: the UID as a precondition, and the pod's own grace period.
func deletionBody(w *bind.Write) ([]byte, error) {
	uid := types.UID(w.Pod)
	body, err := json.Marshal(&metav1.DeleteOptions{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}, Preconditions: &metav1.Preconditions{UID: &uid},
	})
	if err != nil {
		return nil, fmt.Errorf("encode the deletion of %s/%s: %w", w.Namespace, w.Name, err)
	}
	return body, nil
}
