package spec

import (
	"reflect"
	"time"
)

// NodeCPU tunes the laws that lend CPUs; Lending has the parameters that most people need. Shares are from 0 to 1, CPUs are logical. A field that is not written has its
// default, and a 0 that is written means 0. docs/concepts/colocation.md explains each law with its parameters, which have the same names there and in records.
type NodeCPU struct {
	// Margin is how many CPUs the shared pods keep besides what they need.
	Margin float64 `json:"margin"`
	// MarginShare is the share of the divisible CPUs that they keep besides: bursts are larger where more runs.
	MarginShare float64 `json:"marginShare"`
	// RequestShare is the share of their requests that shared pods keep though they use less.
	RequestShare float64 `json:"requestShare"`
	// BestEffortShare is the share of the divisible CPUs that BestEffort pods without a level may use before the rest no longer counts as a need.
	BestEffortShare float64 `json:"bestEffortShare"`
	// SharedFloor is how many cores of each NUMA node the shared pools always keep.
	SharedFloor int `json:"sharedFloor"`
	// ShrinkAfter is for how long a need must have been lower before the difference is lent.
	ShrinkAfter Duration `json:"shrinkAfter"`
	// CutShare is the share of what is lent that is taken back at each tick in which online pods wait.
	CutShare float64 `json:"cutShare"`
	// SafeShare is the share of what made online pods wait that is not exceeded afterwards.
	SafeShare float64 `json:"safeShare"`
	// HoldMin is for how long nothing more is lent after online pods waited.
	HoldMin Duration `json:"holdMin"`
	// HoldMax is the longest that SafeShare is kept. It must not be shorter than HoldMin.
	HoldMax Duration `json:"holdMax"`
	// MissingFor is for how long an input may be missing before lending is stepped back.
	MissingFor Duration `json:"missingFor"`
	// DelayQuiet is the run delay below which pressure does not count: it comes from a limit of the pod's own. A run delay is in threads that wait for each shared CPU.
	DelayQuiet float64 `json:"delayQuiet"`
	// DelayLow is the run delay below which all is calm.
	DelayLow float64 `json:"delayLow"`
	// DelayHigh is the run delay from which on online pods wait.
	DelayHigh float64 `json:"delayHigh"`
	// DelayCritical is the run delay from which on online pods wait badly.
	DelayCritical float64 `json:"delayCritical"`
	// PressureLow is the CPU pressure below which all is calm: a share of the time in which some task of a pod waits.
	PressureLow float64 `json:"pressureLow"`
	// PressureHigh is the CPU pressure from which on online pods wait.
	PressureHigh float64 `json:"pressureHigh"`
	// PressureCritical is the CPU pressure from which on online pods wait badly.
	PressureCritical float64 `json:"pressureCritical"`
	// FloorAfter is for how long online pods wait until reclaimed pods have the floor alone.
	FloorAfter Duration `json:"floorAfter"`
	// CriticalAfter is the same where they wait badly.
	CriticalAfter Duration `json:"criticalAfter"`
	// CalmAfter is for how long all must be calm until one level of suppression ends.
	CalmAfter Duration `json:"calmAfter"`
	// EvictAfter is for how long reclaimed pods have the floor alone and starve until suppression says that one may be evicted.
	EvictAfter Duration `json:"evictAfter"`
	// StarveShare is the share of the CPU time that they want below which reclaimed pods starve.
	StarveShare float64 `json:"starveShare"`
	// Reserve is the share of the divisible CPUs that no headroom has.
	Reserve float64 `json:"reserve"`
	// UseOver is the time over which use is smoothed for headroom.
	UseOver Duration `json:"useOver"`
	// RiseAfter is how long a headroom must have been higher before that is published.
	RiseAfter Duration `json:"riseAfter"`
	// Deadband is a change of the headroom that is too small to publish, in millicores.
	Deadband int64 `json:"deadband"`
	// Profile is the law that sizes the pools of services with a ServiceProfile.
	Profile ProfileLaw `json:"profile"`
}

// ProfileLaw sizes the pools of services with a ServiceProfile.
type ProfileLaw struct {
	// Above is the share of the target by which an indicator may exceed it without any reaction.
	Above float64 `json:"above"`
	// Below is the share of the target by which an indicator may be under it without any reaction.
	Below float64 `json:"below"`
	// ErrorMost bounds the error both ways.
	ErrorMost float64 `json:"errorMost"`
	// IntegralUp is the growth for each unit of error.
	IntegralUp float64 `json:"integralUp"`
	// IntegralDown is the shrinking for each unit of error.
	IntegralDown float64 `json:"integralDown"`
	// Proportional is the change for each unit that the error has changed since the period before.
	Proportional float64 `json:"proportional"`
	// StepUp is the share by which a pool may grow in one period.
	StepUp float64 `json:"stepUp"`
	// StepDown is the share by which a pool may shrink in one period.
	StepDown float64 `json:"stepDown"`
	// GrowMost is how many times as large a pool may become in four periods.
	GrowMost float64 `json:"growMost"`
	// LeadUp is the share by which the advice may exceed what the pool has.
	LeadUp float64 `json:"leadUp"`
	// LeadDown is the share by which the advice may be below what the pool has.
	LeadDown float64 `json:"leadDown"`
	// LeadCPUs is by how many CPUs besides the advice may differ.
	LeadCPUs float64 `json:"leadCPUs"`
	// HoldMin is for how long a size that proved too small is not tried again.
	HoldMin Duration `json:"holdMin"`
	// HoldMax is the longest such time. It must not be shorter than HoldMin.
	HoldMax Duration `json:"holdMax"`
}

// DefaultNodeCPU suits ordinary servers whose counters are read once a second.
func DefaultNodeCPU() NodeCPU {
	return NodeCPU{
		Margin: 1, MarginShare: 0.07, RequestShare: 0.1, BestEffortShare: 0.1, SharedFloor: 1, ShrinkAfter: seconds(30),
		CutShare: 0.5, SafeShare: 0.85, HoldMin: seconds(30), HoldMax: Duration(16 * time.Minute), MissingFor: seconds(60),
		DelayQuiet: 0.02, DelayLow: 0.1, DelayHigh: 0.2, DelayCritical: 1,
		PressureLow: 0.1, PressureHigh: 0.25, PressureCritical: 0.6,
		FloorAfter: seconds(5), CriticalAfter: seconds(1), CalmAfter: seconds(10), EvictAfter: seconds(120), StarveShare: 0.2,
		UseOver: seconds(3), RiseAfter: seconds(180), Deadband: 100,
		Profile: ProfileLaw{
			Above: 0.1, Below: 0.3, ErrorMost: 2, IntegralUp: 0.3, IntegralDown: 0.15, Proportional: 0.5,
			StepUp: 0.3, StepDown: 0.03, GrowMost: 2, LeadUp: 0.5, LeadDown: 0.25, LeadCPUs: 4, HoldMin: seconds(300), HoldMax: seconds(3600),
		},
	}
}

// The bounds of what has other ones than its kind.
var cpuBounds = bounds{
	"margin": {0, 1024}, "marginShare": {0, 1}, "requestShare": {0, 1}, "bestEffortShare": {0, 1}, "sharedFloor": {0, 1024},
	"cutShare": {0, 1}, "safeShare": {0, 1}, "starveShare": {0, 1}, "reserve": {0, 1}, "deadband": {0, mostWaiting},
	"delayQuiet": {0, mostWaiting}, "delayLow": {0, mostWaiting}, "delayHigh": {0, mostWaiting}, "delayCritical": {0, mostWaiting},
	"pressureLow": {0, mostWaiting}, "pressureHigh": {0, mostWaiting}, "pressureCritical": {0, mostWaiting},
	"profile.above": {0, 10}, "profile.below": {0, 0.95}, "profile.errorMost": {0, 10}, "profile.integralUp": {0, 10}, "profile.integralDown": {0, 10},
	"profile.proportional": {0, 10}, "profile.stepUp": {0, 10}, "profile.stepDown": {0, 0.9}, "profile.growMost": {0, 100}, "profile.leadUp": {0, 10}, "profile.leadDown": {0, 1}, "profile.leadCPUs": {0, 1024},
}

// Check returns what of the parameters cannot be worked with, joined; each names its field.
func (c *NodeCPU) Check() error { return collect(func(bad report) { c.check("", bad) }) }

func (c *NodeCPU) check(at string, bad report) {
	checkNumbers(at, reflect.ValueOf(c).Elem(), cpuBounds, bad)
	for _, x := range []struct {
		low, high         string
		lowValue, highest float64
	}{
		{"holdMin", "holdMax", float64(c.HoldMin), float64(c.HoldMax)},
		{"delayQuiet", "delayLow", c.DelayQuiet, c.DelayLow},
		{"delayLow", "delayHigh", c.DelayLow, c.DelayHigh},
		{"delayHigh", "delayCritical", c.DelayHigh, c.DelayCritical},
		{"pressureLow", "pressureHigh", c.PressureLow, c.PressureHigh},
		{"pressureHigh", "pressureCritical", c.PressureHigh, c.PressureCritical},
		{"profile.holdMin", "profile.holdMax", float64(c.Profile.HoldMin), float64(c.Profile.HoldMax)},
	} {
		if x.lowValue > x.highest {
			bad(at+x.low, "it is above %s%s; lower the one or raise the other", at, x.high)
		}
	}
}
