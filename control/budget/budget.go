// Package budget bounds how many running pods the controllers of a cluster disturb, all of them together.
//
// Rescheduling, recommended resizes and node pools that change hands each have good reasons to evict a pod. Each by itself would stay within its own bound, and together they would
// shake the cluster. So they take what they evict from one Budget, and whoever comes first has it.
//
// Example: 60 an hour, 10 at once. After an idle hour ten pods may be evicted in a minute; the next one a minute later. Of eight that one controller wants while two are left, it gets two.
//
// Some evictions do not wait for a Budget: relief of a loaded node is a protection, in another process, with a bound of its own. They are charged when they are known, and whoever
// asks afterwards gets that much less. The debt is at most what an hour brings, so that a long storm does not stop everything else for days.
//
// Invariants: within any time d no more than Burst + d × PerHour/3600 are given out, whoever asks. A Budget that is zero gives nothing. Time that goes backward gives nothing.
//
// What is charged within that time is part of it, as far as the debt goes.
//
// The package knows no pod and evicts nobody. What is given out and not used can be given back.
package budget

import "time"

// Limits of a Budget.
type Limits struct {
	// PerHour is how many may be disturbed in an hour, in the long run; Burst how many at once after a quiet time.
	PerHour, Burst int
}

// Budget is what is left. Its zero value gives nothing.
type Budget struct {
	limits Limits
	left   float64
	at     time.Time
}

// NewEmpty returns a Budget from which nothing can be taken yet. It is that of a new leader, who does not know what the one before gave out just now: were it full, leaders that come and go would give
// out Burst each.
func NewEmpty(limits Limits, now time.Time) *Budget { return &Budget{limits: limits, at: now} }

// New returns a Budget that is full: nobody was disturbed for long.
func New(limits Limits, now time.Time) *Budget {
	return &Budget{limits: limits, left: float64(limits.Burst), at: now}
}

// Take takes up to n, and returns how many it got.
func (b *Budget) Take(n int, now time.Time) int {
	b.refill(now)
	got := max(min(n, int(b.left)), 0)
	b.left -= float64(got)
	return got
}

// GiveBack returns what was taken and not used.
func (b *Budget) GiveBack(n int) { b.left = min(b.left+float64(max(n, 0)), float64(b.limits.Burst)) }

// Charge takes what others have disturbed without asking, beyond what is left if need be; at most an hour's worth beyond.
func (b *Budget) Charge(n int, now time.Time) {
	b.refill(now)
	b.left = max(b.left-float64(max(n, 0)), min(b.left, -float64(b.limits.PerHour)))
}

// Left is how many could be taken now.
func (b *Budget) Left(now time.Time) int {
	b.refill(now)
	return max(int(b.left), 0)
}

func (b *Budget) refill(now time.Time) {
	if d := now.Sub(b.at); d > 0 {
		b.left = min(b.left+d.Hours()*float64(b.limits.PerHour), float64(b.limits.Burst))
		b.at = now
	}
}
