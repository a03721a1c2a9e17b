package requests

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/control/request"
)

const (
	// defaultRetries is how often a pod is made anew where an ask does not say.
	defaultRetries = 6
	// maxContainers bounds what one request asks for, as its definition does.
	maxContainers = 1000
)

// askedOf reads a ResourceRequest. Of one that is no ResourceRequest for all the API server knows, because its template is no pod template, the metadata and the status are there.
func askedOf(w *written) *asked {
	if w.Problem == nil {
		return &asked{object: w.Object, Request: read(w.Object)}
	}
	o := &v1alpha1.ResourceRequest{TypeMeta: w.TypeMeta, ObjectMeta: w.ObjectMeta}
	var rest struct {
		Status v1alpha1.ResourceRequestStatus `json:"status"`
	}
	if json.Unmarshal(w.Text, &rest) == nil { // only we write it
		o.Status = rest.Status
	}
	a := &asked{object: o, Request: read(o)}
	a.Problem = "spec: " + w.Problem.Error()
	return a
}

// read reads what is decided from. What contradicts itself is the request's Problem; its definition has refused what can be seen in one field.
func read(o *v1alpha1.ResourceRequest) request.Request {
	r := request.Request{
		Key: request.Key{Namespace: o.Namespace, Name: o.Name}, UID: string(o.UID), Generation: o.Generation, Created: o.CreationTimestamp.Time, Deleting: o.DeletionTimestamp != nil,
		Gang: o.Spec.Gang, Status: slotsOf(&o.Status),
	}
	total, names := 0, make(map[string]bool)
	for i := range o.Spec.Asks {
		a := &o.Spec.Asks[i]
		switch total += int(a.Count); {
		case a.Name == "" || names[a.Name]:
			r.Problem = fmt.Sprintf("spec.asks[%d].name: %q is empty or there twice", i, a.Name)
		case a.Count < 0 || total > maxContainers:
			r.Problem = fmt.Sprintf("spec.asks[%d].count: a request asks for 0 to %d containers in all", i, maxContainers)
		}
		names[a.Name] = true
		if problem := knownContainers(&o.Spec.Template.Spec, a); problem != "" {
			r.Problem = fmt.Sprintf("spec.asks[%d].resources: %s", i, problem)
		}
		if r.Problem != "" {
			r.Asks = nil
			return r
		}
		r.Asks = append(r.Asks, askOf(a))
	}
	return r
}

func knownContainers(pod *corev1.PodSpec, a *v1alpha1.ResourceAsk) string {
	for i := range a.Resources {
		if !slices.ContainsFunc(pod.Containers, func(c corev1.Container) bool { return c.Name == a.Resources[i].Name }) {
			return "the template has no container " + a.Resources[i].Name
		}
	}
	return ""
}

func askOf(a *v1alpha1.ResourceAsk) request.Ask {
	out := request.Ask{Name: a.Name, Count: int(a.Count), Retries: defaultRetries}
	if a.Retries != nil {
		out.Retries = int(*a.Retries)
	}
	for _, index := range a.Release {
		out.Release = append(out.Release, int(index))
	}
	l := a.Locality
	if l == nil {
		return out
	}
	if l.Nodes != nil {
		out.Relax[request.Nodes].Named = true
		if after := l.Nodes.RelaxAfter; after != nil {
			out.Relax[request.Nodes].Relaxes, out.Relax[request.Nodes].After = true, after.Duration
		}
	}
	if l.Racks != nil {
		out.Relax[request.Racks].Named = true
		if after := l.Racks.RelaxAfter; after != nil {
			out.Relax[request.Racks].Relaxes, out.Relax[request.Racks].After = true, after.Duration
		}
	}
	return out
}

// slotsOf reads what a status says.
func slotsOf(s *v1alpha1.ResourceRequestStatus) []request.Slot {
	out := make([]request.Slot, 0, len(s.Allocations))
	for i := range s.Allocations {
		a := &s.Allocations[i]
		out = append(out, request.Slot{
			Ask: a.Ask, Index: int(a.Index), State: a.State, Pod: a.Pod, UID: a.UID, Node: a.Node, Level: request.LevelOf(a.Locality), Failures: int(a.Failures), Since: a.Since.Time,
			Reason: a.Reason, Message: a.Message,
		})
	}
	return out
}
