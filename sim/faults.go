package sim

import (
	"fmt"
	"slices"
	"time"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/bind"
	"hilbert.dev/hilbert/sim/judge"
	"hilbert.dev/hilbert/topology"
)

// fault is what strikes at intervals.
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
	faultKinds
)

func (f *Faults) interval(kind fault) time.Duration {
	return [faultKinds]time.Duration{
		f.Deletions, f.NodeFlaps, f.NodeEdits, f.Restarts, f.Relists, f.QueueEdits, f.UnitFlaps, f.AgentSilences, f.AgentClaims,
		f.HeadroomFalls, f.HeadroomShuts, f.Tides, f.OwnerChanges,
	}[kind]
}

// planFaults puts the first strike of each fault on the agenda.
func (s *simulation) planFaults() {
	if s.o.Faults == nil {
		return
	}
	for kind := range faultKinds {
		s.planFault(kind)
	}
}

// planFault puts the next strike on the agenda, half to one and a half intervals from now.
func (s *simulation) planFault(kind fault) {
	if s.o.Faults == nil {
		return // it was put on the agenda by a test
	}
	interval := s.o.Faults.interval(kind)
	if interval <= 0 {
		return
	}
	at := s.now + int64(interval)/2 + s.faults.Int64N(int64(interval)+1)
	if at <= int64(s.o.Faults.Until) {
		s.agenda.add(event{at: at, kind: evFault, arg: int32(kind)})
	}
}

func (s *simulation) strike(kind fault) {
	s.planFault(kind)
	s.meter.faults["strike: "+kind.String()]++
	switch kind {
	case deletion:
		s.deletePod(s.randomPod(func(p *pod) bool { return p.exists && !p.deleting && !p.finished }))
	case nodeFlap:
		s.removeNode()
	case nodeEdit:
		s.editNode()
	case restart:
		if s.scheduler != nil {
			s.crash()
			// By then every write of the dead process has landed or is lost: that is what the fence is for.
			s.agenda.add(event{at: s.now + int64(s.o.Config.Binding.WriteTimeout.D()) + 1, kind: evRestart})
		}
	case relist:
		if s.scheduler != nil {
			which := s.faults.IntN(s.watching())
			if which == s.watching()-1 && s.reportsNUMA() {
				which = watchReports
			}
			s.list(which)
		}
	case queueEdit:
		s.editQueue()
	case unitFlap:
		s.flapUnit()
	case agentSilence:
		s.silence()
	case agentClaim:
		s.claim()
	case headroomFall:
		if node := s.randomAgent(); node != nowhere {
			s.fall(node)
		}
	case headroomShut:
		s.shut()
	case headroomTide:
		s.tide()
	case ownerChange:
		s.changeOwner()
	default:
		s.violate("no such fault: %d", int32(kind))
	}
}

func (s *simulation) drawRange(r Range) time.Duration {
	return r.Min + time.Duration(s.faults.Int64N(int64(r.Max-r.Min)+1))
}

// chance is true n times in a thousand.
func (s *simulation) chance(n int) bool { return s.faults.IntN(permille) < n }

// drawOwner says whether a new pod is ours.
func (s *simulation) drawOwner() bool {
	return s.o.Faults == nil || !s.chance(s.o.Faults.ForeignTasks)
}

// drawTroubles plans what befalls a new pod.
func (s *simulation) drawTroubles(i int32) {
	f := s.o.Faults
	if f == nil {
		return
	}
	p := &s.api.pods[i]
	soon := func() int64 { return s.now + int64(s.drawRange(f.WriteLatency)) }
	if !p.ours {
		s.agenda.add(event{at: soon(), kind: evForeign, arg: i})
		return
	}
	if s.chance(f.GatedTasks) {
		p.gated = true
		s.agenda.add(event{at: soon(), kind: evUngate, arg: i})
	}
	if s.chance(f.StolenTasks) {
		s.agenda.add(event{at: soon(), kind: evForeign, arg: i})
	}
	if s.chance(f.AbortedTasks) {
		s.agenda.add(event{at: soon(), kind: evDelete, arg: i})
	}
}

// ungate lifts a pod's scheduling gate.
func (s *simulation) ungate(i int32) {
	if p := &s.api.pods[i]; p.exists {
		p.gated = false
		s.api.revision++
		s.tellPod(i)
	}
}

// drawFinish says whether a pod's end is seen as its success first, and its removal later.
func (s *simulation) drawFinish() bool { return s.o.Faults != nil && s.chance(permille/2) }

// finish lets a pod end; it is removed some time later. A pod that never ran is just removed.
func (s *simulation) finish(i int32) {
	p := &s.api.pods[i]
	if !p.exists || p.finished {
		return
	}
	if p.node == nowhere {
		s.leave(i)
		return
	}
	s.ends(i)
	s.api.finish(i, s.now)
	s.tellPod(i)
	if !s.lasting {
		s.agenda.add(event{at: s.now + 1 + s.faults.Int64N(int64(time.Minute)), kind: evLeave, arg: i})
	}
}

// launch starts a write that takes time and may fail.
func (s *simulation) launch(w *bind.Write) {
	f := s.o.Faults
	i := s.takeFlight()
	fl := &s.flights[i]
	*fl = flight{write: *w, process: s.process, result: bind.Result{ID: w.ID}}
	timeout := int64(s.o.Config.Binding.WriteTimeout.D())
	lands := s.now + int64(s.drawRange(f.WriteLatency))
	answers := lands
	kind := s.faults.IntN(permille)
	within := func(n int) bool { kind -= n; return kind < 0 }
	switch {
	case within(f.NotSent):
		fl.result.Outcome, fl.result.Message = bind.NotSent, "held back by the simulator"
		answers = s.now
	case within(f.Refusals):
		fl.result.Outcome, fl.result.Message = bind.Refused, "refused by the simulator"
	case within(f.LostRequests):
		fl.result.Outcome, fl.result.Message = bind.Unknown, "timed out"
		answers = s.now + timeout
	case within(f.LostResponses):
		fl.result.Outcome, fl.result.Message = bind.Unknown, "timed out"
		s.agenda.add(event{at: lands, kind: evLand, arg: i})
		answers = s.now + timeout
	default:
		s.agenda.add(event{at: lands, kind: evLand, arg: i})
	}
	s.agenda.add(event{at: answers, kind: evAnswer, arg: i})
}

func (s *simulation) takeFlight() int32 {
	if n := len(s.vacant); n > 0 {
		i := s.vacant[n-1]
		s.vacant = s.vacant[:n-1]
		return i
	}
	s.flights = append(s.flights, flight{})
	return int32(len(s.flights) - 1)
}

// land lets a write take effect.
func (s *simulation) land(i int32) {
	fl := &s.flights[i]
	result := s.execute(&fl.write)
	if fl.result.Outcome != bind.Unknown {
		fl.result = result
	}
}

// answer tells the process what became of its write, if it still runs.
func (s *simulation) answer(i int32) {
	fl := &s.flights[i]
	s.vacant = append(s.vacant, i)
	s.meter.faults[answerName(&fl.write, fl.result)]++
	if s.scheduler != nil && fl.process == s.process {
		s.finishWrite(fl.result, s.time())
	}
}

// randomPod returns a pod that passes, or nowhere.
func (s *simulation) randomPod(pass func(*pod) bool) int32 {
	n := len(s.api.pods)
	if n == 0 {
		return nowhere
	}
	start := s.faults.IntN(n)
	for i := range n {
		if at := (start + i) % n; pass(&s.api.pods[at]) {
			return int32(at)
		}
	}
	return nowhere
}

// foreignRetry and foreignTries bound another scheduler's attempts at one pod.
const (
	foreignRetry = int64(5 * time.Second)
	foreignTries = 8
)

// foreignBind lets another scheduler bind a pod somewhere it fits, by the API server's own books. If it fits nowhere it tries again
// later, unless the pod is ours.
func (s *simulation) foreignBind(i int32) {
	p := &s.api.pods[i]
	if !p.exists || p.node != nowhere || p.deleting || p.gated {
		return
	}
	switch bound := s.bindElsewhere(i); {
	case bound && p.ours:
		s.meter.faults["pod stolen"]++
		s.meter.placed++
	case !bound && !p.ours && s.now < s.meter.end:
		s.agenda.add(event{at: s.now + foreignRetry, kind: evForeign, arg: i})
	}
}

// bindElsewhere binds a pod without asking our scheduler.
func (s *simulation) bindElsewhere(i int32) bool {
	r := s.api.requirements(&s.api.pods[i])
	for range foreignTries {
		at := int32(s.faults.IntN(len(s.api.nodes)))
		n := &s.api.nodes[at]
		if !n.present || !judge.Fits(n.offered(), s.api.occupants(n), r) || !n.roomForWhole(s.api.occupants(n), r) {
			continue
		}
		grant, _ := judge.SomeGrant(n.offered(), s.api.occupants(n), r.GPU)
		if n.givesDevices() {
			grant = topology.Grant{} // the kubelet chooses, and nobody writes down what
		}
		if over := s.api.bind(i, at, grant, s.now); over != "" {
			s.violate("the other scheduler over-commits node %s: %s", n.object.Name, over)
		}
		s.api.pods[i].foreign = true
		s.runs(i)
		if n.givesDevices() {
			s.starts(i)
		}
		s.tellPod(i)
		return true
	}
	return false
}

// deletePod deletes a pod; every other one that has no node is created anew under its name.
func (s *simulation) deletePod(i int32) {
	if i == nowhere || !s.api.pods[i].exists || s.api.pods[i].deleting {
		return
	}
	p := s.api.pods[i]
	if p.node != nowhere { // it is given time to end
		s.api.pods[i].deleting = true
		s.api.revision++
		s.tellPod(i)
		s.agenda.add(event{at: s.now + s.faults.Int64N(int64(5*time.Second)), kind: evLeave, arg: i})
		return
	}
	s.leave(i)
	if s.chance(permille / 2) {
		s.createPod(p.task, p.age+1, p.ours)
	}
}

// removeNode takes a node away for a while. What is bound to it stays bound.
func (s *simulation) removeNode() {
	i := s.faults.IntN(len(s.api.nodes))
	n := &s.api.nodes[i]
	if !n.present {
		return
	}
	n.present = false
	s.api.revision++
	s.tell(watchNodes, facts.NodeRemoved{Name: n.object.Name})
	s.agenda.add(event{at: s.now + 1 + s.faults.Int64N(int64(s.o.Faults.NodeAbsence)+1), kind: evReturn, arg: int32(i)})
}

// returnNode brings a node back.
func (s *simulation) returnNode(i int32) {
	n := &s.api.nodes[i]
	n.present = true
	s.api.revision++
	s.tell(watchNodes, facts.NodeUpserted{Node: n.object})
}

// editNode cordons or taints a node, or takes that back.
func (s *simulation) editNode() {
	n := &s.api.nodes[s.faults.IntN(len(s.api.nodes))]
	if !n.present {
		return
	}
	edited := *n.object
	taint := facts.Taint{Key: "sim.hilbert.dev/maintenance", Effect: facts.NoSchedule}
	switch at := slices.Index(edited.Taints, taint); {
	case s.chance(permille / 2):
		edited.Unschedulable = !edited.Unschedulable
	case at >= 0:
		edited.Taints = slices.Delete(slices.Clone(edited.Taints), at, at+1)
	default:
		edited.Taints = append(slices.Clone(edited.Taints), taint)
	}
	n.object = &edited
	s.api.revision++
	s.tell(watchNodes, facts.NodeUpserted{Node: n.object})
}

// String names a fault for messages.
func (f fault) String() string {
	names := [faultKinds]string{
		"deletion", "node flap", "node edit", "restart", "relist", "queue edit", "unit flap", "agent silence", "agent claim",
		"headroom fall", "headroom shut", "tide", "owner change",
	}
	if f < 0 || f >= faultKinds {
		return fmt.Sprintf("fault %d", int32(f))
	}
	return names[f]
}
