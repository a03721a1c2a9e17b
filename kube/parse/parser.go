package parse

import (
	"cmp"
	"hash/maphash"
	"log/slog"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/topology"
)

// Parser turns API objects into the ledger's vocabulary: pods, nodes, Queues, Reservations and reports by itself, all else by the parsers that it is made of. It shares
// what repeats between objects (strings, whole Requirements), and keeps nothing of an object itself. It must not be used by two goroutines at once.
type Parser struct {
	*vocabulary
	storageParser
	claimParser
	workloadParser
	unitParser

	scheduler string
	// Profiles are the scheduling profiles that further values of spec.schedulerName choose; pods with these are ours too.
	Profiles map[string]uint8
	// PromisedCPU has nodes and pods have facts.PromisedCPU, as far as agents say so but to no more than that percent of a node's CPUs; 0: they have not.
	PromisedCPU int
	// OnUnreadablePromise, if set, is called for each pod whose promise of NUMA nodes cannot be read.
	OnUnreadablePromise func()

	amounts      amounts
	requirements requirementsMemo
	images       imageSets
	devices      deviceSets
	features     []string // of the node that was parsed last: its neighbours declare the same
}

// vocabulary is what the parsers of all kinds of objects make their words with: strings, labels and selectors that are shared where they are equal, and complaints.
type vocabulary struct {
	strings     *interner
	constraints constraints
	labels      labelSets
	warner      *Warner
}

// NewParser returns a Parser for which the pods with the given spec.schedulerName are ours. Complaints about objects go to log, once
// each; nil is silent. levels are the configured topology levels, from the widest to the narrowest: what PodGroups ask for is held to
// their order.
func NewParser(schedulerName string, log *slog.Logger, levels ...string) *Parser {
	words := &vocabulary{warner: &Warner{Log: log}, strings: &interner{}}
	words.constraints, words.labels = constraints{words.strings}, labelSets{strings: words.strings}
	p := &Parser{
		vocabulary: words, storageParser: storageParser{words}, claimParser: claimParser{vocabulary: words}, workloadParser: workloadParser{words},
		unitParser: unitParser{vocabulary: words, levels: levels}, scheduler: schedulerName, amounts: amounts{words.strings},
	}
	p.images = imageSets{strings: p.strings, seed: maphash.MakeSeed()}
	p.requirements = requirementsMemo{strings: p.strings, amounts: p.amounts, constraints: p.constraints, images: &p.images, warner: p.warner}
	return p
}

// Pod parses a pod. Of a pod that is not ours only what bears on others is read: what it takes from its node, its labels, and which
// pods it wants near or far. It never fails: what cannot be honoured is named in Requirements.Unsupported or Impossible.
func (p *Parser) Pod(pod *corev1.Pod) facts.Pod {
	seen := facts.Pod{
		UID:       facts.UID(pod.UID),
		Namespace: p.strings.get(pod.Namespace),
		Name:      pod.Name,
		Created:   pod.CreationTimestamp.UnixNano(),
		Ours:      p.IsOurs(pod),
		Profile:   p.Profiles[pod.Spec.SchedulerName],
		Node:      p.strings.get(pod.Spec.NodeName),
		Finished:  finished(pod),
		Deleting:  pod.DeletionTimestamp != nil,
		Gated:     len(pod.Spec.SchedulingGates) > 0,
		Mirror:    mirrors(pod),
		Labels:    p.labels.of(pod.Labels),

		NeverPreempts: pod.Spec.PreemptionPolicy != nil && *pod.Spec.PreemptionPolicy == corev1.PreemptNever,
	}
	if pod.CreationTimestamp.IsZero() {
		seen.Created = 0
	}
	if pod.Spec.Priority != nil {
		seen.Priority = *pod.Spec.Priority
	}
	p.requirements.promised = p.PromisedCPU > 0
	seen.Requirements = p.requirements.of(pod, seen.Ours)
	p.group(pod, &seen)
	seen.Consent = spec.ConsentOf(pod.Annotations, metav1.GetControllerOfNoCopy(pod) != nil)
	if seen.Ours {
		seen.Owner = p.owner(pod)
		seen.ResourceClaims = p.resourceClaims(pod)
		seen.Extended = p.extendedResources(pod)
	}
	if seen.Ours || seen.Node != "" {
		seen.Claims = p.claimUses(pod)
	}
	if seen.Node != "" {
		if !seen.Mirror { // nobody has promised a kubelet's own pod anything, whatever it says
			seen.Grant = p.recorded(pod, seen.Requirements)
			seen.Placeholder = facts.UID(p.strings.get(pod.Annotations[spec.AnnotationReservation]))
		}
		if pod.Status.StartTime != nil {
			seen.Started = pod.Status.StartTime.UnixNano()
		}
		seen.Scheduled = scheduled(pod)
	} else if seen.Ours {
		seen.Reported = reported(pod)
		seen.Nominated = p.strings.get(pod.Status.NominatedNodeName)
		if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
			seen.Controller = facts.Controller{Kind: p.strings.get(ref.Kind), Name: p.strings.get(ref.Name)}
		}
	}
	return seen
}

// IsOurs reports whether this scheduler places the pod.
func (p *Parser) IsOurs(pod *corev1.Pod) bool {
	return pod.Spec.SchedulerName == p.scheduler || p.Profiles[pod.Spec.SchedulerName] != 0
}

// Serial is the number of the Requirements that the last Pod had. Two pods with one number have the same Requirements.
func (p *Parser) Serial() uint64 { return p.requirements.latest }

// Intern returns a string equal to s, the same one for equal strings.
func (p *Parser) Intern(s string) string { return p.strings.get(s) }

// owner reads the pod's controller, if it is of a kind whose selector default spreading looks at.
func (p *Parser) owner(pod *corev1.Pod) facts.Owner {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil {
		return facts.Owner{}
	}
	var kind facts.WorkloadKind
	switch ref.APIVersion + " " + ref.Kind {
	case "v1 ReplicationController":
		kind = facts.ReplicationController
	case "apps/v1 ReplicaSet":
		kind = facts.ReplicaSet
	case "apps/v1 StatefulSet":
		kind = facts.StatefulSet
	default:
		return facts.Owner{}
	}
	return facts.Owner{Kind: kind, Name: p.strings.get(ref.Name)}
}

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// grant reads which GPUs and network cards a bound pod was given, and what of NUMA nodes that plugins bring. Without a record, or with one that cannot be, the ledger infers it.
func (p *Parser) grant(pod *corev1.Pod, request *topology.Request) (grant topology.Grant) {
	for _, record := range [...]struct {
		key  string
		asks bool
		read func(text string) error
	}{
		{spec.AnnotationGPUs, !request.IsZero(), func(text string) error { return grant.ParseGPUs(text, request) }},
		{spec.AnnotationNICs, request.NIC.Count > 0, func(text string) error { return grant.ParseNICs(text, &request.NIC) }},
		{spec.AnnotationResourceNUMANodes, request.Resources != "", func(text string) error { return readResources(text, &grant, request.Resources) }},
	} {
		text, ok := pod.Annotations[record.key]
		if !ok || !record.asks {
			continue
		}
		if err := record.read(text); err != nil {
			p.warner.Warn("pod "+pod.Namespace+"/"+pod.Name, "the record of the pod's devices is unreadable, so they are guessed", "annotation", record.key, "err", err)
		}
	}
	return grant
}

func reported(pod *corev1.Pod) facts.Condition {
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return facts.Condition{Reason: c.Reason, Message: c.Message}
		}
	}
	return facts.Condition{}
}

// scheduled is when the API server took the pod's Binding, 0 where it does not say.
func scheduled(pod *corev1.Pod) int64 {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue && !c.LastTransitionTime.IsZero() {
			return c.LastTransitionTime.UnixNano()
		}
	}
	return 0
}

// Node parses a node.
func (p *Parser) Node(node *corev1.Node) *facts.Node {
	n := &facts.Node{
		Name:          p.strings.get(node.Name),
		Labels:        make(map[string]string, len(node.Labels)),
		Unschedulable: node.Spec.Unschedulable,
		Allocatable:   p.allocatable(node),
		GPU:           p.shape(node),
		Images:        p.images.of(node.Status.Images),
		Features:      p.declared(node.Status.DeclaredFeatures),
	}
	for key, value := range node.Labels {
		n.Labels[p.strings.get(key)] = p.strings.get(value)
	}
	for i := range node.Spec.Taints {
		t := &node.Spec.Taints[i]
		effect := taintEffect(t.Effect)
		if effect == 0 {
			p.warner.Warn("node "+node.Name, "a taint with an unknown effect is ignored, as kube-scheduler ignores it", "key", t.Key, "effect", t.Effect)
			continue
		}
		n.Taints = append(n.Taints, facts.Taint{Key: p.strings.get(t.Key), Value: p.strings.get(t.Value), Effect: effect})
	}
	return n
}

// shape reads a node's GPUs: as many as nvidia.com/gpu says, else as hilbert.dev/gpu-milli has thousands; only the latter lets fractions in.
func (p *Parser) shape(node *corev1.Node) topology.Shape {
	milli, shareable := node.Status.Allocatable[spec.ResourceGPUMilli]
	count := milli.Value() / topology.FullGPU
	if whole, ok := node.Status.Allocatable[spec.ResourceNvidiaGPU]; ok {
		count = whole.Value()
	}
	if count <= 0 {
		return topology.Shape{}
	}
	if count > topology.MaxGPUs {
		p.warner.Warn("node "+node.Name, "the node has more GPUs than Hilbert can tell apart; the rest stays unused", "gpus", count, "used", topology.MaxGPUs)
		count = topology.MaxGPUs
	}
	model := cmp.Or(node.Labels[spec.LabelGPUModel], node.Labels[labelGPUProduct])
	return topology.Shape{GPUs: int(count), Model: p.strings.get(model), Shareable: shareable && !milli.IsZero()}
}

// labelGPUProduct is what NVIDIA's feature discovery calls a GPU's model.
const labelGPUProduct = "nvidia.com/gpu.product"

func taintEffect(effect corev1.TaintEffect) facts.TaintEffect {
	switch effect {
	case corev1.TaintEffectNoSchedule:
		return facts.NoSchedule
	case corev1.TaintEffectPreferNoSchedule:
		return facts.PreferNoSchedule
	case corev1.TaintEffectNoExecute:
		return facts.NoExecute
	}
	return 0
}

// sidecar: an init container that keeps running beside the pod's containers.
func sidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// mirrors reports whether the pod stands for one that the kubelet of its node has from a file. The kubelet makes itself, the node, its owner; a kubelet
// does not run a pod that merely says so, and deletes it.
func mirrors(pod *corev1.Pod) bool {
	if _, marked := pod.Annotations[corev1.MirrorPodAnnotationKey]; !marked || pod.Spec.NodeName == "" {
		return false
	}
	return slices.ContainsFunc(pod.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "Node" && o.Name == pod.Spec.NodeName })
}
