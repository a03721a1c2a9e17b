package colocation

import (
	"errors"
	"fmt"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/node/evict"
	"hilbert.dev/hilbert/sim/corun"
	"hilbert.dev/hilbert/sim/trace"
)

// Options say what to play.
type Options struct {
	// Seed of all that is drawn.
	Seed uint64
	// Nodes of the fleet, and for how long its day goes; it begins at midnight. WarmUp at its beginning is not counted.
	Nodes  int
	Length time.Duration
	WarmUp time.Duration
	// Tick is the interval of the agents' observations, in whole seconds.
	Tick time.Duration

	Machine corun.Machine
	Model   corun.Params
	Laws    advise.Params
	Evict   evict.Params

	// Tide has shapes of a day with mean 1, Use rows of machines' use from 0 to 1; services follow the one or the other. Jobs are what
	// offline work is like.
	Tide, Use *trace.Curves
	Jobs      []JobKind

	// Backlog is how many jobs wait at any time for each node, but 48 at least. Of one size no more than a sixth of them wait.
	Backlog float64
	// Offered is what services want in the mean of the day, as a share of the machine; they ask for Requested of the CPUs that pods can have.
	Offered, Requested float64
	// Together are times at which all services everywhere want more at once.
	Together []Surge

	// HistoryDays are days before the first, which the laws and the naive plan have seen.
	HistoryDays int
	// Progress, if set, is told of virtual time that has passed, from several goroutines.
	Progress func(variant string, passed, length time.Duration)

	// watch, if set, sees each advice, in tests.
	watch func(*machine, *advise.Advice)
}

// Surge is a time in which all services want Factor times as much.
type Surge struct {
	At, For time.Duration
	Factor  float64
}

// JobKind is a kind of offline job: what it asks for, and for how long it runs at full speed. Weight is how common it is.
type JobKind struct {
	MilliCPU, MemoryBytes int64
	Seconds               float64
	Weight                int
}

// Bounds on Options.
const (
	maxNodes  = 20_000
	maxLength = 31 * 24 * time.Hour
)

// DefaultOptions are the experiment on a synthetic tide, with the laws and the eviction manager that nodes have by default.
func DefaultOptions() Options {
	node := &spec.Default().Node // as agents have it
	return Options{
		Seed: 1, Nodes: 1000, Length: 24 * time.Hour, WarmUp: 30 * time.Minute, Tick: time.Second,
		Machine: corun.DefaultMachine(), Model: corun.DefaultParams(), Laws: advise.ParamsOf(node), Evict: evict.ParamsOf(node),
		Tide: SyntheticTide(), Use: SyntheticUse(), Jobs: SyntheticJobs(),
		Offered: 0.15, Requested: 0.92, HistoryDays: 1, Backlog: 0.5,
	}
}

// backlog is how many jobs wait at any time.
func (o *Options) backlog() int { return max(48, int(o.Backlog*float64(o.Nodes))) }

// ErrOptions says that an experiment cannot be played so.
var ErrOptions = errors.New("colocation: bad option")

func (o *Options) validate() error {
	switch {
	case o.Nodes < 1 || o.Nodes > maxNodes:
		return fmt.Errorf("%w: %d nodes, want 1 to %d", ErrOptions, o.Nodes, maxNodes)
	case o.Length < time.Minute || o.Length > maxLength:
		return fmt.Errorf("%w: a length of %v, want a minute to %v", ErrOptions, o.Length, maxLength)
	case o.WarmUp < 0 || o.WarmUp >= o.Length:
		return fmt.Errorf("%w: a warm-up of %v in %v", ErrOptions, o.WarmUp, o.Length)
	case o.Tick < time.Second || o.Tick%time.Second != 0 || o.Tick > time.Minute:
		return fmt.Errorf("%w: a tick of %v, want whole seconds up to a minute", ErrOptions, o.Tick)
	case o.Tide == nil || o.Use == nil || len(o.Tide.Rows)+len(o.Use.Rows) == 0:
		return fmt.Errorf("%w: no tide", ErrOptions)
	case len(o.Jobs) == 0:
		return fmt.Errorf("%w: no jobs", ErrOptions)
	case !(o.Offered > 0 && o.Offered < 1) || !(o.Requested > 0 && o.Requested <= 1):
		return fmt.Errorf("%w: services that want %g and ask for %g of the machine", ErrOptions, o.Offered, o.Requested)
	}
	if err := o.Laws.Validate(); err != nil {
		return err
	}
	if err := o.Evict.Validate(); err != nil {
		return err
	}
	return spec.CheckReserve(&o.Laws.MemoryHeadroom, &o.Evict.NodeEviction)
}

// Mode is how offline work gets onto nodes.
type Mode string

// The modes.
const (
	// ModeRequests: offline jobs are ordinary pods, and get what services do not ask for.
	ModeRequests Mode = "requests"
	// ModeNaive: nodes are filled to naiveFill by what was used yesterday, and nobody looks.
	ModeNaive Mode = "naive"
	// ModeFixed: as ModeNaive, but jobs have cores of their own, which never change.
	ModeFixed Mode = "fixed"
	// ModeHilbert: the laws.
	ModeHilbert Mode = "hilbert"
)

// Variant is one way to play the day.
type Variant struct {
	Name string
	Mode Mode
	// Laws and Evict replace the Options' where they are set.
	Laws  *advise.Params
	Evict *evict.Params
	// Model replaces the Options', so that what neighbours cost can be swept.
	Model *corun.Params
	// NoClosing: nodes that evicted take new pods at once. NoBudget: the cluster evicts every pod that is requested. NoEviction: it evicts none.
	NoClosing, NoBudget, NoEviction bool
	// NoStaleness: the scheduler believes reports of any age.
	NoStaleness bool
}
