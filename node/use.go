package node

import (
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/advise"
)

// PodUse is what a pod used at one reading of the kernel's counters, as far as that is known: cores, seconds that its threads waited for a CPU per second, shares of time in which some of its tasks waited, and bytes.
type PodUse struct {
	spec.PodRef
	CPU, RunDelay, CPUPressure, MemoryPressure, IOPressure advise.Sample
	// Memory is what it holds, without the page cache that is dropped first.
	Memory advise.Sample
	// Throttled is the share of its periods in which a limit throttled it: that of its own cgroup or of a container's, the greatest.
	Throttled advise.Sample
}

// tellUse tells what all pods used, where somebody wants to know it.
func (a *Agent) tellUse(o *observation, now time.Time) {
	if a.options.Use == nil {
		return
	}
	pods := a.node.pods.sorted()
	out := make([]PodUse, 0, len(pods))
	for _, p := range pods {
		if p.cgroup == "" {
			continue
		}
		use := o.use(p.cgroup)
		memory := bytesOf(use.Memory.Current)
		if file := bytesOf(use.Memory.InactiveFile); memory.Known && file.Known {
			memory.Value = max(memory.Value-file.Value, 0)
		} else {
			memory = advise.Sample{}
		}
		out = append(out, PodUse{
			PodRef: p.name, CPU: rateOf(use.CPU.Usage), RunDelay: o.runDelay(p), CPUPressure: o.pressureOf(p),
			MemoryPressure: rateOf(use.MemoryPressure.Some.Now), IOPressure: rateOf(use.IOPressure.Some.Now), Memory: memory, Throttled: throttledShare(o, p),
		})
	}
	a.options.Use(now, out)
}
