package resource

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestNewListIsSortedSumWithoutZeros(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := NewTable()
		table.Use("x/a")
		want := map[string]int64{}
		var quantities []Quantity
		for range rapid.IntRange(0, 12).Draw(t, "n") {
			q := Quantity{rapid.SampledFrom([]string{"pods", "cpu", "x/a", "x/b", "memory"}).Draw(t, "name"), rapid.Int64Range(0, 5).Draw(t, "amount")}
			quantities = append(quantities, q)
			want[q.Name] += q.Amount
		}
		list, absent, err := table.NewList(quantities)
		if err != nil || (absent == "x/b") != (want["x/b"] > 0) {
			t.Fatalf("absent is %q: %v", absent, err)
		}
		delete(want, "x/b")
		for i, a := range list {
			if a.Value == 0 || i > 0 && list[i-1].Kind >= a.Kind {
				t.Fatalf("not sorted or zero at %d: %v", i, list)
			}
		}
		for name, amount := range want {
			kind, _ := table.Lookup(name)
			if got := list.Get(kind); got != amount || table.Name(kind) != name {
				t.Fatalf("%s: got %d, want %d", name, got, amount)
			}
		}
	})
}

func TestNewListRefusesNegative(t *testing.T) {
	if _, _, err := NewTable().NewList([]Quantity{{"cpu", -1}}); err == nil {
		t.Error("a negative amount was taken")
	}
}

func TestAddSaturates(t *testing.T) {
	for _, c := range []struct{ a, b, want int64 }{
		{math.MaxInt64, 1, MaxSum}, {math.MinInt64, -1, -MaxSum}, {math.MaxInt64, math.MaxInt64, MaxSum}, {MaxSum, -1, MaxSum - 1}, {2, 3, 5},
	} {
		if got := Add(c.a, c.b); got != c.want {
			t.Errorf("%d + %d = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
