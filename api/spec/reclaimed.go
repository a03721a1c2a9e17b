package spec

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// AnnotationReclaimed is what a reclaimed pod may use: "1500m/2048Mi" is 1.5 CPUs and 2 GiB. The agent limits the pod to it; the container
// runtime does not know of reclaimed resources. Hilbert writes it with the Binding; nothing else may.
const AnnotationReclaimed = "hilbert.dev/reclaimed"

// AnnotationPriority is the priority of a pod on a node with an agent, by which the agent ranks evictions and the order in which the kernel kills for memory. Hilbert writes it
// with the Binding.
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
