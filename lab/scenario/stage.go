package scenario

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/internal/scenario"
	"hilbert.dev/hilbert/lab/controlplane"
)

// Stage is a control plane on which scenarios are played, one after the other. Each begins on an empty cluster.
type Stage struct {
	plane  *controlplane.ControlPlane
	config *rest.Config
	client kubernetes.Interface
	queues rest.Interface
	log    io.Writer
}

// NewStage starts a control plane. log gets what hilbertd says.
func NewStage(ctx context.Context, log io.Writer) (*Stage, error) {
	plane, err := controlplane.Start(ctx, controlplane.Options{Benchmark: true})
	if err != nil {
		return nil, err
	}
	s := &Stage{plane: plane, config: plane.AdminConfig(), log: log}
	s.config.QPS = -1
	if err := s.connect(ctx); err != nil {
		return nil, errors.Join(err, s.Close(ctx))
	}
	return s, nil
}

func (s *Stage) connect(ctx context.Context) (err error) {
	if s.client, err = kubernetes.NewForConfig(s.config); err != nil {
		return fmt.Errorf("client for the scenarios: %w", err)
	}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return err
	}
	own := rest.CopyConfig(s.config)
	own.APIPath, own.GroupVersion = "/apis", &v1alpha1.GroupVersion
	own.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	own.ContentType, own.AcceptContentTypes = runtime.ContentTypeJSON, ""
	if s.queues, err = rest.RESTClientFor(own); err != nil {
		return fmt.Errorf("client for the queues: %w", err)
	}
	return s.plane.InstallDefinitions(ctx)
}

// Close stops the control plane.
func (s *Stage) Close(ctx context.Context) error { return s.plane.Stop(context.WithoutCancel(ctx)) }

// Play plays a file and returns what each of its blocks prints. It fails where a command cannot be carried out, where a node holds more
// than it has, and where nothing comes to rest.
func (s *Stage) Play(ctx context.Context, f *scenario.File, h Header) (printed []string, err error) {
	p := newPlayer(s, h)
	defer func() { err = errors.Join(err, p.leave(context.WithoutCancel(ctx))) }()
	if p.hilbertd, err = startHilbertd(ctx, s.config, h, s.log); err != nil {
		return nil, err
	}
	printed = make([]string, len(f.Blocks))
	for i := range f.Blocks {
		b := &f.Blocks[i]
		for _, step := range b.Steps {
			text, err := p.do(ctx, step, strings.TrimPrefix(b.Want, printed[i]))
			if err != nil {
				return printed, fmt.Errorf("%s:%d: %w", f.Name, b.Line, err)
			}
			printed[i] += text
		}
	}
	return printed, nil
}

// emptyTimeout bounds the wait until nothing of a scenario is left.
const emptyTimeout = 60 * time.Second

// empty removes everything that scenarios make. Namespaces cannot go without their controller: they lose their labels.
func (s *Stage) empty(ctx context.Context) error {
	now := int64(0)
	all, at := metav1.ListOptions{}, metav1.DeleteOptions{GracePeriodSeconds: &now}
	namespaces, err := s.client.CoreV1().Namespaces().List(ctx, all)
	if err != nil {
		return fmt.Errorf("empty the cluster: %w", err)
	}
	var errs []error
	for i := range namespaces.Items {
		n := &namespaces.Items[i]
		errs = append(errs, s.client.CoreV1().Pods(n.Name).DeleteCollection(ctx, at, all))
		errs = append(errs, s.label(ctx, n.Name, nil))
	}
	groups, err := s.client.SchedulingV1beta1().PodGroups(metav1.NamespaceAll).List(ctx, all)
	errs = append(errs, err)
	if err == nil {
		for i := range groups.Items {
			errs = append(errs, s.deleteGroup(ctx, groups.Items[i].Namespace, groups.Items[i].Name))
		}
	}
	errs = append(errs, s.client.CoreV1().Nodes().DeleteCollection(ctx, at, all))
	errs = append(errs, s.queues.Delete().Resource(v1alpha1.Queues).Do(ctx).Error())
	for i := range namespaces.Items {
		errs = append(errs, s.queues.Delete().Namespace(namespaces.Items[i].Name).Resource(v1alpha1.Reservations).Do(ctx).Error())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("empty the cluster: %w", err)
	}
	return nil
}

// label makes a namespace have these labels, and those that the API server gives it.
func (s *Stage) label(ctx context.Context, name string, labels map[string]string) error {
	namespaces := s.client.CoreV1().Namespaces()
	n, err := namespaces.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = namespaces.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, metav1.CreateOptions{})
	case err == nil:
		n.Labels = map[string]string{corev1.LabelMetadataName: name}
		for key, value := range labels {
			n.Labels[key] = value
		}
		_, err = namespaces.Update(ctx, n, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("label namespace %s: %w", name, err)
	}
	return nil
}

// deleteGroup deletes a PodGroup at once. The API server lets one that has pods go only when its protection is taken off: the controller
// that does so when the last pod has gone does not run here.
func (s *Stage) deleteGroup(ctx context.Context, namespace, name string) error {
	groups := s.client.SchedulingV1beta1().PodGroups(namespace)
	_, err := groups.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	if err == nil {
		err = groups.Delete(ctx, name, metav1.DeleteOptions{})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete PodGroup %s/%s: %w", namespace, name, err)
	}
	return nil
}
