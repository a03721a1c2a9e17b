package moves

import (
	"slices"
	"time"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/control/reschedule"
)

// remembered is what leaders write down of who was moved, and what really was: that no leader is asked for.
type remembered struct {
	record []byte // the ConfigMap
	// ending are moves of the controller that leads, whose Reservations are kept until the record is written.
	ending []reschedule.Carried
	// evicted are workloads of which a pod was evicted for a move and is not replaced yet, again the pods that replaced one.
	evicted map[string]bool
	again   map[facts.UID]bool
	// began is when the first controller did, spent how many pods all of them have evicted by moves that they have begun themselves.
	began int64
	spent int
	// leaders read the record, unread could not make sense of it.
	leaders, damaged int
}

func newRemembered() remembered {
	return remembered{evicted: make(map[string]bool), again: make(map[facts.UID]bool)}
}

// recall has a new leader read who was moved, or find what makes no sense.
func (r *run) recall() *reschedule.History {
	r.memory.ending = nil
	r.memory.leaders++
	h, err := reschedule.ReadHistory(r.memory.record)
	if err != nil || r.strikes(10) {
		h = reschedule.UnknownHistory(r.time())
		r.memory.damaged++
		r.write(h)
	}
	return h
}

func (r *run) write(h *reschedule.History) {
	var err error
	if r.memory.record, err = h.Record(); err != nil {
		r.broken("%v", err)
	}
}

// finish writes down who was moved, and gives targets back once that is certain.
func (r *run) finish() {
	if len(r.memory.ending) == 0 || r.strikes(4) { // it is lost
		return
	}
	r.write(r.carrier.History())
	if r.strikes(8) { // its answer is
		return
	}
	for i := range r.memory.ending {
		r.do(&r.memory.ending[i], reschedule.GiveBack)
	}
	r.memory.ending = nil
}

// moved judges an eviction for a move to a better place: over all leaders no pod is moved that replaced one which was moved within a day, and no more are than one budget allows.
func (r *run) moved(p *object, begun bool) {
	if r.memory.again[p.UID] {
		r.broken("%s is moved, and replaced a pod that was moved; %d leaders, of which %d found a damaged record", p.UID, r.memory.leaders, r.memory.damaged)
	}
	r.memory.evicted[p.Controller.Name] = true
	if !begun {
		return
	}
	r.memory.spent++
	if most := burst + int(perHour*time.Duration(r.now-r.memory.began)/time.Hour); r.memory.spent > most {
		r.broken("%d pods were evicted by %d leaders, and one budget allows %d", r.memory.spent, r.memory.leaders, most)
	}
}

// replaces notes that the pod that was created last replaces one that was moved, if it does.
func (w *world) replaces(workload string, uid facts.UID) {
	if w.memory.evicted[workload] {
		delete(w.memory.evicted, workload)
		w.memory.again[uid] = true
	}
}

// replacement is the name of the pod for which a target was.
func (t *target) replacement() string {
	i := slices.IndexFunc(t.Places, func(p facts.Place) bool { return p.State == facts.PlaceConsumed || p.State == facts.PlaceLost })
	if i < 0 {
		return ""
	}
	return t.Places[i].Pod
}
