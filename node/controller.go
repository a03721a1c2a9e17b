package node

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"hilbert.dev/hilbert/internal/clock"
	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/node/allocate"
	"hilbert.dev/hilbert/node/controller"
	"hilbert.dev/hilbert/node/evict"
)

// lawController is a controller that runs a law on each observation of the kernel's counters.
type lawController interface {
	Tick(in *inputs) (changed bool)
}

// timed is a lawController that needs of an observation only when it was made.
type timed struct{ controller.Ticker }

// Tick implements lawController.
func (t timed) Tick(in *inputs) (changed bool) { return t.Ticker.Tick(in.now) }

// inputs are what the laws' controllers see in one round. The lower fields are filled by controllers for those that come later in the order.
type inputs struct {
	now time.Time
	// seen is what was observed.
	seen *observation
	// reportsFail is since when the report cannot be written; zero: it can.
	reportsFail time.Time
	// noLending: the last eviction decision forbids lending more.
	noLending bool
	// noMemory: no memory may be lent beyond what runs.
	noMemory bool

	advice      *advise.Advice  // by lendingController
	cpuPressure advise.Sample   // by lendingController: what online pods feel
	reclaims    []evict.Reclaim // by evictionController, for memoryController
}

// nodeState is what the controllers of this package share beyond that.
type nodeState struct {
	*controller.Node
	options *Options
	ports   *Ports
}

func newNodeState(o *Options, manager *allocate.Manager) *nodeState {
	by := clock.OrReal(o.Clock)
	shared := controller.NewNode(by.Now, o.Log, manager)
	shared.Config, shared.Mode, shared.Machine, shared.Kernel, shared.Started = &o.Config, o.Mode, o.Machine, o.Kernel, by.Now().Add(-o.Uptime)
	return &nodeState{Node: shared, options: o, ports: &o.Ports}
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
