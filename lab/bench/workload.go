package bench

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/lab/hollow"
)

const (
	// namespace holds the pods of a round.
	namespace = "bench"
	// tainted is how often a node is dedicated in a mixed run: one in so many.
	tainted = 33
	// dedicated is the key and batch the value of the taint on those nodes.
	dedicated, batch = "dedicated", "batch"
)

// class is one kind of pod; pods of a class are interchangeable.
type class struct {
	name     string
	milliCPU int64
	memory   int64 // MiB
	selector map[string]string
	tolerate bool
	priority string
}

// uniform is the only class of a run that is not mixed.
var uniform = []class{{name: "uniform", milliCPU: 250, memory: 512}}

// mixed is sixteen classes as they meet in one cluster: services in zones, workers on certain machines, batch that tolerates
// dedicated nodes, at three priorities.
var mixed = []class{
	{name: "web-small", milliCPU: 100, memory: 128, priority: "online"},
	{name: "web-medium", milliCPU: 500, memory: 512, priority: "online"},
	{name: "web-large", milliCPU: 2000, memory: 4096, priority: "online"},
	{name: "zone-a", milliCPU: 250, memory: 512, priority: "online", selector: map[string]string{corev1.LabelTopologyZone: "lab-a"}},
	{name: "zone-b", milliCPU: 250, memory: 512, priority: "online", selector: map[string]string{corev1.LabelTopologyZone: "lab-b"}},
	{name: "zone-c", milliCPU: 250, memory: 512, priority: "online", selector: map[string]string{corev1.LabelTopologyZone: "lab-c"}},
	{name: "cache", milliCPU: 1000, memory: 8192, priority: "online"},
	{name: "worker-small", milliCPU: 200, memory: 256},
	{name: "worker-medium", milliCPU: 750, memory: 1536},
	{name: "worker-large", milliCPU: 1500, memory: 2048},
	{name: "on-medium", milliCPU: 400, memory: 768, selector: map[string]string{corev1.LabelInstanceTypeStable: "lab.16c64"}},
	{name: "on-large", milliCPU: 600, memory: 1024, selector: map[string]string{corev1.LabelInstanceTypeStable: "lab.32c128"}},
	{name: "batch-small", milliCPU: 100, memory: 256, tolerate: true, priority: "offline"},
	{name: "batch-medium", milliCPU: 300, memory: 1024, tolerate: true, priority: "offline"},
	{name: "batch-large", milliCPU: 1200, memory: 3072, tolerate: true, priority: "offline"},
	{name: "batch-zone", milliCPU: 150, memory: 384, tolerate: true, priority: "offline", selector: map[string]string{corev1.LabelTopologyZone: "lab-a"}},
}

// priorities are the priority classes that the classes name.
var priorities = []schedulingv1.PriorityClass{
	{ObjectMeta: metav1.ObjectMeta{Name: "online"}, Value: 1000},
	{ObjectMeta: metav1.ObjectMeta{Name: "offline"}, Value: -1000},
}

// workload is what a run schedules, and on what.
type workload struct {
	classes []class
	shapes  []hollow.Shape
	gang    int // members of each, 0 for pods that are units of their own
}

// newWorkload refuses what cannot be bound in full: a benchmark of pods that do not fit measures something else.
func newWorkload(o Options) (workload, error) {
	w := workload{classes: uniform, shapes: hollow.Shapes(o.Nodes), gang: o.Gang}
	if o.Mixed {
		w.classes = mixed
		for i := range w.shapes {
			if i%tainted == tainted-1 {
				w.shapes[i].Taints = []corev1.Taint{{Key: dedicated, Value: batch, Effect: corev1.TaintEffectNoSchedule}}
			}
		}
	}
	var haveCPU, havePods, needCPU int64
	for _, s := range w.shapes {
		haveCPU += s.Allocatable.Cpu().MilliValue()
		havePods += s.Allocatable.Pods().Value()
	}
	for i := range o.Pods {
		needCPU += w.class(i).milliCPU
	}
	// Half of everything: the selectors of a mixed run reach only a part of the nodes.
	if 2*needCPU > haveCPU || 2*int64(o.Pods) > havePods {
		return workload{}, fmt.Errorf("%d pods (%d cores) are too many for %d nodes (%d cores, %d pods), of which the benchmark fills at most half: "+
			"give more --nodes or fewer --pods", o.Pods, needCPU/1000, o.Nodes, haveCPU/1000, havePods)
	}
	return w, nil
}

// pod is the i-th pod of a round, for the scheduler of that name.
func (w workload) pod(i int, name, scheduler string) *corev1.Pod {
	c := w.class(i)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": c.name}},
		Spec: corev1.PodSpec{
			SchedulerName:     scheduler,
			PriorityClassName: c.priority,
			NodeSelector:      c.selector,
			Containers: []corev1.Container{{
				Name: "main", Image: "bench",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceCPU:    *resource.NewMilliQuantity(c.milliCPU, resource.DecimalSI),
					corev1.ResourceMemory: *resource.NewQuantity(c.memory<<20, resource.BinarySI),
				}},
			}},
		},
	}
	if c.tolerate {
		pod.Spec.Tolerations = []corev1.Toleration{
			{Key: dedicated, Operator: corev1.TolerationOpEqual, Value: batch, Effect: corev1.TaintEffectNoSchedule},
		}
	}
	w.join(pod, i)
	return pod
}
