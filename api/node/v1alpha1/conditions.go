package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/spec"
)

// Conditions gives conditions their times: since when they are so is kept from what was there before. generation is that of the object that they are about; 0: none.
func Conditions(said []spec.NodeCondition, before []metav1.Condition, generation int64, now time.Time) []metav1.Condition {
	out := make([]metav1.Condition, 0, len(said))
	for _, s := range said {
		c := metav1.Condition{
			Type: s.Type, Status: metav1.ConditionFalse, Reason: s.Reason, Message: s.Message, ObservedGeneration: generation, LastTransitionTime: metav1.NewTime(now),
		}
		switch {
		case s.Unknown:
			c.Status = metav1.ConditionUnknown
		case s.True:
			c.Status = metav1.ConditionTrue
		}
		for i := range before {
			if before[i].Type == c.Type && before[i].Status == c.Status {
				c.LastTransitionTime = before[i].LastTransitionTime
			}
		}
		out = append(out, c)
	}
	return out
}
