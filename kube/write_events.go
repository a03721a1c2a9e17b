package kube

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/schedule/bind"
)

const (
	// schedulerReporter and schedulerAction are the reporter and the action in hilbertd's events.
	schedulerReporter = "hilbert.dev/hilbertd"
	schedulerAction   = "Evict"
)

// eventBody encodes an event of a pod. Its name follows from the pod and the reason, so that writing it again has no effect.
func eventBody(w *bind.Write, instance string, now time.Time) ([]byte, error) {
	const mostName, mostUID = 150, 36
	if w.Condition.Reason == spec.ReasonEventFailedScheduling || w.Condition.Reason == spec.ReasonEventScheduled {
		return podEventBody(w, instance, now)
	}
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
		EventTime: metav1.NewMicroTime(now), Type: kind, Reason: w.Condition.Reason, Action: schedulerAction, Note: w.Condition.Message[:min(len(w.Condition.Message), apiserver.MaxEventNote)],
		Regarding:           corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: w.Namespace, Name: w.Name, UID: types.UID(w.Pod)},
		ReportingController: schedulerReporter, ReportingInstance: instance,
	})
	if err != nil {
		return nil, fmt.Errorf("encode the event of %s/%s: %w", w.Namespace, w.Name, err)
	}
	return body, nil
}

// podEventBody encodes an event about the scheduling of a pod. Its name begins with the pod's, as people expect, and follows from what is said.
func podEventBody(w *bind.Write, instance string, now time.Time) ([]byte, error) {
	const mostName = 253 - 17 // the longest name, without the dot and the number
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s %s %s", w.Pod, w.Condition.Reason, w.Condition.Message) // a hash cannot fail
	kind, action := corev1.EventTypeWarning, "Scheduling"
	if w.Condition.Reason == spec.ReasonEventScheduled {
		kind, action = corev1.EventTypeNormal, "Binding"
	}
	body, err := json.Marshal(&eventsv1.Event{
		TypeMeta:   metav1.TypeMeta{APIVersion: eventsv1.SchemeGroupVersion.String(), Kind: "Event"},
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: fmt.Sprintf("%s.%016x", w.Name[:min(len(w.Name), mostName)], h.Sum64())},
		EventTime:  metav1.NewMicroTime(now), Type: kind, Reason: w.Condition.Reason, Action: action, Note: w.Condition.Message[:min(len(w.Condition.Message), apiserver.MaxEventNote)],
		Regarding:           corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: w.Namespace, Name: w.Name, UID: types.UID(w.Pod)},
		ReportingController: schedulerReporter, ReportingInstance: instance,
	})
	if err != nil {
		return nil, fmt.Errorf("encode the event of %s/%s: %w", w.Namespace, w.Name, err)
	}
	return body, nil
}

// eventSuffixes end the names of events, which have small letters only.
var eventSuffixes = map[string]string{
	spec.ReasonEvictedForPressure: "evicted", spec.ReasonEvictedForBrokenPromise: "broken", spec.ReasonEvictionRefusedByBudget: "refused", spec.ReasonEvictionDelayed: "delayed",
}
