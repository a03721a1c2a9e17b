package parse

import (
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/topology"
)

// asking is a pod of ours whose one container requests this; annotations by key and value.
func asking(requests corev1.ResourceList, annotations ...string) *corev1.Pod {
	return dedicated("", requests, annotations...)
}

func numa(required, relax bool) topology.Near {
	return topology.Near{Level: topology.SameNUMA, Required: required, Relax: relax}
}

func TestDeviceRequest(t *testing.T) {
	type request = topology.Request
	part := func(r request) request { r.Milli = 250; return r }
	p := NewParser("hilbert", nil) // one, so that what it remembers is tested too
	for _, c := range []struct {
		name       string
		pod        *corev1.Pod
		want       request
		impossible string
	}{
		{"percent", asking(list(spec.ResourceGPUCore, "25")), part(request{}), ""},
		{"one percent", asking(list(spec.ResourceGPUCore, "1")), request{Milli: 10}, ""},
		{"all of one", asking(list(spec.ResourceGPUCore, "100")), request{Whole: 1}, ""},
		{"several whole ones", asking(list(spec.ResourceGPUCore, "400")), request{Whole: 4}, ""},
		{
			"core 150", asking(list(spec.ResourceGPUCore, "150")),
			request{},
			"hilbert.dev/gpu-core: 150 is neither a part of one GPU (1 to 99) nor whole ones (a multiple of 100); request 100 or 200",
		},
		{"more than a node has", asking(list(spec.ResourceGPUCore, "1700")), request{Whole: 16}, "the pod requests 17 GPUs; a node has at most 16"},
		{"less than nothing", asking(list(spec.ResourceGPUCore, "-5")), request{}, "hilbert.dev/gpu-core: -5 is less than nothing"},
		{
			"percent and thousandths", asking(list(spec.ResourceGPUCore, "25", spec.ResourceGPUMilli, "250")), part(request{}),
			"the pod requests both hilbert.dev/gpu-core and hilbert.dev/gpu-milli; request one of them",
		},
		{
			"percent and whole", asking(list(spec.ResourceGPUCore, "25", spec.ResourceNvidiaGPU, "2")),
			request{Whole: 2},
			"the pod requests both hilbert.dev/gpu-core and nvidia.com/gpu; request one of them",
		},

		{"memory", asking(list(spec.ResourceGPUCore, "25", spec.ResourceGPUMemory, "1")), part(request{Memory: 1}), ""},
		{"memory of whole ones", asking(list(spec.ResourceNvidiaGPU, "2", spec.ResourceGPUMemory, "80Ki")), request{Whole: 2, Memory: 81920}, ""},
		{
			"memory without core", asking(list(spec.ResourceGPUMemory, "10240")),
			request{},
			"hilbert.dev/gpu-memory: the pod requests memory of no GPU; request hilbert.dev/gpu-core or nvidia.com/gpu beside it",
		},
		{"absurd memory", asking(list(spec.ResourceGPUCore, "25", spec.ResourceGPUMemory, "10Gi")), part(request{}), "hilbert.dev/gpu-memory: no GPU has 10737418240 MiB"},

		{"isolation", asking(list(spec.ResourceGPUCore, "25"), spec.AnnotationIsolation, "soft"), part(request{Isolation: topology.Soft}), ""},
		{"hard", asking(list(spec.ResourceGPUMilli, "250"), spec.AnnotationIsolation, "hard"), part(request{Isolation: topology.Hard}), ""},
		{"accounting", asking(list(spec.ResourceGPUMilli, "250"), spec.AnnotationIsolation, "accounting"), part(request{Isolation: topology.Accounting}), ""},
		{
			"isolation of several", asking(list(spec.ResourceGPUCore, "200"), spec.AnnotationIsolation, "hard"),
			request{Whole: 2},
			"hilbert.dev/gpu-isolation: hard is for a part of one GPU, and the pod has 2 whole ones for itself; leave it out",
		},
		{"isolation of nothing", asking(list("cpu", "1"), spec.AnnotationIsolation, "soft"), request{}, "hilbert.dev/gpu-isolation: the pod requests no GPU"},
		{"unknown isolation", asking(list(spec.ResourceGPUCore, "25"), spec.AnnotationIsolation, "mps"), part(request{}), `hilbert.dev/gpu-isolation: "mps" is no isolation`},

		{"RDMA", asking(list(spec.ResourceRDMA, "2")), request{NIC: topology.NICRequest{Count: 2, RDMA: true}}, ""},
		{"RDMA with bandwidth", asking(list(spec.ResourceRDMA, "1", spec.ResourceNICBandwidth, "25k")), request{NIC: topology.NICRequest{Count: 1, RDMA: true, Bandwidth: 25000}}, ""},
		{"bandwidth alone", asking(list(spec.ResourceNICBandwidth, "1000")), request{NIC: topology.NICRequest{Count: 1, Bandwidth: 1000}}, ""},
		{"functions", asking(list(spec.ResourceNICFunctions, "2")), request{NIC: topology.NICRequest{Count: 2, Function: true}}, ""},
		{"functions of RDMA cards", asking(list(spec.ResourceNICFunctions, "2", spec.ResourceRDMA, "2")), request{NIC: topology.NICRequest{Count: 2, Function: true, RDMA: true}}, ""},
		{
			"fewer functions than cards", asking(list(spec.ResourceNICFunctions, "1", spec.ResourceRDMA, "2")),
			request{NIC: topology.NICRequest{Count: 2, Function: true, RDMA: true}},
			"hilbert.dev/nic-functions: the pod requests 1 virtual functions and 2 network cards with RDMA; request as many of both",
		},
		{"too many cards", asking(list(spec.ResourceRDMA, "17")), request{NIC: topology.NICRequest{Count: 16, RDMA: true}}, "hilbert.dev/rdma: the pod requests 17 network cards; a node has at most 16"},
		{"too many functions", asking(list(spec.ResourceNICFunctions, "300")), request{NIC: topology.NICRequest{Count: 16, Function: true}}, "hilbert.dev/nic-functions: the pod requests 300"},
		{"absurd bandwidth", asking(list(spec.ResourceNICBandwidth, "10G")), request{NIC: topology.NICRequest{Count: 1, Bandwidth: topology.MaxAmount}}, "hilbert.dev/nic-bandwidth: no network card has 10000000000 Mbit/s"},
		{"negative cards", asking(list(spec.ResourceRDMA, "-1")), request{}, "hilbert.dev/rdma: -1, "},

		{"near, preferred", asking(list(spec.ResourceNvidiaGPU, "2"), spec.AnnotationNear, "switch"), request{Whole: 2, Near: topology.Near{Level: topology.SameSwitch}}, ""},
		{
			"near, required", asking(list(spec.ResourceRDMA, "1", spec.ResourceGPUCore, "25"), spec.AnnotationNear, "socket,required"),
			part(request{NIC: topology.NICRequest{Count: 1, RDMA: true}, Near: topology.Near{Level: topology.SameSocket, Required: true}}), "",
		},
		{"near nothing", asking(list("cpu", "1"), spec.AnnotationNear, "numa"), request{}, "hilbert.dev/near: the pod requests nothing that can be near"},
		{"required of nothing", asking(list(spec.ResourceNvidiaGPU, "2"), spec.AnnotationNear, ",required"), request{Whole: 2}, `hilbert.dev/near: ",required": want switch, numa or socket`},
		{"NUMA nodes at one socket", dedicated("dedicated_cores", list("cpu", "2"), spec.AnnotationNear, "socket"), request{Near: topology.Near{Level: topology.SameSocket}}, ""},
		{"NUMA nodes on a switch", dedicated("dedicated_cores", list("cpu", "2"), spec.AnnotationNear, "switch"), request{}, "hilbert.dev/near: the pod requests no GPU and no network card, and CPUs hang on no switch; want numa or socket"},
		{
			"NUMA nodes beside a card", dedicated("dedicated_cores", list("cpu", "2", spec.ResourceRDMA, "1"), spec.AnnotationNear, "switch"),
			request{NIC: topology.NICRequest{Count: 1, RDMA: true}, Near: topology.Near{Level: topology.SameSwitch}},
			"",
		},

		{"no policy", asking(list("cpu", "1"), spec.AnnotationNUMAPolicy, "none"), request{}, ""},
		{"best effort", asking(list(spec.ResourceNvidiaGPU, "2"), spec.AnnotationNUMAPolicy, "best-effort"), request{Whole: 2, Near: numa(false, false)}, ""},
		{"restricted", asking(list(spec.ResourceNvidiaGPU, "2"), spec.AnnotationNUMAPolicy, "restricted"), request{Whole: 2, Near: numa(true, true)}, ""},
		{"single NUMA node", dedicated("dedicated_cores", list("cpu", "2"), spec.AnnotationNUMAPolicy, "single-numa-node"), request{Near: numa(true, false)}, ""},
		{"a policy of nothing", asking(list("cpu", "1"), spec.AnnotationNUMAPolicy, "restricted"), request{}, "hilbert.dev/numa-policy: the pod requests nothing that can be near"},
		{"unknown policy", asking(list("cpu", "1"), spec.AnnotationNUMAPolicy, "strict"), request{}, `hilbert.dev/numa-policy: "strict": want none`},
		{"a policy and near", asking(list(spec.ResourceNvidiaGPU, "2"), spec.AnnotationNear, "numa", spec.AnnotationNUMAPolicy, "restricted"), request{Whole: 2}, "hilbert.dev/numa-policy: hilbert.dev/near says already"},
	} {
		r := p.Pod(c.pod).Requirements
		if c.want.Milli > 0 {
			c.want.Tenant = topology.TenantOf(c.pod.Namespace)
		}
		if r.GPU != c.want || (c.impossible == "") != (r.Impossible == "") || !strings.HasPrefix(r.Impossible, c.impossible) {
			t.Errorf("%s: %+v, %q; want %+v, %q", c.name, r.GPU, r.Impossible, c.want, c.impossible)
		}
		for _, q := range r.Requests {
			if isDevice(corev1.ResourceName(q.Name)) {
				t.Errorf("%s: %s is counted as a sum too", c.name, q.Name)
			}
		}
		foreign := c.pod.DeepCopy()
		foreign.Spec.SchedulerName, foreign.Spec.NodeName = "other", "n1"
		if r := p.Pod(foreign).Requirements; r.GPU != c.want || r.Impossible != "" {
			t.Errorf("%s, of another scheduler: %+v, %q", c.name, r.GPU, r.Impossible)
		}
	}
}

// What is not refused is no contradiction to the model, which would leave the pod pending without a reason. What is refused names a field.
func TestPossibleIsNoContradiction(t *testing.T) {
	words := map[string][]string{
		spec.AnnotationIsolation: {"", "accounting", "soft", "hard", "x"}, spec.AnnotationNear: {"", "switch", "numa,required", "x"},
		spec.AnnotationNUMAPolicy: {"", "none", "best-effort", "restricted", "single-numa-node"},
	}
	amounts := map[corev1.ResourceName][]string{
		spec.ResourceGPUCore: {"25", "100", "150", "1600", "1700"}, spec.ResourceGPUMilli: {"1", "999", "2000"}, spec.ResourceNvidiaGPU: {"1", "16", "17"},
		spec.ResourceGPUMemory: {"1", "16777216", "16777217"}, spec.ResourceRDMA: {"1", "16", "17"}, spec.ResourceNICFunctions: {"1", "16", "17"},
		spec.ResourceNICBandwidth: {"1", "16777216", "16777217"},
	}
	possible := 0
	rapid.Check(t, func(t *rapid.T) {
		requests := list("cpu", "2")
		for name, values := range amounts {
			if rapid.IntRange(0, 3).Draw(t, "asks for "+string(name)) == 0 {
				requests[name] = apiresource.MustParse(rapid.SampledFrom(values).Draw(t, string(name)))
			}
		}
		pod := dedicated(rapid.SampledFrom([]string{"", "dedicated_cores"}).Draw(t, "level"), requests)
		for key, values := range words {
			if rapid.Bool().Draw(t, "says "+key) {
				pod.Annotations[key] = rapid.SampledFrom(values).Draw(t, key)
			}
		}
		r := NewParser("hilbert", nil).Pod(pod).Requirements
		switch contradiction := r.GPU.Contradiction(&r.NUMANodes); {
		case r.Impossible != "" && !strings.Contains(r.Impossible, "hilbert.dev/"):
			if !strings.Contains(r.Impossible, "GPUs; a node has at most") {
				t.Fatalf("%q names no field", r.Impossible)
			}
		case r.Impossible == "" && contradiction != "":
			t.Fatalf("%+v is taken, and contradicts itself: %s", r.GPU, contradiction)
		case r.Impossible == "":
			possible++
		}
	})
	if possible == 0 {
		t.Error("nothing is possible")
	}
}

// The example of docs/reference/policies.md is understood.
func TestDeviceExample(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference/policies.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(text), "```yaml\n")
	example, _, _ = strings.Cut(example, "```")
	pod := new(corev1.Pod)
	if err := yaml.UnmarshalStrict([]byte(example), pod); err != nil {
		t.Fatal(err)
	}
	resources := &pod.Spec.Containers[0].Resources
	resources.Requests = resources.Limits // as the API server fills them in
	want := topology.Request{
		Milli: 250, Memory: 10240, Isolation: topology.Soft, NIC: topology.NICRequest{Count: 1, RDMA: true, Bandwidth: 25000},
		Near: topology.Near{Level: topology.SameSwitch, Required: true},
	}
	if r := NewParser("hilbert", nil).Pod(pod).Requirements; r.GPU != want || r.Impossible != "" {
		t.Errorf("%+v, %q; want %+v", r.GPU, r.Impossible, want)
	}
}

// What is meant of each device is not added up over containers; what is meant of the pod is.
func TestDevicesOfSeveralContainers(t *testing.T) {
	for _, c := range []struct {
		name          string
		first, second corev1.ResourceList
		want          topology.Request
		impossible    string
	}{
		{"halves", list(spec.ResourceGPUCore, "20"), list(spec.ResourceGPUCore, "30"), topology.Request{Milli: 500}, ""},
		{"memory of one GPU", list(spec.ResourceGPUCore, "20", spec.ResourceGPUMemory, "10"), list(spec.ResourceGPUMemory, "20"), topology.Request{Milli: 200, Memory: 30}, ""},
		{
			"memory of each of two", list(spec.ResourceNvidiaGPU, "1", spec.ResourceGPUMemory, "10"), list(spec.ResourceNvidiaGPU, "1", spec.ResourceGPUMemory, "10"),
			topology.Request{Whole: 2, Memory: 20},
			"hilbert.dev/gpu-memory: it is of each GPU, and several containers request it",
		},
		{"memory said once", list(spec.ResourceNvidiaGPU, "1", spec.ResourceGPUMemory, "10"), list(spec.ResourceNvidiaGPU, "1"), topology.Request{Whole: 2, Memory: 10}, ""},
		{
			"bandwidth of each of two", list(spec.ResourceRDMA, "1", spec.ResourceNICBandwidth, "10"), list(spec.ResourceRDMA, "1", spec.ResourceNICBandwidth, "10"),
			topology.Request{NIC: topology.NICRequest{Count: 2, RDMA: true, Bandwidth: 20}},
			"hilbert.dev/nic-bandwidth: it is of each network card, and several",
		},
		{"bandwidth of one", list(spec.ResourceNICBandwidth, "10"), list(spec.ResourceNICBandwidth, "10"), topology.Request{NIC: topology.NICRequest{Count: 1, Bandwidth: 20}}, ""},
	} {
		pod := asking(c.first)
		pod.Spec.Containers = append(pod.Spec.Containers, container(c.second))
		r := NewParser("hilbert", nil).Pod(pod).Requirements
		if c.want.Milli > 0 {
			c.want.Tenant = topology.TenantOf(pod.Namespace)
		}
		if r.GPU != c.want || (c.impossible == "") != (r.Impossible == "") || !strings.HasPrefix(r.Impossible, c.impossible) {
			t.Errorf("%s: %+v, %q; want %+v, %q", c.name, r.GPU, r.Impossible, c.want, c.impossible)
		}
	}
}

// The words of package spec are those of package topology.
func TestDeviceWordsAreTheModels(t *testing.T) {
	for word, want := range map[string]topology.Isolation{
		spec.IsolationAccounting: topology.Accounting, spec.IsolationSoft: topology.Soft, spec.IsolationHard: topology.Hard,
	} {
		if got, ok := topology.ParseIsolation(word); got != want || !ok {
			t.Errorf("isolation %s is %s, %v", word, got, ok)
		}
	}
	for word, want := range map[string]topology.Level{spec.NearSwitch: topology.SameSwitch, spec.NearNUMA: topology.SameNUMA, spec.NearSocket: topology.SameSocket} {
		if got, ok := topology.ParseLevel(word); got != want || !ok {
			t.Errorf("level %s is %s, %v", word, got, ok)
		}
	}
	for word, want := range map[string]topology.Owner{spec.OwnerNone: topology.OwnerNone, spec.OwnerHilbert: topology.OwnerHilbert, spec.OwnerKubelet: topology.OwnerKubelet} {
		if got, ok := topology.ParseOwner(word); got != want || !ok {
			t.Errorf("owner %s is %s, %v", word, got, ok)
		}
	}
}

// bound is a pod of ours on a node, with these requests and annotations.
func bound(requests corev1.ResourceList, annotations ...string) *corev1.Pod {
	pod := asking(requests, annotations...)
	pod.Spec.NodeName = "n1"
	return pod
}

func TestDeviceGrantOfBoundPod(t *testing.T) {
	part := list(spec.ResourceGPUCore, "25", spec.ResourceGPUMemory, "10240")
	cards := list(spec.ResourceRDMA, "2", spec.ResourceNICBandwidth, "25k")
	for _, c := range []struct {
		name string
		pod  *corev1.Pod
		want topology.Grant
	}{
		{"accounting", bound(part, spec.AnnotationGPUs, "2:250/10240Mi"), topology.Grant{GPUs: 0b100, Milli: 250, Memory: 10240, Isolation: topology.Accounting}},
		{"soft, rounded up", bound(part, spec.AnnotationGPUs, "2:256/10240Mi/soft"), topology.Grant{GPUs: 0b100, Milli: 256, Memory: 10240, Isolation: topology.Soft}},
		{"an instance", bound(part, spec.AnnotationGPUs, "2:mig-3"), topology.Grant{GPUs: 0b100, Isolation: topology.Hard, Instance: 4}},
		{"cards", bound(cards, spec.AnnotationNICs, "0:25000,3:25000"), topology.Grant{NICs: 0b1001, NIC: topology.NICGrant{Bandwidth: 25000}}},
		{"a function", bound(list(spec.ResourceNICFunctions, "1"), spec.AnnotationNICs, "1:vf"), topology.Grant{NICs: 0b10, NIC: topology.NICGrant{Function: true}}},
		{
			"both", bound(list(spec.ResourceNvidiaGPU, "2", spec.ResourceRDMA, "1"), spec.AnnotationGPUs, "0,3", spec.AnnotationNICs, "1"),
			topology.Grant{GPUs: 0b1001, Milli: 1000, NICs: 0b10},
		},
		{"one that cannot be read", bound(list(spec.ResourceNvidiaGPU, "2", spec.ResourceRDMA, "1"), spec.AnnotationGPUs, "0,x", spec.AnnotationNICs, "1"), topology.Grant{NICs: 0b10}},
		{"less than was asked for", bound(part, spec.AnnotationGPUs, "2:240/10240Mi"), topology.Grant{}},
		{"other cards", bound(cards, spec.AnnotationNICs, "0:25000"), topology.Grant{}},
		{"not asked for", bound(list("cpu", "1"), spec.AnnotationGPUs, "0", spec.AnnotationNICs, "0"), topology.Grant{}},
	} {
		c.want = c.want.For(topology.TenantOf(c.pod.Namespace))
		if got := NewParser("hilbert", nil).Pod(c.pod).Grant; got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// The fingerprint shows that a pod was promised other devices.
func TestFingerprintTellsDevices(t *testing.T) {
	told := 0
	parser, seen := NewParser("hilbert", nil), NewFingerprints()
	for _, texts := range [][2]string{
		{"0:250/1Mi", "0:vf"}, {"0:250/1Mi", "0:vf"}, {"0:260/1Mi", "0:vf"}, {"0:260/2Mi", "0:vf"}, {"0:260/2Mi/soft", "0:vf"}, {"0:mig-0", "0:vf"}, {"0:mig-1", "0:vf"}, {"0:mig-1", "1:vf"},
	} {
		pod := bound(list(spec.ResourceGPUCore, "25", spec.ResourceNICFunctions, "1"), spec.AnnotationGPUs, texts[0], spec.AnnotationNICs, texts[1])
		facts := parser.Pod(pod)
		if seen.Changed(facts.UID, seen.Of(&facts, parser.Serial())) {
			told++
		}
	}
	if told != 7 {
		t.Errorf("told %d times", told)
	}
}
