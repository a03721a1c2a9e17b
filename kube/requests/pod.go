package requests

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/control/request"
)

const (
	// defaultRackKey is the label of nodes that names their rack where a locality does not say.
	defaultRackKey = "topology.hilbert.dev/rack"
	// The weights of what a pod prefers while more is allowed.
	nodeWeight, rackWeight = 100, 50
)

// owners makes a ResourceRequest the controller of what is made for it.
func owners(o *v1alpha1.ResourceRequest) []metav1.OwnerReference {
	yes := true
	return []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: kind, Name: o.Name, UID: o.UID, Controller: &yes, BlockOwnerDeletion: &yes}}
}

// pod makes the pod of a container that is asked for. scheduler is who schedules it where the template does not say.
func pod(o *v1alpha1.ResourceRequest, c *request.Create, scheduler string) (*corev1.Pod, error) {
	at := slices.IndexFunc(o.Spec.Asks, func(a v1alpha1.ResourceAsk) bool { return a.Name == c.Ask })
	if at < 0 {
		return nil, fmt.Errorf("ResourceRequest %s/%s asks for no %s", o.Namespace, o.Name, c.Ask)
	}
	ask := &o.Spec.Asks[at]
	t := o.Spec.Template.DeepCopy()
	p := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: o.Namespace, Name: c.Name, Labels: maps.Clone(t.Labels), Annotations: maps.Clone(t.Annotations), Finalizers: t.Finalizers, OwnerReferences: owners(o),
		},
		Spec: t.Spec,
	}
	p.Labels, p.Annotations = set(p.Labels), set(p.Annotations)
	p.Labels[spec.LabelResourceRequest], p.Labels[spec.LabelAsk] = o.Name, ask.Name
	p.Annotations[spec.AnnotationAskIndex], p.Annotations[spec.AnnotationAskLocality] = strconv.Itoa(c.Index), c.Level.String()
	s := &p.Spec
	if s.SchedulerName == "" {
		s.SchedulerName = scheduler
	}
	if s.RestartPolicy == "" {
		s.RestartPolicy = corev1.RestartPolicyNever
	}
	if ask.PriorityClassName != "" {
		s.PriorityClassName, s.Priority = ask.PriorityClassName, nil
	}
	if o.Spec.Gang {
		group := request.GroupOf(o.Name, string(o.UID))
		s.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
		p.Labels[spec.LabelPodGroup] = group
	}
	for i := range ask.Resources {
		r := &ask.Resources[i]
		for k := range s.Containers {
			if s.Containers[k].Name == r.Name {
				s.Containers[k].Resources.Requests, s.Containers[k].Resources.Limits = r.Requests, r.Limits
			}
		}
	}
	if ask.Locality != nil {
		locate(s, ask.Locality, c.Level)
	}
	return p, nil
}

func set(m map[string]string) map[string]string {
	if m == nil {
		return make(map[string]string)
	}
	return m
}

func named(operator corev1.NodeSelectorOperator, node string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: metav1.ObjectNameField, Operator: operator, Values: []string{node}}
}

// locate binds a pod to where its ask has it at a level, and says what of that it would like best.
//
// At the level Racks the nodes count too. What the template requires holds besides: each of its terms with each of ours.
func locate(s *corev1.PodSpec, l *v1alpha1.ResourceLocality, level request.Level) {
	var onNodes []corev1.NodeSelectorTerm
	if l.Nodes != nil {
		for _, node := range l.Nodes.Names {
			if !slices.Contains(l.ExcludedNodes, node) {
				onNodes = append(onNodes, corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{named(corev1.NodeSelectorOpIn, node)}})
			}
		}
		if len(onNodes) == 0 { // all are excluded: no node has this name
			onNodes = append(onNodes, corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{named(corev1.NodeSelectorOpIn, "-")}})
		}
	}
	var excluded []corev1.NodeSelectorRequirement
	for _, node := range l.ExcludedNodes {
		excluded = append(excluded, named(corev1.NodeSelectorOpNotIn, node))
	}
	var inRacks []corev1.NodeSelectorRequirement
	if l.Racks != nil {
		key := l.Racks.Key
		if key == "" {
			key = defaultRackKey
		}
		inRacks = append(inRacks, corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: l.Racks.Values})
	}
	var required []corev1.NodeSelectorTerm
	switch {
	case level == request.Nodes:
		required = onNodes
	case level == request.Racks:
		required = append(onNodes, corev1.NodeSelectorTerm{MatchExpressions: inRacks, MatchFields: excluded})
	case len(excluded) > 0:
		required = []corev1.NodeSelectorTerm{{MatchFields: excluded}}
	}
	if s.Affinity == nil {
		s.Affinity = &corev1.Affinity{}
	}
	if s.Affinity.NodeAffinity == nil {
		s.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	a := s.Affinity.NodeAffinity
	if len(required) > 0 {
		a.RequiredDuringSchedulingIgnoredDuringExecution = both(a.RequiredDuringSchedulingIgnoredDuringExecution, required)
	}
	if level > request.Nodes && l.Nodes != nil {
		for i := range onNodes {
			a.PreferredDuringSchedulingIgnoredDuringExecution = append(a.PreferredDuringSchedulingIgnoredDuringExecution, corev1.PreferredSchedulingTerm{Weight: nodeWeight, Preference: onNodes[i]})
		}
	}
	if level > request.Racks && l.Racks != nil {
		a.PreferredDuringSchedulingIgnoredDuringExecution = append(a.PreferredDuringSchedulingIgnoredDuringExecution,
			corev1.PreferredSchedulingTerm{Weight: rackWeight, Preference: corev1.NodeSelectorTerm{MatchExpressions: inRacks}})
	}
}

// both selects the nodes that a selector and one of the terms select.
func both(selector *corev1.NodeSelector, terms []corev1.NodeSelectorTerm) *corev1.NodeSelector {
	if selector == nil || len(selector.NodeSelectorTerms) == 0 {
		return &corev1.NodeSelector{NodeSelectorTerms: terms}
	}
	out := &corev1.NodeSelector{}
	for i := range selector.NodeSelectorTerms {
		theirs := &selector.NodeSelectorTerms[i]
		if len(theirs.MatchExpressions)+len(theirs.MatchFields) == 0 {
			continue // it selects no node
		}
		for k := range terms {
			out.NodeSelectorTerms = append(out.NodeSelectorTerms, corev1.NodeSelectorTerm{
				MatchExpressions: slices.Concat(theirs.MatchExpressions, terms[k].MatchExpressions), MatchFields: slices.Concat(theirs.MatchFields, terms[k].MatchFields),
			})
		}
	}
	if len(out.NodeSelectorTerms) == 0 {
		return selector
	}
	return out
}
