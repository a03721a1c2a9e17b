package controller

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/control/budget"
	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/kube/lease"
	"hilbert.dev/hilbert/kube/moves"
	"hilbert.dev/hilbert/schedule/inspect"
	"hilbert.dev/hilbert/sim/whatif"
)

// What relief has evicted since the snapshot before is charged to the budget of the moves, once, over changes of the scheduler's leader.
func TestReliefIsCharged(t *testing.T) {
	now := time.Unix(10_000, 0)
	first, second := now.Add(-time.Hour), now.Add(time.Minute)
	for name, c := range map[string]struct {
		seen []inspect.Relieved
		left int
	}{
		"nothing":                        {[]inspect.Relieved{{}, {}}, 10},
		"before the first snapshot":      {[]inspect.Relieved{{Evicted: 9, Since: first}}, 10},
		"since then":                     {[]inspect.Relieved{{Evicted: 9, Since: first}, {Evicted: 12, Since: first}}, 7},
		"once":                           {[]inspect.Relieved{{Evicted: 9, Since: first}, {Evicted: 12, Since: first}, {Evicted: 12, Since: first}}, 7},
		"the first since the first":      {[]inspect.Relieved{{}, {Evicted: 2, Since: first}, {Evicted: 3, Since: first}}, 7},
		"by the next leader":             {[]inspect.Relieved{{Evicted: 9, Since: first}, {Evicted: 2, Since: second}, {Evicted: 3, Since: second}}, 7},
		"by one that has evicted nobody": {[]inspect.Relieved{{Evicted: 9, Since: first}, {}, {Evicted: 4, Since: second}}, 6},
		"more than the budget has":       {[]inspect.Relieved{{}, {Evicted: 50, Since: first}}, 0},
	} {
		m := &mover{disturbances: &disturbances{budget: budget.New(budget.Limits{PerHour: 60, Burst: 10}, now)}}
		for _, r := range c.seen {
			m.charge(r, now)
		}
		if left := m.disturbances.budget.Left(now); left != c.left {
			t.Errorf("%s: %d are left, want %d", name, left, c.left)
		}
	}
}

// Who may be evicted for a growth is taken from the budget. It is given back where the API server refuses for certain, and not where nobody knows.
func TestRefusedPermissionsCostNothing(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for code, want := range map[int]int{
		http.StatusOK: 7, http.StatusForbidden: 10, http.StatusNotFound: 10, http.StatusConflict: 10, http.StatusInternalServerError: 7, http.StatusGatewayTimeout: 7,
	} {
		listening := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }))
		t.Cleanup(listening.Close)
		fence := lease.NewFence(time.Hour, time.Second)
		fence.Renewed(now)
		client, err := moves.New(&apiserver.Connection{Host: listening.URL}, fence, time.Minute, time.Hour, "hilbert-system")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		m := &mover{
			client: client, config: spec.Rescheduling{Mode: spec.ReschedulingAuto}, log: slog.New(slog.DiscardHandler), meter: newMoveMeter(),
			disturbances: &disturbances{budget: budget.New(budget.Limits{Burst: 10}, now)},
		}
		m.permit(t.Context(), &whatif.PreemptionShown{Namespace: "ns", Reservation: "r", UID: "u", Fresh: 3, Victims: make([]whatif.VictimShown, 3)}, now)
		if left := m.disturbances.budget.Left(now); left != want {
			t.Errorf("%d: %d are left, want %d", code, left, want)
		}
	}
}
