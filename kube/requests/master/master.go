package master

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/kube/apiserver"
)

// pause is the time before a watch that broke is made again.
const pause = 500 * time.Millisecond

// requests are what a client of ResourceRequests does.
type requests interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (*v1alpha1.ResourceRequest, error)
	Create(ctx context.Context, r *v1alpha1.ResourceRequest, o metav1.CreateOptions) (*v1alpha1.ResourceRequest, error)
	Update(ctx context.Context, r *v1alpha1.ResourceRequest, o metav1.UpdateOptions) (*v1alpha1.ResourceRequest, error)
	Delete(ctx context.Context, name string, o metav1.DeleteOptions) error
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
}

// Client speaks for one ResourceRequest.
type Client struct {
	requests        requests
	pods            corev1client.PodInterface
	namespace, name string
}

var scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(s); err != nil {
		panic(err) // a constant
	}
	return s
}()

// New returns a client of the request of that name. Use Connect of package apiserver for the connection.
func New(c *apiserver.Connection, namespace, name string) (*Client, error) {
	own := apiserver.ForPurpose(c, "master", nil)
	shared, err := rest.HTTPClientFor(own)
	if err != nil {
		return nil, fmt.Errorf("make a client for ResourceRequest %s/%s: %w", namespace, name, err)
	}
	r, requestsErr := apiserver.NewNamespacedClient[v1alpha1.ResourceRequest, v1alpha1.ResourceRequestList](scheme, own, shared, v1alpha1.GroupVersion.WithResource(v1alpha1.ResourceRequests), namespace)
	core, coreErr := corev1client.NewForConfigAndClient(own, shared)
	if err := errors.Join(requestsErr, coreErr); err != nil {
		return nil, fmt.Errorf("make a client for ResourceRequest %s/%s: %w", namespace, name, err)
	}
	return &Client{requests: r, pods: core.Pods(namespace), namespace: namespace, name: name}, nil
}

func (c *Client) failed(did string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s ResourceRequest %s/%s: %w", did, c.namespace, c.name, err)
}

// Open creates the request, or finds the one that is there: a master before has left it. Then the spec is not looked at.
func (c *Client) Open(ctx context.Context, spec *v1alpha1.ResourceRequestSpec) (*v1alpha1.ResourceRequest, error) {
	r := &v1alpha1.ResourceRequest{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "ResourceRequest"},
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: c.name}, Spec: *spec,
	}
	made, err := c.requests.Create(ctx, r, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		made, err = c.requests.Get(ctx, c.name, metav1.GetOptions{})
	}
	return made, c.failed("open", err)
}

// change changes the spec that the API server has, as often as somebody else has changed it meanwhile.
func (c *Client) change(ctx context.Context, did string, how func(*v1alpha1.ResourceRequestSpec) error) error {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		r, err := c.requests.Get(ctx, c.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if err := how(&r.Spec); err != nil {
			return err
		}
		_, err = c.requests.Update(ctx, r, metav1.UpdateOptions{})
		return err
	})
	return c.failed(did, err)
}

// Ask adds an ask, or asks for more containers of one that is there: its count is raised to ask.Count, and never lowered.
func (c *Client) Ask(ctx context.Context, ask *v1alpha1.ResourceAsk) error {
	return c.change(ctx, "ask for more of", func(s *v1alpha1.ResourceRequestSpec) error {
		at := slices.IndexFunc(s.Asks, func(a v1alpha1.ResourceAsk) bool { return a.Name == ask.Name })
		if at < 0 {
			s.Asks = append(s.Asks, *ask)
			return nil
		}
		s.Asks[at].Count = max(s.Asks[at].Count, ask.Count)
		return nil
	})
}

// Release gives containers of an ask back.
func (c *Client) Release(ctx context.Context, ask string, indices ...int32) error {
	return c.change(ctx, "release containers of", func(s *v1alpha1.ResourceRequestSpec) error {
		at := slices.IndexFunc(s.Asks, func(a v1alpha1.ResourceAsk) bool { return a.Name == ask })
		if at < 0 {
			return fmt.Errorf("it has no ask %s", ask)
		}
		s.Asks[at].Release = slices.Compact(slices.Sorted(slices.Values(slices.Concat(s.Asks[at].Release, indices))))
		return nil
	})
}

// ErrGone says that there is no such request any more.
var ErrGone = errors.New("there is no such ResourceRequest")

// Watch calls visit with the request, at once and each time that it has changed, until that says that it is done. What came between two calls may be left out: the last state counts.
func (c *Client) Watch(ctx context.Context, visit func(*v1alpha1.ResourceRequest) (done bool, err error)) error {
	for {
		done, err := c.follow(ctx, visit)
		if done || err != nil {
			return err
		}
		if !apiserver.Pause(ctx, pause) {
			return cmp.Or(ctx.Err(), context.DeadlineExceeded)
		}
	}
}

// follow watches until the watch breaks.
func (c *Client) follow(ctx context.Context, visit func(*v1alpha1.ResourceRequest) (bool, error)) (done bool, err error) {
	r, err := c.requests.Get(ctx, c.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return false, c.failed("watch", ErrGone)
	case err != nil:
		return false, nil // the API server does not answer now: again
	}
	if done, err := visit(r); done || err != nil {
		return done, err
	}
	w, err := c.requests.Watch(ctx, metav1.ListOptions{ResourceVersion: r.ResourceVersion, FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, c.name).String()})
	if err != nil {
		return false, nil // as above
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		changed, ok := event.Object.(*v1alpha1.ResourceRequest)
		switch {
		case !ok:
			return false, nil // an error of the watch: it is made again
		case event.Type == watch.Deleted:
			return false, c.failed("watch", ErrGone)
		}
		if done, err := visit(changed); done || err != nil {
			return done, err
		}
	}
	return false, nil
}

// Message is what the first container of an allocation's pod left in its termination message; there is false where the pod is gone.
func (c *Client) Message(ctx context.Context, a *v1alpha1.Allocation) (text string, there bool, err error) {
	pod, err := c.pods.Get(ctx, a.Pod, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && string(pod.UID) != a.UID {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("read pod %s/%s: %w", c.namespace, a.Pod, err)
	}
	for i := range pod.Status.ContainerStatuses {
		if t := pod.Status.ContainerStatuses[i].State.Terminated; t != nil {
			return t.Message, true, nil
		}
	}
	return "", true, nil
}

// Free takes a finalizer off an allocation's pod, which the master's template has put there so that no end is missed: once the master has seen the end, the pod may go. Of a pod that is gone it does nothing.
func (c *Client) Free(ctx context.Context, a *v1alpha1.Allocation, finalizer string) error {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		pod, err := c.pods.Get(ctx, a.Pod, metav1.GetOptions{})
		if err != nil || string(pod.UID) != a.UID || !slices.Contains(pod.Finalizers, finalizer) {
			return err
		}
		others := slices.DeleteFunc(slices.Clone(pod.Finalizers), func(f string) bool { return f == finalizer })
		// At the version that was read: a finalizer that somebody adds meanwhile stays.
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID, "resourceVersion": pod.ResourceVersion, "finalizers": others}})
		if err != nil {
			return err
		}
		_, err = c.pods.Patch(ctx, a.Pod, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
	if err == nil || apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("take the finalizer %s off pod %s/%s: %w", finalizer, c.namespace, a.Pod, err)
}

// Close deletes the request, and so its pods.
func (c *Client) Close(ctx context.Context) error {
	background := metav1.DeletePropagationBackground
	err := c.requests.Delete(ctx, c.name, metav1.DeleteOptions{PropagationPolicy: &background})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return c.failed("delete", err)
}
