package oom

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/api/spec"
)

func priorities(t *rapid.T, name string) int32 {
	return rapid.OneOf(rapid.Int32(), rapid.SampledFrom([]int32{math.MinInt32, -1000, -1, 0, 1, 1000, 1_000_000, 1_000_000_000, critical - 1})).Draw(t, name)
}

// drawn is a container of a level as the kubelet makes them, whose pod Hilbert has bound and which is none of the cluster's own.
func drawn(t *rapid.T, level spec.QoSLevel, name string) Container {
	priority := min(priorities(t, name+" priority"), critical-1)
	requested := rapid.IntRange(0, Thousandths).Draw(t, name+" requested")
	kubelet := rapid.SampledFrom([]int{-997, max(2, min(999, Thousandths-requested)), 1000}).Draw(t, name+" kubelet")
	return Container{Level: level, Priority: &priority, Requested: requested, Kubelet: kubelet}
}

// Whatever priorities and requests are, the levels die in order, and nothing reaches what the kubelet and the runtime have.
func TestLevels(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		before := 1001
		for _, level := range []spec.QoSLevel{spec.QoSReclaimed, spec.QoSShared, spec.QoSDedicated, spec.QoSSystem} {
			lowest := before
			for range 3 {
				c := drawn(t, level, string(level))
				got := Score(&c)
				if got >= before || got < -997 {
					t.Fatalf("%+v has %d; who is to die before has %d", c, got, before)
				}
				if level == spec.QoSShared && c.Kubelet >= 2 && got < 2 {
					t.Fatalf("%+v has %d, and outlives the host's services", c, got)
				}
				lowest = min(lowest, got)
			}
			before = lowest
		}
	})
}

// The bands touch nowhere, from the highest priority that requested most in one to the lowest that requested nothing in the next.
func TestBands(t *testing.T) {
	t.Parallel()
	for i, b := range bands {
		last, next := b.first-b.doubling*rank(math.MaxInt32)-b.requested, -998
		if i+1 < len(bands) {
			next = bands[i+1].first
		}
		if last <= next {
			t.Errorf("%s ends at %d, and what is below begins at %d", b.level, last, next)
		}
	}
}

// points are what the kernel compares of a process that holds so much.
func points(c *Container, held int) int { return Score(c) + held }

// Within a level a higher priority never dies before a lower one that requested as much, nor who requested more before who requested less; and of pods of a level
// and a priority that hold what they requested, as far as the band goes, none dies before one that holds more.
func TestWithinALevel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		level := rapid.SampledFrom([]spec.QoSLevel{spec.QoSReclaimed, spec.QoSShared, spec.QoSDedicated, spec.QoSSystem}).Draw(t, "level")
		a := drawn(t, level, "a")
		b, c := a, a
		higher := priorities(t, "higher")
		higher = min(max(higher, *a.Priority), critical-1)
		b.Priority = &higher
		c.Requested = rapid.IntRange(a.Requested, Thousandths).Draw(t, "more")
		if Score(&b) > Score(&a) || Score(&c) > Score(&a) {
			t.Fatalf("%d; with priority %d %d; with %d requested %d", Score(&a), higher, Score(&b), c.Requested, Score(&c))
		}
		for _, of := range bands {
			if of.level != level || a.Requested > of.requested || c.Requested > of.requested || level == spec.QoSShared && (Score(&a) <= 2 || Score(&c) <= 2) {
				continue
			}
			over := rapid.IntRange(1, Thousandths).Draw(t, "over")
			if points(&a, a.Requested+over) <= points(&c, c.Requested) {
				t.Fatalf("%+v with %d more than it requested dies after %+v with what it requested", a, over, c)
			}
		}
	})
}

// A doubling of the priority is a step, on either side of 0.
func TestRank(t *testing.T) {
	t.Parallel()
	for i, p := range []int32{math.MinInt32, math.MinInt32 + 1, -2, -1, 0, 1, 2, 1000, 2000, math.MaxInt32} {
		if want := []int{0, 1, 30, 31, 32, 33, 34, 42, 43, 63}[i]; rank(p) != want {
			t.Errorf("priority %d has rank %d, not %d", p, rank(p), want)
		}
	}
}

// Online containers of which it is not known that they may die sooner than the kubelet wants do not.
func TestKubeletsWord(t *testing.T) {
	t.Parallel()
	own, users := int32(2_000_001_000), int32(1_000_000_000)
	for _, c := range []struct {
		name string
		of   Container
		want int
	}{
		{"Guaranteed, bound by another scheduler", Container{Level: spec.QoSShared, Kubelet: -997, Requested: 100}, -997},
		{"Burstable, bound by another scheduler", Container{Level: spec.QoSShared, Kubelet: 900, Requested: 100}, 236},
		{"critical for the node", Container{Level: spec.QoSShared, Priority: &own, Kubelet: -997}, -997},
		{"a user's highest priority", Container{Level: spec.QoSShared, Priority: &users, Kubelet: -997, Requested: 100}, 176},
		{"a level that cannot be read", Container{Level: "platinum", Kubelet: 999}, 336},
		{"reclaimed, bound by another scheduler", Container{Level: spec.QoSReclaimed, Kubelet: 1000}, 968},
		{"asks for all there is, and may hold more", Container{Level: spec.QoSShared, Kubelet: 2, Requested: 1000}, 2},
	} {
		if got := Score(&c.of); got != c.want {
			t.Errorf("%s: %d, not %d", c.name, got, c.want)
		}
	}
}
