package volumes

import (
	"maps"
	"slices"

	"hilbert.dev/hilbert/cluster/facts"
)

// What is attached to a node is counted by volume, as upstream's NodeVolumeLimits counts: a volume that several pods of a node use counts once, and one that
// is still attached though no pod uses it counts too. A claim that is not bound counts as a volume of its own of its class's driver. Only volumes of
// drivers are followed that some node limits, or that are required: what pods name costs nothing else.

// attachments is what is known of nodes and of volumes that are attached to them.
type attachments struct {
	nodes    map[string]*facts.StorageNode
	known    map[string]*facts.Attachment
	onNode   map[string]map[string]*facts.Attachment // by node and name
	ofVolume map[string]map[string]*facts.Attachment // by volume and name
	limited  map[string]int                          // nodes that limit a driver
	byVolume map[facts.VolumeHandle][]*user          // pods that use volumes of drivers that are counted
	moved    map[string]bool                         // nodes about which something changed
}

func newAttachments() attachments {
	return attachments{
		nodes: make(map[string]*facts.StorageNode), known: make(map[string]*facts.Attachment), onNode: make(map[string]map[string]*facts.Attachment),
		ofVolume: make(map[string]map[string]*facts.Attachment), limited: make(map[string]int), byVolume: make(map[facts.VolumeHandle][]*user),
		moved: make(map[string]bool),
	}
}

// attach is a volume that a pod has attached to its node. inTree: it has an in-tree name.
type attach struct {
	facts.VolumeHandle
	inTree bool
}

// counts reports whether volumes of a driver are followed.
func (b *Book) counts(driver string) bool {
	d := b.drivers[driver]
	return b.attachments.limited[driver] > 0 || d != nil && d.Required
}

// setNode takes in what a node says of its drivers; nil: nothing.
func (b *Book) setNode(name string, node *facts.StorageNode, to pods) {
	a := &b.attachments
	old := a.nodes[name]
	limits := make(map[string]int)
	each := func(n *facts.StorageNode, sign int) {
		if n == nil {
			return
		}
		for i := range n.Drivers {
			if n.Drivers[i].Limited {
				limits[n.Drivers[i].Name] += sign
			}
		}
	}
	each(old, -1)
	each(node, 1)
	recount := false
	for driver, more := range limits {
		before := b.counts(driver)
		if a.limited[driver] += more; a.limited[driver] == 0 {
			delete(a.limited, driver)
		}
		recount = recount || before != b.counts(driver)
	}
	delete(a.nodes, name)
	if node != nil {
		a.nodes[name] = node
	}
	a.moved[name] = true
	if recount {
		b.everybody(to)
	}
}

// setDriver takes in a driver; nil: it is gone.
func (b *Book) setDriver(name string, driver *facts.StorageDriver, to pods) {
	old := b.drivers[name]
	delete(b.drivers, name)
	if driver != nil {
		b.drivers[name] = driver
	}
	b.ofDriver(name, to)
	if (old != nil && old.Required) != (driver != nil && driver.Required) {
		b.everybody(to)
	}
}

// set takes in that a volume is attached; nil: it is not any more.
func (a *attachments) set(name string, attachment *facts.Attachment) {
	if old := a.known[name]; old != nil {
		leave(a.onNode, old.Node, name)
		leave(a.ofVolume, old.Volume, name)
		delete(a.known, name)
		a.moved[old.Node] = true
	}
	if attachment != nil {
		a.known[name] = attachment
		enter(a.onNode, attachment.Node, name, attachment)
		enter(a.ofVolume, attachment.Volume, name, attachment)
		a.moved[attachment.Node] = true
	}
}

// everybody adds all pods that use volumes.
func (t *userTable) everybody(to pods) {
	for uid := range t.pods {
		to[uid] = true
	}
}

// handleOf is by what a claim's volume is counted; ok is false if it is not.
func (o *objects) handleOf(c *facts.Claim) (a attach, ok bool) {
	if v := o.volumes[c.Volume]; v != nil && c.Volume != "" {
		return attach{v.Handle, v.InTree != ""}, v.Handle.Driver != ""
	}
	class := o.classes[c.StorageClass]
	if class == nil || class.Attaches == "" {
		return attach{}, false
	}
	return attach{facts.VolumeHandle{Driver: class.Attaches, Handle: "\x00" + c.String()}, class.InTree}, true
}

// attaches lists the volumes that a pod has attached to its node, as far as they are followed, sorted.
func (b *Book) attaches(u *user) (list []attach) {
	for _, use := range u.uses {
		a, ok := attach{use.Inline, true}, use.Inline.Driver != ""
		if use.Claim != "" {
			claim := b.claims[facts.ClaimName{Namespace: u.namespace, Name: use.Claim}]
			if claim == nil || use.Ephemeral && claim.Pod != u.uid {
				continue
			}
			a, ok = b.handleOf(claim)
		}
		if ok && b.counts(a.Driver) {
			list = append(list, a)
		}
	}
	slices.SortFunc(list, func(x, y attach) int { return facts.CompareVolumeHandles(x.VolumeHandle, y.VolumeHandle) })
	return slices.CompactFunc(list, func(x, y attach) bool { return x.VolumeHandle == y.VolumeHandle })
}

// reattach brings what a pod has attached up to date, and adds the pods that share, or no longer share, a volume with it.
func (b *Book) reattach(u *user, to pods) {
	list := b.attaches(u)
	if slices.Equal(list, u.attached) {
		return
	}
	for _, a := range u.attached {
		b.attachments.unshare(u, a.VolumeHandle, to)
	}
	u.attached = list
	for _, a := range list {
		users := b.attachments.byVolume[a.VolumeHandle]
		if len(users) == 1 {
			to[users[0].uid] = true
		}
		b.attachments.byVolume[a.VolumeHandle] = append(users, u)
	}
}

func (a *attachments) unshare(u *user, h facts.VolumeHandle, to pods) {
	users := a.byVolume[h]
	at := slices.Index(users, u)
	last := len(users) - 1
	users[at], users[last] = users[last], nil
	users = users[:last]
	switch len(users) {
	case 0:
		delete(a.byVolume, h)
		return
	case 1:
		to[users[0].uid] = true
	}
	a.byVolume[h] = users
}

// settle brings what the pods have attached up to date, and adds those that this is about.
func (b *Book) settle(affected pods) {
	for _, uid := range slices.Sorted(maps.Keys(affected)) {
		if u := b.pods[uid]; u != nil {
			b.reattach(u, affected)
		}
	}
}

// driverNeeds is what a pod needs to have attached.
func (b *Book) driverNeeds(u *user) (list []facts.DriverNeed) {
	for _, a := range u.attached {
		if n := len(list); n == 0 || list[n-1].Driver != a.Driver {
			d := b.drivers[a.Driver]
			list = append(list, facts.DriverNeed{Driver: a.Driver, Required: d != nil && d.Required, InTree: true})
		}
		need := &list[len(list)-1]
		need.InTree = need.InTree && a.inTree
		if len(b.attachments.byVolume[a.VolumeHandle]) > 1 {
			need.Shared = append(need.Shared, a.Handle)
		} else {
			need.Own++
		}
	}
	return list
}

// Attaches lists the volumes that a pod has, or will have, attached to its node, as far as they are followed, sorted.
func (t *userTable) Attaches(uid facts.UID) (list []facts.VolumeHandle) {
	if u := t.pods[uid]; u != nil {
		for _, a := range u.attached {
			list = append(list, a.VolumeHandle)
		}
	}
	return list
}

// Node is what a node says of its drivers; nil: nothing.
func (b *Book) Node(name string) *facts.StorageNode { return b.attachments.nodes[name] }

// AttachedTo lists the volumes that are attached to a node, sorted. In-tree volumes are left out, as upstream does.
func (b *Book) AttachedTo(node string) (list []facts.VolumeHandle) {
	for _, a := range b.attachments.onNode[node] {
		if v := b.volumes[a.Volume]; v != nil && v.InTree == "" && v.Handle.Driver != "" && a.Driver != "" {
			list = append(list, facts.VolumeHandle{Driver: a.Driver, Handle: v.Handle.Handle})
		}
	}
	slices.SortFunc(list, facts.CompareVolumeHandles)
	return slices.Compact(list)
}

// Moved lists the nodes about whose drivers or attachments something changed since it was called last, sorted.
func (b *Book) Moved() []string {
	if len(b.attachments.moved) == 0 {
		return nil
	}
	list := slices.Sorted(maps.Keys(b.attachments.moved))
	clear(b.attachments.moved)
	return list
}
