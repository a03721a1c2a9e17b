package evict

import (
	"fmt"
	"strings"
	"time"

	"hilbert.dev/hilbert/api/spec"
)

// Network is how the way off the node stands.
type Network struct {
	// Known: somebody has looked of late. Else nothing of it is known.
	Known bool `json:"known"`
	// Pressed are the uplinks that are full of what the node sends, or lose packets on the way out.
	Pressed []string `json:"pressed,omitempty"`
	// Floored: reclaimed pods may send the floor alone.
	Floored bool `json:"floored,omitempty"`
}

// mostSenders is what part of the first sender's traffic makes a pod one of those that send most.
const mostSenders = 0.5

// uplinkPressed reads whether an uplink is pressed although reclaimed pods have the floor alone. It has no hard level: a full network harms nobody's memory, and online pods go first by the
// ceiling. It is unknown how much less would end the pressure, so one pod is requested at a time.
func uplinkPressed(v *view, _ int) reading {
	n, rule := &v.o.Network, &v.p.Network
	switch {
	case rule.PerHour == 0:
		return reading{known: true, hard: never(), soft: never()}
	case !n.Known:
		return reading{}
	case len(n.Pressed) == 0 || !n.Floored:
		return reading{known: true, hard: never(), soft: never()}
	}
	return reading{known: true, hard: never(), soft: side{value: 1, enter: 1, need: rule.Least}}
}

func sayUplink(v *view, _ int, r *reading) string {
	if r.soft.value < r.soft.enter {
		return "no network interface is full of what the node sends, or reclaimed pods may send more than the floor"
	}
	return fmt.Sprintf("the network interface %s is full or loses packets by what the node sends, with reclaimed pods at the floor of what they may send", strings.Join(v.o.Network.Pressed, " and "))
}

// sendsMost reports whether a pod is one of those that send most: at least half as much as the first. Among these the order is that of all victims.
func (v *view) sendsMost(pod *Pod) bool {
	sent, ok := value(pod.Sent)
	for i := range v.o.Pods {
		other := &v.o.Pods[i]
		if most, known := value(other.Sent); known && other.Level == spec.QoSReclaimed && !other.Terminating && sent < most*mostSenders {
			return false
		}
	}
	return ok
}

// hourly is the bound of a detector's requests per hour.
type hourly struct {
	granted func(m *State) *[]time.Duration
	most    func(p *Params) int
}

// mayGrant reports whether one more request may be made because of a pressure: no more in an hour than the detector's bound, so that a finding that never ends does not empty
// the node.
func (s *step) mayGrant(w *Watch) bool {
	h := detectors[w.Detector].hourly
	if h == nil {
		return true
	}
	granted, old := h.granted(s.m), 0
	for old < len(*granted) && s.at-(*granted)[old] >= time.Hour {
		old++
	}
	*granted = append((*granted)[:0], (*granted)[old:]...)
	if len(*granted) < h.most(s.p) {
		return true
	}
	s.m.Counts.Held[w.Detector]++
	return false
}

// grant takes down that a request was made because of a pressure.
func (s *step) grant(w *Watch) {
	if h := detectors[w.Detector].hourly; h != nil {
		granted := h.granted(s.m)
		*granted = append(*granted, s.at)
	}
}
