package policy

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"hilbert.dev/hilbert/api/spec"
)

var rounds = flag.Int("rounds", 0, "measure what the policies cost, in so many rounds with and as many without them")

// batch is how many requests of each kind a round sends.
const batch = 250

// spent is what a request costs: CPU of client, API server and etcd, which are one process, and the time until its answer.
type spent struct{ cpu, wall time.Duration }

// kinds of pods whose life is measured.
var kinds = []struct {
	name  string
	parts []part
}{
	{"ordinary pod", []part{scheduler(spec.DefaultSchedulerName), asks("cpu", "1"), label("app", "web"), annotation("example.com/note", "x")}},
	{"dedicated pod", []part{scheduler(spec.DefaultSchedulerName), asks("cpu", "8"), label(spec.LabelQoS, string(spec.QoSDedicated)), annotation(spec.AnnotationNUMA, spec.NUMABound)}},
	{"GPU pod", []part{scheduler(spec.DefaultSchedulerName), gpus("1"), label("app", "train")}},
}

// TestCost prints, for each kind of pod and request, the medians with and without the policies.
func TestCost(t *testing.T) {
	if *rounds == 0 {
		t.Skip("a measurement: pass -rounds")
	}
	costs := make(map[string][]spent)
	for range *rounds {
		for _, on := range []bool{true, false} {
			enforce(t, on)
			for _, k := range kinds {
				for step, s := range life(t, k.parts) {
					key := fmt.Sprintf("%-14s %-8s %v", k.name, step, on)
					costs[key] = append(costs[key], s)
				}
			}
		}
	}
	enforce(t, true)
	for _, k := range kinds {
		for _, step := range []string{"create", "bind", "status"} {
			on, off := median(costs[fmt.Sprintf("%-14s %-8s true", k.name, step)]), median(costs[fmt.Sprintf("%-14s %-8s false", k.name, step)])
			t.Logf("%-14s %-8s CPU %4d µs without, %4d µs with (%+d); answer %4d µs without, %4d µs with (%+d)", k.name, step,
				off.cpu.Microseconds(), on.cpu.Microseconds(), (on.cpu - off.cpu).Microseconds(),
				off.wall.Microseconds(), on.wall.Microseconds(), (on.wall - off.wall).Microseconds())
		}
	}
}

// life creates, binds and starts a batch of pods.
func life(t *testing.T, parts []part) map[string]spent {
	t.Helper()
	pods := admin.CoreV1().Pods(both)
	name := func(i int) string { return fmt.Sprintf("cost-%d", i) }
	out := map[string]spent{
		"create": each(t, func(ctx context.Context, i int) error {
			_, err := pods.Create(ctx, pod(name(i), parts...), metav1.CreateOptions{})
			return err
		}),
		"bind": each(t, func(ctx context.Context, i int) error {
			return hilbertd.CoreV1().Pods(both).Bind(ctx, bindingOf(name(i), annotation(spec.AnnotationZones, "0:8/4096Mi")), metav1.CreateOptions{})
		}),
		"status": each(t, func(ctx context.Context, i int) error {
			_, err := pods.Patch(ctx, name(i), types.StrategicMergePatchType, []byte(`{"status":{"phase":"Running","podIP":"10.0.0.1"}}`), metav1.PatchOptions{}, "status")
			return err
		}),
	}
	now := int64(0)
	for i := range batch {
		if err := pods.Delete(t.Context(), name(i), metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// each sends a batch, one after the other.
func each(t *testing.T, send func(ctx context.Context, i int) error) spent {
	t.Helper()
	cpu, begun := processCPU(), time.Now()
	for i := range batch {
		if err := send(t.Context(), i); err != nil {
			t.Fatal(err)
		}
	}
	return spent{cpu: (processCPU() - cpu) / batch, wall: time.Since(begun) / batch}
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

// enforce installs the policies, or removes them, and waits until that is felt.
func enforce(t *testing.T, on bool) {
	t.Helper()
	if on {
		if err := plane.InstallPolicies(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := awaitPolicies(t.Context()); err != nil {
			t.Fatal(err)
		}
		return
	}
	o, all := metav1.DeleteOptions{}, metav1.ListOptions{}
	api := admin.AdmissionregistrationV1()
	for _, err := range []error{
		api.ValidatingAdmissionPolicyBindings().DeleteCollection(t.Context(), o, all), api.MutatingAdmissionPolicyBindings().DeleteCollection(t.Context(), o, all),
		api.ValidatingAdmissionPolicies().DeleteCollection(t.Context(), o, all), api.MutatingAdmissionPolicies().DeleteCollection(t.Context(), o, all),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := poll(t.Context(), patience, func() error { return gone(t.Context()) }); err != nil {
		t.Fatal(err)
	}
}

// gone is nil when no policy is in force.
func gone(ctx context.Context) error {
	if err := dryCreate(ctx, admin, plain, pod("probe", annotation(spec.AnnotationZones, "x"), annotation(requiredPlugins, "[]"), gpus("1"),
		scheduler(spec.DefaultSchedulerName))); err != nil {
		return err
	}
	if err := saysRequired(ctx, admin, plain, pod("probe", scheduler(spec.DefaultSchedulerName), gpus("1")), ""); err != nil {
		return err
	}
	if err := update(admin, both, "old", func(p *corev1.Pod) { p.Annotations = map[string]string{requiredPlugins: "[]"} })(ctx); err != nil {
		return err
	}
	return bindDry(ctx, admin, both, "free", bindingOf("free", annotation(spec.AnnotationZones, "x")))
}
