package cluster

import (
	"cmp"
	"maps"
	"slices"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/topology"
)

// What a pod holds of its node's NUMA nodes and devices is, in this order: what the node reports, which is true; what the Binding recorded; else a guess. What
// the node reports for pods that are not there is charged too. All of it follows from the pods and the newest reports, whatever the order
// in which they were seen; but a pod that has left is not charged until the node says once more that it is there.

// reported is the newest report of a node.
type reported struct {
	*facts.NodeReport
	// left are pods that it names and that have left since.
	left map[facts.UID]bool
}

// heldBy returns what a pod holds by a report, and which parts of it the report says; nil is no report.
func heldBy(r *facts.NodeReport, uid facts.UID) (g topology.Grant, said parts) {
	if silent(r) {
		return g, 0
	}
	if at, ok := slices.BinarySearchFunc(r.Held, uid, func(h facts.HeldNUMA, uid facts.UID) int { return cmp.Compare(h.UID, uid) }); ok {
		g.NUMANodes, said = r.Held[at].Grant, partNUMANodes
	}
	if at, ok := slices.BinarySearchFunc(r.HeldDevices, uid, func(h facts.HeldDevices, uid facts.UID) int { return cmp.Compare(h.UID, uid) }); ok {
		held := &r.HeldDevices[at].Grant
		which := saysDevices(r)
		if which == partNICs && held.NICs == 0 {
			which = 0 // it says nothing but which GPUs the kubelet gave
		}
		take(&g, held, which)
		said |= which
	}
	return g, said
}

// silent reports whether it says of no pod what it holds; nil is no report.
func silent(r *facts.NodeReport) bool { return r == nil || len(r.Held)+len(r.HeldDevices) == 0 }

// saysDevices is which parts of what pods hold of devices are the report's to say. Which GPUs a pod has that the kubelet gave is for people:
// the kubelet counts them.
func saysDevices(r *facts.NodeReport) parts {
	switch {
	case r.Devices == nil:
		return 0
	case r.Devices.Owner == topology.OwnerKubelet:
		return partNICs
	}
	return partGPUs | partNICs
}

// report takes in a node's newest report; nil: there is none any more.
func (s *Store) report(node string, r *facts.NodeReport) {
	old := s.reports[node]
	switch {
	case r == nil && old == nil, r != nil && old != nil && facts.SameReport(old.NodeReport, r) && len(old.left) == 0:
		return
	case r == nil:
		delete(s.reports, node)
	default:
		s.reports[node] = &reported{NodeReport: r}
	}
	s.evictions.set(node, r)
	slot, known := s.slots[node]
	if !known {
		return
	}
	row := s.row(slot)
	before := left{gpus: s.gpus[slot], numaNodes: row.numaNodes}
	if row.devices != nil {
		before.devices = *row.devices
	}
	said := row.report
	requested := [...]int64{s.scoreCPU[slot], s.scoreMemory[slot]}
	s.provideGPUs(slot, -1)
	row.report = r
	reshaped := s.reshape(slot)
	s.provideGPUs(slot, 1)
	s.recount(slot)
	var headroom *facts.Headroom
	if r != nil {
		headroom = &r.Headroom
	}
	changed := s.lend(slot, headroom)
	if reshaped || requested != [...]int64{s.scoreCPU[slot], s.scoreMemory[slot]} || !sameNUMAShape(said, r) || !before.is(&s.State, slot) {
		changed |= Freed | Charged
	}
	if changed == 0 && !sameHeadroom(said, r) {
		changed = Recalled // nothing in amounts, but why there is none
	}
	if changed != 0 {
		s.note(slot, changed)
	} // else the node has only confirmed what was known, and nobody need look again
}

func sameHeadroom(a, b *facts.NodeReport) bool {
	var none facts.NodeReport
	return cmp.Or(a, &none).Headroom == cmp.Or(b, &none).Headroom
}

func sameNUMAShape(a, b *facts.NodeReport) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.NUMANodes == b.NUMANodes && a.Why == b.Why && a.DeviceNote == b.DeviceNote
}

func (s *Store) listReports(list []facts.NodeReported) {
	listed := make(map[string]bool, len(list))
	for i := range list {
		listed[list[i].Node] = true
	}
	for _, node := range slices.Sorted(maps.Keys(s.reports)) {
		if !listed[node] {
			s.report(node, nil)
		}
	}
	for i := range list {
		s.report(list[i].Node, list[i].Report)
	}
}

// settle makes the pod hold what its node reports, before it is charged there.
func (s *Store) settle(pod *Pod, slot Slot) {
	if len(s.reports) == 0 || silent(s.Report(slot)) {
		return
	}
	held, said := heldBy(s.Report(slot), pod.UID)
	if said == 0 {
		return
	}
	delete(s.reports[pod.node].left, pod.UID)
	pod.confirm(&held, said)
}

// depart takes note that a pod has left a node which may still name it.
func (s *Store) depart(pod *Pod, slot Slot, node string) {
	if len(s.reports) == 0 || silent(s.Report(slot)) {
		return
	}
	if _, said := heldBy(s.Report(slot), pod.UID); said != 0 {
		r := s.reports[node]
		if r.left == nil {
			r.left = make(map[facts.UID]bool)
		}
		r.left[pod.UID] = true
	}
}

// eachForeign visits what the slot's node says is held by pods that are not there.
func (s *Store) eachForeign(slot Slot, node string, visit func(*topology.Grant)) {
	r := s.reports[node]
	if r == nil {
		return
	}
	foreign := func(uid facts.UID) bool {
		pod := s.pods[uid]
		return (pod == nil || pod.slot != slot) && !r.left[uid]
	}
	for i := range r.Held {
		if h := &r.Held[i]; foreign(h.UID) {
			visit(&topology.Grant{NUMANodes: h.Grant})
		}
	}
	for i := range r.HeldDevices {
		if h := &r.HeldDevices[i]; foreign(h.UID) {
			var g topology.Grant
			take(&g, &h.Grant, saysDevices(r.NodeReport))
			visit(&g)
		}
	}
}

// Promises counts the pods on known nodes to which their Bindings promise what only an agent keeps, by what the node says of them. Whole GPUs count once
// the node has spoken of them.
type Promises struct {
	Waiting   int // the node has not said anything of the pod yet
	Confirmed int // it holds what was promised
	Moved     int // it holds something else
}

// Promises returns how the promises stand. It costs nothing: they are counted as they change.
func (s *Store) Promises() Promises { return s.promises }

// count counts a pod that is charged to a slot, sign times.
func (c *Promises) count(pod *Pod, sign int) {
	if !pod.promised() {
		return
	}
	switch {
	case pod.Moved():
		c.Moved += sign
	case pod.Confirmed():
		c.Confirmed += sign
	default:
		c.Waiting += sign
	}
}

// promised reports whether the pod's Binding promised it anything that its node has to answer.
func (p *Pod) promised() bool {
	if p.said != 0 {
		return p.recorded != nil
	}
	if p.held == nil { // the usual case; GPUs may be counters
		return false
	}
	g, _ := p.Promise()
	g.GPUs, g.Milli = 0, 0
	return !g.IsZero() || g.Memory > 0
}
