package resource

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestNewListIsSortedSumWithoutZeros(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := NewTable()
		want := map[string]int64{}
		var quantities []Quantity
		for range rapid.IntRange(0, 12).Draw(t, "n") {
			q := Quantity{rapid.SampledFrom([]string{"pods", "cpu", "x/a", "x/b", "memory"}).Draw(t, "name"), rapid.Int64Range(0, 5).Draw(t, "amount")}
			quantities = append(quantities, q)
			want[q.Name] += q.Amount
		}
		list, err := table.NewList(quantities)
		if err != nil {
			t.Fatal(err)
		}
		for i, a := range list {
			if a.Value == 0 || i > 0 && list[i-1].Kind >= a.Kind {
				t.Fatalf("not sorted or zero at %d: %v", i, list)
			}
		}
		for name, amount := range want {
			kind, _ := table.Intern(name)
			if got := list.Get(kind); got != amount || table.Name(kind) != name {
				t.Fatalf("%s: got %d, want %d", name, got, amount)
			}
		}
	})
}

func TestNewListRefusesNegative(t *testing.T) {
	if _, err := NewTable().NewList([]Quantity{{"cpu", -1}}); err == nil {
		t.Error("a negative amount was taken")
	}
}

func TestTableIsBounded(t *testing.T) {
	table := NewTable()
	var err error
	for i := 0; err == nil && i <= MaxKinds; i++ {
		_, err = table.Intern(fmt.Sprint("r/", i))
	}
	if !errors.Is(err, ErrTooManyKinds) || table.Len() != MaxKinds {
		t.Errorf("after %d names: %v", table.Len(), err)
	}
	if _, err := table.Intern(NameCPU); err != nil {
		t.Errorf("a known name is refused by a full table: %v", err)
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
