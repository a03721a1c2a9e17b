package sim

import (
	"fmt"
	"strconv"
	"time"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/bind"
	"hilbert.dev/hilbert/sim/trace"
)

// storage is the claims and volumes of the API server, the controller that binds them to one another, and the drivers that make volumes. A claim comes with the
// first pod of its task; the next pods of the task use it too, until it is deleted together with one:
//
//	10:00:00 web-1 is created, and its claim
//	10:00:01 the scheduler tells the claim node n
//	10:00:04 the driver refuses: it takes n off the claim
//	10:00:05 the scheduler tells the claim node m
//	10:00:09 the driver makes a volume on m; the controller binds the claim to it
//
// With faults a driver refuses, is slow, is away, or makes two volumes for a claim.
type storage struct {
	faults     *Faults // nil: none
	draws      *stream
	clock      *clock
	violations *violations
	meter      *meter
	w          *trace.Workload
	api        *model
	watches    *watches

	claims  []storedClaim // all that ever were
	known   map[facts.ClaimName]int32
	volumes map[string]*facts.Volume
	order   []string // names of volumes, in order of creation
	made    int
}

type storedClaim struct {
	fact  *facts.Claim
	since uint64 // the history's revision of its creation
	gone  bool
	acted bool // an act of its driver is on the agenda
}

// Delays of drivers and of the controller.
const (
	driverTakes     = int64(4 * time.Second)
	driverAway      = int64(3 * time.Minute)
	controllerTakes = int64(2 * time.Second)
)

// Chances of a driver's faults, in permille of its acts.
const (
	driverRefuses = 250
	driverIsAway  = 80
	driverDoubles = 80
	claimDeleted  = 500 // of the pods that leave
)

func newStorage(w *trace.Workload) *storage {
	s := &storage{w: w, known: make(map[facts.ClaimName]int32), volumes: make(map[string]*facts.Volume)}
	if w.Storage != nil {
		for _, v := range w.Storage.Volumes {
			s.order = append(s.order, v.Name)
			s.volumes[v.Name] = v
		}
	}
	return s
}

// claimName is that of a task's claim.
func (s *storage) claimName(task int32, claim int) facts.ClaimName {
	id := s.w.Identities[s.w.Tasks[task].Group]
	if id.Namespace == "" {
		id.Namespace = namespace
	}
	return facts.ClaimName{Namespace: id.Namespace, Name: fmt.Sprintf("data%d-%s", claim, s.w.Tasks[task].Name)}
}

// uses are a task's claims, as its pods name them.
func (s *storage) uses(task int32) (uses []facts.ClaimUse) {
	for i := range s.w.Tasks[task].Claims {
		uses = append(uses, facts.ClaimUse{Claim: s.claimName(task, i).Name})
	}
	return uses
}

// arrive makes the claims of a pod that are not there.
func (s *storage) arrive(task int32) {
	for i := range s.w.Tasks[task].Claims {
		name, c := s.claimName(task, i), &s.w.Tasks[task].Claims[i]
		if _, ok := s.known[name]; ok {
			continue
		}
		at := int32(len(s.claims))
		s.known[name] = at
		s.api.revision++
		s.claims = append(s.claims, storedClaim{since: s.api.revision, fact: &facts.Claim{
			ClaimName: name, UID: name.String() + "#" + strconv.Itoa(int(at)), StorageClass: c.StorageClass, Size: c.Size, Sized: true, Modes: facts.ReadWriteOnce,
			Version: strconv.FormatUint(s.api.revision, 10),
		}})
		s.tellClaim(at)
	}
}

// leave deletes the claims of a pod that has left, now and then, and gives their volumes back.
func (s *storage) leave(task int32) {
	for i := range s.w.Tasks[task].Claims {
		at, ok := s.known[s.claimName(task, i)]
		if !ok || !s.draws.chance(claimDeleted) {
			continue
		}
		c := &s.claims[at]
		c.gone = true
		delete(s.known, c.fact.ClaimName)
		s.api.revision++
		s.watches.tell(watchClaims, facts.StorageRemoved{Name: c.fact.StorageName()})
		for _, v := range s.of(c.fact) {
			s.giveBack(v)
		}
		s.meter.faults["claim deleted"]++
	}
}

// of lists the volumes that are bound to a claim or kept for it.
func (s *storage) of(c *facts.Claim) (list []*facts.Volume) {
	for _, name := range s.order {
		if v := s.volumes[name]; v != nil && v.Claim == c.ClaimName && v.ClaimUID == c.UID {
			list = append(list, v)
		}
	}
	return list
}

// giveBack frees a volume that was there from the beginning, and removes one that was made.
func (s *storage) giveBack(v *facts.Volume) {
	if v.StorageClass == trace.ClassLocal {
		s.setVolume(v, func(v *facts.Volume) { v.Claim, v.ClaimUID, v.Available = facts.ClaimName{}, "", true })
		return
	}
	delete(s.volumes, v.Name)
	s.api.revision++
	s.watches.tell(watchVolumes, facts.StorageRemoved{Name: v.StorageName()})
}

// setVolume changes a volume.
func (s *storage) setVolume(old *facts.Volume, change func(*facts.Volume)) {
	v := *old
	change(&v)
	s.api.revision++
	v.Version = strconv.FormatUint(s.api.revision, 10)
	s.volumes[v.Name] = &v
	s.watches.tell(watchVolumes, facts.StorageUpserted{Object: &v})
}

// setClaim changes a claim.
func (s *storage) setClaim(at int32, change func(*facts.Claim)) {
	c := *s.claims[at].fact
	change(&c)
	s.api.revision++
	if c.Version = ""; !c.Bound {
		c.Version = strconv.FormatUint(s.api.revision, 10)
	}
	s.claims[at].fact = &c
	s.tellClaim(at)
}

func (s *storage) tellClaim(at int32) {
	s.api.revision++
	s.watches.tell(watchClaims, facts.StorageUpserted{Object: s.claims[at].fact})
}

// write does what the scheduler tells of a claim or of a volume.
func (s *storage) write(w *bind.Write) (outcome bind.Outcome) {
	o := &w.Volume
	at, ok := s.known[o.Claim]
	switch {
	case o.Volume != "":
		v := s.volumes[o.Volume]
		switch {
		case v == nil:
			return bind.Gone
		case v.Version != o.Version:
			return bind.Conflict
		case !v.Available || v.Claim != (facts.ClaimName{}) && v.Claim != o.Claim:
			s.violations.add("volume %s is given to claim %s, and is not free", v.Name, o.Claim)
		}
		s.setVolume(v, func(v *facts.Volume) { v.Claim, v.ClaimUID = o.Claim, o.ClaimUID })
		if ok {
			s.act(at, controllerTakes)
		}
	case !ok:
		return bind.Gone
	case s.claims[at].fact.UID != o.ClaimUID:
		return bind.Refused
	default:
		if s.claims[at].fact.Bound {
			return bind.Conflict // the version that was told was of before
		}
		if s.claims[at].fact.Version != o.Version {
			return bind.Conflict
		}
		s.setClaim(at, func(c *facts.Claim) { c.SelectedNode = o.Node })
		s.act(at, driverTakes)
	}
	return bind.Written
}

// act puts the next act about a claim on the agenda, if none is.
func (s *storage) act(at int32, within int64) {
	if c := &s.claims[at]; !c.acted {
		c.acted = true
		s.clock.add(event{at: s.clock.now + 1 + s.draws.Int64N(within), kind: evClaim, arg: at})
	}
}

// happen lets the controller bind a claim that a volume is kept for, or its driver make one.
func (s *storage) happen(at int32) {
	c := &s.claims[at]
	c.acted = false
	if c.gone || c.fact.Bound {
		return
	}
	if volumes := s.of(c.fact); len(volumes) > 0 {
		s.bind(at, volumes)
		return
	}
	if c.fact.SelectedNode != "" {
		s.provision(at)
	}
}

// bind binds a claim to one of the volumes that are kept for it. The others are free again, or removed.
func (s *storage) bind(at int32, volumes []*facts.Volume) {
	s.setVolume(volumes[0], func(v *facts.Volume) { v.Available = false })
	s.setClaim(at, func(c *facts.Claim) { c.Volume, c.Bound = volumes[0].Name, true })
	s.meter.faults["claim bound"]++
	for _, v := range volumes[1:] {
		s.giveBack(v)
		s.meter.faults["second volume given back"]++
	}
}

// provision makes a volume on the node that a claim was told. A driver that knows no such node refuses, as it does for other reasons with faults.
func (s *storage) provision(at int32) {
	c := s.claims[at].fact
	troubled := s.faults != nil && s.clock.now <= int64(s.faults.Until)
	n, known := s.api.byName[c.SelectedNode]
	switch {
	case !known || !s.api.nodes[n].present || troubled && s.draws.chance(driverRefuses):
		s.meter.faults["node refused by a driver"]++
		s.setClaim(at, func(c *facts.Claim) { c.SelectedNode = "" })
		return
	case troubled && s.draws.chance(driverIsAway):
		s.meter.faults["driver away"]++
		s.act(at, driverAway)
		return
	}
	count := 1
	if troubled && s.draws.chance(driverDoubles) {
		s.meter.faults["two volumes made for a claim"]++
		count = 2
	}
	key, labels := facts.HostnameKey, s.api.nodes[n].object.Labels
	if c.StorageClass == trace.ClassZonal {
		key = facts.LabelZone
	}
	for range count {
		s.made++
		v := &facts.Volume{
			Name: fmt.Sprintf("made-%06d", s.made), StorageClass: c.StorageClass, Size: c.Size, Modes: c.Modes, Claim: c.ClaimName, ClaimUID: c.UID,
			Nodes: []facts.Term{{Expressions: []facts.Requirement{{Key: key, Operator: facts.In, Values: []string{labels[key]}}}}},
		}
		s.order = append(s.order, v.Name)
		s.setVolume(v, func(*facts.Volume) {})
	}
	s.act(at, controllerTakes)
}

// list is everything of a kind, as it is now.
func (s *storage) list(kind facts.StorageKind) facts.Event {
	l := facts.StorageListed{Kind: kind}
	switch kind {
	case facts.StorageClassKind:
		for _, c := range s.w.Storage.Classes {
			l.Objects = append(l.Objects, c)
		}
	case facts.PersistentVolume:
		for _, name := range s.order {
			if v := s.volumes[name]; v != nil {
				l.Objects = append(l.Objects, v)
			}
		}
	default:
		for i := range s.claims {
			if !s.claims[i].gone {
				l.Objects = append(l.Objects, s.claims[i].fact)
			}
		}
	}
	return l
}

// unbound names a claim of a pod that is not bound; empty: all are. A claim that was created anew after what the scheduler had seen when it committed the Plan
// is left out: the scheduler took it for the one before, which was bound. Nobody can know better, and the kubelet waits for the claim.
func (s *storage) unbound(p *pod) string {
	for i := range s.w.Tasks[p.task].Claims {
		at, ok := s.known[s.claimName(p.task, i)]
		if !ok || !s.claims[at].fact.Bound && s.claims[at].since <= p.seenClaims {
			return s.claimName(p.task, i).Name
		}
	}
	return ""
}

// on reports whether the volumes of a pod's claims, which are bound, can be used on a node.
func (s *storage) on(p *pod, n *facts.Node) bool {
	for i := range s.w.Tasks[p.task].Claims {
		if at, ok := s.known[s.claimName(p.task, i)]; ok && s.claims[at].fact.Bound && s.claims[at].since <= p.seenClaims && !usable(s.volumes[s.claims[at].fact.Volume], n) {
			return false
		}
	}
	return true
}

// usable is the judge of node affinity: one label has one of some values.
func usable(v *facts.Volume, n *facts.Node) bool {
	if v == nil {
		return false
	}
	for _, t := range v.Nodes {
		if e := t.Expressions[0]; n.Labels[e.Key] == e.Values[0] {
			return true
		}
	}
	return false
}

// place returns whether the claims of a task can be bound on a node, without the volumes that are taken, and takes them.
func (s *storage) place(task int32, n *facts.Node, taken map[string]bool) bool {
	for i := range s.w.Tasks[task].Claims {
		at, ok := s.known[s.claimName(task, i)]
		if !ok {
			return false
		}
		c := s.claims[at].fact
		switch {
		case c.Bound:
			if !usable(s.volumes[c.Volume], n) {
				return false
			}
		case c.SelectedNode != "":
			if c.SelectedNode != n.Name {
				return false
			}
		case c.StorageClass == trace.ClassLocal:
			if !s.takeLocal(c, n, taken) {
				return false
			}
		}
	}
	return true
}

// takeLocal takes a volume on the node: one that is kept for the claim, or else a free one.
func (s *storage) takeLocal(c *facts.Claim, n *facts.Node, taken map[string]bool) bool {
	for _, v := range s.of(c) {
		return usable(v, n)
	}
	for _, name := range s.order {
		v := s.volumes[name]
		if v != nil && v.StorageClass == trace.ClassLocal && v.Available && v.Claim == (facts.ClaimName{}) && !taken[name] && v.Size >= c.Size && usable(v, n) {
			taken[name] = true
			return true
		}
	}
	return false
}

// check looks for volumes and claims that are bound to more than one of the others.
func (s *storage) check() {
	of := make(map[string]facts.ClaimName)
	for i := range s.claims {
		c := s.claims[i].fact
		if s.claims[i].gone || !c.Bound {
			continue
		}
		if other, ok := of[c.Volume]; ok {
			s.violations.add("volume %s is bound to the claims %s and %s", c.Volume, other, c.ClaimName)
		}
		of[c.Volume] = c.ClaimName
		if v := s.volumes[c.Volume]; v == nil || v.Claim != c.ClaimName || v.ClaimUID != c.UID {
			s.violations.add("claim %s is bound to volume %s, and that is not bound to it", c.ClaimName, c.Volume)
		}
	}
}
