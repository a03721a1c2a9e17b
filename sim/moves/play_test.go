package moves

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/control/budget"
	"hilbert.dev/hilbert/control/reschedule"
	"hilbert.dev/hilbert/schedule"
	"hilbert.dev/hilbert/schedule/bind"
	"hilbert.dev/hilbert/schedule/inspect"
	"hilbert.dev/hilbert/sim/whatif"
)

// Report is what a run did.
type Report struct {
	Evicted, Done, Lost, GivenBack, Stayed, Adopted int
	Turns                                           int // pods that had their turn before others
	Late                                            int // pods that were evicted after nobody asked for it any more, or after the target was lost
	Leaders                                         int // of schedulers and controllers, after the first
	Placed                                          bool
}

// flight is a write on its way.
type flight struct {
	at    int64
	write bind.Write
}

// run is a world with a scheduler and a controller.
type run struct {
	*world
	seed      uint64
	scheduler *schedule.Scheduler
	flights   []flight
	carrier   *reschedule.Carrier
	asking    map[string]int64
	refused   map[string]string // evictions of gangs
	report    Report
	before    reschedule.Counts // of carriers before
	turns     turns
	pool      *pool // nil: nodes change no hands
	// asks: this controller has evictions asked for by EvictionRequests. limits are of all of them.
	asks   bool
	limits reschedule.Timeouts
	spent  spending
}

// spending is what one controller has disturbed of what its budget allows: pods of moves that it has begun itself.
type spending struct {
	since   int64
	begun   map[facts.UID]bool
	evicted int
}

// perHour and burst bound what a controller disturbs.
const perHour, burst = 600, 3

const (
	active = 10 * time.Minute // how long faults strike and moves are planned
	settle = 40 * time.Minute // how long it takes until all that was begun has ended, at most
	nodes  = 10
)

// Play runs one seed. requests: evictions are asked for by EvictionRequests, in some runs by some of the controllers only. The error names what was broken.
func Play(ctx context.Context, seed uint64, faults, requests bool) (Report, error) {
	r := newRun(seed, faults)
	if requests {
		r.useRequests()
	}
	return r.play(ctx, (*run).fragment)
}

func newRun(seed uint64, faults bool) *run {
	return &run{world: newWorld(seed, faults), seed: seed, limits: reschedule.DefaultTimeouts()}
}

// fragment has a pod on each node, so that none has room for the large ones that wait. Two of the pods are a gang.
func (r *run) fragment() {
	r.scatter(nodes)
	r.create("", gpusPerNode, 0)
	r.create("", gpusPerNode, 0)
}

// scatter puts a service of one GPU on each of some nodes.
func (r *run) scatter(n int) {
	for i := range n {
		workload := fmt.Sprintf("w%02d", i)
		if i < gangSize && r.pool == nil {
			workload = fmt.Sprintf("%s%02d", gangWork, i)
		}
		r.create(workload, 1, 0)
		r.place(fmt.Sprintf("n%02d", i), r.random.IntN(gpusPerNode))
	}
}

// place has the pod that was created last run on a node.
func (r *run) place(node string, gpu int) {
	p := r.pods[facts.UID(fmt.Sprintf("u%04d", r.next))]
	p.Node, p.Grant.GPUs, p.Grant.Milli, p.Started = node, 1<<gpu, 1000, 1
	r.queue[len(r.queue)-1].event = facts.PodUpserted{Pod: p.Pod}
}

// play runs until all that was begun has ended.
func (r *run) play(ctx context.Context, populate func(*run)) (Report, error) {
	seed, faults := r.seed, r.faults
	r.turns = turns{r: r, back: make(map[facts.UID]bool), given: make(map[facts.UID]bool)}
	for i := range nodes {
		r.addNode(fmt.Sprintf("n%02d", i))
	}
	if err := r.lead(); err != nil {
		return r.report, err
	}
	r.control()
	populate(r)
	began := r.now
	for r.now-began < int64(active+settle) && len(r.wrong) == 0 {
		r.now += int64(tick)
		running := r.now-began < int64(active)
		r.faults = faults && running
		r.live()
		r.respond()
		if running {
			r.strike()
		}
		if err := r.step(ctx, running && (r.now-began)/int64(tick)%10 == 0); err != nil {
			return r.report, fmt.Errorf("seed %d: %w", seed, err)
		}
		if !running && r.rests() {
			break
		}
	}
	r.atRest()
	c := r.counts()
	r.report.Evicted, r.report.Done, r.report.Lost = len(r.evicted), c.Ended[reschedule.Done], c.Ended[reschedule.LostTarget]
	r.report.Turns, r.report.Late = len(r.turns.given), r.late
	r.report.GivenBack, r.report.Stayed, r.report.Adopted = c.Ended[reschedule.GivenBack], c.Ended[reschedule.Stayed], c.Adopted
	if len(r.wrong) > 0 {
		return r.report, fmt.Errorf("seed %d: %s", seed, strings.Join(r.wrong, "\n"))
	}
	return r.report, nil
}

// lead starts a scheduler. The writes of the one before have landed or are lost.
func (r *run) lead() error {
	for _, f := range r.flights {
		if !r.strikes(2) {
			r.execute(&f.write)
		}
	}
	r.flights = nil
	config := spec.Default().Scheduling
	config.Seed = r.seed
	scheduler, err := schedule.New(schedule.Options{Config: config, NoPodEvents: true, Observer: &r.turns})
	if err != nil {
		return err
	}
	r.scheduler = scheduler
	for _, e := range r.lists() {
		scheduler.Apply(e, r.time())
	}
	return nil
}

// control starts a controller, which adopts what the one before has left.
func (r *run) control() {
	if r.carrier != nil {
		r.before = r.counts()
	}
	limits := budget.Limits{PerHour: perHour, Burst: burst}
	if r.pool != nil { // who changes hands has no budget here
		limits = budget.Limits{PerHour: 100_000, Burst: 50}
	}
	if r.memory.leaders == 0 {
		r.memory.began = r.now
	}
	r.carrier = reschedule.NewCarrier(r.limits, 8, budget.NewEmpty(limits, r.time()), r.recall())
	r.asking, r.refused = make(map[string]int64), make(map[string]string)
	r.spent = spending{since: r.now, begun: make(map[facts.UID]bool)}
	if r.requests != nil {
		r.asks = r.seed%3 > 0 || r.random.IntN(2) == 0 // whoever configures it may change their mind
	}
	for _, uid := range slices.Sorted(maps.Keys(r.targets)) {
		t := r.targets[uid]
		seen := r.see(&reschedule.Carried{Wanted: t.wanted, Move: reschedule.Move{Stage: reschedule.Evicting}})
		r.carrier.Adopt(t.wanted, &seen, t.created, r.time())
	}
}

// counts are those of all carriers.
func (r *run) counts() reschedule.Counts {
	c := r.carrier.Counts()
	for i := range c.Ended {
		c.Ended[i] += r.before.Ended[i]
	}
	c.Adopted += r.before.Adopted
	c.Begun += r.before.Begun
	return c
}

// step lets the scheduler and the controller do all that they can now.
func (r *run) step(ctx context.Context, plans bool) error {
	if r.strikes(90) {
		r.report.Leaders++
		if err := r.lead(); err != nil {
			return err
		}
	}
	if r.strikes(60) {
		r.report.Leaders++
		r.control()
	}
	r.carry()
	r.whole()
	for _, e := range r.due() {
		r.scheduler.Apply(e, r.time())
	}
	r.land()
	for range 1000 {
		r.turns.begin()
		decisions := r.scheduler.Step(r.time(), 128)
		writes := r.scheduler.Ready(r.time())
		for i := range writes {
			at := r.now
			if r.faults {
				at += r.random.Int64N(int64(2 * tick))
			}
			r.flights = append(r.flights, flight{at, writes[i]})
		}
		r.land()
		if !r.faults {
			for _, e := range r.due() {
				r.scheduler.Apply(e, r.time())
			}
		}
		if decisions == 0 && len(writes) == 0 {
			break
		}
	}
	if err := r.scheduler.Verify(); err != nil {
		return err
	}
	switch {
	case r.pool != nil && plans:
		return r.pool.round(ctx)
	case r.pool != nil || !plans || r.carrier.Busy()+len(r.memory.ending) > 0:
		return nil
	}
	return r.plan(ctx)
}

// land does the writes whose time has come.
func (r *run) land() {
	var later []flight
	for _, f := range r.flights {
		switch {
		case f.at > r.now:
			later = append(later, f)
		case r.strikes(30): // it is lost
			r.scheduler.Finish(bind.Result{ID: f.write.ID, Outcome: bind.Unknown}, r.time())
		default:
			result := r.execute(&f.write)
			if r.strikes(30) { // its answer is
				result = bind.Result{ID: f.write.ID, Outcome: bind.Unknown}
			}
			r.scheduler.Finish(result, r.time())
		}
	}
	r.flights = later
}

// plan makes a plan from a snapshot, and begins its first batch.
func (r *run) plan(ctx context.Context) error {
	params := reschedule.Defaults()
	params.MinAge, params.WorkloadCooldown = 0, time.Minute
	found, err := whatif.NewMoves(ctx, inspect.Take(r.scheduler, spec.DefaultSchedulerName, r.time()), &whatif.MoveOptions{Params: params, History: r.carrier.History(), WorkloadsMoving: r.carrier.WorkloadsMoving()})
	if err != nil || found.Count() == 0 {
		return err
	}
	var batch []reschedule.Wanted
	for _, s := range found.Batches[0] {
		batch = append(batch, reschedule.Wanted{Pod: string(s.UID), Namespace: s.Namespace, Name: s.Name, Workload: s.Workload, From: s.From, To: s.To, Reason: s.Reason, Why: s.Why})
	}
	for _, w := range r.carrier.Begin(batch, r.time()) {
		r.spent.begun[facts.UID(w.Pod)] = true
	}
	return nil
}

// see is what the controller sees of a move, at the API server.
func (r *run) see(m *reschedule.Carried) reschedule.Seen {
	if m.Gang != nil {
		return r.seeGang(m)
	}
	seen := r.seePod(m, m.Wanted.Pod, m.Wanted.From)
	seen.Known = true
	seen.Place, seen.Why = reschedule.Absent, "there is no Reservation any more"
	if t := r.targets[facts.UID(moveLabel+m.Wanted.Pod)]; t != nil {
		seen.Place, seen.Why = reschedule.Asked, ""
		for _, place := range t.Places {
			seen.Place = map[facts.PlaceState]reschedule.Place{
				facts.PlaceReserved: reschedule.Reserved, facts.PlaceConsumed: reschedule.Consumed, facts.PlaceLost: reschedule.Lost,
			}[place.State]
			seen.Why, seen.Served = place.Reason, place.State == facts.PlaceLost && place.Pod != ""
		}
		seen.Replacement = t.replacement()
	}
	r.seeRequest(&seen, facts.UID(m.Wanted.Pod))
	return seen
}

func (r *run) seePod(m *reschedule.Carried, uid, from string) (seen reschedule.Seen) {
	p := r.pods[facts.UID(uid)]
	switch {
	case p == nil:
		seen.Gone = true
	case p.Deleting:
		seen.Evicted = m.Stage >= reschedule.Evicting
	default:
		seen.Running = p.Node == from
	}
	return seen
}

// carry advances the moves on their way.
func (r *run) carry() {
	for _, m := range r.carrier.Moves() {
		if r.strikes(20) {
			continue // it is not known how it stands
		}
		seen := r.see(&m)
		seen.Asking, seen.Refused = r.now < r.asking[m.Wanted.Pod], r.refused[m.Wanted.Pod]
		if m.Stage == reschedule.Rehearsed && r.strikes(20) {
			seen.Vetoed = "its disruption budget refuses"
		}
		after, do, noted := r.carrier.Advance(m.Wanted.Pod, &seen, r.time())
		if noted {
			r.memory.ending, do = append(r.memory.ending, after), nil
		}
		for _, what := range do {
			r.do(&after, what)
		}
		if uid := facts.UID(m.Wanted.Pod); after.Stage.Final() && r.evicted[uid] && after.Stage != reschedule.Done && after.Stage != reschedule.LostTarget {
			r.broken("%s was evicted, and its move ends as %v: %s", uid, after.Stage, after.Move.Why)
		}
	}
	r.finish()
}

func (r *run) do(m *reschedule.Carried, what reschedule.Do) {
	uid := facts.UID(moveLabel + m.Wanted.Pod)
	switch what {
	case reschedule.Reserve:
		if p := r.pods[facts.UID(m.Wanted.Pod)]; p != nil && r.targets[uid] == nil && !r.strikes(10) {
			r.reserve(uid, m, p)
		}
	case reschedule.GiveBack:
		if r.targets[uid] != nil && !r.strikes(10) {
			r.withdraw(facts.UID(m.Wanted.Pod))
			delete(r.targets, uid)
			r.kept.Remove(uid)
			r.tell(facts.ReservationRemoved{UID: uid})
		}
	case reschedule.Evict:
		if m.Gang != nil {
			r.evictGang(uid, m)
			return
		}
		p := r.pods[facts.UID(m.Wanted.Pod)]
		switch {
		case p == nil || p.Deleting, !r.asks && r.strikes(2): // refused by a budget
		case r.strikes(8): // it is lost
			r.asking[m.Wanted.Pod] = r.now + int64(2*tick)
		default:
			if r.asks {
				r.ask(uid, p)
			} else {
				r.evict(uid, p)
			}
			if r.strikes(8) { // its answer is
				r.asking[m.Wanted.Pod] = r.now + int64(2*tick)
			}
		}
	case reschedule.Withdraw:
		if !r.strikes(10) {
			r.withdraw(facts.UID(m.Wanted.Pod))
		}
	case reschedule.QueueFirst:
	}
}

// reserve creates the Reservation of a target.
func (r *run) reserve(uid facts.UID, m *reschedule.Carried, p *object) {
	t := &target{wanted: m.Wanted, created: r.time(), Reservation: &facts.Reservation{
		UID: uid, Namespace: p.Namespace, Name: string(uid), Created: r.now, Count: 1, Template: p.Pod, Owners: []facts.ReservationOwner{{Controller: p.Controller}}, Moves: p.UID,
		Expires: r.now + int64(r.limits.Reserve+r.limits.Evict+r.limits.Withdraw+r.limits.Replace+5*time.Minute),
	}}
	requirements := *p.Requirements
	requirements.Required = []facts.Term{{Fields: []facts.Requirement{{Key: facts.FieldName, Operator: facts.In, Values: []string{m.Wanted.To}}}}}
	t.Template.Requirements, t.Template.Node, t.Template.Placeholder = &requirements, "", ""
	if g := m.Gang; g != nil {
		t.Count, t.Owners, requirements.Required = m.Size(), []facts.ReservationOwner{{Unit: g.PodGroup}}, nil
		for _, node := range g.Nodes {
			requirements.Required = append(requirements.Required, facts.Term{Fields: []facts.Requirement{{Key: facts.FieldName, Operator: facts.In, Values: []string{node}}}})
		}
	}
	r.targets[uid] = t
	r.kept.Add(t.Reservation)
	r.tell(facts.ReservationUpserted{Reservation: r.kept.Copy(uid)})
}

// reserved reports whether a target is, by its status.
func (t *target) reserved() bool {
	return t != nil && len(t.Places) == 1 && t.Places[0].State == facts.PlaceReserved && t.Places[0].Node == t.wanted.To
}

// evict evicts a pod, and judges that.
func (r *run) evict(uid facts.UID, p *object) {
	if t := r.targets[uid]; !t.reserved() {
		r.broken("%s is evicted, and its target is not reserved: %+v", p.UID, t)
	}
	r.disturb(p)
}

// disturb ends a pod for a move. Members of gangs are never moved, and a controller keeps to its budget.
func (r *run) disturb(p *object) {
	if p.Unit != "" && r.pool == nil {
		r.broken("%s is evicted, and tears the gang %s", p.UID, p.Unit)
	}
	if r.spent.begun[p.UID] {
		r.spent.evicted++
		if most := burst + int(perHour*time.Duration(r.now-r.spent.since)/time.Hour); r.spent.evicted > most {
			r.broken("%d pods were evicted since the controller began, and its budget allows %d", r.spent.evicted, most)
		}
	}
	if r.pool == nil {
		r.moved(p, r.spent.begun[p.UID])
	}
	r.evicted[p.UID] = true
	r.end(p)
}

// rests: nothing is left to happen.
func (r *run) rests() bool {
	if len(r.queue)+len(r.flights)+len(r.wants)+len(r.carrier.Moves())+len(r.memory.ending)+r.requested() > 0 {
		return false
	}
	for _, p := range r.pods {
		if p.leaves != 0 {
			return false
		}
	}
	return len(r.targets) == 0
}

// atRest looks at what is left.
func (r *run) atRest() {
	if len(r.wrong) > 0 {
		return
	}
	c := r.counts()
	if left := r.requested(); left > 0 {
		r.broken("%d evictions are still asked for", left)
	}
	if left := len(r.carrier.Moves()); left > 0 {
		r.broken("%d moves have not ended: %+v", left, r.carrier.Moves())
	}
	ended := c.Ended[reschedule.Done] + c.Ended[reschedule.LostTarget] + c.Ended[reschedule.GivenBack]
	if len(r.evicted) > ended {
		r.broken("%d pods were evicted, and %d moves have ended", len(r.evicted), ended)
	}
	for _, uid := range slices.Sorted(maps.Keys(r.pods)) {
		p := r.pods[uid]
		if p.Node != "" || !p.Ours || p.Deleting || p.Unit != "" {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(r.nodes)) {
			if n := r.nodes[name]; !p.Requirements.Selects(n) || facts.Untolerated(n, p.Requirements.Tolerations) != nil {
				continue
			}
			if r.free(name, true, 0, "") >= int(p.Requirements.GPU.Whole) {
				r.broken("at rest %s waits, and would fit on %s", uid, name)
			}
		}
	}
	r.gangsAtRest()
	r.report.Placed = !slices.ContainsFunc(slices.Collect(maps.Values(r.pods)), func(p *object) bool { return p.Node == "" && p.Requirements.GPU.Whole == gpusPerNode })
}
