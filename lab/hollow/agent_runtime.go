package hollow

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/internal/clock"
	"hilbert.dev/hilbert/node/enforce"
	"hilbert.dev/hilbert/node/runtime"
	"hilbert.dev/hilbert/topology"
)

// runningPod is what the runtime would tell of a pod.
type runningPod struct {
	sandbox   runtime.Sandbox
	container runtime.Container
}

// begin runs a pod, unless it runs already. The error is why the agent refuses it.
func (a *Agent) begin(ctx context.Context, pod *corev1.Pod) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, runs := a.running[pod.UID]; runs {
		return nil
	}
	s := sandboxOf(pod)
	c := runtime.Container{ID: path.Base(s.Cgroup), Sandbox: s.ID, Name: "main", Cgroup: s.Cgroup + "/main"}
	a.kernel.makeCgroup(s.Cgroup)
	err := a.agent.RunSandbox(ctx, s)
	var given runtime.Adjustment
	if err == nil {
		given, err = a.agent.CreateContainer(ctx, s, c)
	}
	if err != nil {
		a.noteRefusal(pod, err)
		a.kernel.removeCgroup(s.Cgroup)
		return err
	}
	a.kernel.makeCgroup(c.Cgroup)
	a.kernel.adjust(c.Cgroup, given)
	c.CPUs, c.Mems, c.Exists = given.CPUs, given.Mems, true
	a.kernel.know(c)
	a.kernel.change(func(w *work) { w.add(&s, &c) })
	a.running[pod.UID] = runningPod{s, c}
	if a.options.Began != nil {
		a.options.Began(a.name, pod)
	}
	return a.agent.ContainerCreated(ctx, c.ID)
}

func (a *Agent) noteRefusal(pod *corev1.Pod, why error) {
	if _, known := a.refused[pod.UID]; known {
		return
	}
	r := Refusal{Pod: pod.Name, Why: why.Error()}
	for uid := range a.running {
		r.Beside = append(r.Beside, a.running[uid].sandbox.Name)
	}
	slices.Sort(r.Beside)
	a.refused[pod.UID] = r
}

// end ends a pod, if it runs.
func (a *Agent) end(ctx context.Context, uid types.UID) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	p, runs := a.running[uid]
	if !runs {
		return nil
	}
	if err := a.agent.StopContainer(ctx, p.container.ID); err != nil {
		return err
	}
	if err := a.agent.StopSandbox(ctx, p.sandbox.ID); err != nil {
		return err
	}
	a.kernel.forget(p.container.ID)
	a.kernel.change(func(w *work) { w.remove(p.sandbox.Cgroup) })
	a.kernel.removeCgroup(p.sandbox.Cgroup)
	delete(a.running, uid)
	return nil
}

// Running returns the CPUs that the kernel lets each pod's container run on, by UID.
func (a *Agent) Running() map[types.UID]topology.CPUSet {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make(map[types.UID]topology.CPUSet, len(a.running))
	for uid := range a.running {
		text, _ := a.kernel.Read(a.running[uid].container.Cgroup + "/" + enforce.CPUSet)
		out[uid], _ = topology.ParseCPUSet(text)
	}
	return out
}

// sandboxOf is what the kubelet would tell the runtime of a pod.
func sandboxOf(pod *corev1.Pod) runtime.Sandbox {
	s := runtime.Sandbox{
		ID: "sandbox-" + string(pod.UID), UID: string(pod.UID), Namespace: pod.Namespace, Name: pod.Name,
		Labels: pod.Labels, Annotations: pod.Annotations, Cgroup: "kubepods/pod" + string(pod.UID),
	}
	limited := len(pod.Spec.Containers) > 0
	for i := range pod.Spec.Containers {
		r := &pod.Spec.Containers[i].Resources
		s.Amounts.MilliCPU += r.Requests.Cpu().MilliValue()
		s.Amounts.MemoryLimit += r.Limits.Memory().Value()
		limited = limited && !r.Limits.Memory().IsZero()
		for _, list := range []corev1.ResourceList{r.Requests, r.Limits} { // no other resources count
			_, cpu := list[corev1.ResourceCPU]
			_, memory := list[corev1.ResourceMemory]
			s.BestEffort = s.BestEffort || cpu || memory
		}
	}
	s.BestEffort = !s.BestEffort
	if !limited {
		s.Amounts.MemoryLimit = 0
	}
	return s
}

// trimForAgent keeps of a cached pod what a runtime is told.
func trimForAgent(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	slim := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
			DeletionTimestamp: pod.DeletionTimestamp, Labels: pod.Labels, Annotations: maps.Clone(pod.Annotations),
		},
		Spec:   corev1.PodSpec{NodeName: pod.Spec.NodeName},
		Status: corev1.PodStatus{Phase: pod.Status.Phase},
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		slim.Spec.Containers = append(slim.Spec.Containers, corev1.Container{Name: c.Name, Resources: c.Resources})
	}
	return slim, nil
}

// removePod is what a kubelet does when the last container has stopped: delete without grace.
func removePod(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod) error {
	now := int64(0)
	err := client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now, Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("remove pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// mapKernel is the cgroups of a node, and the runtime's way to them.
type mapKernel struct {
	mu         sync.Mutex
	files      map[string]string
	containers map[string]string // their cgroups by ID
	work       *work             // what the pods do; nil: that is not modelled
	clock      clock.Clock
}

func newMapKernel(by clock.Clock) *mapKernel {
	return &mapKernel{clock: by, files: make(map[string]string), containers: make(map[string]string)}
}

// change changes the load of a modelled node; up to now it was as before.
func (k *mapKernel) change(how func(*work)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.work != nil {
		k.pass()
		how(k.work)
	}
}

// pass lets time pass in the model: something changes now. k.mu is held.
func (k *mapKernel) pass() {
	if k.work != nil {
		k.work.pass(k.clock.Now(), k.files)
		k.work.known = false
	}
}

// fresh are the files of a new cgroup.
var fresh = map[string]string{enforce.CPUSet: "", enforce.Mems: "", enforce.CPUIdle: "0", enforce.CPUWeight: "100", enforce.MemoryMax: "max", enforce.OOMScoreAdj: "0"}

func (k *mapKernel) makeCgroup(cgroup string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for file, value := range fresh {
		k.files[cgroup+"/"+file] = value
	}
}

// removeCgroup removes a cgroup and those below it.
func (k *mapKernel) removeCgroup(cgroup string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.files, func(name, _ string) bool { return strings.HasPrefix(name, cgroup+"/") })
}

func (k *mapKernel) adjust(cgroup string, a runtime.Adjustment) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pass()
	k.files[cgroup+"/"+enforce.CPUSet], k.files[cgroup+"/"+enforce.Mems] = a.CPUs.String(), a.Mems.String()
	if a.OOMScoreAdj != nil {
		k.files[cgroup+"/"+enforce.OOMScoreAdj] = strconv.Itoa(*a.OOMScoreAdj)
	}
}

func (k *mapKernel) know(c runtime.Container) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.containers[c.ID] = c.Cgroup
}

func (k *mapKernel) forget(container string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.containers, container)
}

// Read implements enforce.Kernel.
func (k *mapKernel) Read(name string) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	value, ok := k.files[name]
	if !ok {
		return "", fmt.Errorf("%s: %w", name, syscall.ENOENT)
	}
	return value, nil
}

// Write implements enforce.Kernel.
func (k *mapKernel) Write(name, value string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pass()
	if _, ok := k.files[name]; !ok {
		return fmt.Errorf("%s: %w", name, syscall.ENODEV)
	}
	k.files[name] = value
	return nil
}

// Update implements runtime.Updater.
func (k *mapKernel) Update(updates []runtime.Update) (failed []string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pass()
	for i := range updates {
		u := &updates[i]
		cgroup, known := k.containers[u.Container]
		if !known {
			continue // it has ended meanwhile
		}
		if !u.CPUs.IsEmpty() {
			k.files[cgroup+"/"+enforce.CPUSet] = u.CPUs.String()
		}
		if !u.Mems.IsEmpty() {
			k.files[cgroup+"/"+enforce.Mems] = u.Mems.String()
		}
	}
	return nil, nil
}

// mapStore is a store.Store in memory.
type mapStore struct {
	mu   sync.Mutex
	data []byte
}

// Load implements store.Store.
func (s *mapStore) Load() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.data, nil
}

// Save implements store.Store.
func (s *mapStore) Save(data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.data = slices.Clone(data)
	return nil
}

// AgentShapes are n nodes of a machine, as big for the scheduler as its agent can promise: without what is reserved.
func AgentShapes(n int, m *topology.Machine, config spec.Node) []Shape {
	var memory int64
	for i := range m.NUMA {
		memory += m.NUMA[i].Memory - int64(*config.ReservedMemory)*topology.Mebibyte
	}
	cpus := len(m.CPUs) - *config.ReservedCores*m.Threads()
	shapes := make([]Shape, n)
	for i := range shapes {
		shapes[i] = Shape{Name: fmt.Sprintf("node-%05d", i), Allocatable: corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewQuantity(int64(cpus), resource.DecimalSI),
			corev1.ResourceMemory: *resource.NewQuantity(memory, resource.BinarySI),
			corev1.ResourcePods:   *resource.NewQuantity(podsPerNode, resource.DecimalSI),
		}}
	}
	return shapes
}
