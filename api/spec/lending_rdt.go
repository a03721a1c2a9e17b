package spec

import "time"

// LendingRDT limits the last-level cache and the memory bandwidth of reclaimed pods, where the processor can divide them.
type LendingRDT struct {
	// Enabled turns these limits on.
	Enabled bool `json:"enabled,omitempty"`
	// CachePercent is the share of the last-level cache that reclaimed pods may use.
	CachePercent int `json:"cachePercent"`
	// BandwidthPercent is the share of the memory bandwidth that reclaimed pods may use. The hardware delays the requests of each thread by it: more threads move more all the same.
	BandwidthPercent int `json:"bandwidthPercent"`
	// Feedback lowers BandwidthPercent while memory is full.
	Feedback RDTFeedback `json:"feedback" needs:"node.lending.rdt.feedback.domainBytesPerSecond"`
}

// RDTFeedback lowers and raises what reclaimed pods may use of the memory bandwidth by what is measured, in each domain of the last-level cache by itself. docs/concepts/colocation.md explains how.
type RDTFeedback struct {
	// DomainBytesPerSecond is what the memory of one domain (mostly a socket) carries, in bytes per second. It has no default, for it differs between machines by more than ten times: what a copy on all
	// CPUs of a socket moves. 0: nothing is measured, and BandwidthPercent stays.
	DomainBytesPerSecond int64 `json:"domainBytesPerSecond,omitempty"`
	// HighPercent is from what share of that on the percentage falls.
	HighPercent int `json:"highPercent"`
	// LowPercent is up to what share of it the percentage rises again. It is below HighPercent.
	LowPercent int `json:"lowPercent"`
	// LeastPercent is what reclaimed pods always have.
	LeastPercent int `json:"leastPercent"`
	// Hold is how long a domain has to be below LowPercent before the percentage rises by a step, and the least time between two such steps.
	Hold Duration `json:"hold"`
}

// DefaultRDTFeedback is off: what a domain carries is not known.
func DefaultRDTFeedback() RDTFeedback {
	return RDTFeedback{HighPercent: 90, LowPercent: 75, LeastPercent: 10, Hold: Duration(time.Minute)}
}

// minDomainBytes and maxDomainBytes bound RDTFeedback.DomainBytesPerSecond: the one is less than any memory carries, so that GB/s written as bytes are noticed.
const minDomainBytes, maxDomainBytes = 1_000_000_000, 10_000_000_000_000

func (r *LendingRDT) check(at string, bad report) {
	percents := func(field string, percent int) {
		if percent < 1 || percent > 100 {
			bad(at+field, "%d: want 1 to 100 percent", percent)
		}
	}
	percents("cachePercent", r.CachePercent)
	percents("bandwidthPercent", r.BandwidthPercent)
	f := &r.Feedback
	at += "feedback."
	percents("highPercent", f.HighPercent)
	percents("lowPercent", f.LowPercent)
	percents("leastPercent", f.LeastPercent)
	if f.LowPercent >= f.HighPercent {
		bad(at+"lowPercent", "%d is not below %shighPercent (%d)", f.LowPercent, at, f.HighPercent)
	}
	if f.Hold < Duration(10*time.Second) || f.Hold > Duration(time.Hour) {
		bad(at+"hold", "%v: want 10s to 1h", f.Hold.D())
	}
	switch bytes := f.DomainBytesPerSecond; {
	case bytes == 0: // off
	case bytes < minDomainBytes || bytes > maxDomainBytes:
		bad(at+"domainBytesPerSecond", "%d: want 0, or %d (1 GB/s) to %d", bytes, minDomainBytes, maxDomainBytes)
	case f.LeastPercent > r.BandwidthPercent:
		bad(at+"leastPercent", "%d is above node.lending.rdt.bandwidthPercent (%d): the percentage could not fall; write less", f.LeastPercent, r.BandwidthPercent)
	}
}
