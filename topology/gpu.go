package topology

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

const (
	// MaxGPUs is the most GPUs of one node.
	MaxGPUs = 16
	// FullGPU is one whole GPU, in thousandths.
	FullGPU = 1000
)

// Shape is what a node's GPUs are.
type Shape struct {
	GPUs      int    // how many, at most MaxGPUs
	Model     string // one model a node
	Shareable bool   // fractions may be given out
}

// Request asks for a part of one GPU (Milli 1 to 999, Whole 0) or for whole ones (Milli 0).
type Request struct {
	Milli int16
	Whole int8
}

// IsZero reports whether no GPU is asked for.
func (r Request) IsZero() bool { return r.Milli == 0 && r.Whole == 0 }

// Total is the thousandths asked for.
func (r Request) Total() int64 { return int64(r.Milli) + FullGPU*int64(r.Whole) }

// Grant is what a pod holds of a machine: a set of GPUs by index, the thousandths held of each, and parts of zones.
type Grant struct {
	GPUs  uint16
	Milli int16
	Zones ZoneGrant
}

// IsZero reports whether nothing is granted.
func (g Grant) IsZero() bool { return g.GPUs == 0 && g.Zones.IsZero() }

// String renders the indices of the GPUs as the Binding's annotation has them: "0,3". Zones have an annotation, and a String, of their own.
func (g Grant) String() string {
	var b strings.Builder
	for set := g.GPUs; set != 0; set &= set - 1 {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(bits.TrailingZeros16(set)))
	}
	return b.String()
}

// ParseGrant reads the annotation of a pod that asked for r. The number of indices must be what r needs.
func ParseGrant(text string, r Request) (Grant, error) {
	var g Grant
	for field := range strings.SplitSeq(text, ",") {
		index, err := strconv.Atoi(strings.TrimSpace(field))
		if err != nil || index < 0 || index >= MaxGPUs {
			return Grant{}, fmt.Errorf("GPU index %q: want a number from 0 to %d", field, MaxGPUs-1)
		}
		if g.GPUs&(1<<index) != 0 {
			return Grant{}, fmt.Errorf("GPU index %d stands twice", index)
		}
		g.GPUs |= 1 << index
	}
	want := int(r.Whole)
	g.Milli = FullGPU
	if r.Milli > 0 {
		want, g.Milli = 1, r.Milli
	}
	if got := bits.OnesCount16(g.GPUs); got != want {
		return Grant{}, fmt.Errorf("%d GPU indices, but the pod asks for %d", got, want)
	}
	return g, nil
}

// Free is the thousandths left on each GPU of a node. A counter may be negative where a foreign scheduler over-committed it.
type Free [MaxGPUs]int32

// NewFree returns the counters of an empty node.
func NewFree(s Shape) Free {
	var f Free
	for i := range min(s.GPUs, MaxGPUs) {
		f[i] = FullGPU
	}
	return f
}

// Total is the sum of what is left; negative counters count as nothing left.
func (f *Free) Total(s Shape) int64 {
	var total int64
	for i := range s.GPUs {
		total += int64(max(f[i], 0))
	}
	return total
}

// OfferGPUs chooses GPUs for a request: a fraction goes to the fullest GPU that still has room (best fit), whole ones are taken from the
// lowest index. ok is false when the request does not fit.
func OfferGPUs(s Shape, f *Free, r Request) (g Grant, ok bool) {
	switch {
	case r.IsZero():
		return Grant{}, true
	case r.Milli > 0:
		return offerFraction(s, f, r.Milli)
	}
	left := int(r.Whole)
	for i := 0; i < s.GPUs && left > 0; i++ {
		if f[i] == FullGPU {
			g.GPUs |= 1 << i
			left--
		}
	}
	g.Milli = FullGPU
	return g, left == 0
}

func offerFraction(s Shape, f *Free, milli int16) (Grant, bool) {
	if !s.Shareable {
		return Grant{}, false
	}
	best := -1
	for i := range s.GPUs {
		if f[i] >= int32(milli) && (best < 0 || f[i] < f[best]) {
			best = i
		}
	}
	if best < 0 {
		return Grant{}, false
	}
	return Grant{GPUs: 1 << best, Milli: milli}, true
}

// ForceGPUs chooses GPUs for a request that already runs though nobody recorded where (a foreign scheduler placed it): the offer if there
// is one, else the emptiest GPUs, which Commit then drives negative.
func ForceGPUs(s Shape, f *Free, r Request) Grant {
	if g, ok := OfferGPUs(s, f, r); ok {
		return g
	}
	g := Grant{Milli: FullGPU}
	want := int(r.Whole)
	if r.Milli > 0 {
		g.Milli, want = r.Milli, 1
	}
	for range min(want, s.GPUs) {
		best := -1
		for i := range s.GPUs {
			if g.GPUs&(1<<i) == 0 && (best < 0 || f[i] > f[best]) {
				best = i
			}
		}
		g.GPUs |= 1 << best
	}
	return g
}

// Fits reports whether the GPUs of a grant still fit.
func (f *Free) Fits(s Shape, g Grant) bool {
	if bits.Len16(g.GPUs) > s.GPUs || (g.Milli < FullGPU && g.GPUs != 0 && !s.Shareable) {
		return false
	}
	for set := g.GPUs; set != 0; set &= set - 1 {
		if f[bits.TrailingZeros16(set)] < int32(g.Milli) {
			return false
		}
	}
	return true
}

// Commit takes the GPUs of a grant from the counters.
func (f *Free) Commit(g Grant) { f.move(g, -int32(g.Milli)) }

// Release gives the GPUs of a grant back.
func (f *Free) Release(g Grant) { f.move(g, int32(g.Milli)) }

func (f *Free) move(g Grant, milli int32) {
	for set := g.GPUs; set != 0; set &= set - 1 {
		f[bits.TrailingZeros16(set)] += milli
	}
}
