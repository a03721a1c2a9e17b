package sim

import (
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/internal/scenario"
	"hilbert.dev/hilbert/resource"
)

// state is what the API server has now. What is wrong with a queue comes from the scheduler; in the lab it comes from the queue's status.
func (p *play) state() *scenario.State {
	s := &scenario.State{}
	for key, c := range p.sets {
		s.Sets = append(s.Sets, p.stateOf(key, c))
	}
	t := p.sim.api.tenants
	used := p.sim.api.usage()
	p.sim.api.addKept(used)
	for name := range t.Queues {
		q := scenario.Queue{Name: name, Used: used[name], Borrowed: make(map[string]int64)}
		for r, n := range used[name] {
			if r != resource.NamePods && n > t.Guaranteed(name, r) && len(t.Queues[name].Guaranteed) > 0 {
				q.Borrowed[r] = n - t.Guaranteed(name, r)
			}
		}
		if p.sim.process.scheduler != nil {
			if known := p.sim.process.scheduler.Store().Quota().Queue(name); known != nil {
				q.Problem = known.Problem.Reason
			}
		}
		s.Queues = append(s.Queues, q)
	}
	for _, r := range p.sim.api.kept.List() {
		s.Reservations = append(s.Reservations, reservationState(r))
	}
	return s
}

func reservationState(r *facts.Reservation) scenario.Reservation {
	state := scenario.Reservation{Name: r.Namespace + "/" + r.Name, Places: r.Count}
	for i := range r.Places {
		switch r.Places[i].State {
		case facts.PlaceReserved:
			state.Reserved++
		case facts.PlaceConsumed:
			state.Consumed++
		case facts.PlaceLost:
			state.Lost++
			state.Reasons = append(state.Reasons, r.Places[i].Reason)
		case facts.PlaceWaiting:
		}
	}
	return state
}

func (p *play) stateOf(key string, c *podSet) scenario.Set {
	set := scenario.Set{Kind: c.kind, Name: key}
	counts := make([]map[string]int, len(c.packing))
	for i := range counts {
		counts[i] = make(map[string]int)
	}
	for _, task := range c.tasks {
		i := p.current(task)
		if i == nowhere {
			continue
		}
		set.Size++
		switch q := &p.sim.api.pods[i]; {
		case q.finished:
			set.Ended++
		case q.node != nowhere && !q.deleting:
			set.Bound++
			for at, label := range c.packing {
				counts[at][p.sim.api.nodes[q.node].object.Labels[label]]++
			}
		case q.node == nowhere && q.reported.Reason != "":
			set.Reasons = append(set.Reasons, q.reported.Reason)
		}
	}
	for at, label := range c.packing {
		d := scenario.Domains{Label: label}
		for _, n := range counts[at] {
			d.Counts = append(d.Counts, n)
		}
		set.Domains = append(set.Domains, d)
	}
	if f := p.sim.api.tenants.Units[facts.UnitName{Namespace: c.namespace, Name: c.name}]; f != nil && f.Reported.Reason != "" && !f.Reported.Met {
		set.Reasons = nil // its condition stands for all members
		if set.Bound+set.Ended < set.Size {
			set.Reasons = append(set.Reasons, f.Reported.Reason)
		}
	}
	return set
}
