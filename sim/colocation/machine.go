package colocation

import (
	"time"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/sim/corun"
)

// machine is one node of the fleet.
type machine struct {
	index int
	name  string
	node  *corun.Node
	load  *load
	agent *agent // nil: nobody looks
	// heard is when the scheduler last heard of it, silentUntil until when it cannot say anything, in seconds.
	heard, silentUntil int64
	// said is what it said last, and when more was last said; stale: the scheduler takes it for nothing.
	said  facts.Headroom
	rose  int64
	stale bool
	known []*pod // those that run here, in the order in which they started
}

// newMachine makes a node and lets it live through the days before, which its laws see and a naive plan learns from.
func (r *run) newMachine(i int, l *load) *machine {
	m := &machine{index: i, name: nodeName(i), load: l}
	pooled := r.v.Mode == ModeHilbert || r.v.Mode == ModeFixed
	m.node = corun.NewNode(&r.o.Machine, r.model, l.services, pooled)
	if r.v.Mode == ModeHilbert {
		m.agent = newAgent(r)
	}
	mean := m.history(r)
	r.plan(m, mean)
	return m
}

// pod is the one that runs here and has this number, nil if none has.
func (m *machine) pod(id int64) *pod {
	for _, p := range m.known {
		if p.id == id {
			return p
		}
	}
	return nil
}

// historyStep is the seconds between looks at days past.
const historyStep = 60

// history lets the days before pass in minutes, each as its first second; it returns the mean of the CPUs that services had busy.
func (m *machine) history(r *run) float64 {
	sum, steps := 0.0, 0
	for day := -r.o.HistoryDays; day < 0; day++ {
		m.load.newDay()
		for s := int64(0); s < 86400; s += historyStep {
			online, _ := m.node.Step(m.load.mean(s))
			sum, steps = sum+online, steps+1
			if m.agent != nil {
				m.agent.learn(m.node, &r.inputs, time.Duration(int64(day)*86400+s)*time.Second)
			}
		}
	}
	m.load.newDay()
	m.node.Forget()
	if steps == 0 {
		return r.o.Offered * float64(r.o.Machine.CPUs())
	}
	return sum / float64(steps)
}

// What plans without feedback go by.
const (
	naiveFill = 0.60
	jobUse    = 0.875 // of what jobs ask for, in the mean
)

// plan says once and for all what jobs may have of a node, in the modes without feedback.
func (r *run) plan(m *machine, mean float64) {
	machine := &r.o.Machine
	all := float64(machine.CPUs())
	memory := float64(machine.Memory) * float64(machine.NUMANodes)
	fill := (naiveFill*all - mean) / jobUse
	open := facts.Headroom{State: facts.HeadroomOpen, Memory: int64(memory * (1 - memoryUsed*1.1 - 0.05))}
	switch r.v.Mode {
	case ModeRequests:
		requested := 0.0
		for i := range m.load.services {
			requested += m.load.services[i].Request
		}
		open.MilliCPU = int64((float64(machine.NUMANodes*machine.Divisible()) - requested) * 1000)
		open.Memory = int64(memory * (1 - memoryUsed*memoryAsked))
	case ModeNaive:
		open.MilliCPU = int64(fill * 1000)
	case ModeFixed:
		open.MilliCPU = int64(fill * 1000)
		for z := range machine.NUMANodes {
			m.node.Lend(z, int(fill/float64(machine.NUMANodes*machine.Threads)), 0)
		}
	case ModeHilbert:
		return
	}
	m.said = open
	r.tell(facts.NodeReported{Node: m.name, Report: &facts.NodeReport{Headroom: open}})
}
