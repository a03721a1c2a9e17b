package inspect

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/facts"
)

// ReservationAnswer says how a Reservation stands: where its places are, who has them, who may have them, and why places wait. It depends on the Dump and on
// nothing else.
type ReservationAnswer struct {
	Revision  changes.Revision `json:"revision"`
	Namespace string           `json:"namespace"`
	Name      string           `json:"name"`
	UID       facts.UID        `json:"uid"`
	Created   time.Time        `json:"created"`
	// Expires is when its TTL is over; Expired: it is.
	Expires  time.Time `json:"expires,omitzero"`
	Expired  bool      `json:"expired,omitempty"`
	Priority int32     `json:"priority"`
	// Queue is the path of the queue that the places are charged to.
	Queue  string             `json:"queue"`
	Places []ReservationPlace `json:"places"`
	// Settled: the API server has all of it.
	Settled bool `json:"settled"`
	// Waiting are the owners that wait for a place, by name, at most MaxOwners of them.
	Waiting     []string `json:"waiting,omitempty"`
	MoreWaiting int      `json:"moreWaiting,omitempty"`
	// Why places wait, as the status says.
	Why string `json:"why,omitempty"`
	// First says of the first place that waits what could be said of a pod.
	First *Answer `json:"first,omitempty"`
}

// ReservationPlace is a place of a Reservation.
type ReservationPlace struct {
	Index int    `json:"index"`
	State string `json:"state"` // Waiting, Reserved, Consumed or Lost
	Node  string `json:"node,omitempty"`
	GPUs  string `json:"gpus,omitempty"`
	// Pod has consumed it; while it is Reserved the pod is on its way there.
	Pod     string `json:"pod,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Settled: the API server has it so.
	Settled bool `json:"settled"`
}

// MaxOwners is how many owners that wait a ReservationAnswer names.
const MaxOwners = 100

// NoReservation is the error about a Reservation that the ledger does not have.
type NoReservation struct{ Namespace, Name, SchedulerName string }

func (e *NoReservation) Error() string {
	return fmt.Sprintf("the scheduler knows no Reservation %s/%s; its template must name the scheduler %s", e.Namespace, e.Name, e.SchedulerName)
}

// ExplainReservation answers for the Reservation of that name. It makes a ledger of the dump, which costs about a second for 200,000 pods.
func (d *Dump) ExplainReservation(namespace, name string) (*ReservationAnswer, error) {
	d.Sort()
	at := slices.IndexFunc(d.Ledger.Placeholders, func(r cluster.PlaceholdersRecord) bool { return r.Facts.Namespace == namespace && r.Facts.Name == name })
	if at < 0 {
		return nil, &NoReservation{namespace, name, d.SchedulerName}
	}
	r := &d.Ledger.Placeholders[at]
	store, err := cluster.Load(d.Ledger)
	if err != nil {
		return nil, fmt.Errorf("load the ledger: %w", err)
	}
	view, _ := store.Placeholders().View(namespace, name)
	a := &ReservationAnswer{
		Revision: d.Ledger.Revision, Namespace: namespace, Name: name, UID: r.Facts.UID, Created: time.Unix(0, r.Facts.Created).UTC(), Expired: r.Expired,
		Priority: r.Facts.Template.Priority, Queue: store.Quota().QueueOf(namespace).Path(), Settled: view.Settled, Why: view.Why.Message,
	}
	if r.Facts.Expires != 0 {
		a.Expires = time.Unix(0, r.Facts.Expires).UTC()
	}
	first := facts.UID("")
	for i := range r.Places {
		p := &r.Places[i]
		place := ReservationPlace{
			Index: i, State: p.State.String(), Node: p.Node, Pod: p.Pod, Reason: p.Reason, Message: p.Message, Settled: view.Places[i].Settled, GPUs: p.Grant.String(),
		}
		if taker := store.Pod(p.Taken); taker != nil {
			place.Pod = taker.Name
		}
		if uid := facts.PlaceholderUID(r.Facts.UID, i); first == "" && p.State == facts.PlaceWaiting && store.Pod(uid) != nil {
			first = uid
		}
		a.Places = append(a.Places, place)
	}
	a.listOwners(store, store.Placeholders().Set(facts.PlaceholderUID(r.Facts.UID, 0)))
	if first != "" {
		_, index, _ := strings.Cut(string(first), "/")
		a.First, err = d.Explain(namespace, name+"/"+index)
	}
	return a, err
}

// listOwners names the owners that wait.
func (a *ReservationAnswer) listOwners(store *cluster.Store, set *cluster.PlaceholderSet) {
	store.EachWaiting(a.Namespace, func(pod *cluster.Pod) {
		if store.Placeholders().Owns(set, pod) {
			a.Waiting = append(a.Waiting, pod.Name)
		}
	})
	slices.Sort(a.Waiting)
	a.MoreWaiting = max(len(a.Waiting)-MaxOwners, 0)
	a.Waiting = a.Waiting[:len(a.Waiting)-a.MoreWaiting]
}
