package node

import (
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/advise"
)

// usageController keeps what the node uses, for the report. At each observation it takes a reading (advise.Usage), where the configuration wants that
// reported. Without observations for a while it says nothing: the scheduler then counts what pods request.
type usageController struct {
	node  *nodeState
	state advise.UsageState
	usage *spec.NodeUsage // nil: not known
	at    time.Time       // of the last observation
}

// maxUsageAge is how long what was measured last is reported without a newer observation.
const maxUsageAge = time.Minute

// Tick implements controller.
func (u *usageController) Tick(in *inputs) (changed bool) {
	if !u.node.options.Config.Usage.Enabled {
		u.usage, u.state = nil, advise.UsageState{} // it may be wanted again later
		return false
	}
	o := in.seen
	r := advise.UsageReading{
		At: o.laws.At, CPU: rateOf(o.seen.Node.CPU.Busy), CPUs: float64(len(u.node.options.Machine.CPUs)), MemoryTotal: o.laws.Node.MemoryTotal,
		ReclaimedCPU: advise.Known(0), Reclaimed: advise.Known(0),
	}
	if r.MemoryTotal.Known && o.laws.Node.MemoryAvailable.Known {
		r.Memory = advise.Known(r.MemoryTotal.Value - o.laws.Node.MemoryAvailable.Value)
	}
	for i := range o.laws.Reclaimed {
		p := &o.laws.Reclaimed[i]
		r.ReclaimedCPU, r.Reclaimed = plus(r.ReclaimedCPU, p.CPUUse), plus(r.Reclaimed, p.Memory)
	}
	u.usage, u.at = advise.Usage(&r, &u.state), in.now
	return false
}

// status is what the report says now.
func (u *usageController) status(now time.Time) *spec.NodeUsage {
	if u.usage == nil || now.Sub(u.at) > maxUsageAge {
		return nil
	}
	return u.usage
}
