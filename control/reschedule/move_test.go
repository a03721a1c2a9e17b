package reschedule

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// world is a model of a cluster in which pods are moved: nodes with slots, a scheduler that honours reservations, foreign binders, nodes that die, leaders
// that change, writes that are slow or lost, and views of pods that are old. All chance comes from one seed.
type world struct {
	random *rand.Rand
	faults bool
	now    time.Time

	dead    map[int]bool
	foreign map[int]int // slots that others took, by node
	pods    map[string]*worldPod
	queue   []*worldPod
	targets map[string]*worldTarget // by the pod that is moved
	moves   map[string]*Move
	sent    map[string]int // evictions on their way: ticks left, by pod
	before  map[string]bool
	evicted map[string]bool
	ended   map[string]Stage
	next    int

	problems []string
}

type worldPod struct {
	uid, workload string
	node          int // -1: it waits
	first         bool
}

type worldTarget struct {
	move    Move
	node    int
	state   Place
	created time.Time
	settled int // ticks until the API server knows
	served  bool
}

const (
	worldNodes = 6
	worldSlots = 3
)

func newWorld(seed uint64, faults bool) *world {
	w := &world{
		random: rand.New(rand.NewPCG(seed, 1)), faults: faults, now: time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC), dead: make(map[int]bool), foreign: make(map[int]int),
		pods: make(map[string]*worldPod), targets: make(map[string]*worldTarget), moves: make(map[string]*Move), sent: make(map[string]int),
		evicted: make(map[string]bool), ended: make(map[string]Stage),
	}
	for i := range 8 {
		w.create(fmt.Sprintf("w%d", i)).node = i % worldNodes
	}
	w.queue = nil
	w.look()
	aimed := make(map[int]bool)
	for i, uid := range w.uids() {
		if i%2 == 0 {
			from := w.pods[uid].node
			to := (from + 1 + w.random.IntN(worldNodes-1)) % worldNodes
			for aimed[to] || to == from {
				to = (to + 1) % worldNodes
			}
			aimed[to] = true
			w.moves[uid] = &Move{Pod: uid, From: fmt.Sprint(from), To: fmt.Sprint(to)}
		}
	}
	return w
}

func (w *world) chance(p float64) bool { return w.faults && w.random.Float64() < p }

func (w *world) create(workload string) *worldPod {
	p := &worldPod{uid: fmt.Sprintf("p%03d", w.next), workload: workload, node: -1}
	w.next++
	w.pods[p.uid] = p
	w.queue = append(w.queue, p)
	return p
}

func (w *world) uids() []string {
	var list []string
	for uid := range w.pods {
		list = append(list, uid)
	}
	slices.Sort(list)
	return list
}

func (w *world) keys() []string {
	var list []string
	for uid := range w.targets {
		list = append(list, uid)
	}
	slices.Sort(list)
	return list
}

// used is how many slots of a node pods and reserved targets have.
func (w *world) used(node int) int {
	n := w.foreign[node]
	for _, p := range w.pods {
		if p.node == node {
			n++
		}
	}
	for _, t := range w.targets {
		if t.node == node && t.state == Reserved {
			n++
		}
	}
	return n
}

func (w *world) free(node int) bool { return !w.dead[node] && w.used(node) < worldSlots }

// remove ends a pod; its workload makes another.
func (w *world) remove(uid string) {
	p := w.pods[uid]
	delete(w.pods, uid)
	w.queue = slices.DeleteFunc(w.queue, func(q *worldPod) bool { return q == p })
	w.create(p.workload)
}

// place is the scheduler: targets first, then who waits; an owner takes its reservation, and nobody else.
func (w *world) place() {
	for _, key := range w.keys() {
		t := w.targets[key]
		if t.state == Asked && w.free(t.node) {
			t.state, t.settled = Reserved, 1
		} else if t.settled > 0 {
			t.settled--
		}
	}
	slices.SortStableFunc(w.queue, func(a, b *worldPod) int {
		if a.first != b.first {
			return cmp.Compare(b2i(b.first), b2i(a.first))
		}
		return 0
	})
	var waiting []*worldPod
	for _, p := range w.queue {
		if !w.bind(p) {
			waiting = append(waiting, p)
		}
	}
	w.queue = waiting
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (w *world) bind(p *worldPod) bool {
	for _, key := range w.keys() {
		if t := w.targets[key]; t.state == Reserved && t.settled == 0 && t.move.From == p.workload {
			p.node, t.state = t.node, Consumed
			return true
		}
	}
	for node := range worldNodes {
		if w.free(node) {
			p.node = node
			for _, key := range w.keys() {
				if t := w.targets[key]; t.state == Lost && t.move.From == p.workload && p.first {
					t.served = true
				}
			}
			return true
		}
	}
	return false
}

// harm lets foreign binders and dying nodes do what they do.
func (w *world) harm() {
	if w.chance(0.1) {
		node := w.random.IntN(worldNodes)
		if !w.dead[node] && w.foreign[node] < 1 {
			w.foreign[node]++
		}
		for _, key := range w.keys() {
			if t := w.targets[key]; t.node == node && t.state == Reserved && w.used(node) > worldSlots {
				t.state = Lost
			}
		}
	}
	if w.chance(0.02) && len(w.dead) < 2 {
		node := w.random.IntN(worldNodes)
		w.dead[node] = true
		for _, uid := range w.uids() {
			if p := w.pods[uid]; p != nil && p.node == node {
				w.remove(uid)
			}
		}
		for _, t := range w.targets {
			if t.node == node && (t.state == Reserved || t.state == Asked) {
				t.state = Lost
			}
		}
	}
}

// land lets evictions arrive.
func (w *world) land() {
	for _, uid := range w.uids() {
		left, on := w.sent[uid]
		switch {
		case !on:
		case left > 0:
			w.sent[uid]--
		default:
			delete(w.sent, uid)
			if p := w.pods[uid]; p.node >= 0 && !w.chance(0.2) { // else the budget refuses it, or it is lost
				w.evicted[uid] = true
				w.remove(uid)
			}
		}
	}
	for uid := range w.sent {
		if w.pods[uid] == nil {
			delete(w.sent, uid)
		}
	}
}

// look is how the pods stand for those who see an old state.
func (w *world) look() {
	w.before = make(map[string]bool)
	for uid, p := range w.pods {
		w.before[uid] = p.node >= 0
	}
}

func (w *world) seen(m *Move) *Seen {
	s := &Seen{Known: !w.chance(0.2)}
	if t := w.targets[m.Pod]; t != nil {
		if s.Place = t.state; t.state == Reserved && t.settled > 0 {
			s.Place = Asked
		}
		s.Why, s.Served = "taken", t.served
	}
	running, there := w.before[m.Pod]
	s.Running, s.Gone = running, !there
	_, s.Asking = w.sent[m.Pod]
	if w.evicted[m.Pod] && there { // the caches have not heard of it; the answer to the eviction has
		s.Evicted, s.Running = true, false
	}
	return s
}

// lead lets the leader advance the moves. A new one knows the Reservations alone.
func (w *world) lead() {
	limits := DefaultTimeouts()
	if len(w.sent) == 0 && w.chance(0.1) {
		for uid, m := range w.moves {
			if t := w.targets[uid]; t == nil || m.Stage.Final() {
				delete(w.moves, uid)
			}
		}
		for _, uid := range w.keys() {
			m := Recover(w.targets[uid].move, w.seen(&w.targets[uid].move), w.targets[uid].created, w.now, &limits)
			w.moves[uid] = &m
		}
	}
	var list []string
	for uid := range w.moves {
		list = append(list, uid)
	}
	slices.Sort(list)
	for _, uid := range list {
		m := w.moves[uid]
		was := m.Stage
		next, todo := Advance(*m, w.seen(m), w.now, &limits)
		if next.Stage < was {
			w.fail("the move of %s went back from %v to %v", uid, was, next.Stage)
		}
		*m = next
		for _, do := range todo {
			w.do(m, do)
		}
		if m.Stage.Final() && !was.Final() {
			w.ended[uid] = m.Stage
		}
	}
}

func (w *world) do(m *Move, do Do) {
	switch do {
	case Reserve:
		if w.targets[m.Pod] == nil && !w.chance(0.2) {
			var node int
			_, _ = fmt.Sscan(m.To, &node)
			kept := *m
			kept.From = w.workload(m.Pod)
			t := &worldTarget{move: kept, node: node, state: Asked, created: w.now}
			if w.dead[node] {
				t.state = Lost
			}
			w.targets[m.Pod] = t
		}
	case Evict:
		if t := w.targets[m.Pod]; t == nil || t.state != Reserved || t.settled > 0 {
			w.fail("%s is evicted without a reserved target", m.Pod)
		}
		if w.pods[m.Pod] != nil {
			w.sent[m.Pod] = 0
			if w.faults {
				w.sent[m.Pod] = w.random.IntN(4)
			}
		}
	case Withdraw: // here nobody is asked for an eviction
	case GiveBack:
		delete(w.targets, m.Pod)
	case QueueFirst:
		if m.Stage != Requeued {
			w.fail("the replacement of %s goes first, though the move is %v", m.Pod, m.Stage)
		}
		for _, p := range w.queue {
			p.first = p.first || p.workload == w.targets[m.Pod].move.From
		}
	}
}

func (w *world) workload(uid string) string {
	if p := w.pods[uid]; p != nil {
		return p.workload
	}
	return ""
}

func (w *world) fail(format string, args ...any) {
	w.problems = append(w.problems, fmt.Sprintf(format, args...))
}

func (w *world) run() {
	for tick := range 1200 {
		w.now = w.now.Add(5 * time.Second)
		if tick < 400 {
			w.harm()
		}
		w.land()
		w.place()
		w.lead()
		w.look()
		for node := range worldNodes {
			if w.used(node) > worldSlots+1 {
				w.fail("node %d has %d of %d slots in use", node, w.used(node), worldSlots)
			}
		}
	}
	for uid := range w.evicted {
		if stage, ok := w.ended[uid]; !ok || stage != Done && stage != LostTarget {
			w.fail("%s was evicted, and its move ended as %v (%v)", uid, stage, ok)
		}
	}
	if len(w.targets) > 0 {
		w.fail("%d targets were never given back", len(w.targets))
	}
}

// Nothing is evicted without a reserved target, every eviction ends with its replacement in the target or counted as lost, and every target is given
// back, whatever leaders, foreign binders and nodes do.
func TestMovesWithFaults(t *testing.T) {
	ends := make(map[Stage]int)
	evicted := 0
	for seed := range uint64(1000) {
		w := newWorld(seed, true)
		w.run()
		if len(w.problems) > 0 {
			t.Fatalf("seed %d: %s", seed, w.problems[0])
		}
		evicted += len(w.evicted)
		for _, stage := range w.ended {
			ends[stage]++
		}
	}
	for _, stage := range []Stage{Done, GivenBack, LostTarget} {
		if ends[stage] == 0 {
			t.Errorf("no move ended as %v: %v", stage, ends)
		}
	}
	if evicted == 0 {
		t.Error("nothing was evicted")
	}
}

// Without faults no target is lost, and every pod is moved.
func TestMovesWithoutFaults(t *testing.T) {
	for seed := range uint64(200) {
		w := newWorld(seed, false)
		w.run()
		if len(w.problems) > 0 {
			t.Fatalf("seed %d: %s", seed, w.problems[0])
		}
		for uid, stage := range w.ended {
			if stage != Done {
				t.Fatalf("seed %d: the move of %s ended as %v: %s", seed, uid, stage, w.moves[uid].Why)
			}
		}
		if len(w.ended) != 4 {
			t.Fatalf("seed %d: %d moves ended, want 4", seed, len(w.ended))
		}
	}
}

// Advance, case by case.
func TestAdvance(t *testing.T) {
	now := time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC)
	limits := DefaultTimeouts()
	ok := Seen{Known: true, Running: true}
	with := func(change func(*Seen)) Seen {
		s := ok
		change(&s)
		return s
	}
	late := 16 * time.Minute
	for _, c := range []struct {
		name  string
		stage Stage
		seen  Seen
		after time.Duration
		want  Stage
		do    []Do
	}{
		{"it begins with the target", Rehearsed, ok, 0, Reserving, []Do{Reserve}},
		{"a pod that is gone is not moved", Rehearsed, Seen{Known: true, Gone: true}, 0, GivenBack, nil},
		{"a view that is not in step decides nothing", Reserving, Seen{Place: Reserved, Running: true}, late, Reserving, nil},
		{"a target that only waits is not enough", Reserving, with(func(s *Seen) { s.Place = Asked }), 0, Reserving, nil},
		{"a reserved target is", Reserving, with(func(s *Seen) { s.Place = Reserved }), 0, Evicting, []Do{Evict}},
		{"a lost one ends it before the eviction", Reserving, with(func(s *Seen) { s.Place = Lost }), 0, GivenBack, []Do{GiveBack}},
		{"too long", Reserving, with(func(s *Seen) { s.Place = Asked }), late, GivenBack, []Do{GiveBack}},
		{"a lost write is done again", Reserving, ok, 0, Reserving, []Do{Reserve}},
		{"a veto", Reserving, with(func(s *Seen) { s.Place, s.Vetoed = Reserved, "annotated" }), 0, GivenBack, []Do{GiveBack}},
		{"an eviction on its way is waited for", Evicting, with(func(s *Seen) { s.Place, s.Asking = Lost, true }), late, Evicting, nil},
		{"refused, and tried again", Evicting, with(func(s *Seen) { s.Place, s.Refused = Reserved, "budget" }), 0, Evicting, []Do{Evict}},
		{"refused for too long", Evicting, with(func(s *Seen) { s.Place, s.Refused = Reserved, "budget" }), late, Stayed, []Do{GiveBack}},
		{"lost while the eviction is refused", Evicting, with(func(s *Seen) { s.Place = Lost }), 0, GivenBack, []Do{GiveBack}},
		{"evicted", Evicting, Seen{Known: true, Place: Reserved, Evicted: true}, 0, Replacing, nil},
		{"evicted and replaced", Evicting, Seen{Known: true, Place: Consumed, Gone: true}, 0, Done, []Do{GiveBack}},
		{"lost after the eviction", Evicting, Seen{Known: true, Place: Lost, Gone: true}, 0, Requeued, []Do{QueueFirst}},
		{"lost while it is awaited", Replacing, Seen{Known: true, Place: Lost, Gone: true}, 0, Requeued, []Do{QueueFirst}},
		{"lost, and the replacement has another place already", Replacing, Seen{Known: true, Place: Lost, Gone: true, Served: true}, 0, LostTarget, []Do{GiveBack}},
		{"the Reservation was deleted", Replacing, Seen{Known: true, Place: Absent, Gone: true}, 0, LostTarget, []Do{GiveBack}},
		{"the replacement waits for its turn", Requeued, Seen{Known: true, Place: Lost, Gone: true}, 0, Requeued, nil},
		{"and has a place", Requeued, Seen{Known: true, Place: Lost, Gone: true, Served: true}, 0, LostTarget, []Do{GiveBack}},
		{"or waits too long", Requeued, Seen{Known: true, Place: Lost, Gone: true}, late, LostTarget, []Do{GiveBack}},
		{"the Reservation was deleted meanwhile", Requeued, Seen{Known: true, Place: Absent, Gone: true}, 0, LostTarget, []Do{GiveBack}},
		{"nobody comes", Replacing, Seen{Known: true, Place: Reserved, Gone: true}, late, GivenBack, []Do{GiveBack}},
		{"who is asked to evict is waited for", Evicting, with(func(s *Seen) { s.Place, s.Requested = Reserved, true }), 0, Evicting, nil},
		{"but not for ever", Evicting, with(func(s *Seen) { s.Place, s.Requested = Reserved, true }), late, Evicting, []Do{Withdraw}},
		{"nor when it failed", Evicting, with(func(s *Seen) { s.Place, s.Requested, s.Failed = Reserved, true, "NoFurtherResponder" }), 0, Evicting, []Do{Withdraw}},
		{"nobody is asked any more once the target is lost", Evicting, with(func(s *Seen) { s.Place, s.Requested = Lost, true }), 0, Evicting, []Do{Withdraw}},
		{"nor once it is vetoed", Evicting, with(func(s *Seen) { s.Place, s.Requested, s.Vetoed = Reserved, true, "annotated" }), 0, Evicting, []Do{Withdraw}},
		{"evicted as it was asked for", Evicting, Seen{Known: true, Place: Reserved, Requested: true, Gone: true}, 0, Replacing, nil},
		{"a leader before has asked", Reserving, with(func(s *Seen) { s.Place, s.Requested = Reserved, true }), 0, Evicting, nil},
		{"a leader before has asked, and the pod is gone", Reserving, Seen{Known: true, Place: Reserved, Requested: true, Gone: true}, 0, Replacing, nil},
		{"final is final", Done, ok, late, Done, nil},
	} {
		m, do := Advance(Move{Stage: c.stage, Since: now}, &c.seen, now.Add(c.after), &limits)
		if m.Stage != c.want || !slices.Equal(do, c.do) {
			t.Errorf("%s: %v %v, want %v %v", c.name, m.Stage, do, c.want, c.do)
		}
	}
}

// A new leader takes up a move where it is. A stage counts from when it should have begun at the latest, by the Reservation's creation.
func TestRecover(t *testing.T) {
	t.Parallel()
	limits := DefaultTimeouts()
	created := time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		seen  Seen
		after time.Duration
		want  Stage
		since time.Duration
	}{
		{Seen{Running: true}, time.Hour, Reserving, 0},
		{Seen{Gone: true}, time.Minute, Replacing, time.Minute},
		{Seen{Gone: true}, time.Hour, Replacing, limits.Reserve + limits.Evict + limits.Withdraw},
		{Seen{Evicted: true}, time.Hour, Replacing, limits.Reserve + limits.Evict + limits.Withdraw},
		{Seen{Running: true, Requested: true}, time.Minute, Evicting, time.Minute},
		{Seen{Running: true, Requested: true}, time.Hour, Evicting, limits.Reserve},
	} {
		if m := Recover(Move{Pod: "p"}, &c.seen, created, created.Add(c.after), &limits); m.Stage != c.want || !m.Since.Equal(created.Add(c.since)) || m.Pod != "p" {
			t.Errorf("%+v after %v: %+v, want %v since %v", c.seen, c.after, m, c.want, c.since)
		}
	}
}

// However often leaders change, an eviction is not asked for later than if one had gone on with it; and what one may have withdrawn just now keeps its target for a while.
func TestRecoveredMovesEndInTime(t *testing.T) {
	t.Parallel()
	limits := DefaultTimeouts()
	created := time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC)
	refused := &Seen{Known: true, Running: true, Place: Reserved, Refused: "budget"}
	now, last := created, created
	var m Move
	for m = Recover(Move{Pod: "p"}, refused, created, now, &limits); !m.Stage.Final(); now = now.Add(time.Minute) {
		if now.Sub(created) > time.Hour {
			t.Fatal("it does not end")
		}
		if now.Sub(last) == 3*time.Minute {
			m, last = Recover(Move{Pod: "p"}, refused, created, now, &limits), now
		}
		var do []Do
		if m, do = Advance(m, refused, now, &limits); slices.Contains(do, Evict) && now.Sub(created) > limits.Reserve+limits.Evict {
			t.Fatalf("the eviction is asked for %v after the Reservation was made", now.Sub(created))
		}
	}
	if m.Stage != Stayed || now.Sub(last) < limits.Withdraw {
		t.Errorf("it ends as %v %v after a leader went on with it", m.Stage, now.Sub(last))
	}
	for _, seen := range []*Seen{refused, {Known: true, Running: true, Place: Lost}, {Known: true, Running: true, Place: Asked}} {
		now := created.Add(time.Hour)
		m := Recover(Move{Pod: "p"}, seen, created, now, &limits)
		m, do := Advance(m, seen, now, &limits)
		if m.Stage.Final() || len(do) > 0 {
			t.Errorf("%+v: the target of what may have been withdrawn just now is given back at once: %v", seen, do)
		}
		if m, do = Advance(m, seen, now.Add(limits.Withdraw), &limits); !m.Stage.Final() || !slices.Equal(do, []Do{GiveBack}) {
			t.Errorf("%+v: after %v it is %v, %v", seen, limits.Withdraw, m.Stage, do)
		}
	}
}
