package node

import (
	"slices"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/node/observe"
	"hilbert.dev/hilbert/node/pods"
)

// PodUse is what a pod used at one reading of the kernel's counters, as far as that is known: cores, seconds that its threads waited for a CPU per second, shares of time in which some of its tasks waited, and bytes.
type PodUse struct {
	spec.PodRef
	CPU, RunDelay, CPUPressure, MemoryPressure, IOPressure advise.Sample
	// Memory is what it holds, without the page cache that is dropped first.
	Memory advise.Sample
	// Throttled is the share of its periods in which a limit throttled it: that of its own cgroup or of a container's, the greatest.
	Throttled advise.Sample
	// Containers are those of which a peak is known, by name.
	Containers []ContainerPeak
}

// ContainerPeak is the most memory that a container held since the reading before, without the page cache that is dropped first.
type ContainerPeak struct {
	Name  string
	Bytes float64
}

// tellUse tells what all pods used, where somebody wants to know it.
func (a *Agent) tellUse(o *observation, now time.Time) {
	if a.options.Use == nil {
		return
	}
	pods := a.node.Pods.Sorted()
	out := make([]PodUse, 0, len(pods))
	for _, p := range pods {
		if p.Cgroup == "" {
			continue
		}
		use := o.use(p.Cgroup)
		out = append(out, PodUse{
			PodRef: p.Ref, CPU: rateOf(use.CPU.Usage), RunDelay: o.runDelay(p), CPUPressure: o.pressureOf(p),
			MemoryPressure: rateOf(use.MemoryPressure.Some.Now), IOPressure: rateOf(use.IOPressure.Some.Now), Memory: inUse(&use.Memory), Throttled: throttledShare(o, p),
			Containers: containerPeaks(o, p),
		})
	}
	a.options.Use(now, out)
}

// inUse is the memory of a cgroup without the page cache that is dropped first.
func inUse(m *observe.CgroupMemory) advise.Sample {
	memory, cache := bytesOf(m.Current), bytesOf(m.InactiveFile)
	if !memory.Known || !cache.Known {
		return advise.Sample{}
	}
	return advise.Known(max(memory.Value-cache.Value, 0))
}

// containerPeaks are those that are known of a pod's containers: what the kernel says was held between two readings, or what was held at one, whichever is more. A container that was made anew
// under its name has one peak.
func containerPeaks(o *observation, p *pods.Pod) (out []ContainerPeak) {
	for _, id := range sortedKeys(p.Containers) {
		c := p.Containers[id]
		if c.Cgroup == "" || c.Name == "" {
			continue
		}
		memory := &o.use(c.Cgroup).Memory
		held, between := inUse(memory), bytesOf(memory.PeakInUse)
		if !held.Known && !between.Known {
			continue
		}
		peak := ContainerPeak{c.Name, max(held.Value, between.Value)}
		if at := slices.IndexFunc(out, func(b ContainerPeak) bool { return b.Name == c.Name }); at >= 0 {
			out[at].Bytes = max(out[at].Bytes, peak.Bytes)
			continue
		}
		out = append(out, peak)
	}
	return out
}
