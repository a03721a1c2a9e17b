package resource

import (
	"maps"
	"math/big"
	"slices"
)

const (
	// MaxAmount bounds one amount: what a pod requests, and what a node has. It is 64 Pi: more than any machine has of anything, and small enough that a
	// hundredfold, which scores compute, is an int64. A pod that asks for more is impossible; if it runs nevertheless, it counts as asking for this.
	MaxAmount = 1 << 56
	// MaxSum bounds what is read of a sum, so that three of them can be added and compared without a thought.
	MaxSum = 1 << 61
)

// Sums is a column of sums of amounts that never wrap. Each is exact, however large it becomes: what was added can be taken away again in any
// order. At reads one, saturated at ±MaxSum; that is beyond what any node or queue has, so that no decision depends on the difference.
//
// Example: two pods of 64 Pi on a node of 8 Gi leave it −128 Pi; when both have left, it has 8 Gi again. In an int64 two hundred of them would leave
// the node with more than it has.
//
// The zero value is an empty column.
type Sums struct {
	at   []int64
	over map[int]wide // the sums that are saturated in at
}

// wide is the sum high·MaxSum + low, with 0 ≤ low < MaxSum.
type wide struct{ high, low int64 }

func (w wide) plus(v wide) wide {
	low := w.low + v.low
	return wide{w.high + v.high + low>>sumBits, low & (MaxSum - 1)}
}

func widened(amount int64) wide { return wide{amount >> sumBits, amount & (MaxSum - 1)} }

const sumBits = 61 // MaxSum is 1 << sumBits

func within(sum int64) bool { return -MaxSum < sum && sum < MaxSum }

// Len is the number of sums.
func (s *Sums) Len() int { return len(s.at) }

// Grow appends zeros until there are n sums.
func (s *Sums) Grow(n int) {
	for len(s.at) < n {
		s.at = append(s.at, 0)
	}
}

// At reads a sum, saturated; 0 for one that is not there.
func (s *Sums) At(i int) int64 {
	if i >= len(s.at) {
		return 0
	}
	return s.at[i]
}

// Add adds an amount, which may be negative.
func (s *Sums) Add(i int, amount int64) {
	if len(s.over) == 0 && within(amount) {
		if sum := s.at[i] + amount; within(sum) {
			s.at[i] = sum
			return
		}
	}
	s.set(i, s.exact(i).plus(widened(amount)))
}

// AddAll adds the sums of another column, sign 1, or takes them away, sign −1.
func (s *Sums) AddAll(other *Sums, sign int64) {
	s.Grow(len(other.at))
	for i, sum := range other.at {
		if within(sum) {
			s.Add(i, sign*sum)
			continue
		}
		w := other.over[i]
		if sign < 0 {
			w = wide{-w.high, 0}.plus(widened(-w.low))
		}
		s.set(i, s.exact(i).plus(w))
	}
}

// Copy makes a sum the same as in another column.
func (s *Sums) Copy(i int, from *Sums) {
	s.at[i] = from.at[i]
	if len(s.over)+len(from.over) == 0 {
		return
	}
	delete(s.over, i)
	if w, ok := from.over[i]; ok {
		s.set(i, w)
	}
}

// CopyAll makes the column the same as another.
func (s *Sums) CopyAll(from *Sums) {
	s.at = append(s.at[:0], from.at...)
	clear(s.over)
	for i, w := range from.over {
		s.set(i, w)
	}
}

// Zero makes a sum 0.
func (s *Sums) Zero(i int) {
	s.at[i] = 0
	delete(s.over, i)
}

// Truncate forgets all but the first n sums, and gives their memory back.
func (s *Sums) Truncate(n int) {
	if n >= len(s.at) {
		return
	}
	s.at = slices.Clone(s.at[:n])
	maps.DeleteFunc(s.over, func(i int, _ wide) bool { return i >= n })
}

// Clear makes all sums 0.
func (s *Sums) Clear() {
	clear(s.at)
	clear(s.over)
}

// Exact is a sum, however large. Who verifies sums asks.
func (s *Sums) Exact(i int) *big.Int {
	if i >= len(s.at) {
		return new(big.Int)
	}
	w := s.exact(i)
	sum := new(big.Int).Lsh(big.NewInt(w.high), sumBits)
	return sum.Add(sum, big.NewInt(w.low))
}

func (s *Sums) exact(i int) wide {
	if w, ok := s.over[i]; ok {
		return w
	}
	return widened(s.at[i])
}

// set files a sum: in the column if it can be read there, else beside it.
func (s *Sums) set(i int, w wide) {
	switch {
	case w.high == 0 || w.high == -1 && w.low > 0:
		s.at[i] = w.high*MaxSum + w.low
		delete(s.over, i)
		return
	case w.high > 0:
		s.at[i] = MaxSum
	default:
		s.at[i] = -MaxSum
	}
	if s.over == nil {
		s.over = make(map[int]wide)
	}
	s.over[i] = w
}
