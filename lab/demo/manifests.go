package demo

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"

	"hilbert.dev/hilbert/lab/hollow"
)

const (
	// writtenFor is the number of nodes that the manifests' numbers are meant for.
	writtenFor = 1000
	// accountTimeout bounds the wait for a new namespace's service account, without which no pod is admitted.
	accountTimeout = 30 * time.Second
	// digestInterval is how often, and digestTimeout for how long at most, one object's pods are waited for before the next is created.
	digestInterval, digestTimeout = 50 * time.Millisecond, 30 * time.Second
)

// manifests is work given as Kubernetes objects.
type manifests struct {
	name    string // of the file, for people
	objects []runtime.Object
	nodes   int
}

// readManifests decodes a YAML file of Namespaces, PriorityClasses, Deployments, Jobs and Pods, and scales its numbers of pods to the
// number of nodes.
func readManifests(name string, data []byte, nodes int) (*manifests, error) {
	m := &manifests{name: name, nodes: nodes}
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	decoder := scheme.Codecs.UniversalDeserializer()
	for i := 1; ; i++ {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return m, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: document %d: %w", name, i, err)
		}
		if len(bytes.TrimSpace(withoutComments(document))) == 0 {
			continue
		}
		object, kind, err := decoder.Decode(document, nil, nil)
		if err != nil {
			return nil, fmt.Errorf("%s: document %d: %w", name, i, err)
		}
		switch o := object.(type) {
		case *appsv1.Deployment:
			o.Spec.Replicas = scaled(o.Spec.Replicas, nodes)
		case *batchv1.Job:
			o.Spec.Completions, o.Spec.Parallelism = scaled(o.Spec.Completions, nodes), scaled(o.Spec.Parallelism, nodes)
		case *corev1.Namespace, *corev1.Pod, *schedulingv1.PriorityClass:
		default:
			return nil, fmt.Errorf("%s: document %d: the demo does not create a %s; use Namespace, PriorityClass, Deployment, Job and Pod", name, i, kind.Kind)
		}
		m.objects = append(m.objects, object)
	}
}

func withoutComments(document []byte) []byte {
	var out []byte
	for line := range bytes.Lines(document) {
		if !bytes.HasPrefix(bytes.TrimSpace(line), []byte("#")) {
			out = append(out, line...)
		}
	}
	return out
}

// scaled is n as it is for writtenFor nodes, for another number of them; at least 1.
func scaled(n *int32, nodes int) *int32 {
	if n == nil {
		return nil
	}
	m := int32(math.Round(float64(*n) * float64(nodes) / writtenFor))
	if *n > 0 {
		m = max(m, 1)
	}
	return &m
}

func (m *manifests) title() string          { return "Demo" }
func (m *manifests) source() string         { return m.name }
func (m *manifests) shapes() []hollow.Shape { return hollow.Shapes(m.nodes) }
func (m *manifests) controllers() bool      { return true }
func (m *manifests) awaitsEnds() bool       { return true }

func (m *manifests) notes() []string {
	if m.nodes == writtenFor {
		return nil
	}
	return []string{fmt.Sprintf("%s is written for %d nodes; its numbers of pods were scaled to %d.", m.name, writtenFor, m.nodes)}
}

// pods is how many pods there will be in the end.
func (m *manifests) pods() int {
	total := 0
	for _, object := range m.objects {
		total += podsOf(object)
	}
	return total
}

// podsOf is how many pods an object will have.
func podsOf(object runtime.Object) int {
	count := func(n *int32) int {
		if n == nil {
			return 1
		}
		return int(*n)
	}
	switch o := object.(type) {
	case *corev1.Pod:
		return 1
	case *appsv1.Deployment:
		return count(o.Spec.Replicas)
	case *batchv1.Job:
		return count(o.Spec.Completions)
	default:
		return 0
	}
}

// create creates the objects in the order of the file, each when the pods of those before are there and those that fit have a node.
// All at once, thousands of requests of the controllers would leave the API server no time for anything else.
func (m *manifests) create(ctx context.Context, client kubernetes.Interface, r *recorder) error {
	pods := 0
	for _, object := range m.objects {
		if err := create(ctx, client, object); err != nil {
			kind := object.GetObjectKind().GroupVersionKind().Kind
			return fmt.Errorf("%s: create %s %s: %w", m.name, kind, nameOf(object), err)
		}
		pods += podsOf(object)
		err := wait.PollUntilContextTimeout(ctx, digestInterval, digestTimeout, true, func(context.Context) (bool, error) {
			return r.digested(time.Now(), pods), nil
		})
		if err != nil && !wait.Interrupted(err) {
			return fmt.Errorf("%s: wait for the pods of %s: %w", m.name, nameOf(object), err)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

func nameOf(object runtime.Object) string {
	o, ok := object.(metav1.Object)
	switch {
	case !ok:
		return "without a name"
	case o.GetNamespace() == "":
		return o.GetName()
	default:
		return o.GetNamespace() + "/" + o.GetName()
	}
}

func create(ctx context.Context, client kubernetes.Interface, object runtime.Object) (err error) {
	var o metav1.CreateOptions
	switch x := object.(type) {
	case *corev1.Namespace:
		if _, err := client.CoreV1().Namespaces().Create(ctx, x, o); err != nil {
			return err
		}
		return awaitAccount(ctx, client, x.Name)
	case *schedulingv1.PriorityClass:
		_, err = client.SchedulingV1().PriorityClasses().Create(ctx, x, o)
	case *appsv1.Deployment:
		_, err = client.AppsV1().Deployments(namespaceOf(x)).Create(ctx, x, o)
	case *batchv1.Job:
		_, err = client.BatchV1().Jobs(namespaceOf(x)).Create(ctx, x, o)
	case *corev1.Pod:
		_, err = client.CoreV1().Pods(namespaceOf(x)).Create(ctx, x, o)
	default:
		err = fmt.Errorf("the demo cannot create a %T", object)
	}
	return err
}

func namespaceOf(o metav1.Object) string {
	if o.GetNamespace() == "" {
		return metav1.NamespaceDefault
	}
	return o.GetNamespace()
}

// awaitAccount waits until a namespace has its service account: controllers that create pods earlier are refused and back off.
func awaitAccount(ctx context.Context, client kubernetes.Interface, namespace string) error {
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, accountTimeout, true, func(ctx context.Context) (bool, error) {
		_, err := client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return fmt.Errorf("wait for its service account: %w", err)
	}
	return nil
}
