package sim

import (
	"fmt"
	"slices"
	"time"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/sim/judge"
	"hilbert.dev/hilbert/sim/trace"
	"hilbert.dev/hilbert/topology"
)

// fault is a kind of fault that strikes at intervals.
type fault int32

const (
	deletion fault = iota
	nodeFlap
	nodeEdit
	restart
	relist
	queueEdit
	unitFlap
	agentSilence
	agentClaim
	headroomFall
	headroomShut
	headroomTide
	ownerChange
	nodeLoss
	schedulerFault
	faultKinds
)

func (f *Faults) interval(kind fault) time.Duration {
	return [faultKinds]time.Duration{
		f.Deletions, f.NodeFlaps, f.NodeEdits, f.Restarts, f.Relists, f.QueueEdits, f.UnitFlaps, f.AgentSilences, f.AgentClaims,
		f.HeadroomFalls, f.HeadroomShuts, f.Tides, f.OwnerChanges, f.NodeLosses, f.SchedulerFaults,
	}[kind]
}

// faultInjector strikes with one kind of fault after another, at intervals that it draws: with a mean of ten minutes, five to fifteen minutes
// apart.
type faultInjector struct {
	faults     *Faults // nil: none
	draws      *stream
	timeout    int64 // of writes
	clock      *clock
	violations *violations
	meter      *meter
	w          *trace.Workload
	api        *model
	watches    *watches
	process    *process
	pods       *podLifecycle
	agents     *nodeAgents
	admin      *admin
}

// planAll puts the first strike of each fault on the agenda.
func (fi *faultInjector) planAll() {
	if fi.faults == nil {
		return
	}
	for kind := range faultKinds {
		fi.plan(kind)
	}
}

// plan puts the next strike on the agenda, half to one and a half intervals from now.
func (fi *faultInjector) plan(kind fault) {
	if fi.faults == nil {
		return // a test put it on the agenda
	}
	interval := fi.faults.interval(kind)
	if interval <= 0 || kind == schedulerFault && fi.process.elsewhere == nil {
		return
	}
	at := fi.clock.now + int64(interval)/2 + fi.draws.Int64N(int64(interval)+1)
	if at <= int64(fi.faults.Until) {
		fi.clock.add(event{at: at, kind: evFault, arg: int32(kind)})
	}
}

func (fi *faultInjector) strike(kind fault) {
	fi.plan(kind)
	fi.meter.faults["strike: "+kind.String()]++
	switch kind {
	case deletion:
		fi.pods.delete(fi.randomPod(func(p *pod) bool { return p.exists && !p.deleting && !p.finished }))
	case nodeFlap:
		fi.removeNode()
	case nodeEdit:
		fi.editNode()
	case restart:
		if fi.process.scheduler != nil {
			fi.process.crash()
			// By then every write of the dead process has taken effect or is lost, as the fence of the real lease ensures.
			fi.clock.add(event{at: fi.clock.now + fi.timeout + 1, kind: evRestart})
		}
	case relist:
		if fi.process.scheduler != nil {
			kinds := fi.watches.kinds()
			fi.process.list(kinds[fi.draws.IntN(len(kinds))])
		}
	case queueEdit:
		fi.editQueue()
	case unitFlap:
		fi.flapUnit()
	case agentSilence:
		fi.agents.silence()
	case agentClaim:
		fi.agents.claim()
	case headroomFall:
		if node := fi.agents.random(); node != nowhere {
			fi.agents.dropHeadroom(node)
		}
	case headroomShut:
		fi.agents.closeHeadroom()
	case headroomTide:
		fi.agents.dropAllHeadroom()
	case ownerChange:
		fi.agents.changeOwner()
	case nodeLoss:
		fi.loseNode()
	case schedulerFault:
		fi.process.elsewhere.fail()
	default:
		fi.violations.add("no such fault: %d", int32(kind))
	}
}

// randomPod returns a pod that passes, or nowhere.
func (fi *faultInjector) randomPod(pass func(*pod) bool) int32 {
	n := len(fi.api.pods)
	if n == 0 {
		return nowhere
	}
	start := fi.draws.IntN(n)
	for i := range n {
		if at := (start + i) % n; pass(&fi.api.pods[at]) {
			return int32(at)
		}
	}
	return nowhere
}

// otherScheduler binds pods without asking ours: its own, and now and then one of ours.
type otherScheduler struct {
	draws      *stream
	clock      *clock
	violations *violations
	meter      *meter
	api        *model
	watches    *watches
	pods       *podLifecycle
	agents     *nodeAgents
}

// foreignRetry and foreignTries bound another scheduler's attempts at one pod.
const (
	foreignRetry    = int64(5 * time.Second)
	foreignAttempts = 8
)

// bind binds a pod to a node where it fits, by the API server's books. If there is none it tries again later, unless the pod is ours.
func (o *otherScheduler) bind(i int32) {
	p := &o.api.pods[i]
	if !p.exists || p.node != nowhere || p.deleting || p.gated {
		return
	}
	switch bound := o.bindSomewhere(i); {
	case bound && p.ours:
		o.meter.faults["pod stolen"]++
		o.meter.placed++
	case !bound && !p.ours && o.clock.now < o.meter.end:
		o.clock.add(event{at: o.clock.now + foreignRetry, kind: evForeign, arg: i})
	}
}

// bindSomewhere tries some nodes at random.
func (o *otherScheduler) bindSomewhere(i int32) bool {
	r := o.api.requirements(&o.api.pods[i])
	for range foreignAttempts {
		at := int32(o.draws.IntN(len(o.api.nodes)))
		n := &o.api.nodes[at]
		if !n.present || !judge.Fits(n.offered(), o.api.occupants(n), r) || !n.roomForWhole(o.api.occupants(n), r) {
			continue
		}
		grant, _ := judge.SomeGrant(n.offered(), o.api.occupants(n), r.GPU)
		if n.givesDevices() {
			grant = topology.Grant{} // the kubelet chooses, and no object says which
		}
		if over := o.api.bind(i, at, grant, o.clock.now); over != "" {
			o.violations.add("the other scheduler over-commits node %s: %s", n.object.Name, over)
		}
		o.api.pods[i].foreign = true
		o.pods.planEnd(i)
		if n.givesDevices() {
			o.agents.podBound(i)
		}
		o.watches.tellPod(i)
		return true
	}
	return false
}

// removeNode takes a node away for a while. What is bound to it stays bound.
func (fi *faultInjector) removeNode() {
	i := fi.draws.IntN(len(fi.api.nodes))
	n := &fi.api.nodes[i]
	if !n.present {
		return
	}
	fi.admin.removeNode(n)
	fi.clock.add(event{at: fi.clock.now + 1 + fi.draws.Int64N(int64(fi.faults.NodeAbsence)+1), kind: evReturn, arg: int32(i)})
}

// loseNode makes a node unreachable for a while.
func (fi *faultInjector) loseNode() {
	i := fi.draws.IntN(len(fi.api.nodes))
	n := &fi.api.nodes[i]
	if !n.present || n.lost > 0 {
		return
	}
	until := fi.clock.now + 1 + fi.draws.Int64N(int64(fi.faults.NodeAbsence)+1)
	fi.admin.loseNode(n, until)
	fi.clock.add(event{at: until, kind: evReached, arg: int32(i)})
}

// editNode cordons or taints a node, or takes that back.
func (fi *faultInjector) editNode() {
	n := &fi.api.nodes[fi.draws.IntN(len(fi.api.nodes))]
	if !n.present {
		return
	}
	edited := *n.object
	taint := facts.Taint{Key: "sim.hilbert.dev/maintenance", Effect: facts.NoSchedule}
	switch at := slices.Index(edited.Taints, taint); {
	case fi.draws.chance(permille / 2):
		edited.Unschedulable = !edited.Unschedulable
	case at >= 0:
		edited.Taints = slices.Delete(slices.Clone(edited.Taints), at, at+1)
	default:
		edited.Taints = append(slices.Clone(edited.Taints), taint)
	}
	fi.admin.updateNode(n, &edited)
}

// String names a fault for messages.
func (f fault) String() string {
	names := [faultKinds]string{
		"deletion", "node flap", "node edit", "restart", "relist", "queue edit", "unit flap", "agent silence", "agent claim",
		"headroom fall", "headroom shut", "tide", "owner change", "node loss", "fault of a scheduler elsewhere",
	}
	if f < 0 || f >= faultKinds {
		return fmt.Sprintf("fault %d", int32(f))
	}
	return names[f]
}

// editQueue changes a queue. Every other time the queue gets back its first settings, so that nothing stays broken.
func (fi *faultInjector) editQueue() {
	f := *fi.w.Queues[fi.draws.IntN(len(fi.w.Queues))]
	switch fi.draws.IntN(8) {
	case 0: // perhaps itself, or what is below it
		f.Parent = fi.w.Queues[fi.draws.IntN(len(fi.w.Queues))].Name
	case 1:
		f.Parent = "nobody"
	case 2, 3: // perhaps below what it has
		f.Max = scaled(f.Guaranteed, int64(fi.draws.IntN(150)))
	}
	if fi.draws.IntN(12) == 0 {
		fi.admin.removeQueue(f.Name)
		return
	}
	fi.admin.setQueue(&f)
}

// scaled is so many percent of each amount.
func scaled(list []resource.Quantity, percent int64) []resource.Quantity {
	list = slices.Clone(list)
	for i := range list {
		list[i].Amount = list[i].Amount / 100 * percent
	}
	return list
}

// flapUnit deletes a PodGroup, which comes back some time later under another UID.
func (fi *faultInjector) flapUnit() {
	start := fi.draws.IntN(len(fi.api.units))
	for i := range fi.api.units {
		at := int32((start + i) % len(fi.api.units))
		if fi.api.units[at].exists {
			fi.admin.deleteUnit(at)
			fi.clock.add(event{at: fi.clock.now + fi.draws.Int64N(int64(30*time.Second)), kind: evUnit, arg: at})
			return
		}
	}
}
