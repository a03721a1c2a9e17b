package facts

import "slices"

// ChosenVolumes is what placements have chosen for claims that are being tried, or that the ledger has not answered yet: other pods must not be given it once more.
// It counts for all nodes, for a volume may be usable on several. The zero value, and nil, have nothing.
//
// Example: a gang of two on n1, which has the volumes v1 and v2. The first member chooses v1; for the second there is v2 only. A third finds nothing on n1.
type ChosenVolumes struct {
	volumes   map[string]int            // that exist
	claims    map[ClaimName]chosenClaim // claims of several pods that were not bound
	exclusive map[ClaimName]int         // ReadWriteOncePod claims of several pods
	segments  map[string]int64          // bytes, by StorageRoom.Segment; of the unit that is being placed
	unit      uint64                    // which that is; see BeginUnit
	inUnit    bool
}

// chosenClaim is what was chosen for a claim: a volume, or a node for which one is made.
type chosenClaim struct {
	volume, node string
	pods         int
}

// ChosenBy is what one placement chose, to be taken back. Nil: nothing.
type ChosenBy struct {
	volumes   []string
	claims    []ClaimName
	exclusive []ClaimName
	segments  []segmentUse
	unit      uint64
}

type segmentUse struct {
	segment string
	size    int64
}

// Nothing reports whether nothing was chosen.
func (c *ChosenVolumes) Nothing() bool {
	return c == nil || len(c.volumes)+len(c.claims)+len(c.exclusive)+len(c.segments) == 0
}

// BeginUnit begins to count what the members of one unit ask of storage that is made, by segment of the topology. Between units that is not counted: a driver's
// own figures say what the volumes took that it has made, as upstream has it.
func (c *ChosenVolumes) BeginUnit() {
	c.unit++
	c.inUnit = true
	clear(c.segments)
}

// EndUnit ends it.
func (c *ChosenVolumes) EndUnit() {
	c.inUnit = false
	clear(c.segments)
}

// Add takes note of what a pod chooses on a node.
func (c *ChosenVolumes) Add(v *VolumeNeeds, n *Node) *ChosenBy {
	choice, conflict := v.ChooseBeside(n, c)
	if conflict != NoVolumeConflict {
		return nil
	}
	by := &ChosenBy{unit: c.unit}
	for i := range choice {
		u, b := &v.Unbound[i], &choice[i]
		if u.Claim != (ClaimName{}) {
			known, ok := c.claims[u.Claim]
			if !ok {
				known = chosenClaim{volume: b.Volume, node: n.Name}
			}
			known.pods++
			put(&c.claims, u.Claim, known)
			by.claims = append(by.claims, u.Claim)
			if ok {
				continue
			}
		}
		switch {
		case b.Volume != "":
			put(&c.volumes, b.Volume, c.volumes[b.Volume]+1)
			by.volumes = append(by.volumes, b.Volume)
		case c.inUnit && b.Room != nil && b.Room.Told:
			put(&c.segments, b.Room.Segment, c.segments[b.Room.Segment]+u.Size)
			by.segments = append(by.segments, segmentUse{b.Room.Segment, u.Size})
		}
	}
	for _, name := range v.Exclusive {
		put(&c.exclusive, name, c.exclusive[name]+1)
		by.exclusive = append(by.exclusive, name)
	}
	return by
}

// Drop takes back what a pod chose.
func (c *ChosenVolumes) Drop(by *ChosenBy) {
	if by == nil {
		return
	}
	for _, name := range by.volumes {
		countDown(c.volumes, name)
	}
	for _, name := range by.exclusive {
		countDown(c.exclusive, name)
	}
	for _, name := range by.claims {
		known := c.claims[name]
		if known.pods--; known.pods == 0 {
			delete(c.claims, name)
		} else {
			c.claims[name] = known
		}
	}
	if by.unit != c.unit || !c.inUnit {
		return
	}
	for _, s := range by.segments {
		if c.segments[s.segment] -= s.size; c.segments[s.segment] == 0 {
			delete(c.segments, s.segment)
		}
	}
}

func put[K comparable, V any](m *map[K]V, key K, value V) {
	if *m == nil {
		*m = make(map[K]V)
	}
	(*m)[key] = value
}

func countDown[K comparable](m map[K]int, key K) {
	if m[key]--; m[key] == 0 {
		delete(m, key)
	}
}

// Forget forgets all.
func (c *ChosenVolumes) Forget() { *c = ChosenVolumes{unit: c.unit} }

// claim is what was chosen for a claim of several pods; ok is false if nothing was.
func (c *ChosenVolumes) claim(name ClaimName) (chosen chosenClaim, ok bool) {
	if c == nil || name == (ClaimName{}) {
		return chosenClaim{}, false
	}
	chosen, ok = c.claims[name]
	return chosen, ok
}

func (c *ChosenVolumes) hasVolume(name string) bool { return c != nil && c.volumes[name] > 0 }

// fills reports whether so much more is too much for a segment of which some was chosen.
func (c *ChosenVolumes) fills(r *StorageRoom, size int64) bool {
	if c == nil || !r.Told {
		return false
	}
	asked := c.segments[r.Segment]
	return asked > 0 && size > r.Capacity-asked
}

// inUse reports whether a claim that one pod alone may use was chosen for another.
func (c *ChosenVolumes) inUse(claims []ClaimName) bool {
	return c != nil && slices.ContainsFunc(claims, func(name ClaimName) bool { return c.exclusive[name] > 0 })
}

// Competes reports whether the needs may be met for one pod and then, on any node, not for the next: because volumes run out, or because they share a claim.
func (v *VolumeNeeds) Competes() bool {
	return v != nil && (len(v.Exclusive) > 0 || slices.ContainsFunc(v.Unbound, func(u UnboundClaim) bool {
		return len(u.Volumes)+len(u.Room) > 0 || u.Claim != (ClaimName{})
	}))
}

// Shares lists the claims without volumes that other pods use too.
func (v *VolumeNeeds) Shares() (list []ClaimName) {
	if v == nil {
		return nil
	}
	for i := range v.Unbound {
		if name := v.Unbound[i].Claim; name != (ClaimName{}) {
			list = append(list, name)
		}
	}
	return list
}

// ConflictBeside returns why the node cannot give the pod its volumes beside what was chosen for other pods.
func (v *VolumeNeeds) ConflictBeside(n *Node, beside *ChosenVolumes) VolumeConflict {
	if beside.inUse(v.Exclusive) {
		return VolumeInUse
	}
	_, conflict := v.ChooseBeside(n, beside)
	return conflict
}
