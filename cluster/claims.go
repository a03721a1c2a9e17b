package cluster

import (
	"fmt"
	"slices"

	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/dra"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/volumes"
	"hilbert.dev/hilbert/resource"
)

// claimBook ties the pods of the ledger to what they claim: volumes (package volumes) and the devices of ResourceClaims (package dra). These two know claims and UIDs,
// and nothing of phases or slots. The claimBook tells them which pods there are, which get a place and which have left theirs, and keeps for each slot the devices that
// can still be given there.
//
// A change may concern other pods than the one that it is about: a claim that is bound tells all its users where they can go. Such pods gather in changed, and settle, at
// the end of an event, has those judged again that wait, and tells of those whose Bindings are under way.
type claimBook struct {
	state     *State // and with it the volumes
	slots     *slotTable
	pods      *podTable
	attached  attachments
	dra       *dra.Book
	changed   []facts.UID // pods about whose volumes or ResourceClaims something changed
	selection *selection
	effects   *effects
}

// Volumes is what is known of claims and volumes; callers read it.
func (s *Store) Volumes() *volumes.Book { return s.volumes }

// ResourceClaims is what is known of ResourceClaims and of devices that drivers publish. What callers change there they tell by ClaimsChanged.
func (s *Store) ResourceClaims() *dra.Book { return s.claims.dra }

// ClaimsChanged takes note that the claims of some pods may ask for something else now, because of what was written about them.
func (s *Store) ClaimsChanged(pods []facts.UID) {
	s.claims.note(pods)
	s.claims.review()
}

// note takes note that the claims of some pods may ask for something else now.
func (b *claimBook) note(pods []facts.UID) { b.changed = append(b.changed, pods...) }

// enter takes note of which volumes a pod has that was not known.
func (b *claimBook) enter(pod *Pod, seen *facts.Pod) {
	pod.usesClaims = len(seen.Claims) > 0
	b.note(b.state.volumes.Use(seen.UID, seen.Namespace, seen.Claims, seen.Unit != ""))
}

// use takes note of which ResourceClaims a pod uses; the names of those that are made from templates come later.
func (b *claimBook) use(pod *Pod, seen *facts.Pod) {
	uses := len(seen.ResourceClaims)+len(seen.Extended) > 0
	if seen.Finished || !uses && !pod.usesResourceClaims {
		return
	}
	pod.usesResourceClaims = uses
	b.note(b.dra.Use(seen))
}

// forget takes note that a pod uses nothing any more.
func (b *claimBook) forget(uid facts.UID) {
	b.note(b.state.volumes.Forget(uid))
	b.note(b.dra.Forget(uid))
}

// takeVolumes promises a pod that gets a place what its unbound claims are bound to there, and reports whether it could. leaves reports which pods leave first.
func (b *claimBook) takeVolumes(pod *Pod, slot Slot, leaves func(facts.UID) bool) bool {
	if !pod.usesClaims {
		return true
	}
	conflict, affected := b.state.volumes.Take(pod.UID, b.state.nodes[slot], leaves)
	b.note(affected)
	return conflict == ""
}

// takeDevices gives the claims of a pod that gets a place their devices there, and reports whether it could.
func (b *claimBook) takeDevices(pod *Pod, slot Slot) bool {
	if !pod.usesResourceClaims {
		return true
	}
	conflict, affected := b.dra.Take(pod.UID, b.state.nodes[slot], func(name string) bool { return b.state.publishes(slot, name) })
	b.note(affected)
	b.review()
	return conflict == ""
}

// releaseVolumes takes back what a pod was promised of volumes; release, of devices too.
func (b *claimBook) releaseVolumes(pod *Pod) { b.note(b.state.volumes.Release(pod.UID)) }

func (b *claimBook) release(pod *Pod) {
	if pod.usesClaims {
		b.releaseVolumes(pod)
	}
	if pod.usesResourceClaims {
		b.note(b.dra.Release(pod.UID))
		b.review()
	}
}

// hold takes note that a pod was seen on a node.
func (b *claimBook) hold(pod *Pod) {
	if pod.usesResourceClaims {
		b.note(b.dra.Hold(pod.UID))
	}
	if pod.usesClaims {
		b.note(b.state.volumes.Hold(pod.UID, pod.node))
	}
}

// review gives slots their Views of devices, where these have changed.
func (b *claimBook) review() {
	nodes, all := b.dra.Changed()
	if all {
		for slot, n := range b.state.nodes {
			if n != nil {
				b.reviewSlot(Slot(slot))
			}
		}
		return
	}
	for _, name := range nodes {
		if slot, ok := b.slots.byNode[name]; ok {
			b.reviewSlot(slot)
		}
	}
}

func (b *claimBook) reviewSlot(slot Slot) {
	views := b.state.views
	before := views[slot]
	if views[slot] = b.dra.View(b.state.nodes[slot]); before != nil || views[slot] != nil {
		b.state.note(slot, changes.Freed|changes.Charged)
	}
}

// settle has the pods judged again about whose claims something changed, and tells of those whose Binding is under way.
func (b *claimBook) settle() {
	for _, uid := range b.changed {
		pod := b.pods.byUID[uid]
		if pod == nil {
			continue
		}
		if pod.slot != NoSlot {
			b.attached.recount(pod.slot)
		}
		if !pod.Ours {
			continue
		}
		switch pod.Phase {
		case Pending:
			b.selection.recheck = append(b.selection.recheck, pod)
		case Assumed:
			pod.outdated = true
			b.effects.add(Effect{Kind: VolumesMoved, Pod: pod})
		default:
		}
	}
	b.changed = b.changed[:0]
}

// verify holds both books against themselves.
func (b *claimBook) verify() error {
	if err := b.dra.Verify(); err != nil {
		return fmt.Errorf("resource claims: %w", err)
	}
	if err := b.state.volumes.Verify(); err != nil {
		return fmt.Errorf("volumes: %w", err)
	}
	return nil
}

// publishes reports whether a node has an extended resource by itself.
func (s *State) publishes(slot Slot, name string) bool {
	kind, ok := s.kinds.Lookup(name)
	return ok && s.Allocatable(slot, kind) > 0
}

// ClaimNeeds is what the ResourceClaims of the class's pods ask of a node: where it does not publish extended resources that DeviceClasses stand for, devices of
// these. It is nil where the class's pods cannot go.
func (s *State) ClaimNeeds(slot Slot, c *Class) *facts.ClaimNeeds {
	return c.Claims.On(func(name string) bool { return s.publishes(slot, name) })
}

// Lacks reports whether what is free of a resource is too little for a pod of the class, whose claims make up for nothing.
func (s *State) Lacks(slot Slot, c *Class, a resource.Amount) bool {
	return a.Value > s.Free(slot, a.Kind) && !s.madeUpFor(slot, c, a.Kind)
}

// madeUpFor reports whether pods of the class are given devices on the node in place of a resource.
func (s *State) madeUpFor(slot Slot, c *Class, kind resource.Kind) bool {
	return c.Claims.Stands(s.KindName(kind)) && s.Allocatable(slot, kind) <= 0
}

// Room is how much of a resource is free for pods of the class; ok is false if they take nothing of it there.
func (s *State) Room(slot Slot, c *Class, kind resource.Kind) (free int64, ok bool) {
	return s.Free(slot, kind), !s.madeUpFor(slot, c, kind)
}

// attachedColumn is what nodes have attached, by slot; nil: the node says nothing of storage drivers. It has volumes, the Store's, which knows the volumes of a pod.
type attachedColumn struct {
	attached []*volumes.Attached
	volumes  *volumes.Book
}

// Attachable is why a node cannot attach the volumes of a pod of the class: a driver that it lacks, or one of which it has too many volumes. Both are empty
// when it can.
func (a *attachedColumn) Attachable(slot Slot, c *Class) (missing, full string) {
	if c.Volumes == nil || len(c.Volumes.Drivers) == 0 {
		return "", ""
	}
	row := a.attached[slot]
	for i := range c.Volumes.Drivers {
		if d := &c.Volumes.Drivers[i]; d.Required && !row.Has(d) {
			return d.Driver, ""
		}
	}
	if row == nil {
		return "", ""
	}
	for i := range c.Volumes.Drivers {
		if d := &c.Volumes.Drivers[i]; row.Left(d) < 0 {
			return "", d.Driver
		}
	}
	return "", ""
}

// PodsAttachable is how many pods of a class could have their volumes attached to a node, one beside the other.
func (a *attachedColumn) PodsAttachable(slot Slot, c *Class) int64 {
	return a.PodsAttachableWithout(slot, c, nil)
}

// PodsAttachableWithout is PodsAttachable when some of the pods on the node have left.
func (a *attachedColumn) PodsAttachableWithout(slot Slot, c *Class, leaving []*Pod) int64 {
	row, most := a.attached[slot], int64(volumes.Unlimited)
	if row == nil || c.Volumes == nil {
		return most
	}
	for _, pod := range leaving {
		if pod.usesClaims {
			row = row.With(a.volumes.Attaches(pod.UID), -1)
		}
	}
	for i := range c.Volumes.Drivers {
		need := &c.Volumes.Drivers[i]
		left := row.Left(need)
		switch {
		case left < 0:
			return 0
		case need.Own > 0:
			most = min(most, 1+left/need.Own) // what is shared is attached with the first
		}
	}
	return most
}

// attachVolumes counts the volumes of a pod on a node, sign times.
func (a *attachedColumn) attachVolumes(slot Slot, pod *Pod, sign int32) {
	row := a.attached[slot]
	if row == nil || !pod.usesClaims {
		return
	}
	a.attached[slot] = row.With(a.volumes.Attaches(pod.UID), sign)
}

// attachments keeps what each slot has attached, and what the slot's node is known to have migrated to CSI, in line with package volumes.
type attachments struct {
	state *State
	slots *slotTable
	pods  *podTable
}

// on counts anew what a node has attached; nil: the node says nothing of drivers.
func (a *attachments) on(slot Slot) *volumes.Attached {
	name := a.state.nodes[slot].Name
	node := a.state.volumes.Node(name)
	if node == nil {
		return nil
	}
	row := volumes.NewAttached(node)
	if !row.LimitsAny() {
		return row
	}
	for _, h := range a.state.volumes.AttachedTo(name) {
		row.Attach(h)
	}
	for _, pod := range a.pods.onSlot[slot] {
		if !pod.usesClaims {
			continue
		}
		for _, h := range a.state.volumes.Attaches(pod.UID) {
			row.Use(h)
		}
	}
	return row
}

// recount counts anew what a node has attached.
func (a *attachments) recount(slot Slot) {
	row := a.on(slot)
	if row.Equal(a.state.attached[slot]) {
		return
	}
	a.state.attached[slot] = row
	a.state.note(slot, changes.Freed|changes.Charged)
}

// moved takes note that nodes have other drivers, or other volumes attached.
func (a *attachments) moved() {
	for _, name := range a.state.volumes.Moved() {
		slot, ok := a.slots.byNode[name]
		if !ok {
			continue
		}
		if n := a.migrated(a.state.nodes[slot]); n != a.state.nodes[slot] {
			a.state.setNode(slot, n)
			a.state.note(slot, changes.Redefined|changes.Freed|changes.Charged)
		}
		a.recount(slot)
	}
}

// migrated is a node with what its CSINode says of in-tree plugins.
func (a *attachments) migrated(n *facts.Node) *facts.Node {
	var migrated []string
	if node := a.state.volumes.Node(n.Name); node != nil {
		migrated = node.Migrated
	}
	if slices.Equal(n.Migrated, migrated) {
		return n
	}
	copied := *n
	copied.Migrated = migrated
	return &copied
}

// verify counts anew what a slot has attached.
func (a *attachments) verify(slot Slot) error {
	want, has := a.on(slot), a.state.attached[slot]
	if !want.Equal(has) {
		return fmt.Errorf("%+v are attached; pods and attachments say %+v", has, want)
	}
	return nil
}
