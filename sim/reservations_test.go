package sim

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"hilbert.dev/hilbert/cluster/facts"
)

const (
	reservedWorkload         = "nodes=12,pods=300,classes=16,minutes=5,load=120,reservations=30"
	reservedConstrained      = reservedWorkload + ",constraints=1"
	reservedTenantedWorkload = tenantedWorkload + ",reservations=30"
	reservedGangsWorkload    = "nodes=12,pods=300,classes=8,minutes=5,load=150,gangs=60,constraints=1,reservations=30"
	// reservedTiedGangsWorkload has classes with constraints between pods, too.
	reservedTiedGangsWorkload = "nodes=12,pods=300,classes=16,minutes=5,load=150,gangs=60,constraints=1,reservations=30"
)

// TestReservations keeps room for pods to come in clusters in which everything goes wrong, with every invariant checked.
func TestReservations(t *testing.T) {
	t.Parallel()
	seen := make(map[string]int)
	judged := 0
	for _, c := range []struct {
		workload   string
		schedulers int
		beside     int
		elsewhere  int
		least      uint64 // seeds; in fewer of all, not everything that is asked for below happens
	}{
		{reservedWorkload, 1, 0, 0, 6},
		{reservedWorkload, 4, 0, 0, 6},
		{reservedWorkload, 1, 3, 0, 6},
		{reservedTenantedWorkload, 1, 0, 0, 6},
		{reservedConstrained, 1, 0, 0, 2},
		{reservedWorkload, 0, 0, 3, 1},
		{reservedTenantedWorkload, 0, 0, 3, 2},
		{reservedGangsWorkload, 1, 0, 0, 1},
		{reservedGangsWorkload, 4, 0, 0, 1},
		{reservedGangsWorkload, 1, 3, 0, 1},
	} {
		seeds := c.least
		if os.Getenv("HILBERT_SIM_SEEDS") != "" {
			seeds = max(seedsToRun(t)/5, seeds)
		}
		for seed := range seeds {
			w := invent(t, c.workload, seed)
			o := options(seed)
			o.Schedulers, o.Elsewhere, o.CheckEvery, o.Faults, o.Preempt = c.schedulers, c.elsewhere, stepsBetweenChecks(), DefaultFaults(w), seed%3 > 0
			if c.beside > 0 {
				o.Config.Schedulers = c.beside
			}
			s, err := newSimulation(w, o)
			if err != nil {
				t.Fatal(err)
			}
			r, err := s.run(t.Context())
			if err != nil {
				t.Errorf("%d beside, %d elsewhere, seed %d: %v\nwithout those: hilbert sim --synthetic %s --faults --check --preempt=%v --schedulers %d --seed %d", c.beside, c.elsewhere, seed, err, c.workload, o.Preempt, c.schedulers, seed)
				continue
			}
			judged += s.check.OwnersJudged
			for name, n := range r.Faults {
				seen[name] += n
			}
		}
	}
	for _, name := range []string{
		"place Waiting", "place Reserved", "place Consumed", "place Lost: Expired", "place Lost: NodeGone", "place Lost: RoomTaken", "place Lost: Preempted", "place taken",
		"reservation done", "reservation unknown", "reservation gone", "reservation refused",
	} {
		if seen[name] == 0 {
			t.Errorf("in all seeds there was never: %s", name)
		}
	}
	if judged == 0 {
		t.Error("no owner ever waited beside room that is kept for it, so that none was judged")
	}
}

// TestReservationsWithoutFaults: then no fault wakes an owner or a place that the scheduler has forgotten.
func TestReservationsWithoutFaults(t *testing.T) {
	t.Parallel()
	for _, text := range []string{reservedWorkload, reservedTenantedWorkload, reservedGangsWorkload} {
		for seed := range max(seedsToRun(t)/10, 2) {
			o := options(seed)
			o.CheckEvery, o.Preempt = stepsBetweenChecks(), seed%2 == 0
			if _, err := Run(t.Context(), invent(t, text, seed), o); err != nil {
				t.Errorf("%v\nreproduce it: hilbert sim --synthetic %s --check --preempt=%v --seed %d", err, text, o.Preempt, seed)
			}
		}
	}
}

// TestReservationsFound plays what seeds have found among a thousand, each with the mistake that it showed.
func TestReservationsFound(t *testing.T) {
	t.Parallel()
	const tenants, gangs = reservedTenantedWorkload, reservedGangsWorkload
	const none, some, ofEvictionsToo = 0, 1, 2 // faults
	for _, c := range []struct {
		mistake            string
		workload           string
		seed               uint64
		schedulers, beside int
		faults             int
	}{
		{"a place, which evicts nobody, kept a pod of its shape from what its queue is guaranteed", tenants, 96, 1, 0, none},
		{"the check thought that one member is help for a gang that had fallen, of which another scheduler bound a member", tenants, 119, 4, 0, ofEvictionsToo},
		{"a subgroup took the one rack that another could go to, and the gang waited beside room for both", tenants, 199, 4, 0, ofEvictionsToo},
		{"a member of a gang that was not whole had its new place refused, and was not tried again when the gang was", gangs, 2, 4, 0, some},
		{"the same, with one scheduler", gangs, 68, 1, 0, some},
		{"the check thought that a gang was never whole of which another scheduler's member had left unseen", gangs, 128, 1, 3, some},
		{"an eviction that had ended ended the next one of its pod, whose write was under way", gangs, 242, 1, 3, some},
		{"a gang that lost its places with a Plan that was refused was decided on a snapshot that had not seen why", tenants, 207, 4, 0, ofEvictionsToo},
		{"a list without a member of a gang that waits for its victims, and without these, ended the process", reservedTiedGangsWorkload, 8, 4, 0, some},
		{"a gang slept beside room, for no member might go to the zone that came free before another one was elsewhere", reservedTiedGangsWorkload, 17, 4, 0, some},
	} {
		t.Run(fmt.Sprint(c.seed, "/", c.schedulers), func(t *testing.T) {
			t.Parallel()
			w := invent(t, c.workload, c.seed)
			o := options(c.seed)
			o.Schedulers, o.CheckEvery, o.Preempt = c.schedulers, 16*stepsBetweenChecks(), true
			if c.beside > 0 {
				o.Config.Schedulers = c.beside
			}
			if c.faults >= some {
				o.Faults = DefaultFaults(w)
			}
			if c.faults == ofEvictionsToo {
				o.Faults.AddEvictionFaults()
			}
			if _, err := Run(t.Context(), w, o); err != nil {
				t.Errorf("%s again: %v", c.mistake, err)
			}
		})
	}
}

// tellReservation tells the scheduler of every Reservation with a change.
func tellReservation(change func(*facts.Reservation)) func(facts.Event) facts.Event {
	return func(e facts.Event) facts.Event {
		switch e := e.(type) {
		case facts.ReservationUpserted:
			change(e.Reservation)
		case facts.ReservationsListed:
			for _, r := range e.Reservations {
				change(r)
			}
		}
		return e
	}
}

// TestChecksFindMistakesAboutReservations breaks runs in the ways in which a scheduler could be wrong about Reservations. The right check must notice each.
func TestChecksFindMistakesAboutReservations(t *testing.T) {
	t.Parallel()
	everybody := facts.ReservationOwner{Pods: &facts.LabelSelector{}}
	for _, c := range []struct {
		name string
		told func(facts.Event) facts.Event
		want string
	}{
		{"everybody is thought an owner", tellReservation(func(r *facts.Reservation) { r.Owners = []facts.ReservationOwner{everybody} }), "of which it is no owner"},
		{"TTLs are not seen", tellReservation(func(r *facts.Reservation) { r.Expires = 0 }), "has expired and keeps places"},
		{"deletions are not seen", hide[facts.ReservationRemoved], "Reservations, and the API server"},
		{"templates are thought smaller", tellReservation(func(r *facts.Reservation) {
			smaller := *r.Template.Requirements
			smaller.Requests = scaled(smaller.Requests, 50)
			r.Template.Requirements = &smaller
		}), "its pods and what is kept for it cost"},
		{"one place is thought enough", tellReservation(func(r *facts.Reservation) { r.Count = 1 }), "is not what the ledger has"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var last error
			for seed := range uint64(20) {
				w := invent(t, reservedTenantedWorkload, seed)
				o := options(seed)
				o.CheckEvery, o.Preempt = 16, true
				s, err := newSimulation(w, o)
				if err != nil {
					t.Fatal(err)
				}
				s.process.seams.told = c.told
				_, last = s.run(t.Context())
				if broken, ok := errors.AsType[*Violation](last); ok && strings.Contains(broken.What, c.want) {
					return
				}
			}
			t.Errorf("never %q; at last %s", c.want, fmt.Sprint(last))
		})
	}
}
