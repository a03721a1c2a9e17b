package evict

import (
	"slices"
	"strings"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/advise"
)

// OnlinePod is a pod that is not reclaimed, and what it holds of memory, page cache left out, and requested, in bytes. What is not known, or was not requested, is no overuse.
type OnlinePod struct {
	spec.PodRef
	RSS, Requested advise.Sample
}

// Overuse is an online pod that has held more than it requested for long enough. It is for people: nothing follows from it.
type Overuse struct {
	Pod             spec.PodRef
	RSS, Requested  float64
	since, standing Timer
}

// OnlineState is what StepOnline remembers: the pods that hold more, by UID.
type OnlineState struct{ over map[string]*Overuse }

// StepOnline says which online pods hold more memory than they requested, by UID. A pod is among them once that has lasted for p.For, until it holds no more than its request and
// half of the tolerance.
//
// For example, with a tolerance of 0.1 and a slack of 64 MiB a pod that requested 1 GiB is named when it has held more than 1.16 GiB for a minute, until it holds less than 1.08 GiB.
func StepOnline(at time.Duration, pods []OnlinePod, p *spec.EvictionOnline, m *OnlineState) (out []Overuse) {
	over := make(map[string]*Overuse)
	for i := range pods {
		pod := &pods[i]
		held, known := value(pod.RSS)
		requested, asked := value(pod.Requested)
		if !known || !asked || requested == 0 || p.Mode != spec.OnlineReport {
			continue
		}
		slack := requested*p.Tolerance + p.Slack
		o := m.over[pod.UID]
		switch {
		case held > requested+slack:
			if o == nil || at < o.since.From {
				o = &Overuse{since: Timer{On: true, From: at}}
			}
		case o == nil || !o.standing.On || held <= requested+slack/2:
			continue
		}
		o.Pod, o.RSS, o.Requested = pod.PodRef, held, requested
		if o.since.ran(at, p.For.D()) && !o.standing.On {
			o.standing.start(at)
		}
		over[pod.UID] = o
		if o.standing.On {
			out = append(out, *o)
		}
	}
	m.over = over
	slices.SortFunc(out, func(a, b Overuse) int { return strings.Compare(a.Pod.UID, b.Pod.UID) })
	return out
}
