package parse

import (
	"encoding/json"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	componentresource "k8s.io/component-helpers/resource"
	"pgregory.net/rapid"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
)

// anyQuantity draws amounts in many spellings, so that equal amounts look different and odd ones must be rounded.
func anyQuantity(t *rapid.T, label string) apiresource.Quantity {
	return apiresource.MustParse(rapid.SampledFrom([]string{
		"0", "1", "1000m", "1500m", "100u", "1n", "250m", "3", "1k", "1Ki", "1.5Gi", "7Mi", "0.1", "12e3", "2Ei", "9223372036854775807",
	}).Draw(t, label))
}

func anyResources(t *rapid.T, label string) corev1.ResourceList {
	if !rapid.Bool().Draw(t, label+" set") {
		return nil
	}
	out := corev1.ResourceList{}
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]corev1.ResourceName{
		"cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "example.com/widget", "hilbert.dev/gpu-milli", "nvidia.com/gpu",
		"hilbert.dev/gpu-core", "hilbert.dev/gpu-memory", "hilbert.dev/rdma", "hilbert.dev/nic-bandwidth", "hilbert.dev/nic-functions",
	}), 0, 4, rapid.ID).Draw(t, label+" names") {
		out[name] = anyQuantity(t, label+" "+string(name))
	}
	return out
}

func anyContainer(t *rapid.T, name string) corev1.Container {
	c := corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: anyResources(t, name)}}
	if rapid.Bool().Draw(t, name+" sidecar") {
		always := corev1.ContainerRestartPolicyAlways
		c.RestartPolicy = &always
	}
	return c
}

// anyPod draws a pod with all that requests are made of, resized in place or not.
func anyPod(t *rapid.T) *corev1.Pod {
	pod := ours(nil)
	pod.Spec.Containers = nil
	names := []string{"a", "b", "c"}
	for i := range rapid.IntRange(0, 2).Draw(t, "containers") {
		pod.Spec.Containers = append(pod.Spec.Containers, anyContainer(t, names[i]))
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "init containers") {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, anyContainer(t, "i"+names[i]))
	}
	if rapid.Bool().Draw(t, "pod level") {
		pod.Spec.Resources = &corev1.ResourceRequirements{Requests: anyResources(t, "pod")}
	}
	if rapid.Bool().Draw(t, "overhead") {
		pod.Spec.Overhead = anyResources(t, "overhead")
	}
	if !rapid.Bool().Draw(t, "status") {
		return pod
	}
	pod.Spec.NodeName = "n1"
	for _, c := range pod.Spec.Containers {
		status := corev1.ContainerStatus{Name: c.Name, AllocatedResources: anyResources(t, c.Name+" allocated")}
		if rapid.Bool().Draw(t, c.Name+" as asked") {
			status.AllocatedResources = c.Resources.Requests
		}
		if rapid.Bool().Draw(t, c.Name+" actuated") {
			status.Resources = &corev1.ResourceRequirements{Requests: anyResources(t, c.Name+" actuated list")}
		}
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, status)
	}
	if rapid.Bool().Draw(t, "infeasible") {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonInfeasible,
		})
	}
	if rapid.Bool().Draw(t, "pod status") {
		pod.Status.AllocatedResources = anyResources(t, "pod allocated")
		pod.Status.Resources = &corev1.ResourceRequirements{Requests: anyResources(t, "pod actuated")}
	}
	return pod
}

// One parser with a memory that is used over and over must agree with upstream's own arithmetic on every pod.
func TestRequestsAgreeWithUpstream(t *testing.T) {
	p := NewParser("hilbert", nil)
	rapid.Check(t, func(t *rapid.T) {
		pod := anyPod(t)
		got := p.Pod(pod).Requirements
		want := componentresource.PodRequests(pod.DeepCopy(), componentresource.PodResourcesOptions{
			UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true,
		})
		sums := make(map[string]int64)
		for _, q := range got.Requests {
			sums[q.Name] = q.Amount
		}
		for name, q := range want {
			if isDevice(name) {
				continue
			}
			value, limit := q.Value(), maxWhole
			if name == corev1.ResourceCPU {
				value, limit = q.MilliValue(), maxMilli
			}
			if q.Cmp(limit) > 0 {
				value = 1<<63 - 1 // where upstream wraps round, we saturate
			}
			if sums[string(name)] != value {
				t.Fatalf("%s: got %d, upstream has %s", name, sums[string(name)], q.String())
			}
			delete(sums, string(name))
		}
		if len(sums) > 0 {
			t.Fatalf("upstream does not have %v", sums)
		}
	})
}

// What a parser remembers must not show: a used one and a new one give equal results, and equal pods the same pointer.
func TestMemoDoesNotShow(t *testing.T) {
	used := NewParser("hilbert", nil)
	rapid.Check(t, func(t *rapid.T) {
		pod := anyPod(t)
		pod.Spec.NodeSelector = rapid.MapOfN(rapid.StringMatching("[ab]"), rapid.StringMatching("[xy]"), 0, 2).Draw(t, "selector")
		anyPodRules(t, pod)
		if rapid.Bool().Draw(t, "foreign") {
			pod.Spec.SchedulerName = "other"
		}
		got, want := used.Pod(pod), NewParser("hilbert", nil).Pod(pod)
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("used parser: %+v\nnew parser:  %+v", got.Requirements, want.Requirements)
		}
		if again := used.Pod(pod.DeepCopy()); again.Requirements != got.Requirements {
			t.Fatal("the same pod got other Requirements")
		}
	})
}

// tweaks are changes of one field each that a parser must not take for the same pod.
var tweaks = map[string]func(*corev1.Pod){
	"scheduler":    func(p *corev1.Pod) { p.Spec.SchedulerName = "other" },
	"sidecar":      func(p *corev1.Pod) { p.Spec.InitContainers[0].RestartPolicy = nil },
	"init request": func(p *corev1.Pod) { p.Spec.InitContainers[0].Resources.Requests = list("cpu", "9") },
	"request":      func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = list("cpu", "3") },
	"resource":     func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = list("memory", "1") },
	"role of a container": func(p *corev1.Pod) {
		p.Spec.Containers, p.Spec.InitContainers = p.Spec.InitContainers, p.Spec.Containers
	},
	"overhead":         func(p *corev1.Pod) { p.Spec.Overhead = list("cpu", "2") },
	"pod level":        func(p *corev1.Pod) { p.Spec.Resources = &corev1.ResourceRequirements{Requests: list("cpu", "7")} },
	"port":             func(p *corev1.Pod) { p.Spec.Containers[0].Ports[0].HostPort = 81 },
	"protocol":         func(p *corev1.Pod) { p.Spec.Containers[0].Ports[0].Protocol = corev1.ProtocolUDP },
	"host IP":          func(p *corev1.Pod) { p.Spec.Containers[0].Ports[0].HostIP = "10.0.0.1" },
	"selector value":   func(p *corev1.Pod) { p.Spec.NodeSelector["a"] = "c" },
	"selector key":     func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"ab": ""} },
	"toleration":       func(p *corev1.Pod) { p.Spec.Tolerations[0].Key = "u" },
	"operator":         func(p *corev1.Pod) { p.Spec.Tolerations[0].Operator = corev1.TolerationOpExists },
	"tolerated value":  func(p *corev1.Pod) { p.Spec.Tolerations[0].Value = "x" },
	"tolerated effect": func(p *corev1.Pod) { p.Spec.Tolerations[0].Effect = corev1.TaintEffectNoExecute },
	"isolation":        func(p *corev1.Pod) { p.Annotations = map[string]string{"hilbert.dev/gpu-isolation": "soft"} },
	"near":             func(p *corev1.Pod) { p.Annotations = map[string]string{"hilbert.dev/near": "numa"} },
	"NUMA policy":      func(p *corev1.Pod) { p.Annotations = map[string]string{"hilbert.dev/numa-policy": "restricted"} },
	"no affinity":      func(p *corev1.Pod) { p.Spec.Affinity = nil },
	"required":         func(p *corev1.Pod) { required(p).NodeSelectorTerms[0].MatchExpressions[0].Values = []string{"w"} },
	"required operator": func(p *corev1.Pod) {
		required(p).NodeSelectorTerms[0].MatchExpressions[0].Operator = corev1.NodeSelectorOpNotIn
	},
	"no required terms": func(p *corev1.Pod) { required(p).NodeSelectorTerms = nil },
	"fields, not labels": func(p *corev1.Pod) {
		term := &required(p).NodeSelectorTerms[0]
		term.MatchFields, term.MatchExpressions = term.MatchExpressions, nil
	},
	"weight": func(p *corev1.Pod) {
		p.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0].Weight = 2
	},
	"preferred": func(p *corev1.Pod) {
		p.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = nil
	},
	"spread":      func(p *corev1.Pod) { p.Spec.TopologySpreadConstraints = nil },
	"spread key":  func(p *corev1.Pod) { spreads(p).TopologyKey = "rack" },
	"skew":        func(p *corev1.Pod) { spreads(p).MaxSkew++ },
	"soft spread": func(p *corev1.Pod) { spreads(p).WhenUnsatisfiable = corev1.ScheduleAnyway },
	"domains":     func(p *corev1.Pod) { two := int32(2); spreads(p).MinDomains = &two },
	"affinity policy": func(p *corev1.Pod) {
		ignore := corev1.NodeInclusionPolicyIgnore
		spreads(p).NodeAffinityPolicy = &ignore
	},
	"taints policy":      func(p *corev1.Pod) { honor := corev1.NodeInclusionPolicyHonor; spreads(p).NodeTaintsPolicy = &honor },
	"spread selector":    func(p *corev1.Pod) { spreads(p).LabelSelector = appIs("db") },
	"no spread selector": func(p *corev1.Pod) { spreads(p).LabelSelector = nil },
	"spread expression": func(p *corev1.Pod) {
		spreads(p).LabelSelector.MatchExpressions[0].Operator = metav1.LabelSelectorOpDoesNotExist
	},
	"label that spreading uses": func(p *corev1.Pod) { p.Labels["hash"] = "cd" },
	"no label for spreading":    func(p *corev1.Pod) { delete(p.Labels, "hash") },
	"keys of spreading":         func(p *corev1.Pod) { spreads(p).MatchLabelKeys = []string{"tenant"} },
	"namespace":                 func(p *corev1.Pod) { p.Namespace = "elsewhere" },
	"namespace of terms": func(p *corev1.Pod) {
		p.Namespace = "elsewhere"
		p.Spec.TopologySpreadConstraints = nil
	},
	"no affinity to pods": func(p *corev1.Pod) { p.Spec.Affinity.PodAffinity = nil },
	"near becomes far": func(p *corev1.Pod) {
		a := p.Spec.Affinity
		a.PodAntiAffinity = &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution:  a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
			PreferredDuringSchedulingIgnoredDuringExecution: a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution,
		}
		a.PodAffinity = nil
	},
	"required term":       func(p *corev1.Pod) { nearTerm(p).TopologyKey = "rack" },
	"selector of term":    func(p *corev1.Pod) { nearTerm(p).LabelSelector = appIs("db") },
	"namespaces of term":  func(p *corev1.Pod) { nearTerm(p).Namespaces = []string{"a"} },
	"namespaces by label": func(p *corev1.Pod) { nearTerm(p).NamespaceSelector = &metav1.LabelSelector{} },
	"required is preferred": func(p *corev1.Pod) {
		a := p.Spec.Affinity.PodAffinity
		a.PreferredDuringSchedulingIgnoredDuringExecution = append(a.PreferredDuringSchedulingIgnoredDuringExecution, weighted(1, *nearTerm(p)))
		a.RequiredDuringSchedulingIgnoredDuringExecution = nil
	},
	"weight of term": func(p *corev1.Pod) {
		p.Spec.Affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0].Weight = 9
	},
	"malformed term": func(p *corev1.Pod) { nearTerm(p).LabelSelector = malformedSelector },
	"image":          func(p *corev1.Pod) { p.Spec.Containers[0].Image = "db" },
	"init image":     func(p *corev1.Pod) { p.Spec.InitContainers[0].Image = "db" },
	"image volume": func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "data"}}}}
	},
	"feature": func(p *corev1.Pod) {
		no := false
		p.Spec.HostNetwork, p.Spec.HostUsers = true, &no
	},
	"volume": func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{RBD: &corev1.RBDVolumeSource{}}}}
	},
	"resized": func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", AllocatedResources: list("cpu", "5")}}
	},
	"actuated": func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", Resources: &corev1.ResourceRequirements{Requests: list("cpu", "6")}}}
	},
	"another one resized": func(p *corev1.Pod) {
		p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "side", AllocatedResources: list("cpu", "5")}}
	},
	"claim": func(p *corev1.Pod) {
		cpu := apiresource.MustParse("4")
		p.Status.NodeAllocatableResourceClaimStatuses = []corev1.NodeAllocatableResourceClaimStatus{{
			Mapping: []corev1.NodeAllocatableMappedResources{{Name: "cpu", Quantity: &cpu}},
		}}
	},
}

func required(p *corev1.Pod) *corev1.NodeSelector {
	return p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
}

func spreads(p *corev1.Pod) *corev1.TopologySpreadConstraint {
	return &p.Spec.TopologySpreadConstraints[0]
}

func nearTerm(p *corev1.Pod) *corev1.PodAffinityTerm {
	return &p.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0]
}

// fullPod has one of everything that a parser remembers.
func fullPod() *corev1.Pod {
	return ours(func(p *corev1.Pod) {
		always := corev1.ContainerRestartPolicyAlways
		main, side := container(list("cpu", "1")), container(list("cpu", "2"))
		main.Name, side.Name, side.RestartPolicy = "main", "side", &always
		main.Ports = []corev1.ContainerPort{{HostPort: 80, Protocol: corev1.ProtocolTCP}}
		p.Spec.Containers, p.Spec.InitContainers = []corev1.Container{main}, []corev1.Container{side}
		p.Spec.NodeSelector = map[string]string{"a": "b"}
		p.Spec.Tolerations = []corev1.Toleration{{Key: "t", Effect: corev1.TaintEffectNoSchedule}}
		term := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"v"}},
		}}
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution:  &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term}},
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 1, Preference: term}},
		}}
		pods := corev1.PodAffinityTerm{TopologyKey: "zone", LabelSelector: appIs("web")}
		p.Spec.Affinity.PodAffinity = near(pods).PodAffinity
		p.Spec.Affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.WeightedPodAffinityTerm{weighted(1, pods)}
		p.Labels = map[string]string{"hash": "ab", "tenant": "t"}
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule, MatchLabelKeys: []string{"hash"},
			LabelSelector: matching(expr("app", metav1.LabelSelectorOpExists)),
		}}
	})
}

func TestMemoTellsFieldsApart(t *testing.T) {
	for name, tweak := range tweaks {
		t.Run(name, func(t *testing.T) {
			p, pod := NewParser("hilbert", nil), fullPod()
			before := p.Pod(pod)
			tweak(pod)
			got, want := p.Pod(pod), NewParser("hilbert", nil).Pod(pod)
			if reflect.DeepEqual(before.Requirements, want.Requirements) {
				t.Fatal("the tweak changes nothing")
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v\nwant %+v", got.Requirements, want.Requirements)
			}
		})
	}
}

// twins are pods with one field that differs between two values; everything else that speaks of it is the same.
var twins = map[string][2]func(*corev1.Pod){
	"namespace of a term":    inNamespaces(func(p *corev1.Pod) { p.Spec.Affinity = near(*nearTerm(fullPod())) }),
	"namespace of spreading": inNamespaces(func(p *corev1.Pod) { p.Spec.TopologySpreadConstraints = fullPod().Spec.TopologySpreadConstraints }),
	"required anti-affinity": differing(func(p *corev1.Pod, v string) { p.Spec.Affinity = far(corev1.PodAffinityTerm{TopologyKey: v}) }),
	"preferred affinity": differing(func(p *corev1.Pod, v string) {
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: preferring(v)}}
	}),
	"preferred anti-affinity": differing(func(p *corev1.Pod, v string) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: preferring(v)}}
	}),
	"namespace of a list": differing(func(p *corev1.Pod, v string) { p.Spec.Affinity = near(corev1.PodAffinityTerm{Namespaces: []string{v}}) }),
	"namespaces' label": differing(func(p *corev1.Pod, v string) {
		p.Spec.Affinity = near(corev1.PodAffinityTerm{NamespaceSelector: appIs(v)})
	}),
	"key of an expression": differing(func(p *corev1.Pod, v string) {
		spreadBy(p).LabelSelector = matching(expr(v, metav1.LabelSelectorOpExists))
	}),
	"value of an expression": differing(func(p *corev1.Pod, v string) {
		spreadBy(p).LabelSelector = matching(expr("a", metav1.LabelSelectorOpIn, v))
	}),
	"key of an own label": differing(func(p *corev1.Pod, v string) {
		p.Labels = map[string]string{"x": "1", "y": "1"}
		spreadBy(p).MatchLabelKeys = []string{v}
	}),
	"value of an own label": differing(func(p *corev1.Pod, v string) {
		p.Labels = map[string]string{"a": v}
		spreadBy(p).MatchLabelKeys = []string{"a"}
	}),
	"empty and absent own label": {
		func(p *corev1.Pod) { p.Labels = map[string]string{"a": ""}; spreadBy(p).MatchLabelKeys = []string{"a"} },
		func(p *corev1.Pod) { spreadBy(p).MatchLabelKeys = []string{"a"} },
	},
	"number of domains": {
		func(p *corev1.Pod) { two := int32(2); spreadBy(p).MinDomains = &two },
		func(p *corev1.Pod) { three := int32(3); spreadBy(p).MinDomains = &three },
	},
	"affinity policy": policies(func(p *corev1.Pod, policy *corev1.NodeInclusionPolicy) { spreadBy(p).NodeAffinityPolicy = policy }),
	"taints policy":   policies(func(p *corev1.Pod, policy *corev1.NodeInclusionPolicy) { spreadBy(p).NodeTaintsPolicy = policy }),
	"image of a volume": differing(func(p *corev1.Pod, v string) {
		p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: v}}}}
	}),
}

func differing(set func(*corev1.Pod, string)) [2]func(*corev1.Pod) {
	return [2]func(*corev1.Pod){func(p *corev1.Pod) { set(p, "x") }, func(p *corev1.Pod) { set(p, "y") }}
}

func inNamespaces(set func(*corev1.Pod)) [2]func(*corev1.Pod) {
	return differing(func(p *corev1.Pod, v string) {
		p.Namespace = v
		set(p)
	})
}

func policies(set func(*corev1.Pod, *corev1.NodeInclusionPolicy)) [2]func(*corev1.Pod) {
	honor, ignore := corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore
	return [2]func(*corev1.Pod){func(p *corev1.Pod) { set(p, &honor) }, func(p *corev1.Pod) { set(p, &ignore) }}
}

func preferring(topology string) []corev1.WeightedPodAffinityTerm {
	return []corev1.WeightedPodAffinityTerm{weighted(1, corev1.PodAffinityTerm{TopologyKey: topology})}
}

// spreadBy gives the pod a spread constraint.
func spreadBy(p *corev1.Pod) *corev1.TopologySpreadConstraint {
	p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{},
	}}
	return spreads(p)
}

func TestMemoTellsTwinsApart(t *testing.T) {
	for name, pair := range twins {
		t.Run(name, func(t *testing.T) {
			p := NewParser("hilbert", nil)
			if a, b := p.Pod(ours(pair[0])).Requirements, p.Pod(ours(pair[1])).Requirements; a == b {
				t.Errorf("both have %+v", a)
			}
		})
	}
}

// A pod keeps its class on the way from waiting to running: what the kubelet reports is what was asked for.
func TestBindingKeepsTheClass(t *testing.T) {
	p := NewParser("hilbert", nil)
	waiting := ours(func(pod *corev1.Pod) {
		pod.Spec.NodeSelector = map[string]string{"a": "b"}
		pod.Spec.Containers[0].Image = "web"
		pod.Spec.Affinity = far(corev1.PodAffinityTerm{TopologyKey: "zone", LabelSelector: malformedSelector})
		pod.Labels = map[string]string{"hash": "ab"}
		pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{WhenUnsatisfiable: corev1.DoNotSchedule, MatchLabelKeys: []string{"hash"}}}
	})
	running := waiting.DeepCopy()
	running.Spec.NodeName = "n1"
	running.Labels["topology.kubernetes.io/zone"] = "z" // the API server copies it from the node
	running.Status.Phase = corev1.PodRunning
	running.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "c", AllocatedResources: list("cpu", "1000m"), Resources: &corev1.ResourceRequirements{Requests: list("cpu", "1")},
	}}
	if p.Pod(waiting).Requirements != p.Pod(running).Requirements {
		t.Error("the class changed")
	}
	running.Status.ContainerStatuses[0].AllocatedResources = list("cpu", "2")
	if got := p.Pod(running).Requirements.Requests[0].Amount; got != 2000 {
		t.Errorf("after a resize to 2 cores: %d millicores", got)
	}
}

func FuzzParsePod(f *testing.F) {
	for _, change := range []func(*corev1.Pod){
		nil,
		func(p *corev1.Pod) {
			p.Spec.NodeName, p.Annotations = "n1", map[string]string{"hilbert.dev/gpus": "0,1"}
		},
		func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = list("hilbert.dev/gpu-milli", "1500") },
		func(p *corev1.Pod) { *p = *fullPod() },
		func(p *corev1.Pod) { p.Spec.Affinity = far(corev1.PodAffinityTerm{LabelSelector: malformedSelector}) },
	} {
		data, err := json.Marshal(ours(change))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"spec":{"schedulerName":"hilbert","affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchFields":[{"key":"","operator":"In","values":[]}]}]}}},"containers":[{"resources":{"requests":{"cpu":"-1","memory":"1E"}},"ports":[{"hostPort":-1}]}]},"status":{"containerStatuses":[{"name":"x","allocatedResources":{"cpu":"1"}}],"resources":{},"nodeAllocatableResourceClaimStatuses":[{"mapping":[{"name":"cpu"}]}]}}`))
	store := cluster.NewStore()
	p := NewParser("hilbert", nil)
	f.Fuzz(func(t *testing.T, data []byte) {
		var pod corev1.Pod
		if json.Unmarshal(data, &pod) != nil {
			t.Skip()
		}
		seen := p.Pod(&pod)
		if seen.Requirements == nil {
			t.Fatal("no Requirements")
		}
		if seen.Requirements.GPU.Milli < 0 || seen.Requirements.GPU.Whole < 0 || seen.Requirements.GPU.Whole > 16 {
			t.Fatalf("GPU request %+v", seen.Requirements.GPU)
		}
		store.Apply(facts.PodUpserted{Pod: seen})
		var node corev1.Node
		if json.Unmarshal(data, &node) == nil && node.Name != "" {
			store.Apply(facts.NodeUpserted{Node: p.Node(&node)})
		}
		if err := store.Verify(); err != nil {
			t.Fatal(err)
		}
		store.Apply(facts.PodsListed{})
		store.Apply(facts.NodesListed{})
	})
}
