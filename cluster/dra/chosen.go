package dra

import (
	"slices"

	"hilbert.dev/hilbert/cluster/facts"
)

// Chosen is what placements have chosen for ResourceClaims that are being tried, or that the ledger has not answered yet, as far as it counts on other nodes than
// their own: devices of pools that several nodes share, and what the claims of several pods were given. What else they take is in the View of their node. The
// zero value has nothing.
//
// Example: two members of a gang use one claim. The first goes to n1 and the claim gets a device there; the second can go where that device can be used.
type Chosen struct {
	devices  []chosenDevice
	claims   map[facts.ClaimName]*chosenClaim
	reserved map[facts.ClaimName]int
}

type chosenDevice struct {
	node string // of the pod
	facts.AllocatedDevice
}

type chosenClaim struct {
	allocation *facts.ClaimAllocation
	pods       int
}

// ChosenBy is what one placement chose, to be taken back in reverse order. Nil: nothing.
type ChosenBy struct {
	devices  int // how many there were before
	claims   []facts.ClaimName
	reserved []facts.ClaimName
}

// Nothing reports whether nothing was chosen.
func (c *Chosen) Nothing() bool {
	return len(c.devices)+len(c.claims)+len(c.reserved) == 0
}

// Forget forgets all.
func (c *Chosen) Forget() { *c = Chosen{} }

// Add takes note of what a pod chooses on the node of a View, and returns the View that is left.
func (c *Chosen) Add(v *View, node *facts.Node, needs *facts.ClaimNeeds) (left *View, by *ChosenBy) {
	by = &ChosenBy{devices: len(c.devices)}
	if needs == nil {
		return v, by
	}
	for _, r := range needs.Reserved {
		if c.reserved == nil {
			c.reserved = make(map[facts.ClaimName]int)
		}
		c.reserved[r.Claim]++
		by.reserved = append(by.reserved, r.Claim)
	}
	asked := c.rest(needs)
	for _, name := range needs.Shared {
		if known := c.claims[name]; known != nil {
			known.pods++
			by.claims = append(by.claims, name)
		}
	}
	if v == nil || len(asked.Unallocated) == 0 {
		return v, by
	}
	beside := v.beside(c)
	a := beside.answer(asked)
	if a.refusal != "" {
		return v, by
	}
	for i, allocation := range a.allocations {
		for _, d := range allocation.Devices {
			if v.shares(d.DeviceID) {
				c.devices = append(c.devices, chosenDevice{node.Name, d})
			}
		}
		if name := asked.SharedName(i); name != (facts.ClaimName{}) {
			if c.claims == nil {
				c.claims = make(map[facts.ClaimName]*chosenClaim)
			}
			c.claims[name] = &chosenClaim{allocation, 1}
			by.claims = append(by.claims, name)
		}
	}
	if beside == v {
		return v.After(asked), by
	}
	return v.with(a.allocations), by
}

// Drop takes back what a pod chose.
func (c *Chosen) Drop(by *ChosenBy) {
	if by == nil {
		return
	}
	c.devices = c.devices[:min(by.devices, len(c.devices))]
	for _, name := range by.claims {
		if known := c.claims[name]; known.pods > 1 {
			known.pods--
		} else {
			delete(c.claims, name)
		}
	}
	for _, name := range by.reserved {
		if c.reserved[name]--; c.reserved[name] == 0 {
			delete(c.reserved, name)
		}
	}
}

// rest is what a pod asks for beside what was chosen for claims that it shares.
func (c *Chosen) rest(needs *facts.ClaimNeeds) *facts.ClaimNeeds {
	if !slices.ContainsFunc(needs.Shared, func(name facts.ClaimName) bool { return c.claims[name] != nil }) {
		return needs
	}
	rest := &facts.ClaimNeeds{Allocated: slices.Clip(needs.Allocated), Worth: needs.Worth, Reserved: needs.Reserved}
	var key facts.Key
	for i := range needs.Unallocated {
		r := &needs.Unallocated[i]
		name := needs.SharedName(i)
		if known := c.claims[name]; known != nil {
			if known.allocation.Nodes != nil {
				rest.Allocated = append(rest.Allocated, known.allocation.Nodes)
			}
			rest.Worth += r.Worth(known.allocation.Devices)
			continue
		}
		rest.Unallocated, rest.Shared = append(rest.Unallocated, *r), append(rest.Shared, name)
		key.Text(r.Key)
	}
	rest.Key = string(key)
	return rest
}

// FitsBeside reports whether the node can give a pod what its claims ask for beside what was chosen for other pods.
func (v *View) FitsBeside(node *facts.Node, needs *facts.ClaimNeeds, chosen *Chosen) bool {
	if needs == nil {
		return false
	}
	if slices.ContainsFunc(needs.Reserved, func(r facts.ClaimRoom) bool { return chosen.reserved[r.Claim] >= r.Left }) {
		return false
	}
	return v.beside(chosen).Fits(node, chosen.rest(needs))
}

// beside is the View without what was chosen on other nodes of the pools that it shares with them; the View itself if that is nothing.
func (v *View) beside(chosen *Chosen) *View {
	if v == nil || len(v.shared.slices) == 0 {
		return v
	}
	var taken []facts.AllocatedDevice
	for i := range chosen.devices {
		if d := &chosen.devices[i]; d.node != v.node.Name && v.shares(d.DeviceID) {
			taken = append(taken, d.AllocatedDevice)
		}
	}
	if len(taken) == 0 {
		return v
	}
	next := *v
	next.answers, next.shared.taken = nil, slices.Concat(v.shared.taken, taken)
	return &next
}

// shares reports whether a device is of a pool that several nodes share.
func (v *View) shares(d facts.DeviceID) bool {
	return slices.ContainsFunc(v.shared.slices, func(s *facts.ResourceSlice) bool { return s.Driver == d.Driver && s.Pool == d.Pool })
}
