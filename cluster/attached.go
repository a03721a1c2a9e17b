package cluster

import (
	"fmt"
	"slices"

	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/volumes"
)

// attachedRow is what a node has attached, of the volumes of drivers that it limits. It is immutable, for snapshots share it.
//
// Two sources say so: the pods on the node, and the VolumeAttachments. A volume counts once, whoever says so and however many pods use it.
type attachedRow struct {
	node    *facts.StorageNode
	volumes []attachedVolume // sorted by handle
	used    []int64          // volumes by driver, as in node.Drivers
}

type attachedVolume struct {
	facts.VolumeHandle
	pods     int32 // that use it
	attached bool  // there is a VolumeAttachment
}

func compareAttached(v attachedVolume, h facts.VolumeHandle) int {
	return facts.CompareVolumeHandles(v.VolumeHandle, h)
}

// attachedColumn is the attachedRow of each slot; nil: its node says nothing of storage drivers. It has volumes, the Store's, which knows the volumes of a pod.
type attachedColumn struct {
	attached []*attachedRow
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
		if d := &c.Volumes.Drivers[i]; d.Required && !row.has(d) {
			return d.Driver, ""
		}
	}
	if row == nil {
		return "", ""
	}
	for i := range c.Volumes.Drivers {
		if d := &c.Volumes.Drivers[i]; row.left(d) < 0 {
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
	row, most := a.attached[slot], int64(unlimited)
	if row == nil || c.Volumes == nil {
		return most
	}
	for _, pod := range leaving {
		if pod.usesClaims {
			row = row.with(a.volumes.Attaches(pod.UID), -1)
		}
	}
	for i := range c.Volumes.Drivers {
		need := &c.Volumes.Drivers[i]
		left := row.left(need)
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
	a.attached[slot] = row.with(a.volumes.Attaches(pod.UID), sign)
}

// has reports whether the node has the driver; nil: a node that says nothing of CSI.
func (r *attachedRow) has(d *facts.DriverNeed) bool {
	if r == nil {
		return d.InTree
	}
	return r.node.Driver(d.Driver) != nil
}

// unlimited is how many volumes a node can attach that does not say.
const unlimited = 1 << 30

// left is how many volumes of a driver the node could attach beside those that a pod needs.
func (r *attachedRow) left(need *facts.DriverNeed) int64 {
	at := slices.IndexFunc(r.node.Drivers, func(d facts.NodeDriver) bool { return d.Name == need.Driver })
	if at < 0 || !r.node.Drivers[at].Limited {
		return unlimited
	}
	more := need.Own
	for _, handle := range need.Shared {
		h := facts.VolumeHandle{Driver: need.Driver, Handle: handle}
		if i, ok := slices.BinarySearchFunc(r.volumes, h, compareAttached); !ok || r.volumes[i].pods == 0 {
			more++
		}
	}
	if more == 0 {
		return unlimited // nothing is attached for it
	}
	return r.node.Drivers[at].Limit - r.used[at] - more
}

// with returns the row with pods more, or less, that use volumes.
func (r *attachedRow) with(handles []facts.VolumeHandle, sign int32) *attachedRow {
	if !slices.ContainsFunc(handles, func(h facts.VolumeHandle) bool { return r.limits(h.Driver) }) {
		return r
	}
	next := &attachedRow{node: r.node, volumes: make([]attachedVolume, len(r.volumes), len(r.volumes)+len(handles)), used: slices.Clone(r.used)}
	copy(next.volumes, r.volumes)
	for _, h := range handles {
		if r.limits(h.Driver) {
			next.add(attachedVolume{VolumeHandle: h, pods: sign})
		}
	}
	return next
}

func (r *attachedRow) limits(driver string) bool {
	d := r.node.Driver(driver)
	return d != nil && d.Limited
}

// add counts a volume. The row must be the caller's own.
func (r *attachedRow) add(v attachedVolume) {
	at, known := slices.BinarySearchFunc(r.volumes, v.VolumeHandle, compareAttached)
	driver := slices.IndexFunc(r.node.Drivers, func(d facts.NodeDriver) bool { return d.Name == v.Driver })
	if !known {
		r.volumes = slices.Insert(r.volumes, at, v)
		r.used[driver]++
		return
	}
	has := &r.volumes[at]
	has.pods, has.attached = has.pods+v.pods, has.attached || v.attached
	if has.pods == 0 && !has.attached {
		r.volumes = slices.Delete(r.volumes, at, at+1)
		r.used[driver]--
	}
}

// attachments keeps the attachedRow of each slot, and what the slot's node is known to have migrated to CSI, in line with package volumes.
type attachments struct {
	state *State
	slots *slotTable
	pods  *podTable
}

// on counts anew what a node has attached; nil: the node says nothing of drivers.
func (a *attachments) on(slot Slot) *attachedRow {
	name := a.state.nodes[slot].Name
	node := a.state.volumes.Node(name)
	if node == nil {
		return nil
	}
	row := &attachedRow{node: node, used: make([]int64, len(node.Drivers))}
	if !slices.ContainsFunc(node.Drivers, func(d facts.NodeDriver) bool { return d.Limited }) {
		return row
	}
	for _, h := range a.state.volumes.AttachedTo(name) {
		if row.limits(h.Driver) {
			row.add(attachedVolume{VolumeHandle: h, attached: true})
		}
	}
	for _, pod := range a.pods.onSlot[slot] {
		if !pod.usesClaims {
			continue
		}
		for _, h := range a.state.volumes.Attaches(pod.UID) {
			if row.limits(h.Driver) {
				row.add(attachedVolume{VolumeHandle: h, pods: 1})
			}
		}
	}
	return row
}

func (r *attachedRow) equal(other *attachedRow) bool {
	if r == nil || other == nil {
		return r == other
	}
	return r.node == other.node && slices.Equal(r.volumes, other.volumes) && slices.Equal(r.used, other.used)
}

// recount counts anew what a node has attached.
func (a *attachments) recount(slot Slot) {
	row := a.on(slot)
	if row.equal(a.state.attached[slot]) {
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
	if !want.equal(has) {
		return fmt.Errorf("%+v are attached; pods and attachments say %+v", has, want)
	}
	return nil
}
