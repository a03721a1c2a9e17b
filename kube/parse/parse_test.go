package parse

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

func list(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = apiresource.MustParse(pairs[i+1])
	}
	return out
}

func container(requests corev1.ResourceList) corev1.Container {
	return corev1.Container{Name: "c", Resources: corev1.ResourceRequirements{Requests: requests}}
}

func ours(change func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-0", UID: "u1"},
		Spec:       corev1.PodSpec{SchedulerName: "hilbert", Containers: []corev1.Container{container(list("cpu", "1"))}},
	}
	if change != nil {
		change(pod)
	}
	return pod
}

// show renders Requirements as the tables below expect them; what is empty is left out.
func show(r *facts.Requirements) string {
	var b strings.Builder
	field := func(name string, value any, present bool) {
		if present {
			fmt.Fprintf(&b, "%s=%v ", name, value)
		}
	}
	field("requests", r.Requests, len(r.Requests) > 0)
	field("gpu", fmt.Sprintf("{%d %d}", r.GPU.Milli, r.GPU.Whole), !r.GPU.IsZero())
	field("numaNodes", r.NUMANodes, !r.NUMANodes.IsZero())
	field("selector", r.NodeSelector, len(r.NodeSelector) > 0)
	field("required", r.Required, r.Required != nil)
	field("preferred", r.Preferred, len(r.Preferred) > 0)
	field("tolerations", r.Tolerations, len(r.Tolerations) > 0)
	field("ports", r.Ports, len(r.Ports) > 0)
	field("unsupported", r.Unsupported, len(r.Unsupported) > 0)
	field("impossible", r.Impossible, r.Impossible != "")
	return strings.TrimSpace(b.String())
}

func TestRequirements(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	cases := map[string]struct {
		change func(*corev1.Pod)
		want   string
	}{
		"plain": {nil, "requests=[{cpu 1000}]"},
		"cpu is rounded up to millicores, memory is bytes, zero is nothing": {
			func(p *corev1.Pod) {
				p.Spec.Containers = []corev1.Container{container(list("cpu", "100u", "memory", "1Mi", "ephemeral-storage", "0", "example.com/widget", "3"))}
			},
			"requests=[{cpu 1} {example.com/widget 3} {memory 1048576}]",
		},
		"an init container counts when it is the largest, a sidecar always": {
			func(p *corev1.Pod) {
				side := container(list("cpu", "250m"))
				side.RestartPolicy = &always
				p.Spec.InitContainers = []corev1.Container{side, container(list("cpu", "2", "memory", "1Ki"))}
			},
			"requests=[{cpu 2250} {memory 1024}]",
		},
		"overhead is added": {
			func(p *corev1.Pod) { p.Spec.Overhead = list("cpu", "10m", "memory", "5") },
			"requests=[{cpu 1010} {memory 5}]",
		},
		"a pod-level request replaces the containers' sum": {
			func(p *corev1.Pod) { p.Spec.Resources = &corev1.ResourceRequirements{Requests: list("cpu", "4")} },
			"requests=[{cpu 4000}]",
		},
		"too much for an int64 saturates": {
			func(p *corev1.Pod) {
				p.Spec.Containers = []corev1.Container{container(list("memory", "9223372036854775807", "cpu", "9E")), container(list("memory", "9223372036854775807"))}
			},
			fmt.Sprintf("requests=[{cpu %d} {memory %d}]", math.MaxInt64, math.MaxInt64),
		},
		"a part of a GPU": {
			func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = list("hilbert.dev/gpu-milli", "300") },
			"gpu={300 0}",
		},
		"whole GPUs in thousandths": {
			func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = list("hilbert.dev/gpu-milli", "2k") },
			"gpu={0 2}",
		},
		"whole GPUs": {
			func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = list("nvidia.com/gpu", "16") },
			"gpu={0 16}",
		},
		"one and a half GPUs": {
			func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = list("hilbert.dev/gpu-milli", "1500") },
			"impossible=hilbert.dev/gpu-milli: 1500 is neither a part of one GPU (1 to 999) nor whole ones (a multiple of 1000); request 1000 or 2000",
		},
		"both kinds of GPU": {
			func(p *corev1.Pod) {
				p.Spec.Containers[0].Resources.Requests = list("hilbert.dev/gpu-milli", "500", "nvidia.com/gpu", "1")
			},
			"gpu={0 1} impossible=the pod requests both hilbert.dev/gpu-milli and nvidia.com/gpu; request one of them",
		},
		"more GPUs than a node can have": {
			func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = list("nvidia.com/gpu", "400") },
			"gpu={0 16} impossible=the pod requests 400 GPUs; a node has at most 16",
		},
		"node selector is sorted": {
			func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"z": "1", "a": "2"} },
			"requests=[{cpu 1000}] selector=[{a 2} {z 1}]",
		},
		"host ports": {
			func(p *corev1.Pod) {
				p.Spec.HostNetwork = true
				p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 90, Protocol: corev1.ProtocolUDP, HostIP: "10.0.0.1"}, {HostPort: 80}, {ContainerPort: 7}}
				init := container(nil)
				init.Ports = []corev1.ContainerPort{{HostPort: 70}}
				side := container(nil)
				side.RestartPolicy, side.Ports = &always, []corev1.ContainerPort{{HostPort: 60}}
				p.Spec.InitContainers = []corev1.Container{init, side}
			},
			"requests=[{cpu 1000}] ports=[{TCP 0.0.0.0 60} {TCP 0.0.0.0 80} {UDP 10.0.0.1 90}]",
		},
		"tolerations": {
			func(p *corev1.Pod) {
				p.Spec.Tolerations = []corev1.Toleration{
					{Key: "a", Value: "b"}, {Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}, {Key: "n", Operator: corev1.TolerationOpGt, Value: "5"},
				}
			},
			"requests=[{cpu 1000}] tolerations=[{a false b } { true  NoExecute}] unsupported=[spec.tolerations[].operator or effect: Gt]",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := show(NewParser("hilbert", nil).Pod(ours(c.change)).Requirements); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestScoreRequestsAssumeDefaults(t *testing.T) {
	const mi = 1 << 20
	cases := map[string]struct {
		containers []corev1.Container
		podLevel   corev1.ResourceList
		cpu, mem   int64
	}{
		"stated":            {[]corev1.Container{container(list("cpu", "1", "memory", "1Mi"))}, nil, 1000, mi},
		"nothing stated":    {[]corev1.Container{container(nil), container(nil)}, nil, 200, 400 * mi},
		"one is zero":       {[]corev1.Container{container(list("cpu", "0"))}, nil, 0, 200 * mi},
		"pod-level cpu":     {[]corev1.Container{container(nil)}, list("cpu", "3"), 3000, 200 * mi},
		"pod-level, mixed":  {[]corev1.Container{container(list("memory", "1Mi")), container(nil)}, list("cpu", "3"), 3000, mi},
		"one of two stated": {[]corev1.Container{container(list("cpu", "1")), container(nil)}, nil, 1100, 400 * mi},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := NewParser("hilbert", nil).Pod(ours(func(p *corev1.Pod) {
				p.Spec.Containers = c.containers
				if c.podLevel != nil {
					p.Spec.Resources = &corev1.ResourceRequirements{Requests: c.podLevel}
				}
			})).Requirements
			if r.ScoreCPU != c.cpu || r.ScoreMemory != c.mem {
				t.Errorf("got %d millicores, %d bytes; want %d, %d", r.ScoreCPU, r.ScoreMemory, c.cpu, c.mem)
			}
		})
	}
}

func TestNodeAffinity(t *testing.T) {
	expression := func(key string, op corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: key, Operator: op, Values: values}
	}
	term := func(expressions ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: expressions}
	}
	cases := map[string]struct {
		required []corev1.NodeSelectorTerm
		want     string
	}{
		"none matches nothing":  {[]corev1.NodeSelectorTerm{}, "[]"},
		"an empty term neither": {[]corev1.NodeSelectorTerm{{}}, "[]"},
		"all operators": {
			[]corev1.NodeSelectorTerm{term(expression("a", "In", "x", "y"), expression("b", "NotIn", "z"), expression("c", "Exists"),
				expression("d", "DoesNotExist"), expression("e", "Gt", "1"), expression("f", "Lt", "2"))},
			"[{[{a In [x y]} {b NotIn [z]} {c Exists []} {d DoesNotExist []} {e Gt [1]} {f Lt [2]}] []}]",
		},
		"fields": {
			[]corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{expression("metadata.name", "In", "n1")}}},
			"[{[] [{metadata.name In [n1]}]}]",
		},
		"a field with two values matches nothing": {
			[]corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{expression("metadata.name", "In", "n1", "n2")}}}, "[]",
		},
		"a malformed term matches nothing, the others stay": {
			[]corev1.NodeSelectorTerm{term(expression("a", "Gt", "many")), term(expression("b", "Exists")), term(expression("c", "Like", "x"))},
			"[{[{b Exists []}] []}]",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := NewParser("hilbert", nil).Pod(ours(func(p *corev1.Pod) {
				p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: c.required},
					PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{
						{Weight: 0, Preference: term(expression("never", "Exists"))}, {Weight: 7, Preference: term(expression("p", "Exists"))},
					},
				}}
			})).Requirements
			if got := fmt.Sprint(r.Required); got != c.want || r.Required == nil {
				t.Errorf("got %s (nil: %v), want %s", got, r.Required == nil, c.want)
			}
			if got := fmt.Sprint(r.Preferred); got != "[{7 {[{p Exists []}] []}}]" {
				t.Errorf("preferred: got %s", got)
			}
		})
	}
}

func TestUnsupported(t *testing.T) {
	cases := map[string]func(*corev1.PodSpec){
		"spec.topologySpreadConstraints[].whenUnsatisfiable: Shrug": func(s *corev1.PodSpec) {
			odd := corev1.TopologySpreadConstraint{MaxSkew: 1, WhenUnsatisfiable: "Shrug"}
			s.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{odd, odd}
		},
		"spec.schedulingGroup": func(s *corev1.PodSpec) { s.SchedulingGroup = &corev1.PodSchedulingGroup{} },
	}
	for want, change := range cases {
		t.Run(want, func(t *testing.T) {
			r := NewParser("hilbert", nil).Pod(ours(func(p *corev1.Pod) { change(&p.Spec) })).Requirements
			if !slices.Equal(r.Unsupported, []string{want}) {
				t.Errorf("got %q", r.Unsupported)
			}
			foreign := NewParser("other", nil).Pod(ours(func(p *corev1.Pod) { change(&p.Spec) })).Requirements
			if foreign.Unsupported != nil {
				t.Errorf("of somebody else's pod: %q", foreign.Unsupported)
			}
		})
	}
}

func TestHarmlessFieldsAreSupported(t *testing.T) {
	r := NewParser("hilbert", nil).Pod(ours(func(p *corev1.Pod) {
		for _, source := range []corev1.VolumeSource{
			{ConfigMap: &corev1.ConfigMapVolumeSource{}},
			{Secret: &corev1.SecretVolumeSource{}},
			{EmptyDir: &corev1.EmptyDirVolumeSource{}},
			{HostPath: &corev1.HostPathVolumeSource{}},
			{Projected: &corev1.ProjectedVolumeSource{}},
			{DownwardAPI: &corev1.DownwardAPIVolumeSource{}},
			{NFS: &corev1.NFSVolumeSource{}},
			{Image: &corev1.ImageVolumeSource{}},
		} {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{VolumeSource: source})
		}
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{}, PodAntiAffinity: &corev1.PodAntiAffinity{}}
		p.Spec.PriorityClassName = "high"
	})).Requirements
	if r.Unsupported != nil || r.Impossible != "" {
		t.Errorf("unsupported %q, impossible %q", r.Unsupported, r.Impossible)
	}
}

// TestMirrorPods: the pod of a file on its node is one that its kubelet marks and owns. One that only says so is a pod like any other.
func TestMirrorPods(t *testing.T) {
	owned := func(kind, name string) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: "v1", Kind: kind, Name: name}}
	}
	for name, c := range map[string]struct {
		annotation, node string
		owners           []metav1.OwnerReference
		want             bool
	}{
		"a mirror pod":           {"kubernetes.io/config.mirror", "n1", owned("Node", "n1"), true},
		"it is not marked":       {"example.com/mirror", "n1", owned("Node", "n1"), false},
		"nobody owns it":         {"kubernetes.io/config.mirror", "n1", nil, false},
		"a ReplicaSet owns it":   {"kubernetes.io/config.mirror", "n1", owned("ReplicaSet", "n1"), false},
		"another node owns it":   {"kubernetes.io/config.mirror", "n1", owned("Node", "n2"), false},
		"it waits for its place": {"kubernetes.io/config.mirror", "", owned("Node", ""), false},
	} {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{UID: "u", Annotations: map[string]string{c.annotation: "hash"}, OwnerReferences: c.owners},
			Spec:       corev1.PodSpec{NodeName: c.node},
		}
		if got := NewParser("hilbert", nil).Pod(pod).Mirror; got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestMirrorsPromisesAreIgnored: what a kubelet's own pod says it was promised counts for nothing; of any other bound pod it counts.
func TestMirrorsPromisesAreIgnored(t *testing.T) {
	cpu := corev1.ResourceList{corev1.ResourceCPU: apiresource.MustParse("4"), corev1.ResourceMemory: apiresource.MustParse("1Gi")}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "p", Labels: map[string]string{spec.LabelQoS: string(spec.QoSDedicated)},
			Annotations: map[string]string{spec.AnnotationNUMA: spec.NUMABound, spec.AnnotationNUMANodes: "0:4/1024Mi"},
		},
		Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: cpu, Limits: cpu}}}},
	}
	if got := NewParser("hilbert", nil).Pod(pod).Grant; got.NUMANodes.IsZero() {
		t.Error("the promise of a pod that was bound is not read")
	}
	pod.Annotations[corev1.MirrorPodAnnotationKey] = "x"
	pod.OwnerReferences = []metav1.OwnerReference{{Kind: "Node", Name: "n"}}
	if got := NewParser("hilbert", nil).Pod(pod).Grant; got != (topology.Grant{}) {
		t.Errorf("a mirror is promised %+v", got)
	}
}

func TestPodFacts(t *testing.T) {
	priority, controls := int32(7), true
	created, started := metav1.Unix(1_000_000, 0), metav1.Unix(1_000_060, 0)
	never := corev1.PreemptNever
	pod := ours(func(p *corev1.Pod) {
		p.Labels = map[string]string{"b": "2", "a": "1", "c": "3"}
		p.CreationTimestamp, p.DeletionTimestamp = created, &created
		p.OwnerReferences = []metav1.OwnerReference{
			{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "bystander"},
			{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", Controller: &controls},
		}
		p.Spec.Priority, p.Spec.PreemptionPolicy = &priority, &never
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "wait"}}
		p.Status.StartTime, p.Status.NominatedNodeName = &started, "n2"
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "full"}}
	})
	waiting := facts.Pod{
		UID: "u1", Namespace: "default", Name: "web-0", Created: 1_000_000e9, Priority: 7, Ours: true, Deleting: true, Gated: true,
		Labels: []facts.Label{{Key: "a", Value: "1"}, {Key: "b", Value: "2"}, {Key: "c", Value: "3"}},
		Owner:  facts.Owner{Kind: facts.ReplicaSet, Name: "web"}, NeverPreempts: true, Nominated: "n2",
		Controller: facts.Controller{Kind: "ReplicaSet", Name: "web"},
		Reported:   facts.Condition{Reason: "Unschedulable", Message: "full"},
	}
	bound := waiting
	bound.Node, bound.Started, bound.Nominated, bound.Reported, bound.Controller = "n1", 1_000_060e9, "", facts.Condition{}, facts.Controller{}
	foreign := bound
	foreign.Ours, foreign.Owner = false, facts.Owner{}
	for name, c := range map[string]struct {
		node, scheduler string
		want            facts.Pod
	}{
		"waiting":    {"", "hilbert", waiting},
		"bound":      {"n1", "hilbert", bound},
		"somebody's": {"n1", "other", foreign},
	} {
		t.Run(name, func(t *testing.T) {
			pod := pod.DeepCopy()
			pod.Spec.NodeName, pod.Spec.SchedulerName = c.node, c.scheduler
			got := NewParser("hilbert", nil).Pod(pod)
			got.Requirements = nil
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

func TestScheduledIsWhenThePodWasBound(t *testing.T) {
	at := metav1.Unix(1_000_030, 0)
	for name, c := range map[string]struct {
		status corev1.ConditionStatus
		node   string
		want   int64
	}{
		"bound": {corev1.ConditionTrue, "n1", 1_000_030e9}, "refused": {corev1.ConditionFalse, "n1", 0}, "not bound": {corev1.ConditionTrue, "", 0},
	} {
		got := NewParser("hilbert", nil).Pod(ours(func(p *corev1.Pod) {
			p.Spec.NodeName = c.node
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}, {Type: corev1.PodScheduled, Status: c.status, LastTransitionTime: at}}
		}))
		if got.Scheduled != c.want {
			t.Errorf("%s: scheduled at %d, want %d", name, got.Scheduled, c.want)
		}
	}
}

func TestOwner(t *testing.T) {
	yes, no := true, false
	cases := map[string]struct {
		ref  metav1.OwnerReference
		want facts.WorkloadKind
	}{
		"replication controller": {metav1.OwnerReference{APIVersion: "v1", Kind: "ReplicationController", Controller: &yes}, facts.ReplicationController},
		"replica set":            {metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Controller: &yes}, facts.ReplicaSet},
		"stateful set":           {metav1.OwnerReference{APIVersion: "apps/v1", Kind: "StatefulSet", Controller: &yes}, facts.StatefulSet},
		"another kind":           {metav1.OwnerReference{APIVersion: "batch/v1", Kind: "Job", Controller: &yes}, 0},
		"another group":          {metav1.OwnerReference{APIVersion: "apps.example.com/v1", Kind: "StatefulSet", Controller: &yes}, 0},
		"another version":        {metav1.OwnerReference{APIVersion: "apps/v1beta1", Kind: "ReplicaSet", Controller: &yes}, 0},
		"no controller":          {metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Controller: &no}, 0},
		"nothing is said":        {metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet"}, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.ref.Name = "x"
			want := facts.Owner{Kind: c.want, Name: "x"}
			if c.want == 0 {
				want = facts.Owner{}
			}
			if got := NewParser("hilbert", nil).Pod(ours(func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{c.ref} })).Owner; got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

func TestGrantOfBoundPod(t *testing.T) {
	pod := func(annotation string) *corev1.Pod {
		return ours(func(p *corev1.Pod) {
			p.Spec.NodeName = "n1"
			p.Spec.Containers[0].Resources.Requests = list("nvidia.com/gpu", "2")
			p.Annotations = map[string]string{"hilbert.dev/gpus": annotation}
		})
	}
	p := NewParser("hilbert", nil)
	if got := p.Pod(pod("0,3")).Grant; got != (topology.Grant{GPUs: 0b1001, Milli: 1000}) {
		t.Errorf("got %+v", got)
	}
	for _, bad := range []string{"0", "0,0", "x", "0,99", ""} {
		if got := p.Pod(pod(bad)).Grant; !got.IsZero() {
			t.Errorf("%q: got %+v", bad, got)
		}
	}
}

func TestNode(t *testing.T) {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"hilbert.dev/gpu-model": "A100", "nvidia.com/gpu.product": "other"}},
		Spec: corev1.NodeSpec{Unschedulable: true, Taints: []corev1.Taint{
			{Key: "a", Value: "b", Effect: corev1.TaintEffectNoSchedule}, {Key: "c", Effect: corev1.TaintEffectPreferNoSchedule}, {Key: "d", Effect: "Odd"},
		}},
		Status: corev1.NodeStatus{
			Allocatable: list("cpu", "8", "memory", "1Gi", "pods", "110", "nvidia.com/gpu", "4", "hilbert.dev/gpu-milli", "4000"),
			Images: []corev1.ContainerImage{
				{Names: []string{"web@sha256:ab", "web:v1"}, SizeBytes: 70},
				{Names: []string{"db:latest"}, SizeBytes: 9},
				{SizeBytes: 5},
				{Names: []string{"web:v1"}, SizeBytes: 1}, // upstream counts the first one of a name
			},
			DeclaredFeatures: []string{"Walks", "Flies", "Walks"},
		},
	}
	got := NewParser("hilbert", nil).Node(node)
	want := &facts.Node{
		Name: "n1", Labels: node.Labels, Unschedulable: true,
		Taints:      []facts.Taint{{Key: "a", Value: "b", Effect: facts.NoSchedule}, {Key: "c", Effect: facts.PreferNoSchedule}},
		Allocatable: []resource.Quantity{{Name: "cpu", Amount: 8000}, {Name: "memory", Amount: 1 << 30}, {Name: "pods", Amount: 110}},
		GPU:         topology.Shape{GPUs: 4, Model: "A100", Shareable: true},
		Images:      []facts.Image{{Name: "db:latest", Size: 9}, {Name: "web:v1", Size: 70}, {Name: "web@sha256:ab", Size: 70}},
		Features:    []string{"Flies", "Walks"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestNodeShape(t *testing.T) {
	cases := map[string]struct {
		allocatable corev1.ResourceList
		want        topology.Shape
	}{
		"none":           {list("cpu", "1"), topology.Shape{}},
		"whole only":     {list("nvidia.com/gpu", "8"), topology.Shape{GPUs: 8}},
		"fractions only": {list("hilbert.dev/gpu-milli", "2000"), topology.Shape{GPUs: 2, Shareable: true}},
		"too many":       {list("nvidia.com/gpu", "32"), topology.Shape{GPUs: 16}},
		"all broken":     {list("nvidia.com/gpu", "0", "hilbert.dev/gpu-milli", "4000"), topology.Shape{}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: corev1.NodeStatus{Allocatable: c.allocatable}}
			if got := NewParser("hilbert", nil).Node(node).GPU; got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// Pods with a further scheduler name are ours, with all that follows, and choose the profile of that name.
func TestFurtherSchedulerNames(t *testing.T) {
	p := NewParser("hilbert", nil)
	p.Profiles = map[string]uint8{"hilbert-batch": 2}
	for scheduler, want := range map[string]struct {
		ours    bool
		profile uint8
	}{"hilbert": {true, 0}, "hilbert-batch": {true, 2}, "default-scheduler": {false, 0}, "": {false, 0}} {
		pod := ours(func(pod *corev1.Pod) {
			pod.Spec.SchedulerName, pod.Spec.NodeSelector = scheduler, map[string]string{"disk": "fast"}
		})
		got := p.Pod(pod)
		if got.Ours != want.ours || got.Profile != want.profile || p.IsOurs(pod) != want.ours {
			t.Errorf("schedulerName %q: ours %v, profile %d; want %v", scheduler, got.Ours, got.Profile, want)
		}
		if waits := got.Requirements.NodeSelector != nil; waits != want.ours {
			t.Errorf("schedulerName %q: what it asks for was read: %v", scheduler, waits)
		}
	}
}
