package moves

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
)

// TestEvictionRequests: an API server that serves EvictionRequests is asked for the eviction. Kubernetes 1.37 has no controller for them, so the test is whoever acts: it evicts in the first round, and never
// in the second, where the request is withdrawn, the target given back, and the pod asked no more.
func TestEvictionRequests(t *testing.T) {
	if testing.Short() {
		t.Skip("half a minute and more")
	}
	b := newBed(t)
	ask := func(c *spec.Rescheduling) {
		c.EvictionRequestTimeout, c.WorkloadCooldown = spec.Duration(8*time.Second), spec.Duration(time.Hour)
	}
	for _, round := range []string{"acts", "sleeps"} {
		a, c := round+"-a", round+"-b"
		b.nodesOf(round, a, c)
		controller := b.owner(round)
		b.pod(round+"-moved", "", 1, controller, round)
		b.until("the pod that is to be moved has a place", func() error { return b.runs(round + "-moved") })
		source, target := a, c
		if b.on(round+"-moved", target) == nil {
			source, target = target, source
		}
		b.pod(round+"-filler", target, 7, nil)
		b.until("the other node is known to be nearly full", func() error { return b.runs(round + "-filler") })
		b.pod(round+"-large", "", 8, nil, round)
		b.until("the large pod was tried", func() error { return b.told(round+"-large", corev1.PodReasonUnschedulable) })
		moved, err := b.admin.CoreV1().Pods(metav1.NamespaceDefault).Get(t.Context(), round+"-moved", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}

		process := b.controller("controller-"+round, ask)
		b.until("the eviction is asked for", func() error { return b.asked(moved.UID) })
		list, err := b.reservations()
		if err != nil || len(list.Items) != 1 || list.Items[0].Status.Reserved != 1 {
			t.Errorf("%s: the eviction is asked for, and of the target is known: %+v, %v", round, list.Items, err)
		}
		if round == "acts" {
			b.act(moved, controller, source, target)
		}
		b.until("nobody is asked any more", func() error {
			if err := b.asked(moved.UID); !apierrors.IsNotFound(err) {
				return fmt.Errorf("%w: still asked", errors.Join(err, errors.New("it is there")))
			}
			return nil
		})
		b.until("the target is given back", func() error {
			list, err := b.reservations()
			if err == nil && len(list.Items) > 0 {
				err = fmt.Errorf("%d Reservations", len(list.Items))
			}
			return err
		})
		process.stop(t)
		if round == "sleeps" {
			if is, err := b.admin.CoreV1().Pods(metav1.NamespaceDefault).Get(t.Context(), round+"-moved", metav1.GetOptions{}); err != nil || is.UID != moved.UID || is.DeletionTimestamp != nil {
				t.Errorf("the pod that nobody evicts is gone: %v", err)
			}
			if err := b.asked(moved.UID); !apierrors.IsNotFound(err) {
				t.Errorf("it is asked again at once: %v", err)
			}
		}
	}
}

// asked is nil when the eviction of a pod is asked for.
func (b *bed) asked(pod types.UID) error {
	r, err := b.admin.LifecycleV1alpha1().EvictionRequests(metav1.NamespaceDefault).Get(b.t.Context(), v1alpha1.MovePrefix+string(pod), metav1.GetOptions{})
	if err == nil && r.Spec.Target.Pod.UID != pod {
		err = fmt.Errorf("it is about %+v", r.Spec.Target)
	}
	return err
}

// act evicts the pod as a responder would, and its controller makes another.
func (b *bed) act(pod *corev1.Pod, controller *metav1.OwnerReference, source, target string) {
	t := b.t
	round := pod.Labels["round"]
	if err := b.admin.CoreV1().Pods(pod.Namespace).EvictV1(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}); err != nil {
		t.Fatal(err)
	}
	b.until("the pod is evicted", func() error { return b.gone(pod.Name) })
	b.pod(round+"-replacement", "", 1, controller, round)
	b.until("the replacement takes the target", func() error { return b.on(round+"-replacement", target) })
	b.until("the large pod has the room that was made for it", func() error { return b.on(round+"-large", source) })
}
