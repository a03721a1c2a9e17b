package allocate

import (
	"fmt"
	"math"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/topology"
	"hilbert.dev/hilbert/topology/cores"
)

// level decides in which pool a pod runs; none if it is to have CPUs of its own. What cannot be had by asking so is shared, with a note.
func (m *Manager) level(p *pod) (notes []Note) {
	p.pool = spec.PoolShare
	kubelet := m.capacity.kubeletRules()
	if kubelet {
		p.Fixed = p.Fixed.Intersection(m.capacity.machine.AllCPUs())
	}
	switch {
	case kubelet && !p.Fixed.IsEmpty():
		p.pool = "" // whatever it asks us for: the kubelet has decided
	case p.Invalid != "":
		notes = append(notes, Note{spec.ReasonInvalidQoS, p.Invalid})
	case p.QoS.Level == spec.QoSSystem:
		p.pool = spec.PoolSystem
	case p.QoS.Level == spec.QoSReclaimed:
		p.pool = spec.PoolReclaimed
		if p.Forged != "" {
			notes = append(notes, Note{spec.ReasonForgedPlacement, p.Forged})
		}
	case p.QoS.Level == spec.QoSDedicated && kubelet:
		notes = append(notes, Note{spec.ReasonKubeletRules, "it asks for cores of its own, and the kubelet gave it none"})
	case p.QoS.Level == spec.QoSDedicated && p.Request.IsZero():
		notes = append(notes, Note{spec.ReasonInvalidQoS, fmt.Sprintf("it is of level %s and requests no CPU", spec.QoSDedicated)})
	case p.QoS.Level == spec.QoSDedicated:
		p.pool = ""
	case p.QoS.Level == spec.QoSShared && p.QoS.NUMA != "" && kubelet:
		notes = append(notes, Note{spec.ReasonKubeletRules, "it asks to be kept in NUMA nodes, and the kubelet decides where it runs"})
	case p.QoS.Level == spec.QoSShared && p.QoS.NUMA != "":
		if p.Request.Binding != topology.BoundShared || p.Request.IsZero() {
			notes = append(notes, Note{spec.ReasonInvalidQoS, "it asks to be kept in NUMA nodes and requests no CPU"})
			break
		}
		return notes // in pool share, beside others
	default:
		if p.QoS.Pool != "" && p.QoS.Pool != spec.PoolReclaimed && p.QoS.Pool != spec.PoolSystem {
			p.pool = namedPool(p.Namespace, p.QoS.Pool)
		}
		if p.BestEffort && !p.QoS.Said {
			notes = append(notes, Note{spec.ReasonUnlabelled, "it requests nothing and names no QoS level; it runs in pool " + p.pool})
		}
	}
	if p.Request.Binding == topology.BoundShared { // it holds nothing of NUMA nodes
		p.Request = topology.NUMARequest{}
	}
	return notes
}

// namedPool is the pool that a pod names: one of its namespace, so that no tenant gets into another's. spec.PoolShare is everybody's.
func namedPool(namespace, name string) string {
	if name == spec.PoolShare {
		return name
	}
	return namespace + "/" + name
}

// dedicated gives pods CPUs of their own, and shared pods that are bound their room in NUMA nodes: what was promised to a pod if it is still free, an equivalent place if not, and where the kubelet rules, what
// the kubelet gave. For example, a pod was promised two CPUs of NUMA node 1, and another pod holds them: it gets two of NUMA node 0 (its promise is moved),
// or is refused if there are none (its promise is broken).
type dedicated struct {
	capacity *capacity
	pods     *pods
	counts   *Counts
}

// hold gives a pod CPUs of its own, or room in NUMA nodes.
func (d *dedicated) hold(p *pod) ([]Note, *Refusal) {
	if d.capacity.kubeletRules() {
		return d.fix(p), nil
	}
	if p.Forged != "" {
		p.Promise = topology.NUMAGrant{}
	}
	p.Request = complete(p.Request, &p.Promise)
	if d.keep(p) {
		return nil, nil
	}
	gone := d.gone(p)
	promise, notes := d.promise(p)
	near := d.near(p, promise)
	o, ok := d.capacity.alloc.Offer(p.Request, near, d.pods.among(p))
	if ok {
		ok = d.capacity.alloc.Commit(p.UID, o) == nil
	}
	promised := !promise.IsZero()
	switch {
	case !ok && gone:
		d.shrink(p)
	case gone:
		d.counts.Moved++
		notes = append(notes, Note{spec.ReasonPromiseMoved, fmt.Sprintf("its CPUs %v are not all there any more; took %v", p.Fixed, o.CPUs)})
		p.moved, p.Fixed = true, topology.CPUSet{}
	case !ok && promised:
		d.counts.Broken++
		return notes, &Refusal{spec.ReasonPromiseBroken, fmt.Sprintf("promised %v for %s: %s", promise, ask(p.Request), d.capacity.left())}
	case !ok && d.capacity.alloc.Shape().Ruler != topology.RulerAgent:
		return notes, &Refusal{spec.ReasonTooManyNUMANodes, fmt.Sprintf("asks for %s, and the machine has more than %d NUMA nodes", ask(p.Request), topology.MaxNUMANodes)}
	case !ok:
		return notes, &Refusal{spec.ReasonInsufficientCores, fmt.Sprintf("asks for %s: %s", ask(p.Request), d.capacity.left())}
	case !promised:
		d.counts.Foreign++
	case o.Kept && near == promise:
		d.counts.Kept++
	default:
		d.counts.Moved++
		p.moved = true
		notes = append(notes, Note{spec.ReasonPromiseMoved, fmt.Sprintf("promised %v, which %s; took %v", promise, d.why(p, &promise), o.Grant)})
	}
	return notes, nil
}

// promise is what was promised to the pod. A promise that no scheduler can have made counts as none.
func (d *dedicated) promise(p *pod) (topology.NUMAGrant, []Note) {
	forged := func(why string) (topology.NUMAGrant, []Note) {
		d.counts.Forged++
		p.Promise = topology.NUMAGrant{}
		return topology.NUMAGrant{}, []Note{{spec.ReasonForgedPlacement, why}}
	}
	if p.Forged != "" {
		return forged(p.Forged)
	}
	if !p.Promise.IsZero() && !d.capacity.alloc.Answers(p.Request, &p.Promise) {
		return forged(fmt.Sprintf("promise %v does not answer %s", p.Promise, ask(p.Request)))
	}
	return p.Promise, nil
}

// complete is a request with its memory: where that is left zero, a bound pod's is what the promise binds.
func complete(r topology.NUMARequest, promise *topology.NUMAGrant) topology.NUMARequest {
	if r.Memory > 0 || r.Binding != topology.Bound && r.Binding != topology.BoundShared {
		return r
	}
	var sum uint64
	for _, part := range promise.Memory {
		sum += uint64(part)
	}
	r.Memory = uint32(min(sum, math.MaxUint32))
	return r
}

// keep leaves a pod that runs already where it runs, if that is what it could have been given; what was once promised does not matter then,
// and may be older than its request. CPUs that are more than it asks for, or that another pod holds too, are no place of its own.
func (d *dedicated) keep(p *pod) bool {
	if p.Fixed.IsEmpty() || p.pool != "" { // or it has never had any of its own
		return false
	}
	h := cores.Holding{Request: p.Request, CPUs: p.Fixed}
	h.Request.CPUs = min(h.Request.CPUs, uint16(p.Fixed.Len())) // fewer: it has been resized since
	h.Grant = d.capacity.alloc.GrantOf(h.Request, h.CPUs)
	if h.Grant.CPUs == p.Promise.CPUs && d.capacity.alloc.Answers(h.Request, &p.Promise) {
		h.Grant = p.Promise // its memory is where it was promised
	}
	if d.capacity.alloc.Adopt(p.UID, h) != nil {
		return false
	}
	if h.Request != p.Request && !d.capacity.alloc.Resize(p.UID, p.Request.CPUs) {
		p.Request = h.Request
	}
	p.moved = !p.Promise.IsZero() && h.Grant.NUMANodes() != p.Promise.NUMANodes()
	return true
}

// gone reports whether a pod runs on CPUs of its own of which some are no longer there, are reserved by now, or belong to another pod: one that lost its own and
// was settled first may have taken them. A pod that runs on more CPUs than it asks for has never had any of its own; whole cores are a little more.
func (d *dedicated) gone(p *pod) bool {
	alloc := d.capacity.alloc
	threads := max(2, int(alloc.Shape().Threads)) // SMT may have been on when it got them
	own := (int(p.Request.CPUs) + threads - 1) / threads * threads
	return p.pool == "" && p.Running && p.Fixed.Len() <= own && !p.Fixed.Minus(alloc.Givable(p.Fixed)).IsEmpty()
}

// shrink leaves a pod that runs what there still is of its CPUs, for no other pod may have them before it is gone. If nothing is left it runs in the shared pool,
// as the kernel lets a cgroup without CPUs run anywhere.
func (d *dedicated) shrink(p *pod) {
	d.counts.Broken++
	had := p.Fixed
	if p.Fixed = d.capacity.alloc.Givable(had); p.Fixed.IsEmpty() || !d.keep(p) {
		p.Fixed, p.pool = topology.CPUSet{}, spec.PoolShare
	}
	p.lost = &Refusal{
		Reason: spec.ReasonPromiseBroken, Message: fmt.Sprintf("of its CPUs %v only %v are there, and no others: %s", had, had.Intersection(d.capacity.machine.AllCPUs()), d.capacity.left()),
	}
}

// fix records the CPUs that the kubelet gave to a pod. The kubelet knows best: a pod that was thought to have them has them no longer.
func (d *dedicated) fix(p *pod) (notes []Note) {
	for _, uid := range d.capacity.alloc.Holders() {
		h, _ := d.capacity.alloc.Holding(uid)
		taken := h.CPUs.Intersection(p.Fixed)
		if taken.IsEmpty() {
			continue
		}
		other := d.pods.known[uid]
		message := fmt.Sprintf("the kubelet gave it CPUs %v, which %s/%s had", taken, other.Namespace, other.Name)
		notes = append(notes, Note{spec.ReasonKubeletRules, message})
		d.unfix(other)
		if rest := h.CPUs.Minus(taken); !rest.IsEmpty() && d.capacity.alloc.Adopt(uid, cores.Holding{CPUs: rest}) == nil {
			other.Fixed = rest
			continue
		}
		other.Fixed, other.pool = topology.CPUSet{}, spec.PoolShare
		d.pods.add(other)
	}
	if err := d.capacity.alloc.Adopt(p.UID, cores.Holding{CPUs: p.Fixed}); err != nil { // it is on the machine and free by now
		p.Fixed, p.pool = topology.CPUSet{}, spec.PoolShare
		notes = append(notes, Note{spec.ReasonKubeletRules, err.Error()})
	}
	return notes
}

// refix takes other CPUs for what the kubelet gave to a pod that is known.
func (d *dedicated) refix(p *pod, fixed topology.CPUSet) []Note {
	if fixed = fixed.Intersection(d.capacity.machine.AllCPUs()); fixed.IsEmpty() || fixed == p.Fixed {
		return nil
	}
	d.pods.release(p)
	d.unfix(p)
	p.Fixed, p.pool = fixed, ""
	notes := d.fix(p)
	d.pods.add(p)
	return notes
}

func (d *dedicated) unfix(p *pod) { d.capacity.alloc.Release(p.UID) }

// reassign gives a pod that holds NUMA nodes others in their place.
func (d *dedicated) reassign(p *pod, numaNodes topology.NUMAGrant) bool {
	d.capacity.alloc.Release(p.UID)
	o, ok := d.capacity.alloc.Offer(p.Request, numaNodes, d.pods.among(p))
	p.moved = ok
	return ok && o.Kept && d.capacity.alloc.Commit(p.UID, o) == nil
}

// ask says what is asked for.
func ask(r topology.NUMARequest) string {
	text := fmt.Sprintf("%d CPUs", r.CPUs)
	if r.Binding != topology.Unbound {
		text += fmt.Sprintf(" and %d MiB, %v", r.Memory, r.Binding)
	}
	return text
}
