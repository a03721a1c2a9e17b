package decide

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	typedresourcev1 "k8s.io/client-go/kubernetes/typed/resource/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	scenarios "hilbert.dev/hilbert/bench"
)

// kubeNode returns the machine as an API object.
func kubeNode(n *scenarios.Node) *corev1.Node {
	resources := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(n.CPU, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(n.Memory, resource.BinarySI),
		corev1.ResourcePods:   *resource.NewQuantity(n.Pods, resource.DecimalSI),
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, UID: types.UID(n.Name), Labels: n.Labels},
		Status:     corev1.NodeStatus{Capacity: resources, Allocatable: resources},
	}
	for _, name := range n.Images {
		node.Status.Images = append(node.Status.Images, corev1.ContainerImage{Names: []string{name}, SizeBytes: scenarios.ImageSize})
	}
	if n.Tainted {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: scenarios.TaintKey, Effect: corev1.TaintEffectNoSchedule})
	}
	if n.Shunned {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: "shunned", Effect: corev1.TaintEffectPreferNoSchedule})
	}
	return node
}

// kubePod returns a template of the class's pods as an API object: name, UID and priority are left open. What hangs on it is shared by
// all pods of the class.
func kubePod(c *scenarios.Class) *corev1.Pod {
	labels := map[string]string{scenarios.LabelApp: c.Name}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: scenarios.Namespace, Labels: labels},
		Spec: corev1.PodSpec{
			SchedulerName: corev1.DefaultSchedulerName,
			Containers: []corev1.Container{{Name: "main", Image: "example.com/app:1", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU:    *resource.NewMilliQuantity(c.CPU, resource.DecimalSI),
				corev1.ResourceMemory: *resource.NewQuantity(c.Memory, resource.BinarySI),
			}}}},
		},
	}
	if c.Pool != "" {
		pod.Spec.NodeSelector = map[string]string{scenarios.LabelPool: c.Pool}
	}
	if c.Key != "" {
		pod.Spec.NodeSelector = map[string]string{c.Key: "1"}
	}
	if c.Image != "" {
		pod.Spec.Containers[0].Image = c.Image
	}
	if c.Node != "" {
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
				{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{c.Node}},
			}}},
		}}}
	}
	if c.Tolerates {
		pod.Spec.Tolerations = []corev1.Toleration{{Key: scenarios.TaintKey, Operator: corev1.TolerationOpExists}}
	}
	term := func(key string) []corev1.PodAffinityTerm {
		return []corev1.PodAffinityTerm{{TopologyKey: key, LabelSelector: selector}}
	}
	switch c.Constraint {
	case scenarios.Owned:
		controller := true
		pod.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "apps/v1", Kind: "ReplicaSet", Name: c.Name, UID: types.UID(c.Name), Controller: &controller,
		}}
	case scenarios.Spread:
		pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			TopologyKey: scenarios.LabelZone, MaxSkew: 1, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selector,
		}}
	case scenarios.AntiAffinity:
		pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: term(scenarios.LabelHostname),
		}}
	case scenarios.Affinity:
		pod.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: term(scenarios.LabelZone),
		}}
	}
	return pod
}

// kubeReplicaSet owns the pods of the class.
func kubeReplicaSet(c *scenarios.Class) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: scenarios.Namespace, Name: c.Name, UID: types.UID(c.Name)},
		Spec:       appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{scenarios.LabelApp: c.Name}}},
	}
}

func kubeUID(i int) types.UID { return types.UID(scenarios.PodUID(i)) }

// startTime is the moment in nanoseconds since the Unix epoch.
func startTime(nanoseconds int64) *metav1.Time { return &metav1.Time{Time: time.Unix(0, nanoseconds)} }

// memoryClient is the API server as far as preemption needs one: a nomination is seen by the queue, a deleted pod is gone at once. Any
// other call is a mistake of the harness and panics.
type memoryClient struct {
	kubernetes.Interface
	side *kubeSide
}

func (c *memoryClient) CoreV1() typedcorev1.CoreV1Interface { return memoryCore{side: c.side} }

// ResourceV1 is asked for by the case of devices.
func (c *memoryClient) ResourceV1() typedresourcev1.ResourceV1Interface {
	return memoryResources{side: c.side}
}

type memoryCore struct {
	typedcorev1.CoreV1Interface
	side *kubeSide
}

func (c memoryCore) Pods(string) typedcorev1.PodInterface { return memoryPods{side: c.side} }

func (c memoryCore) PersistentVolumeClaims(string) typedcorev1.PersistentVolumeClaimInterface {
	return memoryVolumeClaims{side: c.side}
}

// Events is asked for by a recorder that never records: nothing that it could tell about exists.
func (memoryCore) Events(string) typedcorev1.EventInterface { return nil }

type memoryPods struct {
	typedcorev1.PodInterface
	side *kubeSide
}

// Patch takes a nomination in. The DisruptionTarget condition of a victim is of no consequence here.
func (p memoryPods) Patch(
	_ context.Context, name string, _ types.PatchType, data []byte, _ metav1.PatchOptions, _ ...string,
) (*corev1.Pod, error) {
	pod, err := p.get(name)
	if err != nil || pod == nil || pod.Spec.NodeName != "" {
		return pod, err
	}
	var patch struct {
		Status struct {
			NominatedNodeName string `json:"nominatedNodeName"`
		} `json:"status"`
	}
	if err := json.Unmarshal(data, &patch); err != nil {
		return nil, fmt.Errorf("patch of pod %s: %w", name, err)
	}
	nominated := *pod
	nominated.Status.NominatedNodeName = patch.Status.NominatedNodeName
	if err := p.side.known.Update(&nominated); err != nil {
		return nil, fmt.Errorf("index a pod: %w", err)
	}
	p.side.scheduler.SchedulingQueue.Update(p.side.ctx, pod, &nominated)
	return &nominated, nil
}

// Delete lets a victim leave at once.
func (p memoryPods) Delete(_ context.Context, name string, _ metav1.DeleteOptions) error {
	k := p.side
	pod, err := p.get(name)
	if err != nil || pod == nil {
		return err
	}
	k.mu.Lock()
	k.victims++
	k.mu.Unlock()
	if err := k.gone(pod); err != nil {
		return err
	}
	k.scheduler.SchedulingQueue.MoveAllToActiveOrBackoffQueue(klog.Logger{}, framework.EventAssignedPodDelete, pod, nil, nil)
	return nil
}

func (p memoryPods) get(name string) (*corev1.Pod, error) {
	found, ok, err := p.side.known.GetByKey(scenarios.Namespace + "/" + name)
	if err != nil || !ok {
		return nil, err
	}
	return found.(*corev1.Pod), nil
}
