package bind

import (
	"slices"
	"time"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/dra"
	"hilbert.dev/hilbert/internal/deadline"
)

// MaxGiveBacksInFlight bounds the GiveBackClaim writes under way.
const MaxGiveBacksInFlight = 16

// giveBacks are the ResourceClaims that must be given back after a placement that failed: what was written, or may have been. The ledger says what is owed, and no
// pod that uses the claim is decided before the watch has seen it given back.
//
// A claim is not given back before the write that gave it out was answered. It is tried until the API server has an answer that is certain.
type giveBacks struct {
	store      *cluster.Store
	placements *placements
	out        *outbox

	rows    []giveBack // that wait, the oldest first
	flights map[uint64]giveBack
}

type giveBack struct {
	dra.GiveBack
	attempts int
	until    time.Time
}

// ready hands out the writes that can be started now.
func (g *giveBacks) ready(now time.Time) {
	for owed, ok := g.store.ResourceClaims().NextGiveBack(); ok; owed, ok = g.store.ResourceClaims().NextGiveBack() {
		g.rows = append(g.rows, giveBack{GiveBack: owed})
	}
	if len(g.rows) == 0 {
		return
	}
	g.rows = slices.DeleteFunc(g.rows, func(row giveBack) bool {
		if len(g.flights) >= MaxGiveBacksInFlight || row.until.After(now) || g.placements.unanswered[row.Pod] > 0 {
			return false
		}
		write := Write{Kind: GiveBackClaim, Pod: row.Pod, Namespace: row.Claim.Namespace, Name: row.Claim.Name, GiveBack: row.GiveBack}
		g.flights[g.out.add(OwnerClaims, &write)] = row
		return true
	})
}

// finish applies the answer to a write.
func (g *giveBacks) finish(result *Result, now time.Time) {
	row, ok := g.flights[result.ID.Number]
	if !ok {
		return
	}
	delete(g.flights, result.ID.Number)
	switch result.Outcome {
	case Written:
		g.store.ClaimsChanged(g.store.ResourceClaims().GaveBack(&row.GiveBack, result.Version))
	case Gone:
		g.store.ClaimsChanged(g.store.ResourceClaims().GaveBack(&row.GiveBack, 0))
	case Refused, Withheld:
		if row.Deallocate { // somebody else uses it by now
			row.Deallocate = false
			g.rows = append(g.rows, row)
			return
		}
		g.store.ClaimsChanged(g.store.ResourceClaims().GaveBack(&row.GiveBack, 0))
	default:
		row.attempts++
		row.until = now.Add(backoff(row.attempts))
		g.rows = append(g.rows, row)
	}
}

func (g *giveBacks) nextWake() (time.Time, bool) {
	var next deadline.Earliest
	if len(g.flights) < MaxGiveBacksInFlight {
		for i := range g.rows {
			next.Add(g.rows[i].until, true)
		}
	}
	return next.Time()
}
