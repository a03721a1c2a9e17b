package vpa

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/control/recommend"
	"hilbert.dev/hilbert/control/vpa"
)

// Group, Version and Resource of VerticalPodAutoscalers.
const (
	Group    = "autoscaling.k8s.io"
	Version  = "v1"
	Resource = "verticalpodautoscalers"
	kind     = "VerticalPodAutoscaler"
)

// Path is where the VerticalPodAutoscalers of a namespace are.
func Path(namespace string) string {
	return "/apis/" + Group + "/" + Version + "/namespaces/" + namespace + "/" + Resource
}

// Autoscaler has the fields of a VerticalPodAutoscaler that we read. The definition belongs to its users, and its Go module would bring a client, informers and
// what they depend on.
type Autoscaler struct {
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		TargetRef struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
			Name       string `json:"name"`
		} `json:"targetRef"`
		UpdatePolicy struct {
			UpdateMode string `json:"updateMode"`
		} `json:"updatePolicy"`
		ResourcePolicy struct {
			ContainerPolicies []containerPolicy `json:"containerPolicies"`
		} `json:"resourcePolicy"`
		Recommenders []struct {
			Name string `json:"name"`
		} `json:"recommenders"`
	} `json:"spec"`
	Status status `json:"status"`
}

type containerPolicy struct {
	ContainerName       string                 `json:"containerName"`
	Mode                string                 `json:"mode"`
	MinAllowed          corev1.ResourceList    `json:"minAllowed"`
	MaxAllowed          corev1.ResourceList    `json:"maxAllowed"`
	ControlledResources *[]corev1.ResourceName `json:"controlledResources"`
	ControlledValues    string                 `json:"controlledValues"`
}

// status is what is written.
type status struct {
	Recommendation     *recommendation `json:"recommendation,omitempty"`
	Conditions         []condition     `json:"conditions,omitempty"`
	ObservedGeneration *int64          `json:"observedGeneration,omitempty"`
}

type recommendation struct {
	Containers []ContainerRecommendation `json:"containerRecommendations"`
}

// ContainerRecommendation is what a status recommends for a container.
type ContainerRecommendation struct {
	ContainerName  string              `json:"containerName"`
	Target         corev1.ResourceList `json:"target"`
	LowerBound     corev1.ResourceList `json:"lowerBound,omitempty"`
	UpperBound     corev1.ResourceList `json:"upperBound,omitempty"`
	UncappedTarget corev1.ResourceList `json:"uncappedTarget,omitempty"`
}

type condition struct {
	Type               string                 `json:"type"`
	Status             corev1.ConditionStatus `json:"status"`
	LastTransitionTime metav1.Time            `json:"lastTransitionTime,omitzero"`
	Reason             string                 `json:"reason,omitempty"`
	Message            string                 `json:"message,omitempty"`
	ObservedGeneration int64                  `json:"observedGeneration,omitempty"`
}

// ours reports whether the object names our recommender, and no other.
func (a *Autoscaler) ours(name string) bool {
	return len(a.Spec.Recommenders) == 1 && a.Spec.Recommenders[0].Name == name
}

// object is what the decision sees of it.
func (a *Autoscaler) object() vpa.Object {
	o := vpa.Object{
		Key: vpa.Key{Namespace: a.Namespace, Name: a.Name}, UID: string(a.UID), Generation: a.Generation,
		UpdateMode: a.Spec.UpdatePolicy.UpdateMode, Mode: a.Annotations[spec.AnnotationRecommendationMode], Status: a.Status.said(),
	}
	for i := range a.Spec.ResourcePolicy.ContainerPolicies {
		p := &a.Spec.ResourcePolicy.ContainerPolicies[i]
		controlled := func(name corev1.ResourceName) bool {
			return p.ControlledResources == nil || slices.Contains(*p.ControlledResources, name)
		}
		o.Policies = append(o.Policies, vpa.ContainerPolicy{
			Container: p.ContainerName, Off: p.Mode == "Off",
			Policy: recommend.Policy{
				Min: amounts(p.MinAllowed), Max: amounts(p.MaxAllowed),
				KeepCPU: !controlled(corev1.ResourceCPU), KeepMemory: !controlled(corev1.ResourceMemory), RequestsOnly: p.ControlledValues == "RequestsOnly",
			},
		})
	}
	return o
}

func amounts(list corev1.ResourceList) recommend.Amounts {
	return recommend.Amounts{CPU: float64(list.Cpu().MilliValue()) / 1000, Memory: float64(list.Memory().Value())}
}

// said is what a status said already.
func (s *status) said() (out vpa.Status) {
	if s.ObservedGeneration != nil {
		out.Generation = *s.ObservedGeneration
	}
	if s.Recommendation != nil {
		for i := range s.Recommendation.Containers {
			r := &s.Recommendation.Containers[i]
			c := vpa.ContainerStatus{Container: r.ContainerName}
			if _, there := r.Target[corev1.ResourceCPU]; there {
				c.CPU = vpa.Bounds{Known: true, Target: r.Target.Cpu().MilliValue(), Lower: r.LowerBound.Cpu().MilliValue(), Upper: r.UpperBound.Cpu().MilliValue(), Uncapped: r.UncappedTarget.Cpu().MilliValue()}
			}
			if _, there := r.Target[corev1.ResourceMemory]; there {
				c.Memory = vpa.Bounds{Known: true, Target: r.Target.Memory().Value(), Lower: r.LowerBound.Memory().Value(), Upper: r.UpperBound.Memory().Value(), Uncapped: r.UncappedTarget.Memory().Value()}
			}
			out.Containers = append(out.Containers, c)
		}
	}
	for _, c := range s.Conditions {
		out.Conditions = append(out.Conditions, vpa.Condition{Type: c.Type, True: c.Status == corev1.ConditionTrue, Reason: c.Reason, Message: c.Message})
	}
	return out
}

// body is the status as it is written over one that there is, with quantities as VPA's recommender writes them.
func body(s *vpa.Status, before []condition, now time.Time) status {
	out := status{ObservedGeneration: &s.Generation}
	quantities := func(c *vpa.ContainerStatus, of func(*vpa.Bounds) int64) corev1.ResourceList {
		list := corev1.ResourceList{}
		if c.CPU.Known {
			list[corev1.ResourceCPU] = *resource.NewScaledQuantity(of(&c.CPU), resource.Milli)
		}
		if c.Memory.Known {
			list[corev1.ResourceMemory] = *resource.NewScaledQuantity(of(&c.Memory), 0)
		}
		return list
	}
	for i := range s.Containers {
		c := &s.Containers[i]
		if out.Recommendation == nil {
			out.Recommendation = &recommendation{}
		}
		out.Recommendation.Containers = append(out.Recommendation.Containers, ContainerRecommendation{
			ContainerName: c.Container,
			Target:        quantities(c, func(b *vpa.Bounds) int64 { return b.Target }), LowerBound: quantities(c, func(b *vpa.Bounds) int64 { return b.Lower }),
			UpperBound: quantities(c, func(b *vpa.Bounds) int64 { return b.Upper }), UncappedTarget: quantities(c, func(b *vpa.Bounds) int64 { return b.Uncapped }),
		})
	}
	for _, c := range s.Conditions {
		next := condition{Type: c.Type, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(now), Reason: c.Reason, Message: c.Message, ObservedGeneration: s.Generation}
		if c.True {
			next.Status = corev1.ConditionTrue
		}
		if i := slices.IndexFunc(before, func(b condition) bool { return b.Type == c.Type && b.Status == next.Status }); i >= 0 {
			next.LastTransitionTime = before[i].LastTransitionTime
		}
		out.Conditions = append(out.Conditions, next)
	}
	slices.SortFunc(out.Conditions, func(a, b condition) int { return strings.Compare(a.Type, b.Type) })
	return out
}
