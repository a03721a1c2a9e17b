package dra

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"hilbert.dev/hilbert/cluster/facts"
)

// devices are the devices that drivers publish, by pools, with what claims have of them, and the nodes for which that has changed.
type devices struct {
	allocator  Allocator
	classes    map[string]*facts.DeviceClass     // copied on write: Views share it
	slices     map[string]*facts.ResourceSlice   // as drivers publish them
	rules      map[string]*facts.DeviceTaintRule // whose taints the slices in pools have
	pools      map[facts.PoolID]*pool
	onNode     map[string]map[facts.PoolID]*pool // pools that one node alone has
	spread     map[facts.PoolID]*pool            // the others that have slices
	shared     *part                             // of the spread pools; nil: to be made
	changed    map[string]bool                   // nodes whose View is another now
	changedAll bool
}

func newDevices() devices {
	return devices{
		classes: make(map[string]*facts.DeviceClass), slices: make(map[string]*facts.ResourceSlice), rules: make(map[string]*facts.DeviceTaintRule),
		pools: make(map[facts.PoolID]*pool), onNode: make(map[string]map[facts.PoolID]*pool), spread: make(map[facts.PoolID]*pool), changed: make(map[string]bool),
	}
}

// pool is a pool of devices: its slices, and what claims have of it.
type pool struct {
	facts.PoolID
	slices map[string]*facts.ResourceSlice
	taken  map[facts.ClaimName][]facts.AllocatedDevice
	node   string // that alone has it; empty: several may, or it has no slices
}

func (d *devices) setClass(name string, class *facts.DeviceClass) {
	d.classes = maps.Clone(d.classes)
	if class == nil {
		delete(d.classes, name)
	} else {
		d.classes[name] = class
	}
	d.changedAll = true
}

// retake takes note of what a claim has now, and had before; nil: nothing.
func (d *devices) retake(name facts.ClaimName, before, now *facts.ClaimAllocation) {
	if now == before || now != nil && before != nil && slices.EqualFunc(now.Devices, before.Devices, sameDevice) {
		return
	}
	if before != nil {
		for i := range before.Devices {
			p := d.pool(poolOf(&before.Devices[i]))
			delete(p.taken, name)
			d.touch(p)
			d.sweep(p)
		}
	}
	if now == nil {
		return
	}
	for i := range now.Devices {
		if x := &now.Devices[i]; !x.Admin {
			p := d.pool(poolOf(x))
			p.taken[name] = append(p.taken[name], *x)
			d.touch(p)
		}
	}
}

func sameDevice(a, b facts.AllocatedDevice) bool {
	return a.DeviceID == b.DeviceID && a.Admin == b.Admin && a.Share == b.Share && a.Consumed == b.Consumed
}

func poolOf(d *facts.AllocatedDevice) facts.PoolID {
	return facts.PoolID{Driver: d.Driver, Pool: d.Pool}
}

func (d *devices) pool(id facts.PoolID) *pool {
	p := d.pools[id]
	if p == nil {
		p = &pool{PoolID: id, slices: make(map[string]*facts.ResourceSlice), taken: make(map[facts.ClaimName][]facts.AllocatedDevice)}
		d.pools[id] = p
	}
	return p
}

// sweep forgets a pool of which nothing is known any more.
func (d *devices) sweep(p *pool) {
	if len(p.slices) == 0 && len(p.taken) == 0 {
		delete(d.pools, p.PoolID)
	}
}

// touch takes note that what is left of a pool has changed.
func (d *devices) touch(p *pool) {
	switch {
	case p.node != "":
		d.changed[p.node] = true
	case len(p.slices) > 0:
		d.changedAll, d.shared = true, nil
	}
}

func (d *devices) setSlice(name string, slice *facts.ResourceSlice) {
	if old := d.slices[name]; old != nil {
		p := d.pool(old.PoolID)
		d.leave(p)
		delete(p.slices, name)
		delete(d.slices, name)
		d.enter(p)
		d.sweep(p)
	}
	if slice != nil {
		p := d.pool(slice.PoolID)
		d.leave(p)
		p.slices[name], d.slices[name] = d.tainted(slice), slice
		d.enter(p)
	}
}

// tainted is a slice with the taints that rules give to its devices.
func (d *devices) tainted(slice *facts.ResourceSlice) *facts.ResourceSlice {
	var about []*facts.DeviceTaintRule
	for _, name := range slices.Sorted(maps.Keys(d.rules)) {
		if d.rules[name].Concerns(slice.PoolID) {
			about = append(about, d.rules[name])
		}
	}
	if len(about) == 0 || d.allocator == nil {
		return slice
	}
	return d.allocator.Taint(slice, about)
}

func (d *devices) setRule(name string, rule *facts.DeviceTaintRule) {
	old := d.rules[name]
	if delete(d.rules, name); rule != nil {
		d.rules[name] = rule
	}
	for _, p := range d.pools {
		if old != nil && old.Concerns(p.PoolID) || rule != nil && rule.Concerns(p.PoolID) {
			for slice := range p.slices {
				p.slices[slice] = d.tainted(d.slices[slice])
			}
			d.touch(p)
		}
	}
}

// leave and enter keep where the devices of a pool are, around a change of its slices.
func (d *devices) leave(p *pool) {
	d.touch(p)
	if p.node != "" {
		delete(d.onNode[p.node], p.PoolID)
		if len(d.onNode[p.node]) == 0 {
			delete(d.onNode, p.node)
		}
	}
	delete(d.spread, p.PoolID)
	p.node = ""
}

func (d *devices) enter(p *pool) {
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
		if d.onNode[p.node] == nil {
			d.onNode[p.node] = make(map[facts.PoolID]*pool)
		}
		d.onNode[p.node][p.PoolID] = p
	case len(p.slices) > 0:
		d.spread[p.PoolID] = p
	}
	d.touch(p)
}

// none reports whether there is no device for a node.
func (d *devices) none(node string) bool { return len(d.onNode[node]) == 0 && len(d.spread) == 0 }

// viewWithout is what there would be for a node if some claims had nothing.
func (d *devices) viewWithout(node *facts.Node, claims []facts.ClaimName) *View {
	v := d.view(node)
	v.local, v.shared = *newPart(d.onNode[node.Name], claims...), *newPart(d.spread, claims...)
	return v
}

func (d *devices) view(node *facts.Node) *View {
	if d.shared == nil {
		d.shared = newPart(d.spread)
	}
	return &View{allocator: d.allocator, node: node, classes: d.classes, local: *newPart(d.onNode[node.Name]), shared: *d.shared}
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

// takeChanged returns the nodes whose Views are others since it was last asked, or that all are.
func (d *devices) takeChanged() (nodes []string, all bool) {
	if !d.changedAll && len(d.changed) == 0 {
		return nil, false
	}
	nodes, all = slices.Sorted(maps.Keys(d.changed)), d.changedAll
	clear(d.changed)
	d.changedAll = false
	return nodes, all
}
