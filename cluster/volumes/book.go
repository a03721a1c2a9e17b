package volumes

import (
	"maps"
	"slices"

	"hilbert.dev/hilbert/cluster/facts"
)

// Book is what is known of storage: the objects, the pods that use them, what they were promised, and what is attached. It keeps these four in step, and says what volumes
// ask of nodes. The zero value is not usable; see New.
type Book struct {
	objects
	userTable
	promises
	attachments attachments
}

// objects is what the API server says of claims, volumes and what can be provisioned. The lists by class and by claim hold exactly the objects that they are about.
type objects struct {
	claims     map[facts.ClaimName]*facts.Claim
	volumes    map[string]*facts.Volume
	classes    map[string]*facts.StorageClass
	drivers    map[string]*facts.StorageDriver
	capacities map[facts.StorageName]*facts.StorageCapacity

	free    map[string]map[string]*facts.Volume          // available volumes that are kept for no claim, by storage class and name
	kept    map[facts.ClaimName]map[string]*facts.Volume // volumes that are bound to a claim or kept for it, by name
	unbound map[string]map[facts.ClaimName]bool          // claims that are not bound, by storage class
	naming  map[string]map[facts.ClaimName]bool          // claims that name a volume, by its name
	rooms   map[string]map[facts.StorageName]*facts.StorageCapacity
}

// userTable is the pods that use claims, by UID and by claim. What a pod uses never changes.
type userTable struct {
	users map[facts.ClaimName]map[facts.UID]*user
	pods  map[facts.UID]*user
}

// promises is what pods with a node were promised that the API server may not have yet: each claim and each volume once.
type promises struct {
	promised map[string]facts.ClaimName // volumes
	told     map[facts.ClaimName]*promise
}

// user is a pod that uses claims.
type user struct {
	uid       facts.UID
	namespace string
	uses      []facts.ClaimUse
	gang      bool       // it is a member of one
	node      string     // empty: it has none
	promises  []*promise // that wait to be carried out
	attached  []attach   // see attaches
}

// promise is a claim that is bound once its pod has a node.
type promise struct {
	claim  facts.ClaimName
	uid    string // the claim's
	volume string // empty: one is provisioned
	node   string
	seen   bool // the API server had it
}

// New returns an empty Book.
func New() *Book {
	return &Book{
		objects: objects{
			claims: make(map[facts.ClaimName]*facts.Claim), volumes: make(map[string]*facts.Volume), classes: make(map[string]*facts.StorageClass),
			drivers: make(map[string]*facts.StorageDriver), capacities: make(map[facts.StorageName]*facts.StorageCapacity),
			free: make(map[string]map[string]*facts.Volume), kept: make(map[facts.ClaimName]map[string]*facts.Volume), unbound: make(map[string]map[facts.ClaimName]bool),
			naming: make(map[string]map[facts.ClaimName]bool), rooms: make(map[string]map[facts.StorageName]*facts.StorageCapacity),
		},
		userTable:   userTable{users: make(map[facts.ClaimName]map[facts.UID]*user), pods: make(map[facts.UID]*user)},
		promises:    promises{promised: make(map[string]facts.ClaimName), told: make(map[facts.ClaimName]*promise)},
		attachments: newAttachments(),
	}
}

// enter and leave keep maps of maps without empty ones.
func enter[K, N comparable, V any](m map[K]map[N]V, key K, name N, value V) {
	if m[key] == nil {
		m[key] = make(map[N]V)
	}
	m[key][name] = value
}

func leave[K, N comparable, V any](m map[K]map[N]V, key K, name N) {
	delete(m[key], name)
	if len(m[key]) == 0 {
		delete(m, key)
	}
}

// Set takes in an object, and returns the pods whose needs may be others now, sorted.
func (b *Book) Set(object facts.StorageObject) []facts.UID {
	affected := make(pods)
	switch o := object.(type) {
	case *facts.Claim:
		b.setClaim(o.ClaimName, o, affected)
	case *facts.Volume:
		b.setVolume(o.Name, o, affected)
	case *facts.StorageClass:
		b.setClass(o.Name, o, affected)
	case *facts.StorageDriver:
		b.setDriver(o.Name, o, affected)
	case *facts.StorageCapacity:
		b.setCapacity(o.StorageName(), o, affected)
	case *facts.StorageNode:
		b.setNode(o.Node, o, affected)
	case *facts.Attachment:
		b.attachments.set(o.Name, o)
	}
	b.settle(affected)
	return affected.list()
}

// Remove forgets an object, and returns the pods whose needs may be others now, sorted.
func (b *Book) Remove(name facts.StorageName) []facts.UID {
	affected := make(pods)
	switch name.Kind {
	case facts.PersistentVolumeClaim:
		b.setClaim(facts.ClaimName{Namespace: name.Namespace, Name: name.Name}, nil, affected)
	case facts.PersistentVolume:
		b.setVolume(name.Name, nil, affected)
	case facts.StorageClassKind:
		b.setClass(name.Name, nil, affected)
	case facts.CSIDriver:
		b.setDriver(name.Name, nil, affected)
	case facts.CSIStorageCapacity:
		b.setCapacity(name, nil, affected)
	case facts.CSINode:
		b.setNode(name.Name, nil, affected)
	case facts.VolumeAttachment:
		b.attachments.set(name.Name, nil)
	}
	b.settle(affected)
	return affected.list()
}

// Names lists the objects of a kind, sorted.
func (b *Book) Names(kind facts.StorageKind) (names []facts.StorageName) {
	for object := range b.each {
		if name := object.StorageName(); name.Kind == kind {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, facts.CompareStorageNames)
	return names
}

// Objects lists all objects, by name.
func (b *Book) Objects() (list []facts.StorageObject) {
	for object := range b.each {
		list = append(list, object)
	}
	slices.SortFunc(list, func(x, y facts.StorageObject) int { return facts.CompareStorageNames(x.StorageName(), y.StorageName()) })
	return list
}

func (b *Book) each(yield func(facts.StorageObject) bool) {
	_ = eachOf(b.claims, yield) && eachOf(b.volumes, yield) && eachOf(b.classes, yield) && eachOf(b.drivers, yield) && eachOf(b.capacities, yield) &&
		eachOf(b.attachments.nodes, yield) && eachOf(b.attachments.known, yield)
}

func eachOf[K comparable, V facts.StorageObject](m map[K]V, yield func(facts.StorageObject) bool) bool {
	for _, object := range m {
		if !yield(object) {
			return false
		}
	}
	return true
}

// pods is a set of pods.
type pods map[facts.UID]bool

func (p pods) list() []facts.UID {
	if len(p) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(p))
}

// ofClaim adds the pods that use a claim.
func (t *userTable) ofClaim(name facts.ClaimName, to pods) {
	for uid := range t.users[name] {
		to[uid] = true
	}
}

// ofClass adds the pods that use claims of a storage class that are not bound.
func (b *Book) ofClass(class string, to pods) {
	for name := range b.unbound[class] {
		b.ofClaim(name, to)
	}
}

func (b *Book) ofDriver(driver string, to pods) {
	for _, class := range b.classes {
		if class.Driver == driver {
			b.ofClass(class.Name, to)
		}
	}
}

func (b *Book) setClaim(name facts.ClaimName, claim *facts.Claim, to pods) {
	if old := b.claims[name]; old != nil {
		leave(b.unbound, old.StorageClass, name)
		leave(b.naming, old.Volume, name)
		delete(b.claims, name)
	}
	if claim != nil {
		b.claims[name] = claim
		if claim.Volume != "" {
			enter(b.naming, claim.Volume, name, true)
		}
		if !claim.Bound {
			enter(b.unbound, claim.StorageClass, name, true)
		}
		if p := b.told[name]; p != nil && p.uid == claim.UID {
			p.seen = p.seen || claim.Bound || p.volume == "" && claim.SelectedNode == p.node
		}
	}
	b.ofClaim(name, to)
}

// setClass takes in a storage class; nil: it is gone. What provisions never changes, so that bound claims ask for nothing else while it is there.
func (b *Book) setClass(name string, class *facts.StorageClass, to pods) {
	old := b.classes[name]
	delete(b.classes, name)
	if class != nil {
		b.classes[name] = class
	}
	b.ofClass(name, to)
	if (old == nil) == (class == nil) && (old == nil || old.Attaches == class.Attaches) {
		return
	}
	for claim, c := range b.claims { // a claim whose volume is missing is counted by its class
		if c.StorageClass == name && c.Bound && b.volumes[c.Volume] == nil {
			b.ofClaim(claim, to)
		}
	}
}

func (b *Book) setVolume(name string, volume *facts.Volume, to pods) {
	old := b.volumes[name]
	for _, v := range [...]*facts.Volume{old, volume} {
		switch {
		case v == nil:
		case v.Claim != (facts.ClaimName{}):
			b.ofClaim(v.Claim, to)
		case v.Available:
			b.ofClass(v.StorageClass, to)
		}
	}
	for claim := range b.naming[name] {
		b.ofClaim(claim, to)
	}
	for _, a := range b.attachments.ofVolume[name] {
		b.attachments.moved[a.Node] = true
	}
	if old != nil {
		leave(b.free, old.StorageClass, name)
		leave(b.kept, old.Claim, name)
		delete(b.volumes, name)
	}
	if claim, ok := b.promised[name]; ok {
		b.ofClaim(claim, to)
	}
	if volume == nil {
		return
	}
	b.volumes[name] = volume
	switch {
	case volume.Claim != (facts.ClaimName{}):
		enter(b.kept, volume.Claim, name, volume)
	case volume.Available:
		enter(b.free, volume.StorageClass, name, volume)
	}
	if p := b.told[volume.Claim]; p != nil && p.volume == name && p.uid == volume.ClaimUID {
		p.seen = true
	}
}

func (b *Book) setCapacity(name facts.StorageName, capacity *facts.StorageCapacity, to pods) {
	if old := b.capacities[name]; old != nil {
		b.ofClass(old.StorageClass, to)
		leave(b.rooms, old.StorageClass, name)
		delete(b.capacities, name)
	}
	if capacity != nil {
		b.capacities[name] = capacity
		enter(b.rooms, capacity.StorageClass, name, capacity)
		b.ofClass(capacity.StorageClass, to)
	}
}

// Use says which volumes a pod uses, and whether it is a member of a gang, and returns the other pods whose needs may be others now, sorted. A pod that uses none is not known to the Book.
func (b *Book) Use(uid facts.UID, namespace string, uses []facts.ClaimUse, gang bool) []facts.UID {
	if len(uses) == 0 || b.pods[uid] != nil {
		return nil // what volumes a pod has never changes
	}
	u := &user{uid: uid, namespace: namespace, uses: uses, gang: gang}
	b.pods[uid] = u
	affected := make(pods)
	for name := range u.claims {
		enter(b.users, name, uid, u)
		if gang {
			b.shared(name, 2, affected)
		}
	}
	delete(affected, uid)
	b.reattach(u, affected)
	return affected.list()
}

// inGangs is how many members of gangs use a claim. If several do, what the users ask names the claim: members are placed before the first of them has its volume.
func (t *userTable) inGangs(name facts.ClaimName) (n int) {
	for _, u := range t.users[name] {
		if u.gang {
			n++
		}
	}
	return n
}

// shared adds the users of a claim if so many members of gangs use it now, unless it is bound and several may.
func (b *Book) shared(name facts.ClaimName, members int, to pods) {
	if c := b.claims[name]; c != nil && b.inGangs(name) == members && (!c.Bound || c.Modes&facts.ReadWriteOncePod != 0) {
		b.ofClaim(name, to)
	}
}

// Forget forgets a pod, and returns the others whose needs may be others now, sorted. It must have been released.
func (b *Book) Forget(uid facts.UID) []facts.UID {
	u := b.pods[uid]
	if u == nil {
		return nil
	}
	delete(b.pods, uid)
	affected := make(pods)
	for name := range u.claims {
		leave(b.users, name, uid)
		if u.gang {
			b.shared(name, 1, affected)
		}
	}
	for _, a := range u.attached {
		b.attachments.unshare(u, a.VolumeHandle, affected)
	}
	return affected.list()
}

// claims visits the claims that a pod uses.
func (u *user) claims(yield func(facts.ClaimName, facts.ClaimUse) bool) {
	for _, use := range u.uses {
		if use.Claim != "" && !yield(facts.ClaimName{Namespace: u.namespace, Name: use.Claim}, use) {
			return
		}
	}
}

// Uses returns the claims that a pod uses; the caller must not change them.
func (t *userTable) Uses(uid facts.UID) []facts.ClaimUse {
	if u := t.pods[uid]; u != nil {
		return u.uses
	}
	return nil
}
