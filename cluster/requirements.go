package cluster

import (
	"encoding/binary"

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
	// Zones asks for exclusive cores; they are among the Requests too.
	Zones topology.ZoneRequest
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

// keyWriter writes values so that different sequences never give equal bytes: every string carries its length.
type keyWriter []byte

func (w *keyWriter) str(s string) {
	*w = binary.AppendUvarint(*w, uint64(len(s)))
	*w = append(*w, s...)
}

func (w *keyWriter) num(n int64) { *w = binary.AppendVarint(*w, n) }

func (w *keyWriter) bool(b bool) {
	if b {
		w.num(1)
		return
	}
	w.num(0)
}

func (w *keyWriter) term(t *Term) {
	w.requirements(t.Expressions)
	w.requirements(t.Fields)
}

// appendKey appends the canonical encoding of r.
func (r *Requirements) appendKey(buffer []byte) []byte {
	w := keyWriter(r.AppendSize(buffer))
	w.selection(r)
	w.preferred(r.Preferred)
	w.tolerations(r.Tolerations)
	w.strings(r.Features)
	w.strings(r.Images)
	w.num(int64(len(r.Spread)))
	for i := range r.Spread {
		w.spread(&r.Spread[i])
	}
	w.affinity(r.Affinity)
	w.affinity(r.AntiAffinity)
	w.num(int64(len(r.PreferredPods)))
	for i := range r.PreferredPods {
		w.num(int64(r.PreferredPods[i].Weight))
		w.str(r.PreferredPods[i].TopologyKey)
		w.podSelector(&r.PreferredPods[i].Pods)
	}
	w.strings(r.Unsupported)
	w.str(r.Impossible)
	w.bool(r.Reclaimed)
	return w
}

// AppendSize appends the canonical encoding of all that the pod takes of its node: pods with equal encodings fit the same nodes, as far
// as room goes, and fill them equally.
func (r *Requirements) AppendSize(buffer []byte) []byte {
	w := keyWriter(buffer)
	w.num(int64(len(r.Requests)))
	for _, q := range r.Requests {
		w.str(q.Name)
		w.num(q.Amount)
	}
	w.num(r.ScoreCPU)
	w.num(r.ScoreMemory)
	w.num(r.PodLevelCPU)
	w.num(r.PodLevelMemory)
	w.num(int64(r.GPU.Milli))
	w.num(int64(r.GPU.Whole))
	w.devices(&r.GPU)
	w.num(int64(r.Zones.CPUs))
	if !r.Zones.IsZero() {
		w.num(int64(r.Zones.Binding))
		w.num(int64(r.Zones.Memory))
	}
	w.num(int64(len(r.Ports)))
	for _, p := range r.Ports {
		w.str(p.Protocol)
		w.str(p.IP)
		w.num(int64(p.Port))
	}
	return w
}

// devices appends what is asked for of devices beside the compute of GPUs.
func (w *keyWriter) devices(r *topology.Request) {
	if *r == (topology.Request{Milli: r.Milli, Whole: r.Whole}) {
		w.num(0)
		return
	}
	flag := func(b bool, bit int64) int64 {
		if b {
			return bit
		}
		return 0
	}
	w.num(1 | flag(r.NIC.RDMA, 2) | flag(r.NIC.Function, 4) | flag(r.Near.Required, 8) | flag(r.Near.Relax, 16))
	w.num(int64(r.Isolation))
	w.num(int64(r.Memory))
	w.num(int64(r.NIC.Count))
	w.num(int64(r.NIC.Bandwidth))
	w.num(int64(r.Near.Level))
}

// AppendSelection appends the canonical encoding of all that the pod asks of a node's own properties, apart from images: classes with
// equal encodings are let in by the same nodes and like them for the same reasons.
func (r *Requirements) AppendSelection(buffer []byte) []byte {
	w := keyWriter(buffer)
	w.selection(r)
	w.preferred(r.Preferred)
	w.tolerations(r.Tolerations)
	w.strings(r.Features)
	return w
}

// selection writes which nodes the node selector and the required node affinity allow.
func (w *keyWriter) selection(r *Requirements) {
	w.num(int64(len(r.NodeSelector)))
	for _, l := range r.NodeSelector {
		w.str(l.Key)
		w.str(l.Value)
	}
	w.bool(r.Required != nil)
	w.num(int64(len(r.Required)))
	for i := range r.Required {
		w.term(&r.Required[i])
	}
}

func (w *keyWriter) preferred(list []WeightedTerm) {
	w.num(int64(len(list)))
	for i := range list {
		w.num(int64(list[i].Weight))
		w.term(&list[i].Term)
	}
}

func (w *keyWriter) tolerations(list []Toleration) {
	w.num(int64(len(list)))
	for _, t := range list {
		w.str(t.Key)
		w.bool(t.Exists)
		w.str(t.Value)
		w.num(int64(t.Effect))
	}
}

func (w *keyWriter) strings(list []string) {
	w.num(int64(len(list)))
	for _, s := range list {
		w.str(s)
	}
}

// Conflicts reports whether two host ports cannot be held on one node together.
func (p HostPort) Conflicts(q HostPort) bool {
	return p.Port == q.Port && p.Protocol == q.Protocol && (p.IP == q.IP || p.IP == AnyIP || q.IP == AnyIP)
}

// AnyIP is a host port's address when it names none.
const AnyIP = "0.0.0.0"
