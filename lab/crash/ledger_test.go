package crash

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"hilbert.dev/hilbert/lab/hollow"
)

// annotationGPUs is where a Binding says which of the node's GPUs the pod was given.
const annotationGPUs = "hilbert.dev/gpus"

// milliPerGPU is what one GPU can give.
const milliPerGPU = 1000

// account is what one node has and what its pods took of it.
type account struct {
	allocatable, taken map[corev1.ResourceName]int64
	gpus               []int64 // milli taken of each GPU
}

// ledger adds up, pod by pod, and keeps every breach of the rules that it sees.
type ledger struct {
	mu       sync.Mutex
	nodes    map[string]*account
	bound    map[types.UID]string // node by pod
	gangs    map[string]*gangAccount
	breaches []string
	grown    chan struct{} // closed and made anew when a pod is added
}

func newLedger() *ledger {
	return &ledger{nodes: map[string]*account{}, bound: map[types.UID]string{}, gangs: map[string]*gangAccount{}, grown: make(chan struct{})}
}

// addNodes opens accounts for nodes before any pod can be on them.
func (l *ledger) addNodes(shapes []hollow.Shape) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range shapes {
		a := &account{allocatable: map[corev1.ResourceName]int64{}, taken: map[corev1.ResourceName]int64{}}
		for name, quantity := range s.Allocatable {
			a.allocatable[name] = quantity.MilliValue()
		}
		a.gpus = make([]int64, a.allocatable[hollow.ResourceGPU]/1000)
		l.nodes[s.Name] = a
	}
}

// see books a pod that the API server shows.
func (l *ledger) see(pod *corev1.Pod) {
	if pod.Spec.NodeName == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if node, known := l.bound[pod.UID]; known {
		if node != pod.Spec.NodeName {
			l.breach("pod %s moved from %s to %s", pod.Name, node, pod.Spec.NodeName)
		}
		return
	}
	l.bound[pod.UID] = pod.Spec.NodeName
	if g := pod.Spec.SchedulingGroup; g != nil && g.PodGroupName != nil {
		l.bookGang(*g.PodGroupName)
	}
	a := l.nodes[pod.Spec.NodeName]
	if a == nil {
		l.breach("pod %s is on %s, which is no node", pod.Name, pod.Spec.NodeName)
		return
	}
	l.book(a, pod)
	close(l.grown)
	l.grown = make(chan struct{})
}

func (l *ledger) book(a *account, pod *corev1.Pod) {
	requests := map[corev1.ResourceName]int64{corev1.ResourcePods: 1000}
	for _, c := range pod.Spec.Containers {
		for name, quantity := range c.Resources.Requests {
			requests[name] += quantity.MilliValue()
		}
	}
	for name, milli := range requests {
		a.taken[name] += milli
		if a.taken[name] > a.allocatable[name] {
			l.breach("pod %s takes %s of %s to %d of %d (thousandths)", pod.Name, name, pod.Spec.NodeName, a.taken[name], a.allocatable[name])
		}
	}
	if share := requests[hollow.ResourceGPUMilli] / 1000; share > 0 {
		l.bookGPU(a, pod, share)
	}
}

// bookGPU charges a pod that takes a part of one GPU to the GPU that its Binding named: "INDEX:THOUSANDTHS".
func (l *ledger) bookGPU(a *account, pod *corev1.Pod, share int64) {
	named, part, _ := strings.Cut(pod.Annotations[annotationGPUs], ":")
	index, err := strconv.Atoi(named)
	if err != nil || part != strconv.FormatInt(share, 10) || index < 0 || index >= len(a.gpus) {
		l.breach("pod %s on %s: GPUs %q, want %d of one of %d", pod.Name, pod.Spec.NodeName, pod.Annotations[annotationGPUs], share, len(a.gpus))
		return
	}
	a.gpus[index] += share
	if a.gpus[index] > milliPerGPU {
		l.breach("pod %s takes GPU %d of %s to %d of %d", pod.Name, index, pod.Spec.NodeName, a.gpus[index], milliPerGPU)
	}
}

func (l *ledger) breach(format string, args ...any) {
	l.breaches = append(l.breaches, fmt.Sprintf(format, args...))
}

// count returns how many pods are bound, what is wrong, and a channel that closes when there are more.
func (l *ledger) count() (bound int, breaches []string, grown <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.judgeGangs(time.Now())
	return len(l.bound), l.breaches, l.grown
}

// follow keeps the ledger until ctx ends. It misses nothing: a watch that breaks is resumed, also over restarts of the API server, and one that expired begins with a list.
func (l *ledger) follow(ctx context.Context, client kubernetes.Interface) error {
	version, heard := "", time.Now()
	for {
		next, err := l.read(ctx, client, version)
		switch {
		case ctx.Err() != nil:
			return nil
		case apierrors.IsResourceExpired(err) || apierrors.IsGone(err):
			next = ""
		case err != nil && time.Since(heard) > patience:
			return err
		case err != nil:
			time.Sleep(50 * time.Millisecond)
		}
		if next != version {
			version, heard = next, time.Now()
		} else if err == nil {
			heard = time.Now()
		}
	}
}

// read books what there is after a version, from a list if it is "", until the watch ends. It returns the version up to which it got.
func (l *ledger) read(ctx context.Context, client kubernetes.Interface, version string) (string, error) {
	if version == "" {
		list, err := client.CoreV1().Pods(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
		if err != nil {
			return version, fmt.Errorf("list pods: %w", err)
		}
		for i := range list.Items {
			l.see(&list.Items[i])
		}
		version = list.ResourceVersion
	}
	w, err := client.CoreV1().Pods(metav1.NamespaceDefault).Watch(ctx, metav1.ListOptions{ResourceVersion: version, AllowWatchBookmarks: true})
	if err == nil {
		version, err = l.drain(w, version)
	}
	if err != nil {
		return version, fmt.Errorf("watch pods: %w", err)
	}
	return version, nil
}

// drain books what a watch tells until it ends.
func (l *ledger) drain(w watch.Interface, version string) (string, error) {
	defer w.Stop()
	for event := range w.ResultChan() {
		if event.Type == watch.Error {
			return version, apierrors.FromObject(event.Object)
		}
		pod, ok := event.Object.(*corev1.Pod)
		if !ok {
			return version, fmt.Errorf("unexpected %T", event.Object)
		}
		version = pod.ResourceVersion
		if event.Type != watch.Bookmark {
			l.see(pod)
		}
	}
	return version, nil
}
