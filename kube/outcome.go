package kube

import (
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/schedule/bind"
)

// What the API server says in the message of a 409, the only place where its causes differ. A message that is not known counts as
// Conflict, after which the pod is read, so a change of wording costs a read and nothing else.
const (
	textOtherUID = "Precondition failed: UID in precondition"
	textDeleting = "is being deleted"
	textGated    = "schedulingGates"
	fieldUID     = "metadata.uid"
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
func classify(c *call, a *answer) (result bind.Result, again bool) {
	if a.err != nil {
		return classifyError(a.err)
	}
	message := a.status.Message
	switch {
	case a.code < 300:
		return bind.Result{Outcome: bind.Written}, false
	case a.code >= 400 && a.code < 500 && namesBudget(&a.status):
		return bind.Result{Outcome: bind.Withheld, Message: message}, false
	case a.code == http.StatusTooManyRequests:
		return bind.Result{Outcome: bind.Refused, Message: "the API server is overloaded: " + message}, true
	case a.code == http.StatusNotFound && aboutPod(&a.status, c.pod):
		return bind.Result{Outcome: bind.Gone}, false
	case a.code == http.StatusConflict && strings.Contains(message, textOtherUID),
		a.code == http.StatusUnprocessableEntity && namesField(&a.status, fieldUID):
		return bind.Result{Outcome: bind.Gone}, false
	case a.code == http.StatusConflict && c.subresource == "binding" &&
		!strings.Contains(message, textDeleting) && !strings.Contains(message, textGated):
		return bind.Result{Outcome: bind.Conflict, Message: message}, false
	case a.code >= 400 && a.code < 500 && a.code != http.StatusRequestTimeout:
		return bind.Result{Outcome: bind.Refused, Message: message}, false
	}
	return bind.Result{Outcome: bind.Unknown, Message: message}, false
}

// classifyError judges a call without an answer. Only a connection that was never made is certain; the transport repeats by itself
// nothing but what it knows was not processed, so a failed dial after that is certain too.
func classifyError(err error) (result bind.Result, again bool) {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return bind.Result{Outcome: bind.NotSent, Message: err.Error()}, !errors.Is(err, ErrFenced)
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

// namesBudget reports whether a disruption budget is why an eviction is refused.
func namesBudget(s *metav1.Status) bool {
	return s.Details != nil && slices.ContainsFunc(s.Details.Causes, func(c metav1.StatusCause) bool { return c.Type == policyv1.DisruptionBudgetCause })
}
