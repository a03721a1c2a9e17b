package dumpfile

import (
	"fmt"
	"maps"
	"slices"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
)

// The types of this file are the vocabulary as it stands in a file. They are apart from the vocabulary itself, so that its names and its
// layout may change while the format does not.

type (
	effectText   facts.TaintEffect
	operatorText facts.Operator
	workloadText facts.WorkloadKind
	phaseText    cluster.Phase
	consentText  spec.Consent
)

func (e effectText) MarshalText() ([]byte, error) { return []byte(facts.TaintEffect(e).String()), nil }

func (o operatorText) MarshalText() ([]byte, error) { return []byte(facts.Operator(o).String()), nil }

func (k workloadText) MarshalText() ([]byte, error) {
	return []byte(facts.WorkloadKind(k).String()), nil
}

func (p phaseText) MarshalText() ([]byte, error) { return []byte(cluster.Phase(p).String()), nil }

func (c consentText) MarshalText() ([]byte, error) { return []byte(spec.Consent(c).String()), nil }

func (c *consentText) UnmarshalText(b []byte) error {
	value, err := valueOf[spec.Consent](string(b))
	*c = consentText(value)
	return err
}

func (e *effectText) UnmarshalText(b []byte) error {
	value, err := valueOf[facts.TaintEffect](string(b))
	*e = effectText(value)
	return err
}

func (o *operatorText) UnmarshalText(b []byte) error {
	value, err := valueOf[facts.Operator](string(b))
	*o = operatorText(value)
	return err
}

func (k *workloadText) UnmarshalText(b []byte) error {
	value, err := valueOf[facts.WorkloadKind](string(b))
	*k = workloadText(value)
	return err
}

func (p *phaseText) UnmarshalText(b []byte) error {
	value, err := valueOf[cluster.Phase](string(b))
	*p = phaseText(value)
	return err
}

type quantityRecord struct {
	Name   string `json:"name"`
	Amount int64  `json:"amount"`
}

type requirementRecord struct {
	Key      string       `json:"key"`
	Operator operatorText `json:"operator"`
	Values   []string     `json:"values,omitempty"`
}

type termRecord struct {
	Expressions []requirementRecord `json:"expressions,omitempty"`
	Fields      []requirementRecord `json:"fields,omitempty"`
}

type weightedTermRecord struct {
	Weight int32      `json:"weight"`
	Term   termRecord `json:"term"`
}

type tolerationRecord struct {
	Key    string     `json:"key,omitempty"`
	Exists bool       `json:"exists,omitempty"`
	Value  string     `json:"value,omitempty"`
	Effect effectText `json:"effect,omitempty"`
}

type portRecord struct {
	Protocol string `json:"protocol"`
	IP       string `json:"ip"`
	Port     int32  `json:"port"`
}

type selectorRecord struct {
	Nothing     bool                `json:"nothing,omitempty"`
	Expressions []requirementRecord `json:"expressions,omitempty"`
}

type podSelectorRecord struct {
	Namespaces        []string        `json:"namespaces,omitempty"`
	NamespaceSelector *selectorRecord `json:"namespaceSelector,omitempty"`
	Labels            selectorRecord  `json:"labels"`
}

type spreadRecord struct {
	TopologyKey   string            `json:"topologyKey"`
	MaxSkew       int32             `json:"maxSkew"`
	Hard          bool              `json:"hard,omitempty"`
	MinDomains    int32             `json:"minDomains,omitempty"`
	Pods          podSelectorRecord `json:"pods"`
	HonorAffinity bool              `json:"honorAffinity,omitempty"`
	HonorTaints   bool              `json:"honorTaints,omitempty"`
	Default       bool              `json:"default,omitempty"`
}

type affinityRecord struct {
	Weight      int32             `json:"weight,omitempty"` // of a preference
	TopologyKey string            `json:"topologyKey"`
	Pods        podSelectorRecord `json:"pods"`
}

type diskRecord struct {
	Kind     string   `json:"kind"`
	Name     string   `json:"name"`
	ReadOnly bool     `json:"readOnly,omitempty"`
	Monitors []string `json:"monitors,omitempty"`
}

type requirementsRecord struct {
	Requests       []quantityRecord     `json:"requests,omitempty"`
	ScoreCPU       int64                `json:"scoreCPU,omitempty"`
	ScoreMemory    int64                `json:"scoreMemory,omitempty"`
	PodLevelCPU    int64                `json:"podLevelCPU,omitempty"`
	PodLevelMemory int64                `json:"podLevelMemory,omitempty"`
	GPU            gpuRequestRecord     `json:"gpu,omitzero"`
	NUMANodes      numaRequestRecord    `json:"numaNodes,omitzero"`
	Reclaimed      bool                 `json:"reclaimed,omitempty"`
	NodeSelector   map[string]string    `json:"nodeSelector,omitempty"`
	Required       []termRecord         `json:"required,omitzero"` // an empty list is not none
	Preferred      []weightedTermRecord `json:"preferred,omitempty"`
	Tolerations    []tolerationRecord   `json:"tolerations,omitempty"`
	Ports          []portRecord         `json:"ports,omitempty"`
	Disks          []diskRecord         `json:"disks,omitempty"`
	Features       []string             `json:"features,omitempty"`
	Images         []string             `json:"images,omitempty"`
	Spread         []spreadRecord       `json:"spread,omitempty"`
	Affinity       []affinityRecord     `json:"affinity,omitempty"`
	AntiAffinity   []affinityRecord     `json:"antiAffinity,omitempty"`
	PreferredPods  []affinityRecord     `json:"preferredPods,omitempty"`
	Unsupported    []string             `json:"unsupported,omitempty"`
	Impossible     string               `json:"impossible,omitempty"`
}

type taintRecord struct {
	Key    string     `json:"key"`
	Value  string     `json:"value,omitempty"`
	Effect effectText `json:"effect"`
}

type imageRecord struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
}

type nodeRecord struct {
	Name          string            `json:"name"`
	Labels        map[string]string `json:"labels,omitempty"`
	Taints        []taintRecord     `json:"taints,omitempty"`
	Unschedulable bool              `json:"unschedulable,omitempty"`
	Allocatable   []quantityRecord  `json:"allocatable,omitempty"`
	GPU           shapeRecord       `json:"gpu,omitzero"`
	Images        []imageRecord     `json:"images,omitempty"`
	Features      []string          `json:"features,omitempty"`
	Migrated      []string          `json:"migrated,omitempty"`
}

type ownerRecord struct {
	Kind workloadText `json:"kind,omitempty"`
	Name string       `json:"name"`
}

type conditionRecord struct {
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

type podRecord struct {
	UID           facts.UID         `json:"uid"`
	Namespace     string            `json:"namespace"`
	Name          string            `json:"name"`
	Phase         phaseText         `json:"phase"`
	HeldBack      bool              `json:"heldBack,omitempty"`
	Node          string            `json:"node,omitempty"`
	Created       int64             `json:"created,omitempty"`
	Priority      int32             `json:"priority,omitempty"`
	Ours          bool              `json:"ours,omitempty"`
	Profile       uint8             `json:"profile,omitempty"`
	Deleting      bool              `json:"deleting,omitempty"`
	Gated         bool              `json:"gated,omitempty"`
	Mirror        bool              `json:"mirror,omitempty"`
	Labels        map[string]string `json:"labels,omitempty"`
	Owner         ownerRecord       `json:"owner,omitzero"`
	Started       int64             `json:"started,omitempty"`
	Scheduled     int64             `json:"scheduled,omitempty"`
	NeverPreempts bool              `json:"neverPreempts,omitempty"`
	Nominated     string            `json:"nominated,omitempty"`
	Requirements  int               `json:"requirements"` // index into the list of them
	Grant         *grantRecord      `json:"grant,omitempty"`
	Reported      conditionRecord   `json:"reported,omitzero"`
	Victims       []facts.UID       `json:"victims,omitempty"`
	Unit          string            `json:"unit,omitempty"`
	Subgroup      string            `json:"subgroup,omitempty"`
	Deadline      int64             `json:"deadline,omitempty"`
	Consent       consentText       `json:"consent,omitempty"`
	Claims        []claimUseRecord  `json:"claims,omitempty"`

	ResourceClaims []resourceClaimUseRecord  `json:"resourceClaims,omitempty"`
	Extended       []extendedContainerRecord `json:"extended,omitempty"`

	Controller    controllerRecord `json:"controller,omitzero"`
	Placeholder   facts.UID        `json:"placeholder,omitempty"`   // whose room its Binding names
	IsPlaceholder bool             `json:"isPlaceholder,omitempty"` // it is one itself
}

type controllerRecord struct {
	Kind string `json:"kind,omitempty"`
	Name string `json:"name,omitempty"`
}

type resourceClaimUseRecord struct {
	Claim     string `json:"claim"`
	Generated bool   `json:"generated,omitempty"`
}

type namespaceRecord struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels,omitempty"`
}

type workloadRecord struct {
	Kind      workloadText   `json:"kind"`
	Namespace string         `json:"namespace"`
	Name      string         `json:"name"`
	Pods      selectorRecord `json:"pods"`
}

type budgetRecord struct {
	Namespace string         `json:"namespace"`
	Name      string         `json:"name"`
	Pods      selectorRecord `json:"pods"`
	Allowed   int32          `json:"allowed"`
	Disrupted []string       `json:"disrupted,omitempty"`
}

type spreadDefaultRecord struct {
	TopologyKey string `json:"topologyKey"`
	MaxSkew     int32  `json:"maxSkew"`
}

// each converts a list; nil stays nil, and empty stays empty.
func each[A, B any](list []A, convert func(A) B) []B {
	if list == nil {
		return nil
	}
	out := make([]B, len(list))
	for i := range list {
		out[i] = convert(list[i])
	}
	return out
}

func labelMap(list []facts.Label) map[string]string {
	if len(list) == 0 {
		return nil
	}
	m := make(map[string]string, len(list))
	for _, l := range list {
		m[l.Key] = l.Value
	}
	return m
}

func labelList(m map[string]string) []facts.Label {
	var list []facts.Label
	for _, key := range slices.Sorted(maps.Keys(m)) {
		list = append(list, facts.Label{Key: key, Value: m[key]})
	}
	return list
}

func writeQuantity(q resource.Quantity) quantityRecord { return quantityRecord(q) }
func readQuantity(q quantityRecord) resource.Quantity  { return resource.Quantity(q) }

func writeRequirement(r facts.Requirement) requirementRecord {
	return requirementRecord{r.Key, operatorText(r.Operator), r.Values}
}

func readRequirement(r requirementRecord) facts.Requirement {
	return facts.Requirement{Key: r.Key, Operator: facts.Operator(r.Operator), Values: r.Values}
}

func writeTerm(t facts.Term) termRecord {
	return termRecord{each(t.Expressions, writeRequirement), each(t.Fields, writeRequirement)}
}

func readTerm(t termRecord) facts.Term {
	return facts.Term{Expressions: each(t.Expressions, readRequirement), Fields: each(t.Fields, readRequirement)}
}

func writeSelector(s facts.LabelSelector) selectorRecord {
	return selectorRecord{s.Nothing, each(s.Expressions, writeRequirement)}
}

func readSelector(s selectorRecord) facts.LabelSelector {
	return facts.LabelSelector{Nothing: s.Nothing, Expressions: each(s.Expressions, readRequirement)}
}

func writePodSelector(p facts.PodSelector) podSelectorRecord {
	r := podSelectorRecord{Namespaces: p.Namespaces, Labels: writeSelector(p.Labels)}
	if p.NamespaceSelector != nil {
		s := writeSelector(*p.NamespaceSelector)
		r.NamespaceSelector = &s
	}
	return r
}

func readPodSelector(r podSelectorRecord) facts.PodSelector {
	p := facts.PodSelector{Namespaces: r.Namespaces, Labels: readSelector(r.Labels)}
	if r.NamespaceSelector != nil {
		s := readSelector(*r.NamespaceSelector)
		p.NamespaceSelector = &s
	}
	return p
}

func writeSpread(c facts.SpreadConstraint) spreadRecord {
	return spreadRecord{c.TopologyKey, c.MaxSkew, c.Hard, c.MinDomains, writePodSelector(c.Pods), c.HonorAffinity, c.HonorTaints, c.Default}
}

func readSpread(r spreadRecord) facts.SpreadConstraint {
	return facts.SpreadConstraint{TopologyKey: r.TopologyKey, MaxSkew: r.MaxSkew, Hard: r.Hard, MinDomains: r.MinDomains, Pods: readPodSelector(r.Pods), HonorAffinity: r.HonorAffinity, HonorTaints: r.HonorTaints, Default: r.Default}
}

func writeAffinity(t facts.AffinityTerm) affinityRecord {
	return affinityRecord{TopologyKey: t.TopologyKey, Pods: writePodSelector(t.Pods)}
}

func readAffinity(r affinityRecord) facts.AffinityTerm {
	return facts.AffinityTerm{TopologyKey: r.TopologyKey, Pods: readPodSelector(r.Pods)}
}

func writeRequirements(r *facts.Requirements) requirementsRecord {
	return requirementsRecord{
		Requests: each(r.Requests, writeQuantity), ScoreCPU: r.ScoreCPU, ScoreMemory: r.ScoreMemory, PodLevelCPU: r.PodLevelCPU, PodLevelMemory: r.PodLevelMemory,
		GPU:          writeGPURequest(&r.GPU),
		NUMANodes:    numaRequestRecord{r.NUMANodes.CPUs, bindingText(r.NUMANodes.Binding), r.NUMANodes.Memory, bandwidthText(r.NUMANodes.Bandwidth)},
		Reclaimed:    r.Reclaimed,
		NodeSelector: labelMap(r.NodeSelector), Required: each(r.Required, writeTerm),
		Preferred: each(r.Preferred, func(w facts.WeightedTerm) weightedTermRecord { return weightedTermRecord{w.Weight, writeTerm(w.Term)} }),
		Tolerations: each(r.Tolerations, func(t facts.Toleration) tolerationRecord {
			return tolerationRecord{t.Key, t.Exists, t.Value, effectText(t.Effect)}
		}),
		Ports:    each(r.Ports, func(p facts.HostPort) portRecord { return portRecord(p) }),
		Disks:    each(r.Disks, func(d facts.Disk) diskRecord { return diskRecord(d) }),
		Features: r.Features, Images: r.Images,
		Spread: each(r.Spread, writeSpread), Affinity: each(r.Affinity, writeAffinity), AntiAffinity: each(r.AntiAffinity, writeAffinity),
		PreferredPods: each(r.PreferredPods, func(w facts.WeightedAffinityTerm) affinityRecord {
			return affinityRecord{w.Weight, w.TopologyKey, writePodSelector(w.Pods)}
		}),
		Unsupported: r.Unsupported, Impossible: r.Impossible,
	}
}

func readRequirements(r *requirementsRecord) *facts.Requirements {
	return &facts.Requirements{
		Requests: each(r.Requests, readQuantity), ScoreCPU: r.ScoreCPU, ScoreMemory: r.ScoreMemory, PodLevelCPU: r.PodLevelCPU, PodLevelMemory: r.PodLevelMemory,
		GPU:          r.GPU.request(),
		NUMANodes:    r.NUMANodes.request(),
		Reclaimed:    r.Reclaimed,
		NodeSelector: labelList(r.NodeSelector), Required: each(r.Required, readTerm),
		Preferred: each(r.Preferred, func(w weightedTermRecord) facts.WeightedTerm {
			return facts.WeightedTerm{Weight: w.Weight, Term: readTerm(w.Term)}
		}),
		Tolerations: each(r.Tolerations, func(t tolerationRecord) facts.Toleration {
			return facts.Toleration{Key: t.Key, Exists: t.Exists, Value: t.Value, Effect: facts.TaintEffect(t.Effect)}
		}),
		Ports:    each(r.Ports, func(p portRecord) facts.HostPort { return facts.HostPort(p) }),
		Disks:    each(r.Disks, func(d diskRecord) facts.Disk { return facts.Disk(d) }),
		Features: r.Features, Images: r.Images,
		Spread: each(r.Spread, readSpread), Affinity: each(r.Affinity, readAffinity), AntiAffinity: each(r.AntiAffinity, readAffinity),
		PreferredPods: each(r.PreferredPods, func(r affinityRecord) facts.WeightedAffinityTerm {
			return facts.WeightedAffinityTerm{Weight: r.Weight, AffinityTerm: facts.AffinityTerm{TopologyKey: r.TopologyKey, Pods: readPodSelector(r.Pods)}}
		}),
		Unsupported: r.Unsupported, Impossible: r.Impossible,
	}
}

func writeNode(n *facts.Node) nodeRecord {
	return nodeRecord{
		Name: n.Name, Labels: n.Labels, Unschedulable: n.Unschedulable, Allocatable: each(n.Allocatable, writeQuantity),
		Taints: each(n.Taints, func(t facts.Taint) taintRecord { return taintRecord{t.Key, t.Value, effectText(t.Effect)} }),
		GPU:    writeShape(&n.GPU), Images: each(n.Images, func(i facts.Image) imageRecord { return imageRecord(i) }), Features: n.Features, Migrated: n.Migrated,
	}
}

func readNode(n *nodeRecord) *facts.Node {
	return &facts.Node{
		Name: n.Name, Labels: n.Labels, Unschedulable: n.Unschedulable, Allocatable: each(n.Allocatable, readQuantity),
		Taints: each(n.Taints, func(t taintRecord) facts.Taint {
			return facts.Taint{Key: t.Key, Value: t.Value, Effect: facts.TaintEffect(t.Effect)}
		}),
		GPU: n.GPU.shape(), Images: each(n.Images, func(i imageRecord) facts.Image { return facts.Image(i) }), Features: n.Features, Migrated: n.Migrated,
	}
}

func writePod(p *cluster.PodRecord, requirements int) podRecord {
	f := &p.Facts
	r := podRecord{
		UID: f.UID, Namespace: f.Namespace, Name: f.Name, Phase: phaseText(p.Phase), HeldBack: p.HeldBack, Node: f.Node, Created: f.Created, Priority: f.Priority,
		Ours: f.Ours, Profile: f.Profile, Deleting: f.Deleting, Gated: f.Gated, Mirror: f.Mirror, Labels: labelMap(f.Labels), Owner: ownerRecord{workloadText(f.Owner.Kind), f.Owner.Name},
		Started: f.Started, Scheduled: f.Scheduled, NeverPreempts: f.NeverPreempts, Nominated: f.Nominated, Requirements: requirements,
		Reported: conditionRecord(f.Reported), Victims: p.Victims, Unit: f.Unit, Subgroup: f.Subgroup, Deadline: f.Deadline, Consent: consentText(f.Consent),
		Claims:         each(f.Claims, writeClaimUse),
		ResourceClaims: each(f.ResourceClaims, func(c facts.ResourceClaimUse) resourceClaimUseRecord { return resourceClaimUseRecord(c) }),
		Extended:       each(f.Extended, writeExtended),
		Controller:     controllerRecord(f.Controller), Placeholder: f.Placeholder, IsPlaceholder: p.Placeholder,
	}
	if !f.Grant.IsZero() {
		r.Grant = writeGrant(&f.Grant)
	}
	return r
}

func readPod(r *podRecord) (cluster.PodRecord, error) {
	p := cluster.PodRecord{
		Facts: facts.Pod{
			UID: r.UID, Namespace: r.Namespace, Name: r.Name, Node: r.Node, Created: r.Created, Priority: r.Priority,
			Finished: cluster.Phase(r.Phase) == cluster.Finished,
			Ours:     r.Ours, Profile: r.Profile, Deleting: r.Deleting, Gated: r.Gated, Mirror: r.Mirror, Labels: labelList(r.Labels), Owner: facts.Owner{Kind: facts.WorkloadKind(r.Owner.Kind), Name: r.Owner.Name},
			Started: r.Started, Scheduled: r.Scheduled, NeverPreempts: r.NeverPreempts, Nominated: r.Nominated, Reported: facts.Condition(r.Reported),
			Unit: r.Unit, Subgroup: r.Subgroup, Deadline: r.Deadline, Consent: spec.Consent(r.Consent),
			Claims:         each(r.Claims, readClaimUse),
			ResourceClaims: each(r.ResourceClaims, func(c resourceClaimUseRecord) facts.ResourceClaimUse { return facts.ResourceClaimUse(c) }),
			Extended:       each(r.Extended, readExtended),
			Controller:     facts.Controller(r.Controller), Placeholder: r.Placeholder,
		},
		Phase: cluster.Phase(r.Phase), HeldBack: r.HeldBack, Victims: r.Victims, Placeholder: r.IsPlaceholder,
	}
	if r.Grant != nil {
		grant, err := r.Grant.grant()
		if err != nil {
			return p, fmt.Errorf("pod %s: %w", r.UID, err)
		}
		p.Facts.Grant = grant
	}
	return p, nil
}
