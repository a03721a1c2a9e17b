package daemon

import (
	"testing"
	"time"

	"hilbert.dev/hilbert/control/budget"
	"hilbert.dev/hilbert/schedule/inspect"
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
