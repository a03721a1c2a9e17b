package relief

import (
	"cmp"
	"slices"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/internal/deadline"
	"hilbert.dev/hilbert/schedule/bind"
)

const (
	// MaxInFlight bounds the writes under way, those of events included.
	MaxInFlight = 16
	// UrgentInterval is the least time between two urgent evictions from one node.
	UrgentInterval = 10 * time.Second
	// recheckEvery is how often requests that cannot be granted yet are looked at even if nothing has changed.
	recheckEvery = 5 * time.Second
	// graceAfterEviction is how long an evicted pod may take to leave before it is evicted again.
	graceAfterEviction = time.Minute
	// rememberTurns is how long the last turn of a node without requests is remembered.
	rememberTurns = 10 * time.Minute
	// The pauses after a refusal: they double.
	pauseBase = 10 * time.Second
	pauseMax  = time.Minute
)

// Relief grants the eviction requests of nodes, under one budget for the cluster. Its methods must not be called concurrently.
//
// All its state but the tokens and the turns follows from the reports in the ledger.
type Relief struct {
	store *cluster.Store
	cfg   spec.Evictions

	started, filled time.Time
	tokens          float64
	due             time.Time // when there may be something to do though nothing changed
	serial          uint64    // of the requests that were looked at last

	requests      map[requestKey]*request
	followers     map[facts.UID]*request // members of gangs that have to follow another
	nodes         map[string]*node
	refusals      refusals
	flights       map[uint64]flight // by the number of the write
	next          uint64
	turn          uint64
	eventBudget   eventBudget
	pendingEvents []bind.Write // events to be

	counts Counts
	ready  []bind.Write
}

// flight is what a write under way is about: a request, or a node that is told of refusals; neither: an event.
type flight struct {
	request *request
	told    string
}

// requestKey identifies a request. The node is part of it because any node may name any pod.
type requestKey struct {
	node string
	uid  facts.UID
}

// request is an eviction that a node's latest report asks for, or that is in flight.
type request struct {
	facts.EvictionRequest
	node      string
	rank      int // among the requests of its node, from 0
	since     time.Time
	reported  bool
	inFlight  bool
	invalid   bool // it must not be granted: the pod is another, of another level, or on another node
	refused   bool // a disruption budget withheld it, the last time it was tried
	usedToken bool // it took a token, which comes back if the pod is not evicted
	notBefore time.Time
	failures  int
	events    map[string]bool // reasons of the events written for it
	evicted   bool            // the API server has let it go
	toll      toll            // as of the last choice
	falls     *cluster.Unit   // that goes whole once this eviction is done
}

// node is when a node's requests were granted.
type node struct {
	turn         uint64 // greater is later
	last, urgent time.Time
}

// Counts is the outcomes of requests since the process began to lead.
type Counts struct {
	Evicted, Urgent int // Urgent of the Evicted
	Withheld        int // by a disruption budget, each time
	Failed          int // other refusals, and outcomes that are unknown
	Invalid         int // requests about pods that must not be evicted: of another level, without a promise, or on another node
}

// Status counts the open requests.
type Status struct {
	Waiting, Urgent int // Urgent are not among the Waiting
	InFlight        int
}

// New returns a Relief over the ledger.
func New(store *cluster.Store, cfg spec.Evictions) *Relief {
	return &Relief{
		store: store, cfg: cfg, requests: make(map[requestKey]*request), followers: make(map[facts.UID]*request), nodes: make(map[string]*node), flights: make(map[uint64]flight), refusals: refusals{make(map[string]*toldNode)},
	}
}

// Reconfigure goes on with another budget.
func (r *Relief) Reconfigure(cfg spec.Evictions) { r.cfg = cfg }

// Counts returns the outcomes of requests so far.
func (r *Relief) Counts() Counts { return r.counts }

// Since is when the process began to lead: Counts are since then. The zero time: it has not begun.
func (r *Relief) Since() time.Time { return r.started }

// Status counts the open requests.
func (r *Relief) Status() (s Status) {
	for _, req := range r.requests {
		switch {
		case req.invalid:
		case req.inFlight:
			s.InFlight++
		case req.Urgent:
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
	serial := r.store.EvictionRequests().Serial()
	if serial == 0 && len(r.requests)+len(r.followers)+len(r.refusals.nodes) == 0 || serial == r.serial && now.Before(r.due) {
		return nil
	}
	r.serial = serial
	r.fill(now)
	r.readRequests(now)
	r.startFollowers(now)
	r.startUrgent(now)
	r.startBudgeted(now)
	r.tellRefusals(now)
	r.writeDelayedEvents(now)
	r.due = r.nextDue(now)
	return r.ready
}

// NextWake is when Ready may have more writes even if nothing changes until then.
func (r *Relief) NextWake(now time.Time) (time.Time, bool) {
	if r.store.EvictionRequests().Serial() != r.serial {
		return now, true
	}
	return r.due, len(r.requests)+len(r.followers)+len(r.refusals.nodes) > 0 || r.store.EvictionRequests().Len() > 0
}

// perMinute is how many may be evicted in a minute: at least one, unless the configuration says 0.
func (r *Relief) perMinute() float64 {
	if r.cfg.PercentPerMinute == 0 {
		return 0
	}
	return max(r.cfg.PercentPerMinute/100*float64(r.store.PodCounts().Reclaimed), 1)
}

// fill adds the tokens of the time that has passed. The bucket begins empty, so that leaders that follow one another do not each begin with a burst.
func (r *Relief) fill(now time.Time) {
	if passed := now.Sub(r.filled); passed > 0 {
		r.tokens = min(r.tokens+passed.Minutes()*r.perMinute(), float64(max(r.cfg.Burst, 1)))
		r.filled = now
	}
}

// readRequests reads the requests of all reports and drops those that were withdrawn.
func (r *Relief) readRequests(now time.Time) {
	for _, req := range r.requests {
		req.reported = false
	}
	for _, name := range r.store.EvictionRequests().Nodes() {
		for rank, said := range r.store.EvictionRequests().On(name) {
			key := requestKey{name, said.UID}
			old := r.requests[key]
			switch fit, leaving := r.check(name, &said); {
			case !fit:
				r.markInvalid(key, &said, now)
			case leaving:
			case old == nil:
				r.requests[key] = &request{EvictionRequest: said, node: name, rank: rank, since: now, reported: true}
			default:
				old.EvictionRequest, old.rank, old.reported, old.invalid = said, rank, true, false
			}
		}
	}
	for key, req := range r.requests {
		switch {
		case req.reported:
		case !req.inFlight:
			delete(r.requests, key)
		default:
			req.refused = false // withdrawn: should the node request it again, that is a new request
		}
	}
	for name, n := range r.nodes {
		if now.Sub(n.last) >= rememberTurns && len(r.store.EvictionRequests().On(name)) == 0 {
			delete(r.nodes, name)
		}
	}
}

// check reports whether a request names the pod that it means, and the node may have it evicted; leaving, that the pod is on its way out or not
// bound yet.
func (r *Relief) check(node string, req *facts.EvictionRequest) (check, leaving bool) {
	pod := r.store.Pod(req.UID)
	switch {
	case pod == nil || pod.Phase == cluster.Finished:
		return true, true
	case pod.Namespace != req.Namespace || pod.Name != req.Name || pod.Node() != node || !mayRequest(pod, req):
		return false, false
	}
	return true, pod.Phase != cluster.Bound || pod.Deleting || pod.Claimed()
}

// mayRequest reports whether a node may have one of its pods evicted for such a reason: a reclaimed one, or one that was promised something of the node.
func mayRequest(pod *cluster.Pod, req *facts.EvictionRequest) bool {
	if !req.Broken {
		return pod.Class.Reclaimed
	}
	_, promised := pod.Promise()
	return promised
}

// markInvalid counts a request that must not be granted, once for as long as the node reports it.
func (r *Relief) markInvalid(key requestKey, said *facts.EvictionRequest, now time.Time) {
	req := r.requests[key]
	if req == nil {
		req = &request{EvictionRequest: *said, node: key.node, since: now}
		r.requests[key] = req
	}
	if !req.invalid {
		r.counts.Invalid++
	}
	req.reported, req.invalid = true, true
}

// ready reports whether a request could be granted now.
func (req *request) ready(now time.Time) bool {
	return req.reported && !req.invalid && !req.inFlight && !req.notBefore.After(now)
}

// startUrgent grants urgent requests, whatever the budget: one per node, then a pause of UrgentInterval.
func (r *Relief) startUrgent(now time.Time) {
	byNode := make(map[string][]*request)
	for _, req := range r.requests {
		if req.Urgent && req.ready(now) && !now.Before(r.urgentAt(req.node)) {
			byNode[req.node] = append(byNode[req.node], req)
		}
	}
	list := make([]*request, 0, len(byNode))
	for _, ofNode := range byNode {
		if ofNode = r.cheapest(ofNode, now); len(ofNode) > 0 {
			list = append(list, ofNode[0])
		}
	}
	slices.SortFunc(list, r.byTurn)
	for _, req := range list {
		if len(r.flights) >= MaxInFlight {
			return
		}
		if n := r.start(req, now); n != nil {
			n.urgent = now
		}
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

// startBudgeted grants as many requests as the budget allows; the nodes take turns.
func (r *Relief) startBudgeted(now time.Time) {
	byNode := make(map[string][]*request)
	for _, req := range r.requests {
		if !req.Urgent && req.ready(now) {
			byNode[req.node] = append(byNode[req.node], req)
		}
	}
	heads := make([]*request, 0, len(byNode))
	for node, list := range byNode {
		if list = r.cheapest(list, now); len(list) > 0 {
			byNode[node] = list
			heads = append(heads, list[0])
		}
	}
	for r.perMinute() > 0 && len(heads) > 0 && r.tokens >= 1 && len(r.flights) < MaxInFlight {
		head := slices.MinFunc(heads, r.byTurn)
		if r.start(head, now) != nil {
			r.tokens--
			head.usedToken = true
		}
		heads = slices.DeleteFunc(heads, func(req *request) bool { return req == head })
		if list := byNode[head.node][1:]; len(list) > 0 {
			byNode[head.node] = list
			heads = append(heads, list[0])
		}
	}
}

// byTurn orders requests of several nodes: first that of the node whose last turn is longest ago, then the oldest.
func (r *Relief) byTurn(a, b *request) int {
	return cmp.Or(cmp.Compare(r.turnOf(a.node), r.turnOf(b.node)), a.since.Compare(b.since), cmp.Compare(a.node, b.node), cmp.Compare(a.rank, b.rank))
}

func (r *Relief) turnOf(name string) uint64 {
	if n := r.nodes[name]; n != nil {
		return n.turn
	}
	return 0
}

// start begins an eviction; it is the node's turn. nil: another that has just begun is in its way.
func (r *Relief) start(req *request, now time.Time) *node {
	price := r.tollOf(req, now)
	if price.held || price.lost > req.toll.lost { // others may cost less now
		return nil
	}
	req.falls = price.gang
	n := r.nodes[req.node]
	if n == nil {
		n = &node{}
		r.nodes[req.node] = n
	}
	r.turn++
	n.turn, n.last = r.turn, now
	req.inFlight = true
	r.write(bind.Write{Kind: bind.EvictPod, Pod: req.UID, Namespace: req.Namespace, Name: req.Name, Node: req.node}, req)
	return n
}

func (r *Relief) write(write bind.Write, req *request) {
	if pod := r.store.Pod(write.Pod); pod != nil && write.Kind == bind.EvictPod {
		r.store.Units().Evicting(pod)
	}
	r.send(write, flight{request: req})
}

// send hands out a write.
func (r *Relief) send(write bind.Write, about flight) {
	r.next++
	write.ID = bind.WriteID{Owner: bind.OwnerRelief, Number: r.next}
	r.flights[r.next] = about
	r.ready = append(r.ready, write)
}

// Finish applies the result of a write whose owner is OwnerRelief.
func (r *Relief) Finish(result bind.Result, now time.Time) {
	about, known := r.flights[result.ID.Number]
	if !known {
		return
	}
	delete(r.flights, result.ID.Number)
	r.due = now
	if about.told != "" {
		r.told(about.told, now)
	}
	req := about.request
	if req == nil {
		return
	}
	req.inFlight = false
	if pod := r.store.Pod(req.UID); pod != nil && result.Outcome != bind.Written {
		r.store.Units().NotEvicted(pod, result.Outcome == bind.Unknown)
	}
	back := false
	req.refused = result.Outcome == bind.Withheld || req.refused && !certain(result.Outcome)
	switch result.Outcome {
	case bind.Written:
		r.counts.Evicted++
		if req.Urgent {
			r.counts.Urgent++
		}
		req.notBefore, req.failures, req.evicted = now.Add(graceAfterEviction), 0, true
		if req.falls != nil {
			r.fall(req, now)
		}
		r.writeEvent(req, evictedReason(req), evictedMessage(req), now)
	case bind.Gone:
		req.notBefore, back = now.Add(graceAfterEviction), true
	case bind.Withheld:
		r.counts.Withheld++
		r.pause(req, now)
		back = true
		r.writeEvent(req, spec.ReasonEvictionRefusedByBudget, "node "+req.node+" wants the pod evicted ("+req.Reason+"), and a disruption budget does not let it go: "+result.Message, now)
	default: // Refused, Unknown, NotSent, Conflict
		r.counts.Failed++
		r.pause(req, now)
		back = result.Outcome != bind.Unknown
	}
	req.falls = nil
	if back && req.usedToken {
		r.tokens = min(r.tokens+1, float64(max(r.cfg.Burst, 1)))
	}
	req.usedToken = false
}

// certain reports whether an outcome says what a disruption budget lets happen.
func certain(o bind.Outcome) bool { return o == bind.Written || o == bind.Gone || o == bind.Withheld }

func (r *Relief) pause(req *request, now time.Time) {
	req.notBefore = now.Add(min(pauseBase<<min(req.failures, 8), pauseMax))
	req.failures++
}

// nextDue is when some open request may be granted.
func (r *Relief) nextDue(now time.Time) time.Time {
	var next deadline.Earliest
	next.Add(now.Add(recheckEvery), true)
	add := func(at time.Time) { next.Add(at, at.After(now)) }
	for _, req := range r.followers {
		add(req.notBefore)
	}
	for _, n := range r.refusals.nodes {
		add(n.again)
	}
	for _, req := range r.requests {
		switch {
		case !req.reported || req.inFlight || req.invalid:
		case req.notBefore.After(now):
			add(req.notBefore)
		case req.Urgent:
			add(r.urgentAt(req.node))
		case r.tokens < 1 && r.perMinute() > 0:
			add(now.Add(time.Duration((1-r.tokens)/r.perMinute()*float64(time.Minute)) + time.Millisecond))
		}
	}
	due, _ := next.Time()
	return due
}
