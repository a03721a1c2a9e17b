package write

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
	// agentReporter is who reports the events of nodes' agents, agentAction what the agent did when there was something to tell.
	agentReporter = "hilbert.dev/agent"
	agentAction   = "Allocate"
)

// normalNodeEvents are the reasons of nodes' events of type Normal; all others are Warnings.
var normalNodeEvents = map[string]bool{spec.ReasonPromiseMoved: true}

// nodeEventNamespace is where an event is kept: in the pod's namespace, of a node in default.
func nodeEventNamespace(w *bind.Write) string {
	if w.Pod == "" {
		return metav1.NamespaceDefault
	}
	return w.Namespace
}

// nodeEventName follows from what the event is about, so that writing it again, by another leader too, has no effect.
func nodeEventName(w *bind.Write) string {
	const mostName = 253 - 17 // the longest name, without the dot and the number
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s %s %s %d", w.Node, w.Pod, w.Condition.Reason, w.Series.First) // a hash cannot fail
	name := w.Name
	if w.Pod == "" {
		name = w.Node
	}
	return fmt.Sprintf("%s.%016x", name[:min(len(name), mostName)], h.Sum64())
}

// nodeEventBody encodes an event that a node's agent reports; of one that is known, how often it was.
func nodeEventBody(w *bind.Write) ([]byte, error) {
	const maxInstance = 128
	micro := func(nanoseconds int64) metav1.MicroTime { return metav1.NewMicroTime(time.Unix(0, nanoseconds)) }
	var series *eventsv1.EventSeries
	if w.Series.Count > 1 {
		series = &eventsv1.EventSeries{Count: w.Series.Count, LastObservedTime: micro(w.Series.Last)}
	}
	about, kind := corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: w.Namespace, Name: w.Name, UID: types.UID(w.Pod)}, corev1.EventTypeWarning
	if w.Pod == "" {
		about = corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: w.Node, UID: types.UID(w.Node)}
	}
	if normalNodeEvents[w.Condition.Reason] {
		kind = corev1.EventTypeNormal
	}
	var object any = map[string]any{"series": series}
	if !w.Known {
		object = &eventsv1.Event{
			TypeMeta:   metav1.TypeMeta{APIVersion: eventsv1.SchemeGroupVersion.String(), Kind: "Event"},
			ObjectMeta: metav1.ObjectMeta{Namespace: nodeEventNamespace(w), Name: nodeEventName(w)},
			EventTime:  micro(w.Series.First), Series: series, Type: kind, Reason: w.Condition.Reason, Action: agentAction, Regarding: about,
			Note:                apiserver.EventNote(w.Condition.Message),
			ReportingController: agentReporter, ReportingInstance: w.Node[:min(len(w.Node), maxInstance)],
		}
	}
	body, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encode an event of node %s: %w", w.Node, err)
	}
	return body, nil
}
