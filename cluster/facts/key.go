package facts

import (
	"encoding/binary"

	"hilbert.dev/hilbert/topology"
)

// Key writes values so that different sequences never give equal bytes: every string carries its length.
type Key []byte

func (w *Key) Text(s string) {
	*w = binary.AppendUvarint(*w, uint64(len(s)))
	*w = append(*w, s...)
}

func (w *Key) Number(n int64) { *w = binary.AppendVarint(*w, n) }

func (w *Key) Flag(b bool) {
	if b {
		w.Number(1)
		return
	}
	w.Number(0)
}

func (w *Key) term(t *Term) {
	w.requirements(t.Expressions)
	w.requirements(t.Fields)
}

// AppendKey appends the canonical encoding of r.
func (r *Requirements) AppendKey(buffer []byte) []byte {
	w := Key(r.AppendSize(buffer))
	w.Selection(r)
	w.preferred(r.Preferred)
	w.Tolerations(r.Tolerations)
	w.strings(r.Features)
	w.strings(r.Images)
	w.Number(int64(len(r.Spread)))
	for i := range r.Spread {
		w.spread(&r.Spread[i])
	}
	w.affinity(r.Affinity)
	w.affinity(r.AntiAffinity)
	w.Number(int64(len(r.PreferredPods)))
	for i := range r.PreferredPods {
		w.Number(int64(r.PreferredPods[i].Weight))
		w.Text(r.PreferredPods[i].TopologyKey)
		w.PodSelector(&r.PreferredPods[i].Pods)
	}
	w.strings(r.Unsupported)
	w.Text(r.Impossible)
	w.Flag(r.Reclaimed)
	return w
}

// AppendSize appends the canonical encoding of all that the pod takes of its node: pods with equal encodings fit the same nodes, as far
// as room goes, and fill them equally.
func (r *Requirements) AppendSize(buffer []byte) []byte {
	w := Key(buffer)
	w.Number(int64(len(r.Requests)))
	for _, q := range r.Requests {
		w.Text(q.Name)
		w.Number(q.Amount)
	}
	w.Number(r.ScoreCPU)
	w.Number(r.ScoreMemory)
	w.Number(r.PodLevelCPU)
	w.Number(r.PodLevelMemory)
	w.Number(int64(r.GPU.Milli))
	w.Number(int64(r.GPU.Whole))
	w.devices(&r.GPU)
	w.Number(int64(r.NUMANodes.CPUs))
	if !r.NUMANodes.IsZero() {
		w.Number(int64(r.NUMANodes.Binding))
		w.Number(int64(r.NUMANodes.Memory))
		w.Number(int64(r.NUMANodes.Bandwidth))
	}
	w.Number(int64(len(r.Ports)))
	for _, p := range r.Ports {
		w.Text(p.Protocol)
		w.Text(p.IP)
		w.Number(int64(p.Port))
	}
	w.Number(int64(len(r.Disks)))
	for i := range r.Disks {
		w.Text(r.Disks[i].Kind)
		w.Text(r.Disks[i].Name)
		w.Flag(r.Disks[i].ReadOnly)
		w.strings(r.Disks[i].Monitors)
	}
	return w
}

// devices appends what is asked for of devices beside the compute of GPUs.
func (w *Key) devices(r *topology.Request) {
	if r.Milli > 0 {
		w.Number(int64(r.Tenant))
	}
	if *r == (topology.Request{Milli: r.Milli, Whole: r.Whole, Tenant: r.Tenant}) {
		w.Number(0)
		return
	}
	flag := func(b bool, bit int64) int64 {
		if b {
			return bit
		}
		return 0
	}
	w.Number(1 | flag(r.NIC.RDMA, 2) | flag(r.NIC.Function, 4) | flag(r.Near.Required, 8) | flag(r.Near.Relax, 16))
	w.Number(int64(r.Isolation))
	w.Number(int64(r.Memory))
	w.Number(int64(r.NIC.Count))
	w.Number(int64(r.NIC.Bandwidth))
	w.Number(int64(r.Near.Level))
	w.Text(string(r.Resources))
}

// AppendSelection appends the canonical encoding of all that the pod asks of a node's own properties, apart from images: classes with
// equal encodings are let in by the same nodes and like them for the same reasons.
func (r *Requirements) AppendSelection(buffer []byte) []byte {
	w := Key(buffer)
	w.Selection(r)
	w.preferred(r.Preferred)
	w.Tolerations(r.Tolerations)
	w.strings(r.Features)
	return w
}

// Selection writes which nodes the node selector and the required node affinity allow.
func (w *Key) Selection(r *Requirements) {
	w.Number(int64(len(r.NodeSelector)))
	for _, l := range r.NodeSelector {
		w.Text(l.Key)
		w.Text(l.Value)
	}
	w.Flag(r.Required != nil)
	w.Number(int64(len(r.Required)))
	for i := range r.Required {
		w.term(&r.Required[i])
	}
}

func (w *Key) preferred(list []WeightedTerm) {
	w.Number(int64(len(list)))
	for i := range list {
		w.Number(int64(list[i].Weight))
		w.term(&list[i].Term)
	}
}

func (w *Key) Tolerations(list []Toleration) {
	w.Number(int64(len(list)))
	for _, t := range list {
		w.Text(t.Key)
		w.Flag(t.Exists)
		w.Text(t.Value)
		w.Number(int64(t.Effect))
	}
}

func (w *Key) strings(list []string) {
	w.Number(int64(len(list)))
	for _, s := range list {
		w.Text(s)
	}
}

func (w *Key) requirements(list []Requirement) {
	w.Number(int64(len(list)))
	for _, r := range list {
		w.Text(r.Key)
		w.Number(int64(r.Operator))
		w.Number(int64(len(r.Values)))
		for _, v := range r.Values {
			w.Text(v)
		}
	}
}

func (w *Key) labelSelector(s *LabelSelector) {
	w.Flag(s.Nothing)
	w.requirements(s.Expressions)
}

func (w *Key) PodSelector(s *PodSelector) {
	w.Number(int64(len(s.Namespaces)))
	for _, n := range s.Namespaces {
		w.Text(n)
	}
	w.Flag(s.NamespaceSelector != nil)
	if s.NamespaceSelector != nil {
		w.labelSelector(s.NamespaceSelector)
	}
	w.labelSelector(&s.Labels)
}

func (w *Key) spread(c *SpreadConstraint) {
	w.Text(c.TopologyKey)
	w.Number(int64(c.MaxSkew))
	w.Flag(c.Hard)
	w.Number(int64(c.MinDomains))
	w.PodSelector(&c.Pods)
	w.Flag(c.HonorAffinity)
	w.Flag(c.HonorTaints)
	w.Flag(c.Default)
}

func (w *Key) affinity(terms []AffinityTerm) {
	w.Number(int64(len(terms)))
	for i := range terms {
		w.Text(terms[i].TopologyKey)
		w.PodSelector(&terms[i].Pods)
	}
}
