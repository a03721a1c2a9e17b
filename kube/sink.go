package kube

import (
	"fmt"
	"hash/maphash"
	"math/bits"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/topology"
)

// fingerprints remembers, per object, a hash of what was last said about it: an update that says the same again (a kubelet's status, a
// heartbeat) goes no further. It costs 16 bytes an object and no pointers.
type fingerprints struct {
	seed   maphash.Seed
	known  map[uint64]uint64
	buffer specKey
}

func newFingerprints() fingerprints {
	return fingerprints{seed: maphash.MakeSeed(), known: make(map[uint64]uint64)}
}

func (f *fingerprints) key(uid facts.UID) uint64 { return maphash.String(f.seed, string(uid)) }

func (f *fingerprints) of(seen *facts.Pod, requirements uint64) uint64 {
	b := &f.buffer
	b.reset()
	b.num(int64(requirements))
	b.num(int64(seen.Priority))
	b.flag(seen.Finished)
	b.flag(seen.Deleting)
	b.flag(seen.Gated)
	b.str(seen.Node)
	b.num(int64(len(seen.Labels)))
	for i := range seen.Labels {
		b.str(seen.Labels[i].Key)
		b.str(seen.Labels[i].Value)
	}
	b.num(int64(seen.Owner.Kind))
	b.str(seen.Owner.Name)
	b.num(seen.Started) // bound pods have it once and for good: one event each, so that preemption spares the older ones
	b.flag(seen.NeverPreempts)
	b.str(seen.Nominated)
	b.granted(&seen.Grant)
	b.zones(&seen.Grant.Zones)
	b.str(seen.Reported.Reason)
	b.str(seen.Reported.Message)
	b.str(seen.Unit)
	b.str(seen.Subgroup)
	b.num(seen.Deadline)
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
	}
	k.num(int64(g.NICs))
	if g.NICs != 0 {
		k.num(int64(g.NIC.Bandwidth))
		k.flag(g.NIC.Function)
	}
}

// zones spells out what was promised of zones, which for nearly every pod is nothing.
func (k *specKey) zones(g *topology.ZoneGrant) {
	set := g.Zones()
	k.num(int64(set))
	for ; set != 0; set &= set - 1 {
		z := bits.TrailingZeros8(set)
		k.num(int64(g.CPUs[z]))
		k.num(int64(g.Memory[z]))
	}
}

// changed remembers what is said, and reports whether it is new.
func (f *fingerprints) changed(uid facts.UID, print uint64) bool {
	key := f.key(uid)
	if old, ok := f.known[key]; ok && old == print {
		return false
	}
	f.known[key] = print
	return true
}

// forget reports whether the object was known.
func (f *fingerprints) forget(uid facts.UID) bool {
	key := f.key(uid)
	_, ok := f.known[key]
	delete(f.known, key)
	return ok
}

// podSink is what the pods' reflector fills instead of a cache. It holds no pod.
type podSink struct {
	out    outlet
	parser *Parser
	seen   fingerprints
}

var _ cache.TransformingStore = (*podSink)(nil)

// parsedPod is a pod of a list that is not complete yet.
type parsedPod struct {
	facts facts.Pod
	print uint64
}

func (s *podSink) parse(pod *corev1.Pod) parsedPod {
	p := parsedPod{facts: s.parser.Pod(pod)}
	p.print = s.seen.of(&p.facts, s.parser.memo.latest)
	return p
}

// concerns reports whether the pod is any business of ours: somebody else's that is not bound is not.
func concerns(f *facts.Pod) bool { return f.Ours || f.Node != "" }

// Transformer parses the pods of a streamed list as they arrive, so that the list never lies in memory whole.
func (s *podSink) Transformer() cache.TransformFunc {
	return func(object any) (any, error) {
		if pod, ok := object.(*corev1.Pod); ok {
			return s.parse(pod), nil
		}
		return object, nil
	}
}

// Add takes in a pod that was created.
func (s *podSink) Add(object any) error { return s.upsert(object) }

// Update takes in a pod that was changed.
func (s *podSink) Update(object any) error { return s.upsert(object) }

func (s *podSink) upsert(object any) error {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return fmt.Errorf("pod watch: got a %T", object)
	}
	if pod.Spec.NodeName == "" && pod.Spec.SchedulerName != s.parser.scheduler {
		return nil
	}
	p := s.parse(pod)
	if !s.seen.changed(p.facts.UID, p.print) {
		return nil
	}
	return s.out.send(facts.PodUpserted{Pod: p.facts})
}

// Delete takes in a pod that is gone or finished.
func (s *podSink) Delete(object any) error {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return fmt.Errorf("pod watch: got a %T", object)
	}
	uid := facts.UID(pod.UID)
	if !s.seen.forget(uid) {
		return nil
	}
	return s.out.send(facts.PodRemoved{UID: uid})
}

// Replace takes in a whole list.
func (s *podSink) Replace(objects []any, _ string) error {
	pods := make([]facts.Pod, 0, len(objects))
	clear(s.seen.known)
	for _, object := range objects {
		p, ok := object.(parsedPod)
		if pod, raw := object.(*corev1.Pod); raw {
			p, ok = s.parse(pod), true
		}
		if !ok {
			return fmt.Errorf("pod list: got a %T", object)
		}
		if concerns(&p.facts) {
			s.seen.changed(p.facts.UID, p.print)
			pods = append(pods, p.facts)
		}
	}
	return s.out.send(facts.PodsListed{Pods: pods})
}

// Resync does nothing: no event is ever lost, so none is repeated.
func (s *podSink) Resync() error { return nil }
