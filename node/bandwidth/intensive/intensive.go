package intensive

import (
	"math/bits"
	"slices"
	"time"

	"hilbert.dev/hilbert/node/advise"
)

const (
	// Window is the time of which the mean counts: two readings.
	Window = 10 * time.Second
	// enough of the last `of` known windows above the threshold make a pod intensive.
	enough, of = 6, 10
	// calm known windows in a row below leave of the threshold end it.
	calm  = 30
	leave = 0.5
	// forgetAfter is how long a pod of which nothing is known is what it was.
	forgetAfter = 15 * time.Minute
)

// Pod is what was read of a pod.
type Pod struct {
	UID string
	// Rate is bytes per second.
	Rate advise.Sample
	// Counted: an agent before this one took it for intensive. It matters for pods that are new to the State.
	Counted bool
}

// State is what is remembered of the pods of the last reading. The zero value knows nothing.
type State struct {
	at   time.Duration
	pods map[string]pod
}

// pod is one pod's past.
type pod struct {
	begun     time.Duration // the window
	sum       float64       // of its readings
	readings  int
	windows   uint16 // one bit for each known window that was above, the newest first
	below     int    // known windows in a row below leave
	known     time.Duration
	intensive bool
}

// Step takes a reading. at is monotonic. It returns the UIDs of the pods that count as intensive, ascending. bytesPerSecond is the threshold; 0: nothing counts, and nothing is remembered.
func Step(at time.Duration, list []Pod, bytesPerSecond float64, s State) ([]string, State) {
	if !(bytesPerSecond > 0) {
		return nil, State{}
	}
	if at < s.at {
		s = State{} // another clock
	}
	next := State{at: at, pods: make(map[string]pod, len(list))}
	var out []string
	for i := range list {
		p, ok := s.pods[list[i].UID]
		if !ok {
			p = pod{begun: at, known: at, intensive: list[i].Counted}
		}
		p.take(at, list[i].Rate, bytesPerSecond)
		if next.pods[list[i].UID] = p; p.intensive {
			out = append(out, list[i].UID)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), next
}

// take adds a reading, and closes the window if it is over.
func (p *pod) take(at time.Duration, rate advise.Sample, threshold float64) {
	if rate.Known && rate.Value >= 0 {
		p.sum, p.readings = p.sum+rate.Value, p.readings+1
	}
	if at-p.begun < Window {
		return
	}
	if p.readings > 0 {
		p.close(at, p.sum/float64(p.readings), threshold)
	} else if at-p.known > forgetAfter {
		p.intensive, p.windows, p.below = false, 0, 0
	}
	p.begun, p.sum, p.readings = at, 0, 0
}

// close judges a window of which something is known.
func (p *pod) close(at time.Duration, mean, threshold float64) {
	p.known = at
	p.windows = p.windows << 1 & (1<<of - 1)
	if mean > threshold {
		p.windows |= 1
	}
	p.below++
	if mean >= leave*threshold {
		p.below = 0
	}
	switch {
	case bits.OnesCount16(p.windows) >= enough:
		p.intensive = true
	case p.below >= calm:
		p.intensive = false
	}
}
