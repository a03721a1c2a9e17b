package whatif

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule"
	"hilbert.dev/hilbert/schedule/bind"
	"hilbert.dev/hilbert/schedule/inspect"
	"hilbert.dev/hilbert/schedule/place"
	"hilbert.dev/hilbert/schedule/place/explain"
	"hilbert.dev/hilbert/schedule/place/rules"
	"hilbert.dev/hilbert/sim"
	"hilbert.dev/hilbert/topology"
)

// Change is a change to a cluster as a dump has it: what would the scheduler do?
type Change struct {
	// Add are pods that are created; they are ours and not bound.
	Add []facts.Pod
	// Drain names nodes that go; the pods of ours on them look for another place.
	Drain []string
	// Move are pods that leave their nodes and are created again for others; they evict nobody there.
	Move []PodMove
	// Preempt is the UID of a Reservation whose places may evict whom the scheduler chooses; those are created again, and evict nobody.
	Preempt facts.UID
	// Restart are gangs all of whose members are gone and created again.
	Restart []facts.UnitName
	// Scores, where set, replace those of the dump.
	Scores map[string]int64
}

// Forecast is what the scheduler did: the production pipeline, with an API server that does what it is told at once.
type Forecast struct {
	Revision changes.Revision `json:"revision"`
	Taken    time.Time        `json:"taken"`
	Nodes    int              `json:"nodes"` // without those that are drained
	// Placed and Unplaced are the pods that looked for a place, by the order in which they were seen.
	Placed   []PlacedPod   `json:"placed"`
	Unplaced []UnplacedPod `json:"unplaced"`
	// Evicted made room for pods of higher priority.
	Evicted []PodName `json:"evicted,omitempty"`
	// Lost are pods on drained nodes that nobody here places again: other schedulers', and those bound to that very node.
	Lost []LostPod `json:"lost,omitempty"`
	// Interrupted: the run was ended early.
	Interrupted bool `json:"interrupted,omitempty"`
	// waitingPlaces are the places of Reservations that still wait, by namespace and the placeholder's name.
	waitingPlaces map[string]bool
	// victims are the pods that were evicted for Change.Preempt, sorted.
	victims []facts.UID
}

// PodName names a pod, and says what it was before.
type PodName struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Was is "added", "waiting", or the node that it was on.
	Was string `json:"was"`
}

// PlacedPod got a place.
type PlacedPod struct {
	PodName
	Node string `json:"node"`
	GPUs string `json:"gpus,omitempty"`
}

// UnplacedPod got none.
type UnplacedPod struct {
	PodName
	Why         string               `json:"why"`
	Explanation *explain.Explanation `json:"explanation,omitempty"`
}

// LostPod goes with its node.
type LostPod struct {
	PodName
	Why string `json:"why"`
}

const (
	wasAdded   = "added"
	wasWaiting = "waiting"
	// maxForecastRounds bounds a run that does not come to rest, which would be a mistake in the core.
	maxForecastRounds = 10_000_000
)

// forecast is one run.
type forecast struct {
	out       *Forecast
	scheduler *schedule.Scheduler
	facts     map[facts.UID]facts.Pod
	was       map[facts.UID]string
	searching []facts.UID // the pods that look for a place
	preempts  facts.UID   // a placeholder that may evict; empty: none
	now       time.Time
}

// NewForecast runs the scheduler on a dump with a change until it comes to rest. A cancelled context ends it early, with what was reached.
func NewForecast(ctx context.Context, d *inspect.Dump, q Change) (*Forecast, error) {
	d.Sort()
	if err := q.check(d); err != nil {
		return nil, err
	}
	if _, err := cluster.Load(d.Ledger); err != nil { // what contradicts itself must not be simulated
		return nil, fmt.Errorf("the snapshot: %w", err)
	}
	config := d.Scheduling
	config.Conditions = spec.Conditions{PerSecond: 1e9, Burst: 1e9, MinInterval: spec.Duration(time.Hour)} // nobody reads them
	if q.Scores != nil {
		config.Scores = q.Scores
	}
	scheduler, err := schedule.New(schedule.Options{Config: config, Devices: d.Ledger.Allocator()})
	if err != nil {
		return nil, err
	}
	f := &forecast{
		out: &Forecast{
			Revision: d.Ledger.Revision, Taken: d.Taken, Nodes: len(d.Ledger.Nodes) - len(q.Drain), Placed: []PlacedPod{}, Unplaced: []UnplacedPod{},
		},
		scheduler: scheduler, facts: make(map[facts.UID]facts.Pod), was: make(map[facts.UID]string), now: d.Taken,
	}
	f.feed(d, &q)
	if err := f.run(ctx); err != nil {
		return nil, err
	}
	f.report()
	return f.out, f.verify()
}

// check names what of the change cannot be.
func (q *Change) check(d *inspect.Dump) error {
	drained := make(map[string]bool)
	for _, name := range q.Drain {
		if !slices.ContainsFunc(d.Ledger.Nodes, func(n *facts.Node) bool { return n.Name == name }) {
			return fmt.Errorf("drain: the snapshot has no node %s", name)
		}
		if drained[name] {
			return fmt.Errorf("drain: node %s stands twice", name)
		}
		drained[name] = true
	}
	known := make(map[facts.UID]string)
	for i := range d.Ledger.Pods {
		known[d.Ledger.Pods[i].Facts.UID] = "the snapshot"
	}
	for i := range q.Add {
		f := &q.Add[i]
		if !f.Ours {
			return fmt.Errorf("add: pod %s/%s is another scheduler's; write spec.schedulerName: %s", f.Namespace, f.Name, d.SchedulerName)
		}
		if f.Node != "" {
			return fmt.Errorf("add: pod %s/%s names its node already (%s); leave spec.nodeName out", f.Namespace, f.Name, f.Node)
		}
		if where, twice := known[f.UID]; twice {
			return fmt.Errorf("add: pod %s/%s stands in %s already", f.Namespace, f.Name, where)
		}
		known[f.UID] = "what is added"
	}
	return nil
}

// restarts reports whether a pod is of a gang that restarts.
func (q *Change) restarts(f *facts.Pod) bool {
	return f.Unit != "" && slices.Contains(q.Restart, facts.UnitName{Namespace: f.Namespace, Name: f.Unit})
}

// feed tells the scheduler of the cluster as it would be. What is on its way has arrived: pods that are being deleted, and victims that
// are waited for, have left; placements whose Binding is not confirmed are bound.
func (f *forecast) feed(d *inspect.Dump, q *Change) {
	l := d.Ledger
	tell := func(e facts.Event) { f.scheduler.Apply(e, f.now) }
	tell(facts.NamespacesListed{Namespaces: l.Namespaces})
	for _, w := range l.Workloads {
		tell(facts.WorkloadUpserted{Workload: w})
	}
	tell(facts.BudgetsListed{Budgets: l.Budgets})
	for i := range l.Units {
		if u := &l.Units[i]; u.Known {
			tell(facts.UnitUpserted{Unit: &u.Facts})
		}
	}
	for _, n := range l.Nodes {
		if !slices.Contains(q.Drain, n.Name) {
			tell(facts.NodeUpserted{Node: n})
		}
	}
	leaving := make(map[facts.UID]bool)
	for i := range l.Pods {
		r := &l.Pods[i]
		leaving[r.Facts.UID] = leaving[r.Facts.UID] || r.Facts.Deleting || r.Phase == cluster.Finished
		for _, victim := range r.Victims {
			leaving[victim] = true
		}
	}
	away := maps.Clone(leaving)
	for _, m := range q.Move {
		away[m.UID] = true
	}
	for i := range l.Pods {
		if f := &l.Pods[i].Facts; q.restarts(f) {
			away[f.UID] = true
		}
	}
	for _, r := range l.Reports {
		if !slices.Contains(q.Drain, r.Node) {
			tell(reportWithout(r, away))
		}
	}
	f.feedDevices(l, leaving, q.Drain)
	known := f.feedReservations(l, q.Preempt)
	for i := range l.Pods {
		seen := l.Pods[i].Facts
		if known[seen.UID] {
			continue
		}
		at := slices.IndexFunc(q.Move, func(m PodMove) bool { return m.UID == seen.UID })
		switch {
		case leaving[seen.UID]:
		case at >= 0:
			f.move(seen, q.Move[at].To)
		default:
			f.enter(seen, slices.Contains(q.Drain, seen.Node) || q.restarts(&seen))
		}
	}
	for _, seen := range q.Add {
		seen.Created = f.now.UnixNano()
		f.seek(seen, wasAdded)
	}
}

// feedReservations tells of the Reservations, and returns the placeholders that the scheduler makes of them itself. A place on a node that is drained is lost.
func (f *forecast) feedReservations(l *cluster.Dump, preempt facts.UID) (known map[facts.UID]bool) {
	known = make(map[facts.UID]bool)
	named := make(map[facts.UID]string)
	if len(l.Placeholders) > 0 {
		for i := range l.Pods {
			named[l.Pods[i].Facts.UID] = l.Pods[i].Facts.Name
		}
	}
	var list []*facts.Reservation
	for i := range l.Placeholders {
		r := &l.Placeholders[i]
		for at := range r.Places {
			known[facts.PlaceholderUID(r.Facts.UID, at)] = true
		}
		settled := r.Settled(func(uid facts.UID) string { return named[uid] })
		if settled.UID == preempt {
			f.preempts, settled.MayEvict = facts.PlaceholderUID(preempt, 0), nil
			for i := range l.Pods {
				settled.MayEvict = append(settled.MayEvict, l.Pods[i].Facts.UID)
			}
		}
		list = append(list, settled)
	}
	f.scheduler.Apply(facts.ReservationsListed{Reservations: list}, f.now)
	return known
}

// reportWithout is what a node's agent says once those who are leaving have left. Whom it wants evicted is not asked.
func reportWithout(r facts.NodeReported, left map[facts.UID]bool) facts.NodeReported {
	said := *r.Report
	said.Evictions = nil
	said.Held = slices.DeleteFunc(slices.Clone(said.Held), func(h facts.HeldNUMA) bool { return left[h.UID] })
	said.HeldResources = slices.DeleteFunc(slices.Clone(said.HeldResources), func(h facts.HeldResources) bool { return left[h.UID] })
	said.HeldDevices = slices.DeleteFunc(slices.Clone(said.HeldDevices), func(h facts.HeldDevices) bool { return left[h.UID] })
	return facts.NodeReported{Node: r.Node, Report: &said}
}

// enter tells of a pod of the dump.
func (f *forecast) enter(seen facts.Pod, drained bool) {
	seen.Nominated = "" // the victims that made room there have left: it may be had by whoever comes first
	was := seen.Node
	switch {
	case seen.Node == "":
		f.seek(seen, wasWaiting)
	case !drained:
		f.facts[seen.UID] = seen
		f.was[seen.UID] = was
		f.scheduler.Apply(facts.PodUpserted{Pod: seen}, f.now)
	case !seen.Ours:
		f.out.Lost = append(f.out.Lost, LostPod{PodName{seen.Namespace, seen.Name, was}, "another scheduler's"})
	case boundByName(seen.Requirements, was):
		f.out.Lost = append(f.out.Lost, LostPod{PodName{seen.Namespace, seen.Name, was}, "made for that very node"})
	default:
		seen.Node, seen.Grant, seen.Started = "", topology.Grant{}, 0
		f.seek(seen, was)
	}
}

// boundByName reports whether a pod may go to one node only, by its name, as those of a DaemonSet.
func boundByName(r *facts.Requirements, node string) bool {
	return len(r.Required) > 0 && !slices.ContainsFunc(r.Required, func(t facts.Term) bool {
		return !slices.ContainsFunc(t.Fields, func(e facts.Requirement) bool {
			return e.Operator == facts.In && slices.Equal(e.Values, []string{node})
		})
	})
}

// move takes a pod off its node and has it look for a place on another.
func (f *forecast) move(seen facts.Pod, to string) {
	was, pinned := seen.Node, *seen.Requirements
	on := facts.Requirement{Key: facts.FieldName, Operator: facts.In, Values: []string{to}}
	terms := []facts.Term{{Fields: []facts.Requirement{on}}}
	if len(pinned.Required) > 0 {
		terms = slices.Clone(pinned.Required)
		for i := range terms {
			terms[i].Fields = append(slices.Clone(terms[i].Fields), on)
		}
	}
	pinned.Required = terms
	seen.Requirements, seen.NeverPreempts = &pinned, true
	seen.Node, seen.Grant, seen.Started = "", topology.Grant{}, 0
	f.seek(seen, was)
}

func (f *forecast) seek(seen facts.Pod, was string) {
	f.facts[seen.UID], f.was[seen.UID] = seen, was
	f.searching = append(f.searching, seen.UID)
	f.scheduler.Apply(facts.PodUpserted{Pod: seen}, f.now)
}

// run lets the scheduler do all that it can.
func (f *forecast) run(ctx context.Context) error {
	for range maxForecastRounds {
		if f.out.Interrupted = ctx.Err() != nil; f.out.Interrupted {
			return nil
		}
		decisions := f.scheduler.Step(f.now, sim.StepLimit)
		f.noteVictims()
		writes := slices.Clone(f.scheduler.Ready(f.now))
		for i := range writes {
			f.answer(&writes[i])
		}
		if decisions > 0 || len(writes) > 0 {
			continue
		}
		at, ok := f.scheduler.NextWake(f.now)
		if !ok {
			return nil
		}
		f.now = at
	}
	return errors.New("the scheduler does not come to rest")
}

// noteVictims takes note of whom the placeholder evicts that may.
func (f *forecast) noteVictims() {
	if f.preempts == "" {
		return
	}
	if pod := f.scheduler.Store().Pod(f.preempts); pod != nil {
		for _, v := range pod.Victims() {
			if at, known := slices.BinarySearch(f.out.victims, v.UID); !known {
				f.out.victims = slices.Insert(f.out.victims, at, v.UID)
			}
		}
	}
}

// answer does a write, and lets the watch tell of it.
func (f *forecast) answer(w *bind.Write) {
	seen := f.facts[w.Pod]
	result := bind.Result{ID: w.ID, Outcome: bind.Written, Node: seen.Node}
	f.scheduler.Finish(result, f.now)
	switch w.Kind {
	case bind.WriteBinding:
		seen.Node, seen.Grant = w.Node, w.Grant
		f.facts[w.Pod] = seen
		f.scheduler.Apply(facts.PodUpserted{Pod: seen}, f.now)
	case bind.DeletePod:
		f.out.Evicted = append(f.out.Evicted, PodName{seen.Namespace, seen.Name, f.was[w.Pod]})
		delete(f.facts, w.Pod)
		f.scheduler.Apply(facts.PodRemoved{UID: w.Pod}, f.now)
		if slices.Contains(f.out.victims, w.Pod) && seen.Ours && seen.Unit == "" {
			seen.UID += "+again"
			was := seen.Node
			seen.Node, seen.Grant, seen.Started, seen.Nominated, seen.NeverPreempts, seen.Created = "", topology.Grant{}, 0, "", true, f.now.UnixNano()
			f.seek(seen, was)
		}
	case bind.WriteClaim:
		f.claimed(&w.Claim)
	default: // nobody reads what the others write
	}
}

// report says what became of the pods that looked for a place.
func (f *forecast) report() {
	snapshot := cluster.NewSnapshot()
	snapshot.Advance(f.scheduler.Store())
	// Explanations do not look at scores, so the profile does not matter.
	placer := place.NewPlacer(snapshot, &rules.Profile{}, 0, 1)
	type asked struct {
		class    *cluster.Class
		priority int32
	}
	known := make(map[asked]*explain.Explanation)
	for _, uid := range f.searching {
		seen, there := f.facts[uid]
		if !there {
			continue // it was placed, and then evicted
		}
		name := PodName{seen.Namespace, seen.Name, f.was[uid]}
		pod := f.scheduler.Store().Pod(uid)
		switch {
		case seen.Node != "":
			f.out.Placed = append(f.out.Placed, PlacedPod{name, seen.Node, seen.Grant.String()})
			continue
		case pod.Gated:
			f.out.Unplaced = append(f.out.Unplaced, UnplacedPod{name, "it has scheduling gates", nil})
			continue
		case pod.Refusal() != "":
			f.out.Unplaced = append(f.out.Unplaced, UnplacedPod{name, pod.Refusal(), nil})
			continue
		}
		key := asked{pod.Class, pod.Priority}
		if known[key] == nil {
			e := placer.ExplainFor(f.scheduler.Store(), pod.Class, pod.Priority)
			known[key] = &e
		}
		f.out.Unplaced = append(f.out.Unplaced, UnplacedPod{name, known[key].String(), known[key]})
	}
	f.out.waitingPlaces = make(map[string]bool)
	f.scheduler.Store().Placeholders().Each(func(set *cluster.PlaceholderSet) {
		v := set.View()
		for _, p := range v.Places {
			if p.State == facts.PlaceWaiting {
				f.out.waitingPlaces[v.Namespace+"/"+facts.PlaceholderName(v.Name, p.Index)] = true
			}
		}
	})
	slices.SortFunc(f.out.Lost, func(a, b LostPod) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
}

// verify holds the outcome against the core's own invariants.
func (f *forecast) verify() error {
	if err := f.scheduler.Verify(); err != nil {
		return fmt.Errorf("an invariant broke: %w", err)
	}
	return nil
}
