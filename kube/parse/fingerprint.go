package parse

import (
	"hash/maphash"
	"math/bits"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/topology"
)

// Fingerprints remembers, per object, a hash of what was last said about it: an update that says the same again (a kubelet's status, a
// heartbeat) goes no further. It costs 16 bytes an object and no pointers.
type Fingerprints struct {
	seed   maphash.Seed
	known  map[uint64]uint64
	buffer specKey
}

func NewFingerprints() Fingerprints {
	return Fingerprints{seed: maphash.MakeSeed(), known: make(map[uint64]uint64)}
}

func (f *Fingerprints) key(uid facts.UID) uint64 { return maphash.String(f.seed, string(uid)) }

// Of returns the hash of everything that the ledger would be told of a pod. requirements is Parser.Serial of the pod.
func (f *Fingerprints) Of(facts *facts.Pod, requirements uint64) uint64 {
	b := &f.buffer
	b.reset()
	b.num(int64(requirements))
	b.num(int64(facts.Priority))
	b.flag(facts.Finished)
	b.flag(facts.Deleting)
	b.flag(facts.Gated)
	b.flag(facts.Mirror)
	b.str(facts.Node)
	b.num(int64(len(facts.Labels)))
	for i := range facts.Labels {
		b.str(facts.Labels[i].Key)
		b.str(facts.Labels[i].Value)
	}
	b.num(int64(facts.Owner.Kind))
	b.str(facts.Owner.Name)
	b.num(facts.Started) // bound pods have it once and for good: one event each, so that preemption spares the older ones
	b.num(facts.Scheduled)
	b.flag(facts.NeverPreempts)
	b.str(facts.Nominated)
	b.granted(&facts.Grant)
	b.numaNodes(&facts.Grant.NUMANodes)
	b.str(facts.Reported.Reason)
	b.str(facts.Reported.Message)
	b.str(facts.Unit)
	b.str(facts.Subgroup)
	b.num(facts.Deadline)
	b.num(int64(facts.Consent))
	b.str(string(facts.Placeholder))
	b.num(int64(len(facts.ResourceClaims)))
	for _, use := range facts.ResourceClaims { // the names of those that are made from templates come later
		b.str(use.Claim)
		b.flag(use.Generated)
	}
	return maphash.Bytes(f.seed, b.bytes)
}

// granted spells out what was promised of GPUs and network cards.
func (k *specKey) granted(g *topology.Grant) {
	k.num(int64(g.GPUs))
	if g.GPUs != 0 {
		k.num(int64(g.Milli))
		k.num(int64(g.Memory))
		k.num(int64(g.Isolation))
		k.num(int64(g.Instance))
		k.num(int64(g.Tenant))
	}
	k.num(int64(g.NICs))
	if g.NICs != 0 {
		k.num(int64(g.NIC.Bandwidth))
		k.flag(g.NIC.Function)
	}
}

// NUMA nodes spells out what was promised of NUMA nodes, which for nearly every pod is nothing.
func (k *specKey) numaNodes(g *topology.NUMAGrant) {
	set := g.NUMANodes()
	k.num(int64(set))
	for ; set != 0; set &= set - 1 {
		z := bits.TrailingZeros8(set)
		k.num(int64(g.CPUs[z]))
		k.num(int64(g.Memory[z]))
	}
}

// Changed remembers what is said, and reports whether it is new.
func (f *Fingerprints) Changed(uid facts.UID, print uint64) bool {
	key := f.key(uid)
	if old, ok := f.known[key]; ok && old == print {
		return false
	}
	f.known[key] = print
	return true
}

// Clear forgets all objects.
func (f *Fingerprints) Clear() { clear(f.known) }

// Count is how many objects are known.
func (f *Fingerprints) Count() int { return len(f.known) }

// Knows reports whether anything is remembered of the object.
func (f *Fingerprints) Knows(uid facts.UID) bool {
	_, ok := f.known[f.key(uid)]
	return ok
}

// Forget reports whether the object was known.
func (f *Fingerprints) Forget(uid facts.UID) bool {
	key := f.key(uid)
	_, ok := f.known[key]
	delete(f.known, key)
	return ok
}
