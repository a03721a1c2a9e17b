package facts

import (
	"cmp"
	"strings"
)

// StorageKind is a kind of object that decides where a pod's volumes can be used.
type StorageKind uint8

// The kinds of storage objects.
const (
	PersistentVolumeClaim StorageKind = iota + 1
	PersistentVolume
	StorageClassKind
	CSIDriver
	CSIStorageCapacity
	CSINode
	VolumeAttachment
)

// StorageKinds is how many there are.
const StorageKinds = int(VolumeAttachment)

// StorageName names an object of a StorageKind. Objects without a namespace have an empty one.
type StorageName struct {
	Kind            StorageKind
	Namespace, Name string
}

// CompareStorageNames orders by kind, namespace and name.
func CompareStorageNames(a, b StorageName) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// StorageObject is one of *Claim, *Volume, *StorageClass, *StorageDriver, *StorageCapacity, *StorageNode and *Attachment. It is immutable.
type StorageObject interface{ StorageName() StorageName }

// ClaimName names a PersistentVolumeClaim, or a ResourceClaim.
type ClaimName struct{ Namespace, Name string }

// CompareClaimNames orders by namespace and name.
func CompareClaimNames(a, b ClaimName) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// String is namespace/name.
func (n ClaimName) String() string { return n.Namespace + "/" + n.Name }

// ClaimUse is a volume of a pod that a claim in its namespace stands for, or that is attached without a claim.
type ClaimUse struct {
	// Claim is the claim's name; empty: there is none, and Inline names the volume.
	Claim string
	// Inline is a volume that has an in-tree name in the pod's spec, as the CSI driver knows it that took it over.
	Inline VolumeHandle
	// Ephemeral: the claim is made for the pod (a generic ephemeral volume), and must be controlled by it.
	Ephemeral bool
}

// AccessModes is a set of access modes.
type AccessModes uint8

// The access modes.
const (
	ReadWriteOnce AccessModes = 1 << iota
	ReadOnlyMany
	ReadWriteMany
	ReadWriteOncePod
)

// Claim is a PersistentVolumeClaim.
type Claim struct {
	ClaimName
	UID string
	// Pod controls the claim; empty: none does.
	Pod UID
	// StorageClass is the name of its class; empty: none.
	StorageClass string
	// Volume is the volume that it names. Bound: volume and claim are bound to each other for good.
	Volume string
	Bound  bool
	// Lost: the volume that it was bound to is gone.
	Lost     bool
	Deleting bool
	// SelectedNode is the node for which a volume is to be provisioned; empty: none has been chosen.
	SelectedNode string
	// Size in bytes; Sized: it says one.
	Size  int64
	Sized bool
	Modes AccessModes
	// Block: it wants a block device, not a file system.
	Block bool
	// Attributes is its VolumeAttributesClass.
	Attributes string
	// Selector is about the labels of volumes; without expressions it selects all.
	Selector LabelSelector
	// Version is its resource version while it is not Bound: to tell it a node only if nobody else has meanwhile.
	Version string
}

// StorageName names the claim.
func (c *Claim) StorageName() StorageName {
	return StorageName{PersistentVolumeClaim, c.Namespace, c.Name}
}

// Volume is a PersistentVolume.
type Volume struct {
	Name         string
	StorageClass string
	Size         int64 // bytes
	Modes        AccessModes
	Block        bool
	Attributes   string
	Labels       []Label // sorted by key
	// Nodes is its node affinity, about labels alone: one of the terms must match; nil asks for nothing.
	Nodes []Term
	// Handle is by what it is counted on the node that it is attached to; the zero value: it is not counted.
	Handle VolumeHandle
	// InTree is the plugin in whose words the volume is written, if a CSI driver has taken that over; else empty. Nodes that have migrated the plugin are
	// asked for Translated instead of Nodes.
	InTree     string
	Translated []Term
	// Zones are what its zone and region labels ask of nodes that have such labels: In, with the values of each.
	Zones []Requirement
	// Claim is the claim that it is bound to, or kept for. ClaimUID may be empty while it is kept.
	Claim    ClaimName
	ClaimUID string
	// Available: nothing is bound to it, and it can be used.
	Available bool
	Deleting  bool
	// Version is its resource version while it is Available: to bind it only if nobody else has meanwhile.
	Version string
}

// StorageName names the volume.
func (v *Volume) StorageName() StorageName { return StorageName{Kind: PersistentVolume, Name: v.Name} }

// KeptFor reports whether the volume is bound to the claim, or kept for it.
func (v *Volume) KeptFor(c *Claim) bool {
	return v.Claim == c.ClaimName && (v.ClaimUID == "" || v.ClaimUID == c.UID)
}

// StorageClass is a StorageClass.
type StorageClass struct {
	Name string
	// Driver provisions its volumes; empty: nobody does.
	Driver string
	// Attaches is the driver that attaches its volumes, if it is known to; InTree: it took them over from an in-tree plugin.
	Attaches string
	InTree   bool
	// Waits: its volumes are bound once a pod that uses them has a node (WaitForFirstConsumer).
	Waits bool
	// Nodes are its allowed topologies: one of the terms must match; nil allows all nodes.
	Nodes []Term
}

// StorageName names the class.
func (c *StorageClass) StorageName() StorageName {
	return StorageName{Kind: StorageClassKind, Name: c.Name}
}

// StorageDriver is a CSIDriver.
type StorageDriver struct {
	Name string
	// TellsCapacity: it publishes StorageCapacity objects, and provisions only where they say that there is room.
	TellsCapacity bool
	// Required: pods with its volumes go to no node that does not have it.
	Required bool
}

// StorageName names the driver.
func (d *StorageDriver) StorageName() StorageName { return StorageName{Kind: CSIDriver, Name: d.Name} }

// StorageCapacity is a CSIStorageCapacity: how much a driver can provision of a class for some nodes.
type StorageCapacity struct {
	Namespace, Name string
	StorageClass    string
	// Nodes selects them by their labels; Selector.Nothing: none.
	Nodes LabelSelector
	// Most is the size of the largest volume in bytes that there is room for.
	Most int64
	// Capacity is how much there is in all, in bytes; Told: the driver says so.
	Capacity int64
	Told     bool
}

// StorageName names the capacity.
func (c *StorageCapacity) StorageName() StorageName {
	return StorageName{CSIStorageCapacity, c.Namespace, c.Name}
}
