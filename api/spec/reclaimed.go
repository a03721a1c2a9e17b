package spec

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// AnnotationReclaimed is written by the Binding of a reclaimed pod: its amounts of the reclaimed resources, as ReclaimedAmounts spells them:
// "1500m/2048Mi". The container runtime is told of no such resources, and the agent limits the pod to them. Nobody else may write it.
const AnnotationReclaimed = "hilbert.dev/reclaimed"

// AnnotationPriority is written beside it: the pod's priority, by which the agent ranks who goes first. The runtime is not told that either.
const AnnotationPriority = "hilbert.dev/priority"

// String is "1500m/2048Mi".
func (a ReclaimedAmounts) String() string { return fmt.Sprintf("%dm/%dMi", a.MilliCPU, a.MemoryMiB) }

// ParseReclaimed reads what String writes. The error says what it should be.
func ParseReclaimed(text string) (a ReclaimedAmounts, err error) {
	cpu, memory, ok := strings.Cut(text, "/")
	cpu, cpuUnit := strings.CutSuffix(cpu, "m")
	memory, memoryUnit := strings.CutSuffix(memory, "Mi")
	if ok && cpuUnit && memoryUnit {
		milli, errCPU := strconv.ParseUint(cpu, 10, 63)
		mebibytes, errMemory := strconv.ParseUint(memory, 10, 63)
		if errCPU == nil && errMemory == nil && mebibytes <= math.MaxUint32 {
			return ReclaimedAmounts{MilliCPU: int64(milli), MemoryMiB: int64(mebibytes)}, nil
		}
	}
	return a, fmt.Errorf("%s: %q: want thousandths of a CPU and MiB, as in 1500m/2048Mi", AnnotationReclaimed, text)
}
