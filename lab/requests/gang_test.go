package requests

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
)

// TestGang: 30 containers of a CPU each have no places while others hold 8 of 32 CPUs, though 24 of them would fit; when these are given back all have one.
func TestGang(t *testing.T) {
	if testing.Short() {
		t.Skip("a control plane for one gang; kube/requests has the short form")
	}
	b := newBed(t)
	b.kubelets(func(*corev1.Pod) (string, bool, bool) { return "", false, false }) // all run until they are deleted
	b.controller("only")
	const size, others = 30, 8
	open := func(name string, gang bool, count int32) {
		t.Helper()
		if _, err := b.master(name).Open(t.Context(), &v1alpha1.ResourceRequestSpec{Template: template(), Gang: gang, Asks: []v1alpha1.ResourceAsk{{Name: "a", Count: count}}}); err != nil {
			t.Fatal(err)
		}
	}
	open("others", false, others)
	b.until("the others run", func() error { return b.running("others", others) })
	open("gang", true, size)
	b.until("the gang has all of its pods, and the scheduler has said that they do not fit", func() error {
		made, placed, err := b.pods("gang")
		if err == nil && made < size {
			err = fmt.Errorf("there are %d pods, %d have nodes", made, placed)
		}
		return errors.Join(err, b.gangWaits())
	})
	groups, err := b.admin.SchedulingV1beta1().PodGroups(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(groups.Items) != 1 || groups.Items[0].Spec.SchedulingPolicy.Gang == nil || groups.Items[0].Spec.SchedulingPolicy.Gang.MinCount != size {
		t.Fatalf("the PodGroups are %+v (%v)", groups.Items, err)
	}
	if _, placed, err := b.pods("gang"); placed > 0 || err != nil {
		t.Errorf("%d members have nodes, and not all can have one (%v)", placed, err)
	}
	if err := b.master("others").Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.until("the whole gang runs", func() error { return b.running("gang", size) })
}

// running fails while fewer containers of a request run.
func (b *bed) running(name string, want int32) error {
	r, err := b.seen(name)
	if err == nil && r.Status.Running < want {
		err = fmt.Errorf("%d run", r.Status.Running)
	}
	return err
}

// pods counts the pods of a request, and those that have nodes.
func (b *bed) pods(name string) (made, placed int, err error) {
	list, err := b.admin.CoreV1().Pods(namespace).List(b.t.Context(), metav1.ListOptions{LabelSelector: spec.LabelResourceRequest + "=" + name})
	if err != nil {
		return 0, 0, err
	}
	for i := range list.Items {
		if list.Items[i].Spec.NodeName != "" {
			placed++
		}
	}
	return len(list.Items), placed, nil
}

// gangWaits fails while no PodGroup says that its pods fit nowhere.
func (b *bed) gangWaits() error {
	groups, err := b.admin.SchedulingV1beta1().PodGroups(namespace).List(b.t.Context(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range groups.Items {
		c := apimeta.FindStatusCondition(groups.Items[i].Status.Conditions, schedulingv1beta1.PodGroupInitiallyScheduled)
		if c != nil && c.Status == metav1.ConditionFalse && c.Reason == spec.ReasonUnschedulable {
			return nil
		}
	}
	return fmt.Errorf("no PodGroup says that it waits: %+v", groups.Items)
}
