package resource

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// absurd draws amounts from zero to the ends of int64, near the bounds above all.
func absurd(t *rapid.T, label string) int64 {
	near := rapid.SampledFrom([]int64{0, 1 << 30, MaxAmount, MaxSum, -MaxSum, math.MaxInt64, math.MinInt64}).Draw(t, label)
	return near + rapid.Int64Range(-2, 2).Draw(t, label+"±") // it may wrap, to the other end
}

func TestSumsAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var columns [2]Sums
		var want [2][3]big.Int
		for c := range columns {
			columns[c].Grow(len(want[c]))
		}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				c, i, amount := rapid.IntRange(0, 1).Draw(t, "column"), rapid.IntRange(0, 2).Draw(t, "index"), absurd(t, "amount")
				columns[c].Add(i, amount)
				want[c][i].Add(&want[c][i], big.NewInt(amount))
			},
			"addAll": func(t *rapid.T) {
				sign := rapid.SampledFrom([]int64{-1, 1}).Draw(t, "sign")
				columns[0].AddAll(&columns[1], sign)
				for i := range want[0] {
					want[0][i].Add(&want[0][i], new(big.Int).Mul(&want[1][i], big.NewInt(sign)))
				}
			},
			"copy": func(t *rapid.T) {
				i := rapid.IntRange(0, 2).Draw(t, "index")
				columns[1].Copy(i, &columns[0])
				want[1][i].Set(&want[0][i])
			},
			"copyAll": func(t *rapid.T) {
				columns[0].CopyAll(&columns[1])
				for i := range want[0] {
					want[0][i].Set(&want[1][i])
				}
			},
			"zero": func(t *rapid.T) {
				i := rapid.IntRange(0, 2).Draw(t, "index")
				columns[0].Zero(i)
				want[0][i].SetInt64(0)
			},
			"": func(t *rapid.T) {
				for c := range columns {
					for i := range want[c] {
						checkSum(t, &columns[c], i, &want[c][i])
					}
				}
			},
		})
	})
}

func checkSum(t *rapid.T, s *Sums, i int, want *big.Int) {
	if got := s.Exact(i); got.String() != want.String() {
		t.Fatalf("the sum is %s, want %s", got, want)
	}
	read := new(big.Int).Set(want)
	if most := big.NewInt(MaxSum); read.CmpAbs(most) > 0 {
		read.Mul(most, big.NewInt(int64(want.Sign())))
	}
	if got := s.At(i); got != read.Int64() {
		t.Fatalf("%s is read as %d, want %s", want, got, read)
	}
}

func TestListsSaturate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, n := max(absurd(t, "a"), 1), max(absurd(t, "b"), 1), rapid.Int64Range(1, math.MaxInt64).Draw(t, "times")
		want := new(big.Int).Mul(big.NewInt(b), big.NewInt(n))
		want.Add(want, big.NewInt(a))
		if most := big.NewInt(MaxSum); want.Cmp(most) > 0 {
			want = most
		}
		if got := (List{{CPU, a}}).Plus(List{{CPU, b}}, n); got[0].Value != want.Int64() {
			t.Fatalf("%d + %d·%d = %d, want %s", a, n, b, got[0].Value, want)
		}
		list, _, err := NewTable().NewList([]Quantity{{"cpu", a}, {"cpu", b}})
		sum := new(big.Int).Add(big.NewInt(a), big.NewInt(b))
		tooMuch := sum.Cmp(big.NewInt(MaxAmount)) > 0
		if tooMuch != (err != nil) || tooMuch && list.Get(CPU) != MaxAmount || !tooMuch && list.Get(CPU) != sum.Int64() {
			t.Fatalf("%d and %d are %d (%v)", a, b, list.Get(CPU), err)
		}
	})
}
