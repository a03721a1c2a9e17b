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

// gpuOwners is which other parties give out a node's GPUs: the kubelet, for a device plugin, or one that no count shows. The node's agent finds
// that out some time later:
//
//	0 s   a device plugin comes; node.status counts 8 GPUs
//	12 s  the agent notices, and reports that the kubelet owns the GPUs
type gpuOwners struct {
	// plugin: a device plugin offers the GPUs, and node.status counts those that are healthy. driver: another party gives them out, and nothing counts
	// them.
	plugin, driver bool
	unhealthy      uint16
	// given is what the kubelet has given out.
	given map[facts.UID]kubeletGiven
	// leftAt is when the plugin or the driver left.
	leftAt int64
	// changed is the history's revision at which the report named another owner.
	changed  uint64
	version  agentVersion
	checkDue bool // findOwner is on the agenda
}

// kubeletGiven is GPUs that the kubelet gave to a pod.
type kubeletGiven struct {
	gpus uint16
	// conflicting: our agent had given them out already, or gave them out before it knew. Neither party can prevent that. The pod that has them from
	// the kubelet is another scheduler's.
	conflicting bool
}

// agentVersion is the version of an agent, by what its reports say of devices.
type agentVersion uint8

const (
	currentVersion agentVersion = iota // all
	olderVersion                       // nothing of devices
	newerVersion                       // an owner that is not known here
	agentVersions                      // how many
)

// Delays of agents and bounds.
const (
	ownerLook  = int64(20 * time.Second) // until the agent notices a change of owner, at most
	ownerQuiet = int64(40 * time.Second) // for which no other party must have offered GPUs before the agent gives them out again
)

func newGPUOwners(d *topology.Devices) gpuOwners {
	r := gpuOwners{given: make(map[facts.UID]kubeletGiven)}
	if d != nil {
		r.plugin, r.driver = d.Owner == topology.OwnerKubelet, d.Owner == topology.OwnerNone
	}
	return r
}

// owner is the party that gives the GPUs out, as far as the agent knows.
func (ag *agent) owner() topology.Owner {
	if ag.gpus.Devices == nil {
		return topology.OwnerNone
	}
	return ag.gpus.Devices.Owner
}

// rewrite turns a report into that of an agent of this version.
func (d agentVersion) rewrite(r *facts.NodeReport) {
	switch {
	case r.Devices == nil || d == currentVersion:
	case d == olderVersion:
		r.Devices, r.HeldDevices = nil, nil
	default:
		unknown := *r.Devices
		unknown.Owner = topology.OwnerNone
		r.Devices = &unknown
	}
}

// recover ends all faults; it reports whether another number of GPUs is offered now.
func (r *gpuOwners) recover() bool {
	healed := r.plugin && r.unhealthy != 0
	r.version, r.unhealthy = currentVersion, 0
	return healed
}

// offeredGPUs is the set of GPUs that the kubelet may give.
func (ag *agent) offeredGPUs() (set uint16) {
	if !ag.owners.plugin {
		return 0
	}
	for i := range ag.gpus.Devices.GPU {
		if len(ag.gpus.Devices.GPU[i].Instances) == 0 && ag.owners.unhealthy>>i&1 == 0 {
			set |= 1 << i
		}
	}
	return set
}

// kubeletAdmits gives a pod the GPUs that it asks of the kubelet, and reports whether the agent may go on. A pod fails if no party gives it GPUs, or
// two would.
func (na *nodeAgents) kubeletAdmits(i int32) bool {
	p := &na.api.pods[i]
	r, ag := na.api.requirements(p), na.api.nodes[p.node].agent
	hilbert := ag.owner() == topology.OwnerHilbert
	switch {
	case ag.gpus.Devices == nil || r.GPU.IsZero():
		return true
	case !ag.owners.plugin && hilbert && !p.foreign, r.GPU.Milli > 0 && hilbert:
		return true
	case !ag.owners.plugin, r.GPU.Milli > 0:
		return na.fail(i, "no party gives it GPUs")
	case !p.foreign && ag.owner() != topology.OwnerKubelet:
		return na.fail(i, "two would give it GPUs")
	}
	free := ag.offeredGPUs()
	for _, k := range ag.owners.given {
		free &^= k.gpus
	}
	if bits.OnesCount16(free) < int(r.GPU.Whole) {
		return na.fail(i, "the kubelet has too few GPUs for it")
	}
	var k kubeletGiven
	for range r.GPU.Whole {
		left := free &^ k.gpus
		for skip := na.draws.IntN(bits.OnesCount16(left)); skip > 0; skip-- {
			left &= left - 1
		}
		k.gpus |= left & -left
	}
	for uid, held := range ag.held {
		if _, also := ag.owners.given[uid]; !also && held.GPUs&k.gpus != 0 && p.foreign {
			k.conflicting = true
		}
	}
	ag.owners.given[p.uid] = k
	na.meter.faults["GPUs given by a kubelet"]++
	if k.conflicting {
		na.meter.faults["GPU given out twice"]++
	}
	na.reportSoon(p.node)
	return true
}

// fail ends a pod that its node does not admit; the pod's controller creates another. It is a violation if the scheduler put the pod there although
// it had been told enough to know better.
func (na *nodeAgents) fail(i int32, why string) bool {
	p := &na.api.pods[i]
	n := &na.api.nodes[p.node]
	if !p.foreign && !na.couldNotKnow(p, n) {
		na.violations.add("pod %s fails on node %s: %s; the scheduler had been told", p.uid, n.object.Name, why)
	}
	na.meter.faults["pod failed at admission"]++
	na.pods.evict(i)
	return false
}

// couldNotKnow reports whether something had changed about the node's GPUs of which the scheduler had not been told when it placed the pod. If the
// agent's report has no devices, the scheduler cannot know that pods hold GPUs which a device plugin offers too.
func (na *nodeAgents) couldNotKnow(p *pod, n *node) bool {
	mute := judge.OwnerSaid(n.agent.said) == judge.OwnerUnsaid && n.agent.contested()
	if mute || n.recounted > p.seenNodes || n.agent.owners.changed > p.seenReports {
		return true
	}
	return slices.ContainsFunc(n.pods, func(i int32) bool {
		o := &na.api.pods[i]
		return o.foreign && o.bound > p.seenPods && !na.api.requirements(o).GPU.IsZero()
	})
}

// noteConflict takes note that the agent gives out GPUs that the kubelet had given, because it does not know of that yet.
func (ag *agent) noteConflict(g *topology.Grant) {
	for uid, k := range ag.owners.given {
		if k.gpus&g.GPUs&^ag.gpus.Devices.ClosedGPUs != 0 && ag.owner() == topology.OwnerHilbert {
			k.conflicting = true
			ag.owners.given[uid] = k
		}
	}
}

// forgetKubelet takes back what the kubelet gave to a pod; false if it gave nothing.
func (ag *agent) forgetKubelet(uid facts.UID) bool {
	_, ok := ag.owners.given[uid]
	delete(ag.owners.given, uid)
	return ok
}

// readBack lets the agent read which GPUs the kubelet gave out, as soon as it knows that the kubelet gives them out.
func (ag *agent) readBack() {
	if ag.owner() == topology.OwnerHilbert {
		return
	}
	for uid, k := range ag.owners.given {
		if g := ag.held[uid]; !k.conflicting && g.GPUs == 0 {
			ag.drop(uid)
			g.GPUs, g.Milli = k.gpus, topology.FullGPU
			ag.take(uid, g)
		}
	}
}

// foreignGPUs is the set of GPUs used by pods that did not get them from the agent, and of which it has not read what the kubelet gave.
func (ag *agent) foreignGPUs() (set uint16) {
	for uid, k := range ag.owners.given {
		if k.conflicting || ag.held[uid].GPUs == 0 {
			set |= k.gpus
		}
	}
	return set
}

// givesSome reports whether pods hold GPUs that the agent gave.
func (ag *agent) givesSome() bool {
	for uid, g := range ag.held {
		if _, also := ag.owners.given[uid]; g.GPUs != 0 && !also {
			return true
		}
	}
	return false
}

// contested reports whether a device plugin offers GPUs of which the agent has given some.
func (ag *agent) contested() bool {
	return ag.owners.plugin && ag.owner() == topology.OwnerNone
}

// allGiven lists what is held of the node's devices, whichever party gave it, without what conflicts with the agent's grants.
func (ag *agent) allGiven() []topology.Grant {
	list := slices.Collect(maps.Values(ag.held))
	for uid, k := range ag.owners.given {
		if !k.conflicting && ag.held[uid].GPUs == 0 {
			list = append(list, topology.Grant{GPUs: k.gpus, Milli: topology.FullGPU})
		}
	}
	return list
}

// givenTwice names a pod that has GPUs of the kubelet and others of the agent.
func (ag *agent) givenTwice() facts.UID {
	for _, uid := range slices.Sorted(maps.Keys(ag.owners.given)) {
		if by := ag.held[uid].GPUs; by != 0 && by != ag.owners.given[uid].gpus {
			return uid
		}
	}
	return ""
}

// sameHeld compares what the ledger has of a pod's devices with what the agent has. Where the kubelet gives out GPUs it does not compare which.
func (ag *agent) sameHeld(known, given topology.Grant) bool {
	if ag.owner() == topology.OwnerKubelet {
		return known.NICs == given.NICs && (known.NICs == 0 || known.NIC == given.NIC)
	}
	return judge.SameDevices(known, given)
}

// findOwner lets the agent find out which party gives the GPUs out.
func (na *nodeAgents) findOwner(node int32) {
	ag := na.api.nodes[node].agent
	ag.owners.checkDue = false
	owner := topology.OwnerHilbert
	switch {
	case ag.owners.driver, ag.owners.plugin && ag.givesSome():
		owner = topology.OwnerNone
	case ag.owners.plugin:
		owner = topology.OwnerKubelet
	case ag.owner() != topology.OwnerHilbert && na.clock.now-ag.owners.leftAt < ownerQuiet:
		owner = topology.OwnerNone
		na.findOwnerSoon(node, ownerQuiet)
	}
	d := *ag.gpus.Devices
	if d.Owner != owner {
		na.meter.faults["GPUs owned by "+owner.String()]++
	}
	d.Owner = owner
	ag.gpus.Devices = &d
	ag.readBack()
	d.ClosedGPUs |= ag.foreignGPUs() // what nvidia-smi shows of processes without a grant
	na.reportSoon(node)
}

func (na *nodeAgents) findOwnerSoon(node int32, within int64) {
	if ag := na.api.nodes[node].agent; !ag.owners.checkDue {
		ag.owners.checkDue = true
		na.clock.add(event{at: na.clock.now + 1 + na.draws.Int64N(within), kind: evFindOwner, arg: node})
	}
}

// changeOwner lets a device plugin come to a node, or go, or find a GPU unhealthy; or the other driver leave; or the agent be of another version for a
// while.
func (na *nodeAgents) changeOwner() {
	node := na.random()
	if node == nowhere || na.api.nodes[node].agent.gpus.Devices == nil {
		return
	}
	ag := na.api.nodes[node].agent
	r := &ag.owners
	switch at := na.draws.IntN(6); {
	case at == 0:
		r.version = agentVersion(1 + na.draws.IntN(int(agentVersions)-1))
		na.meter.faults["agent of another version"]++
		na.reportSoon(node)
		na.clock.add(event{at: na.clock.now + 1 + na.draws.Int64N(absence), kind: evAgentBack, arg: node})
		return
	case r.driver:
		r.driver, r.leftAt = false, na.clock.now
	case r.plugin && at <= 3:
		r.unhealthy |= 1 << na.draws.IntN(len(ag.gpus.Devices.GPU))
		na.meter.faults["GPU unhealthy"]++
		na.clock.add(event{at: na.clock.now + 1 + na.draws.Int64N(absence), kind: evAgentBack, arg: node})
	case r.plugin:
		r.plugin, r.unhealthy, r.leftAt = false, 0, na.clock.now
		na.meter.faults["device plugin removed"]++
	default:
		r.plugin = true
		na.meter.faults["device plugin added"]++
	}
	na.countGPUs(node)
	na.findOwnerSoon(node, ownerLook)
}

// countGPUs lets node.status count what the device plugin offers.
func (na *nodeAgents) countGPUs(node int32) {
	n := &na.api.nodes[node]
	edited := *n.object
	edited.GPU = topology.Shape{}
	if n.agent.owners.plugin {
		edited.GPU = trace.Counted(n.agent.gpus.Devices)
		edited.GPU.GPUs = bits.OnesCount16(n.agent.offeredGPUs())
	}
	if edited.GPU == n.object.GPU {
		return
	}
	n.object = &edited
	na.api.revision++
	n.recounted = na.api.revision
	if n.present {
		na.watches.tell(watchNodes, facts.NodeUpserted{Node: n.object})
	}
}

// roomForWhole reports whether the kubelet has enough GPUs left for a pod, where node.status counts them: by what the others ask for.
func (n *node) roomForWhole(on []judge.Occupant, r *facts.Requirements) bool {
	return !n.givesDevices() || r.GPU.IsZero() || r.GPU.Milli == 0 && judge.WholeGPUs(on)+int(r.GPU.Whole) <= n.object.GPU.GPUs
}

// fitsOurs reports whether our scheduler could put a pod on a node beside others. Like judge.Fits it answers no for what only agents give out.
func (n *node) fitsOurs(on []judge.Occupant, r *facts.Requirements) bool {
	if n.givesDevices() && !r.GPU.IsZero() && judge.OwnerSaid(n.agent.said) != judge.OwnerKubelet {
		return false
	}
	return judge.Fits(n.offered(), on, r) && n.roomForWhole(on, r)
}
