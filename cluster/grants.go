package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/topology"
)

// grantBook says what pods hold of their nodes beside amounts: NUMA nodes, GPUs and network cards.
//
// What a pod holds is, in this order: what its node reports, which is true; what its Binding recorded; else a guess. What a node reports for
// pods that are not there is charged too. All of it follows from the pods and the newest reports, whatever the order in which they were
// seen; but a pod that has left is not charged until the node says once more that it is there.
//
// For example, two pods of 4 exclusive CPUs each are on a node of two NUMA nodes, and their Bindings record nothing. Both are guessed, in
// order of their UIDs. When the node reports that the second one holds CPUs of NUMA node 0, recount takes that as given and guesses the
// first anew, on what is left.
type grantBook struct {
	state   *State
	pods    *podTable
	placed  *PodCounts
	charges *chargeBook
	reports map[string]*reported // by node
	guessed []int32              // by slot: pods that hold something which is guessed
}

// arrive makes the pod hold what its node reports, before it is charged there.
func (b *grantBook) arrive(pod *Pod, slot Slot) {
	if r := b.state.Report(slot); len(b.reports) > 0 && !silent(r) {
		if held, said := heldBy(r, pod.UID); said != 0 {
			delete(b.reports[pod.node].left, pod.UID)
			pod.confirm(&held, said)
		}
	}
	if b.open(pod, slot) != 0 {
		b.guessed[slot]++
	}
}

// open lists what of the pod's holding is a guess on the slot. What plugins bring is one only where it is counted by NUMA node.
func (b *grantBook) open(pod *Pod, slot Slot) parts {
	open := pod.guessed()
	if open&partResources != 0 && !b.state.CountsResources(slot) {
		open &^= partResources
	}
	return open
}

// depart takes note that a pod has left a node which may still name it, and reports whether the slot must be recounted.
func (b *grantBook) depart(pod *Pod, slot Slot, node string) bool {
	if b.open(pod, slot) != 0 {
		b.guessed[slot]--
	}
	recount := b.touches(slot, pod)
	if len(b.reports) == 0 || silent(b.state.Report(slot)) {
		return recount
	}
	if _, said := heldBy(b.state.Report(slot), pod.UID); said != 0 {
		r := b.reports[node]
		if r.left == nil {
			r.left = make(map[facts.UID]bool)
		}
		r.left[pod.UID] = true
	}
	return recount
}

// said lists what the nodes say, without what they say of pods that have left since.
func (b *grantBook) said() (list []facts.NodeReported) {
	for node, r := range b.reports {
		report := r.NodeReport
		if len(r.left) > 0 {
			copied := *report
			copied.Held = slices.DeleteFunc(slices.Clone(report.Held), func(h facts.HeldNUMA) bool { return r.left[h.UID] })
			copied.HeldDevices = slices.DeleteFunc(slices.Clone(report.HeldDevices), func(h facts.HeldDevices) bool { return r.left[h.UID] })
			copied.HeldResources = slices.DeleteFunc(slices.Clone(report.HeldResources), func(h facts.HeldResources) bool { return r.left[h.UID] })
			report = &copied
		}
		list = append(list, facts.NodeReported{Node: node, Report: report})
	}
	return list
}

// eachForeign visits what the slot's node says is held by pods that are not there.
func (b *grantBook) eachForeign(slot Slot, node string, visit func(*topology.Grant)) {
	r := b.reports[node]
	if r == nil {
		return
	}
	foreign := func(uid facts.UID) bool {
		pod := b.pods.byUID[uid]
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
	for i := range r.HeldResources {
		if h := &r.HeldResources[i]; foreign(h.UID) {
			visit(&topology.Grant{Resources: h.Grant})
		}
	}
}

// touches reports whether a pod coming or going changes more of the slot than its own grant: others are guessed, or its node names it.
func (b *grantBook) touches(slot Slot, pod *Pod) bool {
	if !pod.Class.AsksGrant() && pod.holding().isZero() { // before the row, which is far away in memory
		return false
	}
	if b.guessed[slot] > 0 {
		return true
	}
	row := b.state.rows[slot]
	if row == nil {
		return false
	}
	_, said := heldBy(row.report, pod.UID)
	return said != 0
}

// recount counts anew what is left of a slot beside amounts: what is recorded and reported first, then the guesses in UID order, so that the
// result does not depend on the order in which pods were seen. Pods that are lifted for a judgement keep what they have.
func (b *grantBook) recount(slot Slot) {
	var l left
	v := l.empty(b.state, slot)
	var guessed []*Pod
	b.guessed[slot] = 0
	report := b.state.Report(slot)
	for _, pod := range b.pods.onSlot[slot] {
		if !pod.lifted {
			b.confirm(pod, slot, report)
		}
		open := b.open(pod, slot)
		if open != 0 {
			b.guessed[slot]++
		}
		if !pod.lifted {
			pod.forget(pod.guessed() &^ open)
		}
		switch {
		case pod.lifted || pod.holding().isZero() && open == 0:
		case open == 0:
			g := pod.Grant()
			commit(&v, &g)
		default:
			guessed = append(guessed, pod)
			g := pod.Grant()
			take(&g, &topology.Grant{}, open)
			commit(&v, &g)
		}
	}
	b.eachForeign(slot, b.state.nodes[slot].Name, func(g *topology.Grant) { commit(&v, g) })
	slices.SortFunc(guessed, func(a, b *Pod) int { return cmp.Compare(a.UID, b.UID) })
	for _, pod := range guessed {
		open, g := b.open(pod, slot), pod.Grant()
		made := guess(&v, pod.Class, open)
		take(&g, &made, open)
		if h := holdingOf(&g); !h.same(pod.holding()) {
			pod.hold(h)
		}
		commit(&v, &made)
	}
	b.state.gpus[slot] = l.gpus
	if row := b.state.rows[slot]; row != nil {
		row.numaNodes = l.numaNodes
		if row.devices != nil {
			*row.devices = l.devices
		}
		if row.resources != nil {
			*row.resources = l.resources
		}
	}
}

// recharge counts anew what is left of a slot beside amounts, and has the pods there charged what they hold.
func (b *grantBook) recharge(slot Slot) {
	b.recount(slot)
	b.charges.recharge(slot)
}

// confirm makes a pod that is charged to the slot hold what the report says, or what it was recorded to. What is left of the slot is not changed.
func (b *grantBook) confirm(pod *Pod, slot Slot, r *facts.NodeReport) {
	held, said := heldBy(r, pod.UID)
	if said == 0 && pod.said == 0 {
		return
	}
	b.state.moveExcess(slot, pod.Class, pod.NUMANodes(), -1)
	b.placed.count(pod, -1)
	pod.recall()
	pod.confirm(&held, said)
	b.placed.count(pod, 1)
	b.state.moveExcess(slot, pod.Class, pod.NUMANodes(), 1)
}

// reshape brings what may be given of a slot's devices in line with its node and its report, if it has a row, and reports whether that changed
// it. It leaves the counters and the cluster's capacity alone: recount and the caller follow.
func (b *grantBook) reshape(slot Slot) bool {
	row := b.state.rows[slot]
	if row == nil {
		return false
	}
	from := shapeFrom{gpu: b.state.nodes[slot].GPU}
	if row.report != nil {
		from.devices, from.silent = row.report.Devices, row.report.Why != ""
	}
	if row.from == from {
		return false
	}
	row.from, row.shape, row.devices = from, topology.Shape{}, nil
	if from.devices != nil {
		row.shape, row.devices = from.shape(), new(topology.DeviceFree)
	}
	b.state.hasGPUs[slot] = b.state.Shape(slot).GPUs > 0
	return true
}

// verify counts what is left of a slot's GPUs, NUMA nodes and devices anew: from what the node and its report say, and what the pods hold.
func (b *grantBook) verify(slot Slot) error {
	node := b.state.nodes[slot].Name
	var r *facts.NodeReport
	if known := b.reports[node]; known != nil {
		r = known.NodeReport
	}
	if b.state.Report(slot) != r {
		return errors.New("the row has another report than the store")
	}
	if b.state.hasGPUs[slot] != (b.state.Shape(slot).GPUs > 0) {
		return fmt.Errorf("the column says that there are GPUs: %v; there are %d", b.state.hasGPUs[slot], b.state.Shape(slot).GPUs)
	}
	if has := r != nil && r.Devices != nil; has != (b.state.Shape(slot).Devices != nil) {
		return fmt.Errorf("the report names devices: %v; the row has them: %v", has, !has)
	}
	var l left
	v, guesses := l.empty(b.state, slot), int32(0)
	for _, pod := range b.pods.onSlot[slot] {
		said, which := heldBy(r, pod.UID)
		g := pod.Grant()
		want := g
		take(&want, &said, which)
		normalize(&want)
		if which != pod.said || want != g || pod.lifted {
			return fmt.Errorf("pod %s holds %+v, said by its node are parts %b; the node says %b: %+v", pod.UID, g, pod.said, which, said)
		}
		if b.open(pod, slot) != 0 {
			guesses++
		}
		commit(&v, &g)
	}
	b.eachForeign(slot, node, func(g *topology.Grant) { commit(&v, g) })
	if !l.is(b.state, slot) || guesses != b.guessed[slot] {
		return fmt.Errorf("%v GPUs, and of NUMA nodes and devices %+v, are free, and %d pods are guessed; pods say %+v and %d",
			b.state.gpus[slot], b.state.rows[slot], b.guessed[slot], l, guesses)
	}
	return nil
}

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
	if at, ok := slices.BinarySearchFunc(r.HeldResources, uid, func(h facts.HeldResources, uid facts.UID) int { return cmp.Compare(h.UID, uid) }); ok && len(r.ByNUMANode) > 0 {
		g.Resources = r.HeldResources[at].Grant
		said |= partResources
	}
	return g, said
}

// silent reports whether it says of no pod what it holds; nil is no report.
func silent(r *facts.NodeReport) bool {
	return r == nil || len(r.Held)+len(r.HeldDevices)+len(r.HeldResources) == 0
}

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
	old := s.grants.reports[node]
	switch {
	case r == nil && old == nil, r != nil && old != nil && facts.SameReport(old.NodeReport, r) && len(old.left) == 0:
		return
	case r == nil:
		delete(s.grants.reports, node)
	default:
		s.grants.reports[node] = &reported{NodeReport: r}
	}
	var none facts.NodeReport
	if before, now := cmp.Or(reportOf(old), &none), cmp.Or(r, &none); before.Overcommit != now.Overcommit || !slices.Equal(before.Resources, now.Resources) {
		if slot, known := s.slots.byNode[node]; known {
			s.upsertNode(s.nodeBook.said(s.nodes[slot]))
		}
	}
	s.evictions.Set(node, r)
	s.nodeEvents.Set(node, r)
	slot, known := s.slots.byNode[node]
	if !known {
		return
	}
	row := s.rows.get(slot)
	before := left{gpus: s.gpus[slot], numaNodes: row.numaNodes}
	if row.devices != nil {
		before.devices = *row.devices
	}
	if row.resources != nil {
		before.resources = *row.resources
	}
	said, covered := row.report, row.covered
	cpu, memory := s.ScoreRequested(slot)
	s.charges.provideGPUs(slot, -1)
	row.report = r
	reshaped := s.nodeBook.reshape(slot)
	s.charges.provideGPUs(slot, 1)
	s.grants.recharge(slot)
	var headroom *facts.Headroom
	if r != nil {
		headroom = &r.Headroom
	}
	changed := s.nodeBook.lend(slot, headroom)
	cpuNow, memoryNow := s.ScoreRequested(slot)
	if reshaped || cpu != cpuNow || memory != memoryNow || !sameNUMAShape(said, r) || !before.is(&s.State, slot) {
		changed |= changes.Freed | changes.Charged
	}
	changed |= s.usage.reported(slot, said, covered)
	if changed&^changes.Measured == 0 && !sameHeadroom(said, r) {
		changed |= changes.Recalled // nothing in amounts, but why there is none
	}
	if changed != 0 {
		s.note(slot, changed)
	} // else the node has only confirmed what was known, and no reader need look again
}

func reportOf(r *reported) *facts.NodeReport {
	if r == nil {
		return nil
	}
	return r.NodeReport
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
