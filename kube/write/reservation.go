package write

import (
	"fmt"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/schedule/bind"
	"hilbert.dev/hilbert/topology"
)

// reservationCall makes the call that writes the status of a Reservation.
func reservationCall(w *bind.Write, now time.Time, c *apiserver.Call) (err error) {
	c.Path = "/apis/" + v1alpha1.GroupVersion.String() + "/namespaces/" + w.Namespace + "/" + v1alpha1.Reservations + "/" + w.Name + "/status"
	c.Method, c.ContentType, c.Accept = http.MethodPatch, apiserver.ContentStatus, apiserver.ContentJSON
	c.Body, err = reservationBody(w, now)
	return err
}

// reservationBody encodes what a Reservation's status is replaced by, of the one with its UID. One that was made anew under its name has no places yet: whoever read another's there would evict pods
// for room that nobody keeps.
func reservationBody(w *bind.Write, now time.Time) ([]byte, error) {
	v := w.Reservation
	report := v.Report()
	ready := metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, ObservedGeneration: report.Generation, LastTransitionTime: metav1.NewTime(now),
		Reason: report.Condition.Reason, Message: report.Condition.Message,
	}
	if report.Ready {
		ready.Status = metav1.ConditionTrue
	}
	if v.ToldSince != 0 && v.Told.Ready == report.Ready {
		ready.LastTransitionTime = metav1.NewTime(time.Unix(0, v.ToldSince))
	}
	status := v1alpha1.ReservationStatus{
		ObservedGeneration: report.Generation,
		Waiting:            int32(v.Count(facts.PlaceWaiting)), Reserved: int32(v.Count(facts.PlaceReserved)),
		Consumed: int32(v.Count(facts.PlaceConsumed)), Lost: int32(v.Count(facts.PlaceLost)),
		Conditions: []metav1.Condition{ready},
	}
	for i := range v.Places {
		if p := &v.Places[i]; p.State != facts.PlaceWaiting {
			status.Places = append(status.Places, v1alpha1.ReservedPlace{
				Index: int32(p.Index), State: p.State.String(), Node: p.Node, Promises: promisesOf(&p.Grant), Pod: p.Pod, Reason: p.Reason, Message: p.Message,
			})
		}
	}
	body, err := apiserver.StatusPatch(types.UID(v.UID), &status)
	if err != nil {
		return nil, fmt.Errorf("encode the status of the Reservation %s/%s: %w", v.Namespace, v.Name, err)
	}
	return body, nil
}

// promisesOf is what a Binding would say of a grant; nil: nothing.
func promisesOf(g *topology.Grant) map[string]string {
	if g.IsZero() {
		return nil
	}
	promises := make(map[string]string)
	if g.GPUs != 0 {
		promises[spec.AnnotationGPUs] = g.GPUText()
	}
	if g.NICs != 0 {
		promises[spec.AnnotationNICs] = g.NICText()
	}
	if !g.NUMANodes.IsZero() {
		promises[spec.AnnotationNUMANodes] = g.NUMANodes.String()
	}
	if g.Resources != "" {
		promises[spec.AnnotationResourceNUMANodes] = string(g.Resources)
	}
	return promises
}
