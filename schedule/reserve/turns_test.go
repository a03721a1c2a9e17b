package reserve_test

import (
	"fmt"
	"testing"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/reserve"
)

// A turn ends with its Reservation even if so much else changes at once that the log of changes no longer names it.
func TestTurnEndsInAFlood(t *testing.T) {
	store := cluster.NewStore()
	turns := reserve.NewTurns(store)
	has := make(map[facts.UID]bool)
	follow := func() {
		turns.Follow(func(pod facts.UID, is bool) {
			if has[pod] = is; !is {
				delete(has, pod)
			}
		})
	}
	web := facts.ReservationOwner{Pods: &facts.LabelSelector{Expressions: []facts.Requirement{{Key: "app", Operator: facts.In, Values: []string{"web"}}}}}
	target := facts.Reservation{
		UID: "target", Name: "target", Namespace: "ns", Moves: "moved", Count: 1, Expires: 100, Owners: []facts.ReservationOwner{web},
		Template: facts.Pod{Requirements: &facts.Requirements{}}, Places: []facts.Place{{State: facts.PlaceLost, Node: "n"}},
	}
	store.Apply(facts.ReservationUpserted{Reservation: &target})
	store.Apply(facts.PodUpserted{Pod: facts.Pod{
		UID: "web", Name: "web", Namespace: "ns", Ours: true, Created: 1, Labels: []facts.Label{{Key: "app", Value: "web"}}, Requirements: &facts.Requirements{},
	}})
	if follow(); !has["web"] {
		t.Fatalf("the turn is that of %v", has)
	}
	store.Apply(facts.ReservationRemoved{UID: "target"})
	var other changes.Revision
	for round := range 2 {
		for i := range changes.Kept {
			other := target
			other.UID, other.Name, other.Moves = facts.UID(fmt.Sprint(round, "-", i)), fmt.Sprint(round, "-", i), ""
			store.Apply(facts.ReservationUpserted{Reservation: &other})
		}
		store.Placeholders().Changed(&other, nil)
	}
	if follow(); len(has) > 0 {
		t.Errorf("its Reservation is gone, and the turn is that of %v", has)
	}
}
