package volumes

import (
	"cmp"
	"maps"
	"slices"

	"hilbert.dev/hilbert/cluster/facts"
)

// Needs returns what the volumes of a pod ask of its node; nil if it has none. waits is why no node can be chosen yet, in upstream's words where it has
// any; empty when one can.
func (b *Book) Needs(uid facts.UID) (needs *facts.VolumeNeeds, waits string) {
	u := b.pods[uid]
	if u == nil {
		return nil, ""
	}
	n := &facts.VolumeNeeds{}
	var unbound []*facts.Claim
	for name, use := range u.claims {
		claim := b.claims[name]
		if waits := b.waits(u, use, claim); waits != "" {
			return nil, waits
		}
		if claim.Modes&facts.ReadWriteOncePod != 0 && !use.Ephemeral { // of an ephemeral volume the pod is the only user
			n.Users = b.otherUsers(n.Users, u, name)
			if b.inGangs(name) > 1 {
				n.Exclusive = append(n.Exclusive, name)
			}
		}
		if !claim.Bound {
			unbound = append(unbound, claim)
			continue
		}
		volume := b.volumes[claim.Volume]
		if volume == nil {
			n.Missing = true
			continue
		}
		if bound, asks := volume.BoundVolume(); asks {
			n.Bound = append(n.Bound, bound)
		}
		if !use.Ephemeral { // as upstream
			n.Zones = append(n.Zones, volume.Zones...)
		}
	}
	for _, claim := range b.inOrder(unbound) {
		n.Unbound = append(n.Unbound, b.choices(claim))
	}
	slices.SortFunc(n.Users, func(x, y facts.ClaimUser) int { return cmp.Compare(x.Pod, y.Pod) })
	n.Users = slices.Compact(n.Users)
	slices.SortFunc(n.Exclusive, facts.CompareClaimNames)
	n.Exclusive = slices.Compact(n.Exclusive)
	n.Drivers = b.driverNeeds(u)
	if !n.Selects() && len(n.Drivers) == 0 {
		return nil, ""
	}
	n.Zones = facts.Canonical(n.Zones)
	return n, ""
}

// waits returns why a claim keeps the pod from having a node, whichever it is.
func (o *objects) waits(u *user, use facts.ClaimUse, claim *facts.Claim) string {
	quoted := `persistentvolumeclaim "` + use.Claim + `"`
	switch {
	case claim == nil && use.Ephemeral:
		return "waiting for ephemeral volume controller to create the " + quoted
	case claim == nil:
		return quoted + " not found"
	case claim.Lost:
		return quoted + ` bound to non-existent persistentvolume "` + claim.Volume + `"`
	case claim.Deleting:
		return quoted + " is being deleted"
	case use.Ephemeral && claim.Pod != u.uid:
		return "PVC " + claim.String() + " was not created for the pod (pod is not owner)"
	case claim.Bound:
		return ""
	}
	class := o.classes[claim.StorageClass]
	if claim.Volume != "" || class == nil || !class.Waits {
		return "pod has unbound immediate PersistentVolumeClaims"
	}
	return ""
}

// otherUsers adds the other pods that have a node and use the claim.
func (t *userTable) otherUsers(list []facts.ClaimUser, u *user, name facts.ClaimName) []facts.ClaimUser {
	for _, other := range t.users[name] {
		if other != u && other.node != "" {
			list = append(list, facts.ClaimUser{Pod: other.uid, Node: other.node})
		}
	}
	return list
}

// inOrder sorts claims by the order in which they are given volumes: those with a node first, then the smallest, as upstream does.
func (b *Book) inOrder(claims []*facts.Claim) []*facts.Claim {
	late := func(c *facts.Claim) int {
		if b.node(c) != "" {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(claims, func(x, y *facts.Claim) int {
		return cmp.Or(cmp.Compare(late(x), late(y)), cmp.Compare(x.Size, y.Size))
	})
	return claims
}

// node is the node for which a volume of the claim is provisioned; empty: none has been chosen.
func (b *promises) node(c *facts.Claim) string {
	if p := b.told[c.ClaimName]; p != nil && p.uid == c.UID && p.volume == "" {
		return p.node
	}
	return c.SelectedNode
}

// choices returns where a claim could be bound. Class and size of the claim are part of it only where they tell nodes apart, so that claims of unlike sizes
// may be alike; its name only where several members of gangs use it.
func (b *Book) choices(c *facts.Claim) facts.UnboundClaim {
	x := b.choicesOf(c)
	if len(x.Volumes)+len(x.Room) > 0 {
		x.StorageClass, x.Size = c.StorageClass, c.Size
	}
	if b.inGangs(c.ClaimName) > 1 {
		x.Claim = c.ClaimName
	}
	return x
}

func (b *Book) choicesOf(c *facts.Claim) facts.UnboundClaim {
	x := facts.UnboundClaim{Node: b.node(c)}
	if x.Node == "" {
		x.Volumes = b.candidates(c)
	}
	class, p := b.classes[c.StorageClass], b.told[c.ClaimName]
	if class.Driver == "" || p != nil && p.volume != "" { // promised is promised; upstream would let another pod of the claim go where the volume is not
		return x
	}
	x.Provisioned, x.Nodes = true, class.Nodes
	if driver := b.drivers[class.Driver]; driver != nil && driver.TellsCapacity && c.Sized {
		x.Tracked, x.Room = true, b.room(c)
	}
	return x
}

// candidates lists the volumes that a claim could be bound to, the best first: one that is kept for it alone, else the smallest that is large enough.
func (b *Book) candidates(c *facts.Claim) []facts.VolumeChoice {
	suits := func(v *facts.Volume) bool {
		return v.StorageClass == c.StorageClass && v.Size >= c.Size && v.Block == c.Block && v.Attributes == c.Attributes && !v.Deleting
	}
	if p := b.told[c.ClaimName]; p != nil && p.volume != "" {
		if v := b.volumes[p.volume]; v != nil && suits(v) {
			return []facts.VolumeChoice{{Volume: v.Name, Nodes: v.Nodes, Size: v.Size}}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.kept[c.ClaimName])) {
		if v := b.volumes[name]; suits(v) && v.KeptFor(c) {
			return []facts.VolumeChoice{{Volume: name, Nodes: v.Nodes, Size: v.Size}}
		}
	}
	var fit []*facts.Volume
	for name, v := range b.free[c.StorageClass] {
		if _, taken := b.promised[name]; !taken && suits(v) && c.Modes&^v.Modes == 0 && c.Selector.Matches(v.Labels) {
			fit = append(fit, v)
		}
	}
	slices.SortFunc(fit, func(x, y *facts.Volume) int { return cmp.Or(cmp.Compare(x.Size, y.Size), cmp.Compare(x.Name, y.Name)) })
	var list []facts.VolumeChoice
	for _, v := range fit {
		list = append(list, facts.VolumeChoice{Volume: v.Name, Nodes: v.Nodes, Size: v.Size})
	}
	return list
}

// room lists the nodes for which enough can be provisioned, where there is most in all first. Of equal selectors the first is enough. Upstream goes by any.
func (o *objects) room(c *facts.Claim) (list []facts.StorageRoom) {
	rooms := make([]*facts.StorageCapacity, 0, len(o.rooms[c.StorageClass]))
	for _, r := range o.rooms[c.StorageClass] {
		if r.Most >= c.Size && !r.Nodes.Nothing {
			rooms = append(rooms, r)
		}
	}
	slices.SortFunc(rooms, func(x, y *facts.StorageCapacity) int {
		return cmp.Or(cmp.Compare(y.Capacity, x.Capacity), facts.CompareStorageNames(x.StorageName(), y.StorageName()))
	})
	for _, r := range rooms {
		if !slices.ContainsFunc(list, func(room facts.StorageRoom) bool { return room.Nodes.Equal(&r.Nodes) }) {
			list = append(list, facts.StorageRoom{Segment: r.Namespace + "/" + r.Name, Nodes: r.Nodes, Capacity: r.Capacity, Told: r.Told})
		}
	}
	return list
}
