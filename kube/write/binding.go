package write

import (
	"context"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/bind"
)

// protobufPrefix heads every protobuf body of the Kubernetes API.
var protobufPrefix = []byte("k8s\x00")

// bindingBody encodes a Binding, with the UID as a precondition, and what is promised as annotations.
func bindingBody(w *bind.Write) ([]byte, error) {
	b := corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name, UID: types.UID(w.Pod)},
		Target:     corev1.ObjectReference{Kind: "Node", Name: w.Node},
	}
	reclaims := w.Reclaimed != spec.ReclaimedAmounts{}
	if !w.Grant.IsZero() || reclaims || w.TellsPriority || w.Placeholder != "" || w.Resources != "" {
		b.Annotations = make(map[string]string, 2)
	}
	if reclaims {
		b.Annotations[spec.AnnotationReclaimed] = w.Reclaimed.String()
	}
	if w.TellsPriority {
		b.Annotations[spec.AnnotationPriority] = strconv.Itoa(int(w.Priority))
	}
	if w.Resources != "" {
		b.Annotations[spec.AnnotationResources] = w.Resources
	}
	if w.Grant.GPUs != 0 {
		b.Annotations[spec.AnnotationGPUs] = w.Grant.GPUText()
	}
	if w.Grant.NICs != 0 {
		b.Annotations[spec.AnnotationNICs] = w.Grant.NICText()
	}
	if !w.Grant.NUMANodes.IsZero() {
		b.Annotations[spec.AnnotationNUMANodes] = w.Grant.NUMANodes.String()
	}
	if w.Grant.Resources != "" {
		b.Annotations[spec.AnnotationResourceNUMANodes] = string(w.Grant.Resources)
	}
	if w.Placeholder != "" {
		b.Annotations[spec.AnnotationReservation] = string(w.Placeholder)
	}
	raw, err := b.Marshal()
	if err != nil {
		return nil, fmt.Errorf("encode the Binding of %s/%s: %w", w.Namespace, w.Name, err)
	}
	envelope := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "Binding"}, Raw: raw}
	body := make([]byte, len(protobufPrefix)+envelope.Size())
	copy(body, protobufPrefix)
	if _, err := envelope.MarshalTo(body[len(protobufPrefix):]); err != nil {
		return nil, fmt.Errorf("encode the Binding of %s/%s: %w", w.Namespace, w.Name, err)
	}
	return body, nil
}

// read asks for the pod with a consistent read: without a resource version the API server answers from what is agreed.
func (w *Writer) read(ctx context.Context, write *bind.Write) bind.Result {
	pod, err := w.pods.Pods(write.Namespace).Get(ctx, write.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return bind.Result{Outcome: bind.Gone}
	case err != nil:
		return bind.Result{Outcome: bind.Unknown, Message: err.Error()}
	case facts.UID(pod.UID) != write.Pod:
		return bind.Result{Outcome: bind.Gone}
	}
	return bind.Result{Outcome: bind.Written, Node: pod.Spec.NodeName}
}
