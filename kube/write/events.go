package write

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/kube/parse"
	"hilbert.dev/hilbert/schedule/bind"
)

const (
	// schedulerReporter and schedulerAction are the reporter and the action in hilbertd's events.
	schedulerReporter = "hilbert.dev/hilbertd"
	schedulerAction   = "Evict"
)

// eventBody encodes an event.
func (w *Writer) eventBody(ctx context.Context, write *bind.Write) ([]byte, error) {
	if write.Reservation != nil {
		return schedulingEventBody(write, "", w.options.SchedulerName, w.now())
	}
	if schedulingActions[write.Condition.Reason] == "" {
		return evictionEventBody(write, w.options.SchedulerName, w.now())
	}
	groups := ""
	if !write.Unit.IsZero() {
		has, err := w.groups.served(ctx, w.now())
		if err != nil {
			return nil, err
		}
		groups = parse.GroupScheduling + "/" + has.PodGroups
		if has.PodGroups == "" {
			groups = parse.GroupSigs + "/" + has.SigsPodGroups
		}
	}
	return schedulingEventBody(write, groups, w.options.SchedulerName, w.now())
}

// evictionEventBody encodes an event of a pod that is to be evicted. Its name follows from the pod and the reason, so that writing it again has no effect.
func evictionEventBody(w *bind.Write, instance string, now time.Time) ([]byte, error) {
	const mostName, mostUID = 150, 36
	kind := corev1.EventTypeWarning
	if w.Condition.Reason == spec.ReasonEvictedForPressure || w.Condition.Reason == spec.ReasonEvictedForBrokenPromise {
		kind = corev1.EventTypeNormal
	}
	uid := string(w.Pod)
	body, err := json.Marshal(&eventsv1.Event{
		TypeMeta: metav1.TypeMeta{APIVersion: eventsv1.SchemeGroupVersion.String(), Kind: "Event"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.Namespace, Name: fmt.Sprintf("%s.%s.%s", w.Name[:min(len(w.Name), mostName)], uid[:min(len(uid), mostUID)], eventSuffixes[w.Condition.Reason]),
		},
		EventTime: metav1.NewMicroTime(now), Type: kind, Reason: w.Condition.Reason, Action: schedulerAction, Note: apiserver.EventNote(w.Condition.Message),
		Regarding:           corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: w.Namespace, Name: w.Name, UID: types.UID(w.Pod)},
		ReportingController: schedulerReporter, ReportingInstance: instance,
	})
	if err != nil {
		return nil, fmt.Errorf("encode the event of %s/%s: %w", w.Namespace, w.Name, err)
	}
	return body, nil
}

// schedulingActions are the actions of the events about scheduling, by reason, as upstream has them.
var schedulingActions = map[string]string{
	spec.ReasonEventFailedScheduling: "Scheduling", spec.ReasonEventScheduled: "Binding", spec.ReasonEventPreempted: "Preempting",
	spec.ReasonEventPlaceLost: "Reserving",
}

// schedulingEventBody encodes an event about the scheduling of a pod, of a Reservation, or of a PodGroup of the API version groups. Its name begins with the pod's, as people
// expect, and follows from what is said.
func schedulingEventBody(w *bind.Write, groups, instance string, now time.Time) ([]byte, error) {
	const mostName = 253 - 17 // the longest name, without the dot and the number
	h := fnv.New64a()
	about := corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: w.Namespace, Name: w.Name, UID: types.UID(w.Pod)}
	if !w.Unit.IsZero() {
		about.APIVersion, about.Kind, about.UID = groups, "PodGroup", types.UID(w.UnitUID)
	}
	if r := w.Reservation; r != nil {
		about.APIVersion, about.Kind, about.UID = v1alpha1.GroupVersion.String(), "Reservation", types.UID(r.UID)
	}
	_, _ = fmt.Fprintf(h, "%s %s %s", about.UID, w.Condition.Reason, w.Condition.Message) // a hash cannot fail
	kind := corev1.EventTypeNormal
	if w.Condition.Reason == spec.ReasonEventFailedScheduling || w.Condition.Reason == spec.ReasonEventPlaceLost {
		kind = corev1.EventTypeWarning
	}
	event := eventsv1.Event{
		TypeMeta:   metav1.TypeMeta{APIVersion: eventsv1.SchemeGroupVersion.String(), Kind: "Event"},
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: fmt.Sprintf("%s.%016x", w.Name[:min(len(w.Name), mostName)], h.Sum64())},
		EventTime:  metav1.NewMicroTime(now), Type: kind, Reason: w.Condition.Reason,
		Action: schedulingActions[w.Condition.Reason], Note: apiserver.EventNote(w.Condition.Message),
		Regarding: about, ReportingController: schedulerReporter, ReportingInstance: instance,
	}
	if w.Related.UID != "" {
		event.Related = &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: w.Related.Namespace, Name: w.Related.Name, UID: types.UID(w.Related.UID)}
	}
	body, err := json.Marshal(&event)
	if err != nil {
		return nil, fmt.Errorf("encode the event of %s/%s: %w", w.Namespace, w.Name, err)
	}
	return body, nil
}

// eventSuffixes end the names of events, which have small letters only.
var eventSuffixes = map[string]string{
	spec.ReasonEvictedForPressure: "evicted", spec.ReasonEvictedForBrokenPromise: "broken", spec.ReasonEvictionRefusedByBudget: "refused", spec.ReasonEvictionDelayed: "delayed",
}
