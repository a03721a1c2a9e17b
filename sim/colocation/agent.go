package colocation

import (
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/node/evict"
	"hilbert.dev/hilbert/sim/corun"
)

// agent is the node's loop: what node/agent.go does with a kernel, it does with a corun.Node.
type agent struct {
	laws     *advise.Params
	rules    *evict.Params
	memory   advise.State
	evictor  evict.State
	requests []facts.EvictionRequest
	// stopLending and closed are what the eviction manager wants.
	stopLending, closed bool
	epoch               time.Duration // virtual time zero on the clock of At
}

func newAgent(r *run) *agent {
	a := &agent{laws: &r.o.Laws, rules: &r.o.Evict, epoch: time.Duration(r.o.HistoryDays+1) * 24 * time.Hour}
	if r.v.Laws != nil {
		a.laws = r.v.Laws
	}
	if r.v.Evict != nil {
		a.rules = r.v.Evict
	}
	return a
}

// midnight is when the day begins by the clock on the wall: some Monday.
func midnight() time.Time { return time.Date(2026, time.March, 2, 0, 0, 0, 0, time.UTC) }

// inputs are what an agent sees at a tick. All agents share one value, one after the other: what lasts is in their states, and less memory that is touched
// makes the experiment faster.
type inputs struct {
	laws  advise.Observation
	evict evict.Observation
}

// learn lets the laws see a moment of a day past.
func (a *agent) learn(n *corun.Node, see *inputs, at time.Duration) {
	n.Observe(&see.laws, a.epoch+at, midnight().Add(at))
	see.laws.StopLending = false
	advise.Step(&see.laws, a.laws, &a.memory)
}

// actuation is how long a change of pools takes, in seconds: drawn evenly.
const actuationLeast, actuationMost = 0.05, 1.0

// tick is one round of the loop: look, decide, act, report.
func (r *run) tick(m *machine) {
	a, seen := m.agent, &r.inputs.laws
	at := time.Duration(r.now) * time.Second
	m.node.Observe(seen, a.epoch+at, r.midnight.Add(at))
	seen.StopLending = a.stopLending
	advice := advise.Step(seen, a.laws, &a.memory)
	for z := range advice.NUMANodes {
		cores := advice.NUMANodes[z].Lend
		if m.node.Jobs() == 0 {
			cores = 0 // a pool without pods has no cores
		}
		if cores*r.o.Machine.Threads != m.node.Lent(z) {
			m.node.Lend(z, cores, actuationLeast+(actuationMost-actuationLeast)*m.load.rng.Float64())
			r.out.poolChanges++
		}
	}
	now := facts.Headroom{State: facts.HeadroomOpen}
	for z := range advice.NUMANodes {
		now.MilliCPU += advice.NUMANodes[z].CPU.Published
		now.Memory += advice.NUMANodes[z].Memory.Published
	}
	if r.o.watch != nil {
		r.o.watch(m, &advice)
	}
	if !r.v.NoEviction && a.asks(&seen.Node, advice.Suppression, r.now) {
		r.press(m, advice.Suppression)
	}
	if a.closed && !r.v.NoClosing {
		now.State = facts.HeadroomClosed
	}
	r.report(m, now)
}

// asks reports whether the eviction manager is asked at this tick: at each while something may press, else now and then, as nothing would follow.
func (a *agent) asks(n *advise.Node, level advise.Suppression, now int64) bool {
	return now%quietTicks == 0 || level >= advise.SuppressFloor || len(a.requests) > 0 || a.stopLending ||
		n.MemoryAvailable.Value < quietMemory*n.MemoryTotal.Value
}

// A node is quiet with this share of its memory available.
const quietTicks, quietMemory = 5, 0.2

// press asks the eviction manager.
func (r *run) press(m *machine, level advise.Suppression) {
	a := m.agent
	r.inputs.read(m, level)
	d := evict.Step(&r.inputs.evict, a.rules, &a.evictor)
	a.stopLending, a.closed = len(d.NoLending) > 0, d.Closed.Reason != ""
	a.requests = a.requests[:0]
	for i := range d.Requests {
		w := &d.Requests[i]
		a.requests = append(a.requests, facts.EvictionRequest{UID: facts.UID(w.UID), Namespace: w.Namespace, Name: w.Name, Reason: w.Reason, Urgent: w.Urgent})
	}
	if d.Stop != nil {
		if p := r.byUID[facts.UID(d.Stop.Pod.UID)]; p != nil && p.node == m {
			r.out.localStops++
			r.evicted(p)
			r.gone(p)
		}
	}
}

// look fills in what the eviction manager sees: the same counters, and the pods by name. The machine's pods stand in the order in which
// the node tells of them.
func (e *inputs) read(m *machine, level advise.Suppression) {
	o, s := &e.evict, &e.laws
	o.At, o.Suppression = s.At, level
	o.Node = evict.Node{
		MemoryTotal: s.Node.MemoryTotal, MemoryAvailable: s.Node.MemoryAvailable, MemorySome: s.Node.MemoryPressure, MemoryFull: s.Node.MemoryPressure,
		CPUPressure: m.agent.laws.CPUPressure(s),
	}
	o.NUMANodes = o.NUMANodes[:0]
	for i := range s.NUMANodes {
		z := &s.NUMANodes[i]
		o.NUMANodes = append(o.NUMANodes, evict.NUMANode{Total: z.MemoryTotal, Free: z.MemoryFree, InactiveFile: z.InactiveFile})
	}
	o.Pods = o.Pods[:0]
	for i := range s.Reclaimed {
		w, p := &s.Reclaimed[i], m.known[i]
		o.Pods = append(o.Pods, evict.Pod{
			PodRef: spec.PodRef{Namespace: namespace, Name: p.name, UID: string(p.uid)}, Level: spec.QoSReclaimed,
			Started: m.agent.epoch + time.Duration(p.started)*time.Second, Terminating: p.deleting,
			Memory: w.Memory, RSS: w.Memory, MemoryAmount: advise.Known(float64(w.MemoryBytes)),
			CPU: w.CPUUse, CPUAmount: advise.Known(float64(w.MilliCPU) / 1000), RunDelay: w.RunDelay,
		})
	}
}

// Delays of reports, in seconds.
const (
	reportDelay = 1  // and one more for every other node
	riseEvery   = 10 // more is told at most so often
	staleAfter  = 60
)

// report tells the scheduler what has changed, falls at once. Nothing new need be told for a report to be fresh: agents say again what they
// said.
func (r *run) report(m *machine, now facts.Headroom) {
	if r.now < m.silentUntil {
		return
	}
	m.heard = r.now
	changed := r.requestsChanged(m)
	back := m.stale
	less := now.MilliCPU < m.said.MilliCPU || now.Memory < m.said.Memory || now.State != m.said.State || changed || back
	more := (now.MilliCPU > m.said.MilliCPU || now.Memory > m.said.Memory) && r.now-m.rose >= riseEvery
	if !less && !more {
		return
	}
	m.said, m.stale = now, false
	if more {
		m.rose = r.now
	}
	report := &facts.NodeReport{Headroom: now}
	report.Evictions = append(report.Evictions, m.agent.requests...)
	r.later(reportDelay+int64(m.index%2), event{kind: evReport, machine: m, report: report})
}

// requestsChanged reports whether the requested evictions differ from those of the last report.
func (r *run) requestsChanged(m *machine) bool {
	sum := uint64(len(m.agent.requests))
	for i := range m.agent.requests {
		w := &m.agent.requests[i]
		for _, b := range []byte(w.UID) {
			sum = sum*1099511628211 + uint64(b)
		}
		if w.Urgent {
			sum++
		}
	}
	changed := sum != r.requested[m.index]
	r.requested[m.index] = sum
	return changed
}
