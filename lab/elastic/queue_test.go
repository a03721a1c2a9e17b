package elastic

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"hilbert.dev/hilbert/api/spec"
)

// memoryPerCPU is what pods ask for with each CPU, in bytes.
const memoryPerCPU = 1 << 30

// member is a pod as it was made. Its line is it and those that were made in its place.
type member struct {
	line, generation      int
	online, probe         bool
	node                  string
	isBound, runs, leaves bool
}

// watch writes down what becomes of pods, and makes anew whoever is evicted.
func (b *bed) watch(ctx context.Context, tasks *sync.WaitGroup) error {
	factory := informers.NewSharedInformerFactory(b.client, 0)
	informer := factory.Core().V1().Pods().Informer()
	see := func(object any) {
		pod, ok := object.(*corev1.Pod)
		if !ok {
			return
		}
		if pod.Spec.NodeName != "" {
			b.note(bound, pod.Name, pod.Spec.NodeName)
		}
		if pod.DeletionTimestamp != nil {
			b.leaves(ctx, tasks, pod)
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: see, UpdateFunc: func(_, object any) { see(object) },
		DeleteFunc: func(object any) {
			if gone, missed := object.(cache.DeletedFinalStateUnknown); missed {
				object = gone.Obj
			}
			if pod, ok := object.(*corev1.Pod); ok {
				b.leaves(ctx, tasks, pod)
			}
		},
	})
	if err != nil {
		return err
	}
	tasks.Go(func() { informer.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return context.Cause(ctx)
	}
	return nil
}

// note writes something down about a pod, once.
func (b *bed) note(what, pod, node string) (m *member, isNew bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if m = b.queue[pod]; m == nil {
		return nil, false
	}
	done := map[string]*bool{bound: &m.isBound, runs: &m.runs, leaves: &m.leaves}[what]
	if done != nil && *done {
		return m, false
	}
	if done != nil {
		*done = true
	}
	if node != "" {
		m.node = node
	}
	b.result.Events = append(b.result.Events, Event{At: b.now(), What: what, Pod: pod, Line: m.line, Node: m.node, Online: m.online, Probe: m.probe})
	return m, true
}

// leaves makes another pod in the place of one that is evicted, as its controller would.
func (b *bed) leaves(ctx context.Context, tasks *sync.WaitGroup, pod *corev1.Pod) {
	m, first := b.note(leaves, pod.Name, pod.Spec.NodeName)
	if m == nil || !first || m.online {
		return
	}
	b.log.Info("evicted", "at", b.now(), "pod", pod.Name, "node", pod.Spec.NodeName)
	again := member{line: m.line, generation: m.generation + 1}
	tasks.Go(func() {
		for b.create(ctx, again) != nil && ctx.Err() == nil {
			time.Sleep(look)
		}
	})
}

// create makes a pod.
func (b *bed) create(ctx context.Context, m member) error {
	grace := int64(1)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: fmt.Sprintf("batch-%04d-%d", m.line, m.generation)},
		Spec:       corev1.PodSpec{SchedulerName: spec.DefaultSchedulerName, TerminationGracePeriodSeconds: &grace},
	}
	amounts := corev1.ResourceList{}
	if m.online {
		pod.Name = fmt.Sprintf("web-%04d", m.line)
		pod.Labels = map[string]string{spec.LabelQoS: string(spec.QoSShared)}
		amounts[corev1.ResourceCPU] = *resource.NewQuantity(onlineCPUs, resource.DecimalSI)
		amounts[corev1.ResourceMemory] = *resource.NewQuantity(onlineCPUs*memoryPerCPU, resource.BinarySI)
	} else {
		const milli = 1000
		pod.Labels = map[string]string{spec.LabelQoS: string(spec.QoSReclaimed)}
		amounts[spec.ResourceReclaimedCPU] = *resource.NewQuantity(int64(b.Cores)*milli, resource.DecimalSI)
		amounts[spec.ResourceReclaimedMemory] = *resource.NewQuantity(int64(b.Cores)*memoryPerCPU, resource.BinarySI)
	}
	pod.Spec.Containers = []corev1.Container{{Name: "main", Image: "none", Resources: corev1.ResourceRequirements{Requests: amounts, Limits: amounts}}}
	b.mu.Lock()
	if b.queue[pod.Name] == nil {
		b.queue[pod.Name] = &m
	}
	b.mu.Unlock()
	if _, err := b.client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create pod %s: %w", pod.Name, err)
	}
	b.note(created, pod.Name, "")
	return nil
}

// createAll makes n pods of a kind, in lines of their own.
func (b *bed) createAll(ctx context.Context, n int, kind member) error {
	b.mu.Lock()
	from := len(b.queue)
	b.mu.Unlock()
	for i := range n {
		m := kind
		m.line = from + i
		if err := b.create(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// running is how many pods run that are there.
func (b *bed) running() (n, of int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.queue {
		if m.leaves {
			continue
		}
		if of++; m.runs {
			n++
		}
	}
	return n, of
}
