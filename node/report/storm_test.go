package report

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// TestStorm: twice as many reports as the API server takes, from all nodes, for minutes; it refuses the rest. On a part of the nodes less can be lent than was promised.
// They tell within seconds all the same: what is not urgent gives way.
func TestStorm(t *testing.T) {
	const (
		nodes, perSecond = 2000, 100
		step             = 200 * time.Millisecond
		falls, ends      = time.Minute, 3 * time.Minute
		// late is how long after a fall all nodes must have told of theirs.
		late = 40 * time.Second
	)
	all := make([]*Throttle, nodes)
	told := make([]time.Duration, nodes) // when a node whose headroom fell has told; 0: not yet
	for i := range all {
		all[i] = NewThrottle(fmt.Sprintf("node-%04d", i), write, refresh)
	}
	falling := func(i int) bool { return i%20 == 0 }
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same each time
	refused, latest := 0, time.Duration(0)
	for s := range int(ends / step) {
		after := time.Duration(s) * step
		now, room := epoch.Add(after), int(perSecond*step/time.Second)
		for _, i := range random.Perm(nodes) { // in any order
			change := Major // each node has always something to tell
			if falling(i) && after >= falls && told[i] == 0 {
				change = Urgent
			}
			if all[i].Wait(now, change) > 0 {
				continue
			}
			all[i].Began(now)
			all[i].Ended(room > 0)
			if room--; room < 0 {
				refused++
			} else if change == Urgent {
				told[i], latest = after, max(latest, after-falls)
			}
		}
	}
	for i := range all {
		if falling(i) && told[i] == 0 {
			t.Errorf("node %d has not told for %v that its headroom fell", i, ends-falls)
		}
	}
	t.Logf("%d writes were refused; the last of the nodes whose headroom fell told so after %v", refused, latest)
	if refused < nodes || latest > late {
		t.Errorf("%d writes were refused, and the last fall was told after %v; want a storm, and at most %v", refused, latest, late)
	}
}
