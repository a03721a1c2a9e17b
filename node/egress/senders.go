package egress

import (
	"maps"
	"slices"
	"time"

	"hilbert.dev/hilbert/node/advise"
)

// Sending is how the way off the node stands for those who must decide whether a reclaimed pod has to go.
type Sending struct {
	// Known: of each uplink it is known whether it is pressed, and its ceiling was set.
	Known bool
	// Pressed are the uplinks that are full of what the node sends, or lose packets on the way out; where reclaimed pods have the floor alone by some of them, these. What comes in does
	// not count: no pod that sends less helps there.
	Pressed []string
	// Floored: reclaimed pods have the floor alone by the uplinks in Pressed.
	Floored bool
	// Pods is what pods send by the uplinks in Pressed, or by all where none is, in bytes per second, by cgroup. Who is missing sends nobody knows how much.
	Pods map[string]advise.Sample
}

// judge fills in who sends, once it is known which uplinks are pressed, and which of these have the floor alone.
func (s *Sending) judge(floored map[string]bool, figures map[string]map[string]float64) {
	for _, is := range floored {
		s.Floored = s.Floored || is
	}
	if s.Floored {
		s.Pressed = slices.DeleteFunc(s.Pressed, func(name string) bool { return !floored[name] })
	}
	s.Pods = make(map[string]advise.Sample, len(figures))
	for cgroup, by := range figures {
		sum := 0.0
		for uplink, figure := range by {
			if len(s.Pressed) == 0 || slices.Contains(s.Pressed, uplink) {
				sum += figure
			}
		}
		s.Pods[cgroup] = advise.Known(sum)
	}
}

const (
	// windowFor is how much time makes a figure, windowMost the longest for which a mean says anything, and figureFor how long a figure counts.
	windowFor  = 10 * time.Second
	windowMost = 30 * time.Second
	figureFor  = 30 * time.Second
)

// Senders reckons what each pod sends off the node by each uplink, as a mean of ten seconds, from what the kernel has counted of it. A pod of which either end of the window is not
// known has no figure; the others have theirs. The zero value is the start.
type Senders struct {
	opened  time.Duration
	sent    map[string]map[string]advise.Sample // when the window was opened; nil: none is open
	figures map[string]map[string]float64
	figured time.Duration
}

// Step takes what each pod has sent since its counters were made, by cgroup and uplink, and returns what each sends, in bytes per second.
func (s *Senders) Step(at time.Duration, sent map[string]map[string]advise.Sample) map[string]map[string]float64 {
	elapsed := at - s.opened
	switch {
	case s.sent == nil || elapsed < 0 || elapsed > windowMost:
		s.open(at, sent)
	case elapsed >= windowFor:
		s.figures, s.figured = s.reckon(sent, elapsed), at
		s.open(at, sent)
	}
	if at-s.figured > figureFor || at < s.figured {
		s.figures = nil
	}
	return s.figures
}

func (s *Senders) open(at time.Duration, sent map[string]map[string]advise.Sample) {
	s.opened, s.sent = at, make(map[string]map[string]advise.Sample, len(sent))
	for cgroup, by := range sent {
		s.sent[cgroup] = maps.Clone(by)
	}
}

// reckon is the figures of a window. A counter that went backwards began anew.
func (s *Senders) reckon(sent map[string]map[string]advise.Sample, elapsed time.Duration) map[string]map[string]float64 {
	out := make(map[string]map[string]float64, len(sent))
	for cgroup, by := range sent {
		figures, known := make(map[string]float64, len(by)), len(by) > 0
		for uplink, now := range by {
			before := s.sent[cgroup][uplink]
			known = known && now.Known && before.Known && now.Value >= before.Value
			figures[uplink] = (now.Value - before.Value) / elapsed.Seconds()
		}
		if known {
			out[cgroup] = figures
		}
	}
	return out
}
