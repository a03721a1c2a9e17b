package facts

import (
	"cmp"
	"slices"
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
)

// StorageKinds is how many there are.
const StorageKinds = int(CSIStorageCapacity)

// StorageName names an object of a StorageKind. Objects without a namespace have an empty one.
type StorageName struct {
	Kind            StorageKind
	Namespace, Name string
}

// CompareStorageNames orders by kind, namespace and name.
func CompareStorageNames(a, b StorageName) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// StorageObject is one of *Claim, *Volume, *StorageClass, *StorageDriver and *StorageCapacity. It is immutable.
type StorageObject interface{ StorageName() StorageName }

// ClaimName names a PersistentVolumeClaim.
type ClaimName struct{ Namespace, Name string }

// CompareClaimNames orders by namespace and name.
func CompareClaimNames(a, b ClaimName) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// String is namespace/name.
func (n ClaimName) String() string { return n.Namespace + "/" + n.Name }

// ClaimUse is a volume of a pod that a claim in its namespace stands for.
type ClaimUse struct {
	Claim string
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
}

// StorageName names the capacity.
func (c *StorageCapacity) StorageName() StorageName {
	return StorageName{CSIStorageCapacity, c.Namespace, c.Name}
}

// VolumeNeeds is what the volumes of a pod ask of its node, as claims, volumes and storage classes stand. It is immutable.
type VolumeNeeds struct {
	// Bound are the node affinities of the volumes that are bound: of each, one term must match.
	Bound [][]Term
	// Zones are the zones of these volumes, see Volume.Zones.
	Zones []Requirement
	// Missing: a claim is bound to a volume that does not exist.
	Missing bool
	// Unbound are the claims that are bound once the pod has a node: those whose node has been chosen, then the smallest first.
	Unbound []UnboundClaim
}

// UnboundClaim is what decides where a claim can be bound, whatever its name is.
type UnboundClaim struct {
	// Node was chosen for it before; empty: none was.
	Node string
	// Volumes that it could be bound to, the best first.
	Volumes []VolumeChoice
	// Provisioned: a driver makes a volume for it where Nodes allow (nil: everywhere) and, if Tracked, where one of Room matches.
	Provisioned bool
	Nodes       []Term
	Tracked     bool
	Room        []LabelSelector
}

// VolumeChoice is a volume that a claim could be bound to, on nodes that one of the terms matches (nil: on all).
type VolumeChoice struct {
	Volume string
	Nodes  []Term
}

// VolumeConflict is why a node cannot give a pod its volumes; the zero value: it can.
type VolumeConflict uint8

// The conflicts. See String.
const (
	NoVolumeConflict VolumeConflict = iota
	VolumeElsewhere
	VolumeZoneElsewhere
	NoVolumeToBind
	NoStorageLeft
	VolumeMissing
)

// String is upstream's phrase.
func (c VolumeConflict) String() string {
	switch c {
	case VolumeElsewhere:
		return "node(s) didn't match PersistentVolume's node affinity"
	case VolumeZoneElsewhere:
		return "node(s) had no available volume zone"
	case NoVolumeToBind:
		return "node(s) didn't find available persistent volumes to bind"
	case NoStorageLeft:
		return "node(s) did not have enough free storage"
	case VolumeMissing:
		return "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
	default:
		return ""
	}
}

// The labels of nodes that zones of volumes are compared with. The older ones stand for the newer ones where nodes have only these.
const (
	LabelZone       = "topology.kubernetes.io/zone"
	LabelRegion     = "topology.kubernetes.io/region"
	LabelZoneBeta   = "failure-domain.beta.kubernetes.io/zone"
	LabelRegionBeta = "failure-domain.beta.kubernetes.io/region"
)

// ZoneLabels are all of them.
func ZoneLabels() []string { return []string{LabelZoneBeta, LabelRegionBeta, LabelZone, LabelRegion} }

// currentZoneLabel is the label that took the place of an older one.
func currentZoneLabel(label string) string {
	switch label {
	case LabelZoneBeta:
		return LabelZone
	case LabelRegionBeta:
		return LabelRegion
	}
	return label
}

// Conflict returns why the node cannot give the pod its volumes.
func (v *VolumeNeeds) Conflict(n *Node) VolumeConflict {
	if !v.inZones(n) {
		return VolumeZoneElsewhere
	}
	return v.bindingConflict(n)
}

// bindingConflict leaves the zones out.
func (v *VolumeNeeds) bindingConflict(n *Node) VolumeConflict {
	if v.Missing {
		return VolumeMissing
	}
	if !v.Suits(n) {
		return VolumeElsewhere
	}
	if len(v.Unbound) == 0 {
		return NoVolumeConflict
	}
	_, conflict := v.Choose(n)
	return conflict
}

// Suits reports whether the node has all that is bound, whatever else is asked.
func (v *VolumeNeeds) Suits(n *Node) bool {
	return !slices.ContainsFunc(v.Bound, func(terms []Term) bool { return !matchLabels(terms, n) })
}

// inZones reports whether the node is in the zones of the volumes that are bound. A node that says nothing of zones is in all.
func (v *VolumeNeeds) inZones(n *Node) bool {
	if len(v.Zones) == 0 || !slices.ContainsFunc(ZoneLabels(), func(label string) bool { _, ok := n.Labels[label]; return ok }) {
		return true
	}
	for i := range v.Zones {
		value, ok := n.Labels[v.Zones[i].Key]
		if !ok {
			value, ok = n.Labels[currentZoneLabel(v.Zones[i].Key)]
		}
		if !v.Zones[i].holds(value, ok) {
			return false
		}
	}
	return true
}

// Choose chooses for each of the Unbound what it is bound to on the node: a volume, or with an empty name one that is provisioned. Each volume is chosen once.
func (v *VolumeNeeds) Choose(n *Node) (choice []string, conflict VolumeConflict) {
	choice = make([]string, len(v.Unbound))
	for i := range v.Unbound {
		if u := &v.Unbound[i]; u.Node != "" && u.Node != n.Name {
			return nil, NoVolumeToBind
		}
	}
	for i := range v.Unbound {
		u := &v.Unbound[i]
		at := -1
		if u.Node == "" {
			at = slices.IndexFunc(u.Volumes, func(c VolumeChoice) bool {
				return !slices.Contains(choice[:i], c.Volume) && matchLabels(c.Nodes, n)
			})
		}
		if at >= 0 {
			choice[i] = u.Volumes[at].Volume
			continue
		}
		if conflict := u.provisionConflict(n); conflict != NoVolumeConflict {
			return nil, conflict
		}
	}
	return choice, NoVolumeConflict
}

// provisionConflict returns why no volume can be provisioned for the claim.
func (u *UnboundClaim) provisionConflict(n *Node) VolumeConflict {
	switch {
	case !u.Provisioned || !matchLabels(u.Nodes, n):
		return NoVolumeToBind
	case u.Tracked && !slices.ContainsFunc(u.Room, func(s LabelSelector) bool { return s.matchesNode(n) }):
		return NoStorageLeft
	}
	return NoVolumeConflict
}

func (s *LabelSelector) matchesNode(n *Node) bool {
	if s.Nothing {
		return false
	}
	for i := range s.Expressions {
		value, ok := n.Labels[s.Expressions[i].Key]
		if !s.Expressions[i].holds(value, ok) {
			return false
		}
	}
	return true
}

// matchLabels reports whether one of the terms matches the node's labels; nil matches all. Volumes know nothing of the names of nodes.
func matchLabels(terms []Term, n *Node) bool {
	if terms == nil {
		return true
	}
	return slices.ContainsFunc(terms, func(t Term) bool { return len(t.Fields) == 0 && t.Matches(n) })
}

// Tied reports whether a volume is somewhere already, or a node has been chosen for one.
func (v *VolumeNeeds) Tied() bool {
	return len(v.Bound)+len(v.Zones) > 0 || slices.ContainsFunc(v.Unbound, func(u UnboundClaim) bool { return u.Node != "" })
}

// Hosts names the nodes beyond which the pod can go nowhere, by the field of their name or their hostname; key is empty if there is no such bound.
func (v *VolumeNeeds) Hosts() (key string, values []string) {
	for i := range v.Unbound {
		if v.Unbound[i].Node != "" {
			return FieldName, []string{v.Unbound[i].Node}
		}
	}
	for _, terms := range v.Bound {
		if values, ok := hosts(terms); ok {
			return HostnameKey, values
		}
	}
	return "", nil
}

// hosts lists the hostnames that the terms allow; ok is false if one of them allows more.
func hosts(terms []Term) (values []string, ok bool) {
	for i := range terms {
		at := slices.IndexFunc(terms[i].Expressions, func(r Requirement) bool { return r.Key == HostnameKey && r.Operator == In })
		if at < 0 {
			return nil, false
		}
		values = append(values, terms[i].Expressions[at].Values...)
	}
	return values, len(values) > 0
}

// Labels lists the labels of nodes, and the field for their name, that the needs are about.
func (v *VolumeNeeds) Labels() (keys []string) {
	add := func(terms []Term) {
		for i := range terms {
			for _, e := range terms[i].Expressions {
				keys = append(keys, e.Key)
			}
		}
	}
	for _, terms := range v.Bound {
		add(terms)
	}
	if len(v.Zones) > 0 {
		keys = append(keys, ZoneLabels()...)
	}
	for i := range v.Unbound {
		u := &v.Unbound[i]
		if u.Node != "" {
			keys = append(keys, FieldName)
		}
		for _, c := range u.Volumes {
			add(c.Nodes)
		}
		add(u.Nodes)
		for _, s := range u.Room {
			for _, e := range s.Expressions {
				keys = append(keys, e.Key)
			}
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// AppendKey appends the canonical encoding.
func (v *VolumeNeeds) AppendKey(buffer []byte) []byte {
	w := Key(buffer)
	w.Flag(v.Missing)
	w.Number(int64(len(v.Bound)))
	for _, terms := range v.Bound {
		w.terms(terms)
	}
	w.requirements(v.Zones)
	w.Number(int64(len(v.Unbound)))
	for i := range v.Unbound {
		u := &v.Unbound[i]
		w.Text(u.Node)
		w.Number(int64(len(u.Volumes)))
		for _, c := range u.Volumes {
			w.Text(c.Volume)
			w.terms(c.Nodes)
		}
		w.Flag(u.Provisioned)
		w.terms(u.Nodes)
		w.Flag(u.Tracked)
		w.Number(int64(len(u.Room)))
		for j := range u.Room {
			w.labelSelector(&u.Room[j])
		}
	}
	return w
}

// terms writes a list of which one must match, and whether there is any.
func (w *Key) terms(list []Term) {
	w.Flag(list != nil)
	w.Number(int64(len(list)))
	for i := range list {
		w.term(&list[i])
	}
}
