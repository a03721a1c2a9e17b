package node

import (
	"context"
	"slices"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/allocate"
	"hilbert.dev/hilbert/node/devices"
	"hilbert.dev/hilbert/node/plugins"
	"hilbert.dev/hilbert/node/report"
)

const (
	// reportTimeout bounds a write of the report.
	reportTimeout = 10 * time.Second
	// lookPause is the least time between two looks at what has changed: pods come in swarms.
	lookPause = time.Second
	// idleReport is how often the loop looks at the report where nothing is due.
	idleReport = time.Minute
)

// reporter writes the CustomNodeResource: what the scheduler may count on here. It writes when the report has changed enough, no more often than the
// throttle allows, except that less headroom than is promised is told within a second.
type reporter struct {
	node     *nodeState
	lending  *lendingController
	eviction *evictionController
	devices  *devices.Controller
	plugins  *plugins.Controller
	overuse  *overuseController
	usage    *usageController
	promises *brokenPromises
	// configuration and health are of what the node was told, and of how it fares since.
	configuration *configurationController
	health        *healthController
	interference  *interferenceController
	overcommit    *overcommitController
	throttle      *report.Throttle

	last    *spec.NodeReport // as last written; nil: never
	written time.Time        // when that write began
	looked  time.Time        // when it was last compared with what is
	urgent  bool             // less can be lent than was written, or a promise is broken
	failing time.Time        // since when writes fail; zero: the last one did not
}

// build is all there is to say now.
func (p *reporter) build(now time.Time) *spec.NodeReport {
	n := p.node
	r := n.Manager.Report()
	if n.Runtime.Away(now) {
		p.closeAll(&r)
	}
	conditions := []spec.NodeCondition{n.Events.Problems.Condition(n.options.Mode, n.options.Why)}
	for _, c := range []*spec.NodeCondition{p.overuse.condition(), p.plugins.Condition(now)} {
		if c != nil {
			conditions = append(conditions, *c)
		}
	}
	out := report.Build(n.options.Machine, &r, p.lending.colocation(now, p.eviction), conditions)
	out.Status.Devices, out.Status.Summary.GPUs = p.devices.Status(now)
	out.Status.Resources = p.plugins.Status()
	out.Status.Usage = p.usage.status(now)
	out.Status.Configuration, out.Status.Health = p.configuration.applied.DeepCopy(), p.health.status(now)
	out.Status.Interference = p.interference.status(now)
	out.Status.Overcommit = p.overcommit.status(now)
	out.Status.BrokenPromises, out.Status.Events = p.promises.status(), n.Events.Status()
	return out
}

// noteLess makes the next report urgent if less can be lent than the last one said.
func (p *reporter) noteLess(now time.Time) {
	if p.last != nil && !p.urgent {
		p.urgent = report.Less(p.last.Status.Colocation, p.lending.headroom(now, p.eviction), p.lending.promised())
	}
}

// closeAll closes all NUMA nodes in the report. The allocator keeps serving pods that run already.
func (p *reporter) closeAll(r *allocate.Report) {
	why := allocate.Note{Reason: spec.ReasonRuntimeLost, Message: p.node.Runtime.Why}
	for numa := range int(r.Shape.NUMANodes) {
		r.Shape.Closed |= 1 << numa
		if !slices.ContainsFunc(r.Closed, func(c allocate.Closed) bool { return c.NUMANode == numa }) {
			r.Closed = append(r.Closed, allocate.Closed{NUMANode: numa, Why: why})
		}
	}
	slices.SortFunc(r.Closed, func(x, y allocate.Closed) int { return x.NUMANode - y.NUMANode })
}

// report writes the report if it is due, and says when to look again. Before the runtime has told what runs, it would tell of an empty
// node, so nothing is said unless the runtime is away.
func (p *reporter) report(now time.Time) time.Duration {
	if p.node.ports.Report == nil || (!p.node.Runtime.Synced && !p.node.Runtime.Away(now)) || p.devices.Pending(now, p.node.Runtime.Synced) {
		return time.Second
	}
	likely := report.Major
	if p.urgent {
		likely = report.Urgent
	}
	soonest := max(p.throttle.Wait(now, likely), lookPause-now.Sub(p.looked))
	if soonest > 0 {
		return min(soonest, idleReport)
	}
	p.looked = now
	r := p.build(now)
	if wait := p.throttle.Wait(now, report.Compare(p.last, r, p.lending.promised())); wait > 0 {
		return min(wait, idleReport)
	}
	p.urgent = false
	p.throttle.Refresh(p.refresh(r))
	p.throttle.Began(now)
	p.node.Loop.Work(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, reportTimeout)
		defer cancel()
		err := p.node.ports.Report(ctx, r)
		p.node.Loop.Post(func() { p.reported(r, now, err) })
	})
	return lookPause
}

// refresh is how long what is written now stays vouched for: a loan, what the node uses and how much of it may be promised not as long as the rest.
func (p *reporter) refresh(r *spec.NodeReport) time.Duration {
	c := &p.node.options.Config
	interval := c.RefreshInterval.D()
	if r.Status.Usage != nil || r.Status.Overcommit != nil {
		interval = min(interval, c.Usage.RefreshInterval.D())
	}
	if lent := r.Status.Colocation; lent != nil && lent.Headroom != (spec.ReclaimedAmounts{}) {
		interval = min(interval, c.Lending.RefreshInterval.D())
	}
	return interval
}

func (p *reporter) reported(r *spec.NodeReport, began time.Time, err error) {
	p.throttle.Ended(err == nil)
	if err != nil {
		if p.failing.IsZero() {
			p.failing = began
		}
		p.node.Counts.ReportsFailed++
		p.node.Log.Warn("the report cannot be written", "err", err)
		return
	}
	p.failing = time.Time{}
	p.node.Counts.Reports++
	p.last, p.written = r, began
}
