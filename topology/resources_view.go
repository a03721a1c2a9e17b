package topology

import (
	"math/bits"
	"slices"
	"strings"
)

// What plugins bring takes part in an offer as devices and NUMA nodes do: a domain holds a request if its NUMA nodes, with what is near none, have as much as is
// asked for of each resource. Without Near, a pod gets it from the closest domain that holds all of the pod, and its CPUs from there too.

// resourceAsk is what is asked for of the node's Resources, by index.
type resourceAsk [MaxResources]int64

// asksResources fills in what a request asks for of what is counted by NUMA node here, and reports whether that is anything.
func (v *View) asksResources(r *Request, ask *resourceAsk) (any bool) {
	if r.Resources == "" || len(v.Resources) == 0 || v.ResourcesFree == nil {
		return false
	}
	for name, amount := range r.Resources.All() {
		if i := v.resource(name); i >= 0 {
			ask[i], any = amount, true
		}
	}
	return any
}

// resource is the index of a resource; below 0: it is not counted by NUMA node here.
func (v *View) resource(name string) int {
	i, found := slices.BinarySearchFunc(v.Resources, name, func(r Resource, name string) int { return strings.Compare(r.Name, name) })
	if !found || i >= MaxResources {
		return -1
	}
	return i
}

// BringsAny reports whether the node counts any of what is asked for by NUMA node.
func (v *View) BringsAny(r *Request) bool {
	var ask resourceAsk
	return v.asksResources(r, &ask)
}

// WithoutResources is the node as it is to a pod that asks for nothing that plugins bring.
func (v View) WithoutResources() View {
	v.Resources, v.ResourcesFree = nil, nil
	return v
}

// holdsResources reports whether a set of NUMA nodes has as much as is asked for.
func (v *View) holdsResources(ask *resourceAsk, set uint8) bool {
	return v.fewResource(ask, set) < 0
}

// fewResource is the first resource of which a set of NUMA nodes has too little; below 0: none.
func (v *View) fewResource(ask *resourceAsk, set uint8) int {
	for i := range min(len(v.Resources), MaxResources) {
		if ask[i] > 0 && v.ResourcesFree[i].Within(set) < ask[i] {
			return i
		}
	}
	return -1
}

// resourcesWithin is how much a set of NUMA nodes has left of all that is asked for.
func (v *View) resourcesWithin(ask *resourceAsk, set uint8) (left int64) {
	for i := range min(len(v.Resources), MaxResources) {
		if ask[i] > 0 {
			left += v.ResourcesFree[i].Within(set)
		}
	}
	return left
}

// giveResources chooses what is asked for from a set of NUMA nodes that holds it, beside those of the rest of the grant.
func (v *View) giveResources(ask *resourceAsk, among uint8, g *Grant) (out ResourceGrant) {
	beside := g.NUMANodes.NUMANodes() | v.deviceNUMANodes(g)
	for i := range min(len(v.Resources), MaxResources) {
		if ask[i] > 0 {
			given := v.ResourcesFree[i].give(ask[i], among, beside)
			out = out.append(v.Resources[i].Name, &given)
			beside |= given.NUMANodes()
		}
	}
	return out
}

// deviceNUMANodes are those of a grant's GPUs and network cards, as far as they are known.
func (v *View) deviceNUMANodes(g *Grant) (set uint8) {
	d := v.Shape.Devices
	if d == nil {
		return 0
	}
	add := func(numa uint8) {
		if numa < MaxNUMANodes {
			set |= 1 << numa
		}
	}
	for left := g.GPUs; left != 0 && d.Owner == OwnerHilbert; left &= left - 1 {
		if i := bits.TrailingZeros16(left); i < len(d.GPU) {
			add(d.GPU[i].NUMANode)
		}
	}
	for left := g.NICs; left != 0; left &= left - 1 {
		if i := bits.TrailingZeros16(left); i < len(d.NIC) {
			add(d.NIC[i].NUMANode)
		}
	}
	return set
}

// fitResources reports whether a grant gives exactly what is asked for of what is counted here, and no more than is left.
func (v *View) fitResources(r *Request, g *Grant) bool {
	var ask resourceAsk
	v.asksResources(r, &ask)
	for name, a := range g.Resources.All() {
		i := v.resource(name)
		if i < 0 || v.ResourcesFree == nil || a.Sum() != ask[i] || !v.ResourcesFree[i].has(&a) {
			return false
		}
		ask[i] = 0
	}
	return ask == resourceAsk{}
}

// has reports whether amounts can be taken. What is not asked for may be overdrawn.
func (a *Amounts) has(b *Amounts) bool {
	for z, n := range b.NUMA {
		if n < 0 || n > 0 && a.NUMA[z] < n {
			return false
		}
	}
	return b.Far == 0 || b.Far > 0 && a.Far >= b.Far
}

// forceResources chooses for a pod that runs already without a record: what there is, and of what is missing as if the first NUMA node had it.
func (v *View) forceResources(r *Request, g *Grant) (out ResourceGrant) {
	var ask resourceAsk
	if !v.asksResources(r, &ask) {
		return ""
	}
	for i := range min(len(v.Resources), MaxResources) {
		if ask[i] == 0 {
			continue
		}
		var one resourceAsk
		one[i] = ask[i]
		if v.holdsResources(&one, ^uint8(0)) {
			given := v.giveResources(&one, ^uint8(0), g)
			a := given.Of(v.Resources[i].Name)
			out = out.append(v.Resources[i].Name, &a)
			continue
		}
		var a Amounts
		a.NUMA[0] = ask[i]
		out = out.append(v.Resources[i].Name, &a)
	}
	return out
}

// moveResources charges what a grant holds, sign times. What is not counted here any more is left out.
func (v *View) moveResources(g *Grant, sign int64) {
	if g.Resources == "" || v.ResourcesFree == nil {
		return
	}
	for name, a := range g.Resources.All() {
		if i := v.resource(name); i >= 0 {
			v.ResourcesFree[i].move(&a, -sign)
		}
	}
}
