package sim

import (
	"time"

	"hilbert.dev/hilbert/sim/trace"
)

// podLifecycle creates the pods of the workload and lets them end, as their controllers and kubelets do. A pod that is evicted before its time is
// created anew under its name:
//
//	10:00 task web-1 is created as pod web-1
//	10:05 web-1 is evicted for a pod of higher priority; it has some seconds to end
//	10:05:03 web-1 is gone; the controller creates pod web-1#1
//	11:00 web-1#1 ends, as the trace says
type podLifecycle struct {
	faults  *Faults // nil: none
	draws   *stream
	clock   *clock
	meter   *meter
	w       *trace.Workload
	api     *model
	watches *watches
	agents  *nodeAgents
	process *process // says why a pod waits

	next int // the first task that has not arrived
	// lasting: pods that have ended stay until a scenario deletes them.
	lasting bool
}

// arrive creates the tasks of this instant, and puts the next arrival on the agenda.
func (l *podLifecycle) arrive() {
	for ; l.next < len(l.w.Tasks) && l.w.Tasks[l.next].Created <= l.clock.now; l.next++ {
		l.create(int32(l.next), 0, l.drawOwner())
	}
	if l.next < len(l.w.Tasks) {
		l.clock.add(event{at: l.w.Tasks[l.next].Created, kind: evArrive})
	}
}

// create creates a pod that arrives.
func (l *podLifecycle) create(task, age int32, ours bool) {
	if ours {
		l.meter.arrived(l.w.Tasks[task].Requirements)
	}
	l.begin(task, age, ours)
}

// begin creates a pod. One that replaces an evicted pod is not counted as an arrival.
func (l *podLifecycle) begin(task, age int32, ours bool) {
	l.api.storage.arrive(task)
	i := l.api.create(task, age, ours, l.clock.now)
	l.drawTroubles(i)
	if until := l.w.Tasks[task].Deleted; until != trace.Never {
		kind := evLeave
		if l.drawFinish() {
			kind = evFinish
		}
		l.clock.add(event{at: max(until, l.clock.now), kind: kind, arg: i})
	}
	l.watches.tellPod(i)
}

// leave removes a pod.
func (l *podLifecycle) leave(i int32) {
	p := &l.api.pods[i]
	if !p.exists {
		return
	}
	if back, lost := l.lost(p); lost {
		l.clock.add(event{at: back, kind: evLeave, arg: i})
		return
	}
	until := l.w.Tasks[p.task].Deleted
	again := p.evicted && !p.finished && (until == trace.Never || until > l.clock.now)
	switch {
	case !p.ours:
	case p.bound == 0 && !again:
		l.meter.unplaced(l.process.whyPending(p, reasonLeft))
	case p.bound != 0 && again:
		l.meter.placed--
	}
	task, age, ours := p.task, p.age, p.ours
	l.agents.podEnded(i)
	l.api.remove(i, l.clock.now)
	l.watches.tellRemoved(p)
	l.api.storage.leave(task)
	if again {
		l.begin(task, age+1, ours)
	}
}

// lost says whether a pod's node is unreachable, so that the pod cannot end, and until when.
func (l *podLifecycle) lost(p *pod) (back int64, lost bool) {
	if p.node == nowhere || p.finished {
		return 0, false
	}
	back = l.api.nodes[p.node].lost
	return back, back > l.clock.now
}

// gracePeriod is how long a victim takes to end, without faults.
const gracePeriod = int64(time.Second)

// evict deletes a victim: it is given time to end if it runs.
func (l *podLifecycle) evict(i int32) {
	p := &l.api.pods[i]
	if p.deleting {
		return
	}
	p.evicted = true
	l.meter.evicted++
	if p.node == nowhere {
		l.leave(i)
		return
	}
	l.terminate(i)
	grace := gracePeriod
	if l.faults != nil {
		grace = l.draws.Int64N(int64(5 * time.Second))
		if l.faults.StuckVictims > 0 && l.draws.chance(l.faults.StuckVictims) {
			l.meter.faults["victim stuck"]++
			grace = l.draws.Int64N(int64(l.faults.StuckFor) + 1)
		}
	}
	l.clock.add(event{at: l.clock.now + grace, kind: evLeave, arg: i})
}

// planEnd lets a pod that was just bound come to its end in time.
func (l *podLifecycle) planEnd(i int32) {
	if d := l.w.Tasks[l.api.pods[i].task].Runs; d > 0 {
		l.clock.add(event{at: l.clock.now + d, kind: evFinish, arg: i})
	}
}

// drawOwner says whether a new pod is ours.
func (l *podLifecycle) drawOwner() bool {
	return l.faults == nil || !l.draws.chance(l.faults.ForeignTasks)
}

// drawTroubles plans the faults of a new pod.
func (l *podLifecycle) drawTroubles(i int32) {
	f := l.faults
	if f == nil {
		return
	}
	p := &l.api.pods[i]
	soon := func() int64 { return l.clock.now + int64(l.draws.within(f.WriteLatency)) }
	if !p.ours {
		l.clock.add(event{at: soon(), kind: evForeign, arg: i})
		return
	}
	if l.draws.chance(f.GatedTasks) {
		p.gated = true
		l.clock.add(event{at: soon(), kind: evUngate, arg: i})
	}
	if l.draws.chance(f.StolenTasks) {
		l.clock.add(event{at: soon(), kind: evForeign, arg: i})
	}
	if l.draws.chance(f.AbortedTasks) {
		l.clock.add(event{at: soon(), kind: evDelete, arg: i})
	}
}

// ungate lifts a pod's scheduling gate.
func (l *podLifecycle) ungate(i int32) {
	if p := &l.api.pods[i]; p.exists {
		p.gated = false
		l.api.revision++
		l.watches.tellPod(i)
	}
}

// drawFinish says whether a pod first succeeds and is removed later, rather than removed at once.
func (l *podLifecycle) drawFinish() bool { return l.faults != nil && l.draws.chance(permille/2) }

// finish lets a pod end; it is removed some time later. A pod that never ran is just removed.
func (l *podLifecycle) finish(i int32) {
	p := &l.api.pods[i]
	if !p.exists || p.finished {
		return
	}
	if back, lost := l.lost(p); lost {
		l.clock.add(event{at: back, kind: evFinish, arg: i})
		return
	}
	if p.node == nowhere {
		l.leave(i)
		return
	}
	l.agents.podEnded(i)
	l.api.finish(i, l.clock.now)
	l.watches.tellFinished(i)
	if !l.lasting {
		l.clock.add(event{at: l.clock.now + 1 + l.draws.Int64N(int64(time.Minute)), kind: evLeave, arg: i})
	}
}

// delete deletes a pod; every other one that has no node is created anew under its name.
func (l *podLifecycle) delete(i int32) {
	if i == nowhere || !l.api.pods[i].exists || l.api.pods[i].deleting {
		return
	}
	p := l.api.pods[i]
	if p.node != nowhere { // it is given time to end
		l.terminate(i)
		l.clock.add(event{at: l.clock.now + l.draws.Int64N(int64(5*time.Second)), kind: evLeave, arg: i})
		return
	}
	l.leave(i)
	if l.draws.chance(permille / 2) {
		l.create(p.task, p.age+1, p.ours)
	}
}

// terminate begins to delete a pod that is on a node. The caller plans when it is gone.
func (l *podLifecycle) terminate(i int32) {
	l.api.pods[i].deleting = true
	l.api.revision++
	l.watches.tellPod(i)
}
