package requests

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
)

// TestEndIsKept: a container ends well and its pod is deleted while no controller looks. The master's finalizer keeps the pod, so the next controller counts the end and makes nothing anew; then the master lets the pod go.
func TestEndIsKept(t *testing.T) {
	if testing.Short() {
		t.Skip("a control plane for one pod; kube/requests has the short form")
	}
	const finalizer = "example.com/seen"
	b := newBed(t)
	b.kubelets(func(*corev1.Pod) (string, bool, bool) { return "", false, false }) // all run until they are deleted
	first := b.controller("first")
	kept := template()
	kept.Finalizers = []string{finalizer}
	m := b.master("words")
	if _, err := m.Open(t.Context(), &v1alpha1.ResourceRequestSpec{Template: kept, Asks: []v1alpha1.ResourceAsk{{Name: "parts", Count: 1}}}); err != nil {
		t.Fatal(err)
	}
	b.until("it runs", func() error { return b.running("words", 1) })
	first.stop(t)
	b.endWell(b.podOf(0))
	second := b.controller("second")
	b.until("its end is counted", func() error { return b.counted("words", 1) })

	// Another one is asked for, so that the controller has looked at all of it since.
	if err := errors.Join(b.free("words", 0, finalizer), m.Ask(t.Context(), &v1alpha1.ResourceAsk{Name: "parts", Count: 2})); err != nil {
		t.Fatal(err)
	}
	b.until("the other runs, alone", func() error {
		made, _, err := b.pods("words")
		if err == nil && made != 1 {
			err = fmt.Errorf("there are %d pods", made)
		}
		return errors.Join(err, b.running("words", 1), b.counted("words", 1))
	})
	second.stop(t)
	r, err := b.seen("words")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range r.Status.Allocations {
		if want := []string{"Succeeded", "Running"}[a.Index]; a.State != want || a.Failures > 0 {
			t.Errorf("container %d is %s after %d failures, want %s", a.Index, a.State, a.Failures, want)
		}
	}
	if err := b.free("words", 1, finalizer); err != nil { // nothing is left over for the namespace
		t.Error(err)
	}
}

// endWell ends a pod as a kubelet would, and deletes it.
func (b *bed) endWell(name string) {
	b.t.Helper()
	pods := b.admin.CoreV1().Pods(namespace)
	b.until("the pod has ended", func() error {
		pod, err := pods.Get(b.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		pod.Status.Phase = corev1.PodSucceeded
		_, err = pods.UpdateStatus(b.t.Context(), pod, metav1.UpdateOptions{})
		return err
	})
	if err := pods.Delete(b.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

// free lets the pod of a container go, as the master.
func (b *bed) free(request string, index int32, finalizer string) error {
	r, err := b.seen(request)
	if err != nil {
		return err
	}
	for i := range r.Status.Allocations {
		if a := &r.Status.Allocations[i]; a.Index == index {
			return b.master(request).Free(context.WithoutCancel(b.t.Context()), a, finalizer)
		}
	}
	return fmt.Errorf("there is no container %d", index)
}
