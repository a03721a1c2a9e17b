package egress

import (
	"maps"
	"time"

	"hilbert.dev/hilbert/node/advise"
)

// Sending is how the way off the node stands for those who must decide whether a reclaimed pod has to go.
type Sending struct {
	// Known: of each uplink it is known whether it is pressed, and the ceiling was set.
	Known bool
	// Pressed are the uplinks that are full of what the node sends, or lose packets on the way out. What comes in does not count: no pod that sends less helps there.
	Pressed []string
	// Floored: reclaimed pods have the floor alone.
	Floored bool
	// Pods is what reclaimed pods send off the node at least, in bytes per second, by cgroup. Who is missing sends nobody knows how much.
	Pods map[string]advise.Sample
}

const (
	// windowFor is how much time with good readings makes a figure, windowMost how long it may take to gather, and figureFor how long a figure counts.
	windowFor  = 10 * time.Second
	windowMost = 30 * time.Second
	figureFor  = 30 * time.Second
	// gapMost is the longest time between two readings.
	gapMost = 10 * time.Second
)

// Senders reckons what each reclaimed pod sends off the node at least. The zero value is the start.
//
// The kernel's counters of a pod's own interfaces include what it sends to pods of its node. What all of them sent together, less what left the node, was for such pods
// (or was dropped), so a pod sent off the node what it sent less all of that, or more. For example, of pods that sent 10 and 4 MB, of which 11 MB left the node, the first sent at
// least 7 MB off it, and the second at least 1 MB. One figure that is missing, as of a pod in the host's network, makes this not known of any pod.
type Senders struct {
	begun     bool
	at        time.Duration
	reclaimed advise.Sample
	sent      map[string]advise.Sample

	// The window: what was sent in the time that was counted, from opened on. Late are pods that came after it was opened.
	opened, counted time.Duration
	left            float64
	all             map[string]float64
	late            map[string]bool

	figures map[string]advise.Sample
	figured time.Duration
}

// Step takes what all reclaimed pods have sent off the node, and what each has sent through its interfaces, by cgroup, all since the counters were made, and returns what each sends
// off the node at least, in bytes per second.
func (s *Senders) Step(at time.Duration, reclaimed advise.Sample, sent map[string]advise.Sample) map[string]advise.Sample {
	if !s.begun || at-s.opened > windowMost || at < s.at {
		s.open(at)
	}
	if s.begun && s.comparable(at, reclaimed, sent) {
		s.counted += at - s.at
		s.left += reclaimed.Value - s.reclaimed.Value
		for cgroup, now := range sent {
			before, was := s.sent[cgroup]
			if !was { // its counter began at 0, or what it had before makes the others' figures less
				s.late[cgroup] = true
			}
			s.all[cgroup] += now.Value - before.Value
		}
	}
	s.begun, s.at, s.reclaimed, s.sent = true, at, reclaimed, maps.Clone(sent)
	if s.counted >= windowFor {
		s.figures, s.figured = s.reckon(), at
		s.open(at)
	}
	if at-s.figured > figureFor || at < s.figured {
		s.figures = nil
	}
	return s.figures
}

func (s *Senders) open(at time.Duration) {
	s.opened, s.counted, s.left, s.all, s.late = at, 0, 0, map[string]float64{}, map[string]bool{}
}

// comparable reports whether two readings say what was sent between them. They do not where a pod has gone: what it sent last is not known.
func (s *Senders) comparable(at time.Duration, reclaimed advise.Sample, sent map[string]advise.Sample) bool {
	if at <= s.at || at-s.at > gapMost || !reclaimed.Known || !s.reclaimed.Known || reclaimed.Value < s.reclaimed.Value {
		return false
	}
	for cgroup := range s.sent {
		if _, is := sent[cgroup]; !is {
			return false
		}
	}
	for cgroup, now := range sent {
		before, was := s.sent[cgroup]
		if !now.Known || was && !before.Known || now.Value < before.Value {
			return false
		}
	}
	return true
}

// reckon is the figures of a window.
func (s *Senders) reckon() map[string]advise.Sample {
	within := -s.left
	for _, sent := range s.all {
		within += sent
	}
	within = max(within, 0)
	out := make(map[string]advise.Sample, len(s.sent))
	for cgroup := range s.sent {
		if !s.late[cgroup] {
			out[cgroup] = advise.Known(max(s.all[cgroup]-within, 0) / s.counted.Seconds())
		}
	}
	return out
}
