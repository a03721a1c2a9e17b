package inspect

import (
	"fmt"
	"slices"
	"time"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/place/explain"
	"hilbert.dev/hilbert/schedule/profiles"
	"hilbert.dev/hilbert/topology"
)

// Answer says where a pod is or why it is nowhere. It depends on the Dump and on nothing else.
type Answer struct {
	Revision  changes.Revision `json:"revision"`
	Namespace string           `json:"namespace"`
	Name      string           `json:"name"`
	UID       facts.UID        `json:"uid"`
	Priority  int32            `json:"priority"`
	Created   time.Time        `json:"created"`
	Phase     string           `json:"phase"` // pending, assumed, bound or finished
	// Ours: spec.schedulerName names this scheduler. Of others only the place is known.
	Ours     bool `json:"ours"`
	Deleting bool `json:"deleting,omitempty"`

	Node string `json:"node,omitempty"`
	GPUs string `json:"gpus,omitempty"` // indices; of a slice or an instance as the Binding's annotation has it
	// GPUsOf says what chose them where it was not the scheduler, and what is known of that.
	GPUsOf string `json:"gpusOf,omitempty"`
	// Caution says that the part of a GPU which the pod has, or may be given, does not protect it from who shares the GPU, nor these from it.
	Caution string `json:"caution,omitempty"`
	NICs    string `json:"nics,omitempty"` // of network cards, as the Binding's annotation has them
	// NUMANodes is what it holds of its node's NUMA nodes, if it asks for any or holds some.
	NUMANodes *PodNUMA `json:"numaNodes,omitempty"`
	// Resources are what it holds of what plugins bring to its node, where that is counted by NUMA node.
	Resources []PodResource `json:"resources,omitempty"`
	// Unit is the PodGroup that the pod names, in its namespace; what is in the gang's way ExplainUnit says.
	Unit string `json:"unit,omitempty"`
	// Profile is the scheduling profile by which nodes are scored for it; empty: the default one.
	Profile string `json:"profile,omitempty"`
	// Victims are the pods that must leave the node first.
	Victims []facts.UID `json:"victims,omitempty"`
	// Waiting is how it waits, if it does.
	Waiting *Waiting `json:"waiting,omitempty"`
	// Refusal: it can never be placed, because of this.
	Refusal string `json:"refusal,omitempty"`

	// Explanation is what the nodes say, as if the pod were nowhere.
	Explanation *explain.Explanation `json:"explanation,omitempty"`
	// Best are the best of the nodes on which it fits, at most MaxBest; Rank is the place among them all of the node that it is on, from
	// 1, or 0 if it would not fit there now.
	Best []RankedNode `json:"best,omitempty"`
	Rank int          `json:"rank,omitempty"`
}

// PodNUMA is what a pod holds of its node's NUMA nodes: "0:8/4096Mi" is 8 CPUs and 4 GiB of NUMA node 0.
type PodNUMA struct {
	Grant string `json:"grant"`
	// State is what is known of it: promised, confirmed (by the node), moved (the node gave others than Promise), given (the node says so, and no
	// Binding said anything) or guessed (there is neither).
	State   string `json:"state"`
	Promise string `json:"promise,omitempty"`
}

// The states of PodNUMA and of PodResource.
const (
	NUMAPromised  = "promised"
	NUMAConfirmed = "confirmed"
	NUMAMoved     = "moved"
	NUMAGiven     = "given"
	NUMAGuessed   = "guessed"
)

// stateOf is what is known of a part of what a pod holds: what its Binding promised of it, whether its node says what it is, and whether the two differ.
func stateOf(promised, said, differs bool) string {
	switch {
	case !promised && said:
		return NUMAGiven
	case !promised:
		return NUMAGuessed
	case said && differs:
		return NUMAMoved
	case said:
		return NUMAConfirmed
	}
	return NUMAPromised
}

func podNUMA(pod *cluster.Pod) *PodNUMA {
	if pod.NUMANodes() == nil {
		return nil
	}
	grant, _ := pod.Promise()
	promise := grant.NUMANodes
	said, _ := pod.Said()
	held := &PodNUMA{Grant: pod.NUMANodes().String(), State: stateOf(!promise.IsZero(), said, promise != *pod.NUMANodes())}
	if held.State == NUMAMoved {
		held.Promise = promise.String()
	}
	return held
}

// PodResource is what a pod holds of one resource that a plugin brings: "0:2,1:1" is two from NUMA node 0 and one from NUMA node 1, "far:1" one that
// is near no NUMA node, and "none" that the node gave nothing of what was promised.
type PodResource struct {
	Name  string `json:"name"`
	Grant string `json:"grant"`
	// State is what is known of it, as of PodNUMA. Promise is what the Binding said, where the node gave something else.
	State   string `json:"state"`
	Promise string `json:"promise,omitempty"`
}

func podResources(pod *cluster.Pod) (out []PodResource) {
	g := pod.Grant()
	grant, _ := pod.Promise()
	_, said := pod.Said()
	for name, amounts := range g.Resources.All() {
		promise := grant.Resources.Of(name)
		held := PodResource{Name: name, Grant: amounts.String(), State: stateOf(promise != topology.Amounts{}, said, promise != amounts)}
		if held.State == NUMAMoved {
			held.Promise = promise.String()
		}
		out = append(out, held)
	}
	for name, promise := range grant.Resources.All() {
		if g.Resources.Of(name) == (topology.Amounts{}) {
			out = append(out, PodResource{Name: name, Grant: "none", State: NUMAMoved, Promise: promise.String()})
		}
	}
	return out
}

// RankedNode is a node on which a pod fits.
type RankedNode struct {
	Node   string  `json:"node"`
	Total  int64   `json:"total"`
	Scores []Score `json:"scores"`
}

// Score is one part of the total: from 0 to rules.MaxScore, times its weight.
type Score struct {
	Name   string `json:"name"`
	Score  int64  `json:"score"`
	Weight int64  `json:"weight"`
}

// MaxBest is how many nodes an Answer names.
const MaxBest = 5

// Explain answers for the pod of that name. If there are two for a moment, it answers for the one that is not bound. It makes a ledger of the dump,
// which costs about a second for 200,000 pods.
func (d *Dump) Explain(namespace, name string) (*Answer, error) {
	d.Sort()
	r := d.find(namespace, name)
	if r == nil {
		return nil, &NoPod{namespace, name, d.SchedulerName}
	}
	f := &r.Facts
	a := &Answer{
		Revision: d.Ledger.Revision, Namespace: namespace, Name: name, UID: f.UID, Priority: f.Priority, Created: time.Unix(0, f.Created).UTC(),
		Phase: r.Phase.String(), Ours: f.Ours, Deleting: f.Deleting, Node: f.Node, Unit: f.Unit, Victims: r.Victims,
	}
	if i := slices.IndexFunc(d.Queue, func(w Waiting) bool { return w.UID == f.UID }); i >= 0 {
		a.Waiting = &d.Queue[i]
	}
	store, err := cluster.Load(d.takingIn(f.UID))
	if err != nil {
		return nil, fmt.Errorf("load the ledger: %w", err)
	}
	pod := store.Pod(f.UID)
	g := pod.Grant()
	a.GPUs, a.NICs, a.NUMANodes, a.Resources = g.String(), g.NICText(), podNUMA(pod), podResources(pod)
	if g.Memory > 0 || g.Instance > 0 {
		a.GPUs = g.GPUText()
	}
	if slot := store.Slot(f.Node); slot != cluster.NoSlot && g.GPUs != 0 {
		a.ofKubelet(store.Report(slot), f.UID)
		a.Caution = cautionOf(&g, store.Shape(slot).Devices)
	} else if gpu := &f.Requirements.GPU; gpu.Milli > 0 && gpu.Isolation < topology.Hard && r.Phase == cluster.Pending {
		a.Caution = "A part of a GPU that is not hard (hilbert.dev/gpu-isolation: hard) " + noBoundary
	}
	if !f.Ours || r.Phase == cluster.Finished || r.Phase == cluster.Pending && f.Deleting {
		return a, nil
	}
	return a, d.judge(a, store, *f)
}

// noBoundary ends a sentence about a part of a GPU.
const noBoundary = "is no security boundary: whoever shares the GPU can take more of it, fill the memory that its programs share, and end them by a fault. " +
	"Between tenants who do not trust each other use MIG, or whole GPUs."

// cautionOf says whether a pod is safe from those who share its GPU; empty: it is, or nobody does.
func cautionOf(g *topology.Grant, devices *topology.Devices) string {
	switch {
	case g.Milli >= topology.FullGPU || g.Instance != 0 || g.Isolation == topology.Hard:
		return ""
	case g.Isolation != topology.Soft:
		return "Its part of a GPU is counted and not enforced, and " + noBoundary
	case devices != nil && devices.SeveralNamespaces:
		return "Its slice of a GPU is soft (MPS), the node gives slices of one GPU to several namespaces (node.devices.severalNamespaces), and it " + noBoundary
	}
	return "Its slice of a GPU is soft (MPS), which " + noBoundary
}

// ofKubelet says which GPUs the pod has of a kubelet that chooses them itself. What the scheduler counted with is not said: it knows how many, not which.
func (a *Answer) ofKubelet(r *facts.NodeReport, uid facts.UID) {
	if r == nil || r.Devices == nil || r.Devices.Owner != topology.OwnerKubelet {
		return
	}
	a.GPUs, a.GPUsOf = "", "its GPUs are the kubelet's to choose, by number: no part, PCIe switch or NUMA node is promised; which it has was not read back yet"
	for i := range r.HeldDevices {
		if h := &r.HeldDevices[i]; h.UID == uid && h.Grant.GPUs != 0 {
			a.GPUs, a.GPUsOf = h.Grant.GPUText(), "which the kubelet chose, by number: no part, PCIe switch or NUMA node was promised"
		}
	}
}

// find returns the pod of that name.
func (d *Dump) find(namespace, name string) *cluster.PodRecord {
	var found *cluster.PodRecord
	for i := range d.Ledger.Pods {
		r := &d.Ledger.Pods[i]
		if r.Facts.Namespace == namespace && r.Facts.Name == name && (found == nil || r.Phase < found.Phase) {
			found = r
		}
	}
	return found
}

// takingIn is the ledger as if one more class might wait, and a pod that is held back were taken in. (A member of a gang is held back with the others.)
func (d *Dump) takingIn(uid facts.UID) *cluster.Dump {
	at := slices.IndexFunc(d.Ledger.Pods, func(r cluster.PodRecord) bool { return r.Facts.UID == uid })
	if !d.Ledger.Pods[at].HeldBack {
		return d.Ledger
	}
	ledger := *d.Ledger
	ledger.MaxWaitingClasses++
	ledger.Pods = slices.Clone(ledger.Pods)
	ledger.Pods[at].HeldBack = false
	return &ledger
}

// judge asks the nodes about the pod, on a ledger in which it is nowhere.
func (d *Dump) judge(a *Answer, store *cluster.Store, f facts.Pod) error {
	if f.Node != "" {
		store.Apply(facts.PodRemoved{UID: f.UID})
		f.Node, f.Grant, f.Deleting = "", topology.Grant{}, false
	}
	f.Gated = false // what would become of it without its gates; the ledger knows no more of a gated pod than its facts
	store.Apply(facts.PodUpserted{Pod: f})
	pod := store.Pod(f.UID)
	if pod.Class.HeldBack != "" {
		return nil // which its way of waiting says
	}
	if a.Refusal = pod.Refusal(); a.Refusal != "" {
		return nil
	}
	set, err := profiles.New(&d.Scheduling)
	if err != nil {
		return err
	}
	set.Market().Recall(store)
	if n := set.Of(pod, store.Quota()); n != profiles.Default {
		a.Profile = set.Name(n)
	}
	snapshot := cluster.NewSnapshot()
	snapshot.Advance(store)
	placer := profiles.NewPlacers(set, store, snapshot, profiles.Options{Seed: d.Scheduling.Seed, MaxIndexes: 1, Levels: d.Scheduling.Topology.Levels}).For(pod)
	e := placer.ExplainFor(store, pod.Class, pod.Priority)
	a.Explanation = &e
	for i, j := range placer.Ranking(pod.Class) {
		node := snapshot.Node(j.Slot).Name
		if node == a.Node {
			a.Rank = i + 1
		}
		if i >= MaxBest {
			continue
		}
		ranked := RankedNode{Node: node, Total: j.Total}
		for _, s := range j.Scores {
			ranked.Scores = append(ranked.Scores, Score{s.Name, s.Score, s.Weight})
		}
		a.Best = append(a.Best, ranked)
	}
	return nil
}

// NoPod is the error about a pod that the ledger does not have.
type NoPod struct{ Namespace, Name, SchedulerName string }

func (e *NoPod) Error() string {
	return fmt.Sprintf("the scheduler knows no pod %s/%s; it knows those that are bound, and those that wait with schedulerName %s",
		e.Namespace, e.Name, e.SchedulerName)
}
