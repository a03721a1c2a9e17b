// Package resource is the vocabulary of amounts: resource names interned to dense kinds, sparse requests and their arithmetic.
//
// Amounts are int64: millicores for cpu, bytes for memory, ephemeral storage and hugepages, a count for pods and extended resources.
//
// Interning makes a request a short sorted list of (kind, amount), and what nodes have free a column per kind: to fit a pod is a few comparisons of
// integers at the node's index. Example: after Intern("nvidia.com/gpu") returned kind 4, a pod that asks for two CPUs and one GPU is
// List{{CPU, 2000}, {4, 1}}.
//
// Invariants: a Kind, once given out by a Table, keeps its name; a List is sorted by Kind and holds no zero.
//
// No sum wraps, whatever pods ask for. One amount is at most MaxAmount: NewList sees to that for requests, the ledger for nodes. What is summed once is
// saturated at MaxSum (Add, List.Plus); what is kept, and taken away from as pods leave, is exact and only read so (Sums). A sum that is read as
// MaxSum is more than any MaxAmount, so that it never passes for something that fits.
//
// It is not the Kubernetes Quantity: the doors (kube, sim) parse those once.
package resource

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"slices"
)

// Kind is the dense index of a resource name in a Table.
type Kind int32

// The kinds that every Table knows.
const (
	CPU Kind = iota // millicores
	Memory
	EphemeralStorage
	Pods
	builtin
)

// Names of the built-in kinds, as Kubernetes spells them.
const (
	NameCPU              = "cpu"
	NameMemory           = "memory"
	NameEphemeralStorage = "ephemeral-storage"
	NamePods             = "pods"
)

// MaxKinds bounds a Table: names come from users, and each costs a column over all nodes.
const MaxKinds = 512

// ErrTooManyKinds is returned when a Table is full.
var ErrTooManyKinds = errors.New("too many distinct resource names")

// Table interns resource names. It only grows.
type Table struct {
	kinds map[string]Kind
	names []string
}

// NewTable returns a Table that knows the built-in kinds.
func NewTable() *Table {
	t := &Table{kinds: make(map[string]Kind)}
	for _, name := range []string{NameCPU, NameMemory, NameEphemeralStorage, NamePods} {
		t.kinds[name] = Kind(len(t.names))
		t.names = append(t.names, name)
	}
	return t
}

// Intern returns the Kind of a name, adding it if there is room.
func (t *Table) Intern(name string) (Kind, error) {
	if kind, ok := t.kinds[name]; ok {
		return kind, nil
	}
	if len(t.names) >= MaxKinds {
		return 0, fmt.Errorf("intern resource %q: %w (limit %d)", name, ErrTooManyKinds, MaxKinds)
	}
	kind := Kind(len(t.names))
	t.kinds[name] = kind
	t.names = append(t.names, name)
	return kind, nil
}

// Name returns the name of a Kind that this Table gave out.
func (t *Table) Name(kind Kind) string { return t.names[kind] }

// Len is the number of kinds known.
func (t *Table) Len() int { return len(t.names) }

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

// NewList interns quantities into a List. Repeated names add up. The error is the first quantity that has no place in a List; all others are in the
// List nevertheless, so that a pod which runs is charged at least those. What is more than MaxAmount is such an error, and counts as MaxAmount.
func (t *Table) NewList(quantities []Quantity) (_ List, err error) {
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
		kind, unknown := t.Intern(q.Name)
		if unknown != nil {
			fail(unknown)
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
	return merged, err
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
