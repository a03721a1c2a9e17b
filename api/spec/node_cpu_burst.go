package spec

import "reflect"

// CPUBurst lets online pods that their own CPU limits throttle use some of what they left unused before: cpu.max.burst of the kernel, from 5.14 on. It is off by default. A
// field that is not written has its default, and a 0 that is written means 0.
type CPUBurst struct {
	// Share is the most that a container may use in a period beyond its limit, as a share of the limit: what it has saved in earlier ones. 0: nothing.
	Share float64 `json:"share"`
	// Throttled is the share of its periods in which a pod's limit must throttle it for the pod to get a burst.
	Throttled float64 `json:"throttled" needs:"node.cpuBurst.share"`
	// Hold is how long the pod keeps it after it was last throttled as much.
	Hold Duration `json:"hold" needs:"node.cpuBurst.share"`
}

// DefaultCPUBurst gives no bursts.
func DefaultCPUBurst() CPUBurst { return CPUBurst{Throttled: 0.05, Hold: seconds(600)} }

// The kernel refuses a burst above the limit.
var burstBounds = bounds{"share": {0, 1}, "throttled": {0.001, 1}, "hold": {1, day}}

func (c *CPUBurst) check(at string, bad report) {
	checkNumbers(at, reflect.ValueOf(c).Elem(), burstBounds, bad)
}
