package policy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"hilbert.dev/hilbert/api/spec"
)

// request is a row: who does what, and the words with which it is refused; none: it is taken.
type request struct {
	name    string
	do      func(context.Context) error
	refused string
}

func (r request) try(ctx context.Context) error {
	if err := verdict(r.do(ctx), r.refused); err != nil {
		return fmt.Errorf("%s: %w", r.name, err)
	}
	return nil
}

// TestRequests sends all rows.
func TestRequests(t *testing.T) {
	for _, r := range requests() {
		t.Run(r.name, func(t *testing.T) {
			if err := verdict(r.do(t.Context()), r.refused); err != nil {
				t.Error(err)
			}
		})
	}
}

func requests() []request {
	var all []request
	for _, some := range [][]request{placements(), bindings(), spelling(), namespaces(), unchanging(), required(), nodes(), configurationRows(), deviceRows(), reclaimedRows(), tideRows(), boundRows(), nodeRows(), statusRows(), claimRows(), reservationRows(), overcommitRows(), uplinkRows()} {
		all = append(all, some...)
	}
	return all
}

func creates(user kubernetes.Interface, namespace string, parts ...part) func(context.Context) error {
	return func(ctx context.Context) error { return dryCreate(ctx, user, namespace, pod("new", parts...)) }
}

func binds(user kubernetes.Interface, name string, parts ...part) func(context.Context) error {
	return func(ctx context.Context) error { return bindDry(ctx, user, both, name, bindingOf(name, parts...)) }
}

// oldBinds uses the endpoint of the namespace.
func oldBinds(user kubernetes.Interface, name string, parts ...part) func(context.Context) error {
	return func(ctx context.Context) error {
		return user.CoreV1().RESTClient().Post().Namespace(both).Resource("bindings").Param("dryRun", metav1.DryRunAll).
			Body(bindingOf(name, parts...)).Do(ctx).Error()
	}
}

// patches patches a pod, or a subresource of it.
func patches(user kubernetes.Interface, name, patch string, subresources ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := user.CoreV1().Pods(both).Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, subresources...)
		return err
	}
}

// annotates is a merge patch that sets an annotation; "null" takes it away.
func annotates(key, value string) string {
	return fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, key, value)
}

func placements() []request {
	const written = "only the scheduler's Binding writes it"
	numaNodes, gpu := annotation(spec.AnnotationNUMANodes, "0:8/4096Mi"), annotation(spec.AnnotationGPUs, "0")
	mirror := annotation("kubernetes.io/config.mirror", "x")
	out := []request{
		{"a pod without words", creates(owner, plain), ""},
		{"a pod without words, on a node", creates(owner, plain, onNode("n1")), ""},
		{"a level on a node", creates(owner, dedicated, label(spec.LabelQoS, string(spec.QoSDedicated)), onNode("n1")), "spec.nodeName: a pod that says"},
		{"much that is lent, on a node", creates(owner, plain, label(spec.LabelQoS, string(spec.QoSReclaimed)), main("=millicpu=1000000"), onNode("n1")), "spec.nodeName: "},
		{"a pool on a node, as the administrator", creates(admin, plain, annotation(spec.AnnotationPool, "ads"), onNode("n1")), "spec.nodeName: "},
		{"words of others", creates(owner, plain, annotation("example.com/numaNodes", "0"), label("app", "x")), ""},
		{"born with NUMA nodes, for a node", creates(owner, plain, numaNodes, onNode("n1")), "hilbert.dev/numa-nodes: " + written},
		{"born with nothing in NUMA nodes", creates(owner, plain, annotation(spec.AnnotationNUMANodes, "")), "hilbert.dev/numa-nodes: " + written},
		{"a mirror by its node", creates(node, plain, mirror, numaNodes, label(spec.LabelQoS, "gold"), onNode("n1")), ""},
		{"a mirror by its node, with a GPU", creates(node, plain, mirror, gpus("1"), scheduler(spec.DefaultSchedulerName), onNode("n1"),
			annotation(requiredPlugins, "[]")), ""},
		{"a mirror by somebody", creates(owner, plain, mirror, numaNodes, onNode("n1")), "hilbert.dev/numa-nodes: " + written},
		{"a mirror by somebody, with a GPU", creates(owner, plain, mirror, gpus("1"), scheduler(spec.DefaultSchedulerName), onNode("n1"),
			annotation(requiredPlugins, "[]")), requiredPlugins},
		{"a mirror by another node", creates(node, plain, mirror, numaNodes, onNode("n2")), "hilbert.dev/numa-nodes: " + written},
	}
	for _, key := range []string{spec.AnnotationNICs, spec.AnnotationReclaimed, spec.AnnotationResources, spec.AnnotationResourceNUMANodes, spec.AnnotationPriority, spec.AnnotationReservation} {
		out = append(out,
			request{"the owner creates with " + key, creates(owner, plain, annotation(key, "1")), key + ": " + written},
			request{"the owner adds " + key, patches(owner, "free", annotates(key, `"1"`)), key + ": " + written},
			request{"the node adds " + key, patches(node, "placed", annotates(key, `"1"`), "status"), key + ": " + written})
	}
	for name, user := range map[string]kubernetes.Interface{"the owner": owner, "the administrator": admin} {
		out = append(out,
			request{name + " creates with NUMA nodes", creates(user, plain, numaNodes), "hilbert.dev/numa-nodes: " + written},
			request{name + " creates with GPUs", creates(user, plain, gpu), "hilbert.dev/gpus: " + written},
			request{name + " adds NUMA nodes", patches(user, "free", annotates(spec.AnnotationNUMANodes, `"0:8/4096Mi"`)), "hilbert.dev/numa-nodes: " + written},
			request{name + " adds empty NUMA nodes", patches(user, "free", annotates(spec.AnnotationNUMANodes, `""`)), "hilbert.dev/numa-nodes: " + written},
			request{name + " adds GPUs", patches(user, "free", annotates(spec.AnnotationGPUs, `"1"`)), "hilbert.dev/gpus: " + written},
			request{name + " changes NUMA nodes", patches(user, "placed", annotates(spec.AnnotationNUMANodes, `"1:8/4096Mi"`)), "hilbert.dev/numa-nodes: " + written},
			request{name + " removes NUMA nodes", patches(user, "placed", annotates(spec.AnnotationNUMANodes, "null")), "hilbert.dev/numa-nodes: " + written},
			request{name + " changes GPUs", patches(user, "placed", annotates(spec.AnnotationGPUs, `"1,2"`)), "hilbert.dev/gpus: " + written},
			request{name + " changes both", patches(user, "placed", `{"metadata":{"annotations":{"hilbert.dev/numa-nodes":null,"hilbert.dev/gpus":null}}}`), "hilbert.dev/numa-nodes, hilbert.dev/gpus: " + written},
			request{name + " adds NUMA nodes by the status", patches(user, "free", annotates(spec.AnnotationNUMANodes, `"0:8/4096Mi"`), "status"), "hilbert.dev/numa-nodes: " + written},
			request{name + " changes something else", patches(user, "placed", annotates("example.com/note", `"x"`)), ""},
			request{name + " changes something else of an old pod", patches(user, "old", annotates("example.com/note", `"x"`)), ""},
			request{name + " forges an old pod again", patches(user, "old", annotates(spec.AnnotationGPUs, `"7"`)), "hilbert.dev/gpus: " + written},
			request{name + " tells a status", patches(user, "placed", `{"status":{"message":"x"}}`, "status"), ""},
			request{name + " tells a status of an old pod", patches(user, "old", `{"status":{"message":"x"}}`, "status"), ""},
		)
	}
	return append(out,
		request{"the node tells a status", patches(node, "placed", `{"status":{"phase":"Running"}}`, "status"), ""},
		request{"the node forges NUMA nodes", patches(node, "placed", annotates(spec.AnnotationNUMANodes, `"1:8/4096Mi"`), "status"), "hilbert.dev/numa-nodes: " + written},
		request{"hilbertd tells a condition", patches(hilbertd, "free", `{"status":{"conditions":[{"type":"PodScheduled","status":"False"}]}}`, "status"), ""},
		request{"by a resize", resizes(owner, "free", spec.AnnotationNUMANodes), ""},
		request{"by an ephemeral container", debugs(owner, "free", spec.AnnotationNUMANodes), ""},
	)
}

// resizes and debugs write an annotation through a subresource that must not take it.
func resizes(user kubernetes.Interface, name, key string) func(context.Context) error {
	return func(ctx context.Context) error {
		p, err := admin.CoreV1().Pods(both).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		annotation(key, "x")(&p.ObjectMeta, &p.Spec)
		got, err := user.CoreV1().Pods(both).UpdateResize(ctx, name, p, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		return untouched(got, err, key)
	}
}

func debugs(user kubernetes.Interface, name, key string) func(context.Context) error {
	return func(ctx context.Context) error {
		p, err := admin.CoreV1().Pods(both).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		annotation(key, "x")(&p.ObjectMeta, &p.Spec)
		p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
			Name: "debug", Image: "x", ImagePullPolicy: corev1.PullAlways, TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		}}}
		got, err := user.CoreV1().Pods(both).UpdateEphemeralContainers(ctx, name, p, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		return untouched(got, err, key)
	}
}

func untouched(got *corev1.Pod, err error, key string) error {
	if err == nil && got.Annotations[key] != "" {
		return fmt.Errorf("%s was written: %q", key, got.Annotations[key])
	}
	return err
}

func bindings() []request {
	numaNodes, gpu := annotation(spec.AnnotationNUMANodes, "0:8/4096Mi"), annotation(spec.AnnotationGPUs, "0")
	const only = "only hilbertd may promise a placement, not "
	out := []request{
		{"hilbertd binds", binds(hilbertd, "free", numaNodes, gpu), ""},
		{"hilbertd binds with nothing to promise", binds(hilbertd, "free"), ""},
		{"another scheduler binds", binds(admin, "free", annotation("example.com/x", "y")), ""},
		{"another scheduler binds by the old endpoint", oldBinds(admin, "free"), ""},
		{"the owner promises NUMA nodes", binds(owner, "free", numaNodes), only + "ann"},
		{"the owner promises GPUs", binds(owner, "free", gpu), only + "ann"},
		{"hilbertd promises network cards", binds(hilbertd, "free", annotation(spec.AnnotationNICs, "1:25000")), ""},
		{"the owner promises network cards", binds(owner, "free", annotation(spec.AnnotationNICs, "1:25000")), only + "ann"},
		{"hilbertd says what may be held", binds(hilbertd, "free", annotation(spec.AnnotationReclaimed, "1m/1Mi"), annotation(spec.AnnotationPriority, "1")), ""},
		{"the owner says what may be held", binds(owner, "free", annotation(spec.AnnotationReclaimed, "1m/1Mi")), only + "ann"},
		{"hilbertd says whose place it is", binds(hilbertd, "free", annotation(spec.AnnotationReservation, "u/0")), ""},
		{"the owner says whose place it is", binds(owner, "free", annotation(spec.AnnotationReservation, "u/0")), only + "ann"},
		{"the owner says the priority", binds(owner, "free", annotation(spec.AnnotationPriority, "1")), only + "ann"},
		{"the administrator promises", binds(admin, "free", numaNodes), only + "hilbert-lab-admin"},
		{"the owner promises by the old endpoint", oldBinds(owner, "free", numaNodes), only + "ann"},
	}
	said := "said when the pod is created"
	for name, user := range map[string]kubernetes.Interface{"hilbertd": hilbertd, "the owner": owner} {
		out = append(out, request{name + " binds with a level", binds(user, "free", label(spec.LabelQoS, string(spec.QoSSystem))), said},
			request{name + " binds with a plugin", binds(user, "free", annotation(requiredPlugins, "[]")), requiredPlugins},
			request{name + " binds with a plugin of a container", binds(user, "free", annotation(requiredPlugins+"/container.main", "[]")), requiredPlugins})
		for _, key := range append(slices.Clone(deviceWords), spec.AnnotationNUMA, spec.AnnotationMemoryBandwidth, spec.AnnotationPool, spec.AnnotationRequestedCPU, spec.AnnotationKatalystQoS, spec.AnnotationKatalystCPU, spec.AnnotationKatalystMemory) {
			out = append(out, request{name + " binds with " + key, binds(user, "free", annotation(key, "x")), said})
		}
	}
	return out
}

// spelling has one row for each rule of spec.QoSOf; the pods that are drawn have the rest.
func spelling() []request {
	level := func(l spec.QoSLevel) part { return label(spec.LabelQoS, string(l)) }
	numa := func(v string) part { return annotation(spec.AnnotationNUMA, v) }
	pool := func(v string) part { return annotation(spec.AnnotationPool, v) }
	bandwidth := func(v string) part { return annotation(spec.AnnotationMemoryBandwidth, v) }
	return []request{
		{"shared, loads the memory", creates(owner, plain, bandwidth(spec.BandwidthIntensive)), ""},
		{"dedicated, suffers", creates(owner, both, level(spec.QoSDedicated), bandwidth(spec.BandwidthSensitive)), ""},
		{"bound, suffers", creates(owner, plain, numa(spec.NUMABound), bandwidth(spec.BandwidthSensitive)), ""},
		{"no such bandwidth", creates(owner, plain, bandwidth("heavy")), `hilbert.dev/memory-bandwidth: "heavy": want intensive or sensitive`},
		{"bandwidth of a system pod", creates(owner, both, level(spec.QoSSystem), bandwidth(spec.BandwidthIntensive)), "hilbert.dev/memory-bandwidth: pods of level system_cores are kept off no NUMA node"},
		{"suffers anywhere", creates(owner, plain, bandwidth(spec.BandwidthSensitive)), "hilbert.dev/memory-bandwidth: only a pod of level dedicated_cores, or one with hilbert.dev/numa, can be sensitive"},
		{"a service sends in the background", creates(owner, plain, annotation(spec.AnnotationTrafficClass, spec.TrafficBackground)), ""},
		{"a reclaimed pod sends as others do", creates(owner, plain, level(spec.QoSReclaimed), annotation(spec.AnnotationTrafficClass, spec.TrafficBestEffort)), ""},
		{"no such traffic", creates(owner, plain, annotation(spec.AnnotationTrafficClass, "voice")), `hilbert.dev/traffic-class: "voice": want background or best-effort`},
		{"shared", creates(owner, plain, level(spec.QoSShared)), ""},
		{"reclaimed", creates(owner, plain, level(spec.QoSReclaimed)), ""},
		{"shared, in a pool", creates(owner, plain, pool("ads")), ""},
		{"shared by its label, in a pool", creates(owner, plain, level(spec.QoSShared), pool("ads")), ""},
		{"our NUMA word comes first", creates(owner, both, level(spec.QoSDedicated), numa(spec.NUMABound), annotation(spec.AnnotationKatalystMemory, "nonsense")), ""},
		{"our pool comes first", creates(owner, plain, pool("ads"), annotation(spec.AnnotationKatalystCPU, "nonsense")), ""},
		{"NUMA-bound", creates(owner, both, level(spec.QoSDedicated), numa(spec.NUMABound)), ""},
		{"a long pool", creates(owner, plain, pool(strings.Repeat("p", 63))), ""},
		{"no such level", creates(owner, plain, level("gold")), `hilbert.dev/qos-level: "gold" is no QoS level; want dedicated_cores, shared_cores, reclaimed_cores or system_cores`},
		{"no such level of Katalyst's", creates(owner, plain, annotation(spec.AnnotationKatalystQoS, "gold")), `katalyst.kubewharf.io/qos_level: "gold" is no QoS level; want`},
		{"no such NUMA word", creates(owner, both, level(spec.QoSDedicated), numa("both")), `hilbert.dev/numa: "both": want bound or exclusive`},
		{"NUMA of a shared pod", creates(owner, plain, numa(spec.NUMABound)), ""},
		{"NUMA of a shared pod in the pool that it runs in", creates(owner, plain, level(spec.QoSShared), numa(spec.NUMABound), pool(spec.PoolShare)), ""},
		{"NUMA node for a shared pod alone", creates(owner, plain, numa(spec.NUMAExclusive)), "hilbert.dev/numa: a pod of level shared_cores has no NUMA node alone; want bound"},
		{"NUMA of a shared pod in a pool", creates(owner, plain, level(spec.QoSShared), numa(spec.NUMABound), pool("ads")), `hilbert.dev/pool: a pod that is bound to NUMA nodes runs in pool share; leave out "ads" or hilbert.dev/numa`},
		{"NUMA of a reclaimed pod", creates(owner, plain, level(spec.QoSReclaimed), numa(spec.NUMABound)), "hilbert.dev/numa: only pods of level dedicated_cores or shared_cores are bound to NUMA nodes, not reclaimed_cores; leave"},
		{"NUMA of a system pod", creates(owner, both, level(spec.QoSSystem), numa(spec.NUMAExclusive)), "are bound to NUMA nodes, not system_cores"},
		{"pool of a dedicated pod", creates(owner, both, level(spec.QoSDedicated), pool("ads")), "hilbert.dev/pool: only pods of level shared_cores choose a pool, not dedicated_cores; leave the pool out"},
		{"the reclaimed pool", creates(owner, plain, pool(spec.PoolReclaimed)), `hilbert.dev/pool: "reclaimed": want a name of at most 63 bytes that is neither reclaimed nor system`},
		{"the system pool", creates(owner, plain, pool(spec.PoolSystem)), `hilbert.dev/pool: "system": want a name`},
		{"too long a pool, in bytes", creates(owner, plain, pool(strings.Repeat("ä", 32))), "want a name of at most 63 bytes"},
		{"Katalyst's memory is no JSON", creates(owner, plain, annotation(spec.AnnotationKatalystMemory, "numa_binding")), `katalyst.kubewharf.io/memory_enhancement: want a flat JSON object of strings, for example {"numa_binding":"true"}`},
		{"Katalyst's CPU is no JSON", creates(owner, plain, annotation(spec.AnnotationKatalystCPU, "{")), `katalyst.kubewharf.io/cpu_enhancement: want a flat JSON object of strings, for example {"cpuset_pool":"ads"}`},
		{"Katalyst's binding of a shared pod", creates(owner, both, annotation(spec.AnnotationKatalystMemory, `{"numa_binding":"true"}`)), ""},
		{"Katalyst's NUMA node for a shared pod alone", creates(owner, plain, annotation(spec.AnnotationKatalystMemory, `{"numa_exclusive":"true"}`)), "has no NUMA node alone"},
		{"Katalyst's reserved pool", creates(owner, plain, annotation(spec.AnnotationKatalystCPU, `{"cpuset_pool":"system"}`)), `hilbert.dev/pool: "system": want`},
		{"Katalyst's dedicated pod", creates(owner, both, annotation(spec.AnnotationKatalystQoS, string(spec.QoSDedicated)), annotation(spec.AnnotationKatalystMemory, `{"numa_binding": "true", "numa_exclusive": "true"}`)), ""},
	}
}

func namespaces() []request {
	level := func(l spec.QoSLevel) part { return label(spec.LabelQoS, string(l)) }
	no := func(l spec.QoSLevel, namespace, label string) string {
		return fmt.Sprintf("hilbert.dev/qos-level: the namespace %s may not have %s; an administrator may label it %s=true", namespace, l, label)
	}
	const allowDedicated, allowSystem = "hilbert.dev/allow-dedicated-cores", "hilbert.dev/allow-system-cores"
	var out []request
	for name, user := range map[string]kubernetes.Interface{"the owner": owner, "the administrator": admin} {
		out = append(out,
			request{name + ": dedicated where it is allowed", creates(user, dedicated, level(spec.QoSDedicated)), ""},
			request{name + ": dedicated where it is not", creates(user, plain, level(spec.QoSDedicated)), no(spec.QoSDedicated, plain, allowDedicated)},
			request{name + ": dedicated where system is allowed", creates(user, system, level(spec.QoSDedicated)), no(spec.QoSDedicated, system, allowDedicated)},
			request{name + ": system where it is allowed", creates(user, system, level(spec.QoSSystem)), ""},
			request{name + ": system where it is not", creates(user, plain, level(spec.QoSSystem)), no(spec.QoSSystem, plain, allowSystem)},
			request{name + ": system where dedicated is allowed", creates(user, dedicated, level(spec.QoSSystem)), no(spec.QoSSystem, dedicated, allowSystem)},
		)
	}
	return append(out,
		request{"system in kube-system", creates(admin, "kube-system", level(spec.QoSSystem)), ""},
		request{"agents and watchdogs come on new nodes, and again after an upgrade", creates(admin, "hilbert-system", level(spec.QoSSystem)), ""},
		request{"dedicated in kube-system", creates(admin, "kube-system", level(spec.QoSDedicated)), no(spec.QoSDedicated, "kube-system", allowDedicated)},
		request{"dedicated by Katalyst's name", creates(owner, plain, annotation(spec.AnnotationKatalystQoS, string(spec.QoSDedicated))), "katalyst.kubewharf.io/qos_level: the namespace plain may not have dedicated_cores"},
		request{"our name comes first", creates(owner, plain, level(spec.QoSShared), annotation(spec.AnnotationKatalystQoS, string(spec.QoSDedicated))), ""},
	)
}

func unchanging() []request {
	const anew = "what a pod asks of its node is said when it is created; create the pod anew"
	out := []request{
		{"a level is added", patches(owner, "free", `{"metadata":{"labels":{"hilbert.dev/qos-level":"system_cores"}}}`), "hilbert.dev/qos-level: " + anew},
		{"a level is added by the status", patches(admin, "free", `{"metadata":{"labels":{"hilbert.dev/qos-level":"system_cores"}}}`, "status"), "hilbert.dev/qos-level: " + anew},
		{"a level is changed", patches(owner, "online", `{"metadata":{"labels":{"hilbert.dev/qos-level":"dedicated_cores"}}}`), "hilbert.dev/qos-level: " + anew},
		{"a level is removed", patches(admin, "online", `{"metadata":{"labels":null}}`), "hilbert.dev/qos-level: " + anew},
		{"an unknown level is kept", patches(owner, "old", `{"metadata":{"labels":{"app":"x"}}}`), ""},
		{"a pool is changed", patches(owner, "online", annotates(spec.AnnotationPool, `"search"`)), "hilbert.dev/pool: " + anew},
		{"a pool is removed", patches(owner, "online", annotates(spec.AnnotationPool, "null")), "hilbert.dev/pool: " + anew},
		{"a NUMA node is unbound", patches(owner, "bound", annotates(spec.AnnotationNUMA, "null")), "hilbert.dev/numa: " + anew},
		{"it had asked for more CPU", patches(owner, "bound", annotates(spec.AnnotationRequestedCPU, `"main=9000m"`)), "hilbert.dev/requested-cpu: " + anew},
		{"it sends in the background from now on", patches(owner, "bound", annotates(spec.AnnotationTrafficClass, `"background"`)), "hilbert.dev/traffic-class: " + anew},
		{"it loads the memory after all", patches(owner, "bound", annotates(spec.AnnotationMemoryBandwidth, `"intensive"`)), "hilbert.dev/memory-bandwidth: " + anew},
		{"NUMA nodes become exclusive", patches(owner, "bound", annotates(spec.AnnotationNUMA, `"exclusive"`)), "hilbert.dev/numa: " + anew},
		{"Katalyst's level is changed", patches(owner, "katalyst", annotates(spec.AnnotationKatalystQoS, `"system_cores"`)), "katalyst.kubewharf.io/qos_level: " + anew},
		{"nothing is said in other words", patches(owner, "free", annotates(spec.AnnotationPool, `""`)), ""},
		{"a finalizer", patches(owner, "bound", `{"metadata":{"finalizers":["example.com/x"]}}`), ""},
	}
	for _, key := range append(slices.Clone(deviceWords), spec.AnnotationKatalystCPU, spec.AnnotationKatalystMemory, spec.AnnotationKatalystQoS) {
		out = append(out, request{key + " is added", patches(owner, "free", annotates(key, `"{}"`)), key + ": " + anew})
	}
	return out
}

func required() []request {
	ours := scheduler(spec.DefaultSchedulerName)
	// says demands that a new pod then says this of required plugins.
	says := func(want string, parts ...part) func(context.Context) error {
		return func(ctx context.Context) error { return saysRequired(ctx, owner, both, pod("new", parts...), want) }
	}
	level := label(spec.LabelQoS, string(spec.QoSDedicated))
	const list = "; want a list of plugins in double quotes that names hilbert"
	out := []request{
		{"an ordinary pod", says("", ours, annotation("x", "y")), ""},
		{"a GPU", says(agentRequired, ours, gpus("1")), ""},
		{"a GPU beside annotations", says(agentRequired, ours, gpus("1"), annotation("x", "y")), ""},
		{"a part of a GPU", says(agentRequired, ours, asks(spec.ResourceGPUMilli, "500")), ""},
		{"a GPU of an init container", says(agentRequired, ours, initAsks(spec.ResourceNvidiaGPU, "1")), ""},
		{"a part of a GPU of an init container", says(agentRequired, ours, initAsks(spec.ResourceGPUMilli, "500")), ""},
		{"no GPU at all", says("", ours, gpus("0")), ""},
		{"no percent of a GPU", says("", ours, asks(spec.ResourceGPUCore, "0")), ""},
		{"CPU only", says("", ours, asks("cpu", "1")), ""},
		{"dedicated", says(agentRequired, ours, level), ""},
		{"NUMA-bound gets the plugin", says(agentRequired, ours, level, annotation(spec.AnnotationNUMA, spec.NUMABound)), ""},
		{"dedicated by Katalyst's name", says(agentRequired, ours, annotation(spec.AnnotationKatalystQoS, string(spec.QoSDedicated))), ""},
		{"reclaimed", says(agentRequired, ours, label(spec.LabelQoS, string(spec.QoSReclaimed))), ""},
		{"no plugin, reclaimed", creates(owner, both, ours, label(spec.LabelQoS, string(spec.QoSReclaimed)), annotation(requiredPlugins, "[]")), list},
		{"system", says("", ours, label(spec.LabelQoS, string(spec.QoSSystem))), ""},
		{"shared", says("", ours, label(spec.LabelQoS, string(spec.QoSShared)), annotation(spec.AnnotationKatalystQoS, string(spec.QoSDedicated))), ""},
		{"a GPU of another scheduler", says("", scheduler("default-scheduler"), gpus("1")), ""},
		{"another's pod may require what it likes", says("[]", ours, annotation(requiredPlugins, "[]")), ""},
		{"more plugins", says(`["nvidia", "hilbert"]`, ours, gpus("1"), annotation(requiredPlugins, `["nvidia", "hilbert"]`)), ""},
		{"more plugins of a container", says(agentRequired, ours, gpus("1"), annotation(requiredPlugins+"/container.main", `["hilbert","nvidia"]`)), ""},
		{"a key of others that looks alike", says(agentRequired, ours, gpus("1"), annotation(requiredPlugins+".example.com", "x")), ""},
		{"no plugin", creates(owner, both, ours, gpus("1"), annotation(requiredPlugins, "[]")), requiredPlugins + ": the pod needs the agent of Hilbert" + list},
		{"no plugin, a part of a GPU", creates(owner, both, ours, asks(spec.ResourceGPUMilli, "500"), annotation(requiredPlugins, "[]")), list},
		{"no plugin, a GPU of an init container", creates(owner, both, ours, initAsks(spec.ResourceNvidiaGPU, "1"), annotation(requiredPlugins, "[]")), list},
		{"no plugin, dedicated by Katalyst's name", creates(owner, both, ours, annotation(spec.AnnotationKatalystQoS, string(spec.QoSDedicated)), annotation(requiredPlugins, "[]")), list},
		{"another plugin", creates(owner, both, ours, gpus("1"), annotation(requiredPlugins, `["nvidia"]`)), list},
		{"not in quotes", creates(owner, both, ours, gpus("1"), annotation(requiredPlugins, "[hilbert]")), list},
		{"a name in a name", creates(owner, both, ours, gpus("1"), annotation(requiredPlugins, `["not-hilbert"]`)), list},
		{"a container does without", creates(admin, both, ours, level, annotation(requiredPlugins+"/container.main", "[]")), requiredPlugins + "/container.main: the pod needs"},
		{"all do without", creates(owner, both, ours, gpus("1"), annotation(requiredPlugins+"/pod", "[]")), requiredPlugins + "/pod: the pod needs"},
	}
	for _, name := range []corev1.ResourceName{
		spec.ResourceGPUCore, spec.ResourceGPUMemory, spec.ResourceRDMA, spec.ResourceNICBandwidth, spec.ResourceNICFunctions,
	} {
		out = append(out,
			request{"some " + string(name), says(agentRequired, ours, asks(name, "1")), ""},
			request{"no plugin, some " + string(name), creates(owner, both, ours, asks(name, "1"), annotation(requiredPlugins, "[]")), list})
	}
	const leave = requiredPlugins + ": it is set when the pod is created; leave it as it is"
	for name, user := range map[string]kubernetes.Interface{"the owner": owner, "the administrator": admin} {
		for _, p := range []string{"gpu", "bound"} {
			out = append(out,
				request{name + " takes it from " + p, patches(user, p, annotates(requiredPlugins, "null")), leave},
				request{name + " empties it for " + p, patches(user, p, annotates(requiredPlugins, `"[]"`)), leave},
				request{name + " overrules it for a container of " + p, patches(user, p, annotates(requiredPlugins+"/container.main", `"[]"`)), leave},
				request{name + " overrules it by the status for " + p, patches(user, p, annotates(requiredPlugins+"/pod", `"[]"`), "status"), leave},
				request{name + " annotates " + p, patches(user, p, annotates("x", `"y"`)), ""},
			)
		}
	}
	return append(out, request{"an ordinary pod later", patches(owner, "free", annotates(requiredPlugins, `"[]"`)), ""})
}
