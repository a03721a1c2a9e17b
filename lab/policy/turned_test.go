package policy

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	helper "k8s.io/component-helpers/resource"
	"pgregory.net/rapid"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/lab/controlplane"
)

// turned is what a container's cpu and memory are to be in our resources; nothing where it asks for nothing. With whole the pod has memory
// of its own.
func turned(r *corev1.ResourceRequirements, whole bool) corev1.ResourceList {
	out := corev1.ResourceList{}
	more := func(name corev1.ResourceName, beyond bool) resource.Quantity {
		request, ok := r.Requests[name]
		if limit := r.Limits[name]; !ok || beyond && limit.Cmp(request) > 0 {
			return limit
		}
		return request
	}
	cpu, memory := more(corev1.ResourceCPU, false), more(corev1.ResourceMemory, !whole)
	for name, amount := range map[corev1.ResourceName]int64{spec.ResourceReclaimedCPU: cpu.MilliValue(), spec.ResourceReclaimedMemory: memory.Value()} {
		if was, ok := r.Requests[name]; ok {
			amount = was.Value()
		}
		if amount > 0 {
			out[name] = *resource.NewQuantity(amount, resource.DecimalSI)
		}
	}
	return out
}

// demands says what is wrong with a pod that was made of another: its class, an amount that is left, ours by container and in sum, or
// what else has changed.
func demands(was, is *corev1.Pod) error {
	var errs []error
	if is.Status.QOSClass != corev1.PodQOSBestEffort {
		errs = append(errs, fmt.Errorf("it is %s", is.Status.QOSClass))
	}
	own := was.Spec.Resources
	hasMemory := own != nil && (hasAmount(own.Requests, corev1.ResourceMemory) || hasAmount(own.Limits, corev1.ResourceMemory))
	want := was.DeepCopy() // what it would be if the pod had nothing of its own
	want.Spec.Resources = nil
	each(want, func(c *corev1.Container) { c.Resources.Requests = turned(&c.Resources, hasMemory) })
	sum := helper.PodRequests(want, helper.PodResourcesOptions{})
	if own != nil {
		for name, amount := range turned(own, false) {
			if name == spec.ResourceReclaimedCPU && !hasAmount(own.Requests, corev1.ResourceCPU) && asksForCPU(was) {
				continue
			}
			if had := sum[name]; amount.Cmp(had) > 0 {
				sum[name] = amount
			}
		}
	}
	got := helper.PodRequests(is, helper.PodResourcesOptions{})
	limits := helper.PodLimits(is, helper.PodResourcesOptions{})
	for _, name := range []corev1.ResourceName{spec.ResourceReclaimedCPU, spec.ResourceReclaimedMemory} {
		has, limit, wants := got[name], limits[name], sum[name]
		if has.Cmp(wants) != 0 || limit.Cmp(wants) != 0 {
			errs = append(errs, fmt.Errorf("%s in sum: %s, limit %s, want %s", name, has.String(), limit.String(), wants.String()))
		}
	}
	// But for the first container, which has the pod's rest, each has what it asked for; and everything else is as it was.
	amounts := map[string]corev1.ResourceList{}
	each(want, func(c *corev1.Container) { amounts[c.Name] = c.Resources.Requests })
	each(is, func(c *corev1.Container) {
		for _, name := range []corev1.ResourceName{spec.ResourceReclaimedCPU, spec.ResourceReclaimedMemory} {
			has, wants := c.Resources.Requests[name], amounts[c.Name][name]
			if c.Name != "main" && has.Cmp(wants) != 0 {
				errs = append(errs, fmt.Errorf("%s of %s: %s, want %s", name, c.Name, has.String(), wants.String()))
			}
		}
	})
	if a, b := others(was), others(is); a != b {
		errs = append(errs, fmt.Errorf("else it was\n%s, is\n%s", a, b))
	}
	return errors.Join(errs...)
}

// asksForCPU tells whether a container has a request, or a limit that stands for one.
func asksForCPU(p *corev1.Pod) (asks bool) {
	each(p, func(c *corev1.Container) {
		asks = asks || hasAmount(c.Resources.Requests, corev1.ResourceCPU) || hasAmount(c.Resources.Limits, corev1.ResourceCPU)
	})
	return asks
}

func hasAmount(l corev1.ResourceList, name corev1.ResourceName) bool {
	_, ok := l[name]
	return ok
}

func each(p *corev1.Pod, do func(*corev1.Container)) {
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			do(&list[i])
		}
	}
}

// others are the amounts of a pod's containers of what is not turned, and the names of what is.
func others(p *corev1.Pod) string {
	q := p.DeepCopy()
	q.Spec.Resources, q.Status.QOSClass = nil, corev1.PodQOSBestEffort
	each(q, func(c *corev1.Container) {
		// A limit without a request is one, in what was not yet read by the API server.
		for name, amount := range c.Resources.Limits {
			if !hasAmount(c.Resources.Requests, name) {
				c.Resources.Requests[name] = amount
			}
		}
		for _, list := range []corev1.ResourceList{c.Resources.Requests, c.Resources.Limits} {
			for name := range list {
				switch name {
				case corev1.ResourceCPU, corev1.ResourceMemory:
					list[name] = resource.MustParse("0")
				case spec.ResourceReclaimedCPU, spec.ResourceReclaimedMemory:
					delete(list, name)
				}
			}
		}
	})
	return stored(q)
}

var (
	cpuAmounts    = []string{"0", "1n", "1u", "0.0001", "1m", "0.07", "0.29", "70m", "1.001", "1500m", "2", "3", "1e1", "5e-1", "0.5k", "12345678901n"}
	memoryAmounts = []string{"0", "1m", "1500m", "1", "999", "0.5Ki", "1.5M", "64Mi", "1Gi", "1.7Gi", "123456789123m", "1e9", "3e-1", "2G", "8Ti"}
)

// drawAsk draws what a container asks for: any of requests and limits, some in our resources, some of others.
func drawAsk(t *rapid.T, whole bool) corev1.ResourceRequirements {
	out := corev1.ResourceRequirements{Requests: corev1.ResourceList{}, Limits: corev1.ResourceList{}}
	for name, amounts := range map[corev1.ResourceName][]string{corev1.ResourceCPU: cpuAmounts, corev1.ResourceMemory: memoryAmounts} {
		draw := func(what string) resource.Quantity {
			return resource.MustParse(rapid.SampledFrom(amounts).Draw(t, what+" of "+string(name)))
		}
		switch rapid.IntRange(0, 4).Draw(t, "said of "+string(name)) {
		case 0:
			out.Requests[name] = draw("request")
		case 1:
			out.Limits[name] = draw("limit")
		case 2, 3:
			request, limit := draw("request"), draw("limit")
			if request.Cmp(limit) > 0 {
				request, limit = limit, request
			}
			out.Requests[name], out.Limits[name] = request, limit
		}
	}
	if whole {
		return out
	}
	for _, name := range []corev1.ResourceName{spec.ResourceReclaimedCPU, spec.ResourceReclaimedMemory, "example.com/x"} {
		if rapid.IntRange(0, 5).Draw(t, string(name)) == 0 {
			amount := resource.MustParse(rapid.SampledFrom([]string{"0", "1", "700", "2k", "1Gi"}).Draw(t, "amount"))
			out.Requests[name], out.Limits[name] = amount, amount
		}
	}
	return out
}

func drawReclaimed(t *rapid.T) *corev1.Pod {
	parts := []part{label(spec.LabelQoS, string(spec.QoSReclaimed))}
	own := drawAsk(t, false)
	parts = append(parts, func(_ *metav1.ObjectMeta, pod *corev1.PodSpec) { pod.Containers[0].Resources = own })
	for range rapid.IntRange(0, 3).Draw(t, "others") {
		add := rapid.SampledFrom([]func(string) part{beside, first, sidecar}).Draw(t, "kind")
		r := drawAsk(t, false)
		parts = append(parts, func(meta *metav1.ObjectMeta, pod *corev1.PodSpec) {
			mains, inits := len(pod.Containers), len(pod.InitContainers)
			add("")(meta, pod)
			if len(pod.Containers) > mains {
				pod.Containers[mains].Resources = r
			} else {
				pod.InitContainers[inits].Resources = r
			}
		})
	}
	if rapid.IntRange(0, 2).Draw(t, "as a whole") == 0 {
		r := drawAsk(t, true)
		parts = append(parts, func(_ *metav1.ObjectMeta, pod *corev1.PodSpec) { pod.Resources = &r })
	}
	return pod("new", parts...)
}

// TestTurned: whatever a pod asks for, nothing of it is lost or added, and what was turned is not turned again.
func TestTurned(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		was := drawReclaimed(t)
		ctx := t.Context()
		is, err := admin.CoreV1().Pods(plain).Create(ctx, was, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			t.Fatalf("%s: %v", stored(was), err)
		}
		if err := demands(was, is); err != nil {
			t.Fatalf("%s became %s: %v", stored(was), stored(is), err)
		}
		again := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "new", Labels: is.Labels}, Spec: is.Spec}
		twice, err := admin.CoreV1().Pods(plain).Create(ctx, again, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil || !reflect.DeepEqual(twice.Spec, is.Spec) {
			t.Fatalf("%s became %s the second time: %v", stored(is), stored(twice), err)
		}
	})
}

// TestLargestPods: many containers that ask for much, one by one and as a whole, stay within what an expression may cost.
func TestLargestPods(t *testing.T) {
	for _, count := range []int{20, 100} {
		parts := []part{label(spec.LabelQoS, string(spec.QoSReclaimed)), main("cpu=1001m memory=1500m / cpu=2 memory=1Gi"), whole("=cpu=1k memory=1Ti")}
		for range count / 2 {
			parts = append(parts, beside("cpu=1001m memory=1500m / cpu=2 memory=1Gi"), sidecar("cpu=1u memory=1M / cpu=2 memory=1Gi"))
		}
		p := pod("new", parts...)
		begun := processCPU()
		is, err := admin.CoreV1().Pods(plain).Create(t.Context(), p, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d containers: %d ms of CPU", len(p.Spec.Containers)+len(p.Spec.InitContainers), (processCPU() - begun).Milliseconds())
		if err := demands(p, is); err != nil {
			t.Error(err)
		}
	}
}

// later is a mutation of somebody else, after ours: it asks for CPU where a pod asks for none.
var later = []string{
	`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"MutatingAdmissionPolicy","metadata":{"name":"later"},"spec":{
	"failurePolicy":"Fail","reinvocationPolicy":"Never",
	"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["pods"]}]},
	"matchConditions":[{"name":"bare","expression":"object.metadata.name == 'bare' && !object.spec.containers[0].?resources.?requests[?'cpu'].hasValue()"}],
	"mutations":[{"patchType":"JSONPatch","jsonPatch":{"expression":
		"[JSONPatch{op: 'add', path: '/spec/containers/0/resources/requests', value: {'cpu': '250m'}}]"}}]}}`,
	`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"MutatingAdmissionPolicyBinding","metadata":{"name":"later"},"spec":{"policyName":"later"}}`,
}

// TestTurnedLate: what another mutation asks for after ours is turned too.
func TestTurnedLate(t *testing.T) {
	t.Cleanup(func() {
		policies := admin.AdmissionregistrationV1()
		if err := errors.Join(policies.MutatingAdmissionPolicyBindings().Delete(context.Background(), "later", metav1.DeleteOptions{}),
			policies.MutatingAdmissionPolicies().Delete(context.Background(), "later", metav1.DeleteOptions{})); err != nil {
			t.Error(err)
		}
	})
	for _, document := range later {
		if err := controlplane.ApplyPolicy(t.Context(), admin.Discovery().RESTClient(), []byte(document)); err != nil {
			t.Fatal(err)
		}
	}
	seen := func(want string, parts ...part) {
		t.Helper()
		if err := poll(t.Context(), survival, func() error {
			got, err := admin.CoreV1().Pods(plain).Create(t.Context(), pod("bare", parts...), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if err == nil && stored(got) != want {
				err = fmt.Errorf("it asks for\n%s, want\n%s", stored(got), want)
			}
			return err
		}); err != nil {
			t.Error(err)
		}
	}
	seen("main: cpu=250m; Burstable")
	seen("main: cpu=0 millicpu=250 / millicpu=250", label(spec.LabelQoS, string(spec.QoSReclaimed)))
}
