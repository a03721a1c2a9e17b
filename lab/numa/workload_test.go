package numa

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/spec"
)

const (
	namespace = metav1.NamespaceDefault
	// inFlight is how many requests the test has under way at once.
	inFlight = 32
	// numaMemory is the memory of a NUMA node, in MiB; memoryPerCPU what a pod asks for with each CPU.
	numaMemory, memoryPerCPU = 64 << 10, 1 << 10
	// foreignScheduler is nobody's name: what is to be bound by hand.
	foreignScheduler = "somebody-else"
)

// kind is a kind of dedicated pod.
type kind struct {
	cpus int
	numa string
	take int // CPUs of the cores or NUMA nodes that it holds
}

// mix is twenty pods of 22 CPUs each in the mean, the largest kind first. A NUMA node of hollow.BigMachine with a reserved core has 30 CPUs to give.
var mix = func() (out []kind) {
	for _, m := range []struct {
		kind
		n int
	}{
		{kind{60, spec.NUMAExclusive, 60}, 2},
		{kind{28, spec.NUMAExclusive, 30}, 5},
		{kind{20, spec.NUMABound, 20}, 4},
		{kind{16, spec.NUMABound, 16}, 2},
		{kind{10, spec.NUMABound, 10}, 4},
		{kind{9, spec.NUMABound, 10}, 1},
		{kind{4, spec.NUMABound, 4}, 2},
	} {
		for range m.n {
			out = append(out, m.kind)
		}
	}
	return out
}()

// kinds are n pods of the mix, shuffled.
func kinds(n int, random *rand.Rand) []kind {
	out := make([]kind, n)
	for i := range out {
		out[i] = mix[i%len(mix)]
	}
	random.Shuffle(n, func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// byKind divides a list into its kinds, the largest first.
func byKind(list []kind) (groups [][]kind) {
	for _, k := range slices.Compact(slices.Clone(mix)) {
		group := slices.DeleteFunc(slices.Clone(list), func(other kind) bool { return other != k })
		if len(group) > 0 {
			groups = append(groups, group)
		}
	}
	return groups
}

// pod asks for its kind. It takes a second to leave, so that its node has let go of its CPUs when it is gone.
func (k kind) pod(name, scheduler string) *corev1.Pod {
	memory := *resource.NewQuantity(int64(k.cpus)*memoryPerCPU<<20, resource.BinarySI)
	amounts := corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(int64(k.cpus), resource.DecimalSI), corev1.ResourceMemory: memory}
	grace := int64(1)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name,
			Labels: map[string]string{spec.LabelQoS: string(spec.QoSDedicated)}, Annotations: map[string]string{spec.AnnotationNUMA: k.numa},
		},
		Spec: corev1.PodSpec{
			SchedulerName: scheduler, TerminationGracePeriodSeconds: &grace,
			Containers: []corev1.Container{{Name: "main", Image: "none", Resources: corev1.ResourceRequirements{Requests: amounts, Limits: amounts}}},
		},
	}
}

// kindOf reads a pod's kind back.
func kindOf(pod *corev1.Pod) kind {
	cpus, numa := int(pod.Spec.Containers[0].Resources.Requests.Cpu().Value()), pod.Annotations[spec.AnnotationNUMA]
	for _, k := range mix {
		if k.cpus == cpus && k.numa == numa {
			return k
		}
	}
	return kind{cpus: cpus, numa: numa, take: cpus + cpus%2}
}

// each does something n times, inFlight at once.
func each(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	var group sync.WaitGroup
	errs := make([]error, inFlight)
	for w := range inFlight {
		group.Go(func() {
			for i := w; i < n && errs[w] == nil; i += inFlight {
				errs[w] = do(ctx, i)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// create creates a pod of each kind; they are named in order from a number on.
func (b *bed) create(list []kind, scheduler func(i int) string) {
	b.t.Helper()
	from := len(b.made)
	for i, k := range list {
		b.made = append(b.made, made{kind: k, scheduler: scheduler(i)})
	}
	err := each(b.t.Context(), len(list), func(ctx context.Context, i int) error {
		_, err := b.client.CoreV1().Pods(namespace).Create(ctx, list[i].pod(podName(from+i), scheduler(i)), metav1.CreateOptions{})
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

// fill creates a full cluster's pods, and waits after each kind, the largest first, until they are settled. In this order all of them find a place,
// wherever the scheduler puts each: what a pod needs is a whole number of equal places, of which the larger ones have left enough. In a random order
// the last pod of two whole NUMA nodes may find none, however good the scheduler is.
func (b *bed) fill(list []kind, settled func() (ok bool, why string)) {
	b.t.Helper()
	for _, group := range byKind(list) {
		b.create(group, hilberts)
		b.await(fmt.Sprintf("the pods %+v have a place", group[0]), b.glance(), settled)
	}
}

// replace deletes n pods at random, and creates as many of the same kinds at the same time. One kind after the other: while no other kind waits,
// what a pod leaves is still free for one of its kind, or the other has found a place elsewhere.
func (b *bed) replace(n int, random *rand.Rand, settled func() (ok bool, why string)) {
	b.t.Helper()
	pods, err := b.client.CoreV1().Pods(namespace).List(b.t.Context(), metav1.ListOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	pods.Items = slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool {
		_, ours := b.number(pod.Name)
		return !ours || pod.DeletionTimestamp != nil
	})
	random.Shuffle(len(pods.Items), func(i, j int) { pods.Items[i], pods.Items[j] = pods.Items[j], pods.Items[i] })
	leaving := make(map[kind][]corev1.Pod)
	list := make([]kind, n)
	for i, pod := range pods.Items[:n] {
		list[i] = kindOf(&pod)
		leaving[list[i]] = append(leaving[list[i]], pod)
	}
	for _, group := range byKind(list) {
		gone := leaving[group[0]]
		for i := range gone {
			number, _ := b.number(gone[i].Name)
			b.made[number].replaced = true
		}
		deleted := make(chan error, 1)
		go func() { deleted <- b.delete(gone) }()
		b.create(group, hilberts)
		if err := <-deleted; err != nil {
			b.t.Fatal(err)
		}
		b.await(fmt.Sprintf("the pods %+v have a place again", group[0]), b.glance(), settled)
	}
}

func (b *bed) delete(pods []corev1.Pod) error {
	return each(b.t.Context(), len(pods), func(ctx context.Context, i int) error {
		return b.client.CoreV1().Pods(namespace).Delete(ctx, pods[i].Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pods[i].UID))})
	})
}

// hilberts is the scheduler of all pods but in the races.
func hilberts(int) string { return spec.DefaultSchedulerName }
