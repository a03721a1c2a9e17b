package volumes

import (
	"slices"

	"hilbert.dev/hilbert/cluster/facts"
)

// Attached is what a node has attached, of the volumes of drivers that it limits. It is immutable, for snapshots share it.
//
// Two sources say so: the pods on the node, and the VolumeAttachments. A volume counts once, whoever says so and however many pods use it.
type Attached struct {
	node    *facts.StorageNode
	volumes []attachedVolume // sorted by handle
	used    []int64          // volumes by driver, as in node.Drivers
}

// NewAttached returns the row of a node that has nothing attached.
func NewAttached(node *facts.StorageNode) *Attached {
	return &Attached{node: node, used: make([]int64, len(node.Drivers))}
}

type attachedVolume struct {
	facts.VolumeHandle
	pods     int32 // that use it
	attached bool  // there is a VolumeAttachment
}

func compareAttached(v attachedVolume, h facts.VolumeHandle) int {
	return facts.CompareVolumeHandles(v.VolumeHandle, h)
}

// Has reports whether the node has the driver; nil: a node that says nothing of CSI.
func (r *Attached) Has(d *facts.DriverNeed) bool {
	if r == nil {
		return d.InTree
	}
	return r.node.Driver(d.Driver) != nil
}

// Unlimited is how many volumes a node can attach that does not say.
const Unlimited = 1 << 30

// Left is how many volumes of a driver the node could attach beside those that a pod needs.
func (r *Attached) Left(need *facts.DriverNeed) int64 {
	at := slices.IndexFunc(r.node.Drivers, func(d facts.NodeDriver) bool { return d.Name == need.Driver })
	if at < 0 || !r.node.Drivers[at].Limited {
		return Unlimited
	}
	more := need.Own
	for _, handle := range need.Shared {
		h := facts.VolumeHandle{Driver: need.Driver, Handle: handle}
		if i, ok := slices.BinarySearchFunc(r.volumes, h, compareAttached); !ok || r.volumes[i].pods == 0 {
			more++
		}
	}
	if more == 0 {
		return Unlimited // nothing is attached for it
	}
	return r.node.Drivers[at].Limit - r.used[at] - more
}

// With returns the row with pods more, or less, that use volumes.
func (r *Attached) With(handles []facts.VolumeHandle, sign int32) *Attached {
	if !slices.ContainsFunc(handles, func(h facts.VolumeHandle) bool { return r.Limits(h.Driver) }) {
		return r
	}
	next := &Attached{node: r.node, volumes: make([]attachedVolume, len(r.volumes), len(r.volumes)+len(handles)), used: slices.Clone(r.used)}
	copy(next.volumes, r.volumes)
	for _, h := range handles {
		if r.Limits(h.Driver) {
			next.add(attachedVolume{VolumeHandle: h, pods: sign})
		}
	}
	return next
}

// Limits reports whether the node says how many volumes of a driver it can attach; LimitsAny, whether it says so of any.
func (r *Attached) Limits(driver string) bool {
	d := r.node.Driver(driver)
	return d != nil && d.Limited
}

// LimitsAny is that of any driver.
func (r *Attached) LimitsAny() bool {
	return slices.ContainsFunc(r.node.Drivers, func(d facts.NodeDriver) bool { return d.Limited })
}

// Attach counts a volume that a VolumeAttachment names, if its driver is limited; Use, one that a pod on the node uses. The row must be the caller's own still.
func (r *Attached) Attach(h facts.VolumeHandle) {
	if r.Limits(h.Driver) {
		r.add(attachedVolume{VolumeHandle: h, attached: true})
	}
}

// Use counts a volume that a pod uses.
func (r *Attached) Use(h facts.VolumeHandle) {
	if r.Limits(h.Driver) {
		r.add(attachedVolume{VolumeHandle: h, pods: 1})
	}
}

// add counts a volume. The row must be the caller's own.
func (r *Attached) add(v attachedVolume) {
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

// Equal reports whether both say the same; nil says nothing.
func (r *Attached) Equal(other *Attached) bool {
	if r == nil || other == nil {
		return r == other
	}
	return r.node == other.node && slices.Equal(r.volumes, other.volumes) && slices.Equal(r.used, other.used)
}
