package node

import (
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
)

// reported is what the node says that it uses, and for how long the report counts.
func (l *lender) reported() (u *spec.NodeUsage, refresh time.Duration) {
	l.Helper()
	if !l.agent.Ask(time.Minute, func(a *Agent) {
		r := a.reporter.build(l.now)
		u, refresh = r.Status.Usage, a.reporter.refresh(r)
	}) {
		l.Fatal("the loop does not come round")
	}
	return u, refresh
}

// What the node uses is reported where the configuration wants that, without what reclaimed pods use, and not without counters.
func TestUsageIsReported(t *testing.T) {
	for _, enabled := range []bool{false, true} {
		l := newLender(t)
		l.agent.Ask(time.Minute, func(a *Agent) { a.options.Config.Usage.Enabled = enabled })
		l.busy = [8]float64{1, 1, 0.5}
		l.run(120)
		u, refresh := l.reported()
		if !enabled {
			if u != nil {
				t.Errorf("not wanted, and said: %+v", u)
			}
			continue
		}
		if u == nil || u.MilliCPU < 2400 || u.MilliCPU > 2600 || u.MemoryMiB != 496 {
			t.Fatalf("two and a half CPUs and 496 MiB are used; said is %+v", u)
		}
		if refresh > time.Minute {
			t.Errorf("the report counts for %v", refresh)
		}
		l.counters.lost = true
		l.run(60)
		if u, _ = l.reported(); u != nil {
			t.Errorf("without counters: %+v", u)
		}
	}
}
