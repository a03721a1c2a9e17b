package dra

import (
	"slices"

	"hilbert.dev/hilbert/cluster/facts"
)

// Book is what is known of devices and claims. The zero value is not usable; see New.
type Book struct {
	devices  devices
	claims   map[facts.ClaimName]*facts.ResourceClaim
	users    map[facts.ClaimName]map[facts.UID]*user
	pods     map[facts.UID]*user
	promised map[facts.ClaimName]*promise  // the allocations that the API server was not seen to have
	giving   map[facts.ClaimName][]*giving // what is being given back
	owed     []GiveBack
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
		devices: newDevices(), claims: make(map[facts.ClaimName]*facts.ResourceClaim),
		users: make(map[facts.ClaimName]map[facts.UID]*user), pods: make(map[facts.UID]*user),
		promised: make(map[facts.ClaimName]*promise), giving: make(map[facts.ClaimName][]*giving),
	}
}

// SetAllocator sets who chooses devices. It is set once, before the first event.
func (b *Book) SetAllocator(a Allocator) { b.devices.allocator = a }

// Set takes in an object, and returns the pods whose needs may be others now, sorted.
func (b *Book) Set(object facts.DRAObject) []facts.UID {
	switch o := object.(type) {
	case *facts.ResourceClaim:
		return b.setClaim(o.ClaimName, o)
	case *facts.DeviceClass:
		return b.setClass(o.Name, o)
	case *facts.ResourceSlice:
		b.devices.setSlice(o.Name, o)
	case *facts.DeviceTaintRule:
		b.devices.setRule(o.Name, o)
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
		b.devices.setSlice(name.Name, nil)
	case facts.DeviceTaintRuleKind:
		b.devices.setRule(name.Name, nil)
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
		for name := range b.devices.classes {
			list = append(list, facts.DRAName{Kind: kind, Name: name})
		}
	case facts.ResourceSliceKind:
		for name := range b.devices.slices {
			list = append(list, facts.DRAName{Kind: kind, Name: name})
		}
	case facts.DeviceTaintRuleKind:
		for name := range b.devices.rules {
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
	b.devices.retake(name, before, b.allocation(name))
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

func (b *Book) setClass(name string, class *facts.DeviceClass) []facts.UID {
	b.devices.setClass(name, class)
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
	if b.devices.none(node.Name) {
		return nil
	}
	return b.devices.view(node)
}

// ViewWithout is what there would be of devices for a node if the claims of a pod had none.
func (b *Book) ViewWithout(uid facts.UID, node *facts.Node) *View {
	u := b.pods[uid]
	if u == nil {
		return b.View(node)
	}
	return b.devices.viewWithout(node, u.claims())
}

// Changed returns the nodes whose Views are others since it was last asked, or that all are.
func (b *Book) Changed() (nodes []string, all bool) { return b.devices.takeChanged() }
