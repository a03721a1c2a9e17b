package facts

import (
	"strconv"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/topology"
)

// Reservation asks that places be kept for pods that are to come. The ledger makes a placeholder of each place.
type Reservation struct {
	UID             UID
	Namespace, Name string
	Generation      int64
	// Created and Expires are in nanoseconds, as Pod.Created. Expires 0: never.
	Created, Expires int64
	// Count is how many places there are.
	Count int
	// Template is what each place is for: Requirements, priority, labels and profile. Who it is and where is not read.
	Template Pod
	// Owners are the pods that may have the places: those of the namespace that one of the entries is about.
	Owners []ReservationOwner
	// Moves is the pod for whose move the places are; empty: none.
	Moves UID
	// MayEvict are the pods that may be evicted for its places by the role controller's word. The places of all other Reservations enter free room only.
	MayEvict []UID
	// Problem is why no more places are looked for; the zero value is none.
	Problem Condition
	// Places are those that the status names, whatever process has written it; Reported is what else it says.
	Places   []Place
	Reported ReservationReport
	// ReportedSince is since when Ready has been so, in nanoseconds; 0: it is not there.
	ReportedSince int64
}

// Grows is the pod for whose growth in place a Reservation is; empty: it is for another purpose. Tenants may write such Reservations too.
func (r *Reservation) Grows() UID {
	for _, o := range r.Owners {
		if o.Pods == nil {
			continue
		}
		for _, e := range o.Pods.Expressions {
			if e.Key == spec.LabelGrowth && e.Operator == In && len(e.Values) == 1 {
				return UID(e.Values[0])
			}
		}
	}
	return ""
}

// ReservationReport is what a status says beside its places.
type ReservationReport struct {
	Generation int64
	Ready      bool
	Condition  Condition
}

// ReservationOwner is about the pods for which all holds that it names. One that names nothing is about none.
type ReservationOwner struct {
	Pods       *LabelSelector // nil: not asked
	Controller Controller     // zero: not asked
	Unit       string         // a PodGroup; empty: not asked
}

// Owns reports whether the owner is about a pod of the reservation's namespace.
func (o *ReservationOwner) Owns(labels []Label, controller Controller, unit string) bool {
	if o.Pods == nil && o.Controller == (Controller{}) && o.Unit == "" {
		return false
	}
	return (o.Pods == nil || o.Pods.Matches(labels)) && (o.Controller == (Controller{}) || o.Controller == controller) && (o.Unit == "" || o.Unit == unit)
}

// Controller is the controller of a pod, of whatever kind.
type Controller struct{ Kind, Name string }

// Place is one place of a Reservation as its status has it.
type Place struct {
	Index int
	State PlaceState
	// Node is where the place is, or was; Grant what it holds of it beside amounts.
	Node  string
	Grant topology.Grant
	// Pod is the name of the pod that has consumed it; of one that is lost and was for a move, of the pod that has another place instead.
	Pod string
	// Reason and Message say why it was lost.
	Reason, Message string
}

// PlaceState is what has become of a place. It goes forward only.
type PlaceState uint8

const (
	// PlaceWaiting: it has no node yet.
	PlaceWaiting PlaceState = iota
	// PlaceReserved: its room is kept.
	PlaceReserved
	// PlaceConsumed: an owner has its room.
	PlaceConsumed
	// PlaceLost: it is gone, and nobody was served by it.
	PlaceLost
)

// String names the state as the API does.
func (s PlaceState) String() string {
	switch s {
	case PlaceWaiting:
		return "Waiting"
	case PlaceReserved:
		return "Reserved"
	case PlaceConsumed:
		return "Consumed"
	case PlaceLost:
		return "Lost"
	}
	return "unknown(" + strconv.Itoa(int(s)) + ")"
}

// PlaceholderUID is the UID of a placeholder in the ledger. No object of Kubernetes has a UID with a slash.
func PlaceholderUID(reservation UID, index int) UID {
	return reservation + "/" + UID(strconv.Itoa(index))
}

// PlaceholderName is the name of a placeholder, which no pod can have.
func PlaceholderName(reservation string, index int) string {
	return reservation + "/" + strconv.Itoa(index)
}

// ReservationUpserted: a Reservation exists.
type ReservationUpserted struct{ Reservation *Reservation }

// ReservationRemoved: it exists no more.
type ReservationRemoved struct{ UID UID }

// ReservationsListed is the complete, consistent set of Reservations.
type ReservationsListed struct{ Reservations []*Reservation }

func (ReservationUpserted) event() {}

func (ReservationRemoved) event() {}

func (ReservationsListed) event() {}
