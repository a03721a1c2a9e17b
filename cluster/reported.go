package cluster

import (
	"cmp"
	"maps"
	"slices"

	"hilbert.dev/hilbert/topology"
)

// What a pod holds of its node's zones and devices is, in this order: what the node reports, which is true; what the Binding recorded; else a guess. What
// the node reports for pods that are not there is charged too. All of it follows from the pods and the newest reports, whatever the order
// in which they were seen; but a pod that has left is not charged until the node says once more that it is there.

// reported is the newest report of a node.
type reported struct {
	*NodeReport
	// left are pods that it names and that have left since.
	left map[UID]bool
}

// holds returns what the pod holds by the report, and which parts of it the report says; nil is no report.
func (r *NodeReport) holds(uid UID) (g topology.Grant, said parts) {
	if r.silent() {
		return g, 0
	}
	if at, ok := slices.BinarySearchFunc(r.Held, uid, func(h HeldZones, uid UID) int { return cmp.Compare(h.UID, uid) }); ok {
		g.Zones, said = r.Held[at].Grant, partZones
	}
	if at, ok := slices.BinarySearchFunc(r.HeldDevices, uid, func(h HeldDevices, uid UID) int { return cmp.Compare(h.UID, uid) }); ok {
		held := &r.HeldDevices[at].Grant
		which := r.saysDevices()
		if which == partNICs && held.NICs == 0 {
			which = 0 // it says nothing but which GPUs the kubelet gave
		}
		take(&g, held, which)
		said |= which
	}
	return g, said
}

// silent reports whether it says of no pod what it holds; nil is no report.
func (r *NodeReport) silent() bool { return r == nil || len(r.Held)+len(r.HeldDevices) == 0 }

// saysDevices is which parts of what pods hold of devices are the report's to say. Which GPUs a pod has that the kubelet gave is for people:
// the kubelet counts them.
func (r *NodeReport) saysDevices() parts {
	switch {
	case r.Devices == nil:
		return 0
	case r.Devices.Owner == topology.OwnerKubelet:
		return partNICs
	}
	return partGPUs | partNICs
}

// report takes in a node's newest report; nil: there is none any more.
func (s *Store) report(node string, r *NodeReport) {
	old := s.reports[node]
	switch {
	case r == nil && old == nil, r != nil && old != nil && SameReport(old.NodeReport, r) && len(old.left) == 0:
		return
	case r == nil:
		delete(s.reports, node)
	default:
		s.reports[node] = &reported{NodeReport: r}
	}
	s.wish(node, r)
	slot, known := s.slots[node]
	if !known {
		return
	}
	row := s.row(slot)
	before := left{gpus: s.gpus[slot], zones: row.zones}
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
	var headroom *Headroom
	if r != nil {
		headroom = &r.Headroom
	}
	changed := s.lend(slot, headroom)
	if reshaped || requested != [...]int64{s.scoreCPU[slot], s.scoreMemory[slot]} || !sameZoneShape(said, r) || !before.is(&s.State, slot) {
		changed |= Freed | Charged
	}
	if changed == 0 && !sameHeadroom(said, r) {
		changed = Recalled // nothing in amounts, but why there is none
	}
	if changed != 0 {
		s.note(slot, changed)
	} // else the node has only confirmed what was known, and nobody need look again
}

func sameHeadroom(a, b *NodeReport) bool {
	var none NodeReport
	return cmp.Or(a, &none).Headroom == cmp.Or(b, &none).Headroom
}

func sameZoneShape(a, b *NodeReport) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Zones == b.Zones && a.Why == b.Why && a.DeviceNote == b.DeviceNote
}

func (s *Store) listReports(list []NodeReported) {
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
	if len(s.reports) == 0 || s.Report(slot).silent() {
		return
	}
	held, said := s.Report(slot).holds(pod.UID)
	if said == 0 {
		return
	}
	delete(s.reports[pod.node].left, pod.UID)
	pod.confirm(&held, said)
}

// depart takes note that a pod has left a node which may still name it.
func (s *Store) depart(pod *Pod, slot Slot, node string) {
	if len(s.reports) == 0 || s.Report(slot).silent() {
		return
	}
	if _, said := s.Report(slot).holds(pod.UID); said != 0 {
		r := s.reports[node]
		if r.left == nil {
			r.left = make(map[UID]bool)
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
	foreign := func(uid UID) bool {
		pod := s.pods[uid]
		return (pod == nil || pod.slot != slot) && !r.left[uid]
	}
	for i := range r.Held {
		if h := &r.Held[i]; foreign(h.UID) {
			visit(&topology.Grant{Zones: h.Grant})
		}
	}
	for i := range r.HeldDevices {
		if h := &r.HeldDevices[i]; foreign(h.UID) {
			var g topology.Grant
			take(&g, &h.Grant, r.saysDevices())
			visit(&g)
		}
	}
}
