package facts

import (
	"cmp"
	"slices"
	"strings"
)

// VolumeHandle names a volume as its driver knows it. Two claims, or two pods, that have the same one have the same volume.
type VolumeHandle struct{ Driver, Handle string }

// CompareVolumeHandles orders by driver and handle.
func CompareVolumeHandles(a, b VolumeHandle) int {
	return cmp.Or(strings.Compare(a.Driver, b.Driver), strings.Compare(a.Handle, b.Handle))
}

// StorageNode is a CSINode: which drivers a node has, and how many volumes of each it can attach.
type StorageNode struct {
	Node    string
	Drivers []NodeDriver // sorted by name
	// Migrated are the in-tree plugins whose volumes the node mounts by CSI drivers, sorted.
	Migrated []string
}

// NodeDriver is a driver that a node has.
type NodeDriver struct {
	Name string
	// Limit is how many volumes of the driver the node can attach. It counts if Limited.
	Limit   int64
	Limited bool
}

// StorageName names the node.
func (n *StorageNode) StorageName() StorageName { return StorageName{Kind: CSINode, Name: n.Node} }

// Driver returns what the node says of a driver; nil: it does not have it. No StorageNode has none.
func (n *StorageNode) Driver(name string) *NodeDriver {
	if n == nil {
		return nil
	}
	at, ok := slices.BinarySearchFunc(n.Drivers, name, func(d NodeDriver, name string) int { return strings.Compare(d.Name, name) })
	if !ok {
		return nil
	}
	return &n.Drivers[at]
}

// Attachment is a VolumeAttachment: a volume that is attached to a node, or about to be, whether or not a pod uses it.
type Attachment struct {
	Name, Node string
	// Driver attaches it; Volume is the PersistentVolume.
	Driver, Volume string
}

// StorageName names the attachment.
func (a *Attachment) StorageName() StorageName {
	return StorageName{Kind: VolumeAttachment, Name: a.Name}
}

// DriverNeed is what the volumes of one driver ask of a node, whatever the volumes are called.
type DriverNeed struct {
	Driver string
	// Own is how many volumes no other pod uses. Shared are the handles of those that others use too, sorted: where one is attached already it does not
	// count again.
	Own    int64
	Shared []string
	// Required: a node without the driver is refused (preventPodSchedulingIfMissing). InTree: all of the volumes have in-tree names, and a node that says
	// nothing of CSI may mount them by itself.
	Required, InTree bool
}

// appendDrivers appends the canonical encoding.
func appendDrivers(w Key, list []DriverNeed) Key {
	w.Number(int64(len(list)))
	for i := range list {
		w.Text(list[i].Driver)
		w.Number(list[i].Own)
		w.strings(list[i].Shared)
		w.Flag(list[i].Required)
		w.Flag(list[i].InTree)
	}
	return w
}
