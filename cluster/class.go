package cluster

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"hilbert.dev/hilbert/cluster/census"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/waiting"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

// MaxIdleClasses bounds the classes that are remembered though no pod refers to them, so that a class that comes and goes keeps its ID
// and with it the indexes built for it. MaxIdleTerms bounds their terms about other pods, which take memory on nodes.
const (
	MaxIdleClasses = 1024
	MaxIdleTerms   = 1024
)

// ClassID numbers classes in the order in which the Store met them. It is never given out twice.
type ClassID uint32

// Class is everything that the placement of a pod depends on: its Requirements, and what stands in the cluster that is about the pod
// (Constraints). It is immutable; pods of one class are interchangeable.
type Class struct {
	*facts.Requirements
	ID ClassID
	// Amounts is Requests by Kind, and one pod.
	Amounts resource.List
	// Charge is what its pods are charged to their queues: Amounts, and GPUs as spec.ResourceGPUMilli.
	Charge resource.List
	// Constraints between pods; nil when there are none.
	Constraints *census.Constraints
	// Absent says which resource that the class asks for no node has; empty if there is none. It is not among the Amounts then.
	Absent string
	// Volumes are what the volumes of its pods ask of the node; nil: nothing.
	Volumes *facts.VolumeNeeds
	// VolumesWait says why no node can be chosen for the class's pod, because of its volumes; empty when one can.
	VolumesWait string
	// Claims are what the ResourceClaims of its pods ask of the node; nil: nothing. ClaimsWait says why no node can be chosen because of them.
	Claims     *facts.ClaimNeeds
	ClaimsWait string
	// HeldBack says of the pods of the class that too many others wait which are unlike them, see package waiting; empty if they are taken in.
	HeldBack string

	request *request
	variant string
	key     waiting.Key
	pods    int  // how many pods refer to it
	private bool // see held
	// affecting is how many terms of other pods are about its pods.
	affecting int
}

// Reclaims lists what the class asks of what only reports give, CPU and then memory; amounts of 0 are not asked for.
func (c *Class) Reclaims() *[facts.ReclaimedKinds]resource.Amount { return &c.request.reclaims }

// Terms is how many terms a place for a pod of the class depends on: its own about other pods, and those of others about it.
func (c *Class) Terms() int { return c.PodTerms() + c.affecting }

// weighed is how many terms package waiting counts the class with.
func (c *Class) weighed() int { return weighed(c.PodTerms(), c.affecting) }

func weighed(own, affecting int) int { return own*waiting.CountedTerm + affecting }

// AsksReclaimed reports whether the class asks for any of it.
func (c *Class) AsksReclaimed() bool { return c.request.asksReclaimed }

// request is Requirements that are stored once, however many pods have them: what such a pod takes of its node, and what its affinity terms
// mean to other pods. The classes of a request differ only in what stands in the cluster that is about their pods.
type request struct {
	*facts.Requirements
	quantities []resource.Quantity // Requests, and one pod
	amounts    resource.List
	charge     resource.List
	absent     string // see Class.Absent
	key        string
	carries    []census.TallyID
	classes    []*Class

	reclaims      [facts.ReclaimedKinds]resource.Amount
	asksReclaimed bool
}

// classBook is the requests and classes that the ledger knows. Pods with equal requirements, and about which the same stands in the cluster,
// share a class, so that ten thousand pods of a Deployment are judged as one.
type classBook struct {
	kinds    *resource.Table
	registry *census.Registry
	gpuKind  resource.Kind
	lent     lentKinds

	requests map[string]*request // by canonical encoding
	idle     idleClasses
	next     ClassID
	scratch  []byte
}

// request returns the request with these requirements.
// A request for what nothing can have is marked impossible rather than dropped; a pod that runs with it is charged what does exist.
func (b *classBook) request(r *facts.Requirements) (_ *request, known bool) {
	b.scratch = r.AppendKey(b.scratch[:0])
	if q, ok := b.requests[string(b.scratch)]; ok {
		return q, true
	}
	q := &request{Requirements: r, key: string(b.scratch), quantities: append([]resource.Quantity{{Name: resource.NamePods, Amount: 1}}, r.Requests...)}
	b.lent.claim(q)
	if err := b.count(q); err != nil {
		copied := *r
		copied.Impossible = err.Error()
		for _, score := range []*int64{&copied.ScoreCPU, &copied.ScoreMemory, &copied.PodLevelCPU, &copied.PodLevelMemory} {
			*score = min(max(*score, -resource.MaxAmount), resource.MaxAmount)
		}
		q.Requirements = &copied
	}
	b.requests[q.key] = q
	q.carries = b.registry.Carry(q.Requirements)
	return q, false
}

// count makes amounts of the quantities, by the kinds that there are now. The error is what nothing can have.
func (b *classBook) count(q *request) error {
	amounts, absent, err := b.kinds.NewList(q.quantities)
	q.amounts, q.charge, q.absent = amounts, b.withGPUs(amounts, q.GPU), ""
	if absent != "" {
		q.absent = b.kinds.Problem(absent).Error()
	}
	return err
}

// absent says which resource that a request asks for no node has, and no DeviceClass stands for.
func (b *classBook) absent(q *request, claims *facts.ClaimNeeds) string {
	if q.absent == "" || claims == nil || len(claims.Extended) == 0 {
		return q.absent
	}
	for _, r := range q.quantities {
		if _, known := b.kinds.Lookup(r.Name); !known && r.Amount > 0 && !claims.Stands(r.Name) {
			return b.kinds.Problem(r.Name).Error()
		}
	}
	return ""
}

// withGPUs adds GPUs to what is charged to queues.
func (b *classBook) withGPUs(amounts resource.List, gpus topology.Request) resource.List {
	if gpus.IsZero() {
		return amounts
	}
	list := append(slices.Clone(amounts), resource.Amount{Kind: b.gpuKind, Value: gpus.Total()})
	slices.SortFunc(list, func(a, b resource.Amount) int { return int(a.Kind) - int(b.Kind) })
	return list
}

// class returns the class of a request for pods with an identity (nil: for a pod that needs no place), and the tallies that came up with it.
func (b *classBook) class(q *request, id *identity, namespaces census.Namespaces, asks needs) (_ *Class, known bool, fresh []census.TallyID) {
	w, self := variant(q.Requirements, id, namespaces)
	constrained := len(w) > 0
	w = asks.append(w)
	if class := q.variant(w); class != nil {
		return class, true, nil
	}
	class := &Class{
		Requirements: q.Requirements, ID: b.next, Amounts: q.amounts, Charge: q.charge, Absent: b.absent(q, asks.claims), request: q, variant: string(w),
		key: keyOfClass([]byte(q.key), w), Volumes: asks.volumes, Claims: asks.claims,
	}
	b.next++
	q.classes = append(q.classes, class)
	if constrained {
		class.Constraints, fresh = b.registry.Constrain(q.Requirements, self, id.AffectedBy)
		class.affecting = len(id.AffectedBy)
	}
	b.idle.enter(class)
	return class, false, fresh
}

// variant is what tells the class of a pod from others of its request, and how many of its own terms are about the pod itself.
func variant(r *facts.Requirements, id *identity, namespaces census.Namespaces) (w facts.Key, self []int32) {
	if id == nil || len(id.AffectedBy)+r.PodTerms() == 0 {
		return nil, nil
	}
	self = census.SelfMatches(r, &id.Subject, namespaces)
	w.Number(1)
	for _, n := range self {
		w.Number(int64(n))
	}
	for _, t := range id.AffectedBy {
		w.Number(int64(t))
	}
	return w, self
}

// needs is what the volumes and the ResourceClaims of a pod ask of its node; nil: nothing.
type needs struct {
	volumes *facts.VolumeNeeds
	claims  *facts.ClaimNeeds
}

// needs are those of the class's pods.
func (c *Class) needs() needs { return needs{c.Volumes, c.Claims} }

// append adds the needs to a variant.
func (n needs) append(w facts.Key) facts.Key {
	if n.volumes != nil {
		w.Number(2)
		w = n.volumes.AppendKey(w)
	}
	if n.claims != nil {
		w.Number(3)
		w = n.claims.AppendKey(w)
	}
	return w
}

// AppendSelection appends the canonical encoding of all that pods of the class ask of a node's own properties, apart from images: what their
// requirements ask (see facts.Requirements), and what their volumes and ResourceClaims do.
func (c *Class) AppendSelection(buffer []byte) []byte {
	w := facts.Key(c.Requirements.AppendSelection(buffer))
	if c.Claims != nil {
		w.Number(3)
		w = c.Claims.AppendKey(w)
	}
	if !c.Volumes.Selects() {
		return w
	}
	w.Number(2)
	return c.Volumes.AppendSelection(w)
}

// variant returns a class of the request, nil if there is none.
func (q *request) variant(w []byte) *Class {
	for _, class := range q.classes {
		if class.variant == string(w) {
			return class
		}
	}
	return nil
}

// keyOfClass is what package waiting knows of a class.
func keyOfClass(request, variant []byte) (key waiting.Key) {
	h := sha256.New()
	h.Write(binary.AppendUvarint(nil, uint64(len(request))))
	h.Write(request)
	h.Write(variant)
	copy(key[:], h.Sum(nil))
	return key
}

// find returns the class of pods with these requirements and an identity, without making one: nil if there is none. The key is that which it would have.
func (b *classBook) find(r *facts.Requirements, id *identity, namespaces census.Namespaces, asks needs) (*Class, waiting.Key) {
	b.scratch = r.AppendKey(b.scratch[:0])
	w, _ := variant(r, id, namespaces)
	w = asks.append(w)
	if q := b.requests[string(b.scratch)]; q != nil {
		if class := q.variant(w); class != nil {
			return class, class.key
		}
	}
	return nil, keyOfClass(b.scratch, w)
}

// held returns a class for a pod that must not be placed: it has scheduling gates, or asks for what can't be given. Nothing will be decided on
// it, so that the class belongs to the pod alone and is no more than the facts: none of its resources, topology keys and selectors is
// registered, however many it names.
func held(pod *Pod) *Class {
	r := pod.requirements
	if old := pod.Class; old != nil && old.private && old.HeldBack == "" && old.VolumesWait == "" && old.ClaimsWait == "" && old.request.Requirements == r {
		return old
	}
	class := &Class{Requirements: r, request: &request{Requirements: r}, private: true}
	if n := r.PodTerms(); r.Impossible == "" && n > facts.MaxPodTerms {
		refused := *r
		refused.Impossible = fmt.Sprintf("the pod has %d terms about other pods (affinity, anti-affinity, topologySpreadConstraints); at most %d are honoured", n, facts.MaxPodTerms)
		class.Requirements = &refused
	}
	return class
}

// waitingForVolumes returns a class for a pod whose volumes let no node be chosen. As with held, it belongs to the pod alone.
func waitingForVolumes(pod *Pod, why string) *Class {
	r := pod.requirements
	if old := pod.Class; old != nil && old.private && old.VolumesWait == why && old.request.Requirements == r {
		return old
	}
	return &Class{Requirements: r, request: &request{Requirements: r}, private: true, VolumesWait: why}
}

// waitingForClaims is the same for a pod whose ResourceClaims let no node be chosen.
func waitingForClaims(pod *Pod, why string) *Class {
	r := pod.requirements
	if old := pod.Class; old != nil && old.private && old.ClaimsWait == why && old.request.Requirements == r {
		return old
	}
	return &Class{Requirements: r, request: &request{Requirements: r}, private: true, ClaimsWait: why}
}

// mustWait reports whether no place may be looked for, whatever the cluster looks like.
func (p *Pod) mustWait() bool {
	r := p.requirements
	return p.Gated || p.Deleting && p.Phase == Pending || r.Impossible != "" || len(r.Unsupported) > 0 || r.PodTerms() > facts.MaxPodTerms
}

// refer makes the pod refer to another class (nil: none). The pod must not be charged with the old one, unless their requests are equal.
func (b *classBook) refer(pod *Pod, class *Class) {
	if pod.Class == class {
		return
	}
	if class != nil && class.private {
		b.refer(pod, nil)
		pod.Class = class
		return
	}
	if class != nil {
		if class.pods == 0 {
			b.idle.leave(class)
		}
		class.pods++
	}
	if old := pod.Class; old != nil && !old.private {
		old.pods--
		if old.pods == 0 {
			b.idle.enter(old)
		}
	}
	if class != nil {
		pod.Class = class
	}
}

// EachRequirements visits all requirements that pods have, with the number of pods that run or wait with them, in no particular order.
func (s *Store) EachRequirements(visit func(r *facts.Requirements, pods int)) {
	for _, q := range s.classes.requests {
		pods := 0
		for _, class := range q.classes {
			pods += class.pods
		}
		if pods > 0 {
			visit(q.Requirements, pods)
		}
	}
}

// idleClasses are the classes without pods.
type idleClasses struct {
	byID  map[ClassID]*Class
	terms int // of all of them, about other pods
}

func (i *idleClasses) enter(class *Class) {
	i.byID[class.ID] = class
	i.terms += class.PodTerms()
}

func (i *idleClasses) leave(class *Class) {
	delete(i.byID, class.ID)
	i.terms -= class.PodTerms()
}

// sweep forgets the idle classes when too many have gathered, and reports whether it did. Their tallies have still to be purged.
func (b *classBook) sweep() bool {
	if len(b.idle.byID) <= MaxIdleClasses && b.idle.terms <= MaxIdleTerms {
		return false
	}
	for _, id := range slices.Sorted(maps.Keys(b.idle.byID)) {
		class := b.idle.byID[id]
		b.idle.leave(class)
		if class.Constraints != nil {
			b.registry.Release(class.Constraints)
		}
		q := class.request
		q.classes = slices.DeleteFunc(q.classes, func(c *Class) bool { return c == class })
		if len(q.classes) == 0 {
			b.registry.DropTallies(q.carries)
			delete(b.requests, q.key)
		}
	}
	return true
}

// verify holds the requests and classes against the kinds that there are.
func (b *classBook) verify() error {
	for _, q := range b.requests {
		want := *q
		_ = b.count(&want)
		if !slices.Equal(q.amounts, want.amounts) || !slices.Equal(q.charge, want.charge) || (q.absent == "") != (want.absent == "") {
			return fmt.Errorf("a request for %v is counted as %v, charged %v, absent is %q; want %v, %v, %q",
				q.quantities, q.amounts, q.charge, q.absent, want.amounts, want.charge, want.absent)
		}
		for _, class := range q.classes {
			if !slices.Equal(class.Amounts, q.amounts) || !slices.Equal(class.Charge, q.charge) || class.Absent != b.absent(q, class.Claims) {
				return fmt.Errorf("class %d of a request for %v counts %v and charges %v", class.ID, q.quantities, class.Amounts, class.Charge)
			}
		}
	}
	return nil
}

// recount counts anew what requests ask for, if they name any of the resources, and returns the classes that take the place of theirs. The old ones
// are idle as soon as no pod refers to them.
func (b *classBook) recount(names []string) map[*Class]*Class {
	var affected []*request
	for _, q := range b.requests {
		if slices.ContainsFunc(q.quantities, func(r resource.Quantity) bool { return slices.Contains(names, r.Name) }) {
			affected = append(affected, q)
		}
	}
	slices.SortFunc(affected, func(a, b *request) int { return cmp.Compare(a.key, b.key) })
	replaced := make(map[*Class]*Class)
	for _, q := range affected {
		_ = b.count(q) // what nothing can have is the same as before
		for i, old := range q.classes {
			fresh := *old
			fresh.ID, fresh.pods = b.next, 0
			fresh.Amounts, fresh.Charge, fresh.Absent = q.amounts, q.charge, b.absent(q, old.Claims)
			b.next++
			q.classes[i], replaced[old] = &fresh, &fresh
			b.idle.enter(&fresh)
		}
	}
	return replaced
}

// AppendSize appends the canonical encoding of all that the pod takes of its node. The kinds are part of it: a resource may have another when it
// comes back.
func (c *Class) AppendSize(buffer []byte) []byte {
	w := facts.Key(c.Requirements.AppendSize(buffer))
	for _, a := range c.Amounts {
		w.Number(int64(a.Kind))
	}
	if c.Claims == nil {
		w.Number(0)
	} else {
		w.Number(1)
		w = c.Claims.AppendKey(w) // which nodes have the devices that its claims were given
	}
	if c.Volumes == nil {
		w.Number(0)
		return w
	}
	return c.Volumes.AppendSize(w)
}

// Class returns the class of the requirements for a pod that nothing in the cluster is about, for questions such as "would this fit".
func (s *Store) Class(r *facts.Requirements) *Class {
	return s.classifier.class(s.classifier.request(r), &identity{}, needs{})
}
