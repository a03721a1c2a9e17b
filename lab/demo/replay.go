package demo

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/lab/hollow"
	names "hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/sim/trace"
	"hilbert.dev/hilbert/topology"
)

const (
	// replayNamespace is where a trace's pods live.
	replayNamespace = "trace"
	// creators bounds the pods being created at once.
	creators = 16
	// arrivalBuffer bounds the arrivals that wait for a creator; a trace that is faster than the API server waits with them.
	arrivalBuffer = 64
)

// replay is work recorded in a trace.
type replay struct {
	workload *trace.Workload
	tasks    []*corev1.Pod
	arrive   []time.Duration // of each pod, since the start
	pace     pace
}

// newReplay turns a trace into pods with a time of arrival and a time to run.
func newReplay(w *trace.Workload, scale, lifeScale float64) (*replay, error) {
	p, err := newPace(w, scale, lifeScale)
	if err != nil {
		return nil, err
	}
	r := &replay{workload: w, pace: p}
	for i := range w.Tasks {
		t := &w.Tasks[i]
		r.arrive = append(r.arrive, p.at(t.Created))
		r.tasks = append(r.tasks, taskPod(t, p.life(t)))
	}
	return r, nil
}

func (r *replay) title() string     { return "Trace replay" }
func (r *replay) controllers() bool { return false }
func (r *replay) awaitsEnds() bool  { return false }
func (r *replay) pods() int         { return len(r.tasks) }
func (r *replay) notes() []string   { return r.pace.notes() }

func (r *replay) source() string {
	format, file, found := strings.Cut(r.workload.Name, " ")
	if !found {
		return r.workload.Name
	}
	return format + " " + filepath.Base(file)
}

func (r *replay) shapes() []hollow.Shape {
	out := make([]hollow.Shape, len(r.workload.Nodes))
	for i, n := range r.workload.Nodes {
		out[i] = traceShape(n)
	}
	return out
}

// traceShape is a trace's node as a hollow one.
func traceShape(n *facts.Node) hollow.Shape {
	s := hollow.Shape{Name: n.Name, Labels: make(map[string]string, len(n.Labels)), Allocatable: make(corev1.ResourceList)}
	maps.Copy(s.Labels, n.Labels)
	for _, q := range n.Allocatable {
		s.Allocatable[corev1.ResourceName(q.Name)] = quantity(q)
	}
	if gpus := int64(n.GPU.GPUs); gpus > 0 {
		s.Labels[spec.LabelGPUModel] = n.GPU.Model
		s.Allocatable[spec.ResourceNvidiaGPU] = *resource.NewQuantity(gpus, resource.DecimalSI)
		s.Allocatable[spec.ResourceGPUMilli] = *resource.NewQuantity(gpus*topology.FullGPU, resource.DecimalSI)
	}
	return s
}

func quantity(q names.Quantity) resource.Quantity {
	switch q.Name {
	case names.NameCPU:
		return *resource.NewMilliQuantity(q.Amount, resource.DecimalSI)
	case names.NameMemory:
		return *resource.NewQuantity(q.Amount, resource.BinarySI)
	default:
		return *resource.NewQuantity(q.Amount, resource.DecimalSI)
	}
}

// taskPod is a task as a pod that runs for life once it has started; for ever if life is negative.
func taskPod(t *trace.Task, life time.Duration) *corev1.Pod {
	list := make(corev1.ResourceList)
	for _, q := range t.Requirements.Requests {
		list[corev1.ResourceName(q.Name)] = quantity(q)
	}
	limits := make(corev1.ResourceList) // extended resources need a limit equal to the request
	if milli := t.Requirements.GPU.Milli; milli > 0 {
		limits[spec.ResourceGPUMilli] = *resource.NewQuantity(int64(milli), resource.DecimalSI)
	}
	if whole := t.Requirements.GPU.Whole; whole > 0 {
		limits[spec.ResourceNvidiaGPU] = *resource.NewQuantity(int64(whole), resource.DecimalSI)
	}
	maps.Copy(list, limits)
	group, work := "unnamed", offline
	if t.Group != "" {
		group = t.Group
	}
	if t.Priority > 0 {
		work = "online"
	}
	noToken := false
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: t.Name, Namespace: replayNamespace, Labels: map[string]string{labelApp: group, labelWork: work}},
		Spec: corev1.PodSpec{
			SchedulerName: spec.DefaultSchedulerName, RestartPolicy: corev1.RestartPolicyNever, PriorityClassName: priorityClass(t.Priority),
			AutomountServiceAccountToken: &noToken, Affinity: affinity(t.Requirements.Required),
			Containers: []corev1.Container{{Name: "main", Image: "example.com/trace:1", Resources: corev1.ResourceRequirements{Requests: list, Limits: limits}}},
		},
	}
	if life >= 0 {
		pod.Annotations = map[string]string{hollow.AnnotationRunSeconds: strconv.FormatFloat(life.Seconds(), 'f', 3, 64)}
	}
	return pod
}

// affinity is required terms as the API has them. The importer of openb makes only In over labels.
func affinity(terms []facts.Term) *corev1.Affinity {
	if len(terms) == 0 {
		return nil
	}
	var selector corev1.NodeSelector
	for _, t := range terms {
		var term corev1.NodeSelectorTerm
		for _, e := range t.Expressions {
			term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{
				Key: e.Key, Operator: corev1.NodeSelectorOpIn, Values: e.Values,
			})
		}
		selector.NodeSelectorTerms = append(selector.NodeSelectorTerms, term)
	}
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &selector}}
}

func priorityClass(priority int32) string {
	if priority == 0 {
		return ""
	}
	return fmt.Sprintf("trace-%d", priority)
}

// create lets the pods arrive in their order, each no earlier than its time, and returns when the last one exists.
func (r *replay) create(ctx context.Context, client kubernetes.Interface, _ *recorder) error {
	if err := r.prepare(ctx, client); err != nil {
		return err
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	arrivals := make(chan *corev1.Pod, arrivalBuffer)
	var workers sync.WaitGroup
	for range creators {
		workers.Go(func() {
			for pod := range arrivals {
				if _, err := client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
					fail(fmt.Errorf("create pod %s: %w", pod.Name, err))
				}
			}
		})
	}
	r.arrivals(ctx, arrivals)
	close(arrivals)
	workers.Wait()
	return context.Cause(ctx)
}

func (r *replay) arrivals(ctx context.Context, out chan<- *corev1.Pod) {
	started := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for i, pod := range r.tasks {
		timer.Reset(r.arrive[i] - time.Since(started))
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		select {
		case out <- pod:
		case <-ctx.Done():
			return
		}
	}
}

// prepare creates what the pods refer to.
func (r *replay) prepare(ctx context.Context, client kubernetes.Interface) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: replayNamespace}}
	if _, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create namespace %s: %w", replayNamespace, err)
	}
	made := map[int32]bool{0: true}
	for i := range r.workload.Tasks {
		priority := r.workload.Tasks[i].Priority
		if made[priority] {
			continue
		}
		made[priority] = true
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: priorityClass(priority)}, Value: priority}
		if _, err := client.SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create priority class %s: %w", class.Name, err)
		}
	}
	return nil
}
