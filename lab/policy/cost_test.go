package policy

import (
	"context"
	"flag"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/lab/controlplane"
)

var pairs = flag.Int("pairs", 0, "measure what the policies cost, by so many requests of each kind with and as many without them")

var spare = flag.String("spare", "", "of the policies, leave out those alone whose names begin so")

// free is a namespace that the policies leave alone while they are measured.
const free = "free"

// spent is what a request costs: CPU of client, API server and etcd, which are one process, and the time until its answer.
type spent struct{ cpu, wall time.Duration }

// kinds of pods whose life is measured.
var kinds = []struct {
	name  string
	parts []part
}{
	{"ordinary pod", []part{scheduler(spec.DefaultSchedulerName), asks("cpu", "1"), label("app", "web"), annotation("example.com/note", "x")}},
	{"dedicated pod", []part{scheduler(spec.DefaultSchedulerName), asks("cpu", "8"), label(spec.LabelQoS, string(spec.QoSDedicated)), annotation(spec.AnnotationNUMA, spec.NUMABound)}},
	{"reclaimed pod", []part{scheduler(spec.DefaultSchedulerName), main("=cpu=1 memory=1Gi"), label(spec.LabelQoS, string(spec.QoSReclaimed))}},
	{"GPU pod", []part{scheduler(spec.DefaultSchedulerName), gpus("1"), label("app", "train")}},
}

// TestCost prints, for each kind of pod and request, the median with and without the policies. Requests with and without take turns, so that
// what else the machine does falls on both.
func TestCost(t *testing.T) {
	if *pairs == 0 {
		t.Skip("a measurement: pass -pairs")
	}
	spareFree(t)
	for _, k := range kinds {
		costs := make(map[string]map[string][]spent) // by step and namespace
		for range *pairs {
			for _, namespace := range []string{both, free} {
				live(t, namespace, k.parts, func(step string, s spent) {
					if costs[step] == nil {
						costs[step] = make(map[string][]spent)
					}
					costs[step][namespace] = append(costs[step][namespace], s)
				})
			}
		}
		for _, step := range []string{"create", "bind", "status"} {
			on, off := median(costs[step][both]), median(costs[step][free])
			t.Logf("%-14s %-8s CPU %4d µs without, %4d µs with (%+d); answer %4d µs without, %4d µs with (%+d)", k.name, step,
				off.cpu.Microseconds(), on.cpu.Microseconds(), (on.cpu - off.cpu).Microseconds(),
				off.wall.Microseconds(), on.wall.Microseconds(), (on.wall - off.wall).Microseconds())
		}
	}
}

// spareFree makes the namespace and takes it out of all bindings.
func spareFree(t *testing.T) {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: free, Labels: map[string]string{"cost": free, spec.LabelAllowDedicated: "true"}}}
	if _, err := admin.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	documents, err := controlplane.PolicyDocuments()
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range documents {
		o := object(t, document)
		if name := o["metadata"].(map[string]any)["name"].(string); !strings.HasSuffix(o["kind"].(string), "Binding") || !strings.HasPrefix(name, *spare) {
			continue
		}
		o["spec"].(map[string]any)["matchResources"] = map[string]any{"namespaceSelector": map[string]any{"matchExpressions": []any{
			map[string]any{"key": "cost", "operator": "NotIn", "values": []any{free}},
		}}}
		if err := controlplane.ApplyPolicy(t.Context(), admin.Discovery().RESTClient(), asMutant(t, "", o, nil).changed); err != nil {
			t.Fatal(err)
		}
	}
	if err := poll(t.Context(), patience, func() error { return spared(t.Context()) }); err != nil {
		t.Fatal(err)
	}
}

// spared is nil when no policy is in force in the namespace free.
func spared(ctx context.Context) error {
	if *spare != "" {
		time.Sleep(3 * time.Second) // which they are, only the caller knows; the API server acts within a second
		return nil
	}
	forged := pod("probe", annotation(spec.AnnotationNUMANodes, "x"), annotation(requiredPlugins, "[]"), gpus("1"), scheduler(spec.DefaultSchedulerName))
	if err := dryCreate(ctx, admin, free, forged); err != nil {
		return err
	}
	return saysRequired(ctx, admin, free, pod("probe", scheduler(spec.DefaultSchedulerName), gpus("1")), "")
}

// live creates, binds, starts and deletes a pod.
func live(t *testing.T, namespace string, parts []part, tell func(step string, s spent)) {
	t.Helper()
	const name = "cost"
	pods, ctx := admin.CoreV1().Pods(namespace), t.Context()
	measure := func(step string, send func() error) {
		cpu, begun := processCPU(), time.Now()
		if err := send(); err != nil {
			t.Fatal(err)
		}
		tell(step, spent{cpu: processCPU() - cpu, wall: time.Since(begun)})
	}
	measure("create", func() error {
		_, err := pods.Create(ctx, pod(name, parts...), metav1.CreateOptions{})
		return err
	})
	measure("bind", func() error {
		promise := bindingOf(name, annotation(spec.AnnotationNUMANodes, "0:8/4096Mi"))
		return hilbertd.CoreV1().Pods(namespace).Bind(ctx, promise, metav1.CreateOptions{})
	})
	measure("status", func() error {
		_, err := pods.Patch(ctx, name, types.StrategicMergePatchType, []byte(`{"status":{"phase":"Running","podIP":"10.0.0.1"}}`), metav1.PatchOptions{}, "status")
		return err
	})
	now := int64(0)
	if err := pods.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		t.Fatal(err)
	}
}

func processCPU() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func median(all []spent) spent {
	var cpu, wall []time.Duration
	for _, s := range all {
		cpu, wall = append(cpu, s.cpu), append(wall, s.wall)
	}
	slices.Sort(cpu)
	slices.Sort(wall)
	return spent{cpu: cpu[len(cpu)/2], wall: wall[len(wall)/2]}
}
