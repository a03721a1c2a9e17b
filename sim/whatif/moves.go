package whatif

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/control/reschedule"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/inspect"
)

// MoveOptions say what moves are looked for.
type MoveOptions struct {
	Params reschedule.Params
	// Empty names nodes that all pods are to leave.
	Empty []string
	// History is who was moved before; nil: nothing is known of it, and then whoever may have been moved just now stays.
	History *reschedule.History
	// WorkloadsMoving is how many pods of a workload are on their way.
	WorkloadsMoving map[string]int
	// Preempt looks for pods of lower priority, too, which may be evicted for the growth of others.
	Preempt bool
	// Leaving are pods that are to leave their nodes, since these have changed hands, and why.
	Leaving map[facts.UID]Leave
	// MostOfGang is how many pods can be evicted together at the most. Gangs of more that are to leave stay; 0: all gangs do.
	MostOfGang int
}

// PodMove is a pod that goes to another node.
type PodMove struct {
	UID facts.UID
	To  string
}

// Moves is which pods should be moved, in order, and which of those that were looked at should not. Nothing is moved by it.
type Moves struct {
	Taken   time.Time     `json:"taken"`
	Nodes   int           `json:"nodes"`
	Batches [][]MoveShown `json:"batches"`
	Stay    []StayShown   `json:"declined,omitempty"`
	// Room is who gets a place by the moves.
	Room []RoomShown `json:"room,omitempty"`
	// Preemptions make room for growth where that costs less than moves, or no moves do.
	Preemptions []PreemptionShown `json:"preemptions,omitempty"`
	// Gangs leave their nodes whole.
	Gangs []GangShown `json:"gangs,omitempty"`
	// Restarts are gangs that would be in fewer domains if they restarted.
	Restarts []RestartShown `json:"restarts,omitempty"`
	Before   Fragments      `json:"before"`
	After    Fragments      `json:"after"`
	// Interrupted: the rehearsal was ended early, so nothing is proposed.
	Interrupted bool `json:"interrupted,omitempty"`
}

// Count is how many moves there are.
func (m *Moves) Count() (n int) {
	for _, b := range m.Batches {
		n += len(b)
	}
	return n
}

// MoveShown is one move.
type MoveShown struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	From      string `json:"from"`
	To        string `json:"to"`
	Reason    string `json:"reason"`
	Why       string `json:"why"`
	// UID is the pod's, Workload who makes the replacement.
	UID      facts.UID `json:"uid"`
	Workload string    `json:"workload,omitempty"`
	Net      float64   `json:"netGainGPUMilli"`
}

// StayShown is a pod that stays, and why.
type StayShown struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Why       string `json:"why"`
}

// RoomShown is a pod or gang that waits, and where the rehearsal places it once pods have moved.
type RoomShown struct {
	Unit  string `json:"unit"`
	Moves int    `json:"moves"`
	// Domain is what its nodes have in common of the labels that it requires, each as key=value.
	Domain []string `json:"domain,omitempty"`
	Nodes  []string `json:"nodes"`
}

// Fragments is what is free of the GPUs, in thousandths, and how much of it is on GPUs that are held in part.
type Fragments struct {
	Free   int64 `json:"freeGPUMilli"`
	Broken int64 `json:"brokenGPUMilli"`
	// Worth is what all free GPUs are worth by the market's prices.
	Worth float64 `json:"worthGPUMilli"`
}

// maxRehearsals bounds how often a plan is rehearsed without the moves that turned out to be impossible.
const maxRehearsals = 8

// NewMoves looks for moves in a dump and rehearses them with the scheduler itself: all pods that are moved are created again, bound to their
// targets, and what does not fit there is left out.
func NewMoves(ctx context.Context, d *inspect.Dump, o *MoveOptions) (*Moves, error) {
	d.Sort()
	store, err := cluster.Load(d.Ledger)
	if err != nil {
		return nil, fmt.Errorf("the snapshot: %w", err)
	}
	for _, name := range o.Empty {
		if !slices.ContainsFunc(d.Ledger.Nodes, func(n *facts.Node) bool { return n.Name == name }) {
			return nil, fmt.Errorf("empty: the snapshot has no node %s", name)
		}
	}
	j := newJudge(d, store, o.Empty)
	j.most = o.MostOfGang
	if err := j.drain(ctx, d, o.Empty); err != nil {
		return nil, err
	}
	m := &Moves{Taken: d.Taken, Nodes: len(d.Ledger.Nodes), Batches: [][]MoveShown{}}
	j.view.History, j.view.Replicas = o.History, replicasOf(d, o.WorkloadsMoving)
	for i := range j.view.Pods {
		p := &j.view.Pods[i]
		leave := o.Leaving[facts.UID(p.UID)]
		p.Leaves, p.Online = leave.Why, leave.Online
	}
	gangs := j.leavingGangs()
	if len(o.Params.Only) == 0 || slices.Contains(o.Params.Only, reschedule.ReasonRestart) {
		j.view.Gangs = j.gangs(d.Ledger)
	}
	plan := reschedule.Decide(&j.view, j, &o.Params, d.Taken)
	kept, err := m.rehearse(ctx, d, j, plan.Batches)
	if err == nil && !m.Interrupted {
		err = m.restart(ctx, d, plan.Restarts)
	}
	if err != nil || m.Interrupted {
		return m, err
	}
	for _, no := range plan.Declined {
		m.stay(&j.view.Pods[no.Pod], no.Why)
	}
	if err := m.moveGangs(ctx, d, j, kept, gangs); err != nil || m.Interrupted {
		return m, err
	}
	if o.Preempt {
		if kept, err = m.preempt(ctx, d, j, kept, &o.Params); err != nil || m.Interrupted {
			return m, err
		}
	}
	j.reset()
	m.Before = j.fragments()
	for _, b := range kept {
		var shown []MoveShown
		for _, p := range b {
			pod := &j.view.Pods[p.Pod]
			shown = append(shown, MoveShown{pod.Namespace, pod.Name, j.view.Nodes[p.From].Name, j.view.Nodes[p.To].Name, p.Reason, p.Why, facts.UID(pod.UID), pod.Workload, p.Net})
			j.apply(p.Pod, p.To, p.GPU)
		}
		m.Batches = append(m.Batches, shown)
	}
	m.After = j.fragments()
	return m, nil
}

// rehearse runs the scheduler on the moves, and leaves out those groups whose pods do not fit, until all others do.
func (m *Moves) rehearse(ctx context.Context, d *inspect.Dump, j *judge, batches [][]reschedule.Planned) ([][]reschedule.Planned, error) {
	for range maxRehearsals {
		change, by := moving(&j.view, batches)
		if len(change.Move) == 0 {
			return nil, nil
		}
		forecast, err := NewForecast(ctx, d, change)
		if err != nil {
			return nil, err
		}
		if m.Interrupted = forecast.Interrupted; m.Interrupted {
			return nil, nil
		}
		impossible := make(map[int]bool)
		for i := range forecast.Unplaced {
			u := &forecast.Unplaced[i]
			if pod, ok := by[u.PodName]; ok {
				impossible[pod] = true
				m.stay(&j.view.Pods[pod], "rehearsed, it does not fit its target: "+u.Why)
			}
		}
		m.useless(j, batches, forecast, impossible)
		if len(impossible) == 0 {
			m.Room = j.shown(batches, forecast)
			return batches, nil
		}
		batches = possible(&j.view, batches, impossible)
	}
	return nil, nil
}

// moving is the change that moves make, and by is whose they are.
func moving(v *reschedule.View, batches [][]reschedule.Planned) (change Change, by map[PodName]int) {
	by = make(map[PodName]int)
	for _, p := range slices.Concat(batches...) {
		pod := &v.Pods[p.Pod]
		change.Move = append(change.Move, PodMove{facts.UID(pod.UID), v.Nodes[p.To].Name})
		by[PodName{pod.Namespace, pod.Name, v.Nodes[p.From].Name}] = p.Pod
	}
	return change, by
}

// useless marks the moves that make room for somebody who would still wait.
func (m *Moves) useless(j *judge, batches [][]reschedule.Planned, forecast *Forecast, impossible map[int]bool) {
	for _, p := range slices.Concat(batches...) {
		if p.Reason == reschedule.ReasonRoom && !impossible[p.Pod] && j.stillWaits(p.For, forecast) {
			impossible[p.Pod] = true
			m.stay(&j.view.Pods[p.Pod], "rehearsed, it makes no room: still "+p.Why)
		}
	}
}

// possible leaves out moves, and orders the rest anew. Those that make room for one another stand or fall together.
func possible(v *reschedule.View, batches [][]reschedule.Planned, impossible map[int]bool) [][]reschedule.Planned {
	groups := make(map[string][]reschedule.Planned)
	var order []string
	for _, b := range batches {
		for _, p := range b {
			key := strconv.Itoa(p.Pod)
			if p.Reason == reschedule.ReasonRoom {
				key = p.Why
			}
			if groups[key] == nil {
				order = append(order, key)
			}
			groups[key] = append(groups[key], p)
		}
	}
	var kept [][]reschedule.Planned
	for _, key := range order {
		if !slices.ContainsFunc(groups[key], func(p reschedule.Planned) bool { return impossible[p.Pod] }) {
			kept = append(kept, groups[key])
		}
	}
	list, _ := reschedule.Batches(v, kept)
	return list
}

func (m *Moves) stay(p *reschedule.Pod, why string) {
	m.Stay = append(m.Stay, StayShown{p.Namespace, p.Name, why})
}

// viewOf makes the view of a dump.
func viewOf(d *inspect.Dump, store *cluster.Store, empty []string, units map[string]*waitingUnit) (v reschedule.View) {
	index := make(map[string]int)
	s := &store.State
	for i := range s.Slots() {
		slot := cluster.Slot(i)
		n := s.Node(slot)
		if n == nil {
			continue
		}
		node := reschedule.Node{Name: n.Name, Closed: n.Unschedulable}
		node.Room.Amounts = []int64{s.Free(slot, resource.CPU), s.Free(slot, resource.Memory)}
		if s.HasGPUs(slot) {
			node.Room.Shape, node.Room.Free = *s.Shape(slot), *s.GPUs(slot)
		}
		if slices.Contains(empty, n.Name) {
			node.Leaving = "it is to be emptied"
		}
		node.CPUs, node.Load, node.Known = loadOf(n, store.Report(slot))
		index[n.Name] = len(v.Nodes)
		v.Nodes = append(v.Nodes, node)
	}
	broken := make(map[facts.UID]string)
	for _, r := range d.Ledger.Reports {
		for i := range r.Report.Evictions {
			if e := &r.Report.Evictions[i]; e.Broken {
				broken[e.UID] = e.Message
			}
		}
	}
	protected, measured := protections(d.Ledger.Budgets), measuredOf(d.Ledger)
	for i := range d.Ledger.Pods {
		r := &d.Ledger.Pods[i]
		f := &r.Facts
		at, ok := index[f.Node]
		if !ok || !f.Ours || f.Deleting || f.Mirror || r.Phase != cluster.Bound || r.Placeholder {
			continue
		}
		p := podOf(f, at, protected(f))
		p.Broken, p.Use = broken[f.UID], measured.use(f, v.Nodes[at].Load)
		if p.Unit == "" && !p.Pinned {
			p.Violated = violated(store, store.Pod(f.UID))
		}
		v.Pods = append(v.Pods, p)
	}
	slices.SortStableFunc(v.Pods, func(a, b reschedule.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	tried := triedOf(d)
	for i := range d.Ledger.Pods {
		r := &d.Ledger.Pods[i]
		if f := &r.Facts; f.Ours && f.Node == "" && f.Unit == "" && !f.Gated && !f.Deleting && !f.Finished && !r.Placeholder && f.Requirements.GPU.Total() > 0 {
			v.Waiting = append(v.Waiting, reschedule.Waiting{Name: f.Namespace + "/" + f.Name, Needs: float64(f.Requirements.GPU.Total()), Tried: tried[f.UID]})
		}
	}
	v.Growths = growthsOf(d.Ledger, store, index)
	for name, u := range units {
		needs, failed := int64(0), false
		for _, f := range u.members {
			needs += f.Requirements.GPU.Total()
			failed = failed || tried[f.UID]
		}
		if needs > 0 {
			v.Waiting = append(v.Waiting, reschedule.Waiting{Name: name, Needs: float64(needs), Tried: failed})
		}
	}
	slices.SortStableFunc(v.Waiting, func(a, b reschedule.Waiting) int {
		return cmp.Or(cmp.Compare(b.Needs, a.Needs), cmp.Compare(a.Name, b.Name))
	})
	return v
}

// growthsOf are the Reservations of room for growth that wait, see package vpa. Tenants may write Reservations too: the pod must be theirs, and on the node, or others would
// leave a node for nobody.
func growthsOf(l *cluster.Dump, s *cluster.Store, index map[string]int) (list []reschedule.Growth) {
	for i := range l.Placeholders {
		r := &l.Placeholders[i]
		pod := s.Pod(r.Facts.Grows())
		if pod == nil || pod.Namespace != r.Facts.Namespace || pod.Deleting || r.Expired || len(r.Places) != 1 || r.Places[0].State != facts.PlaceWaiting {
			continue
		}
		if place := s.Pod(facts.PlaceholderUID(r.Facts.UID, 0)); place != nil && place.Phase == cluster.Assumed {
			continue // its room is made: it waits until others have left
		}
		f := &r.Facts.Template
		if at, ok := index[pod.Node()]; ok && boundByName(f.Requirements, pod.Node()) {
			list = append(list, reschedule.Growth{
				Name: r.Facts.Namespace + "/" + facts.PlaceholderName(r.Facts.Name, 0), Node: at, Pod: string(pod.UID),
				Needs:       []int64{amountOf(f.Requirements, resource.NameCPU), amountOf(f.Requirements, resource.NameMemory)},
				Reservation: string(r.Facts.UID), Preempts: !pod.NeverPreempts && pod.Priority >= f.Priority, MayEvict: uidTexts(r.Facts.MayEvict),
			})
		}
	}
	slices.SortFunc(list, func(a, b reschedule.Growth) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// replicasOf are the pods of the workloads that serve. Those that end are none.
func replicasOf(d *inspect.Dump, moving map[string]int) map[string]reschedule.Replicas {
	all := make(map[string]reschedule.Replicas)
	for i := range d.Ledger.Pods {
		f := &d.Ledger.Pods[i].Facts
		if !serves(f) || f.Finished || f.Deleting || d.Ledger.Pods[i].Placeholder {
			continue
		}
		name := workloadOf(f)
		r := all[name]
		r.All++
		r.Moving = moving[name]
		if f.Node == "" || d.Taken.Sub(began(f)) < reschedule.StartTime {
			r.Starting++
		}
		all[name] = r
	}
	return all
}

// serves reports whether a pod is a server: those have a ReplicaSet, a StatefulSet or a ReplicationController. What else runs is taken for work that would begin anew.
func serves(f *facts.Pod) bool { return f.Owner.Kind != 0 }

// workloadOf names who makes a replacement of a pod.
func workloadOf(f *facts.Pod) string {
	if !serves(f) {
		return "pod " + string(f.UID)
	}
	return f.Namespace + "/" + f.Owner.Name
}

// began is when a pod started to run, as far as that is known.
func began(f *facts.Pod) time.Time { return time.Unix(0, cmp.Or(f.Started, f.Scheduled, f.Created)) }

func podOf(f *facts.Pod, at int, protected string) reschedule.Pod {
	return reschedule.Pod{
		UID: string(f.UID), Namespace: f.Namespace, Name: f.Name, Node: at, Workload: workloadOf(f), Unit: f.Unit, Consent: f.Consent,
		Protected: protected, GPU: f.Requirements.GPU, Grant: f.Grant,
		// Claims of devices have their node.
		Pinned:   boundByName(f.Requirements, f.Node) || len(f.ResourceClaims) > 0,
		Requests: []int64{amountOf(f.Requirements, resource.NameCPU), amountOf(f.Requirements, resource.NameMemory)},
		Created:  time.Unix(0, f.Created),
		Began:    began(f),
		Loses:    !serves(f),
	}
}

func amountOf(r *facts.Requirements, name string) int64 {
	for _, q := range r.Requests {
		if q.Name == name {
			return q.Amount
		}
	}
	return 0
}

// protections says of a pod which disruption budget allows no eviction now.
func protections(budgets []*facts.Budget) func(*facts.Pod) string {
	return func(f *facts.Pod) string {
		for _, b := range budgets {
			if b.Namespace == f.Namespace && b.Allowed <= 0 && !b.Pods.MatchesAll() && b.Pods.Matches(f.Labels) {
				return fmt.Sprintf("its disruption budget %s allows no eviction now", b.Name)
			}
		}
		return ""
	}
}
