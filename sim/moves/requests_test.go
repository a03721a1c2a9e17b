package moves

import (
	"maps"
	"slices"
	"time"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/control/reschedule"
)

// responderLag is for how long whoever acts on EvictionRequests may not know yet that one is there no more.
const responderLag = 20 * time.Second

// request is an EvictionRequest, and what whoever may act on it does.
type request struct {
	foreign   bool  // it is not ours, but has our name
	acts      int64 // when a responder has the pod evicted; 0: never
	fails     int64 // when it is said that nobody will; 0: never
	failed    bool
	withdrawn int64 // when it was deleted; 0: it is there
}

// useRequests has evictions asked for by EvictionRequests.
func (r *run) useRequests() {
	r.requests = make(map[facts.UID]*request)
	r.limits.Evict = 3 * time.Minute
}

// newRequest is an EvictionRequest whose responder answers soon, refuses, hangs, answers about when nobody waits for it any more, or dies: then the next one comes, or nobody.
func (w *world) newRequest() *request {
	soon := w.now + w.random.Int64N(int64(30*time.Second))
	switch w.random.IntN(6) {
	case 0:
		return &request{fails: soon}
	case 1:
		return &request{}
	case 2:
		return &request{acts: w.now + int64(170*time.Second) + w.random.Int64N(int64(40*time.Second))}
	case 3:
		return &request{acts: soon + int64(time.Minute)}
	case 4:
		return &request{fails: soon + int64(time.Minute)}
	}
	return &request{acts: soon}
}

// ask creates an EvictionRequest for the pod of a move, and judges that. One that is there is as good.
func (r *run) ask(uid facts.UID, p *object) {
	if t := r.targets[uid]; !t.reserved() {
		r.broken("the eviction of %s is asked for, and its target is not reserved: %+v", p.UID, t)
	}
	if p.Unit != "" {
		r.broken("the eviction of %s is asked for, and would tear the gang %s", p.UID, p.Unit)
	}
	if q := r.requests[p.UID]; q == nil || q.withdrawn != 0 {
		r.requests[p.UID] = r.newRequest()
	}
}

// withdraw deletes an EvictionRequest.
func (w *world) withdraw(pod facts.UID) {
	if q := w.requests[pod]; q != nil && q.withdrawn == 0 {
		q.withdrawn = w.now
	}
}

// seeRequest is what the controller sees of it.
func (w *world) seeRequest(seen *reschedule.Seen, pod facts.UID) {
	switch q := w.requests[pod]; {
	case q == nil || q.withdrawn != 0:
	case q.foreign:
		seen.Vetoed = "there is an EvictionRequest of somebody else"
	default:
		if seen.Requested = true; q.failed {
			seen.Failed = "NoFurtherResponder"
		}
	}
}

// respond lets responders act, and the API server forget requests whose pods are gone.
func (r *run) respond() {
	for _, uid := range slices.Sorted(maps.Keys(r.requests)) {
		q, p := r.requests[uid], r.pods[uid]
		knows := q.withdrawn == 0 || r.now-q.withdrawn <= int64(responderLag)
		switch {
		case p == nil && r.random.IntN(3) > 0, q.withdrawn != 0 && !knows:
			delete(r.requests, uid)
		case p == nil || p.Deleting || q.foreign:
		case q.acts != 0 && q.acts <= r.now && knows:
			r.answer(uid, q, p)
		case q.fails != 0 && q.fails <= r.now:
			q.failed = true
		}
	}
	if r.requests != nil && r.strikes(200) { // somebody else takes the name
		for _, uid := range slices.Sorted(maps.Keys(r.pods)) {
			if r.requests[uid] == nil && r.random.IntN(12) == 0 {
				r.requests[uid] = &request{foreign: true}
			}
		}
	}
}

// answer evicts a pod as it was asked for, and judges that: the target is reserved, or was lost after the request was made, and is kept until nobody may act on it any more.
func (r *run) answer(uid facts.UID, q *request, p *object) {
	t := r.targets[facts.UID(moveLabel+string(uid))]
	lost := t != nil && len(t.Places) == 1 && t.Places[0].State == facts.PlaceLost
	if !t.reserved() && !lost {
		r.broken("%s is evicted as it was asked for, and its target is given back already: %+v", uid, t)
	}
	if lost || q.withdrawn != 0 {
		r.late++
	}
	r.disturb(p)
}

// requested is how many EvictionRequests of ours are there.
func (w *world) requested() (n int) {
	for _, q := range w.requests {
		if !q.foreign && q.withdrawn == 0 {
			n++
		}
	}
	return n
}
