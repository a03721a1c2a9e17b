package policy

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"hilbert.dev/hilbert/api/spec"
)

// Namespaces that bound what their pods ask for.
const (
	defaulted = "defaulted" // a LimitRange with defaults
	most      = "most"      // one with a maximum
	least     = "least"     // one with a minimum
	steep     = "steep"     // one with a ratio
	counted   = "counted"   // a ResourceQuota for cpu and memory: pods must name both
	lending   = "lending"   // one for what reclaimed pods run on
)

// prepareBounds makes the namespaces, with a quota's status as its controller would write it; and two nodes, of which one says too much.
func prepareBounds(ctx context.Context) error {
	limits := map[string]corev1.LimitRangeItem{
		defaulted: {Default: resources("cpu=500m memory=256Mi").Requests, DefaultRequest: resources("cpu=250m memory=128Mi").Requests},
		most:      {Max: resources("cpu=8 memory=8Gi").Requests},
		least:     {Min: resources("cpu=10m").Requests},
		steep:     {MaxLimitRequestRatio: resources("cpu=2").Requests},
	}
	quotas := map[string]corev1.ResourceList{
		counted: resources("requests.cpu=2 limits.memory=2Gi").Requests,
		lending: {"requests." + spec.ResourceReclaimedMemory: resource.MustParse("1Gi")},
	}
	for _, name := range []string{defaulted, most, least, steep, counted, lending} {
		if err := makeNamespace(ctx, name, nil); err != nil {
			return err
		}
		if item, ok := limits[name]; ok {
			item.Type = corev1.LimitTypeContainer
			bound := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "bound"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{item}}}
			if _, err := admin.CoreV1().LimitRanges(name).Create(ctx, bound, metav1.CreateOptions{}); err != nil {
				return err
			}
		}
		if hard, ok := quotas[name]; ok {
			if err := setQuota(ctx, name, hard); err != nil {
				return err
			}
		}
	}
	for name, status := range map[string]corev1.NodeStatus{"n1": {}, "listed": {Capacity: corev1.ResourceList{spec.ResourceReclaimedMemory: resource.MustParse("1Gi")}}} {
		o := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: status}
		if _, err := admin.CoreV1().Nodes().Create(ctx, o, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

func setQuota(ctx context.Context, namespace string, hard corev1.ResourceList) error {
	quotas := admin.CoreV1().ResourceQuotas(namespace)
	quota, err := quotas.Create(ctx, &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "bound"}, Spec: corev1.ResourceQuotaSpec{Hard: hard}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	quota.Status.Hard, quota.Status.Used = hard, make(corev1.ResourceList)
	for name := range hard {
		quota.Status.Used[name] = resource.MustParse("0")
	}
	_, err = quotas.UpdateStatus(ctx, quota, metav1.UpdateOptions{})
	return err
}

// awaitBounds waits until the API server's plugins know of the bounds.
func awaitBounds(ctx context.Context) error {
	return poll(ctx, patience, func() error {
		for _, r := range []request{
			{defaulted, becomes(admin, defaulted, "main: cpu=250m memory=128Mi / cpu=500m memory=256Mi; Burstable"), ""},
			{most, refusedWith("maximum cpu usage", creates(admin, most, main("=cpu=9 memory=1Gi"))), ""},
			{least, refusedWith("minimum cpu usage", creates(admin, least, main("cpu=1m"))), ""},
			{steep, refusedWith("max limit to request ratio", creates(admin, steep, main("cpu=1 / cpu=4"))), ""},
			{counted, refusedWith("must specify limits.memory for: main; requests.cpu for: main", creates(admin, counted)), ""},
			{lending, refusedWith("exceeded quota", creates(admin, lending, label(spec.LabelQoS, string(spec.QoSReclaimed)), main("=bytes=2Gi"))), ""},
		} {
			if err := r.try(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

// refusedWith wants it refused with these words by Kubernetes itself, and by no policy.
func refusedWith(words string, do func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		err := do(ctx)
		switch {
		case err == nil:
			return fmt.Errorf("taken; want it refused with %q", words)
		case !strings.Contains(err.Error(), words) || strings.Contains(err.Error(), "AdmissionPolicy"):
			return fmt.Errorf("got %w; want it refused with %q", err, words)
		}
		return nil
	}
}

// boundRows are reclaimed pods where a LimitRange or a ResourceQuota has a say, and what nothing may be made of later.
func boundRows() []request {
	reclaimed := label(spec.LabelQoS, string(spec.QoSReclaimed))
	in := func(name, namespace, want string, parts ...part) request {
		return request{name, becomes(owner, namespace, want, append(parts, reclaimed)...), ""}
	}
	never := func(name, words string, do func(context.Context) error) request {
		return request{name, refusedWith(words, do), ""}
	}
	const all = "main: =cpu=0 bytes=268435456 millicpu=250 memory=0"
	return []request{
		in("defaults are turned", defaulted, all),
		in("what is said comes before defaults", defaulted, "main: =cpu=0 bytes=1G millicpu=2k memory=0", main("=cpu=2 memory=1G")),
		in("defaults beside ours", defaulted, "main: =cpu=0 bytes=1M millicpu=2k memory=0", main("=millicpu=2000 bytes=1M")),
		in("nothing is filled in for nought", defaulted, "main: =cpu=0 memory=0", main("=cpu=0 memory=0")),
		in("below a maximum", most, "main: =cpu=0 bytes=1G millicpu=2k memory=0", main("=cpu=2 memory=1G")),
		in("beyond a maximum", most, "main: =cpu=0 bytes=16G millicpu=12k memory=0", main("=cpu=12 memory=16G")),
		never("a minimum", "minimum cpu usage per Container is 10m, but request is 0", creates(owner, least, reclaimed, main("=cpu=2 memory=1G"))),
		never("a ratio", "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0", creates(owner, steep, reclaimed, main("=cpu=2"))),
		in("no quota of cpu is used", counted, "main: =cpu=0 bytes=16G millicpu=12k memory=0", main("=cpu=12 memory=16G")),
		never("a quota wants cpu named", "must specify requests.cpu for: main", creates(owner, counted, reclaimed, main("=memory=1G"))),
		in("in our resources, named", counted, "main: =cpu=0 millicpu=12k memory=0", main("=cpu=0 memory=0 millicpu=12k")),
		in("within a quota of ours", lending, "main: bytes=1G memory=0 / bytes=1G", main("memory=1G")),
		never("beyond a quota of ours", "exceeded quota: bound, requested: requests.hilbert.dev/reclaimed-memory=2147483648", creates(owner, lending, reclaimed, main("memory=2Gi"))),
		never("a resize", "Pod QOS Class may not change as a result of resizing", resizesTo(owner, "lent", "=cpu=1 memory=1G")),
		never("a resize of ours", "only cpu and memory resources are mutable", resizesTo(owner, "lent", "=cpu=0 millicpu=1 bytes=1G memory=0")),
		never("an ephemeral container that asks", "cannot be set for an Ephemeral Container", debugsWith(owner, "lent", "=millicpu=1")),
		{"an ephemeral container that does not", debugsWith(owner, "lent", ""), ""},
		{"a resize of an ordinary pod", resizesTo(owner, "busy", "cpu=2"), ""},
	}
}

// nodeRows are words of a Node's status.
func nodeRows() []request {
	const only = "only the agent offers them, in the node's CustomNodeResource"
	publishes := func(user kubernetes.Interface, node, list, resource, amount string) func(context.Context) error {
		return func(ctx context.Context) error {
			patch := fmt.Sprintf(`{"status":{%q:{%q:%s}}}`, list, resource, amount)
			_, err := user.CoreV1().Nodes().Patch(ctx, node, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, "status")
			return err
		}
	}
	createsNode := func(user kubernetes.Interface, name string, offers corev1.ResourceName) func(context.Context) error {
		return func(ctx context.Context) error {
			o := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{offers: resource.MustParse("1")}}}
			_, err := user.CoreV1().Nodes().Create(ctx, o, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}
	}
	return []request{
		{"a node is born with headroom", createsNode(admin, "n9", spec.ResourceReclaimedCPU), only},
		{"a node is born without", createsNode(admin, "n9", "example.com/x"), ""},
		{"headroom in a node's capacity", publishes(admin, "n1", "capacity", spec.ResourceReclaimedCPU, `"1000"`), only},
		{"headroom in a node's allocatable", publishes(admin, "n1", "allocatable", spec.ResourceReclaimedMemory, `"1Gi"`), only},
		{"parts of GPUs in a node's capacity", publishes(admin, "n1", "capacity", spec.ResourceGPUCore, `"800"`), only},
		{"GPU memory in a node's allocatable", publishes(admin, "n1", "allocatable", spec.ResourceGPUMemory, `"81920"`), only},
		{"a node is born with RDMA", createsNode(admin, "n9", spec.ResourceRDMA), only},
		{"bandwidth in a node's capacity", publishes(admin, "n1", "capacity", spec.ResourceNICBandwidth, `"100000"`), only},
		{"functions in a node's capacity", publishes(admin, "n1", "capacity", spec.ResourceNICFunctions, `"8"`), only},
		{"another resource of a node", publishes(admin, "n1", "capacity", "example.com/x", `"1"`), ""},
		{"a kubelet lists what it is told", publishes(node, "n1", "capacity", spec.ResourceReclaimedCPU, `"1000"`), ""},
		{"old headroom stays", publishes(admin, "listed", "capacity", "example.com/x", `"1"`), ""},
		{"old headroom rises", publishes(admin, "listed", "capacity", spec.ResourceReclaimedMemory, `"2Gi"`), only},
		{"old headroom goes", publishes(admin, "listed", "capacity", spec.ResourceReclaimedMemory, "null"), ""},
	}
}

// resizesTo asks for other resources of the first container of a pod of the stock, dry.
func resizesTo(user kubernetes.Interface, name, text string) func(context.Context) error {
	return func(ctx context.Context) error {
		p, err := admin.CoreV1().Pods(both).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		p.Spec.Containers[0].Resources = resources(text)
		_, err = user.CoreV1().Pods(both).UpdateResize(ctx, name, p, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
}

func debugsWith(user kubernetes.Interface, name, text string) func(context.Context) error {
	return func(ctx context.Context) error {
		p, err := admin.CoreV1().Pods(both).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
			Name: "debug", Image: "x", ImagePullPolicy: corev1.PullAlways, TerminationMessagePolicy: corev1.TerminationMessageReadFile, Resources: resources(text),
		}}}
		got, err := user.CoreV1().Pods(both).UpdateEphemeralContainers(ctx, name, p, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil && got.Status.QOSClass != corev1.PodQOSBestEffort {
			err = errors.New("it is " + string(got.Status.QOSClass))
		}
		return err
	}
}
