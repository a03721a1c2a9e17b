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
	over map[int]Wide // the sums that are saturated in at
}

// Wide is a sum of amounts in 124 bits, which no sum of amounts that memory can hold fills: high·MaxSum + low, with 0 ≤ low < MaxSum, so that equal
// sums are equal values. The zero value is 0.
type Wide struct{ high, low int64 }

// Widen returns an amount as a Wide.
func Widen(amount int64) Wide { return Wide{amount >> sumBits, amount & (MaxSum - 1)} }

// Plus returns w + v.
func (w Wide) Plus(v Wide) Wide {
	low := w.low + v.low
	return Wide{w.high + v.high + low>>sumBits, low & (MaxSum - 1)}
}

// Minus returns w − v.
func (w Wide) Minus(v Wide) Wide { return w.Plus(Wide{-v.high, 0}).Plus(Widen(-v.low)) }

// Exceeds says whether w > v.
func (w Wide) Exceeds(v Wide) bool { return w.high > v.high || w.high == v.high && w.low > v.low }

// String is the sum in decimal digits.
func (w Wide) String() string {
	sum := new(big.Int).Lsh(big.NewInt(w.high), sumBits)
	return sum.Add(sum, big.NewInt(w.low)).String()
}

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
	s.set(i, s.exact(i).Plus(Widen(amount)))
}

// AddAll adds the sums of another column, sign 1, or takes them away, sign −1.
func (s *Sums) AddAll(other *Sums, sign int64) {
	s.Grow(len(other.at))
	for i, sum := range other.at {
		if within(sum) {
			s.Add(i, sign*sum)
			continue
		}
		if w := other.over[i]; sign < 0 {
			s.set(i, s.exact(i).Minus(w))
		} else {
			s.set(i, s.exact(i).Plus(w))
		}
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
	maps.DeleteFunc(s.over, func(i int, _ Wide) bool { return i >= n })
}

// Clear makes all sums 0.
func (s *Sums) Clear() {
	clear(s.at)
	clear(s.over)
}

// Exact is a sum, however large. Who verifies sums asks.
func (s *Sums) Exact(i int) Wide {
	if i >= len(s.at) {
		return Wide{}
	}
	return s.exact(i)
}

func (s *Sums) exact(i int) Wide {
	if w, ok := s.over[i]; ok {
		return w
	}
	return Widen(s.at[i])
}

// set files a sum: in the column if it can be read there, else beside it.
func (s *Sums) set(i int, w Wide) {
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
		s.over = make(map[int]Wide)
	}
	s.over[i] = w
}
