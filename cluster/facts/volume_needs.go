package facts

import (
	"slices"
)

// VolumeNeeds is what the volumes of a pod ask of its node, as claims, volumes and storage classes stand. It is immutable.
type VolumeNeeds struct {
	// Bound are the node affinities of the volumes that are bound.
	Bound []BoundVolume
	// Zones are the zones of these volumes, see Volume.Zones.
	Zones []Requirement
	// Missing: a claim is bound to a volume that does not exist.
	Missing bool
	// Unbound are the claims that are bound once the pod has a node: those whose node has been chosen, then the smallest first.
	Unbound []UnboundClaim
	// Users are the pods that have a node and use claims which one pod alone may use (ReadWriteOncePod), by UID. They must leave first.
	Users []ClaimUser
	// Exclusive are these claims, as far as several members of gangs use them: of pods that get places together, one alone may.
	Exclusive []ClaimName
	// Drivers are what must be attached, by driver: of drivers that nodes limit, or that are required. A node is asked apart from Conflict.
	Drivers []DriverNeed
}

// ClaimUser is a pod that uses a claim, and its node.
type ClaimUser struct {
	Pod  UID
	Node string
}

// BoundVolume is the node affinity of a volume: one of the terms must match. On nodes that have migrated the plugin InTree one of Translated must.
type BoundVolume struct {
	Nodes, Translated []Term
	InTree            string
}

func (t Term) equal(u Term) bool {
	return slices.EqualFunc(t.Expressions, u.Expressions, Requirement.Equal) && slices.EqualFunc(t.Fields, u.Fields, Requirement.Equal)
}

// Selects reports whether anything is asked of a node's own properties.
func (v *VolumeNeeds) Selects() bool {
	return v != nil && (v.Missing || len(v.Bound)+len(v.Zones)+len(v.Unbound)+len(v.Users)+len(v.Exclusive) > 0)
}

func (b *BoundVolume) matches(n *Node) bool {
	if b.InTree != "" && slices.Contains(n.Migrated, b.InTree) {
		return matchLabels(b.Translated, n)
	}
	return matchLabels(b.Nodes, n)
}

// BoundVolume is what is asked of nodes while the volume is bound; ok is false if it is nothing.
func (v *Volume) BoundVolume() (b BoundVolume, ok bool) {
	b = BoundVolume{Nodes: v.Nodes}
	if v.InTree != "" && ((v.Nodes == nil) != (v.Translated == nil) || !slices.EqualFunc(v.Nodes, v.Translated, Term.equal)) {
		b.InTree, b.Translated = v.InTree, v.Translated
	}
	return b, b.Nodes != nil || b.Translated != nil
}

// UsableOn reports whether the volume's node affinity allows the node.
func (v *Volume) UsableOn(n *Node) bool {
	b, asks := v.BoundVolume()
	return !asks || b.matches(n)
}

// UnboundClaim is what decides where a claim can be bound, whatever its name is.
type UnboundClaim struct {
	// Claim is its name, if several members of gangs use it: all go where it is bound for the first. Else it is empty.
	Claim ClaimName
	// Node was chosen for it before; empty: none was.
	Node string
	// Volumes that it could be bound to, the best first.
	Volumes []VolumeChoice
	// Provisioned: a driver makes a volume for it where Nodes allow (nil: everywhere) and, if Tracked, where one of Room matches: the first that does counts.
	Provisioned bool
	Nodes       []Term
	Tracked     bool
	Room        []StorageRoom
	// StorageClass and Size are the claim's, where nodes are scored by how much of their storage it would take; else they are left out.
	StorageClass string
	Size         int64
}

// VolumeChoice is a volume that a claim could be bound to, on nodes that one of the terms matches (nil: on all).
type VolumeChoice struct {
	Volume string
	Nodes  []Term
	Size   int64 // bytes
}

// StorageRoom is where a volume of a claim could be provisioned, and if it is Told, how much there is in all, in bytes. Segment names it.
type StorageRoom struct {
	Segment  string
	Nodes    LabelSelector
	Capacity int64
	Told     bool
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
	VolumeInUse
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
	case VolumeInUse:
		return "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
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
	if slices.ContainsFunc(v.Users, func(u ClaimUser) bool { return u.Node != n.Name }) {
		return VolumeInUse // no pod that could be evicted here would help
	}
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
	return !slices.ContainsFunc(v.Bound, func(b BoundVolume) bool { return !b.matches(n) })
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

// ClaimBinding is what an unbound claim is bound to on a node: a volume, or where that is empty one that is provisioned. Room is where, if the driver tells what
// it has.
type ClaimBinding struct {
	Volume string
	Size   int64 // the volume's, in bytes
	Room   *StorageRoom
}

// Choose chooses for each of the Unbound what it is bound to on the node. Each volume is chosen once.
func (v *VolumeNeeds) Choose(n *Node) (choice []ClaimBinding, conflict VolumeConflict) {
	return v.ChooseBeside(n, nil)
}

// ChooseBeside is Choose beside what was chosen for other pods.
func (v *VolumeNeeds) ChooseBeside(n *Node, beside *ChosenVolumes) (choice []ClaimBinding, conflict VolumeConflict) {
	choice = make([]ClaimBinding, len(v.Unbound))
	for i := range v.Unbound {
		u := &v.Unbound[i]
		if chosen, ok := beside.claim(u.Claim); u.Node != "" && u.Node != n.Name || ok && chosen.volume == "" && chosen.node != n.Name {
			return nil, NoVolumeToBind
		}
	}
	for i := range v.Unbound {
		u := &v.Unbound[i]
		at, told := -1, false
		if chosen, ok := beside.claim(u.Claim); ok {
			if told = true; chosen.volume != "" {
				at = slices.IndexFunc(u.Volumes, func(c VolumeChoice) bool { return c.Volume == chosen.volume && matchLabels(c.Nodes, n) })
				if at < 0 {
					return nil, NoVolumeToBind
				}
			}
		} else if u.Node == "" {
			at = slices.IndexFunc(u.Volumes, func(c VolumeChoice) bool {
				return !beside.hasVolume(c.Volume) && !slices.ContainsFunc(choice[:i], func(b ClaimBinding) bool { return b.Volume == c.Volume }) && matchLabels(c.Nodes, n)
			})
		}
		switch {
		case at >= 0:
			choice[i] = ClaimBinding{Volume: u.Volumes[at].Volume, Size: u.Volumes[at].Size}
		case told: // a volume is made for it already
		default:
			if choice[i].Room, conflict = u.provision(n, beside); conflict != NoVolumeConflict {
				return nil, conflict
			}
		}
	}
	return choice, NoVolumeConflict
}

// provision returns where a volume is provisioned for the claim, nil if that is not told, or why none can be.
func (u *UnboundClaim) provision(n *Node, beside *ChosenVolumes) (*StorageRoom, VolumeConflict) {
	if !u.Provisioned || !matchLabels(u.Nodes, n) {
		return nil, NoVolumeToBind
	}
	if !u.Tracked {
		return nil, NoVolumeConflict
	}
	at := slices.IndexFunc(u.Room, func(r StorageRoom) bool { return r.Nodes.matchesNode(n) && !beside.fills(&r, u.Size) })
	if at < 0 {
		return nil, NoStorageLeft
	}
	return &u.Room[at], NoVolumeConflict
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
	if len(v.Users) > 0 {
		return FieldName, []string{v.Users[0].Node}
	}
	for i := range v.Unbound {
		if v.Unbound[i].Node != "" {
			return FieldName, []string{v.Unbound[i].Node}
		}
	}
	for i := range v.Bound {
		if values, ok := hosts(v.Bound[i].Nodes); ok && v.Bound[i].InTree == "" {
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
	for i := range v.Bound {
		add(v.Bound[i].Nodes)
		add(v.Bound[i].Translated)
	}
	if len(v.Zones) > 0 {
		keys = append(keys, ZoneLabels()...)
	}
	if len(v.Users) > 0 {
		keys = append(keys, FieldName)
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
		for j := range u.Room {
			for _, e := range u.Room[j].Nodes.Expressions {
				keys = append(keys, e.Key)
			}
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// AppendKey appends the canonical encoding.
func (v *VolumeNeeds) AppendKey(buffer []byte) []byte {
	return v.AppendSelection(v.AppendSize(buffer))
}

// AppendSize appends the canonical encoding of what must be attached, which depends on what is attached to a node already.
func (v *VolumeNeeds) AppendSize(buffer []byte) []byte {
	w := appendDrivers(buffer, v.Drivers)
	w.Number(int64(len(v.Users)))
	for _, u := range v.Users {
		w.Text(string(u.Pod))
	}
	return w
}

// AppendSelection appends the canonical encoding of what is asked of a node's own properties.
func (v *VolumeNeeds) AppendSelection(buffer []byte) []byte {
	w := Key(buffer)
	w.Flag(v.Missing)
	w.Number(int64(len(v.Bound)))
	for i := range v.Bound {
		w.terms(v.Bound[i].Nodes)
		w.terms(v.Bound[i].Translated)
		w.Text(v.Bound[i].InTree)
	}
	w.requirements(v.Zones)
	w.Number(int64(len(v.Users)))
	for _, u := range v.Users {
		w.Text(string(u.Pod))
		w.Text(u.Node)
	}
	w.claims(v.Exclusive)
	w.Number(int64(len(v.Unbound)))
	for i := range v.Unbound {
		u := &v.Unbound[i]
		w.Text(u.Claim.Namespace)
		w.Text(u.Claim.Name)
		w.Text(u.Node)
		w.Number(int64(len(u.Volumes)))
		for _, c := range u.Volumes {
			w.Text(c.Volume)
			w.Number(c.Size)
			w.terms(c.Nodes)
		}
		w.Flag(u.Provisioned)
		w.terms(u.Nodes)
		w.Flag(u.Tracked)
		w.Number(int64(len(u.Room)))
		for j := range u.Room {
			w.Text(u.Room[j].Segment)
			w.labelSelector(&u.Room[j].Nodes)
			w.Number(u.Room[j].Capacity)
			w.Flag(u.Room[j].Told)
		}
		w.Text(u.StorageClass)
		w.Number(u.Size)
	}
	return w
}

// claims writes names of claims.
func (w *Key) claims(list []ClaimName) {
	w.Number(int64(len(list)))
	for _, name := range list {
		w.Text(name.Namespace)
		w.Text(name.Name)
	}
}

// terms writes a list of which one must match, and whether there is any.
func (w *Key) terms(list []Term) {
	w.Flag(list != nil)
	w.Number(int64(len(list)))
	for i := range list {
		w.term(&list[i])
	}
}
