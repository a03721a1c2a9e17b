package advise

import (
	"time"

	"hilbert.dev/hilbert/api/spec"
)

// BurstPod is an online pod. Throttled is the share of its periods in which a limit throttled it: that of its own cgroup or of a container's, the greatest.
type BurstPod struct {
	ID        string
	Throttled Sample
}

// BurstState is what the law of bursts remembers: until when pods may burst.
type BurstState struct {
	until map[string]time.Duration
	last  time.Duration
}

// StepBurst says which pods may burst, by ID. A pod that its limit throttles may, for a time. Where it is not known whether it is throttled, nothing begins and nothing ends
// early: the time runs out. For example with throttled 0.05 and hold 10m a pod that is throttled in each tenth of its periods at nine o'clock may burst until ten past.
func StepBurst(at time.Duration, pods []BurstPod, p *spec.CPUBurst, s *BurstState) (may map[string]bool) {
	before := s.until
	s.until = make(map[string]time.Duration)
	if at < s.last || p.Share <= 0 { // after the clock went back nothing is known of when
		before = nil
	}
	s.last = at
	may = make(map[string]bool)
	if p.Share <= 0 {
		return may
	}
	for i := range pods {
		pod := &pods[i]
		until, had := before[pod.ID]
		if pod.Throttled.Known && pod.Throttled.Value >= p.Throttled {
			until, had = at+p.Hold.D(), true
		}
		if had && at < until {
			s.until[pod.ID], may[pod.ID] = min(until, at+p.Hold.D()), true // a shorter hold counts at once
		}
	}
	return may
}

// BurstOf is the burst of a cgroup with a limit of so many microseconds in a period; 0 for one without. It is never more than the limit, which the kernel would refuse.
func BurstOf(quota int64, share float64) int64 {
	if quota <= 0 {
		return 0
	}
	return int64(float64(quota) * min(max(share, 0), 1))
}
