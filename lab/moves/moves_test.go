package moves

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/kube/moves"
	"hilbert.dev/hilbert/lab/hollow"
)

var (
	nodes    = flag.Int("moves.nodes", 24, "nodes of 8 GPUs")
	gangSize = flag.Int("moves.gang", 8, "members of the gang, of 8 GPUs each")
)

const (
	gpusPerNode = 8
	// stubborn are pods that nobody may move: by a disruption budget, and by an annotation.
	budgeted, refusing = "pod-000", "pod-001"
)

// TestMoves: a gang of 64 GPUs that fits nowhere starts after some pods have moved. Nobody is evicted before its target is reserved, no target is lost, and who may not be moved stays.
func TestMoves(t *testing.T) {
	if testing.Short() {
		t.Skip("half a minute and more")
	}
	b := newBed(t)
	b.fragment()
	stay := map[string]*corev1.Pod{budgeted: b.podOf(budgeted), refusing: b.podOf(refusing)}
	b.gang("train", *gangSize)
	b.until("the gang was tried", func() error { return b.told("train-0", corev1.PodReasonUnschedulable) })

	judge := newJudge(t, b, "app")
	first := b.controller("first")
	b.until("a target is asked for", func() error {
		list, err := b.reservations()
		if err == nil && len(list.Items) == 0 {
			err = errors.New("none")
		}
		return err
	})
	first.stop(t) // the next one goes on
	second := b.controller("second")
	b.until("the gang runs", func() error {
		bound, err := b.bound("gang=train")
		if err == nil && bound < *gangSize {
			err = fmt.Errorf("%d of %d members have places", bound, *gangSize)
		}
		return err
	})
	b.until("each pod has its place, and each target is given back", func() error {
		bound, err := b.bound("app")
		list, listErr := b.reservations()
		if err = errors.Join(err, listErr); err == nil && (bound < *nodes || len(list.Items) > 0) {
			err = fmt.Errorf("%d of %d pods have places, and %d Reservations are there", bound, *nodes, len(list.Items))
		}
		return err
	})
	second.stop(t)
	for name, was := range stay {
		if is := b.podOf(name); is.UID != was.UID || is.Spec.NodeName != was.Spec.NodeName {
			t.Errorf("%s was on %s, and its successor is on %s", name, was.Spec.NodeName, is.Spec.NodeName)
		}
	}
	evicted, wrong := judge.verdict()
	for _, w := range wrong {
		t.Error(w)
	}
	if evicted == 0 {
		t.Error("nobody was evicted: the gang did not need it")
	}
	t.Logf("%d nodes, gang of %d GPUs: %d pods were moved", *nodes, *gangSize*gpusPerNode, evicted)
	// Each replacement has taken a target.
	took := 0
	list, err := b.admin.CoreV1().Pods(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{LabelSelector: "app"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		if list.Items[i].Annotations[spec.AnnotationReservation] != "" {
			took++
		}
	}
	if took != evicted {
		t.Errorf("%d pods were evicted, and %d replacements have taken a target", evicted, took)
	}
	b.remembered(list.Items, evicted)
}

// remembered: what both controllers have written down names each pod that has taken a target, for the next leader.
func (b *bed) remembered(pods []corev1.Pod, moved int) {
	m, err := b.admin.CoreV1().ConfigMaps(own).Get(b.t.Context(), moves.HistoryName, metav1.GetOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	var record struct {
		KnownSince int64
		Pods       map[string]int64
	}
	if err := json.Unmarshal([]byte(m.Data["moves.json"]), &record); err != nil {
		b.t.Fatal(err)
	}
	for i := range pods {
		_, known := record.Pods[pods[i].Namespace+"/"+pods[i].Name]
		if took := pods[i].Annotations[spec.AnnotationReservation] != ""; took != known {
			b.t.Errorf("%s has taken a target: %v, and is known as moved: %v", pods[i].Name, took, known)
		}
	}
	if len(record.Pods) != moved || record.KnownSince != 0 {
		b.t.Errorf("%d pods were moved, and the record has %+v", moved, record)
	}
}

// fragment fills all nodes with pods of one GPU, as many as a day brings, and lets all end but one of each node.
func (b *bed) fragment() {
	t := b.t
	shapes := make([]hollow.Shape, *nodes)
	for i := range shapes {
		shapes[i] = hollow.Shape{Name: fmt.Sprintf("gpu-%03d", i), Labels: map[string]string{hollow.LabelGPUModel: "H800"}, Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("96"), corev1.ResourceMemory: resource.MustParse("768Gi"), corev1.ResourcePods: resource.MustParse("110"),
			hollow.ResourceGPU: resource.MustParse(strconv.Itoa(gpusPerNode)),
		}}
	}
	fleet, err := hollow.Run(t.Context(), b.plane.AdminConfig(), shapes, hollow.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fleet.Stop)
	b.each(*nodes*gpusPerNode, func(ctx context.Context, i int) error { return b.serve(ctx, fmt.Sprintf("pod-%03d", i)) })
	all := *nodes * gpusPerNode
	b.until("all pods have places", func() error {
		bound, err := b.bound("app")
		if err == nil && bound < all {
			err = fmt.Errorf("%d of %d", bound, all)
		}
		return err
	})
	list, err := b.admin.CoreV1().Pods(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{LabelSelector: "app"})
	if err != nil {
		t.Fatal(err)
	}
	// The two that may not be moved stay wherever they are; of the other nodes the first pod does.
	left := make(map[string]string)
	for pass := range 2 {
		for i := range list.Items {
			p := &list.Items[i]
			if app := p.Labels["app"]; (app == budgeted || app == refusing) == (pass == 0) && (pass == 0 || left[p.Spec.NodeName] == "") {
				left[p.Spec.NodeName] += app + " "
			}
		}
	}
	var ends []string
	for i := range list.Items {
		if p := &list.Items[i]; !strings.Contains(left[p.Spec.NodeName], p.Labels["app"]+" ") {
			ends = append(ends, p.Labels["app"])
		}
	}
	b.each(len(ends), func(ctx context.Context, i int) error {
		background := metav1.DeletePropagationBackground
		return b.admin.AppsV1().ReplicaSets(metav1.NamespaceDefault).Delete(ctx, ends[i], metav1.DeleteOptions{PropagationPolicy: &background})
	})
	b.until("a pod is left on each node", func() error {
		list, err := b.admin.CoreV1().Pods(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{LabelSelector: "app"})
		if err == nil && len(list.Items) != all-len(ends) {
			err = fmt.Errorf("%d pods are there, want %d", len(list.Items), all-len(ends))
		}
		return err
	})
	*nodes = all - len(ends)
}

// serve creates a workload of one pod of one GPU.
func (b *bed) serve(ctx context.Context, name string) error {
	one, labels := int32(1), map[string]string{"app": name}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{SchedulerName: "hilbert", Containers: []corev1.Container{asks("1", "1")}}}
	if name == refusing {
		template.Annotations = map[string]string{spec.AnnotationDoNotDisrupt: "true"}
	}
	_, err := b.admin.AppsV1().ReplicaSets(metav1.NamespaceDefault).Create(ctx, &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.ReplicaSetSpec{Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template},
	}, metav1.CreateOptions{})
	if err != nil || name != budgeted {
		return err
	}
	all := intstr.FromInt32(1)
	_, err = b.admin.PolicyV1().PodDisruptionBudgets(metav1.NamespaceDefault).Create(ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: &all, Selector: &metav1.LabelSelector{MatchLabels: labels}},
	}, metav1.CreateOptions{})
	return err
}

func asks(cpu, gpus string) corev1.Container {
	amounts := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), hollow.ResourceGPU: resource.MustParse(gpus)}
	return corev1.Container{Name: "main", Image: "image", Resources: corev1.ResourceRequirements{Requests: amounts, Limits: amounts}}
}

// gang creates a PodGroup, with what its metadata has besides the name, and as many members, which take whole nodes.
func (b *bed) gang(name string, size int, group ...metav1.ObjectMeta) {
	b.group(name, size, group...)
	b.each(size, func(ctx context.Context, i int) error {
		_, err := b.admin.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", name, i), Labels: map[string]string{"gang": name}},
			Spec:       corev1.PodSpec{SchedulerName: "hilbert", SchedulingGroup: &corev1.PodSchedulingGroup{PodGroupName: &name}, Containers: []corev1.Container{asks("8", strconv.Itoa(gpusPerNode))}},
		}, metav1.CreateOptions{})
		return err
	})
}

// group creates a PodGroup, with what its metadata has besides the name.
func (b *bed) group(name string, size int, more ...metav1.ObjectMeta) {
	t := b.t
	t.Helper()
	meta := metav1.ObjectMeta{}
	for _, m := range more {
		meta = m
	}
	meta.Name = name
	_, err := b.admin.SchedulingV1beta1().PodGroups(metav1.NamespaceDefault).Create(t.Context(), &schedulingv1beta1.PodGroup{
		ObjectMeta: meta, Spec: schedulingv1beta1.PodGroupSpec{SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{
			Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(size)},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// each does something so many times, some at once.
func (b *bed) each(n int, do func(ctx context.Context, i int) error) {
	b.t.Helper()
	group, ctx := errgroup.WithContext(b.t.Context())
	group.SetLimit(32)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	if err := group.Wait(); err != nil {
		b.t.Fatal(err)
	}
}

// bound counts the pods of a label that have places and are not being deleted.
func (b *bed) bound(selector string) (n int, err error) {
	list, err := b.admin.CoreV1().Pods(metav1.NamespaceDefault).List(b.t.Context(), metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return 0, err
	}
	for i := range list.Items {
		if p := &list.Items[i]; p.Spec.NodeName != "" && p.DeletionTimestamp == nil {
			n++
		}
	}
	return n, nil
}

// podOf is the pod of a workload.
func (b *bed) podOf(app string) *corev1.Pod {
	b.t.Helper()
	list, err := b.admin.CoreV1().Pods(metav1.NamespaceDefault).List(b.t.Context(), metav1.ListOptions{LabelSelector: "app=" + app})
	if err != nil || len(list.Items) != 1 {
		b.t.Fatalf("%s has %d pods: %v", app, len(list.Items), err)
	}
	return &list.Items[0]
}

// told is nil when a pod's condition has a reason.
func (b *bed) told(pod, reason string) error {
	p, err := b.admin.CoreV1().Pods(metav1.NamespaceDefault).Get(b.t.Context(), pod, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Reason == reason {
			return nil
		}
	}
	return fmt.Errorf("%+v", p.Status.Conditions)
}

func (b *bed) reservations() (list v1alpha1.ReservationList, err error) {
	text, err := b.admin.Discovery().RESTClient().Get().AbsPath(reservationsPath).SetHeader("Accept", "application/json").DoRaw(b.t.Context())
	if err != nil {
		return list, err
	}
	return list, json.Unmarshal(text, &list)
}

// log writes what a process says to a file, which is shown if the test fails.
func (b *bed) log(name string) *slog.Logger {
	path := filepath.Join(b.dir, name+".log")
	file, err := os.Create(path)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		_ = file.Close()
		if b.t.Failed() {
			text, _ := os.ReadFile(path)
			b.t.Logf("%s:\n%s", name, text[max(0, len(text)-6000):])
		}
	})
	return slog.New(slog.NewTextHandler(file, nil))
}

// process is a hilbertd in this process.
type process struct {
	cancel context.CancelFunc
	ended  chan error
}

func (p *process) stop(t *testing.T) {
	t.Helper()
	p.cancel()
	select {
	case err := <-p.ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("a hilbertd does not end")
	}
}
