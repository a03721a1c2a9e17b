package demo

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// syncTimeout bounds the first list of the pods.
const syncTimeout = 30 * time.Second

// feed is a recorder as the end of a watch. It stamps what it gets with the time of its arrival and keeps no objects.
type feed struct {
	recorder *recorder
	synced   chan struct{} // closed after the first list
	once     bool
}

var _ cache.ReflectorStore = (*feed)(nil)

func (f *feed) Add(object any) error { return f.Update(object) }

func (f *feed) Update(object any) error {
	pod, err := podOf(object)
	if err != nil {
		return err
	}
	f.recorder.observe(pod, time.Now())
	return nil
}

func (f *feed) Delete(object any) error {
	pod, err := podOf(object)
	if err != nil {
		return err
	}
	f.recorder.remove(pod.UID, time.Now())
	return nil
}

// Replace takes a complete list: the first, or the one after a watch that the server closed.
func (f *feed) Replace(list []any, _ string) error {
	at := time.Now()
	there := make(map[types.UID]bool, len(list))
	for _, object := range list {
		pod, err := podOf(object)
		if err != nil {
			return err
		}
		there[pod.UID] = true
		f.recorder.observe(pod, at)
	}
	f.recorder.retain(there, at)
	if !f.once {
		f.once = true
		close(f.synced)
	}
	return nil
}

func (f *feed) Resync() error { return nil }

func podOf(object any) (*corev1.Pod, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return nil, fmt.Errorf("the watch of pods brought a %T", object)
	}
	return pod, nil
}

// follow feeds the recorder with the pods of one scheduler until ctx ends, and returns when the first list is in. wait ends when the
// watch has.
func (r *recorder) follow(ctx context.Context, client kubernetes.Interface, scheduler string) (wait func(), err error) {
	ours := fields.OneTermEqualSelector("spec.schedulerName", scheduler).String()
	pods := client.CoreV1().Pods(metav1.NamespaceAll)
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = ours
			return pods.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = ours
			return pods.Watch(ctx, o)
		},
	}
	f := &feed{recorder: r, synced: make(chan struct{})}
	reflector := cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(lw, client), &corev1.Pod{}, f, cache.ReflectorOptions{Name: "demo"})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		reflector.RunWithContext(ctx)
	}()
	select {
	case <-f.synced:
		return func() { <-ended }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-time.After(syncTimeout):
		return nil, fmt.Errorf("list the pods: no answer within %s", syncTimeout)
	}
}
