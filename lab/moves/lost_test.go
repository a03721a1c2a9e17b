package moves

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/lab/hollow"
)

// TestLostTargets: a target is lost after the pod was evicted, because its node dies or a foreign binder takes the room. The move is counted as such, and what replaces the pod has its turn before
// older pods of its priority. The test is the workloads' controller itself, so that a replacement comes exactly when the target is lost.
func TestLostTargets(t *testing.T) {
	if testing.Short() {
		t.Skip("half a minute and more")
	}
	b := newBed(t)
	for _, fault := range []struct {
		name   string
		strike func(target string)
	}{
		{"dies", func(target string) {
			if err := b.admin.CoreV1().Nodes().Delete(t.Context(), target, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}},
		{"foreign", func(target string) { b.pod("foreign", target, 1, nil) }},
	} {
		b.lose(fault.name, fault.strike)
	}
}

// lose has a pod moved, and its target lost once the pod is gone. Each round has nodes of a model of its own.
func (b *bed) lose(round string, strike func(target string)) {
	t := b.t
	source, target := round+"-a", round+"-b"
	b.nodesOf(round, source, target)
	// The target has one GPU free, the source seven: a pod of eight fits on neither, unless the pod of one on the source moves.
	controller := b.owner(round)
	b.pod(round+"-moved", "", 1, controller, round)
	b.until("the pod that is to be moved has a place", func() error { return b.runs(round + "-moved") })
	if b.on(round+"-moved", target) == nil {
		source, target = target, source
	}
	b.pod(round+"-filler", target, 7, nil)
	b.until("the other node is known to be nearly full", func() error { return b.runs(round + "-filler") })
	b.pod(round+"-large", "", 8, nil, round)
	b.until("the large pod was tried", func() error { return b.told(round+"-large", corev1.PodReasonUnschedulable) })

	name := "controller-" + round
	process := b.controller(name)
	b.until("the pod is evicted", func() error { return b.gone(round + "-moved") })
	strike(target)
	b.until("the target is lost", func() error {
		list, err := b.reservations()
		if err == nil && (len(list.Items) != 1 || list.Items[0].Status.Lost != 1) {
			err = fmt.Errorf("%d Reservations", len(list.Items))
		}
		return err
	})
	b.until("the large pod has the room that was made for it", func() error { return b.on(round+"-large", source) })
	older := []string{round + "-older-0", round + "-older-1"}
	for _, pod := range older {
		b.pod(pod, "", 1, nil, round)
		b.until(pod+" was tried", func() error { return b.told(pod, corev1.PodReasonUnschedulable) })
	}
	b.pod(round+"-replacement", "", 1, controller, round)
	b.until("the replacement was tried", func() error { return b.told(round+"-replacement", corev1.PodReasonUnschedulable) })
	b.pod(round+"-youngest", "", 1, controller, round) // of the same workload, and not the one that replaces
	b.until("the youngest was tried", func() error { return b.told(round+"-youngest", corev1.PodReasonUnschedulable) })

	// Room for one comes, then for another.
	b.nodesOf(round, round+"-relief")
	b.until("the replacement has its turn first", func() error { return b.on(round+"-replacement", round+"-relief") })
	b.until("the move has ended", func() error {
		list, err := b.reservations()
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%d Reservations are left", len(list.Items))
		}
		return err
	})
	process.stop(t)
	text, err := os.ReadFile(filepath.Join(b.dir, name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), `stage="target lost"`); n != 1 {
		t.Errorf("%s: %d targets are counted as lost after the eviction, want 1", round, n)
	}
	bound, err := b.bound("round=" + round)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: the replacement came before %d older pods; %d pods of the round have places", round, len(older), bound)
}

// nodesOf makes nodes of eight GPUs of a model; those called relief have one.
func (b *bed) nodesOf(model string, names ...string) {
	var shapes []hollow.Shape
	for _, name := range names {
		gpus := "8"
		if strings.HasSuffix(name, "relief") {
			gpus = "1"
		}
		shapes = append(shapes, hollow.Shape{Name: name, Labels: map[string]string{hollow.LabelGPUModel: model, "round": model}, Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("96"), corev1.ResourceMemory: resource.MustParse("768Gi"), corev1.ResourcePods: resource.MustParse("110"), hollow.ResourceGPU: resource.MustParse(gpus),
		}})
	}
	fleet, err := hollow.Run(b.t.Context(), b.plane.AdminConfig(), shapes, hollow.Options{})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(fleet.Stop)
}

// owner is what controls pods to the API server. It makes none itself: the test does.
func (b *bed) owner(name string) *metav1.OwnerReference {
	object, err := b.admin.CoreV1().ConfigMaps(metav1.NamespaceDefault).Create(b.t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	return metav1.NewControllerRef(object, corev1.SchemeGroupVersion.WithKind("ConfigMap"))
}

// pod makes a pod with so many GPUs: on a node, by a foreign binder, or for the scheduler, of one round's nodes.
func (b *bed) pod(name, node string, gpus int, controller *metav1.OwnerReference, round ...string) {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}, Spec: corev1.PodSpec{SchedulerName: spec.DefaultSchedulerName, NodeName: node, Containers: []corev1.Container{asks("1", fmt.Sprint(gpus))}},
	}
	if node != "" {
		p.Spec.SchedulerName = "somebody-else"
	}
	if controller != nil {
		p.OwnerReferences = []metav1.OwnerReference{*controller}
	}
	for _, r := range round {
		p.Labels["round"], p.Spec.NodeSelector = r, map[string]string{"round": r}
	}
	if _, err := b.admin.CoreV1().Pods(metav1.NamespaceDefault).Create(b.t.Context(), p, metav1.CreateOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

// runs is nil when a pod runs on some node.
func (b *bed) runs(pod string) error {
	p, err := b.admin.CoreV1().Pods(metav1.NamespaceDefault).Get(b.t.Context(), pod, metav1.GetOptions{})
	if err == nil && p.Status.Phase != corev1.PodRunning {
		err = fmt.Errorf("it is %s", p.Status.Phase)
	}
	return err
}

// on is nil when a pod is on a node.
func (b *bed) on(pod, node string) error {
	p, err := b.admin.CoreV1().Pods(metav1.NamespaceDefault).Get(b.t.Context(), pod, metav1.GetOptions{})
	if err == nil && p.Spec.NodeName != node {
		err = fmt.Errorf("it is on %q", p.Spec.NodeName)
	}
	return err
}

// gone is nil when a pod is being deleted, or is no more.
func (b *bed) gone(pod string) error {
	list, err := b.admin.CoreV1().Pods(metav1.NamespaceDefault).List(b.t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + pod})
	if err == nil && len(list.Items) > 0 && list.Items[0].DeletionTimestamp == nil {
		err = errors.New("it is there")
	}
	return err
}
