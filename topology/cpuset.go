package topology

import (
	"fmt"
	"iter"
	"math/bits"
	"strconv"
	"strings"
)

// MaxCPUs is the most logical CPUs of one machine.
const MaxCPUs = 1024

// CPUSet is a set of logical CPUs (or of NUMA nodes), by number. It is a value: == compares, assignment copies.
type CPUSet [MaxCPUs / 64]uint64

// CPUs returns the set of the numbers, each from 0 to MaxCPUs-1.
func CPUs(numbers ...int) (s CPUSet) {
	for _, n := range numbers {
		s.Add(n)
	}
	return s
}

// ParseCPUSet reads the kernel's list format, "0-3,8,10-11". An empty text is the empty set.
func ParseCPUSet(text string) (s CPUSet, err error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return s, nil
	}
	for field := range strings.SplitSeq(text, ",") {
		low, high, ranged := strings.Cut(strings.TrimSpace(field), "-")
		from, err := strconv.ParseUint(low, 10, 31)
		to := from
		if err == nil && ranged {
			to, err = strconv.ParseUint(high, 10, 31)
		}
		if err != nil || to < from || to >= MaxCPUs {
			return CPUSet{}, fmt.Errorf("CPU list %q: %q: want a number or a range of numbers below %d", text, field, MaxCPUs)
		}
		for n := from; n <= to; n++ {
			s.Add(int(n))
		}
	}
	return s, nil
}

// String renders the set in the kernel's list format.
func (s CPUSet) String() string {
	var b strings.Builder
	for n := s.Next(0); n >= 0; {
		end := n
		for end+1 < MaxCPUs && s.Has(end+1) {
			end++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(n))
		if end > n {
			b.WriteByte('-')
			b.WriteString(strconv.Itoa(end))
		}
		n = s.Next(end + 1)
	}
	return b.String()
}

// MarshalText and UnmarshalText use the kernel's list format.
func (s CPUSet) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (s *CPUSet) UnmarshalText(text []byte) (err error) {
	*s, err = ParseCPUSet(string(text))
	return err
}

// Add puts a CPU into the set.
func (s *CPUSet) Add(n int) { s[n/64] |= 1 << (n % 64) }

// Has reports whether a CPU is in the set.
func (s CPUSet) Has(n int) bool { return s[n/64]&(1<<(n%64)) != 0 }

// Len is the number of CPUs in the set.
func (s CPUSet) Len() (n int) {
	for _, word := range s {
		n += bits.OnesCount64(word)
	}
	return n
}

// IsEmpty reports whether the set has no CPU.
func (s CPUSet) IsEmpty() bool { return s == CPUSet{} }

// Union returns the CPUs of either set.
func (s CPUSet) Union(t CPUSet) CPUSet {
	for i := range s {
		s[i] |= t[i]
	}
	return s
}

// Intersection returns the CPUs of both sets.
func (s CPUSet) Intersection(t CPUSet) CPUSet {
	for i := range s {
		s[i] &= t[i]
	}
	return s
}

// Minus returns the CPUs of s that are not in t.
func (s CPUSet) Minus(t CPUSet) CPUSet {
	for i := range s {
		s[i] &^= t[i]
	}
	return s
}

// All goes over the CPUs in ascending order.
func (s CPUSet) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for n := s.Next(0); n >= 0; n = s.Next(n + 1) {
			if !yield(n) {
				return
			}
		}
	}
}

// Next is the lowest CPU from n on, -1 if there is none.
func (s *CPUSet) Next(n int) int {
	for n < MaxCPUs {
		if word := s[n/64] >> (n % 64); word != 0 {
			return n + bits.TrailingZeros64(word)
		}
		n = (n/64 + 1) * 64
	}
	return -1
}
