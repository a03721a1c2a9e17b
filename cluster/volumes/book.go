package volumes

import (
	"maps"
	"slices"

	"hilbert.dev/hilbert/cluster/facts"
)

// Book is what is known of storage. The zero value is not usable; see New.
type Book struct {
	claims     map[facts.ClaimName]*facts.Claim
	volumes    map[string]*facts.Volume
	classes    map[string]*facts.StorageClass
	drivers    map[string]*facts.StorageDriver
	capacities map[facts.StorageName]*facts.StorageCapacity

	byClass  map[string]map[string]*facts.Volume // volumes that nothing is bound to for good, by storage class and name
	unbound  map[string]map[facts.ClaimName]bool // claims that are not bound, by storage class
	naming   map[string]map[facts.ClaimName]bool // claims that name a volume, by its name
	rooms    map[string]map[facts.StorageName]*facts.StorageCapacity
	users    map[facts.ClaimName]map[facts.UID]*user
	pods     map[facts.UID]*user
	promised map[string]facts.ClaimName // volumes
	told     map[facts.ClaimName]*promise
}

// user is a pod that uses claims.
type user struct {
	uid       facts.UID
	namespace string
	uses      []facts.ClaimUse
	placed    bool
	promises  []*promise // that wait to be carried out
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
		claims: make(map[facts.ClaimName]*facts.Claim), volumes: make(map[string]*facts.Volume), classes: make(map[string]*facts.StorageClass),
		drivers: make(map[string]*facts.StorageDriver), capacities: make(map[facts.StorageName]*facts.StorageCapacity),
		byClass: make(map[string]map[string]*facts.Volume), unbound: make(map[string]map[facts.ClaimName]bool),
		naming: make(map[string]map[facts.ClaimName]bool),
		rooms:  make(map[string]map[facts.StorageName]*facts.StorageCapacity),
		users:  make(map[facts.ClaimName]map[facts.UID]*user), pods: make(map[facts.UID]*user),
		promised: make(map[string]facts.ClaimName), told: make(map[facts.ClaimName]*promise),
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
		b.classes[o.Name] = o
		b.ofClass(o.Name, affected)
	case *facts.StorageDriver:
		b.drivers[o.Name] = o
		b.ofDriver(o.Name, affected)
	case *facts.StorageCapacity:
		b.setCapacity(o.StorageName(), o, affected)
	}
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
		delete(b.classes, name.Name)
		b.ofClass(name.Name, affected)
	case facts.CSIDriver:
		delete(b.drivers, name.Name)
		b.ofDriver(name.Name, affected)
	case facts.CSIStorageCapacity:
		b.setCapacity(name, nil, affected)
	}
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
	_ = eachOf(b.claims, yield) && eachOf(b.volumes, yield) && eachOf(b.classes, yield) && eachOf(b.drivers, yield) && eachOf(b.capacities, yield)
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
func (b *Book) ofClaim(name facts.ClaimName, to pods) {
	for uid := range b.users[name] {
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

func (b *Book) setVolume(name string, volume *facts.Volume, to pods) {
	for _, v := range [...]*facts.Volume{b.volumes[name], volume} {
		if v != nil {
			b.ofClaim(v.Claim, to)
			b.ofClass(v.StorageClass, to)
		}
	}
	for claim := range b.naming[name] {
		b.ofClaim(claim, to)
	}
	if old := b.volumes[name]; old != nil {
		leave(b.byClass, old.StorageClass, name)
		delete(b.volumes, name)
	}
	if claim, ok := b.promised[name]; ok {
		b.ofClaim(claim, to)
	}
	if volume == nil {
		return
	}
	b.volumes[name] = volume
	if volume.Available || volume.Claim != (facts.ClaimName{}) {
		enter(b.byClass, volume.StorageClass, name, volume)
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

// Use says which claims a pod uses. A pod that uses none is not known to the Book.
func (b *Book) Use(uid facts.UID, namespace string, uses []facts.ClaimUse) {
	if len(uses) == 0 || b.pods[uid] != nil {
		return // what volumes a pod has never changes
	}
	u := &user{uid: uid, namespace: namespace, uses: uses}
	b.pods[uid] = u
	for _, use := range uses {
		enter(b.users, facts.ClaimName{Namespace: namespace, Name: use.Claim}, uid, u)
	}
}

// Forget forgets a pod. It must have been released.
func (b *Book) Forget(uid facts.UID) {
	u := b.pods[uid]
	if u == nil {
		return
	}
	delete(b.pods, uid)
	for _, use := range u.uses {
		leave(b.users, facts.ClaimName{Namespace: u.namespace, Name: use.Claim}, uid)
	}
}

// Uses returns the claims that a pod uses; the caller must not change them.
func (b *Book) Uses(uid facts.UID) []facts.ClaimUse {
	if u := b.pods[uid]; u != nil {
		return u.uses
	}
	return nil
}
