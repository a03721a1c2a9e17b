package node

import (
	"math"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/node/overcommit"
	"hilbert.dev/hilbert/node/report"
	"hilbert.dev/hilbert/topology"
)

// overcommitController reports how much of the node's CPUs may be promised to services a second time (overcommit.Step). It takes nothing from anybody: the
// scheduler goes by the report where it is configured to.
type overcommitController struct {
	node         *nodeState
	interference *interferenceController
	state        overcommit.State
	decision     overcommit.Decision
	cpus         float64   // that are multiplied
	at           time.Time // of the last observation; zero: nothing is said
}

// maxOvercommitAge is how old a decision may be that is still reported.
const maxOvercommitAge = time.Minute

func (c *overcommitController) config() *spec.NodeOvercommit {
	return &c.node.options.Config.Overcommit
}

// params are the parameters as the configuration has them.
func (c *overcommitController) params() overcommit.Params {
	const percent = 100
	o := c.config()
	return overcommit.Params{
		Max: int(o.MaxPercent), Target: o.TargetPercent / percent, Learn: int(o.LearnHours), Rise: o.RisePerHour, Fall: o.FallPerMinute, Calm: int(o.CalmMinutes), Delay: o.MaxDelay, Pressure: o.MaxPressure,
	}
}

// Tick implements controller.
func (c *overcommitController) Tick(in *inputs) (changed bool) {
	if c.config().Mode == spec.OvercommitOff {
		c.at = time.Time{}
		return false
	}
	p, r := c.params(), c.reading(in)
	c.decision, c.cpus, c.at = overcommit.Step(&r, &p, &c.state), r.CPUs, in.now
	return false
}

// reading is what the law sees: services in shared pools, and the CPUs that these and reclaimed pods divide. Pods that are bound to NUMA nodes keep what they ask for there.
func (c *overcommitController) reading(in *inputs) overcommit.Reading {
	const milli = 1000
	o := in.seen
	r := overcommit.Reading{Wall: o.laws.Wall, Pressure: math.NaN()}
	shared, waits := 0, 0.0
	for i := range o.laws.NUMANodes {
		z := &o.laws.NUMANodes[i]
		cpus := max(z.Divisible-z.Lent, 0)
		r.CPUs += float64(z.Divisible)
		shared += cpus
		if cpus > 0 {
			waits += orNaN(z.SharedDelay)
		}
	}
	for _, cpus := range c.node.Manager.Pools.Bound() {
		r.CPUs -= float64(cpus)
	}
	r.CPUs, r.Delay = max(r.CPUs, 0), waits/float64(max(shared, 1))
	var pressure weighted
	for _, p := range c.node.Pods.Sorted() {
		asked, pool, ok := c.node.Manager.Pod(p.Ref.UID)
		if !ok || p.Cgroup == "" || p.BestEffort || asked.MilliCPU <= 0 || pool == "" || pool == spec.PoolReclaimed || pool == spec.PoolSystem || asked.Request.Binding == topology.BoundShared {
			continue
		}
		cpus := float64(askedBy(asked.MilliCPU, p.RequestedCPU, c.config().MaxPercent)) / milli
		r.Asked += cpus
		r.Use += orNaN(rateOf(o.use(p.Cgroup).CPU.Usage))
		pressure.add(cpus, o.pressureOf(p))
	}
	r.Pressure = pressure.mean()
	if d := c.interference.current(in.now); d != nil && len(d.Findings) > 0 {
		r.Harmed = d.Findings[0].Reason
	}
	return r
}

// weighted is a mean of what is known, by weights.
type weighted struct{ sum, known, all float64 }

func (w *weighted) add(weight float64, s advise.Sample) {
	if w.all += weight; s.Known {
		w.sum, w.known = w.sum+weight*s.Value, w.known+weight
	}
}

// mean is not known, and NaN, where that of less than half of the weight is: the rest may be anything.
func (w *weighted) mean() float64 {
	const enough = 0.5
	if w.known == 0 || w.known < enough*w.all {
		return math.NaN()
	}
	return w.sum / w.known
}

// askedBy is what a pod asked for, before the policy lowered its requests to stored. Requests of init containers are in the annotation too, so that its percent, and MaxPercent, bound it.
func askedBy(stored int64, annotation string, most float64) (milliCPU int64) {
	if annotation == "" {
		return stored
	}
	said := spec.ParseRequestedCPU(annotation)
	var sum int64
	for _, n := range said.Containers {
		sum += n
	}
	const percent = 100
	return min(said.Asked(stored, sum), max(int64(float64(stored)*most/percent), stored))
}

// status is what the report says now; nil: nothing.
func (c *overcommitController) status(now time.Time) *spec.NodeOvercommitStatus {
	if c.at.IsZero() || now.Sub(c.at) > maxOvercommitAge {
		return nil
	}
	const percent, milli = 100, 1000
	d := &c.decision
	return &spec.NodeOvercommitStatus{
		Percent: d.Percent, ExtraMilliCPU: int64(c.cpus*milli) * int64(d.Percent-percent) / percent, PeakPercent: d.Peak, Hours: d.Hours,
		Reason: string(d.Reason), Message: report.Message(d.Message),
	}
}
