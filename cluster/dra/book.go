package dra

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"hilbert.dev/hilbert/cluster/facts"
)

// Book is what is known of devices and claims. The zero value is not usable; see New.
type Book struct {
	allocator  Allocator
	claims     map[facts.ClaimName]*facts.ResourceClaim
	classes    map[string]*facts.DeviceClass     // copied on write: Views share it
	slices     map[string]*facts.ResourceSlice   // as drivers publish them
	rules      map[string]*facts.DeviceTaintRule // whose taints the slices in pools have
	pools      map[facts.PoolID]*pool
	onNode     map[string]map[facts.PoolID]*pool // pools that one node alone has
	spread     map[facts.PoolID]*pool            // the others that have slices
	users      map[facts.ClaimName]map[facts.UID]*user
	pods       map[facts.UID]*user
	promised   map[facts.ClaimName]*promise  // the allocations that the API server was not seen to have
	giving     map[facts.ClaimName][]*giving // what is being given back
	owed       []GiveBack
	shared     *part           // of the spread pools; nil: to be made
	changed    map[string]bool // nodes whose View is another now
	changedAll bool
}

// pool is a pool of devices: its slices, and what claims have of it.
type pool struct {
	facts.PoolID
	slices map[string]*facts.ResourceSlice
	taken  map[facts.ClaimName][]facts.AllocatedDevice
	node   string // that alone has it; empty: several may, or it has no slices
}

// user is a pod that uses claims.
type user struct {
	uid       facts.UID
	namespace string
	name      string
	uses      []facts.ResourceClaimUse
	extended  []facts.ExtendedContainer
	gang      bool            // it is a member of one
	made      facts.ClaimName // the claim of its place for extended resources; empty: none
	placed    bool
	promises  []*promise
}

// promise is that a claim is given devices, or reserved for a pod, or both.
type promise struct {
	claim      facts.ClaimName
	uid        string                 // the claim's
	allocation *facts.ClaimAllocation // nil: it has one, or another pod's promise gives it one
	made       *extendedClaim         // for extended resources; nil: it is another claim
	mapped     bool                   // the pod's status names the claim that was made
	created    bool                   // the API server has it
	written    bool                   // the API server has taken it, or may have
	confirmed  bool                   // it certainly has
	seen       bool                   // the watch has said so
}

// New returns an empty Book. Without an allocator no claim is given anything.
func New() *Book {
	return &Book{
		claims: make(map[facts.ClaimName]*facts.ResourceClaim), classes: make(map[string]*facts.DeviceClass),
		slices: make(map[string]*facts.ResourceSlice), rules: make(map[string]*facts.DeviceTaintRule), pools: make(map[facts.PoolID]*pool),
		onNode: make(map[string]map[facts.PoolID]*pool), spread: make(map[facts.PoolID]*pool),
		users: make(map[facts.ClaimName]map[facts.UID]*user), pods: make(map[facts.UID]*user),
		promised: make(map[facts.ClaimName]*promise), giving: make(map[facts.ClaimName][]*giving), changed: make(map[string]bool),
	}
}

// SetAllocator sets who chooses devices. It is set once, before the first event.
func (b *Book) SetAllocator(a Allocator) { b.allocator = a }

// Set takes in an object, and returns the pods whose needs may be others now, sorted.
func (b *Book) Set(object facts.DRAObject) []facts.UID {
	switch o := object.(type) {
	case *facts.ResourceClaim:
		return b.setClaim(o.ClaimName, o)
	case *facts.DeviceClass:
		return b.setClass(o.Name, o)
	case *facts.ResourceSlice:
		b.setSlice(o.Name, o)
	case *facts.DeviceTaintRule:
		b.setRule(o.Name, o)
	}
	return nil
}

// Remove forgets an object, and returns the pods whose needs may be others now, sorted.
func (b *Book) Remove(name facts.DRAName) []facts.UID {
	switch name.Kind {
	case facts.ResourceClaimKind:
		return b.setClaim(facts.ClaimName{Namespace: name.Namespace, Name: name.Name}, nil)
	case facts.DeviceClassKind:
		return b.setClass(name.Name, nil)
	case facts.ResourceSliceKind:
		b.setSlice(name.Name, nil)
	case facts.DeviceTaintRuleKind:
		b.setRule(name.Name, nil)
	}
	return nil
}

// Names lists the objects of a kind, sorted.
func (b *Book) Names(kind facts.DRAKind) (list []facts.DRAName) {
	switch kind {
	case facts.ResourceClaimKind:
		for name := range b.claims {
			list = append(list, facts.DRAName{Kind: kind, Namespace: name.Namespace, Name: name.Name})
		}
	case facts.DeviceClassKind:
		for name := range b.classes {
			list = append(list, facts.DRAName{Kind: kind, Name: name})
		}
	case facts.ResourceSliceKind:
		for name := range b.slices {
			list = append(list, facts.DRAName{Kind: kind, Name: name})
		}
	case facts.DeviceTaintRuleKind:
		for name := range b.rules {
			list = append(list, facts.DRAName{Kind: kind, Name: name})
		}
	}
	slices.SortFunc(list, facts.CompareDRANames)
	return list
}

func (b *Book) setClaim(name facts.ClaimName, claim *facts.ResourceClaim) []facts.UID {
	before := b.allocation(name)
	if claim == nil {
		delete(b.claims, name)
	} else {
		b.claims[name] = claim
	}
	if p := b.promised[name]; p != nil && p.uid != "" && (claim == nil || p.uid != claim.UID || claim.Allocation != nil) {
		delete(b.promised, name) // what the API server says counts from now on
	}
	if claim != nil {
		for uid, u := range b.users[name] {
			for _, p := range u.promises {
				if p.claim == name && p.made != nil && p.uid == "" && claim.Pod == uid {
					p.uid = claim.UID
				}
				p.seen = p.seen || p.claim == name && p.uid == claim.UID && claim.Allocation != nil && claim.ReservedForUID(uid)
			}
		}
	}
	b.retake(name, before)
	b.settleGivings(name)
	affected := b.usersOf(name)
	if claim != nil && b.pods[claim.Pod] != nil && len(b.pods[claim.Pod].extended) > 0 && !slices.Contains(affected, claim.Pod) {
		affected = append(affected, claim.Pod) // it may be one that was made for the pod
		slices.Sort(affected)
	}
	return affected
}

// allocation is what a claim has, or is promised.
func (b *Book) allocation(name facts.ClaimName) *facts.ClaimAllocation {
	if c := b.claims[name]; c != nil && c.Allocation != nil {
		return c.Allocation
	}
	if p := b.promised[name]; p != nil {
		return p.allocation
	}
	return nil
}

// retake takes note of what a claim has now, and had before.
func (b *Book) retake(name facts.ClaimName, before *facts.ClaimAllocation) {
	now := b.allocation(name)
	if now == before || now != nil && before != nil && slices.EqualFunc(now.Devices, before.Devices, sameDevice) {
		return
	}
	if before != nil {
		for i := range before.Devices {
			p := b.pool(poolOf(&before.Devices[i]))
			delete(p.taken, name)
			b.touch(p)
			b.sweep(p)
		}
	}
	if now == nil {
		return
	}
	for i := range now.Devices {
		if d := &now.Devices[i]; !d.Admin {
			p := b.pool(poolOf(d))
			p.taken[name] = append(p.taken[name], *d)
			b.touch(p)
		}
	}
}

func sameDevice(a, b facts.AllocatedDevice) bool {
	return a.DeviceID == b.DeviceID && a.Admin == b.Admin && a.Share == b.Share && a.Consumed == b.Consumed
}

func poolOf(d *facts.AllocatedDevice) facts.PoolID {
	return facts.PoolID{Driver: d.Driver, Pool: d.Pool}
}

func (b *Book) pool(id facts.PoolID) *pool {
	p := b.pools[id]
	if p == nil {
		p = &pool{PoolID: id, slices: make(map[string]*facts.ResourceSlice), taken: make(map[facts.ClaimName][]facts.AllocatedDevice)}
		b.pools[id] = p
	}
	return p
}

// sweep forgets a pool of which nothing is known any more.
func (b *Book) sweep(p *pool) {
	if len(p.slices) == 0 && len(p.taken) == 0 {
		delete(b.pools, p.PoolID)
	}
}

// touch takes note that what is left of a pool has changed.
func (b *Book) touch(p *pool) {
	switch {
	case p.node != "":
		b.changed[p.node] = true
	case len(p.slices) > 0:
		b.changedAll, b.shared = true, nil
	}
}

func (b *Book) setSlice(name string, slice *facts.ResourceSlice) {
	if old := b.slices[name]; old != nil {
		p := b.pool(old.PoolID)
		b.leave(p)
		delete(p.slices, name)
		delete(b.slices, name)
		b.enter(p)
		b.sweep(p)
	}
	if slice != nil {
		p := b.pool(slice.PoolID)
		b.leave(p)
		p.slices[name], b.slices[name] = b.tainted(slice), slice
		b.enter(p)
	}
}

// tainted is a slice with the taints that rules give to its devices.
func (b *Book) tainted(slice *facts.ResourceSlice) *facts.ResourceSlice {
	var about []*facts.DeviceTaintRule
	for _, name := range slices.Sorted(maps.Keys(b.rules)) {
		if b.rules[name].Concerns(slice.PoolID) {
			about = append(about, b.rules[name])
		}
	}
	if len(about) == 0 || b.allocator == nil {
		return slice
	}
	return b.allocator.Taint(slice, about)
}

func (b *Book) setRule(name string, rule *facts.DeviceTaintRule) {
	old := b.rules[name]
	if delete(b.rules, name); rule != nil {
		b.rules[name] = rule
	}
	for _, p := range b.pools {
		if old != nil && old.Concerns(p.PoolID) || rule != nil && rule.Concerns(p.PoolID) {
			for slice := range p.slices {
				p.slices[slice] = b.tainted(b.slices[slice])
			}
			b.touch(p)
		}
	}
}

// leave and enter keep where the devices of a pool are, around a change of its slices.
func (b *Book) leave(p *pool) {
	b.touch(p)
	if p.node != "" {
		delete(b.onNode[p.node], p.PoolID)
		if len(b.onNode[p.node]) == 0 {
			delete(b.onNode, p.node)
		}
	}
	delete(b.spread, p.PoolID)
	p.node = ""
}

func (b *Book) enter(p *pool) {
	first := true
	for _, s := range p.slices {
		if first {
			p.node, first = s.Node, false
		} else if p.node != s.Node {
			p.node = ""
			break
		}
	}
	switch {
	case p.node != "":
		if b.onNode[p.node] == nil {
			b.onNode[p.node] = make(map[facts.PoolID]*pool)
		}
		b.onNode[p.node][p.PoolID] = p
	case len(p.slices) > 0:
		b.spread[p.PoolID] = p
	}
	b.touch(p)
}

func (b *Book) setClass(name string, class *facts.DeviceClass) []facts.UID {
	b.classes = maps.Clone(b.classes)
	if class == nil {
		delete(b.classes, name)
	} else {
		b.classes[name] = class
	}
	b.changedAll = true
	var affected []facts.UID
	for uid, u := range b.pods {
		if b.names(u, name) {
			affected = append(affected, uid)
		}
	}
	slices.Sort(affected)
	return affected
}

// names reports whether a pod has a claim that names a class.
func (b *Book) names(u *user, class string) bool {
	if len(u.extended) > 0 { // it may stand for one of its resources, now or before
		return true
	}
	for _, use := range u.uses {
		claim := b.claims[facts.ClaimName{Namespace: u.namespace, Name: use.Claim}]
		if claim != nil && slices.ContainsFunc(claim.Requests.Classes, func(c facts.ClassUse) bool { return c.Class == class }) {
			return true
		}
	}
	return false
}

// View is what there is of devices for a node; nil if there is nothing.
func (b *Book) View(node *facts.Node) *View {
	if len(b.onNode[node.Name]) == 0 && len(b.spread) == 0 {
		return nil
	}
	return b.view(node)
}

// ViewWithout is what there would be of devices for a node if the claims of a pod had none.
func (b *Book) ViewWithout(uid facts.UID, node *facts.Node) *View {
	u := b.pods[uid]
	if u == nil {
		return b.View(node)
	}
	v, without := b.view(node), u.claims()
	v.local, v.shared = *newPart(b.onNode[node.Name], without...), *newPart(b.spread, without...)
	return v
}

func (b *Book) view(node *facts.Node) *View {
	if b.shared == nil {
		b.shared = newPart(b.spread)
	}
	return &View{allocator: b.allocator, node: node, classes: b.classes, local: *newPart(b.onNode[node.Name]), shared: *b.shared}
}

// newPart lists the slices of pools, and what is taken of them by other claims than some, in an order that does not depend on the maps.
func newPart(pools map[facts.PoolID]*pool, without ...facts.ClaimName) *part {
	out := &part{}
	ids := slices.SortedFunc(maps.Keys(pools), func(x, y facts.PoolID) int {
		return cmp.Or(strings.Compare(x.Driver, y.Driver), strings.Compare(x.Pool, y.Pool))
	})
	for _, id := range ids {
		p := pools[id]
		for _, name := range slices.Sorted(maps.Keys(p.slices)) {
			out.slices = append(out.slices, p.slices[name])
		}
		for _, claim := range slices.SortedFunc(maps.Keys(p.taken), facts.CompareClaimNames) {
			if !slices.Contains(without, claim) {
				out.taken = append(out.taken, p.taken[claim]...)
			}
		}
	}
	return out
}

// Changed returns the nodes whose Views are others since it was last asked, or that all are.
func (b *Book) Changed() (nodes []string, all bool) {
	if !b.changedAll && len(b.changed) == 0 {
		return nil, false
	}
	nodes, all = slices.Sorted(maps.Keys(b.changed)), b.changedAll
	clear(b.changed)
	b.changedAll = false
	return nodes, all
}
