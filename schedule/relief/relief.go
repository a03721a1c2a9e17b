package relief

import (
	"cmp"
	"slices"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/schedule/bind"
)

const (
	// MaxInFlight bounds the writes under way, those of events included.
	MaxInFlight = 16
	// UrgentInterval is the least time between two urgent evictions from one node.
	UrgentInterval = 10 * time.Second
	// lookAgain is how often wishes that cannot be fulfilled yet are looked at though nothing happened.
	lookAgain = 5 * time.Second
	// lingers is how long a pod whose eviction was answered well may be there before it is tried again.
	lingers = time.Minute
	// forgets is how long it is remembered when a node that wishes nothing had its last turn.
	forgets = 10 * time.Minute
	// The pauses after a refusal: they double.
	pauseBase = 10 * time.Second
	pauseMax  = time.Minute
)

// Relief knows the wishes that stand and what has been done about them. Its methods must not run beside one another.
type Relief struct {
	store *cluster.Store
	cfg   spec.Evictions

	started, filled time.Time
	tokens          float64
	due             time.Time // when there may be something to do though nothing changed
	serial          uint64    // of the wishes that were looked at last

	wishes  map[wishKey]*wish
	nodes   map[string]*node
	flights map[uint64]*wish // by the number of the write; nil: an event
	next    uint64
	turn    uint64
	notes   notes
	pending []bind.Write // events to be

	counts Counts
	ready  []bind.Write
}

// wishKey tells wishes apart: any node may name any pod.
type wishKey struct {
	node string
	uid  cluster.UID
}

// wish is one that stands, or whose eviction is under way.
type wish struct {
	cluster.Wish
	node     string
	rank     int // among its node's, from 0
	since    time.Time
	stands   bool
	inFlight bool
	unfit    bool // it must not be fulfilled
	spent    bool // its token, should it come back
	paused   time.Time
	failures int
	told     map[string]bool // reasons of events
}

// node is whose wishes were fulfilled when.
type node struct {
	turn         uint64 // the later the greater
	last, urgent time.Time
}

// Counts is what has come of wishes since the process began to lead.
type Counts struct {
	Evicted, Urgent int // Urgent of the Evicted
	Withheld        int // by a disruption budget, each time
	Failed          int // other refusals, and outcomes that are unknown
	Unfit           int // wishes about pods that must not be evicted: of another level, or on another node
}

// Standing is how the wishes stand.
type Standing struct {
	Waiting, Urgent int // Urgent are not among the Waiting
	InFlight        int
}

// New returns a Relief over the ledger.
func New(store *cluster.Store, cfg spec.Evictions) *Relief {
	return &Relief{
		store: store, cfg: cfg, wishes: make(map[wishKey]*wish), nodes: make(map[string]*node), flights: make(map[uint64]*wish),
	}
}

// Counts returns what has come of wishes.
func (r *Relief) Counts() Counts { return r.counts }

// Standing returns how the wishes stand.
func (r *Relief) Standing() (s Standing) {
	for _, w := range r.wishes {
		switch {
		case w.unfit:
		case w.inFlight:
			s.InFlight++
		case w.Urgent:
			s.Urgent++
		default:
			s.Waiting++
		}
	}
	return s
}

// Ready returns the writes to start now. The slice is valid until the next call.
func (r *Relief) Ready(now time.Time) []bind.Write {
	r.ready = r.ready[:0]
	if r.started.IsZero() {
		r.started, r.filled = now, now
	}
	serial := r.store.WishSerial()
	if serial == 0 && len(r.wishes) == 0 || serial == r.serial && now.Before(r.due) {
		return nil
	}
	r.serial = serial
	r.fill(now)
	r.look(now)
	r.startUrgent(now)
	r.startFair(now)
	r.tellDelayed(now)
	r.due = r.nextDue(now)
	return r.ready
}

// NextWake is when Ready may have more to give though nothing happened meanwhile.
func (r *Relief) NextWake(now time.Time) (time.Time, bool) {
	if r.store.WishSerial() != r.serial {
		return now, true
	}
	return r.due, len(r.wishes) > 0 || r.store.WishingNodes() > 0
}

// perMinute is how many may be evicted in a minute.
func (r *Relief) perMinute() float64 {
	return max(r.cfg.PercentPerMinute/100*float64(r.store.Reclaimed()), 1)
}

// fill adds the tokens of the time that has passed. The bucket begins empty, so that leaders that follow one another do not each begin with a burst.
func (r *Relief) fill(now time.Time) {
	if passed := now.Sub(r.filled); passed > 0 {
		r.tokens = min(r.tokens+passed.Minutes()*r.perMinute(), float64(max(r.cfg.Burst, 1)))
		r.filled = now
	}
}

// look takes in the wishes that stand and forgets those that do not any more.
func (r *Relief) look(now time.Time) {
	for _, w := range r.wishes {
		w.stands = false
	}
	for _, name := range r.store.Wishing() {
		for rank, said := range r.store.Wishes(name) {
			key := wishKey{name, said.UID}
			old := r.wishes[key]
			switch fit, leaving := r.fit(name, &said); {
			case !fit:
				r.refuse(key, &said, now)
			case leaving:
			case old == nil:
				r.wishes[key] = &wish{Wish: said, node: name, rank: rank, since: now, stands: true}
			default:
				old.Wish, old.rank, old.stands, old.unfit = said, rank, true, false
			}
		}
	}
	for key, w := range r.wishes {
		if !w.stands && !w.inFlight {
			delete(r.wishes, key)
		}
	}
	for name, n := range r.nodes {
		if now.Sub(n.last) >= forgets && len(r.store.Wishes(name)) == 0 {
			delete(r.nodes, name)
		}
	}
}

// fit reports whether a pod is the one that is meant, and may be evicted at a node's wish; leaving, that it goes already or is not there yet.
func (r *Relief) fit(node string, w *cluster.Wish) (fit, leaving bool) {
	pod := r.store.Pod(w.UID)
	switch {
	case pod == nil || pod.Phase == cluster.Finished:
		return true, true
	case pod.Namespace != w.Namespace || pod.Name != w.Name || !pod.Class.Reclaimed || pod.Node() != node:
		return false, false
	}
	return true, pod.Phase != cluster.Bound || pod.Deleting || pod.Claimed()
}

// refuse counts a wish that must not be fulfilled, once for as long as it stands.
func (r *Relief) refuse(key wishKey, said *cluster.Wish, now time.Time) {
	w := r.wishes[key]
	if w == nil {
		w = &wish{Wish: *said, node: key.node, since: now}
		r.wishes[key] = w
	}
	if !w.unfit {
		r.counts.Unfit++
	}
	w.stands, w.unfit = true, true
}

// open reports whether a wish could be fulfilled now.
func (w *wish) open(now time.Time) bool {
	return w.stands && !w.unfit && !w.inFlight && !w.paused.After(now)
}

// startUrgent evicts whom nodes want gone at all costs: one for each node, then a pause.
func (r *Relief) startUrgent(now time.Time) {
	first := make(map[string]*wish)
	for _, w := range r.wishes {
		if !w.Urgent || !w.open(now) || now.Before(r.urgentAt(w.node)) {
			continue
		}
		if best := first[w.node]; best == nil || w.before(best) {
			first[w.node] = w
		}
	}
	list := make([]*wish, 0, len(first))
	for _, w := range first {
		list = append(list, w)
	}
	slices.SortFunc(list, r.fairly)
	for _, w := range list {
		if len(r.flights) >= MaxInFlight {
			return
		}
		r.start(w, now).urgent = now
	}
}

// urgentAt is when the node may have its next urgent eviction.
func (r *Relief) urgentAt(name string) time.Time {
	last := r.started
	if n := r.nodes[name]; n != nil && n.urgent.After(last) {
		last = n.urgent
	}
	return last.Add(UrgentInterval)
}

// startFair evicts as many as the budget allows; the nodes take turns.
func (r *Relief) startFair(now time.Time) {
	byNode := make(map[string][]*wish)
	for _, w := range r.wishes {
		if !w.Urgent && w.open(now) {
			byNode[w.node] = append(byNode[w.node], w)
		}
	}
	heads := make([]*wish, 0, len(byNode))
	for _, list := range byNode {
		slices.SortFunc(list, func(a, b *wish) int { return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.UID, b.UID)) })
		heads = append(heads, list[0])
	}
	for len(heads) > 0 && r.tokens >= 1 && len(r.flights) < MaxInFlight {
		head := slices.MinFunc(heads, r.fairly)
		r.tokens--
		head.spent = true
		r.start(head, now)
		heads = slices.DeleteFunc(heads, func(w *wish) bool { return w == head })
		if list := byNode[head.node][1:]; len(list) > 0 {
			byNode[head.node] = list
			heads = append(heads, list[0])
		}
	}
}

// before orders the wishes of one node.
func (w *wish) before(other *wish) bool {
	return cmp.Or(cmp.Compare(w.rank, other.rank), cmp.Compare(w.UID, other.UID)) < 0
}

// fairly orders wishes of several nodes: first the node whose last turn is longest ago, then the oldest wish.
func (r *Relief) fairly(a, b *wish) int {
	return cmp.Or(cmp.Compare(r.turnOf(a.node), r.turnOf(b.node)), a.since.Compare(b.since), cmp.Compare(a.node, b.node), cmp.Compare(a.rank, b.rank))
}

func (r *Relief) turnOf(name string) uint64 {
	if n := r.nodes[name]; n != nil {
		return n.turn
	}
	return 0
}

// start begins an eviction; it is the node's turn.
func (r *Relief) start(w *wish, now time.Time) *node {
	n := r.nodes[w.node]
	if n == nil {
		n = &node{}
		r.nodes[w.node] = n
	}
	r.turn++
	n.turn, n.last = r.turn, now
	w.inFlight = true
	r.write(bind.Write{Kind: bind.EvictPod, Pod: w.UID, Namespace: w.Namespace, Name: w.Name, Node: w.node}, w)
	return n
}

func (r *Relief) write(write bind.Write, w *wish) {
	r.next++
	write.ID = bind.WriteID{Owner: bind.OwnerRelief, Number: r.next}
	r.flights[r.next] = w
	r.ready = append(r.ready, write)
}

// Finish applies the result of a write whose owner is OwnerRelief.
func (r *Relief) Finish(result bind.Result, now time.Time) {
	w, known := r.flights[result.ID.Number]
	if !known {
		return
	}
	delete(r.flights, result.ID.Number)
	r.due = now
	if w == nil {
		return
	}
	w.inFlight = false
	back := false
	switch result.Outcome {
	case bind.Written:
		r.counts.Evicted++
		if w.Urgent {
			r.counts.Urgent++
		}
		w.paused, w.failures = now.Add(lingers), 0
		r.tell(w, spec.ReasonEvictedForPressure, evictedText(w), now)
	case bind.Gone:
		w.paused, back = now.Add(lingers), true
	case bind.Withheld:
		r.counts.Withheld++
		r.pause(w, now)
		back = true
		r.tell(w, spec.ReasonEvictionRefusedByBudget, "node "+w.node+" wants the pod evicted ("+w.Reason+"), and a disruption budget does not let it go: "+result.Message, now)
	default: // Refused, Unknown, NotSent, Conflict
		r.counts.Failed++
		r.pause(w, now)
		back = result.Outcome != bind.Unknown
	}
	if back && w.spent {
		r.tokens = min(r.tokens+1, float64(max(r.cfg.Burst, 1)))
	}
	w.spent = false
}

func (r *Relief) pause(w *wish, now time.Time) {
	w.paused = now.Add(min(pauseBase<<min(w.failures, 8), pauseMax))
	w.failures++
}

// nextDue is when something can be done about a wish that stands.
func (r *Relief) nextDue(now time.Time) time.Time {
	due := now.Add(lookAgain)
	earlier := func(at time.Time) {
		if at.After(now) && at.Before(due) {
			due = at
		}
	}
	for _, w := range r.wishes {
		switch {
		case !w.stands || w.inFlight || w.unfit:
		case w.paused.After(now):
			earlier(w.paused)
		case w.Urgent:
			earlier(r.urgentAt(w.node))
		case r.tokens < 1:
			earlier(now.Add(time.Duration((1-r.tokens)/r.perMinute()*float64(time.Minute)) + time.Millisecond))
		}
	}
	return due
}
