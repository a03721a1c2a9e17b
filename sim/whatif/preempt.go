package whatif

import (
	"cmp"
	"context"
	"slices"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/control/reschedule"
	"hilbert.dev/hilbert/schedule/inspect"
)

// maxPreemptions bounds for how many growths one plan rehearses a preemption. Each costs a run of the scheduler; the others have their turn in the next plan.
const maxPreemptions = 4

// PreemptionShown is pods of lower priority that are to be evicted so that another can grow on its node.
type PreemptionShown struct {
	Namespace string `json:"namespace"`
	// Reservation and its UID are those of the growth.
	Reservation string    `json:"reservation"`
	UID         facts.UID `json:"uid"`
	Node        string    `json:"node"`
	// Victims are evicted; Fresh is how many of them were not named for the growth before.
	Victims []VictimShown `json:"victims"`
	Fresh   int           `json:"fresh"`
}

// VictimShown is a pod that is evicted.
type VictimShown struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       facts.UID `json:"uid"`
	// Unplaced: nothing that replaces it has a place.
	Unplaced bool `json:"unplaced,omitempty"`
}

// preempt finds growths for which pods of lower priority are evicted: where moves make no room, or cost more. It returns the moves that are left. The scheduler chooses the victims,
// by the rules of any pod's preemption; here is only judged whether they are to be evicted. A node with which moves have to do is left for another plan.
func (m *Moves) preempt(ctx context.Context, d *inspect.Dump, j *judge, kept [][]reschedule.Planned, p *reschedule.Params) ([][]reschedule.Planned, error) {
	left := p.Most - m.planned(kept)
	used := make(map[int]bool)
	for i := range j.view.Growths {
		g := &j.view.Growths[i]
		if !g.Preempts || used[g.Node] || len(m.Preemptions) == maxPreemptions || left <= 0 {
			continue
		}
		own, others := apart(kept, g)
		if others {
			continue
		}
		used[g.Node] = true
		shown, cost, err := m.rehearsePreemption(ctx, d, j, g, p)
		if err != nil || m.Interrupted {
			return nil, err
		}
		n := len(shown.Victims)
		if n == 0 || n > min(left+len(own), spec.MaxMayEvict) {
			continue
		}
		if len(own) > 0 {
			if cost.Compare(reschedule.MovingCost(&j.view, own, p, d.Taken)) >= 0 {
				continue
			}
			impossible := make(map[int]bool)
			for _, pod := range own {
				impossible[pod] = true
				m.stay(&j.view.Pods[pod], "to evict pods of lower priority costs less: "+g.Name+" waits")
			}
			kept = possible(&j.view, kept, impossible)
		}
		left += len(own) - n
		m.Preemptions = append(m.Preemptions, shown)
	}
	return kept, nil
}

func (m *Moves) planned(batches [][]reschedule.Planned) (n int) {
	for _, b := range batches {
		n += len(b)
	}
	return n
}

// apart tells the moves that make room for a growth from others that begin or end on its node.
func apart(batches [][]reschedule.Planned, g *reschedule.Growth) (own []int, others bool) {
	for _, p := range slices.Concat(batches...) {
		switch {
		case p.For == g.Name:
			own = append(own, p.Pod)
		case p.From == g.Node || p.To == g.Node:
			others = true
		}
	}
	return own, others
}

// rehearsePreemption lets the scheduler make room for one growth at the expense of others. Who is evicted is created again, and evicts nobody. No victims: it finds none, or
// they make no room.
func (m *Moves) rehearsePreemption(ctx context.Context, d *inspect.Dump, j *judge, g *reschedule.Growth, p *reschedule.Params) (shown PreemptionShown, cost reschedule.Cost, err error) {
	forecast, err := NewForecast(ctx, d, Change{Preempt: facts.UID(g.Reservation)})
	if err != nil {
		return shown, cost, err
	}
	if m.Interrupted = forecast.Interrupted; m.Interrupted || forecast.waitingPlaces[g.Name] {
		return shown, cost, nil
	}
	pods := make(map[facts.UID]int, len(j.view.Pods))
	for i := range j.view.Pods {
		pods[facts.UID(j.view.Pods[i].UID)] = i
	}
	unplaced := make(map[PodName]bool)
	for i := range forecast.Unplaced {
		unplaced[forecast.Unplaced[i].PodName] = true
	}
	node := j.view.Nodes[g.Node].Name
	shown = PreemptionShown{UID: facts.UID(g.Reservation), Node: node}
	var victims []int
	for _, uid := range forecast.victims {
		at, known := pods[uid]
		if !known {
			return PreemptionShown{}, cost, nil // another scheduler's, or one that leaves already: another plan will see
		}
		victims = append(victims, at)
		if !slices.Contains(g.MayEvict, string(uid)) {
			shown.Fresh++
		}
	}
	homeless := func(i int) bool {
		v := &j.view.Pods[i]
		return unplaced[PodName{v.Namespace, v.Name, j.view.Nodes[v.Node].Name}]
	}
	cost = reschedule.EvictingCost(&j.view, victims, homeless, p, d.Taken)
	for _, i := range victims {
		v := &j.view.Pods[i]
		shown.Victims = append(shown.Victims, VictimShown{v.Namespace, v.Name, facts.UID(v.UID), v.Workload == "" || v.Unit != "" || homeless(i)})
	}
	slices.SortFunc(shown.Victims, func(a, b VictimShown) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	at := slices.IndexFunc(d.Ledger.Placeholders, func(r cluster.PlaceholdersRecord) bool { return r.Facts.UID == shown.UID })
	shown.Namespace, shown.Reservation = d.Ledger.Placeholders[at].Facts.Namespace, d.Ledger.Placeholders[at].Facts.Name
	return shown, cost, nil
}

func uidTexts(uids []facts.UID) (list []string) {
	for _, uid := range uids {
		list = append(list, string(uid))
	}
	return list
}
