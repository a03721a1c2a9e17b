package moves

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/lab/hollow"
	names "hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/sim/trace"
)

var (
	dayNodes = flag.Int("moves.day.nodes", 500, "nodes of 8 GPUs, of the recorded cluster's")
	dayLoad  = flag.Float64("moves.day.load", 0.8, "the part of the GPUs that is offered")
	dayHours = flag.Int("moves.day.hours", 24, "hours that are played")
)

// TestRecordedDay: a day of a recorded cluster's pods fragments 500 nodes: they keep the sizes and the times that were recorded, and arrive so that four fifths of the GPUs are asked for. A gang of
// 64 GPUs that fits nowhere afterwards starts after some of them have moved, each to a target that was reserved before; none is lost.
func TestRecordedDay(t *testing.T) {
	if testing.Short() {
		t.Skip("minutes")
	}
	day := recordedDay(t)
	b := newBed(t)
	d := &dayPlay{bed: b, day: day, left: make(map[string]*trace.Task)}
	d.play()
	b.gang("train", *gangSize)
	b.until("the gang was tried", func() error { return b.told("train-0", corev1.PodReasonUnschedulable) })
	if bound, err := b.bound("gang=train"); err != nil || bound > 0 {
		t.Fatalf("%d members of the gang have places before anything was moved: %v", bound, err)
	}
	d.control()
	judge := newJudge(t, b, "app")
	began := time.Now()
	controller := b.controller("controller")
	b.until("the gang runs", func() error {
		bound, err := b.bound("gang=train")
		if err == nil && bound < *gangSize {
			err = fmt.Errorf("%d of %d members have places", bound, *gangSize)
		}
		return err
	})
	took := time.Since(began)
	controller.stop(t)
	evicted, wrong := judge.verdict()
	for _, w := range wrong {
		t.Error(w)
	}
	if evicted == 0 {
		t.Error("nobody was evicted: the gang did not need it")
	}
	t.Logf("%d nodes, %d pods after %d hours at %.0f %%: a gang of %d GPUs runs after %d pods were evicted, all with reserved targets, %.0f s after the controller began",
		*dayNodes, len(d.left), *dayHours, 100**dayLoad, *gangSize*gpusPerNode, evicted, took.Seconds())
}

// recordedDay draws the day from openb's lists.
func recordedDay(t *testing.T) *trace.Workload {
	folder := filepath.Join(os.Getenv("HILBERT_TRACES"), "openb")
	w, err := trace.LoadOpenB(filepath.Join(folder, "openb_node_list_gpu_node.csv"), filepath.Join(folder, "openb_pod_list_default.csv"))
	if err != nil {
		t.Skipf("no traces: set HILBERT_TRACES to the folder that holds openb/: %v", err)
	}
	var nodes []*facts.Node
	for _, n := range w.Nodes {
		if n.GPU.GPUs == gpusPerNode && n.GPU.Model == "G2" && len(nodes) < *dayNodes {
			nodes = append(nodes, n)
		}
	}
	w.Nodes = nodes
	day, err := trace.Steady(w, *dayLoad, time.Duration(*dayHours)*time.Hour, 1)
	if err != nil {
		t.Fatal(err)
	}
	return day
}

// dayPlay plays the day by the hour: who has ended leaves, who has come and not left within the hour arrives.
type dayPlay struct {
	*bed

	day  *trace.Workload
	left map[string]*trace.Task
}

func (d *dayPlay) play() {
	t := d.t
	shapes := make([]hollow.Shape, len(d.day.Nodes))
	for i, n := range d.day.Nodes {
		shapes[i] = hollow.Shape{Name: n.Name, Labels: map[string]string{hollow.LabelGPUModel: n.GPU.Model}, Allocatable: corev1.ResourceList{
			corev1.ResourcePods: resource.MustParse("110"), hollow.ResourceGPUMilli: *resource.NewQuantity(int64(n.GPU.GPUs)*1000, resource.DecimalSI), hollow.ResourceGPU: resource.MustParse(fmt.Sprint(n.GPU.GPUs)),
		}}
		for _, q := range n.Allocatable {
			set(shapes[i].Allocatable, q)
		}
	}
	fleet, err := hollow.Run(t.Context(), d.plane.AdminConfig(), shapes, hollow.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fleet.Stop)
	next := 0
	for hour := range *dayHours + 1 {
		now := int64(hour) * int64(time.Hour)
		var ends []string
		for name, task := range d.left {
			if task.Deleted <= now {
				ends = append(ends, name)
			}
		}
		zero := int64(0)
		d.each(len(ends), func(ctx context.Context, i int) error {
			return d.admin.CoreV1().Pods(metav1.NamespaceDefault).Delete(ctx, ends[i], metav1.DeleteOptions{GracePeriodSeconds: &zero})
		})
		for _, name := range ends {
			delete(d.left, name)
		}
		var come []*trace.Task
		for ; next < len(d.day.Tasks) && d.day.Tasks[next].Created <= now; next++ {
			if task := &d.day.Tasks[next]; task.Deleted > now {
				come = append(come, task)
				d.left[task.Name] = task
			}
		}
		d.each(len(come), func(ctx context.Context, i int) error {
			_, err := d.admin.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, dayPod(come[i]), metav1.CreateOptions{})
			return err
		})
		d.until(fmt.Sprintf("hour %d: all pods were tried", hour), func() error { return d.tried() })
	}
}

// tried is nil when each pod has a place, or is told that it has none.
func (d *dayPlay) tried() error {
	list, err := d.admin.CoreV1().Pods(metav1.NamespaceDefault).List(d.t.Context(), metav1.ListOptions{LabelSelector: "app", FieldSelector: "spec.nodeName=", ResourceVersion: "0"})
	if err != nil {
		return err
	}
	for i := range list.Items {
		told := false
		for _, c := range list.Items[i].Status.Conditions {
			told = told || c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable
		}
		if !told {
			return errors.New(list.Items[i].Name + " waits, and was not tried")
		}
	}
	return nil
}

// control gives each pod that runs a ReplicaSet, which takes it over: somebody makes a replacement of it.
func (d *dayPlay) control() {
	list, err := d.admin.CoreV1().Pods(metav1.NamespaceDefault).List(d.t.Context(), metav1.ListOptions{LabelSelector: "app", FieldSelector: "spec.nodeName!="})
	if err != nil {
		d.t.Fatal(err)
	}
	one := int32(1)
	d.each(len(list.Items), func(ctx context.Context, i int) error {
		p := dayPod(d.left[list.Items[i].Name])
		_, err := d.admin.AppsV1().ReplicaSets(metav1.NamespaceDefault).Create(ctx, &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Name: p.Name}, Spec: appsv1.ReplicaSetSpec{
				Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: p.Labels}, Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: p.Labels}, Spec: p.Spec},
			},
		}, metav1.CreateOptions{})
		return err
	})
	d.until("each pod that runs has a controller", func() error {
		list, err := d.admin.CoreV1().Pods(metav1.NamespaceDefault).List(d.t.Context(), metav1.ListOptions{LabelSelector: "app", FieldSelector: "spec.nodeName!=", ResourceVersion: "0"})
		for i := range list.Items {
			if metav1.GetControllerOfNoCopy(&list.Items[i]) == nil {
				return errors.New(list.Items[i].Name + " has none")
			}
		}
		return err
	})
}

// dayPod is a pod of the recorded cluster.
func dayPod(task *trace.Task) *corev1.Pod {
	amounts := corev1.ResourceList{}
	for _, q := range task.Requirements.Requests {
		set(amounts, q)
	}
	limits := corev1.ResourceList{}
	if gpu := task.Requirements.GPU; gpu.Whole > 0 {
		limits[hollow.ResourceGPU] = *resource.NewQuantity(int64(gpu.Whole), resource.DecimalSI)
	} else if gpu.Milli > 0 {
		limits[hollow.ResourceGPUMilli] = *resource.NewQuantity(int64(gpu.Milli), resource.DecimalSI)
	}
	for name, quantity := range limits {
		amounts[name] = quantity
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: task.Name, Labels: map[string]string{"app": task.Name}},
		Spec: corev1.PodSpec{SchedulerName: spec.DefaultSchedulerName, Containers: []corev1.Container{{
			Name: "main", Image: "image", Resources: corev1.ResourceRequirements{Requests: amounts, Limits: limits},
		}}},
	}
}

// set takes over an amount of the core's: CPUs in thousandths, memory in bytes.
func set(list corev1.ResourceList, q names.Quantity) {
	switch q.Name {
	case names.NameCPU:
		list[corev1.ResourceCPU] = *resource.NewMilliQuantity(q.Amount, resource.DecimalSI)
	case names.NameMemory:
		list[corev1.ResourceMemory] = *resource.NewQuantity(q.Amount, resource.BinarySI)
	}
}
