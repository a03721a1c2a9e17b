package policy

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"hilbert.dev/hilbert/api/spec"
)

// short has names for what the rows write often.
var short = map[string]corev1.ResourceName{"millicpu": spec.ResourceReclaimedCPU, "bytes": spec.ResourceReclaimedMemory}

// resources reads what a container asks for: "cpu=1 memory=1Gi / cpu=2" are requests and limits, "=cpu=1" is both.
func resources(text string) corev1.ResourceRequirements {
	list := func(text string) corev1.ResourceList {
		var out corev1.ResourceList
		for field := range strings.FieldsSeq(text) {
			key, amount, _ := strings.Cut(field, "=")
			name, ok := short[key]
			if !ok {
				name = corev1.ResourceName(key)
			}
			if out == nil {
				out = make(corev1.ResourceList)
			}
			out[name] = resource.MustParse(amount)
		}
		return out
	}
	if equal, ok := strings.CutPrefix(text, "="); ok {
		return corev1.ResourceRequirements{Requests: list(equal), Limits: list(equal)}
	}
	requests, limits, _ := strings.Cut(text, "/")
	return corev1.ResourceRequirements{Requests: list(requests), Limits: list(limits)}
}

// written is the opposite of resources, with amounts as they are stored.
func written(r *corev1.ResourceRequirements) string {
	if r == nil {
		return ""
	}
	list := func(amounts corev1.ResourceList) string {
		var out []string
		for _, name := range slices.Sorted(maps.Keys(amounts)) {
			key := string(name)
			for s, long := range short {
				if name == long {
					key = s
				}
			}
			amount := amounts[name]
			out = append(out, key+"="+amount.String())
		}
		return strings.Join(out, " ")
	}
	requests, limits := list(r.Requests), list(r.Limits)
	switch {
	case requests == "" && limits == "":
		return ""
	case requests == limits:
		return "=" + requests
	case limits == "":
		return requests
	}
	return strings.TrimSpace(requests + " / " + limits)
}

// main says what the pod's first container asks for; beside, first and sidecar add one; whole is of the pod itself.
func main(text string) part {
	return func(_ *metav1.ObjectMeta, pod *corev1.PodSpec) { pod.Containers[0].Resources = resources(text) }
}

func beside(text string) part {
	return func(_ *metav1.ObjectMeta, pod *corev1.PodSpec) {
		pod.Containers = append(pod.Containers, corev1.Container{Name: fmt.Sprint("c", len(pod.Containers)), Image: "x", Resources: resources(text)})
	}
}

func first(text string) part {
	return func(_ *metav1.ObjectMeta, pod *corev1.PodSpec) {
		pod.InitContainers = append(pod.InitContainers, corev1.Container{Name: fmt.Sprint("i", len(pod.InitContainers)), Image: "x", Resources: resources(text)})
	}
}

func sidecar(text string) part {
	return func(meta *metav1.ObjectMeta, pod *corev1.PodSpec) {
		first(text)(meta, pod)
		pod.InitContainers[len(pod.InitContainers)-1].RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	}
}

func whole(text string) part {
	return func(_ *metav1.ObjectMeta, pod *corev1.PodSpec) { pod.Resources = new(resources(text)) }
}

// stored is what a pod asks for, container by container, as the rows write it; its class last where that is not BestEffort.
func stored(p *corev1.Pod) string {
	var out []string
	say := func(name string, r *corev1.ResourceRequirements) {
		if text := written(r); text != "" {
			out = append(out, name+": "+text)
		}
	}
	say("pod", p.Spec.Resources)
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			say(list[i].Name, &list[i].Resources)
		}
	}
	if p.Status.QOSClass != corev1.PodQOSBestEffort {
		out = append(out, string(p.Status.QOSClass))
	}
	return strings.Join(out, "; ")
}

// becomes creates a pod, dry, and looks at what it then asks for.
func becomes(user kubernetes.Interface, namespace, want string, parts ...part) func(context.Context) error {
	return func(ctx context.Context) error {
		got, err := user.CoreV1().Pods(namespace).Create(ctx, pod("new", parts...), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil && stored(got) != want {
			return fmt.Errorf("it asks for\n%s, want\n%s", stored(got), want)
		}
		return err
	}
}

// reclaimedRows are pods that ask for cpu and memory in the level's words, and what is made of them.
func reclaimedRows() []request {
	reclaimed := label(spec.LabelQoS, string(spec.QoSReclaimed))
	turned := func(name, want string, parts ...part) request {
		return request{name, becomes(owner, plain, want, append(parts, reclaimed)...), ""}
	}
	mirror := annotation("kubernetes.io/config.mirror", "x")
	const only = "only pods of level reclaimed_cores run on what others leave"
	return []request{
		turned("nothing", ""),
		turned("requests", "main: cpu=0 bytes=1073741824 millicpu=1500 memory=0 / bytes=1073741824 millicpu=1500", main("cpu=1500m memory=1Gi")),
		turned("limits", "main: =cpu=0 bytes=1073741824 millicpu=2k memory=0", main("/ cpu=2 memory=1Gi")),
		turned("both", "main: =cpu=0 bytes=2147483648 millicpu=1k memory=0", main("cpu=1 memory=1Gi / cpu=4 memory=2Gi")),
		turned("rounded up", "main: cpu=0 bytes=2 millicpu=1 memory=0 / bytes=2 millicpu=1", main("cpu=1u memory=1500m")),
		turned("only cpu", "main: cpu=0 millicpu=70 / millicpu=70", main("cpu=0.07")),
		turned("only memory", "main: bytes=1M memory=0 / bytes=1M", main("memory=1M")),
		turned("no amount", "main: cpu=0", main("cpu=0")),
		turned("others stay", "main: =cpu=0 ephemeral-storage=1Gi millicpu=1k hugepages-2Mi=4Mi nvidia.com/gpu=2",
			main("=cpu=1 ephemeral-storage=1Gi hugepages-2Mi=4Mi nvidia.com/gpu=2")),
		turned("in our resources", "main: =bytes=5M millicpu=700", main("=millicpu=700 bytes=5M")),
		turned("ours come first", "main: cpu=0 millicpu=700 / millicpu=700", main("cpu=2 millicpu=700 / millicpu=700")),
		turned("ours and theirs", "main: bytes=1M millicpu=700 memory=0 / bytes=1M millicpu=700", main("memory=1M millicpu=700 / millicpu=700")),
		turned("all kinds of containers", "i0: cpu=0 millicpu=3k / millicpu=3k; i1: cpu=0 millicpu=200 / millicpu=200; "+
			"main: cpu=0 millicpu=1k / millicpu=1k; c1: bytes=1M memory=0 / bytes=1M",
			first("cpu=3"), sidecar("cpu=200m"), main("cpu=1"), beside("memory=1M")),
		turned("a pod as a whole", "pod: =cpu=0 memory=0; main: =bytes=1G millicpu=4k", whole("=cpu=4 memory=1G")),
		turned("a pod with a limit of cpu", "pod: =cpu=0; main: =millicpu=4k", whole("/ cpu=4")),
		turned("a pod with a limit of cpu, of whose containers one asks", "pod: =cpu=0; main: cpu=0 millicpu=1k / millicpu=1k", whole("/ cpu=4"), main("cpu=1")),
		turned("a pod with a request of memory", "pod: memory=0; main: =bytes=900M; c1: =bytes=100M memory=0",
			whole("memory=1G"), beside("memory=100M / memory=400M")),
		turned("a pod with a limit of memory", "pod: =memory=0; main: =bytes=900M; c1: =bytes=100M memory=0",
			whole("/ memory=1G"), beside("memory=100M / memory=400M")),
		turned("a pod beyond its containers", "pod: cpu=0 memory=0 / memory=0; i0: cpu=0 millicpu=9k / millicpu=9k; i1: cpu=0 millicpu=200 / millicpu=200; "+
			"main: cpu=0 bytes=900M millicpu=8800 / bytes=900M millicpu=8800; c1: =cpu=0 bytes=100M millicpu=1k memory=0",
			whole("cpu=10 memory=800M / memory=1G"), first("cpu=9"), sidecar("cpu=200m"), main("cpu=1"), beside("cpu=1 memory=100M / cpu=2 memory=400M")),
		turned("a pod beyond what is asked in our resources", "pod: cpu=0 memory=0; main: cpu=0 bytes=600M millicpu=7k / bytes=600M millicpu=7k; c1: =bytes=400M millicpu=3k",
			whole("cpu=10 memory=1G"), main("cpu=1"), beside("=millicpu=3000 bytes=400M")),
		{"two amounts of our CPU", refusedWith("must be equal to "+spec.ResourceReclaimedCPU+" limit of 7", creates(owner, plain, reclaimed, main("millicpu=5 / millicpu=7"))), ""},
		{"two amounts of our memory", refusedWith("must be equal to "+spec.ResourceReclaimedMemory+" limit of 7", creates(owner, plain, reclaimed, main("bytes=5 / bytes=7"))), ""},
		{"for a node", creates(owner, plain, reclaimed, main("cpu=1"), onNode("n1")), "spec.nodeName: a pod that says"},
		{"by Katalyst's name", becomes(owner, plain, "main: cpu=0 millicpu=1k / millicpu=1k", main("cpu=1"), annotation(spec.AnnotationKatalystQoS, string(spec.QoSReclaimed))), ""},
		{"shared, and reclaimed by Katalyst's name", becomes(owner, plain, "main: cpu=1; Burstable", main("cpu=1"), label(spec.LabelQoS, string(spec.QoSShared)),
			annotation(spec.AnnotationKatalystQoS, string(spec.QoSReclaimed))), ""},
		{"an ordinary pod asks as it does", becomes(owner, plain, "main: cpu=1; Burstable", main("cpu=1")), ""},
		{"a mirror by its node asks as it does", becomes(node, plain, "main: cpu=1; Burstable", main("cpu=1"), reclaimed, mirror, onNode("n1")), ""},
		{"a mirror by somebody", creates(owner, plain, main("cpu=1"), reclaimed, mirror, onNode("n1")), "spec.nodeName: a pod that says"},
		{"ours, of a shared pod", creates(owner, plain, main("=millicpu=100")), only},
		{"ours, of an init container of a shared pod", creates(admin, plain, first("=bytes=100"), label(spec.LabelQoS, string(spec.QoSShared))), only},
	}
}
