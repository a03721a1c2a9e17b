package bind

import (
	"cmp"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/internal/heap"
)

const (
	// MaxConditionsInFlight bounds the condition writes under way: each costs the API server two Bindings' worth.
	MaxConditionsInFlight = 4
	// maxConditionAttempts bounds the writes of one condition that fail; the next decision about the pod or unit sets it again.
	maxConditionAttempts = 3
)

// subject is what a condition is about: a pod, or a unit.
type subject struct {
	pod  facts.UID
	unit facts.UnitName
}

func (a subject) compare(b subject) int {
	return cmp.Or(cmp.Compare(a.pod, b.pod), cmp.Compare(a.unit.Namespace, b.unit.Namespace), cmp.Compare(a.unit.Name, b.unit.Name))
}

// Conditions coalesces the condition writes, PodScheduled=False of pods and PodGroupInitiallyScheduled of PodGroups, so that a backlog of pending
// pods does not flood the API server. There is at most one row per subject and the newest message wins; a message with the same reason is written
// at most once per MinInterval; a token bucket bounds all writes together, except those that say that a PodGroup is scheduled. What the bucket
// lets through next, dueRows says.
//
// Example: a pod is refused three times in a second, with "3 nodes: cpu", "2 nodes: cpu" and again "3 nodes: cpu". The first is written, the others
// wait for MinInterval, and then there is nothing to write, because the condition says so already.
//
// A row ends when its pod is settled or its unit is gone; a row that is forgotten writes nothing any more.
type Conditions struct {
	store *cluster.Store
	out   *outbox

	cfg      spec.Conditions
	rows     map[subject]*conditionRow
	due      dueRows
	met      []*conditionRow           // of units whose condition is True: once per unit, so that the bucket does not bound them
	later    *heap.Heap[*conditionRow] // held back by MinInterval, by the end of it
	flights  map[uint64]*conditionRow
	tokens   float64
	refilled time.Time
}

type conditionRow struct {
	subject
	unitUID  facts.UID           // of a unit: the PodGroup that it is about
	queue    string              // of the subject
	want     facts.UnitCondition // a pod's is never met
	written  facts.UnitCondition
	at       time.Time // when written was written
	waiting  bool      // in due or later
	position int       // in later, -1 when not there
	inFlight bool
	attempts int
	dropped  bool
	// withdraw: the next write clears the pod's nomination as well. withdrawing: the one in flight does.
	withdraw, withdrawing bool
}

func newConditions(store *cluster.Store, out *outbox, cfg spec.Conditions) Conditions {
	return Conditions{
		store: store, out: out, cfg: cfg, rows: make(map[subject]*conditionRow), flights: make(map[uint64]*conditionRow), tokens: float64(cfg.Burst),
		later: heap.New(
			func(a, b *conditionRow) bool { return cmp.Or(a.at.Compare(b.at), a.compare(b.subject)) < 0 },
			func(r *conditionRow, i int) { r.position = i }),
	}
}

// Set asks for a pod's PodScheduled condition to be written. It does nothing if the condition says so already.
func (c *Conditions) Set(pod *cluster.Pod, want facts.Condition, now time.Time) {
	c.set(&conditionRow{subject: subject{pod: pod.UID}, queue: pod.Queue().Name, written: unmet(pod.Reported)}, unmet(want), now)
}

// WithdrawNomination asks for a pod's nomination to be cleared, together with the condition that is to be written, if there is one.
func (c *Conditions) WithdrawNomination(pod *cluster.Pod, now time.Time) {
	key := subject{pod: pod.UID}
	r := c.rows[key]
	if r == nil {
		reported := unmet(pod.Reported)
		r = &conditionRow{subject: key, queue: pod.Queue().Name, written: reported, want: reported, position: -1}
		c.rows[key] = r
	}
	r.withdraw, r.attempts = true, 0
	c.schedule(r, now)
}

// withdraws reports whether the write that clears a pod's nomination is under way.
func (c *Conditions) withdraws(pod facts.UID) bool {
	r := c.rows[subject{pod: pod}]
	return r != nil && r.withdrawing
}

// SetUnit asks for the condition of a unit's PodGroup to be written. A condition that was True once stays so: nothing is written after that, and the
// answer is false.
func (c *Conditions) SetUnit(u *cluster.Unit, want facts.UnitCondition, now time.Time) bool {
	if u.Facts == nil || u.Facts.Reported.Met {
		return false
	}
	key := subject{unit: u.UnitName}
	r := c.rows[key]
	if r != nil && r.unitUID != u.Facts.UID { // its PodGroup was made anew: what was said of the other is not said of this one
		c.forget(key)
		r = nil
	}
	if r != nil && r.want.Met {
		return false
	}
	fresh := &conditionRow{subject: key, unitUID: u.Facts.UID, written: u.Facts.Reported}
	if pods := u.Pods(); len(pods) > 0 {
		fresh.queue = pods[0].Queue().Name
	}
	c.set(fresh, want, now)
	return true
}

// Withdraw drops a pod's condition that is not in flight yet: the reason is gone.
func (c *Conditions) Withdraw(pod *cluster.Pod) {
	key := subject{pod: pod.UID}
	if r := c.rows[key]; r != nil && !r.inFlight {
		c.forget(key)
	}
}

// ForgetUnit drops the condition of a unit that is gone.
func (c *Conditions) ForgetUnit(name facts.UnitName) { c.forget(subject{unit: name}) }

func unmet(c facts.Condition) facts.UnitCondition {
	return facts.UnitCondition{Reason: c.Reason, Message: c.Message}
}

// set asks for a condition. fresh is the row of its subject, should there be none yet.
func (c *Conditions) set(fresh *conditionRow, want facts.UnitCondition, now time.Time) {
	r := c.rows[fresh.subject]
	if r == nil {
		if fresh.written == want {
			return
		}
		r = fresh
		r.position = -1
		c.rows[r.subject] = r
	}
	r.want, r.attempts = want, 0
	c.schedule(r, now)
}

// schedule queues a row that differs from what is written: now, or after MinInterval.
func (c *Conditions) schedule(r *conditionRow, now time.Time) {
	if r.inFlight || r.want == r.written && !r.withdraw {
		return
	}
	held := !r.withdraw && r.want.Reason == r.written.Reason && !r.at.IsZero() && now.Before(r.at.Add(c.cfg.MinInterval.D()))
	switch {
	case r.waiting && (held || r.position < 0):
		return
	case r.waiting: // it was held back, and its reason is another now
		c.later.Remove(r.position)
	}
	r.waiting = true
	switch {
	case held:
		c.later.Push(r)
	case r.want.Met:
		c.met = append(c.met, r)
	default:
		c.due.push(r)
	}
}

// refill adds the tokens of the time that has passed.
func (c *Conditions) refill(now time.Time) {
	if !c.refilled.IsZero() && now.After(c.refilled) {
		earned := float64(now.Sub(c.refilled).Seconds() * c.cfg.PerSecond) // the conversion keeps it from fusing with the sum
		c.tokens = min(c.tokens+earned, float64(c.cfg.Burst))
	}
	c.refilled = now
}

// ready hands out the writes that can be started now.
func (c *Conditions) ready(now time.Time) {
	if c.due.Len() == 0 && len(c.met) == 0 && c.later.Len() == 0 {
		return
	}
	for len(c.met) > 0 && len(c.flights) < MaxConditionsInFlight {
		r := c.met[0]
		c.met = c.met[1:]
		c.start(r, now)
	}
	c.refill(now)
	for c.later.Len() > 0 && !now.Before(c.later.First().at.Add(c.cfg.MinInterval.D())) {
		c.due.push(c.later.Pop())
	}
	for c.due.Len() > 0 && c.tokens >= 1 && len(c.flights) < MaxConditionsInFlight {
		if c.start(c.due.pop(), now) {
			c.tokens--
		}
	}
}

// start hands out a row's write, if there is still something to write.
func (c *Conditions) start(r *conditionRow, now time.Time) (started bool) {
	r.waiting = false
	write, ok := r.write(c.store)
	if !ok || r.dropped || r.want == r.written && !r.withdraw {
		return false
	}
	r.inFlight = true
	c.flights[c.out.add(OwnerCondition, &write)] = r
	r.written, r.at = r.want, now
	r.withdraw, r.withdrawing = false, r.withdraw
	return true
}

// write makes the row's Write; ok is false when its subject has no such condition any more.
func (r *conditionRow) write(store *cluster.Store) (w Write, ok bool) {
	if !r.unit.IsZero() {
		u := store.Units().Get(r.unit)
		if u == nil || u.Facts == nil || u.Facts.UID != r.unitUID {
			return w, false
		}
		return Write{
			Kind: WriteUnitCondition, Namespace: r.unit.Namespace, Name: r.unit.Name, Unit: r.unit, UnitUID: r.unitUID, UnitCondition: r.want,
		}, true
	}
	pod := store.Pod(r.pod)
	if pod == nil || pod.Phase != cluster.Pending {
		return w, false
	}
	condition := facts.Condition{Reason: r.want.Reason, Message: r.want.Message}
	return Write{Kind: WriteCondition, Pod: r.pod, Namespace: pod.Namespace, Name: pod.Name, Condition: condition, Withdraw: r.withdraw}, true
}

// finish applies the answer to a write.
func (c *Conditions) finish(result *Result, now time.Time) {
	r := c.flights[result.ID.Number]
	if r == nil {
		return
	}
	delete(c.flights, result.ID.Number)
	r.inFlight = false
	if r.dropped {
		return
	}
	if result.Outcome != Written && result.Outcome != Gone {
		r.written, r.withdraw = facts.UnitCondition{}, r.withdrawing
		r.withdrawing = false
		r.attempts++
		if r.attempts >= maxConditionAttempts {
			return
		}
	}
	r.withdrawing = false
	c.schedule(r, now)
}

// reconfigure goes on with other settings. A full bucket stays full.
func (c *Conditions) reconfigure(cfg spec.Conditions) {
	c.tokens = max(c.tokens+float64(cfg.Burst-c.cfg.Burst), 0)
	c.cfg = cfg
}

// forget ends the row of a subject.
func (c *Conditions) forget(key subject) {
	if r := c.rows[key]; r != nil {
		r.dropped = true
		delete(c.rows, key)
		if r.position >= 0 {
			c.later.Remove(r.position)
		} else if r.waiting {
			c.due.drop()
		}
	}
}

func (c *Conditions) nextWake(now time.Time) (time.Time, bool) {
	switch {
	case len(c.met) > 0 && len(c.flights) < MaxConditionsInFlight:
		return now, true
	case c.due.Len() > 0 && len(c.flights) < MaxConditionsInFlight:
		missing := max(1-c.tokens, 0)
		return now.Add(time.Duration(missing / c.cfg.PerSecond * float64(time.Second))), true
	case c.later.Len() > 0:
		return c.later.First().at.Add(c.cfg.MinInterval.D()), true
	}
	return time.Time{}, false
}
