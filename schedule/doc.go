// Package schedule is the pipeline: events in, decisions, API writes out.
//
//	Apply(event) ▶ cluster.Store ▶ queue ▶ Step: admit ▶ place (Snapshot → Plan) ▶ bind (Commit or Reject) ▶ Ready: writes ▶ Finish
//
// A Scheduler is one single-threaded state machine. A shell (hilbertd over kube, or the simulator) feeds it events, results of writes and the
// time; the same inputs give the same outputs. It performs no I/O, starts no goroutine and reads no clock.
//
// # The loop
//
// A shell goes round four calls:
//
//	s.Apply(event, now)            // for each event that has come: the ledger changes, pods begin or cease to wait
//	s.Step(now, limit)             // decide about units, until none is ready, limit are decided, or enough Bindings wait
//	for _, w := range s.Ready(now) // the API writes to start now
//	s.Finish(result, now)          // for each answer to a write
//	at, ok := s.NextWake(now)      // when to go round again though nothing happens
//
// # One turn
//
// What is decided about is a unit: one pod, or the members of a gang that wait. Step takes the next unit in turn from the queue and makes an
// attempt. The attempt asks the gate (schedule/admit) whether the limits of the unit's queues leave room; then it goes through a list of
// strategies (loop.go) until one of them ends the turn: place it, take nodes that are reserved for gangs of lower rank, evict
// others for it, backfill, let another unit of its shape backfill or evict others in its turn, or park it. All but the last propose a Plan, which the binder commits against the newest ledger or rejects. A
// rejected unit goes back to the queue, and is decided again on a snapshot that has seen the revision which the rejection named.
//
// A single pod and a gang go the same way. Only where a cluster has neither queues nor gangs, preemption follows kube-scheduler's rules
// (preempt.go).
//
// # Sleeping and waking
//
// A unit that fits nowhere sleeps with all units of its shape in its queue, so ten thousand equal pods cost one decision. blocked keeps why,
// and what would help: Step asks it about each node on which more is free than before. Where a few nodes may take single pods of many
// queues, these are woken one by one (wakelist.go).
//
// A wake-up that is missed would leave a unit asleep beside free nodes for ever. So the shell calls Flush now and then, which has some of what
// sleeps tried again. A unit that finds free places only by that is told to Observer.MissedWakeup; a simulation fails on it.
//
// A unit that has places beside its victims waits for these to leave (obliged.go). It is decided anew when there may be room elsewhere, and keeps its
// places until it has better ones; when its nodes change so that it must not go there, it gives them up. It goes before a unit of the queue that is of
// no higher priority.
//
// Gangs that wait have timers (gang_timers.go). A gang that has waited long gets nodes and quota reserved; one that holds places in part and
// cannot start loses them; one that misses its timeout gets a condition that says so.
//
// # Parts
//
//	Scheduler    takes events, answers and the time, and says whose turn it is (Step)
//	waitingPods  has each pod that waits in one of queue, binder and held
//	decisions    decides about one unit and has the binder commit that; an attempt is one turn
//	blocked      why units sleep, and what wakes them
//	gangs        what gangs need beside their turns: timers, reserved nodes, gangs that hold places in part
//	redecider    units that wait for victims are decided anew; obliged knows which
//	places       pods get the rooms that Reservations keep for them
//	sharing      other schedulers decide, in this process or elsewhere
//	notices      what users are told of pods and gangs that wait
//
// A part knows the parts that it works with, and none knows the Scheduler. Where a pod is, waitingPods alone says; what is placed, decisions alone propose.
//
// # An example
//
// A node has 4 free CPUs. Pod a asks for 3 and pod b for 2. Step pops a: the gate admits it, place finds the node, the binder commits the
// Plan, and Ready hands out the Binding. Step pops b: no node fits, there is nothing to evict, so b is parked and its condition says
// "Insufficient cpu". When a ends, Apply frees 3 CPUs; the next Step finds in the ledger's log that the node has more room, sees that b would
// fit, wakes it and places it.
//
// # Invariants
//
// A pod of ours that waits is in exactly one of queue, binder or held; Verify checks it. No unit waits for victims while there is room for it as it is. A shape that fits nowhere is tried again only after
// a change on a node that would now take it, or of what its queue may reclaim. Several instances of place may propose to the one binder, each
// on a snapshot of its own. The binder rejects a Plan that another instance has invalidated, so no node is overcommitted.
//
// Package inspect answers questions about a Scheduler; nothing here knows of it.
package schedule
