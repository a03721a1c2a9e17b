package facts

import (
	"cmp"
	"slices"
	"strings"

	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

// Requirements is everything about a pod that its placement depends on. Two pods with equal Requirements are interchangeable.
type Requirements struct {
	// Requests is the pod's effective request by name: init and sidecar containers, overhead and pod-level resources counted in. GPUs
	// are in GPU instead. The pod itself (resource pods) is added by the Store.
	Requests []resource.Quantity
	// ScoreCPU (millicores) and ScoreMemory (bytes) are the requests that scores use: containers without one count with a default.
	ScoreCPU, ScoreMemory int64
	// PodLevelCPU and PodLevelMemory are the part of them that scores leave out while they place the pod itself, as upstream's do: what
	// pod-level requests add to the containers'. Mostly 0; it may be negative.
	PodLevelCPU, PodLevelMemory int64
	GPU                         topology.Request
	// NUMANodes asks for exclusive cores; they are among the Requests too.
	NUMANodes topology.NUMARequest
	// Reclaimed: the pod is of the reclaimed level, so that its node may want it evicted.
	Reclaimed bool

	// NodeSelector must match the node's labels, sorted by key.
	NodeSelector []Label
	// Required is a list of terms of which one must match; nil asks for nothing, an empty list matches nothing.
	Required []Term
	// Preferred terms add their weight to a node's score.
	Preferred   []WeightedTerm
	Tolerations []Toleration
	Ports       []HostPort
	// Disks are volumes in the pod's own spec that two pods on one node must not both have, sorted.
	Disks []Disk
	// Features are what the node must declare, sorted.
	Features []string
	// Images of all containers, one entry for each, normalised to the names that nodes report.
	Images []string

	// Spread, in the order of the pod's spec. A pod without any may get the cluster's defaults (SpreadDefaults).
	Spread []SpreadConstraint
	// Affinity and AntiAffinity are required.
	Affinity, AntiAffinity []AffinityTerm
	// PreferredPods are the preferred terms of both, anti-affinity with negative weights.
	PreferredPods []WeightedAffinityTerm

	// Unsupported names the constraints in the pod's spec that Hilbert cannot honour; such a pod is never placed.
	Unsupported []string
	// Impossible says why no node can ever fit the request; empty when one could.
	Impossible string
}

// MaxPodTerms bounds the terms of one pod that are about other pods. Each is counted on every node that has its topology key, and asked about every
// other pod, so that a pod with thousands of them would be paid for by everybody.
const MaxPodTerms = 32

// PodTerms is how many terms of the requirements are about other pods.
func (r *Requirements) PodTerms() int {
	return len(r.Spread) + len(r.Affinity) + len(r.AntiAffinity) + len(r.PreferredPods)
}

// Label is a key and the value that it must have.
type Label struct{ Key, Value string }

// Operator of a Requirement.
type Operator uint8

// The operators of Kubernetes node selectors.
const (
	In Operator = iota + 1
	NotIn
	Exists
	DoesNotExist
	Gt
	Lt
)

// Requirement is one expression over a label (or, in Term.Fields, over metadata.name).
type Requirement struct {
	Key      string
	Operator Operator
	Values   []string
}

// Term is a conjunction of expressions. A term without any matches nothing.
type Term struct {
	Expressions []Requirement
	Fields      []Requirement
}

// WeightedTerm is a preference.
type WeightedTerm struct {
	Weight int32
	Term   Term
}

// Toleration lets a pod onto nodes with a taint.
type Toleration struct {
	Key    string // empty with Exists: every key
	Exists bool   // else Equal
	Value  string
	Effect TaintEffect // zero: every effect
}

// HostPort is a port of the node that the pod occupies.
type HostPort struct {
	Protocol string // TCP, UDP, SCTP
	IP       string // "0.0.0.0": every address
	Port     int32
}

// Conflicts reports whether two host ports cannot be held on one node together.
func (p HostPort) Conflicts(q HostPort) bool {
	return p.Port == q.Port && p.Protocol == q.Protocol && (p.IP == q.IP || p.IP == AnyIP || q.IP == AnyIP)
}

// Compare orders host ports by number, protocol and address.
func (p HostPort) Compare(q HostPort) int {
	return cmp.Or(cmp.Compare(p.Port, q.Port), cmp.Compare(p.Protocol, q.Protocol), cmp.Compare(p.IP, q.IP))
}

// Disk is a volume that is written into pods' specs without a claim, and that two pods on one node must not both have unless both only read it.
type Disk struct {
	Kind, Name string
	ReadOnly   bool
	// Monitors tell images of one name apart: two are the same if they share one. Without any they are not asked.
	Monitors []string
}

// Conflicts reports whether pods with these must not share a node.
func (d Disk) Conflicts(e Disk) bool {
	if d.Kind != e.Kind || d.Name != e.Name || d.ReadOnly && e.ReadOnly {
		return false
	}
	shares := func(monitor string) bool { return slices.Contains(e.Monitors, monitor) }
	return d.Kind != "rbd" || slices.ContainsFunc(d.Monitors, shares)
}

// Compare orders disks.
func (d Disk) Compare(e Disk) int {
	readOnly := func(b bool) int {
		if b {
			return 1
		}
		return 0
	}
	return cmp.Or(strings.Compare(d.Kind, e.Kind), strings.Compare(d.Name, e.Name), cmp.Compare(readOnly(d.ReadOnly), readOnly(e.ReadOnly)),
		slices.Compare(d.Monitors, e.Monitors))
}

// AnyIP is a host port's address when it names none.
const AnyIP = "0.0.0.0"
