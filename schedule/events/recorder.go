package events

import (
	"maps"
	"slices"
	"time"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/bind"
)

const (
	// MaxInFlight bounds the writes under way.
	MaxInFlight = 8
	// eventsPerSecond and eventsBurst bound the writes for all nodes.
	eventsPerSecond = 20
	eventsBurst     = 100
	// nodeBurst and nodeRefill bound those for one node: one more after each nodeRefill.
	nodeBurst  = 10
	nodeRefill = time.Minute
	// countInterval is the least time between two writes of one event.
	countInterval = 5 * time.Minute
	// recheckEvery is how often is looked at what cannot be written yet.
	recheckEvery = 10 * time.Second
)

// Recorder writes the events that nodes report. Its methods must not be called concurrently.
type Recorder struct {
	store   *cluster.Store
	nodes   map[string]*node
	waiting []string // nodes that have something to tell, the next one first
	tokens  bucket
	looked  time.Time
	flights map[uint64]flight
	next    uint64
	ready   []bind.Write
}

// node is what was written of a node's events.
type node struct {
	told    map[eventKey]*told
	tokens  bucket
	waiting bool
}

// eventKey is an event of one node, whatever its count.
type eventKey struct {
	uid    facts.UID
	reason string
	first  int64
}

// told is what was written of one event.
type told struct {
	count    int32 // as the last write said
	created  bool
	inFlight bool
	at       time.Time // of the last write
}

// flight is what a write under way is about.
type flight struct {
	node  string
	key   eventKey
	known bool
	count int32
}

// bucket is a token bucket; it begins full.
type bucket struct {
	tokens float64
	filled time.Time
}

// fill adds the tokens of the time that has passed, and reports whether there is one.
func (b *bucket) fill(now time.Time, perSecond, most float64) bool {
	switch passed := now.Sub(b.filled); {
	case b.filled.IsZero():
		b.tokens, b.filled = most, now
	case passed > 0:
		b.tokens, b.filled = min(b.tokens+passed.Seconds()*perSecond, most), now
	}
	return b.tokens >= 1
}

// New returns a Recorder over the ledger.
func New(store *cluster.Store) *Recorder {
	r := &Recorder{store: store, nodes: make(map[string]*node), flights: make(map[uint64]flight)}
	for _, name := range store.NodeEvents().Nodes() {
		r.forget(name)
		r.wait(name)
	}
	return r
}

// Waiting is how many nodes may have something to tell.
func (r *Recorder) Waiting() int { return len(r.waiting) }

// Ready returns the writes to start now. The slice is valid until the next call.
func (r *Recorder) Ready(now time.Time) []bind.Write {
	r.ready = r.ready[:0]
	for _, name := range r.store.NodeEvents().Changed() {
		r.forget(name)
		r.wait(name)
	}
	if now.Sub(r.looked) >= recheckEvery {
		r.looked = now
		for _, name := range slices.Sorted(maps.Keys(r.nodes)) { // behind those that wait already
			r.wait(name)
		}
	}
	for len(r.waiting) > 0 && len(r.flights) < MaxInFlight && r.tokens.fill(now, eventsPerSecond, eventsBurst) {
		name := r.waiting[0]
		r.waiting = r.waiting[1:]
		if n := r.nodes[name]; n != nil && r.tell(name, n, now) {
			r.waiting = append(r.waiting, name)
		} else if n != nil {
			n.waiting = false
		}
	}
	return r.ready
}

// NextWake is when Ready may have more writes even if nothing changes until then.
func (r *Recorder) NextWake(now time.Time) (time.Time, bool) {
	switch {
	case r.store.NodeEvents().AnyChanged():
		return now, true
	case len(r.waiting) > 0 && len(r.flights) < MaxInFlight:
		return now.Add(time.Second / eventsPerSecond), true
	}
	return r.looked.Add(recheckEvery), len(r.nodes) > 0
}

// forget drops what a node does not report any more.
func (r *Recorder) forget(name string) {
	said, n := r.store.NodeEvents().On(name), r.nodes[name]
	if len(said) == 0 {
		delete(r.nodes, name)
		return
	}
	if n == nil {
		r.nodes[name] = &node{told: make(map[eventKey]*told)}
		return
	}
	for key := range n.told {
		if !slices.ContainsFunc(said, func(e facts.NodeEvent) bool { return keyOf(&e) == key }) {
			delete(n.told, key)
		}
	}
}

func keyOf(e *facts.NodeEvent) eventKey { return eventKey{e.UID, e.Reason, e.First} }

// wait gives a node that may have something to tell its turn.
func (r *Recorder) wait(name string) {
	if n := r.nodes[name]; n != nil && !n.waiting {
		n.waiting = true
		r.waiting = append(r.waiting, name)
	}
}

// tell starts one write of a node, if one is due and the node's budget allows it.
func (r *Recorder) tell(name string, n *node, now time.Time) bool {
	if !n.tokens.fill(now, 1/nodeRefill.Seconds(), nodeBurst) {
		return false
	}
	said := r.store.NodeEvents().On(name)
	for i := range said {
		e := &said[i]
		key := keyOf(e)
		was := n.told[key]
		if was == nil {
			was = &told{}
		}
		due := !was.at.IsZero() && now.Sub(was.at) < countInterval
		if was.inFlight || was.created && was.count >= e.Count || due || !r.may(name, e) {
			continue
		}
		n.told[key] = was
		was.inFlight, was.at = true, now
		n.tokens.tokens--
		r.tokens.tokens--
		r.next++
		r.flights[r.next] = flight{name, key, was.created, e.Count}
		r.ready = append(r.ready, bind.Write{
			ID: bind.WriteID{Owner: bind.OwnerEvents, Number: r.next}, Kind: bind.WriteNodeEvent, Pod: e.UID, Namespace: e.Namespace, Name: e.Name, Node: name,
			Condition: facts.Condition{Reason: e.Reason, Message: e.Message}, Series: bind.Series{Count: e.Count, First: e.First, Last: e.Last}, Known: was.created,
		})
		return true
	}
	return false
}

// may reports whether a node may speak of the pod: it is on the node.
func (r *Recorder) may(name string, e *facts.NodeEvent) bool {
	if e.UID == "" {
		return true
	}
	pod := r.store.Pod(e.UID)
	return pod != nil && pod.Phase != cluster.Finished && pod.Node() == name && pod.Namespace == e.Namespace && pod.Name == e.Name
}

// Finish applies the result of a write whose owner is OwnerEvents.
func (r *Recorder) Finish(result bind.Result) {
	about, known := r.flights[result.ID.Number]
	if !known {
		return
	}
	delete(r.flights, result.ID.Number)
	n := r.nodes[about.node]
	if n == nil || n.told[about.key] == nil {
		return
	}
	r.wait(about.node)
	was := n.told[about.key]
	was.inFlight = false
	switch result.Outcome {
	case bind.Written:
		was.created, was.count = true, about.count
	case bind.Unknown, bind.NotSent:
		was.at = time.Time{} // again, when the budget allows
	default:
		// Of a new event: another leader has written it, or nobody may. Of one that was written: it is forgotten by now, and is created anew.
		was.created, was.count = !about.known, min(about.count, 1)
		if was.created {
			was.at = time.Time{} // how often it was can be told at once
		}
	}
}
