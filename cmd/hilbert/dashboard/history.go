package dashboard

import "time"

// Sample is the cluster's sums at a time: parts of all CPUs, and pods.
type Sample struct {
	At                    time.Time
	Requested, Used, Lent float64
	UsedKnown             bool
	Waiting               int
}

// maxSamples bounds the history: two hours at a state each ten seconds.
const maxSamples = 720

// history is the last samples, oldest first.
type history []Sample

// add takes in a state, unless it is the one that came last.
func (h history) add(c *Cluster) history {
	if len(h) > 0 && !c.Taken.After(h[len(h)-1].At) {
		return h
	}
	s := Sample{At: c.Taken, Requested: part(c.Requested.MilliCPU, c.All.MilliCPU), Lent: part(c.Lent.MilliCPU, c.All.MilliCPU)}
	if c.UsedKnown > 0 {
		s.Used, s.UsedKnown = part(c.Used.MilliCPU, c.UsedOf.MilliCPU), true
	}
	for _, n := range c.Counts {
		s.Waiting += n
	}
	h = append(h, s)
	return h[max(len(h)-maxSamples, 0):]
}

// part is a share, 0 of nothing.
func part(of, all int64) float64 {
	if all <= 0 {
		return 0
	}
	return float64(of) / float64(all)
}
