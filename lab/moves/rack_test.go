package moves

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/lab/hollow"
)

// TestGangInOneRack: a gang of two nodes must be in one rack. Two nodes are free, in a rack each; the other node of each rack has a pod of one GPU. The gang waits until one of these pods has moved to the
// node of the other, to a target that was reserved before, and starts in the rack that is free then.
func TestGangInOneRack(t *testing.T) {
	if testing.Short() {
		t.Skip("a control plane for one move")
	}
	b := newBed(t)
	b.rackNode("a", 0)
	b.small("small-a", "a-0")
	// While the first node is full the next pod takes that of the other rack.
	b.pod("filler", "", 7, nil)
	b.until("the first node is full", func() error { return b.runs("filler") })
	b.rackNode("b", 0)
	b.small("small-b", "b-0")
	if err := b.admin.CoreV1().Pods(metav1.NamespaceDefault).Delete(t.Context(), "filler", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	b.rackNode("a", 1)
	b.rackNode("b", 1)
	const size = 2
	b.gang("train", size, metav1.ObjectMeta{Annotations: map[string]string{spec.AnnotationRequiredTopology: hollow.LabelRack}})
	b.until("the gang was tried", func() error { return b.told("train-0", corev1.PodReasonUnschedulable) })
	if bound, err := b.bound("gang=train"); err != nil || bound > 0 {
		t.Fatalf("%d members of the gang have places before anything was moved: %v", bound, err)
	}

	judge := newJudge(t, b, "app")
	controller := b.controller("controller")
	b.until("the gang runs", func() error {
		bound, err := b.bound("gang=train")
		if err == nil && bound < size {
			err = fmt.Errorf("%d of %d members have places", bound, size)
		}
		return err
	})
	b.until("each small pod has a place, and each target is given back", func() error {
		bound, err := b.bound("app")
		list, listErr := b.reservations()
		if err = errors.Join(err, listErr); err == nil && (bound < 2 || len(list.Items) > 0) {
			err = fmt.Errorf("%d pods have places, and %d Reservations are there", bound, len(list.Items))
		}
		return err
	})
	controller.stop(t)
	evicted, wrong := judge.verdict()
	for _, w := range wrong {
		t.Error(w)
	}
	if evicted != 1 {
		t.Errorf("%d pods were evicted, want one", evicted)
	}
	gang, small := b.racksOf("gang=train"), b.racksOf("app")
	if len(gang) != 1 || len(small) != 1 || fmt.Sprint(gang) == fmt.Sprint(small) {
		t.Errorf("the gang is in the racks %v, the small pods are in %v: want one each", gang, small)
	}
	if a, b := b.podOf("small-a"), b.podOf("small-b"); a.Annotations[spec.AnnotationReservation] == "" && b.Annotations[spec.AnnotationReservation] == "" {
		t.Error("neither small pod has taken a target")
	}
}

// rackNode makes a node of eight GPUs in a rack: RACK-INDEX.
func (b *bed) rackNode(rack string, index int) {
	fleet, err := hollow.Run(b.t.Context(), b.plane.AdminConfig(), []hollow.Shape{{
		Name: fmt.Sprintf("%s-%d", rack, index), Labels: map[string]string{hollow.LabelGPUModel: "H800", hollow.LabelRack: rack}, Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("96"), corev1.ResourceMemory: resource.MustParse("768Gi"), corev1.ResourcePods: resource.MustParse("110"), hollow.ResourceGPU: resource.MustParse("8"),
		},
	}}, hollow.Options{})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(fleet.Stop)
}

// small makes a workload of one pod of one GPU, which must come to a node.
func (b *bed) small(name, node string) {
	if err := b.serve(b.t.Context(), name); err != nil {
		b.t.Fatal(err)
	}
	b.until(name+" has a place", func() error {
		bound, err := b.bound("app=" + name)
		if err == nil && bound != 1 {
			err = errors.New("it has none")
		}
		return err
	})
	if on := b.podOf(name).Spec.NodeName; on != node {
		b.t.Fatalf("%s is on %s, want %s", name, on, node)
	}
}

// racksOf counts the pods of a label by rack.
func (b *bed) racksOf(selector string) map[string]int {
	b.t.Helper()
	list, err := b.admin.CoreV1().Pods(metav1.NamespaceDefault).List(b.t.Context(), metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		b.t.Fatal(err)
	}
	out := make(map[string]int)
	for i := range list.Items {
		node, err := b.admin.CoreV1().Nodes().Get(b.t.Context(), list.Items[i].Spec.NodeName, metav1.GetOptions{})
		if err != nil {
			b.t.Fatal(err)
		}
		out[node.Labels[hollow.LabelRack]]++
	}
	return out
}
