package evict

import (
	"time"

	"hilbert.dev/hilbert/api/spec"
)

// MaxRequests bounds the pods that are asked for at one time, and those that have notice.
const MaxRequests = 16

// Params are the thresholds (marks) and times of the configuration, and what is switched off. docs/concepts/colocation.md has a table of them. Times are multiples of the
// tick in effect: what is due is done at the first tick after.
type Params struct {
	spec.NodeEviction
	// DryRun: decisions are made and reported, and none is carried out.
	DryRun bool `json:"dryRun,omitempty"`
	// Off are detectors that are not asked.
	Off Detectors `json:"off,omitempty"`
}

// The rules by the names that they have here.
type (
	// Mark is a threshold.
	Mark = spec.EvictionMark
	// Watermarks are two of them.
	Watermarks = spec.EvictionWatermarks
	// Escalation is what is done about a pressure.
	Escalation = spec.EvictionEscalation
	// Closing is how long a node is closed.
	Closing = spec.EvictionClosing
)

func holds(w *Watermarks) (soft, hard time.Duration) { return w.SoftFor.D(), w.HardFor.D() }

// Defaults are the marks and times that nodes start with.
func Defaults() Params { return Params{NodeEviction: spec.DefaultNodeEviction()} }

// ParamsOf are the parameters that a node's configuration, with its defaults set, gives the law of eviction. The agent and the simulator have them from here.
func ParamsOf(n *spec.Node) Params {
	return Params{NodeEviction: n.Eviction, DryRun: n.Lending.Evictions == spec.EvictionsDryRun}
}

// MemoryBound is the longest time from the first reading below the hard mark of memory until this many pods (at least one) were ordered to be
// stopped, if the API server never answers, no other resource is short past its hard mark, and one tick passes between two steps.
func (p *Params) MemoryBound(pods int, tick time.Duration) time.Duration {
	next := max(p.Escalation.StopInterval, p.Escalation.StopWithin).D()
	first := (p.Memory.HardFor + p.Escalation.UrgentAfter + p.Escalation.AnswerWithin).D()
	// Each of the waits ends with the first tick after it: at most a tick late, and the reading may be a tick old.
	return first + tick*4 + time.Duration(max(pods, 1)-1)*(next+tick)
}

// Validate says what of the params cannot be worked with, each by its name in JSON.
func (p *Params) Validate() error { return p.NodeEviction.Check() }

// namedWatermarks is a rule, its name in JSON and the kubelet's signal for the same.
type namedWatermarks struct {
	name, signal string
	rule         *Watermarks
}

func (p *Params) watermarks() []namedWatermarks {
	return []namedWatermarks{
		{"memory", "memory.available", &p.Memory},
		{"root", "nodefs.available", &p.Root},
		{"rootInodes", "nodefs.inodesFree", &p.RootInodes},
		{"images", "imagefs.available", &p.Images},
		{"imageInodes", "imagefs.inodesFree", &p.ImageInodes},
		{"numaNode", "", &p.NUMANode},
	}
}
