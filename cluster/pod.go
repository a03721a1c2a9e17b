package cluster

import (
	"cmp"
	"fmt"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/quota"
	"hilbert.dev/hilbert/topology"
)

// Phase is where a pod of the ledger stands.
type Phase uint8

const (
	// Pending: not bound; if it is ours and not held, it waits for a place.
	Pending Phase = iota
	// Assumed: a Plan for it is committed and charged, its Binding is under way.
	Assumed
	// Bound: it is on a node.
	Bound
	// Finished: it ran to its end and holds nothing.
	Finished
)

// String names the phase.
func (p Phase) String() string {
	switch p {
	case Pending:
		return "pending"
	case Assumed:
		return "assumed"
	case Bound:
		return "bound"
	case Finished:
		return "finished"
	}
	return fmt.Sprintf("unknown(%d)", uint8(p))
}

// Pod is the ledger's record of a pod. Only the Store changes it; others read.
type Pod struct {
	UID             facts.UID
	Namespace, Name string
	Created         int64 // nanoseconds, see facts.Pod
	Priority        int32
	Phase           Phase
	Ours            bool
	Profile         uint8 // see facts.Pod
	Gated           bool
	Deleting        bool
	Class           *Class
	Reported        facts.Condition
	// Started and Nominated: see facts.Pod. Scheduled is when its Plan was decided, once it is bound when it was; 0 when that is not known.
	Started   int64
	Scheduled int64
	Nominated string

	// Unit is the gang that the pod is a member of, nil for none. Subgroup and Deadline: see facts.Pod.
	Unit     *Unit
	Subgroup string
	Deadline int64

	// The small fields stand together: a pod fills a size class of the allocator to the byte, and there are many.

	NeverPreempts      bool  // it waits rather than evict other pods
	outdated           bool  // while it is on a node, something changed that is about it: its class is of before
	unrecorded         parts // what it asks for and its Binding says nothing of
	said               parts // what its node has said itself
	own                int32 // the priority that its spec says; Priority is the unit's, if that has one
	seat               int32 // in the unit's list
	rank               int32 // among the identity's pods
	slot               Slot  // NoSlot while not charged
	position           int32 // in the slot's list of pods
	gpus               uint16
	milli              int16
	lifted             bool         // off its node while a Plan is judged
	counted            bool         // its class counts in classifier.waiting
	mirror             bool         // see facts.Pod
	consent            spec.Consent // see facts.Pod
	tookBack           bool         // see TookBack
	usesClaims         bool         // it has volumes that stand for claims
	usesResourceClaims bool
	placeholder        bool // see Placeholder

	tenant       *quota.Tenant
	identity     *identity
	requirements *facts.Requirements // as its spec has them, without the cluster's defaults
	owner        facts.Owner

	node string          // where it is charged, or bound to a node that is not known
	held *topology.Grant // all that it holds, nil where gpus and milli say it; never changed, only replaced
	// recorded is what its Binding said, where the node has said itself what is held; nil for nothing.
	recorded *topology.Grant

	victims []*Pod // of its own Plan, that are still there
	claims  []*Pod // assumed pods whose Plans have it as a victim
}

// Node returns the name of the node that the pod is on or on its way to, empty for none.
func (p *Pod) Node() string { return p.node }

// Placeholder reports whether the pod is a place that a Reservation keeps: no kubelet runs it, and the API server has no such pod.
func (p *Pod) Placeholder() bool { return p.placeholder }

// UsesClaims reports whether the pod has volumes that stand for claims, or ResourceClaims.
func (p *Pod) UsesClaims() bool { return p.usesClaims || p.usesResourceClaims }

// Grant returns what the pod holds of its node: GPUs, network cards, and parts of NUMA nodes.
func (p *Pod) Grant() topology.Grant { return p.holding().grant() }

// NUMANodes returns what the pod holds of its node's NUMA nodes, nil for nothing; the caller must not change it.
func (p *Pod) NUMANodes() *topology.NUMAGrant { return p.holding().numaNodes() }

// Schedulable reports whether the pod waits for a place and may be given one.
func (p *Pod) Schedulable() bool { return p.wants() && !p.Gated && p.Refusal() == "" && p.expected() }

// expected reports whether the pod's unit and queue are known and valid.
func (p *Pod) expected() bool { return (p.Unit == nil || p.Unit.Ready()) && !p.tenant.Queue().Refuses }

func (p *Pod) wants() bool { return p.Ours && p.Phase == Pending && !p.Deleting }

// Refusal is why the pod's class can be placed on none of the nodes, whatever runs there; empty when it can.
func (p *Pod) Refusal() string {
	if p.Class.Impossible != "" {
		return p.Class.Impossible
	}
	if len(p.Class.Unsupported) > 0 {
		return p.Class.Unsupported[0]
	}
	return cmp.Or(p.Class.VolumesWait, p.Class.ClaimsWait, p.Class.HeldBack, p.Class.Absent)
}

// EffectKind is what an event did to a pod, as far as the queue cares.
type EffectKind uint8

const (
	// Waits: the pod wants a place now, or changed while waiting for one.
	Waits EffectKind = iota + 1
	// Held: the pod is unbound but must not be placed: gated, unsupported or impossible.
	Held
	// Settled: the pod wants no place any more: bound, finished, being deleted or gone.
	Settled
	// VolumesMoved: something changed about the volumes or ResourceClaims of a pod whose Binding is under way.
	VolumesMoved
)

// Effect tells the queue what became of a pod.
type Effect struct {
	Kind EffectKind
	Pod  *Pod
	Gone bool // with Settled: the record is no longer in the ledger
}

// effects are what an event has done to pods so far. Store.Apply returns them; until the next event they are its caller's to read.
type effects struct{ list []Effect }

func (e *effects) reset() { e.list = e.list[:0] }

func (e *effects) add(effect Effect) { e.list = append(e.list, effect) }

// emit says what has become of a pod, as far as the queue cares.
func (e *effects) emit(pod *Pod) {
	effect := Effect{Kind: Settled, Pod: pod}
	switch {
	case pod.Schedulable():
		effect.Kind = Waits
	case pod.wants():
		effect.Kind = Held
	}
	e.add(effect)
}
