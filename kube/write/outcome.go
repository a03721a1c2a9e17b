package write

import (
	"errors"
	"net"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/kube/lease"
	"hilbert.dev/hilbert/schedule/bind"
)

// What the API server says in the message of a 409, the only place where its causes differ. A message that is not known counts as
// Conflict, after which the pod is read, so a change of wording costs a read and nothing else.
const (
	textOtherUID         = "Precondition failed: UID in precondition"
	textOtherUIDDeletion = "the UID in the precondition" // of deletions and evictions
	textDeleting         = "is being deleted"
	textGated            = "schedulingGates"
	fieldUID             = "metadata.uid"
)

// classify turns an answer into an outcome:
//
//	2xx                                        Written
//	404 about the pod, another UID             Gone
//	409 for a Binding                          Conflict; Refused if the pod is being deleted or gated
//	another 4xx                                Refused
//	4xx that names a disruption budget         Withheld
//	another 429, or no connection was made             again; when time is up Refused and NotSent
//	408, 5xx, a timeout, a broken connection   Unknown
//
// again says that the request certainly was not taken up and may be sent once more.
func classify(c *apiserver.Call, a *apiserver.Answer) (result bind.Result, again bool) {
	if a.Err != nil {
		return classifyError(a.Err)
	}
	message := a.Status.Message
	switch {
	case a.Code < 300:
		return bind.Result{Outcome: bind.Written}, false
	case a.Code >= 400 && a.Code < 500 && apiserver.NamesBudget(&a.Status):
		return bind.Result{Outcome: bind.Withheld, Message: message}, false
	case a.Code == http.StatusTooManyRequests:
		return bind.Result{Outcome: bind.Refused, Message: "the API server is overloaded: " + message}, true
	case a.Code == http.StatusNotFound && aboutPod(&a.Status, c.Pod):
		return bind.Result{Outcome: bind.Gone}, false
	case a.Code == http.StatusConflict && (strings.Contains(message, textOtherUID) || strings.Contains(message, textOtherUIDDeletion)),
		a.Code == http.StatusUnprocessableEntity && namesField(&a.Status, fieldUID):
		return bind.Result{Outcome: bind.Gone}, false
	case a.Code == http.StatusConflict && c.Subresource == "binding" &&
		!strings.Contains(message, textDeleting) && !strings.Contains(message, textGated):
		return bind.Result{Outcome: bind.Conflict, Message: message}, false
	case a.Code >= 400 && a.Code < 500 && a.Code != http.StatusRequestTimeout:
		return bind.Result{Outcome: bind.Refused, Message: message}, false
	}
	return bind.Result{Outcome: bind.Unknown, Message: message}, false
}

// classifyError judges a call without an answer. Only a connection that was never made is certain; the transport repeats by itself
// nothing but what it knows was not processed, so a failed dial after that is certain too.
func classifyError(err error) (result bind.Result, again bool) {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return bind.Result{Outcome: bind.NotSent, Message: err.Error()}, !errors.Is(err, lease.ErrFenced)
	}
	return bind.Result{Outcome: bind.Unknown, Message: err.Error()}, false
}

// aboutPod reports whether a 404 says that the pod does not exist, and not the namespace, the path or a node.
func aboutPod(s *metav1.Status, pod string) bool {
	return s.Reason == metav1.StatusReasonNotFound && s.Details != nil && s.Details.Name == pod &&
		(s.Details.Kind == "pods" || s.Details.Kind == "pods/binding" || s.Details.Kind == "pods/eviction" || s.Details.Kind == "Pod")
}

func namesField(s *metav1.Status, field string) bool {
	if s.Details == nil {
		return false
	}
	for _, cause := range s.Details.Causes {
		if cause.Field == field {
			return true
		}
	}
	return false
}
