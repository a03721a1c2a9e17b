package node

import (
	"context"
	"slices"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/allocate"
	"hilbert.dev/hilbert/node/report"
)

const (
	// reportTimeout bounds a write of the report.
	reportTimeout = 10 * time.Second
	// lostGrace is how long the runtime may be away before the zones are closed: a restart of the runtime takes less.
	lostGrace = 30 * time.Second
	// lookPause is the least time between two looks at what has changed: pods come in swarms.
	lookPause = time.Second
	// idleReport is how often the loop looks at the report where nothing is due.
	idleReport = time.Minute
)

// reporting is what the API server knows.
type reporting struct {
	last    *spec.NodeReport // as last written; nil: never
	written time.Time        // when that write began
	looked  time.Time        // when it was last compared with what is
	urgent  bool             // less can be lent than was written
	failing time.Time        // since when writes fail; zero: the last one did not
}

// build is all there is to say now.
func (a *Agent) build(now time.Time) *spec.NodeReport {
	r := a.manager.Report()
	if a.runtimeAway(now) {
		a.closeAll(&r)
	}
	out := report.Build(a.options.Machine, &r, a.colocation(now), []spec.NodeCondition{a.problems.condition(a.options.Mode, a.options.Why)})
	out.Status.Devices, out.Status.Summary.GPUs = a.deviceStatus(now)
	return out
}

// runtimeAway reports whether the runtime has been lost for so long that nothing should be promised here: nobody would keep it.
func (a *Agent) runtimeAway(now time.Time) bool {
	return !a.runtime.connected && !a.runtime.lost.IsZero() && now.Sub(a.runtime.lost) >= lostGrace
}

// closeAll closes all zones in what is said. The allocator goes on as it is, for who runs already.
func (a *Agent) closeAll(r *allocate.Report) {
	why := allocate.Note{Reason: spec.ReasonRuntimeLost, Message: a.runtime.why}
	for zone := range int(r.Shape.Zones) {
		r.Shape.Closed |= 1 << zone
		if !slices.ContainsFunc(r.Closed, func(c allocate.Closed) bool { return c.Zone == zone }) {
			r.Closed = append(r.Closed, allocate.Closed{Zone: zone, Why: why})
		}
	}
	slices.SortFunc(r.Closed, func(x, y allocate.Closed) int { return x.Zone - y.Zone })
}

// report writes the report if it is due, and says when to look again. Before the runtime has told what runs, it would tell of an empty
// node, so nothing is said unless the runtime is away.
func (a *Agent) report(now time.Time) time.Duration {
	if a.ports.Report == nil || (!a.runtime.synced && !a.runtimeAway(now)) || a.devices.pending(now, a.runtime.synced) {
		return time.Second
	}
	likely := report.Major
	if a.reporting.urgent {
		likely = report.Urgent
	}
	soonest := max(a.throttle.Wait(now, likely), lookPause-now.Sub(a.reporting.looked))
	if soonest > 0 {
		return min(soonest, idleReport)
	}
	a.reporting.looked = now
	r := a.build(now)
	if wait := a.throttle.Wait(now, report.Compare(a.reporting.last, r)); wait > 0 {
		return min(wait, idleReport)
	}
	a.reporting.urgent = false
	a.throttle.Refresh(a.refresh(r))
	a.throttle.Began(now)
	a.work(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, reportTimeout)
		defer cancel()
		err := a.ports.Report(ctx, r)
		a.post(func() { a.reported(r, now, err) })
	})
	return lookPause
}

// refresh is how long what is written now stays vouched for: a loan not as long as the rest.
func (a *Agent) refresh(r *spec.NodeReport) time.Duration {
	if c := r.Status.Colocation; c != nil && c.Headroom != (spec.ReclaimedAmounts{}) {
		return a.options.Config.Lending.RefreshInterval.D()
	}
	return a.options.Config.RefreshInterval.D()
}

func (a *Agent) reported(r *spec.NodeReport, began time.Time, err error) {
	a.throttle.Ended(err == nil)
	if err != nil {
		if a.reporting.failing.IsZero() {
			a.reporting.failing = began
		}
		a.counts.ReportsFailed++
		a.log.Warn("the report cannot be written", "err", err)
		return
	}
	a.reporting.failing = time.Time{}
	a.counts.Reports++
	a.reporting.last, a.reporting.written = r, began
}

// Status is what the agent says of its node, for who asks it directly.
func (a *Agent) Status() *spec.NodeReport { return a.build(time.Now()) }
