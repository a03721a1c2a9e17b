package node

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/node/interference"
	"hilbert.dev/hilbert/node/perf"
	"hilbert.dev/hilbert/node/pods"
)

// ProcessorCounters says what the instructions of cgroups cost: perf.Poller, or what a test has in its place.
type ProcessorCounters interface {
	Watch(cgroups []string)
	CyclesPerInstruction(cgroup string, now time.Time) advise.Sample
	Status() perf.Status
	Run(ctx context.Context)
}

// processorCounters are the processor's counters of the services that are watched, where they are wanted.
type processorCounters struct {
	poller ProcessorCounters // nil: there are none
	wanted []countedPod
	known  bool // of any service in the last observation
}

// countedPod is a service whose counters are wanted.
type countedPod struct {
	cgroup  string
	request float64
}

// begin begins a round of services.
func (c *processorCounters) begin() { c.wanted, c.known = c.wanted[:0], false }

// cycles is what an instruction of a service takes, in a round in which it is wanted.
func (c *processorCounters) cycles(p *pods.Pod, request float64, now time.Time) advise.Sample {
	if c.poller == nil {
		return advise.Sample{}
	}
	c.wanted = append(c.wanted, countedPod{p.Cgroup, request})
	out := c.poller.CyclesPerInstruction(p.Cgroup, now)
	c.known = c.known || out.Known
	return out
}

// watch has those counted that the round wanted, the largest first.
func (c *processorCounters) watch() {
	if c.poller == nil {
		return
	}
	slices.SortStableFunc(c.wanted, func(x, y countedPod) int { return cmp.Compare(y.request, x.request) })
	cgroups := make([]string, 0, interference.MaxWatched)
	for _, w := range c.wanted[:min(len(c.wanted), interference.MaxWatched)] {
		cgroups = append(cgroups, w.cgroup)
	}
	c.poller.Watch(cgroups)
}

// stop has nothing counted.
func (c *processorCounters) stop() {
	c.begin()
	c.watch()
}

// status is what is counted.
func (c *processorCounters) status() perf.Status {
	if c.poller == nil {
		return perf.Status{}
	}
	return c.poller.Status()
}

// lacks says what is not known of the signal, and why, in no more than the report takes; empty: it is known.
func (c *processorCounters) lacks(wanted bool) string {
	switch why := c.status().Why; {
	case c.known:
		return ""
	case !wanted:
		return interference.Cycles.String() + ": node.interference.counters is off"
	case errors.Is(why, perf.ErrAbsent):
		return interference.Cycles.String() + ": " + perf.ErrAbsent.Error()
	case errors.Is(why, perf.ErrRefused):
		return interference.Cycles.String() + ": " + perf.ErrRefused.Error()
	case why != nil:
		text := interference.Cycles.String() + ": " + why.Error()
		return strings.ToValidUTF8(text[:min(len(text), spec.MaxInterferenceUnknown)], "")
	}
	return interference.Cycles.String()
}
