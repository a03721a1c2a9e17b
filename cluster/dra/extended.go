package dra

import (
	"slices"
	"strings"

	"hilbert.dev/hilbert/cluster/facts"
)

// Pods that ask for extended resources which DeviceClasses stand for get a claim that Hilbert makes: its name says for which pod and what it asks for. Made once it
// stays, for the pod owns it: a placement that comes to nothing gives its devices back, and the next that asks for the same uses it again.

// extendedClaim is the claim that a pod needs on nodes that publish none of some resources.
type extendedClaim struct {
	name     facts.ClaimName
	requests facts.ClaimRequests
	mappings []facts.RequestMapping
}

// classFor is the DeviceClass that stands for a resource; empty: none does.
func (b *Book) classFor(resource string) string {
	if name, ok := strings.CutPrefix(resource, facts.ImplicitResourcePrefix); ok {
		if b.devices.classes[name] != nil {
			return name
		}
		return ""
	}
	var best *facts.DeviceClass
	for _, c := range b.devices.classes {
		if c.Extended == resource && (best == nil || c.Created > best.Created || c.Created == best.Created && c.Name < best.Name) {
			best = c
		}
	}
	if best == nil {
		return ""
	}
	return best.Name
}

// stoodFor lists the resources of a pod that DeviceClasses stand for, sorted.
func (b *Book) stoodFor(u *user) (resources []string) {
	if b.devices.allocator == nil {
		return nil
	}
	for _, name := range facts.ExtendedResources(u.extended) {
		if b.classFor(name) != "" {
			resources = append(resources, name)
		}
	}
	return resources
}

// extendedClaim is the claim of a pod for a set of resources: bit i for resources[i].
func (b *Book) extendedClaim(u *user, resources []string, set int) extendedClaim {
	classOf := make(map[string]string)
	for i, name := range resources {
		if set&(1<<i) != 0 {
			classOf[name] = b.classFor(name)
		}
	}
	requests, mappings := facts.ExtendedClaim(u.extended, classOf)
	c := extendedClaim{requests: b.devices.allocator.Exactly(requests), mappings: mappings}
	c.name = facts.ExtendedClaimName(u.namespace, u.name, u.uid, c.requests.Key)
	return c
}

// extend adds what a pod needs for its extended resources. waits is why no node can be chosen.
func (b *Book) extend(n *facts.ClaimNeeds, u *user) (waits string) {
	resources := b.stoodFor(u)
	if len(resources) == 0 {
		return ""
	}
	if len(resources) > facts.MaxExtended {
		return "the pod asks for more extended resources that DeviceClasses stand for than Hilbert tries: " + strings.Join(resources, ", ")
	}
	variants := make([]*facts.ClaimNeeds, 1<<len(resources))
	for set := range 1 << len(resources) {
		variant := &facts.ClaimNeeds{
			Allocated: slices.Clip(n.Allocated), Unallocated: slices.Clip(n.Unallocated), Shared: slices.Clip(n.Shared), Reserved: n.Reserved, Worth: n.Worth, Key: n.Key,
		}
		variants[set] = variant
		if set == 0 {
			continue
		}
		c := b.extendedClaim(u, resources, set)
		switch known := b.claims[c.name]; {
		case len(b.giving[c.name]) > 0:
			return `resourceclaim "` + c.name.Name + `" is being given back`
		case known != nil && (known.Deleting || known.Pod != u.uid):
			return `resourceclaim "` + c.name.Name + `" is being deleted, or was not created for the pod`
		}
		if a := b.allocation(c.name); a != nil {
			if a.Nodes != nil {
				variant.Allocated = append(variant.Allocated, a.Nodes)
			}
			clear(variants[:set]) // it has devices: the pod goes where these are
			clear(variants[set+1:])
			n.Allocated = variant.Allocated
			break
		}
		variant.Unallocated = append(variant.Unallocated, c.requests)
		if len(variant.Shared) > 0 {
			variant.Shared = append(variant.Shared, facts.ClaimName{})
		}
		key := facts.Key(variant.Key)
		key.Text(c.requests.Key)
		variant.Key = string(key)
	}
	n.Extended, n.Variants = resources, variants
	return ""
}

// madeFor is the claim that is made for a pod on a node that publishes some resources; nil: none is.
func (b *Book) madeFor(u *user, needs *facts.ClaimNeeds, publishes func(resource string) bool) *extendedClaim {
	set := 0
	for i, name := range needs.Extended {
		if !publishes(name) {
			set |= 1 << i
		}
	}
	if set == 0 || needs.Variants[set] == nil {
		return nil
	}
	c := b.extendedClaim(u, needs.Extended, set)
	return &c
}

// make lets a pod use the claim that is made for it.
func (b *Book) make(u *user, c *extendedClaim) {
	if c == nil {
		return
	}
	u.made = c.name
	if b.users[c.name] == nil {
		b.users[c.name] = make(map[facts.UID]*user)
	}
	b.users[c.name][u.uid] = u
}

// unmake ends that: where the pod goes next it may need another.
func (b *Book) unmake(u *user) {
	if u.made.Name == "" || u.placed {
		return
	}
	delete(b.users[u.made], u.uid)
	if len(b.users[u.made]) == 0 {
		delete(b.users, u.made)
	}
	u.made = facts.ClaimName{}
}
