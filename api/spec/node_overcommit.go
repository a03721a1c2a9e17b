package spec

import (
	"reflect"
	"strconv"
	"strings"
)

// NodeOvercommit has the agent say how much of the node's CPUs may be promised to services a second time. It is off by default, and needs a node that lends, for the same counters are
// read. A field that is not written has its default, and a 0 that is written means 0. docs/how-to/over-commit.md explains how.
type NodeOvercommit struct {
	// Mode says what is done. OvercommitOff: nothing. OvercommitReport: the percent is reported; the scheduler goes by it where scheduling.overcommit.mode says so.
	Mode string `json:"mode"`
	// MaxPercent is the greatest percent that is reported.
	MaxPercent float64 `json:"maxPercent"`
	// TargetPercent is how much of the CPUs the services' peak may fill.
	TargetPercent float64 `json:"targetPercent"`
	// LearnHours is how many hours of the week must have been seen.
	LearnHours float64 `json:"learnHours"`
	// RisePerHour is by how many points the percent rises in an hour at most.
	RisePerHour float64 `json:"risePerHour"`
	// FallPerMinute is by how many points it falls in a minute, after three minutes in which services waited or one was harmed.
	FallPerMinute float64 `json:"fallPerMinute"`
	// CalmMinutes is for how many minutes no service may have waited or been harmed before the percent rises again.
	CalmMinutes float64 `json:"calmMinutes"`
	// MaxDelay is how many threads may wait for each CPU that services share.
	MaxDelay float64 `json:"maxDelay"`
	// MaxPressure is the share of the time in which services may wait for a CPU.
	MaxPressure float64 `json:"maxPressure"`
}

// The values of NodeOvercommit.Mode.
const (
	OvercommitOff    = "off"
	OvercommitReport = "report"
)

// DefaultNodeOvercommit says nothing.
func DefaultNodeOvercommit() NodeOvercommit {
	return NodeOvercommit{Mode: OvercommitOff, MaxPercent: 150, TargetPercent: 60, LearnHours: 24, RisePerHour: 10, FallPerMinute: 10, CalmMinutes: 10, MaxDelay: 0.2, MaxPressure: 0.25}
}

var overcommitBounds = bounds{
	"maxPercent": {100, MaxOvercommitPercent}, "targetPercent": {1, 100}, "learnHours": {0, 7 * 24}, "risePerHour": {1, MaxOvercommitPercent}, "fallPerMinute": {1, MaxOvercommitPercent}, "calmMinutes": {1, 24 * 60}, "maxDelay": {0.01, 100},
	"maxPressure": {0.01, 1},
}

// MaxOvercommitPercent is the greatest percent that anybody may allow; the policy hilbert-overcommit lowers no request further.
const MaxOvercommitPercent = 1000

func (o *NodeOvercommit) check(at string, bad report) {
	oneOf(bad, at+"mode", o.Mode, OvercommitOff, OvercommitReport)
	checkNumbers(at, reflect.ValueOf(o).Elem(), overcommitBounds, bad)
}

// Overcommit says whether the scheduler goes by what agents say of over-commitment (Node.Overcommit).
type Overcommit struct {
	// Mode is one of these. OvercommitOff: each node takes what its allocatable holds of lowered requests. OvercommitAuto: a node takes pods by what they asked for before their requests were
	// lowered, up to the percent of its CPUs that its agent reports; a node whose agent reports none, or has not reported for nodeReports.usageStaleAfter, up to its CPUs.
	Mode string `json:"mode"`
	// MaxPercent is the most by which the scheduler goes, whatever an agent says.
	MaxPercent int `json:"maxPercent" needs:"scheduling.overcommit.mode=auto"`
}

// OvercommitAuto is a value of Overcommit.Mode; OvercommitOff is the other.
const OvercommitAuto = "auto"

// Percent is the most by which the scheduler goes; 0: it does not.
func (o *Overcommit) Percent() int {
	if o.Mode != OvercommitAuto {
		return 0
	}
	return o.MaxPercent
}

func validateOvercommit(o *Overcommit, bad report) {
	oneOf(bad, "scheduling.overcommit.mode", o.Mode, OvercommitOff, OvercommitAuto)
	if o.MaxPercent < 100 || o.MaxPercent > MaxOvercommitPercent {
		bad("scheduling.overcommit.maxPercent", "%d is out of range; write a number from 100 to %d", o.MaxPercent, MaxOvercommitPercent)
	}
}

// +kubebuilder:object:generate=true

// NodeOvercommitStatus is what an agent says of how much of its node's CPUs may be promised to services.
type NodeOvercommitStatus struct {
	// Percent of the CPUs, as services ask for them before their requests are lowered.
	Percent int `json:"percent"`
	// ExtraMilliCPU is by how much that is more than the CPUs which services share; none that is reserved, or a pod's own, is in it.
	ExtraMilliCPU int64 `json:"extraMilliCPU"`
	// PeakPercent is the greatest use of what services asked for; 0: it is not known. Hours is how many hours of the week it is from.
	PeakPercent int `json:"peakPercent"`
	Hours       int `json:"hours"`
	// Reason is why the percent is what it is: Learning, Unknown, Harm, Peak, Rising or Most. Message says it in words.
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// RequestedCPU is AnnotationRequestedCPU, read. The zero value says that nothing was lowered.
type RequestedCPU struct {
	// Percent by which requests were lowered, 100 to MaxOvercommitPercent.
	Percent int
	// Containers is what they asked for, in thousandths of a CPU, by name.
	Containers map[string]int64
}

// ParseRequestedCPU reads AnnotationRequestedCPU: "main=500m,side=100m at 150%". What cannot be read says that nothing was lowered.
func ParseRequestedCPU(text string) RequestedCPU {
	const most, whole = 1 << 30, 100
	list, at, _ := strings.Cut(text, " at ")
	number, ok := strings.CutSuffix(at, "%")
	percent, err := strconv.Atoi(number)
	if !ok || err != nil || percent < whole || percent > MaxOvercommitPercent {
		return RequestedCPU{}
	}
	out := RequestedCPU{Percent: percent, Containers: make(map[string]int64)}
	for entry := range strings.SplitSeq(list, ",") {
		name, amount, _ := strings.Cut(entry, "=")
		number, milli := strings.CutSuffix(amount, "m")
		n, err := strconv.ParseInt(number, 10, 64)
		if !milli || err != nil || n < 0 || n > most {
			return RequestedCPU{}
		}
		out.Containers[name] = n
	}
	return out
}

// Asked is what was asked for before a request was lowered, where asked is said of it and stored is requested now: no less than is stored, and no more than the percent of it. So 1000m at 150%,
// of which 667m are stored, count as 1000m, and as 150m once the request has shrunk to 100m in place.
func (r RequestedCPU) Asked(stored, asked int64) int64 {
	const whole = 100
	if stored <= 0 || stored > 1<<40 || r.Percent < whole {
		return stored
	}
	return min(max(stored, asked), stored*int64(r.Percent)/whole)
}
