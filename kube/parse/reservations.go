package parse

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
)

const (
	// defaultTTL is that of a Reservation that names none.
	defaultTTL = 24 * time.Hour
	// maxPlaces is what the CRD allows.
	maxPlaces = 256
	// reasonPriorityClassMissing and reasonInvalidTemplate are reasons of a Reservation's condition Ready.
	reasonPriorityClassMissing = "PriorityClassMissing"
	reasonInvalidTemplate      = "InvalidTemplate"
)

// Priority is what is known of priority classes: the value of one, or with an empty name that of pods that name none.
type Priority func(class string) (value int32, ok bool)

// UnreadableReservation complains of a Reservation that cannot be decoded: its template is no pod template.
func (p *Parser) UnreadableReservation(name string, err error) {
	p.warner.Warn("reservation "+name, "it cannot be read, so that it keeps no room", "err", err)
}

// Reservation parses a Reservation; ok is false for one whose pods another scheduler places. What the CRD should have refused is read as the nearest thing that can be.
func (p *Parser) Reservation(r *v1alpha1.Reservation, priority Priority) (seen *facts.Reservation, ok bool) {
	template := r.Spec.Template.DeepCopy()
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name, Labels: template.Labels, Annotations: template.Annotations},
		Spec:       template.Spec,
	}
	pod.Spec.NodeName, pod.Spec.Priority, pod.Spec.SchedulingGates = "", nil, nil
	if !p.IsOurs(&pod) {
		return nil, false
	}
	for i := range pod.Spec.InitContainers {
		completeContainer(&pod.Spec.InitContainers[i])
	}
	for i := range pod.Spec.Containers {
		completeContainer(&pod.Spec.Containers[i])
	}
	seen = &facts.Reservation{
		UID: facts.UID(r.UID), Namespace: p.strings.get(r.Namespace), Name: r.Name, Generation: r.Generation, Created: r.CreationTimestamp.UnixNano(),
		Count: int(min(max(r.Spec.Count, 1), maxPlaces)), Problem: templateProblem(&pod),
	}
	if moves, ok := strings.CutPrefix(r.Name, v1alpha1.MovePrefix); ok { // a policy holds who may say so
		seen.Moves = facts.UID(moves)
	}
	seen.MayEvict = p.mayEvict(r)
	ttl := defaultTTL
	if r.Spec.TTL != nil {
		ttl = max(r.Spec.TTL.Duration, 0)
	}
	seen.Expires = r.CreationTimestamp.Add(ttl).UnixNano()
	value, known := priority(pod.Spec.PriorityClassName)
	if !known {
		seen.Problem = facts.Condition{Reason: reasonPriorityClassMissing, Message: "spec.template.spec.priorityClassName: there is no PriorityClass " + pod.Spec.PriorityClassName + "; create it, or name another"}
	}
	pod.Spec.Priority = &value
	seen.Template = p.Pod(&pod)
	for i := range r.Spec.Owners {
		if owner, ok := p.reservationOwner(r, i); ok {
			seen.Owners = append(seen.Owners, owner)
		}
	}
	for i := range r.Status.Places {
		if place, ok := p.reservedPlace(r, &r.Status.Places[i], seen.Template.Requirements); ok {
			seen.Places = append(seen.Places, place)
		}
	}
	seen.Reported.Generation = r.Status.ObservedGeneration
	for i := range r.Status.Conditions {
		if c := &r.Status.Conditions[i]; c.Type == v1alpha1.ConditionReady {
			seen.Reported.Ready, seen.Reported.Condition = c.Status == metav1.ConditionTrue, facts.Condition{Reason: c.Reason, Message: c.Message}
			seen.ReportedSince = c.LastTransitionTime.UnixNano()
		}
	}
	return seen, true
}

// mayEvict reads which pods may be evicted for a Reservation. One that names too many names none: nobody knows which of them were meant.
func (p *Parser) mayEvict(r *v1alpha1.Reservation) (list []facts.UID) {
	text := r.Annotations[spec.AnnotationMayEvict]
	if text == "" {
		return nil
	}
	for uid := range strings.SplitSeq(text, ",") {
		list = append(list, facts.UID(strings.TrimSpace(uid)))
	}
	if len(list) > spec.MaxMayEvict {
		p.warner.Warn("reservation "+r.Namespace+"/"+r.Name, "its annotation "+spec.AnnotationMayEvict+" names too many pods, so that none is evicted for it", "named", len(list), "most", spec.MaxMayEvict)
		return nil
	}
	return list
}

// completeContainer makes of a container in a template what the API server makes of one in a pod, as far as placement asks: what is limited is requested, and a port
// without a protocol is of TCP.
func completeContainer(c *corev1.Container) {
	for name, quantity := range c.Resources.Limits {
		if _, asked := c.Resources.Requests[name]; !asked {
			if c.Resources.Requests == nil {
				c.Resources.Requests = make(corev1.ResourceList)
			}
			c.Resources.Requests[name] = quantity
		}
	}
	for i := range c.Ports {
		c.Ports[i].Protocol = cmp.Or(c.Ports[i].Protocol, corev1.ProtocolTCP)
	}
}

// templateProblem names the first thing in a template that no place can be kept for.
func templateProblem(pod *corev1.Pod) facts.Condition {
	problem := func(message string) facts.Condition {
		return facts.Condition{Reason: reasonInvalidTemplate, Message: "spec.template." + message}
	}
	if len(pod.Spec.ResourceClaims) > 0 {
		return problem("spec.resourceClaims: no devices are kept for claims; leave them out")
	}
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.PersistentVolumeClaim != nil || v.Ephemeral != nil {
			return problem("spec.volumes[" + strconv.Itoa(i) + "]: no volumes are kept for claims; leave it out")
		}
	}
	if cmp.Or(pod.Labels[spec.LabelQoS], pod.Annotations[spec.AnnotationKatalystQoS]) == string(spec.QoSReclaimed) {
		return problem("metadata.labels: what nodes lend can be taken back at any time, so no place of reclaimed_cores is kept")
	}
	return facts.Condition{}
}

func (p *Parser) reservationOwner(r *v1alpha1.Reservation, i int) (owner facts.ReservationOwner, ok bool) {
	said := &r.Spec.Owners[i]
	owner.Unit = p.strings.get(said.PodGroup)
	if said.Controller != nil {
		owner.Controller = facts.Controller{Kind: p.strings.get(said.Controller.Kind), Name: p.strings.get(said.Controller.Name)}
	}
	if said.Selector != nil {
		selected, err := p.constraints.selector(said.Selector)
		if err != nil {
			p.warner.Warn("reservation "+r.Namespace+"/"+r.Name, "spec.owners["+strconv.Itoa(i)+"].selector is malformed, so that it selects no pod", "err", err)
			return owner, false
		}
		owner.Pods = &selected
	}
	return owner, true
}

// placeStates are the names that the API has for states.
var placeStates = map[string]facts.PlaceState{
	facts.PlaceReserved.String(): facts.PlaceReserved, facts.PlaceConsumed.String(): facts.PlaceConsumed, facts.PlaceLost.String(): facts.PlaceLost,
}

func (p *Parser) reservedPlace(r *v1alpha1.Reservation, said *v1alpha1.ReservedPlace, requirements *facts.Requirements) (place facts.Place, ok bool) {
	state, known := placeStates[said.State]
	if !known || state == facts.PlaceReserved && said.Node == "" {
		return place, false
	}
	place = facts.Place{Index: int(said.Index), State: state, Node: p.strings.get(said.Node), Pod: said.Pod, Reason: said.Reason, Message: said.Message}
	if state == facts.PlaceReserved && len(said.Promises) > 0 {
		bound := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: facts.PlaceholderName(r.Name, place.Index), Annotations: said.Promises}}
		place.Grant = p.recorded(&bound, requirements)
	}
	return place, true
}

// SameReservation reports whether two versions of a Reservation say the same.
func SameReservation(a, b *v1alpha1.Reservation) bool {
	return a.UID == b.UID && a.ResourceVersion == b.ResourceVersion
}
