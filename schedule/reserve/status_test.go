package reserve_test

import (
	"testing"
	"time"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/bind"
	"hilbert.dev/hilbert/schedule/reserve"
)

// What a status says for the first time of places that are lost, an Event says too: once, after the status, and not where events are off.
func TestLostPlacesAreTold(t *testing.T) {
	for _, silent := range []bool{false, true} {
		store := cluster.NewStore()
		status := reserve.NewStatus(store, silent)
		r := &facts.Reservation{UID: "r", Namespace: "ns", Name: "release", Count: 3, Expires: 10, Template: facts.Pod{Requirements: &facts.Requirements{
			Requests: []resource.Quantity{{Name: resource.NameCPU, Amount: 1000}},
		}}}
		now := time.Unix(1, 0)
		// answer does what is ready, and returns what was told.
		answer := func(outcome bind.Outcome) (told []string) {
			for _, w := range append([]bind.Write(nil), status.Ready(now)...) {
				if w.Kind == bind.WriteEvent {
					told = append(told, w.Namespace+"/"+w.Name+" "+w.Condition.Reason+": "+w.Condition.Message)
				}
				status.Finish(bind.Result{ID: w.ID, Outcome: outcome}, now)
			}
			return told
		}
		store.Apply(facts.ReservationUpserted{Reservation: r})
		if told := append(answer(bind.Written), answer(bind.Written)...); told != nil {
			t.Errorf("places that wait: %q", told)
		}
		store.EndPlaces(20)
		if told := append(answer(bind.NotSent), answer(bind.Written)...); told != nil {
			t.Errorf("before the status is written: %q", told)
		}
		now = now.Add(time.Minute)
		told := append(append(answer(bind.Written), answer(bind.Written)...), answer(bind.Written)...)
		switch want := "ns/release PlaceLost: place 0 is lost: Expired: the reservation has expired (and 2 more)"; {
		case silent && told != nil:
			t.Errorf("events are off: %q", told)
		case !silent && (len(told) != 1 || told[0] != want):
			t.Errorf("told %q, want %q once", told, want)
		}
		if _, more := status.NextWake(); more {
			t.Error("something is left to do")
		}
	}
}
