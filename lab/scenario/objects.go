package scenario

import (
	"fmt"
	"maps"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/internal/scenario"
	"hilbert.dev/hilbert/lab/hollow"
	own "hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

// foreignScheduler is the spec.schedulerName of pods that another scheduler has bound.
const foreignScheduler = "somebody-else"

// amount is one of ours as a quantity: CPU is in millicores, everything else in its unit.
func amount(name string, n int64) resource.Quantity {
	switch name {
	case own.NameCPU:
		return *resource.NewMilliQuantity(n, resource.DecimalSI)
	case own.NameMemory:
		return *resource.NewQuantity(n, resource.BinarySI)
	}
	return *resource.NewQuantity(n, resource.DecimalSI)
}

func amounts(list []own.Quantity) corev1.ResourceList {
	out := make(corev1.ResourceList, len(list))
	for _, q := range list {
		out[corev1.ResourceName(q.Name)] = amount(q.Name, q.Amount)
	}
	return out
}

// shape is a node as the lab makes them.
func shape(n *facts.Node) hollow.Shape {
	s := hollow.Shape{Name: n.Name, Labels: maps.Clone(n.Labels), Allocatable: amounts(n.Allocatable)}
	if n.GPU.GPUs > 0 {
		s.Allocatable[hollow.ResourceGPU] = amount("", int64(n.GPU.GPUs))
		if n.GPU.Shareable {
			s.Allocatable[hollow.ResourceGPUMilli] = amount("", int64(n.GPU.GPUs)*topology.FullGPU)
		}
	}
	return s
}

var (
	sortPolicies = map[facts.SortPolicy]v1alpha1.SortPolicy{
		facts.PriorityFIFO: v1alpha1.SortPriorityFIFO, facts.FIFO: v1alpha1.SortFIFO, facts.Fair: v1alpha1.SortFair,
		facts.FairHistory: v1alpha1.SortFairHistory, facts.SmallestFirst: v1alpha1.SortSmallestFirst,
	}
	permissions = map[bool]v1alpha1.Permission{false: v1alpha1.Allowed, true: v1alpha1.Never}
	preemptions = map[bool]v1alpha1.PreemptionPolicy{false: v1alpha1.PreemptLowerPriority, true: v1alpha1.PreemptNever}
)

func queueObject(f *facts.Queue, h Header) *v1alpha1.Queue {
	q := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: f.Name}, Spec: v1alpha1.QueueSpec{
		Parent: f.Parent, Guaranteed: amounts(f.Guaranteed), Max: amounts(f.Max), Weight: f.Weight, SortPolicy: sortPolicies[f.Sort],
		Borrowing: permissions[f.BorrowsNothing], Reclaim: permissions[f.KeepsBorrowed], Preemption: preemptions[f.NeverPreempts],
	}}
	if f.HalfLife > 0 {
		q.Spec.HistoryHalfLife = &metav1.Duration{Duration: h.real(time.Duration(f.HalfLife))}
	}
	if f.ReclaimMinRuntime != nil {
		q.Spec.ReclaimMinRuntime = &metav1.Duration{Duration: h.real(time.Duration(*f.ReclaimMinRuntime))}
	}
	return q
}

func groupObject(u *facts.Unit, h Header) *schedulingv1beta1.PodGroup {
	annotations := make(map[string]string)
	for key, value := range map[string]string{
		spec.AnnotationPreferredTopology: u.Topology.Preferred, spec.AnnotationSpreadTopology: u.Topology.Spread,
		spec.AnnotationUniform:                   u.Topology.Uniform,
		spec.AnnotationSubgroupRequiredTopology:  u.SubgroupTopology.Required,
		spec.AnnotationSubgroupPreferredTopology: u.SubgroupTopology.Preferred,
	} {
		if value != "" {
			annotations[key] = value
		}
	}
	if u.Timeout > 0 {
		annotations[spec.AnnotationTimeout] = h.real(time.Duration(u.Timeout)).String()
	}
	g := &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: u.Namespace, Name: u.Name, Annotations: annotations},
		Spec: schedulingv1beta1.PodGroupSpec{
			SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: u.MinMember}},
		},
	}
	if u.Topology.Required != "" {
		g.Spec.SchedulingConstraints = &schedulingv1beta1.PodGroupSchedulingConstraints{
			Topology: []schedulingv1beta1.TopologyConstraint{{Key: u.Topology.Required}},
		}
	}
	if u.Prioritized {
		g.Spec.PriorityClassName = priorityName(u.Priority, u.NeverPreempts)
	}
	if u.Indivisible {
		g.Spec.DisruptionMode = &schedulingv1beta1.DisruptionMode{All: &schedulingv1beta1.AllDisruptionMode{}}
	}
	return g
}

func priorityName(value int32, never bool) string {
	name := "lab-" + strconv.Itoa(int(value))
	if value < 0 {
		name = "lab-minus-" + strconv.Itoa(-int(value))
	}
	if never {
		name += "-never"
	}
	return name
}

// priorityObject is the class of pods of a priority, nil for those that need none.
func priorityObject(value int32, never bool) *schedulingv1.PriorityClass {
	if value == 0 && !never {
		return nil
	}
	c := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: priorityName(value, never)}, Value: value}
	if never {
		policy := corev1.PreemptNever
		c.PreemptionPolicy = &policy
	}
	return c
}

// podObject is a pod of a set. on is its node if another scheduler has bound it, else empty.
func podObject(c *cast, m *member, h Header, on string) *corev1.Pod {
	t := &c.template
	resources := corev1.ResourceList{}
	if t.CPU > 0 {
		resources[corev1.ResourceCPU] = amount(own.NameCPU, t.CPU)
	}
	if t.Memory > 0 {
		resources[corev1.ResourceMemory] = amount(own.NameMemory, t.Memory)
	}
	if t.GPU.Whole > 0 {
		resources[hollow.ResourceGPU] = amount("", int64(t.GPU.Whole))
	}
	if t.GPU.Milli > 0 {
		resources[hollow.ResourceGPUMilli] = amount("", int64(t.GPU.Milli))
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: m.name},
		Spec: corev1.PodSpec{
			SchedulerName: spec.DefaultSchedulerName, NodeName: on,
			Containers: []corev1.Container{{
				Name: "main", Image: "scenario", Resources: corev1.ResourceRequirements{Requests: resources, Limits: extended(resources)},
			}},
		},
	}
	if on != "" {
		pod.Spec.SchedulerName = foreignScheduler
	}
	for _, l := range t.Selector {
		if pod.Spec.NodeSelector == nil {
			pod.Spec.NodeSelector = make(map[string]string)
		}
		pod.Spec.NodeSelector[l.Key] = l.Value
	}
	if class := priorityObject(t.Priority, t.NeverPreempts); class != nil {
		pod.Spec.PriorityClassName = class.Name
	}
	if t.Deadline > 0 {
		seconds := max(int64(h.real(t.Deadline).Seconds()), 1)
		pod.Spec.ActiveDeadlineSeconds = &seconds
	}
	if c.kind == kindGang {
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &c.name}
	}
	pod.Labels = map[string]string{scenario.LabelSet: c.name}
	if m.subgroup != "" {
		pod.Labels[spec.LabelSubgroup] = m.subgroup
	}
	return pod
}

// reservationObject is a Reservation whose owners are the pods of a set. Its template is what these pods are.
func reservationObject(step *scenario.AddReservation, h Header) *v1alpha1.Reservation {
	pod := podObject(&cast{kind: kindPods, namespace: step.Namespace, name: step.For, template: step.Pod}, &member{}, h, "")
	r := &v1alpha1.Reservation{
		ObjectMeta: metav1.ObjectMeta{Namespace: step.Namespace, Name: step.Name},
		Spec: v1alpha1.ReservationSpec{
			Template: corev1.PodTemplateSpec{Spec: pod.Spec}, Count: int32(step.Count),
			Owners: []v1alpha1.ReservationOwner{{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{scenario.LabelSet: step.For}}}},
		},
	}
	if step.TTL > 0 {
		r.Spec.TTL = &metav1.Duration{Duration: h.real(step.TTL)}
	}
	return r
}

// extended is the part of the requests that must be limits, too.
func extended(requests corev1.ResourceList) corev1.ResourceList {
	limits := corev1.ResourceList{}
	for _, name := range []corev1.ResourceName{hollow.ResourceGPU, hollow.ResourceGPUMilli} {
		if quantity, ok := requests[name]; ok {
			limits[name] = quantity
		}
	}
	return limits
}

func part(at, of, size int) string { return fmt.Sprintf("part-%d", at*of/size) }

// packing is the labels by which a gang is packed, in the order of the simulator.
func packing(u *facts.Unit) (labels []string) {
	seen := make(map[string]bool)
	for _, label := range []string{
		u.Topology.Required, u.Topology.Preferred, u.Topology.Spread, u.Topology.Uniform, u.SubgroupTopology.Required, u.SubgroupTopology.Preferred,
	} {
		if label != "" && !seen[label] {
			labels, seen[label] = append(labels, label), true
		}
	}
	return labels
}

// kindGang and kindPods are the kinds of scenario.Set.
const kindGang, kindPods = string(scenario.OfGang), string(scenario.OfPods)
