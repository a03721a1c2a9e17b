package colocation

import (
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"hilbert.dev/hilbert/lab/report"
)

// finishRecord works the figures out. Nothing passes any more.
func (m *morning) finishRecord(err error) {
	r := m.record
	if err != nil {
		r.Partial = err.Error()
	}
	r.Seconds = m.second
	cpuSeconds := m.cpus * float64(m.second)
	work := 0.0
	for _, name := range m.names {
		agent := m.agents.Agent(name)
		work += agent.Modelled().Measured.Work
		r.Refusals += len(agent.Refusals())
		if _, s, ok := agent.Look(); ok {
			n, _ := agent.Rounds()
			r.Agents.Rounds, r.Agents.Knobs = r.Agents.Rounds+n, r.Agents.Knobs+s.Written
			r.Agents.Updates, r.Agents.Reports = r.Agents.Updates+s.Updates, r.Agents.Reports+s.Reports
		}
	}
	done := 0
	for _, q := range queues {
		t := m.done[q.name]
		done += len(t.done)
		r.Queues = append(r.Queues, report.QueueDone{
			Name: q.name, Created: m.created[q.name], Started: len(t.started), Done: len(t.done), Evicted: len(t.evicted),
		})
	}
	r.Hilbert = account{m.online, m.offline, work, done, m.missed, m.of}.side(cpuSeconds)
	r.Requests = m.control.side(cpuSeconds)
	r.LentPercent, r.Evictions = percent(m.lent, cpuSeconds), m.evicted
	r.Speed, r.SlowestStep = round(float64(m.steps)/time.Since(m.began).Seconds()), round(float64(m.slowest)/float64(time.Millisecond))
	m.finishRush()
	m.watch.each(func(_ types.UID, p *seenPod) {
		if p.name == "inference" && p.node != "" {
			r.Slice = &report.Slice{Milli: sliceMilli, Node: p.node, GPU: p.gpus}
		}
	})
	r.Notes = append(r.Notes, notes(m)...)
}

// finishRush finds how soon what the services wanted back was back.
func (m *morning) finishRush() {
	rush := &m.record.Rush
	if m.rushes == nil {
		return
	}
	rush.Evicted += m.evictedUntil(rush.At + rush.Seconds + int(settledAfter/time.Second))
	var half, took []float64
	for i := range m.rushes {
		n := &m.rushes[i]
		if len(n.lent) == 0 {
			continue
		}
		least := slices.Min(n.lent)
		back := n.before - least
		const some = 2 // CPUs: a core
		if back < some {
			continue
		}
		rush.Nodes++
		rush.CPUs += back
		rush.Waited = max(rush.Waited, n.waited)
		half, took = append(half, n.until(back, halfBack)), append(took, n.until(back, mostBack))
	}
	if len(took) > 0 {
		slices.Sort(half)
		slices.Sort(took)
		rush.Half, rush.Median, rush.Longest = &half[len(half)/2], &took[len(took)/2], &took[len(took)-1]
	}
}

// until is after how many seconds a part of what the node gave was back.
func (n *rushNode) until(back int, part float64) float64 {
	enough := n.before - int(math.Ceil(part*float64(back)))
	return float64(1 + slices.IndexFunc(n.lent, func(lent int) bool { return lent <= enough }))
}

// evictedUntil is how many were evicted until a second, to the next sample.
func (m *morning) evictedUntil(second int) int {
	n := m.evicted
	for _, s := range slices.Backward(m.record.Samples) {
		if s.At < second {
			break
		}
		n = s.Evicted
	}
	return n
}

// account is sums in CPU seconds, the jobs done, and the minutes of services that were missed, of so many.
type account struct {
	online, offline, work float64
	done, missed, of      int
}

// side is what it comes to on so many CPU seconds.
func (a account) side(cpuSeconds float64) report.Side {
	return report.Side{
		UsedPercent: percent(a.online+a.offline, cpuSeconds), OnlinePercent: percent(a.online, cpuSeconds), OfflinePercent: percent(a.offline, cpuSeconds),
		MissedPercent: percent(float64(a.missed), float64(a.of)), JobsDone: a.done, OfflineHours: round(a.work / time.Hour.Seconds()),
	}
}

func percent(part, all float64) float64 {
	if all <= 0 {
		return 0
	}
	return round(100 * part / all)
}

// round keeps two digits.
func round(x float64) float64 { return math.Round(x*100) / 100 }

func notes(m *morning) []string {
	kinds := make(map[string]bool)
	for _, q := range queues {
		kinds[q.name] = true
	}
	return []string{
		"API server, hilbertd and agents are the production ones; the machines below the agents are a model (docs/adr/0009), and the kubelets and containers are played.",
		"Services follow " + m.Tide.Source + ": the steepest " + strings.TrimSuffix(m.Length.String(), "0s") + " of it.",
		"The control run is arithmetic on the same machines, services and stream of jobs: jobs get what services do not ask for.",
		"All timers go by one clock, which waits for all agents at each second: a slow machine makes it slower and changes no figure. Jobs of " +
			strings.Join(slices.Sorted(maps.Keys(kinds)), " and ") + " start over when they are evicted.",
	}
}
