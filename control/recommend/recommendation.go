package recommend

import (
	"fmt"
	"time"
)

// Recommendation is what the pods of a workload should ask for.
type Recommendation struct {
	// Target is what to ask for; Lower and Upper are within which a pod's requests may stay as they are. Uncapped is the target before the policy's
	// bounds.
	Target, Lower, Upper, Uncapped Amounts
	// MemoryLeast is what memory must not shrink below: the highest peak plus a margin.
	MemoryLeast float64
	// Confidence is from 0, nothing is known, to 1.
	Confidence float64
	// Reasons say in words where the numbers come from.
	Reasons []string
}

// The percentiles within which requests may stay, as the Vertical Pod Autoscaler has them.
const lowerPercentile, upperPercentile = 0.5, 0.95

// Recommend says what to ask for under a policy. Without any use known there is no recommendation: false.
func (f *Profile) Recommend(policy *Policy, now time.Time) (Recommendation, bool) {
	if f.samples == 0 {
		return Recommendation{Reasons: []string{"no use of CPU is known"}}, false
	}
	memory, least, why, known := f.memory.target(now)
	if !known {
		return Recommendation{Reasons: []string{why}}, false
	}
	best := f.best()
	c := f.params.candidate(best)
	r := Recommendation{
		Uncapped:    Amounts{CPU: f.ask(best), Memory: memory},
		MemoryLeast: least,
		Confidence:  f.confidence(now),
		Reasons:     []string{f.cpuReason(c), why},
	}
	longest := f.cpu[len(f.cpu)-1]
	low, _ := longest.Percentile(lowerPercentile)
	high, _ := longest.Percentile(upperPercentile)
	doubt := 1 / max(f.history(now).Hours()/24, 1e-3) // as the Vertical Pod Autoscaler doubts
	r.Lower = Amounts{CPU: min(low*(1+c.Margin), r.Uncapped.CPU), Memory: least}
	r.Upper = Amounts{CPU: max(high*(1+c.Margin), r.Uncapped.CPU) * (1 + doubt), Memory: memory * (1 + doubt)}
	r.Target = r.Uncapped
	policy.cap(&r)
	return r, true
}

func (f *Profile) cpuReason(c Candidate) string {
	how := "cost least of " + plural(len(f.cost), "candidate")
	if f.latest.Sub(f.began) < f.params.Evidence {
		how = fmt.Sprintf("chosen before there is evidence of %s", f.params.Evidence)
	}
	return fmt.Sprintf("cpu: %s: %s", c, how)
}

// history is how long use is known for.
func (f *Profile) history(now time.Time) time.Duration {
	if f.samples == 0 || now.Before(f.began) {
		return 0
	}
	return f.latest.Sub(f.began)
}

// confidence grows with history and falls when samples stop: the share of history, times the share that is fresh.
func (f *Profile) confidence(now time.Time) float64 {
	history, after := f.history(now), f.params.ConfidentAfter
	share := float64(history) / float64(history+after)
	if silent := now.Sub(f.latest); silent > f.params.Every {
		share *= float64(after) / float64(after+silent-f.params.Every)
	}
	return share
}

// Policy bounds a recommendation, as a VerticalPodAutoscaler's resource policy does.
type Policy struct {
	// Min and Max bound the target; 0 of Max is no bound.
	Min, Max Amounts
	// KeepCPU and KeepMemory leave a resource as it is.
	KeepCPU, KeepMemory bool
	// RequestsOnly leaves limits as they are.
	RequestsOnly bool
}

// cap keeps the recommendation within the bounds. A bound that memory needs more than is told: it will run out there.
func (p *Policy) cap(r *Recommendation) {
	if p == nil {
		return
	}
	for _, a := range []*Amounts{&r.Target, &r.Lower, &r.Upper} {
		a.CPU = within(a.CPU, p.Min.CPU, p.Max.CPU)
		a.Memory = within(a.Memory, p.Min.Memory, p.Max.Memory)
	}
	if p.Max.Memory > 0 && p.Max.Memory < r.MemoryLeast {
		r.Reasons = append(r.Reasons, fmt.Sprintf("the policy's most memory, %s, is less than the peak plus a margin, %s: pods may run out of it",
			bytesInWords(p.Max.Memory), bytesInWords(r.MemoryLeast)))
	}
}

func within(value, low, high float64) float64 {
	if high > 0 {
		value = min(value, high)
	}
	return max(value, low)
}
