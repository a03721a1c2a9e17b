package dispatch

import (
	"fmt"
	"time"
)

// Rules say when the nodes are divided among the schedulers, and when no more. Between a limit to split and the one to merge nothing changes, and each
// must have been passed for a while: so a load that swings about a limit changes nothing.
type Rules struct {
	// Always: there is a partition for each scheduler whatever the load; the rest is not read (ADR 0025).
	Always bool
	// SplitAllocated is the part of the cluster's CPUs that is allocated from which on the nodes are divided; below MergeAllocated they no longer
	// need to be.
	SplitAllocated, MergeAllocated float64
	// The nodes are divided too where more than SplitPerSecond pods are placed a second while more than the part SplitConflicts of all Plans is
	// rejected. Once they are divided few are; so only fewer pods than MergePerSecond say that they no longer need to be.
	SplitPerSecond, MergePerSecond float64
	SplitConflicts                 float64
	// SplitAfter and MergeAfter are how long it must have been so.
	SplitAfter, MergeAfter time.Duration
}

// DefaultRules divide the nodes at all times.
func DefaultRules() Rules { return Rules{Always: true} }

// LoadRules split when 90 % of the CPUs are allocated, or when 2,000 pods a second have 1 % of conflicts.
func LoadRules() Rules {
	return Rules{
		SplitAllocated: 0.9, MergeAllocated: 0.8, SplitPerSecond: 2000, MergePerSecond: 1000, SplitConflicts: 0.01,
		SplitAfter: 30 * time.Second, MergeAfter: 10 * time.Minute,
	}
}

// Load is what a Partitioner decides by.
type Load struct {
	// Schedulers that decide now.
	Schedulers int
	// Allocated is the part of the cluster's CPUs that pods request, PerSecond how many pods were placed lately, and Conflicts the part of the Plans
	// that was rejected.
	Allocated, PerSecond, Conflicts float64
}

// Partitioner decides into how many partitions the nodes are divided: one, or one for each scheduler.
type Partitioner struct {
	rules Rules
	parts int
	wish  int // what the load asks for
	since time.Time
}

// NewPartitioner returns a Partitioner with one partition.
func NewPartitioner(rules Rules) *Partitioner { return &Partitioner{rules: rules, parts: 1, wish: 1} }

// Parts is how many partitions there are.
func (p *Partitioner) Parts() int { return p.parts }

// Observe takes in a load, and reports why the number of partitions is another one now; empty if it is not.
func (p *Partitioner) Observe(now time.Time, l Load) (why string) {
	l.Schedulers = min(l.Schedulers, MaxParts)        // those beyond share partitions
	if left := max(l.Schedulers, 1); left < p.parts { // a partition without a scheduler would be nobody's
		p.parts = left
		p.wish, p.since = p.parts, now
		return fmt.Sprintf("%d schedulers are left", l.Schedulers)
	}
	before := p.parts
	wish, why := p.wishFor(&l)
	if wish != p.wish {
		p.wish, p.since = wish, now
	}
	if p.rules.Always {
		p.parts, p.wish = wish, wish
		if wish == before {
			return ""
		}
		return why
	}
	after := p.rules.SplitAfter
	if wish < p.parts {
		after = p.rules.MergeAfter
	}
	if wish == p.parts || now.Sub(p.since) < after {
		return ""
	}
	p.parts = wish
	return why
}

// wishFor is how many partitions a load asks for.
func (p *Partitioner) wishFor(l *Load) (parts int, why string) {
	r := &p.rules
	full, busy := l.Allocated > r.SplitAllocated, l.PerSecond > r.SplitPerSecond && l.Conflicts > r.SplitConflicts
	if p.parts > 1 {
		full, busy = l.Allocated > r.MergeAllocated, l.PerSecond > r.MergePerSecond
	}
	switch {
	case l.Schedulers < 2:
		return 1, "one scheduler is left"
	case r.Always:
		return l.Schedulers, fmt.Sprintf("there are %d schedulers", l.Schedulers)
	case full:
		return l.Schedulers, fmt.Sprintf("%.0f %% of the CPUs are allocated", 100*l.Allocated)
	case busy:
		return l.Schedulers, fmt.Sprintf("%.0f pods a second, %.1f %% of the Plans rejected", l.PerSecond, 100*l.Conflicts)
	}
	return 1, fmt.Sprintf("%.0f %% of the CPUs are allocated, %.0f pods a second", 100*l.Allocated, l.PerSecond)
}
