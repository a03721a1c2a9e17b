package parse

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
)

// maxMembers bounds how many pods a unit may ask to be placed together.
const maxMembers = 100_000

// unitParser reads PodGroups, of each API that has them, as units: how many members are placed together, where, and for how long they wait. It never fails: what
// cannot be honoured is named in facts.Unit.Invalid.
type unitParser struct {
	*vocabulary
	levels []string // node labels from the widest domain to the narrowest
}

// draft is a unit that is being read. The first thing that cannot be honoured is what its condition will say.
type draft struct {
	*facts.Unit
	parser      *unitParser
	annotations map[string]string
}

// unit begins to read a PodGroup: what all versions have in common.
func (p *unitParser) unit(meta *metav1.ObjectMeta) draft {
	d := draft{parser: p, annotations: meta.Annotations, Unit: &facts.Unit{
		UnitName:  facts.UnitName{Namespace: p.strings.get(meta.Namespace), Name: p.strings.get(meta.Name)},
		UID:       facts.UID(meta.UID),
		MinMember: 1,
	}}
	if !meta.CreationTimestamp.IsZero() {
		d.Created = meta.CreationTimestamp.UnixNano()
	}
	return d
}

func (d *draft) refuse(format string, args ...any) {
	if d.Invalid == "" {
		d.Invalid = fmt.Sprintf(format, args...)
	}
}

// disruption says how members leave. Together is the stricter of the two, and wins where an API server lets both stand.
func (d *draft) disruption(all, single bool) {
	d.Indivisible, d.Divisible = all, single && !all
}

// PodGroup reads a PodGroup of scheduling.k8s.io/v1beta1. It never fails: what cannot be honoured is named in facts.Unit.Invalid.
func (p *unitParser) PodGroup(g *schedulingv1beta1.PodGroup) *facts.Unit {
	d := p.unit(&g.ObjectMeta)
	if parent := g.Spec.ParentCompositePodGroupName; parent != nil {
		d.refuseParent(*parent)
	}
	policy := &g.Spec.SchedulingPolicy
	switch {
	case policy.Gang != nil:
		d.members("spec.schedulingPolicy.gang.minCount", policy.Gang.MinCount)
	case policy.Basic == nil:
		d.refusePolicy()
	}
	var keys []string
	if g.Spec.SchedulingConstraints != nil {
		for i := range g.Spec.SchedulingConstraints.Topology {
			keys = append(keys, g.Spec.SchedulingConstraints.Topology[i].Key)
		}
	}
	d.claims(len(g.Spec.ResourceClaims))
	d.priority(g.Spec.Priority)
	d.NeverPreempts = g.Spec.PreemptionPolicy != nil && *g.Spec.PreemptionPolicy == schedulingv1beta1.PreemptNever
	if mode := g.Spec.DisruptionMode; mode != nil {
		d.disruption(mode.All != nil, mode.Single != nil)
	}
	return d.finish(keys, 0, g.Status.Conditions)
}

// AlphaPodGroup reads a PodGroup of scheduling.k8s.io/v1alpha3 or v1alpha2, as PodGroup does.
func (p *unitParser) AlphaPodGroup(g *AlphaPodGroup) *facts.Unit {
	d := p.unit(&g.ObjectMeta)
	if parent := g.Spec.ParentCompositePodGroupName; parent != "" {
		d.refuseParent(parent)
	}
	policy := &g.Spec.SchedulingPolicy
	switch {
	case policy.Gang != nil:
		d.members("spec.schedulingPolicy.gang.minCount", policy.Gang.MinCount)
	case policy.Basic == nil:
		d.refusePolicy()
	}
	var keys []string
	for i := range g.Spec.SchedulingConstraints.Topology {
		keys = append(keys, g.Spec.SchedulingConstraints.Topology[i].Key)
	}
	d.claims(len(g.Spec.ResourceClaims))
	d.priority(g.Spec.Priority)
	d.NeverPreempts = g.Spec.PreemptionPolicy == string(schedulingv1beta1.PreemptNever)
	d.disruption(g.Spec.DisruptionMode.all, g.Spec.DisruptionMode.single)
	return d.finish(keys, 0, g.Status.Conditions)
}

// SigsPodGroup reads a PodGroup of scheduling.x-k8s.io/v1alpha1, as PodGroup does. All that it can tell of a wait is its phase.
func (p *unitParser) SigsPodGroup(g *SigsPodGroup) *facts.Unit {
	d := p.unit(&g.ObjectMeta)
	d.members("spec.minMember", g.Spec.MinMember)
	var timeout time.Duration
	if seconds := g.Spec.ScheduleTimeoutSeconds; seconds != nil {
		if *seconds < 0 {
			d.refuse("spec.scheduleTimeoutSeconds: %d is negative; write how long the unit may wait, or leave it out", *seconds)
		}
		timeout = time.Duration(max(*seconds, 0)) * time.Second
	}
	seen := d.finish(nil, timeout, nil)
	seen.Scheduled = wasWhole(g.Status.Phase)
	seen.Reported.Met = seen.Scheduled
	return seen
}

// wasWhole reports whether a phase says that the unit had its places once.
func wasWhole(phase string) bool {
	return phase == PhaseScheduling || phase == PhaseRunning || phase == PhaseFinished
}

func (d *draft) refuseParent(name string) {
	d.refuse("spec.parentCompositePodGroupName: %.80q: composite pod groups are not supported; leave it out and say with annotations how "+
		"the parts of one PodGroup are packed (%s)", name, spec.AnnotationSubgroupRequiredTopology)
}

func (d *draft) refusePolicy() {
	d.refuse("spec.schedulingPolicy: neither basic nor gang, and nothing else is supported; set one of them")
}

func (d *draft) claims(n int) {
	if n > 0 {
		d.refuse("spec.resourceClaims: claims of a whole group are not supported; leave them out")
	}
}

func (d *draft) priority(value *int32) {
	if value != nil {
		d.Priority, d.Prioritized = *value, true
	}
}

func (d *draft) members(field string, n int32) {
	switch {
	case n < 1:
		d.refuse("%s: %d is too few; at least 1 pod must be placed together", field, n)
	case n > maxMembers:
		d.refuse("%s: %d is too many; at most %d pods can be placed together", field, n, maxMembers)
	default:
		d.MinMember = n
	}
}

// finish reads what annotations say, and the condition that is there.
func (d *draft) finish(keys []string, timeout time.Duration, conditions []metav1.Condition) *facts.Unit {
	d.Topology = facts.Packing{
		Required:  d.required(keys),
		Preferred: d.label(spec.AnnotationPreferredTopology),
		Spread:    d.label(spec.AnnotationSpreadTopology),
		Uniform:   d.label(spec.AnnotationUniform),
	}
	d.SubgroupTopology = facts.Packing{
		Required:  d.label(spec.AnnotationSubgroupRequiredTopology),
		Preferred: d.label(spec.AnnotationSubgroupPreferredTopology),
	}
	d.narrower(spec.AnnotationPreferredTopology, d.Topology.Preferred, d.Topology.Required)
	d.narrower(spec.AnnotationSpreadTopology, d.Topology.Spread, d.Topology.Required)
	d.narrower(spec.AnnotationSubgroupPreferredTopology, d.SubgroupTopology.Preferred, d.SubgroupTopology.Required)
	d.timeout(timeout)
	for i := range conditions {
		if c := &conditions[i]; c.Type == ConditionInitiallyScheduled || c.Type == ConditionScheduled {
			d.Reported = facts.UnitCondition{Met: c.Status == metav1.ConditionTrue, Reason: c.Reason, Message: c.Message}
			d.Scheduled = d.Scheduled || d.Reported.Met
		}
	}
	return d.Unit
}

// required is the level that the PodGroup's own field names, or the annotation.
func (d *draft) required(keys []string) string {
	const field = "spec.schedulingConstraints.topology"
	said := d.label(spec.AnnotationRequiredTopology)
	if len(keys) == 0 {
		return said
	}
	if len(keys) > 1 {
		d.refuse("%s: %d constraints, and only one is supported; keep the narrowest", field, len(keys))
	}
	d.wellFormed(field+"[0].key", keys[0])
	if said != "" && said != keys[0] {
		d.refuse("%s[0].key: %.80q, but the annotation %s says %.80q; leave one of them out", field, keys[0], spec.AnnotationRequiredTopology, said)
	}
	return d.parser.strings.get(keys[0])
}

// label reads an annotation that names a node label.
func (d *draft) label(annotation string) string {
	value := d.annotations[annotation]
	if value == "" {
		return ""
	}
	if !d.wellFormed(field(annotation), value) {
		return ""
	}
	return d.parser.strings.get(value)
}

func field(annotation string) string { return "metadata.annotations[" + annotation + "]" }

func (d *draft) wellFormed(field, label string) bool {
	complaints := validation.IsQualifiedName(label)
	if len(complaints) > 0 {
		d.refuse("%s: %.80q is no name of a node label: %s", field, label, complaints[0])
	}
	return len(complaints) == 0
}

// narrower refuses a wish that what is required leaves no room for: within one rack there is one rack. Labels that are not on the
// configured path have no order.
func (d *draft) narrower(annotation, key, than string) {
	at, limit := slices.Index(d.parser.levels, key), slices.Index(d.parser.levels, than)
	if key == "" || than == "" || key != than && (at < 0 || limit < 0) || at > limit {
		return
	}
	d.refuse("%s: %s is not narrower than %s, which is required; name a narrower level, or leave one of them out", field(annotation), key, than)
}

// timeout takes how long the unit may wait from the annotation, or from the PodGroup's own field.
func (d *draft) timeout(said time.Duration) {
	d.Timeout = int64(said)
	text := d.annotations[spec.AnnotationTimeout]
	if text == "" {
		return
	}
	value, err := time.ParseDuration(text)
	switch {
	case err != nil:
		d.refuse("%s: %.40q is no duration; write a number with a unit, for example 10m", field(spec.AnnotationTimeout), text)
	case value <= 0:
		d.refuse("%s: %.40q is not positive; write how long the unit may wait, for example 10m", field(spec.AnnotationTimeout), text)
	case said != 0 && said != value:
		d.refuse("%s: %s, but spec.scheduleTimeoutSeconds says %s; leave one of them out", field(spec.AnnotationTimeout), value, said)
	default:
		d.Timeout = int64(value)
	}
}

// group fills in which unit the pod is a member of: the one that its spec names, else the one that its label does. Both name PodGroups of
// the pod's namespace, whichever API those are of.
func (p *Parser) group(pod *corev1.Pod, seen *facts.Pod) {
	if name := UnitOf(pod); name != "" {
		seen.Unit, seen.Subgroup = p.strings.get(name), p.strings.get(pod.Labels[spec.LabelSubgroup])
	}
	if seconds := pod.Spec.ActiveDeadlineSeconds; seconds != nil && *seconds > 0 {
		seen.Deadline = min(*seconds, int64(maxDeadline/time.Second)) * int64(time.Second)
	}
}

// UnitOf is the name of the PodGroup that a pod names, empty if none.
func UnitOf(pod *corev1.Pod) string {
	if g := pod.Spec.SchedulingGroup; g != nil && g.PodGroupName != nil {
		return *g.PodGroupName
	}
	return pod.Labels[spec.LabelPodGroup]
}

// FinishedMember reads a pod that has finished; ok is false if no unit of ours counts it. It reads nothing else of the pod.
func (p *Parser) FinishedMember(pod *corev1.Pod) (f facts.Pod, ok bool) {
	unit := UnitOf(pod)
	if unit == "" || !finished(pod) || !p.IsOurs(pod) {
		return facts.Pod{}, false
	}
	name := facts.UnitName{Namespace: p.strings.get(pod.Namespace), Name: p.strings.get(unit)}
	return facts.FinishedMember(facts.UID(pod.UID), name, pod.Name), true
}

// maxDeadline is longer than anything runs, and fits an int64 of nanoseconds with room to add to.
const maxDeadline = 100 * 365 * 24 * time.Hour
