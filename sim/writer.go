package sim

import (
	"encoding/binary"
	"hash"
	"slices"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/bind"
)

// writer carries the scheduler's writes to the API server and the answers back. Without faults a write takes effect and is answered at once.
// With faults it takes time, and may be lost on the way there (no effect, no answer) or on the way back (an effect, no answer).
type writer struct {
	faults  *Faults // nil: none
	draws   *stream
	timeout int64 // after which a lost write is answered with "unknown"
	clock   *clock
	meter   *meter
	server  *executor

	results []bind.Result // of this instant, without faults
	flights []flight
	vacant  []int32 // free places in flights
	process uint32  // counts processes: answers to the writes of a dead one are dropped
}

// flight is a write on its way.
type flight struct {
	write   bind.Write
	result  bind.Result
	process uint32
}

// send starts a write. Without faults it takes no time.
func (wr *writer) send(w *bind.Write) {
	if wr.faults == nil {
		wr.results = append(wr.results, wr.server.execute(w))
		return
	}
	wr.launch(w)
}

// abandon drops the answers to all writes so far. Those on their way still take effect.
func (wr *writer) abandon() {
	wr.process++
	wr.results = wr.results[:0]
}

// launch starts a write that takes time and may fail.
func (wr *writer) launch(w *bind.Write) {
	f := wr.faults
	i := wr.takeFlight()
	fl := &wr.flights[i]
	*fl = flight{write: *w, process: wr.process, result: bind.Result{ID: w.ID}}
	lands := wr.clock.now + int64(wr.draws.within(f.WriteLatency))
	answers := lands
	kind := wr.draws.IntN(permille)
	within := func(n int) bool { kind -= n; return kind < 0 }
	switch {
	case within(f.NotSent):
		fl.result.Outcome, fl.result.Message = bind.NotSent, "held back by the simulator"
		answers = wr.clock.now
	case within(f.Refusals):
		fl.result.Outcome, fl.result.Message = bind.Refused, "refused by the simulator"
	case within(f.LostRequests):
		fl.result.Outcome, fl.result.Message = bind.Unknown, "timed out"
		answers = wr.clock.now + wr.timeout
	case within(f.LostResponses):
		fl.result.Outcome, fl.result.Message = bind.Unknown, "timed out"
		wr.clock.add(event{at: lands, kind: evEffect, arg: i})
		answers = wr.clock.now + wr.timeout
	default:
		wr.clock.add(event{at: lands, kind: evEffect, arg: i})
	}
	wr.clock.add(event{at: answers, kind: evAnswer, arg: i})
}

func (wr *writer) takeFlight() int32 {
	if n := len(wr.vacant); n > 0 {
		i := wr.vacant[n-1]
		wr.vacant = wr.vacant[:n-1]
		return i
	}
	wr.flights = append(wr.flights, flight{})
	return int32(len(wr.flights) - 1)
}

// land lets a write take effect.
func (wr *writer) effect(i int32) {
	fl := &wr.flights[i]
	result := wr.server.execute(&fl.write)
	if fl.result.Outcome != bind.Unknown {
		fl.result = result
	}
}

// answer ends a write. live: the process that sent it still runs, and is to be told the result.
func (wr *writer) answer(i int32) (result bind.Result, live bool) {
	fl := &wr.flights[i]
	wr.vacant = append(wr.vacant, i)
	wr.meter.faults[answerName(&fl.write, fl.result)]++
	return fl.result, fl.process == wr.process
}

// answerName names an answer for the count of faults.
func answerName(w *bind.Write, r bind.Result) string {
	kind := [...]string{
		bind.WriteBinding: "binding", bind.WriteCondition: "condition", bind.ReadPod: "read", bind.WriteNomination: "nomination",
		bind.WriteDisruption: "disruption", bind.DeletePod: "deletion", bind.WriteUnitCondition: "unit condition",
		bind.EvictPod: "eviction", bind.WriteEvent: "event", bind.WriteRefusals: "refusals", bind.WriteNodeEvent: "node event",
		bind.WriteVolume: "volume", bind.WriteReservation: "reservation",
	}[w.Kind]
	outcome := [...]string{
		bind.Written: "done", bind.Gone: "gone", bind.Conflict: "conflict", bind.Refused: "refused", bind.Unknown: "unknown",
		bind.NotSent: "not sent", bind.Withheld: "withheld",
	}[r.Outcome]
	switch {
	case w.Kind == bind.ReadPod && r.Outcome == bind.Written && r.Node == "":
		outcome = "unbound"
	case w.Kind == bind.ReadPod && r.Outcome == bind.Written && r.Node != w.Node:
		outcome = "elsewhere"
	}
	return kind + " " + outcome
}

// executor does writes on the model, as the API server does, and lets the watches tell of them. It keeps the digest of all Bindings.
type executor struct {
	faults     *Faults // nil: none
	draws      *stream
	clock      *clock
	violations *violations
	meter      *meter
	api        *model
	watches    *watches
	pods       *podLifecycle
	agents     *nodeAgents

	digest hash.Hash
	line   []byte // scratch of digestBinding
}

// execute does a write, and returns what the API server answers.
func (x *executor) execute(w *bind.Write) bind.Result {
	result, bound, over := x.api.execute(w, x.clock.now)
	if bound != nowhere {
		x.meter.placed++
		x.digestBinding(bound)
		x.pods.planEnd(bound)
		x.agents.podBound(bound)
		x.watches.tellPod(bound)
		if over != "" {
			x.checkOvercommit(bound, over)
		}
		x.checkClaims(bound)
		x.checkPlace(bound)
		return result
	}
	if over != "" {
		x.violations.add("%s", over)
	}
	if result.Outcome != bind.Written {
		return result
	}
	if w.Kind == bind.WriteUnitCondition {
		x.watches.tell(watchUnits, facts.UnitUpserted{Unit: x.api.tenants.Units[w.Unit]})
		return result
	}
	if w.Kind == bind.WriteReservation {
		x.watches.tellReservation(w.Reservation.UID)
		return result
	}
	if w.Kind == bind.WriteRefusals {
		x.agents.refusalsTold(w)
		return result
	}
	switch i := x.api.byUID[w.Pod]; w.Kind {
	case bind.WriteCondition, bind.WriteNomination, bind.WriteDisruption:
		x.watches.tellPod(i)
	case bind.DeletePod:
		x.pods.evict(i)
	case bind.EvictPod:
		x.evictRequested(i, &result)
	default:
	}
	return result
}

// evictRequested evicts a pod that its node has asked to evict, unless the model's disruption budget withholds it.
func (x *executor) evictRequested(i int32, result *bind.Result) {
	if x.faults != nil && x.draws.chance(x.faults.WithheldEvictions) {
		result.Outcome, result.Message = bind.Withheld, "held back by the simulator's budget"
		return
	}
	if p := &x.api.pods[i]; p.node != nowhere && x.api.nodes[p.node].agent != nil && slices.Contains(x.api.nodes[p.node].agent.broken, p.uid) {
		x.meter.faults["broken promise evicted"]++
	}
	x.meter.faults["eviction requested and done"]++
	x.pods.evict(i)
}

// digestBinding enters a Binding of ours in the digest.
func (x *executor) digestBinding(i int32) {
	p := &x.api.pods[i]
	line := append(x.line[:0], p.name...)
	line = append(line, 0)
	line = append(line, x.api.nodes[p.node].object.Name...)
	line = append(line, 0)
	line = binary.LittleEndian.AppendUint16(line, p.grant.GPUs)
	if !p.grant.NUMANodes.IsZero() {
		line = append(line, p.grant.NUMANodes.String()...)
	}
	x.line = binary.LittleEndian.AppendUint64(line, uint64(x.clock.now))
	x.digest.Write(x.line)
}

// checkClaims judges a Binding of ours by the claims of the pod: all are bound, to volumes that the node has.
func (x *executor) checkClaims(i int32) {
	p := &x.api.pods[i]
	n := x.api.nodes[p.node].object
	if claim := x.api.storage.unbound(p); claim != "" {
		x.violations.add("pod %s is bound to node %s before its claim %s is", p.uid, n.Name, claim)
	} else if !x.api.storage.on(p, n) {
		x.violations.add("pod %s is bound to node %s, where its volume cannot be used", p.uid, n.Name)
	}
}

// checkOvercommit judges a Binding of ours that over-commits its node. It is excused if another scheduler bound a pod there that
// ours could not know of when it decided: no scheduler can prevent that.
func (x *executor) checkOvercommit(i int32, over string) {
	p := &x.api.pods[i]
	n := &x.api.nodes[p.node]
	if n.raced {
		return
	}
	for _, other := range n.pods {
		if o := &x.api.pods[other]; o.foreign && o.bound > p.seenPods {
			n.raced = true
			x.meter.faults["node raced for"]++
			return
		}
	}
	x.violations.add("pod %s over-commits node %s: %s", p.uid, n.object.Name, over)
}
