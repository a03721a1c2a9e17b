package sim

import (
	"maps"
	"math/bits"
	"slices"
	"time"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/sim/judge"
	"hilbert.dev/hilbert/sim/trace"
	"hilbert.dev/hilbert/topology"
)

// This file is who else gives a node's GPUs out: the kubelet, for a device plugin, and what the node's agent makes of that, some time later.

// rival is what else there is on a node with devices.
type rival struct {
	// plugin: a device plugin offers the GPUs, so that node.status counts them, except the ill ones. driver: somebody else sells them too, whom no
	// count shows.
	plugin, driver bool
	ill            uint16
	// given is what the kubelet has given, by its own books.
	given map[facts.UID]kubeletGiven
	// gone is when the plugin or the driver left.
	gone int64
	// turned is the history's revision at which the report named another owner.
	turned  uint64
	dialect dialect
	due     bool // a look is on the agenda
}

// kubeletGiven is GPUs that the kubelet gave to a pod.
type kubeletGiven struct {
	gpus uint16
	// against: our agent had given them already, or gave them before it knew. Nobody who sells can prevent that; the one who has them is not ours.
	against bool
}

// dialect is what an agent of another version says of devices.
type dialect uint8

const (
	spoken   dialect = iota // what ours does
	older                   // nothing of devices
	newer                   // an owner that is not known here
	dialects                // how many
)

// Delays of agents and bounds.
const (
	ownerLook  = int64(20 * time.Second) // between two looks at who offers GPUs
	ownerQuiet = int64(40 * time.Second) // for which nobody else must have offered them
)

func newRival(d *topology.Devices) rival {
	r := rival{given: make(map[facts.UID]kubeletGiven)}
	if d != nil {
		r.plugin, r.driver = d.Owner == topology.OwnerKubelet, d.Owner == topology.OwnerNone
	}
	return r
}

// ownership is what a report says of who gives GPUs out.
type ownership uint8

const (
	unsaid ownership = iota
	ours
	kubeletOwns
	nobodyOwns
)

func ownerSaid(r *facts.NodeReport) ownership {
	if r.Devices == nil {
		return unsaid
	}
	return [...]ownership{topology.OwnerNone: nobodyOwns, topology.OwnerHilbert: ours, topology.OwnerKubelet: kubeletOwns}[r.Devices.Owner]
}

// owner is who gives the GPUs out, as far as the agent knows.
func (ag *agent) owner() topology.Owner {
	if ag.gpus.Devices == nil {
		return topology.OwnerNone
	}
	return ag.gpus.Devices.Owner
}

// spoil makes a report that of an agent of another version, as it is read here.
func (d dialect) spoil(r *facts.NodeReport) {
	switch {
	case r.Devices == nil || d == spoken:
	case d == older:
		r.Devices, r.HeldDevices = nil, nil
	default:
		unknown := *r.Devices
		unknown.Owner = topology.OwnerNone
		r.Devices = &unknown
	}
}

// recover ends what has befallen; it reports whether another number of GPUs is offered now.
func (r *rival) recover() bool {
	healed := r.plugin && r.ill != 0
	r.dialect, r.ill = spoken, 0
	return healed
}

// offers is the set of GPUs that the kubelet may give.
func (ag *agent) offers() (set uint16) {
	if !ag.rival.plugin {
		return 0
	}
	for i := range ag.gpus.Devices.GPU {
		if len(ag.gpus.Devices.GPU[i].Instances) == 0 && ag.rival.ill>>i&1 == 0 {
			set |= 1 << i
		}
	}
	return set
}

// kubeletAdmits gives a pod the GPUs that it asks of the kubelet, and reports whether the agent may go on with it. A pod that nobody gives GPUs fails.
func (s *simulation) kubeletAdmits(i int32) bool {
	p := &s.api.pods[i]
	r, ag := s.api.requirements(p), s.api.nodes[p.node].agent
	hilbert := ag.owner() == topology.OwnerHilbert
	switch {
	case ag.gpus.Devices == nil || r.GPU.IsZero():
		return true
	case !ag.rival.plugin && hilbert && !p.foreign, r.GPU.Milli > 0 && hilbert:
		return true
	case !ag.rival.plugin, r.GPU.Milli > 0:
		return s.fails(i, "nobody gives it GPUs")
	case !p.foreign && ag.owner() != topology.OwnerKubelet:
		return s.fails(i, "two would give it GPUs")
	}
	free := ag.offers()
	for _, k := range ag.rival.given {
		free &^= k.gpus
	}
	if bits.OnesCount16(free) < int(r.GPU.Whole) {
		return s.fails(i, "the kubelet has too few GPUs for it")
	}
	var k kubeletGiven
	for range r.GPU.Whole {
		left := free &^ k.gpus
		for skip := s.agents.IntN(bits.OnesCount16(left)); skip > 0; skip-- {
			left &= left - 1
		}
		k.gpus |= left & -left
	}
	for uid, held := range ag.held {
		if _, also := ag.rival.given[uid]; !also && held.GPUs&k.gpus != 0 && p.foreign {
			k.against = true
		}
	}
	ag.rival.given[p.uid] = k
	s.meter.faults["GPUs given by a kubelet"]++
	if k.against {
		s.meter.faults["GPU sold by somebody else too"]++
	}
	s.reportSoon(p.node)
	return true
}

// fails ends a pod that its node does not admit; the pod's controller creates another. Ours must not come to that by what the scheduler had been told.
func (s *simulation) fails(i int32, why string) bool {
	p := &s.api.pods[i]
	n := &s.api.nodes[p.node]
	if !p.foreign && !s.couldNotKnow(p, n) {
		s.violate("pod %s fails on node %s: %s; the scheduler had been told", p.uid, n.object.Name, why)
	}
	s.meter.faults["pod failed at admission"]++
	s.evict(i)
	return false
}

// couldNotKnow reports whether something that the scheduler had not been told when it placed a pod is about the node's GPUs. An agent that says nothing of
// devices does not say either that pods hold some which a device plugin offers too.
func (s *simulation) couldNotKnow(p *pod, n *node) bool {
	mute := ownerSaid(n.agent.said) == unsaid && n.agent.contested()
	if mute || n.recounted > p.seenNode || n.agent.rival.turned > p.seenSaid {
		return true
	}
	return slices.ContainsFunc(n.pods, func(i int32) bool {
		o := &s.api.pods[i]
		return o.foreign && o.bound > p.seen && !s.api.requirements(o).GPU.IsZero()
	})
}

// collide takes note that the agent gives GPUs that the kubelet had given, because it does not know of that yet.
func (ag *agent) collide(g *topology.Grant) {
	for uid, k := range ag.rival.given {
		if k.gpus&g.GPUs&^ag.gpus.Devices.ClosedGPUs != 0 && ag.owner() == topology.OwnerHilbert {
			k.against = true
			ag.rival.given[uid] = k
		}
	}
}

// forget takes back what the kubelet gave; it reports whether there was anything.
func (ag *agent) forget(uid facts.UID) bool {
	_, ok := ag.rival.given[uid]
	delete(ag.rival.given, uid)
	return ok
}

// readBack lets the agent learn which GPUs the kubelet gave, once it knows that there is a kubelet who does.
func (ag *agent) readBack() {
	if ag.owner() == topology.OwnerHilbert {
		return
	}
	for uid, k := range ag.rival.given {
		if g := ag.held[uid]; !k.against && g.GPUs == 0 {
			ag.drop(uid)
			g.GPUs, g.Milli = k.gpus, topology.FullGPU
			ag.take(uid, g)
		}
	}
}

// alien is the set of GPUs on which somebody computes to whom the agent did not give them, and of whom it has not read what the kubelet gave.
func (ag *agent) alien() (set uint16) {
	for uid, k := range ag.rival.given {
		if k.against || ag.held[uid].GPUs == 0 {
			set |= k.gpus
		}
	}
	return set
}

// ownsSome reports whether pods hold GPUs that the agent gave.
func (ag *agent) ownsSome() bool {
	for uid, g := range ag.held {
		if _, also := ag.rival.given[uid]; g.GPUs != 0 && !also {
			return true
		}
	}
	return false
}

// contested reports whether a device plugin offers GPUs of which the agent has given some.
func (ag *agent) contested() bool {
	return ag.rival.plugin && ag.owner() == topology.OwnerNone
}

// allGiven lists what anybody has given of the node's devices, apart from what was given against us.
func (ag *agent) allGiven() []topology.Grant {
	list := slices.Collect(maps.Values(ag.held))
	for uid, k := range ag.rival.given {
		if !k.against && ag.held[uid].GPUs == 0 {
			list = append(list, topology.Grant{GPUs: k.gpus, Milli: topology.FullGPU})
		}
	}
	return list
}

// givenTwice names a pod that has GPUs of the kubelet and others of the agent.
func (ag *agent) givenTwice() facts.UID {
	for _, uid := range slices.Sorted(maps.Keys(ag.rival.given)) {
		if by := ag.held[uid].GPUs; by != 0 && by != ag.rival.given[uid].gpus {
			return uid
		}
	}
	return ""
}

// sameHeld compares what the ledger has of a pod's devices with what the agent has. Where the kubelet gives GPUs, which ones is not compared.
func (ag *agent) sameHeld(known, given topology.Grant) bool {
	if ag.owner() == topology.OwnerKubelet {
		return known.NICs == given.NICs && (known.NICs == 0 || known.NIC == given.NIC)
	}
	return judge.SameDevices(known, given)
}

// looks lets the agent find out who gives the GPUs out.
func (s *simulation) looks(node int32) {
	ag := s.api.nodes[node].agent
	ag.rival.due = false
	owner := topology.OwnerHilbert
	switch {
	case ag.rival.driver, ag.rival.plugin && ag.ownsSome():
		owner = topology.OwnerNone
	case ag.rival.plugin:
		owner = topology.OwnerKubelet
	case ag.owner() != topology.OwnerHilbert && s.now-ag.rival.gone < ownerQuiet:
		owner = topology.OwnerNone
		s.lookSoon(node, ownerQuiet)
	}
	d := *ag.gpus.Devices
	if d.Owner != owner {
		s.meter.faults["GPUs owned by "+owner.String()]++
	}
	d.Owner = owner
	ag.gpus.Devices = &d
	ag.readBack()
	d.ClosedGPUs |= ag.alien() // what nvidia-smi shows of processes without a grant
	s.reportSoon(node)
}

func (s *simulation) lookSoon(node int32, within int64) {
	if ag := s.api.nodes[node].agent; !ag.rival.due {
		ag.rival.due = true
		s.agenda.add(event{at: s.now + 1 + s.agents.Int64N(within), kind: evLook, arg: node})
	}
}

// changeOwner lets a device plugin come to a node, or go, or find a GPU ill; or another seller leave; or the agent be of another version for a while.
func (s *simulation) changeOwner() {
	node := s.randomAgent()
	if node == nowhere || s.api.nodes[node].agent.gpus.Devices == nil {
		return
	}
	ag := s.api.nodes[node].agent
	r := &ag.rival
	switch at := s.agents.IntN(6); {
	case at == 0:
		r.dialect = dialect(1 + s.agents.IntN(int(dialects)-1))
		s.meter.faults["agent of another version"]++
		s.reportSoon(node)
		s.agenda.add(event{at: s.now + 1 + s.agents.Int64N(absence), kind: evAgentBack, arg: node})
		return
	case r.driver:
		r.driver, r.gone = false, s.now
	case r.plugin && at <= 3:
		r.ill |= 1 << s.agents.IntN(len(ag.gpus.Devices.GPU))
		s.meter.faults["GPU ill"]++
		s.agenda.add(event{at: s.now + 1 + s.agents.Int64N(absence), kind: evAgentBack, arg: node})
	case r.plugin:
		r.plugin, r.ill, r.gone = false, 0, s.now
		s.meter.faults["device plugin gone"]++
	default:
		r.plugin = true
		s.meter.faults["device plugin come"]++
	}
	s.countGPUs(node)
	s.lookSoon(node, ownerLook)
}

// countGPUs lets node.status count what the device plugin offers.
func (s *simulation) countGPUs(node int32) {
	n := &s.api.nodes[node]
	edited := *n.object
	edited.GPU = topology.Shape{}
	if n.agent.rival.plugin {
		edited.GPU = trace.Counted(n.agent.gpus.Devices)
		edited.GPU.GPUs = bits.OnesCount16(n.agent.offers())
	}
	if edited.GPU == n.object.GPU {
		return
	}
	n.object = &edited
	s.api.revision++
	n.recounted = s.api.revision
	if n.present {
		s.tell(watchNodes, facts.NodeUpserted{Node: n.object})
	}
}

// roomForWhole reports whether the kubelet of a node that counts GPUs has enough of them left for a pod, by what the others ask for.
func (n *node) roomForWhole(on []judge.Occupant, r *facts.Requirements) bool {
	return !n.givesDevices() || r.GPU.IsZero() || r.GPU.Milli == 0 && judge.WholeGPUs(on)+int(r.GPU.Whole) <= n.object.GPU.GPUs
}

// fitsOurs reports whether our scheduler could put a pod on a node beside others. What agents alone give it never does, as fits.
func (n *node) fitsOurs(on []judge.Occupant, r *facts.Requirements) bool {
	if n.givesDevices() && !r.GPU.IsZero() && ownerSaid(n.agent.said) != kubeletOwns {
		return false
	}
	return judge.Fits(n.offered(), on, r) && n.roomForWhole(on, r)
}

// The checker's side.

// tooManyWhole says that the kubelet would have more GPUs to give than there are: counted by what pods ask for, whatever was recorded of indices.
func (c *checker) tooManyWhole(n *facts.Node, m *mirrored, off []facts.UID) string {
	if m.requirements.GPU.IsZero() || n.GPU.Shareable {
		return ""
	}
	if judge.WholeGPUs(c.occupants(n.Name, m, off...))+int(m.requirements.GPU.Whole) > n.GPU.GPUs {
		return "more GPUs than the kubelet counts"
	}
	return ""
}

// disowned says what is wrong with GPUs of a node whose agent does not give them out.
func (c *checker) disowned(n *facts.Node, m *mirrored, g *topology.Grant, off []facts.UID) string {
	r, report := &m.requirements.GPU, c.reports[n.Name].report
	owner := ownerSaid(report)
	if r.IsZero() || owner == ours && n.GPU.GPUs == 0 {
		return ""
	}
	switch {
	case owner == ours:
		return "GPUs of an agent that a device plugin offers too"
	case owner == nobodyOwns:
		return "GPUs that nobody gives out"
	case r.Milli > 0 || g.Milli != topology.FullGPU || g.Memory > 0 || g.Isolation != topology.IsolationAny || g.Instance > 0:
		return "parts of GPUs that the kubelet gives out"
	case r.Near.Required && !r.Near.Relax && (r.Count()+int(r.NIC.Count) > 1 || !m.requirements.NUMANodes.IsZero()):
		return "nearness to GPUs that the kubelet will choose"
	case bits.OnesCount16(g.GPUs) != r.Count():
		return "another number of GPUs than is asked for"
	}
	for i := range report.Devices.GPU {
		if report.Devices.GPU[i].Memory < r.Memory {
			return "memory that not all GPUs have of which the kubelet chooses"
		}
	}
	return c.tooManyWhole(n, m, off)
}
