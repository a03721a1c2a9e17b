package advise

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"hilbert.dev/hilbert/api/spec"
)

// Params tune the laws. docs/concepts/colocation.md explains each law with its parameters. CPUs are logical; shares are from 0 to 1.
type Params struct {
	// TargetUse is how busy the shared CPUs may be: a pool that uses x CPUs needs x/TargetUse, and besides Margin CPUs and MarginShare of the
	// divisible ones: bursts are larger where more runs, and a small machine has little to spare.
	TargetUse   float64 `json:"targetUse"`
	Margin      float64 `json:"margin"`
	MarginShare float64 `json:"marginShare"`
	// RequestShare is the share of their requests that shared pods keep though they use less. With 0 the requests need not be known.
	RequestShare float64 `json:"requestShare"`
	// BestEffortShare is the share of the divisible CPUs that BestEffort pods without a level may use before the rest no longer counts as a need.
	BestEffortShare float64 `json:"bestEffortShare"`
	// SharedFloor and ReclaimedFloor are the cores of each NUMA node that the shared pools, and the reclaimed pods if there are any, always keep.
	SharedFloor    int `json:"sharedFloor"`
	ReclaimedFloor int `json:"reclaimedFloor"`

	// LendStep is the share of the shared CPUs that may be lent at once, but always one core, and LendInterval the time from one step to the next.
	// ShrinkAfter is for how long a need must have been lower before the difference is lent.
	LendStep     float64       `json:"lendStep"`
	LendInterval time.Duration `json:"lendInterval"`
	ShrinkAfter  time.Duration `json:"shrinkAfter"`
	// CutShare of what is lent is taken back at each tick in which online pods wait. Nothing is lent again for HoldMin after that. If they wait again
	// sooner than that, SafeShare of what made them wait is not exceeded for twice as long as the last time, up to HoldMax.
	CutShare  float64       `json:"cutShare"`
	SafeShare float64       `json:"safeShare"`
	HoldMin   time.Duration `json:"holdMin"`
	HoldMax   time.Duration `json:"holdMax"`
	// MissingFor is for how long an input may be missing before lending is stepped back and headroom falls to what runs.
	MissingFor time.Duration `json:"missingFor"`

	// Delay is in threads that wait for each shared CPU, Pressure the share of time in which some task of a pod that uses one CPU waits: below Low all is calm,
	// from High on online pods wait, from Critical on they wait badly. Pressure does not count in a NUMA node with less delay than DelayQuiet:
	// there it comes from a limit of the pod's own.
	DelayQuiet       float64 `json:"delayQuiet"`
	DelayLow         float64 `json:"delayLow"`
	DelayHigh        float64 `json:"delayHigh"`
	DelayCritical    float64 `json:"delayCritical"`
	PressureLow      float64 `json:"pressureLow"`
	PressureHigh     float64 `json:"pressureHigh"`
	PressureCritical float64 `json:"pressureCritical"`
	// FloorAfter is for how long online pods wait, CriticalAfter for how long they wait badly, until reclaimed pods have the floor alone. CalmAfter
	// of calm takes one level back.
	FloorAfter    time.Duration `json:"floorAfter"`
	CriticalAfter time.Duration `json:"criticalAfter"`
	CalmAfter     time.Duration `json:"calmAfter"`
	// EvictAfter is for how long reclaimed pods have the floor alone and starve until one may be evicted. They starve if they get less than StarveShare
	// of the CPU time that they want.
	EvictAfter  time.Duration `json:"evictAfter"`
	StarveShare float64       `json:"starveShare"`

	// CPUReserve is the share of the divisible CPUs that no headroom has. UseOver is the time over which use is smoothed for headroom.
	CPUReserve float64       `json:"cpuReserve"`
	UseOver    time.Duration `json:"useOver"`
	// RiseAfter is how long a headroom must have been higher before that is published. CPUDeadband (millicores) is a change too small to publish.
	RiseAfter   time.Duration `json:"riseAfter"`
	CPUDeadband int64         `json:"cpuDeadband"`

	// MemoryHeadroom is of the headroom of memory.
	spec.MemoryHeadroom

	// Profile is of the law that steers the pools of services with a profile.
	Profile ProfileParams `json:"profile"`

	// Explain has the terms of each headroom put into the advice.
	Explain bool `json:"explain,omitempty"`
}

// Defaults are the parameters that an empty configuration gives the laws: for ordinary servers that are looked at once a second.
func Defaults() Params { return ParamsOf(&spec.Default().Node) }

// ParamsOf are the parameters that a node's configuration, with its defaults set, gives its laws. The agent, the simulator and hilbert node replay --config have them
// from here.
func ParamsOf(n *spec.Node) Params {
	const percent = 100
	c := &n.CPU
	return Params{
		TargetUse: float64(n.Lending.TargetUtilization) / percent, LendInterval: n.Lending.Interval.D(), LendStep: float64(n.Lending.Step) / percent,
		ReclaimedFloor: n.ReclaimedCores, MemoryHeadroom: n.Memory.Headroom,

		Margin: c.Margin, MarginShare: c.MarginShare, RequestShare: c.RequestShare, BestEffortShare: c.BestEffortShare, SharedFloor: c.SharedFloor,
		ShrinkAfter: c.ShrinkAfter.D(), CutShare: c.CutShare, SafeShare: c.SafeShare, HoldMin: c.HoldMin.D(), HoldMax: c.HoldMax.D(), MissingFor: c.MissingFor.D(),

		DelayQuiet: c.DelayQuiet, DelayLow: c.DelayLow, DelayHigh: c.DelayHigh, DelayCritical: c.DelayCritical,
		PressureLow: c.PressureLow, PressureHigh: c.PressureHigh, PressureCritical: c.PressureCritical,
		FloorAfter: c.FloorAfter.D(), CriticalAfter: c.CriticalAfter.D(), CalmAfter: c.CalmAfter.D(),
		EvictAfter: c.EvictAfter.D(), StarveShare: c.StarveShare,

		CPUReserve: c.Reserve, UseOver: c.UseOver.D(), RiseAfter: c.RiseAfter.D(), CPUDeadband: c.Deadband,

		Profile: profileParams(&c.Profile),
	}
}

// ErrParams says that parameters cannot be worked with.
var ErrParams = errors.New("advise: bad parameter")

// Validate names the first parameter that the laws cannot work with, wrapped in ErrParams.
func (p *Params) Validate() error {
	for _, c := range p.checks() {
		if !(c.value >= c.low && c.value <= c.high) { // NaN is neither
			return fmt.Errorf("%w: %s is %v, want %v to %v", ErrParams, c.name, c.value, c.low, c.high)
		}
	}
	if err := p.Check(); err != nil {
		return fmt.Errorf("%w: %w", ErrParams, err)
	}
	return nil
}

// check is a bound of one parameter.
type check struct {
	name             string
	value, low, high float64
}

// maxWait is the longest that a parameter may take: the windows are made for less.
const maxWait = float64(24 * time.Hour)

func (p *Params) checks() []check {
	many := math.MaxInt32
	return append(p.Profile.checks(), []check{
		{"targetUse", p.TargetUse, 0.05, 1},
		{"margin", p.Margin, 0, 1024},
		{"marginShare", p.MarginShare, 0, 1},
		{"requestShare", p.RequestShare, 0, 1},
		{"bestEffortShare", p.BestEffortShare, 0, 1},
		{"sharedFloor", float64(p.SharedFloor), 0, 1024},
		{"reclaimedFloor", float64(p.ReclaimedFloor), 0, 1024},
		{"lendStep", p.LendStep, 0, 1},
		{"lendInterval", float64(p.LendInterval), 0, maxWait},
		{"shrinkAfter", float64(p.ShrinkAfter), 0, maxWait},
		{"cutShare", p.CutShare, 0, 1},
		{"safeShare", p.SafeShare, 0, 1},
		{"holdMin", float64(p.HoldMin), 0, maxWait},
		{"holdMax", float64(p.HoldMax), float64(p.HoldMin), maxWait},
		{"missingFor", float64(p.MissingFor), 0, maxWait},
		{"delayQuiet", p.DelayQuiet, 0, p.DelayLow},
		{"delayLow", p.DelayLow, 0, p.DelayHigh},
		{"delayHigh", p.DelayHigh, 0, p.DelayCritical},
		{"delayCritical", p.DelayCritical, 0, float64(many)},
		{"pressureLow", p.PressureLow, 0, p.PressureHigh},
		{"pressureHigh", p.PressureHigh, 0, p.PressureCritical},
		{"pressureCritical", p.PressureCritical, 0, float64(many)},
		{"floorAfter", float64(p.FloorAfter), 0, maxWait},
		{"criticalAfter", float64(p.CriticalAfter), 0, maxWait},
		{"calmAfter", float64(p.CalmAfter), 0, maxWait},
		{"evictAfter", float64(p.EvictAfter), 0, maxWait},
		{"starveShare", p.StarveShare, 0, 1},
		{"cpuReserve", p.CPUReserve, 0, 1},
		{"useOver", float64(p.UseOver), 0, maxWait},
		{"riseAfter", float64(p.RiseAfter), 0, maxWait},
		{"cpuDeadband", float64(p.CPUDeadband), 0, float64(many)},
	}...)
}

// Set gives a parameter, by its name in JSON ("targetUse", "profile.stepUp"), a value in words: "0.6", "90s", "true". What is not known is an ErrParams.
func (p *Params) Set(name, value string) error {
	v, field := reflect.ValueOf(p).Elem(), name
	if inner, ok := strings.CutPrefix(name, "profile."); ok {
		v, field = reflect.ValueOf(&p.Profile).Elem(), inner
	}
	return set(v, field, name, value)
}

func set(v reflect.Value, tagged, name, value string) error {
	for _, of := range reflect.VisibleFields(v.Type()) {
		if tag, _, _ := strings.Cut(of.Tag.Get("json"), ","); tag != tagged {
			continue
		}
		var err error
		switch field := v.FieldByIndex(of.Index); field.Interface().(type) {
		case time.Duration:
			var d time.Duration
			d, err = time.ParseDuration(value)
			field.SetInt(int64(d))
		case float64:
			var f float64
			f, err = strconv.ParseFloat(value, 64)
			field.SetFloat(f)
		case int, int64:
			var n int64
			n, err = strconv.ParseInt(value, 10, 64)
			field.SetInt(n)
		case bool:
			var b bool
			b, err = strconv.ParseBool(value)
			field.SetBool(b)
		default:
			err = errors.New("it cannot be set by a word")
		}
		if err != nil {
			return fmt.Errorf("%w: %s: %w", ErrParams, name, err)
		}
		return nil
	}
	return fmt.Errorf("%w: %q is not known", ErrParams, name)
}
