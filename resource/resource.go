// Package resource is the vocabulary of amounts: resource names interned to dense kinds, sparse requests and their arithmetic.
//
// Amounts are int64: millicores for cpu, bytes for memory, ephemeral storage and hugepages, a count for pods and extended resources.
//
// Interning makes a request a short sorted list of (kind, amount), and what nodes have free a column per kind: to fit a pod is a few comparisons of
// integers at the node's index. Example: when a node has example.com/fpga and that is kind 4, a pod that asks for two CPUs and one FPGA is
// List{{CPU, 2000}, {4, 1}}.
//
// Invariants: a Kind keeps its name as long as a node or a queue uses it; a List is sorted by Kind and holds no zero.
//
// No sum wraps, whatever pods ask for. One amount is at most MaxAmount: NewList sees to that for requests, the ledger for nodes. What is summed once is
// saturated at MaxSum (Add, List.Plus); what is kept, and taken away from as pods leave, is exact and only read so (Sums). A sum that is read as
// MaxSum is more than any MaxAmount, so that it never passes for something that fits.
//
// It is not the Kubernetes Quantity: the doors (kube, sim) parse those once.
package resource

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
)

// Quantity is an amount of a resource by name, as the doors deliver it.
type Quantity struct {
	Name   string
	Amount int64
}

// Amount is an amount of a resource by Kind.
type Amount struct {
	Kind  Kind
	Value int64
}

// List is a sparse vector: sorted by Kind, without zeros.
type List []Amount

// NewList makes a List of quantities. Repeated names add up. absent is the first name that has no kind. The error is the first quantity that nothing
// can have: a negative one, or one of more than MaxAmount, which counts as MaxAmount. All else is in the List nevertheless, so that a pod which runs is
// charged at least that.
func (t *Table) NewList(quantities []Quantity) (_ List, absent string, err error) {
	list := make(List, 0, len(quantities))
	fail := func(because error) {
		if err == nil {
			err = because
		}
	}
	for _, q := range quantities {
		if q.Amount == 0 {
			continue
		}
		if q.Amount < 0 {
			fail(fmt.Errorf("resource %q: amount %d is negative", q.Name, q.Amount))
			continue
		}
		kind, ok := t.kinds[q.Name]
		if !ok {
			absent = cmp.Or(absent, q.Name)
			continue
		}
		list = append(list, Amount{kind, min(q.Amount, MaxSum)})
	}
	slices.SortStableFunc(list, func(a, b Amount) int { return cmp.Compare(a.Kind, b.Kind) })
	merged := list[:0]
	for _, a := range list {
		if n := len(merged); n > 0 && merged[n-1].Kind == a.Kind {
			merged[n-1].Value = Add(merged[n-1].Value, a.Value)
			continue
		}
		merged = append(merged, a)
	}
	for i, a := range merged {
		if a.Value > MaxAmount {
			fail(fmt.Errorf("resource %q: amount %d is more than %d, which no node has", t.Name(a.Kind), a.Value, int64(MaxAmount)))
			merged[i].Value = MaxAmount
		}
	}
	return merged, absent, err
}

// Get returns the amount of a Kind, zero when the List does not name it.
func (l List) Get(kind Kind) int64 {
	for _, a := range l {
		if a.Kind == kind {
			return a.Value
		}
	}
	return 0
}

// Add returns a+b, saturated at ±MaxSum.
func Add(a, b int64) int64 {
	return min(max(min(max(a, -MaxSum), MaxSum)+min(max(b, -MaxSum), MaxSum), -MaxSum), MaxSum)
}

// Plus returns l + times·m, for times ≥ 0; sums saturate at MaxSum.
func (l List) Plus(m List, times int64) List {
	sum := make(List, 0, len(l)+len(m))
	for len(l) > 0 || len(m) > 0 {
		switch {
		case len(m) == 0 || len(l) > 0 && l[0].Kind < m[0].Kind:
			sum, l = append(sum, l[0]), l[1:]
		case len(l) == 0 || m[0].Kind < l[0].Kind:
			sum, m = append(sum, Amount{m[0].Kind, scaled(m[0].Value, times)}), m[1:]
		default:
			sum = append(sum, Amount{l[0].Kind, Add(l[0].Value, scaled(m[0].Value, times))})
			l, m = l[1:], m[1:]
		}
	}
	return sum
}

// scaled returns a·n for a, n ≥ 0, saturated at MaxSum.
func scaled(a, n int64) int64 {
	high, low := bits.Mul64(uint64(a), uint64(n))
	if high > 0 || low > MaxSum {
		return MaxSum
	}
	return int64(low)
}
