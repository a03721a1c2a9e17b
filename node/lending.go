package node

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/node/report"
	"hilbert.dev/hilbert/topology"
)

// lending is the loop's part of colocation: what the laws want, and what was done about it.
type lending struct {
	params advise.Params
	state  advise.State
	advice advise.Advice
	// at is when the laws last ran; zero: they never did, and nothing is offered.
	at    time.Time
	cores [topology.MaxZones]int // as last given to the manager
	// demands are what steered pools should have, in millicores, as last given to the manager.
	demands map[string]int64
	// steered is how many pods follow each profile, by its name.
	steered map[string]Steered
	held    int64 // memory of the reclaimed pods, in bytes
	// recorder writes what the laws saw and said; recorded: it has ended.
	recorder *advise.Recorder
	recorded bool
}

// maxAdviceAge is how old an advice may be that is still reported: without observations there is no newer one.
const maxAdviceAge = 30 * time.Second

// lawParams are the laws' parameters as the configuration has them.
func lawParams(c *spec.Node) advise.Params {
	const percent = 100
	p := advise.Defaults()
	p.TargetUse = float64(c.Lending.TargetUtilization) / percent
	p.LendInterval, p.LendStep = c.Lending.Interval.D(), float64(c.Lending.Step)/percent
	p.ReclaimedFloor = c.ReclaimedCores
	p.Explain = true
	return p
}

// lends reports whether this node lends at all: where the kubelet rules its managers would undo it.
func (a *Agent) lends() bool {
	return a.options.Mode == spec.ModeAgent && *a.options.Config.Lending.Enabled
}

// stepLaws runs the laws on what was observed last, and does what they say. It is called after each observation.
func (a *Agent) stepLaws(now time.Time) {
	if !a.lends() {
		return
	}
	l := &a.lending
	changed := false
	a.updateTargets()
	a.sense(now, func(s *sensor) {
		s.out.StopLending = a.stopsLending()
		a.recordStart()
		l.advice = advise.Step(&s.out, &l.params, &l.state)
		a.record(&s.out)
		l.at, l.held, l.steered = now, heldBy(&s.out), steeredBy(s.out.Services)
		a.stepEviction(s, now)
		changed = a.steerMemory(s, now)
	})
	var cores [topology.MaxZones]int
	for z, advice := range l.advice.Zones {
		cores[z] = advice.Lend
	}
	suppress := l.advice.Suppression >= advise.SuppressWeight
	if demands := demandsOf(l.advice.Pools); !maps.Equal(demands, l.demands) {
		l.demands = demands
		a.manager.SetDemands(demands)
		changed = true
	}
	if cores != l.cores || suppress != a.manager.Suppressed() {
		l.cores = cores
		a.manager.SetReclaimed(cores)
		a.manager.Suppress(suppress)
		changed = true
	}
	if changed {
		a.apply()
	}
	a.saveLawState(now)
	if last := a.reporting.last; last != nil && !a.reporting.urgent {
		a.reporting.urgent = report.Less(last.Status.Colocation, a.headroom(now))
	}
}

// demandsOf is what the pools that are steered should have, in millicores; the others follow their requests.
func demandsOf(pools map[string]int) map[string]int64 {
	if len(pools) == 0 {
		return nil
	}
	const milli = 1000
	out := make(map[string]int64, len(pools))
	for pool, cpus := range pools {
		out[pool] = int64(cpus) * milli
	}
	return out
}

// recordStart begins the record, where one is wanted.
func (a *Agent) recordStart() {
	l := &a.lending
	if a.options.Record == nil || l.recorder != nil || l.recorded {
		return
	}
	var err error
	l.recorder, err = advise.NewRecorder(a.options.Record, &l.params, &l.state)
	a.recordEnds(err)
}

// record writes what the laws saw and said at this tick.
func (a *Agent) record(o *advise.Observation) {
	if l := &a.lending; l.recorder != nil {
		a.recordEnds(l.recorder.Record(o, &l.advice))
	}
}

// recordEnds ends the record where it cannot go on: it is full, or the disk is.
func (a *Agent) recordEnds(err error) {
	if err != nil {
		a.lending.recorder, a.lending.recorded = nil, true
		a.log.Warn("the record of the laws ends", "why", err)
	}
}

// colocation is what is said of lending, with the reasons for people; nil: nothing can be said, and so nothing is offered.
func (a *Agent) colocation(now time.Time) *spec.Colocation {
	out := a.headroom(now)
	if out == nil {
		return nil
	}
	for z := range out.Zones {
		advice := &a.lending.advice.Zones[z]
		out.Zones[z].Message = "CPU: " + terms(advice.CPU.Terms, milliText) + "; memory: " + terms(advice.Memory.Terms, bytesText)
	}
	return out
}

// headroom is colocation without the texts, which are dear, and not needed to tell whether there is something to write.
func (a *Agent) headroom(now time.Time) *spec.Colocation {
	l := &a.lending
	if !a.lends() || l.at.IsZero() || now.Sub(l.at) > maxAdviceAge {
		return nil
	}
	out := &spec.Colocation{Suppression: l.advice.Suppression.String(), Closed: a.closed(), Evictions: a.eviction.effective().Requests}
	for z, advice := range l.advice.Zones {
		zone := spec.ZoneHeadroom{
			Name:      strconv.Itoa(a.options.Machine.NUMA[z].ID),
			CPUReason: string(advice.CPU.Reason), MemoryReason: string(advice.Memory.Reason),
		}
		zone.MilliCPU, zone.MemoryMiB = advice.CPU.Published, advice.Memory.Published/topology.Mebibyte
		out.Headroom.MilliCPU += zone.MilliCPU
		out.Headroom.MemoryMiB += zone.MemoryMiB
		out.Zones = append(out.Zones, zone)
	}
	const milli = 1000
	for _, z := range a.manager.PoolZones() {
		out.Lent.MilliCPU += int64(z.Reclaimed.Len()) * milli
	}
	out.Lent.MemoryMiB = l.held / topology.Mebibyte
	return out
}

// terms are the parts of a sum, for people.
func terms(list []advise.Term, amount func(int64) string) string {
	words := make([]string, len(list))
	for i, t := range list {
		words[i] = t.Name + " " + amount(t.Value)
	}
	return strings.Join(words, ", ")
}

func milliText(v int64) string { return fmt.Sprintf("%dm", v) }
func bytesText(v int64) string { return fmt.Sprintf("%dMi", v/topology.Mebibyte) }

// heldBy is what the reclaimed pods hold of memory, as far as it is known, in bytes.
func heldBy(o *advise.Observation) (sum int64) {
	for i := range o.Reclaimed {
		if m := o.Reclaimed[i].Memory; m.Known {
			sum += int64(m.Value)
		}
	}
	return sum
}
