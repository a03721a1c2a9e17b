package moves

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/control/reschedule"
)

// record is what a Reservation remembers of its move, for the next leader.
type record struct {
	UID      string `json:"uid"`
	Name     string `json:"name"`
	Workload string `json:"workload"`
	From     string `json:"from"`
	To       string `json:"to"`
	Reason   string `json:"reason"`
	Why      string `json:"why"`
	// Members of a gang that is moved whole, and the nodes among which its places are. Its PodGroup is the Reservation's owner.
	Members []reschedule.Member `json:"members,omitempty"`
	Nodes   []string            `json:"nodes,omitempty"`
}

// nameOf is the name of a move's Reservation.
func nameOf(pod string) string { return v1alpha1.MovePrefix + pod }

// reservation makes the Reservation of a move's target: of a gang one place for each member, all of them like the pod's.
func reservation(w *reschedule.Wanted, pod *corev1.Pod, ttl time.Duration) (*v1alpha1.Reservation, error) {
	controller := metav1.GetControllerOfNoCopy(pod)
	if controller == nil {
		return nil, fmt.Errorf("pod %s/%s has no controller", pod.Namespace, pod.Name)
	}
	owner, nodes := v1alpha1.ReservationOwner{Controller: &v1alpha1.ReservationController{Kind: controller.Kind, Name: controller.Name}}, []string{w.To}
	is := record{UID: w.Pod, Name: w.Name, Workload: w.Workload, From: w.From, To: w.To, Reason: w.Reason, Why: w.Why}
	if g := w.Gang; g != nil {
		owner, nodes = v1alpha1.ReservationOwner{PodGroup: g.PodGroup}, g.Nodes
		is.Members, is.Nodes = g.Members, g.Nodes
	}
	what, err := json.Marshal(is)
	if err != nil {
		return nil, fmt.Errorf("encode the move of %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	r := &v1alpha1.Reservation{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Reservation"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: nameOf(w.Pod), Labels: map[string]string{spec.LabelMove: ""}, Annotations: map[string]string{spec.AnnotationMove: string(what)},
		},
	}
	r.Spec.Count, r.Spec.TTL = int32(w.Size()), &metav1.Duration{Duration: ttl}
	r.Spec.Owners = []v1alpha1.ReservationOwner{owner}
	r.Spec.Template = template(pod, nodes...)
	return r, nil
}

// ours are the annotations that a Binding brings: the scheduler's, not the template's.
var ours = []string{spec.AnnotationNUMANodes, spec.AnnotationGPUs, spec.AnnotationNICs, spec.AnnotationReclaimed, spec.AnnotationResources, spec.AnnotationResourceNUMANodes, spec.AnnotationPriority, spec.AnnotationReservation}

// template is what the pod asks for, on one of the nodes.
func template(pod *corev1.Pod, nodes ...string) corev1.PodTemplateSpec {
	t := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: maps.Clone(pod.Labels), Annotations: maps.Clone(pod.Annotations)}, Spec: *pod.Spec.DeepCopy()}
	for _, key := range ours {
		delete(t.Annotations, key)
	}
	s := &t.Spec
	s.NodeName, s.Priority, s.SchedulingGates, s.EphemeralContainers, s.Volumes = "", nil, nil, nil, nil
	for _, list := range [][]corev1.Container{s.InitContainers, s.Containers} {
		for i := range list { // no more than placement asks
			c := &list[i]
			list[i] = corev1.Container{Name: c.Name, Image: c.Image, Resources: c.Resources, Ports: c.Ports, RestartPolicy: c.RestartPolicy}
		}
	}
	if s.Affinity == nil {
		s.Affinity = &corev1.Affinity{}
	}
	if s.Affinity.NodeAffinity == nil {
		s.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	required := s.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil {
		required = &corev1.NodeSelector{}
		s.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = required
	}
	theirs := slices.DeleteFunc(slices.Clone(required.NodeSelectorTerms), func(t corev1.NodeSelectorTerm) bool { return len(t.MatchExpressions)+len(t.MatchFields) == 0 }) // these select no node
	if len(theirs) == 0 {
		theirs = []corev1.NodeSelectorTerm{{}}
	}
	terms := make([]corev1.NodeSelectorTerm, 0, len(theirs)*len(nodes))
	for i := range theirs {
		for _, node := range nodes { // a field has one value, so that there is a term for each
			term := theirs[i].DeepCopy()
			term.MatchFields = append(term.MatchFields, corev1.NodeSelectorRequirement{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}})
			terms = append(terms, *term)
		}
	}
	required.NodeSelectorTerms = terms
	return t
}

// veto says why a pod may not be moved, as it is now; empty: it may.
func veto(pod *corev1.Pod) string {
	switch consent := spec.ConsentOf(pod.Annotations, metav1.GetControllerOfNoCopy(pod) != nil); consent {
	case spec.ConsentRefused:
		return "its annotations refuse it"
	case spec.ConsentUnreplaced:
		return "nobody would make a replacement"
	default:
	}
	if len(pod.Spec.ResourceClaims) > 0 {
		return "it has claims of devices, for which no place can be kept"
	}
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.PersistentVolumeClaim != nil || v.Ephemeral != nil {
			return "it has volumes that stand for claims, for which no place can be kept"
		}
	}
	if pod.Labels[spec.LabelQoS] == string(spec.QoSReclaimed) || pod.Annotations[spec.AnnotationKatalystQoS] == string(spec.QoSReclaimed) {
		return "it is of level reclaimed_cores, for which no place can be kept"
	}
	return ""
}
