package resource

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// tableNames are the names that the property uses.
func tableNames() []string {
	return []string{NameCPU, "a", "b", "c", "d", "e", "f", "g", "crowd/1", "crowd/2"}
}

// useSome uses and releases names.
func useSome(t *rapid.T, table *Table, users map[string]int) {
	for range rapid.IntRange(1, 6).Draw(t, "uses") {
		name := rapid.SampledFrom(tableNames()).Draw(t, "name")
		if users[name] > 0 && rapid.Bool().Draw(t, "release") {
			table.Release(name)
			users[name]--
		} else {
			table.Use(name)
			users[name]++
		}
	}
}

// settle holds what Settle tells against the kinds that were known before.
func settle(t *rapid.T, table *Table, users map[string]int, known map[string]Kind) {
	changed, waited := table.Settle()
	if err := table.Verify(users); err != nil {
		t.Fatal(err)
	}
	for _, name := range tableNames() {
		kind, ok := table.Lookup(name)
		before, had := known[name]
		if !slices.Contains(changed, name) && (ok != had || kind != before) && name != NameCPU {
			t.Fatalf("%s had kind %d (%v), has %d (%v), and that was not told", name, before, had, kind, ok)
		}
		if slices.Contains(waited, name) && !ok {
			t.Fatalf("%s waited for a kind, and has none", name)
		}
		delete(known, name)
		if ok {
			known[name] = kind
		}
	}
}

// A name has a kind as long as it is used and there is room; the same one all the time; and no two have the same.
func TestTableFollowsUse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table, users := NewTable(), map[string]int{}
		for i := range rapid.SampledFrom([]int{0, MaxKinds - 6}).Draw(t, "crowd") {
			name := fmt.Sprint("crowd/", i)
			table.Use(name)
			users[name]++
		}
		table.Settle()
		known := map[string]Kind{}
		for _, name := range []string{"crowd/1", "crowd/2"} {
			if kind, ok := table.Lookup(name); ok {
				known[name] = kind
			}
		}
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			useSome(t, table, users)
			settle(t, table, users, known)
		}
		for name, n := range users {
			for range n {
				table.Release(name)
			}
		}
		table.Settle()
		if live, waiting := table.Live(); live != int(builtin) || waiting != 0 || table.Len() != int(builtin) {
			t.Fatalf("nothing is used, and %d names have kinds up to %d, %d wait", live, table.Len(), waiting)
		}
	})
}

func TestTableIsBounded(t *testing.T) {
	table := NewTable()
	for i := range 2 * MaxKinds {
		table.Use(fmt.Sprint("r/", i))
	}
	if live, waiting := table.Live(); live != MaxKinds || waiting != MaxKinds+int(builtin) {
		t.Errorf("%d names have a kind, %d wait", live, waiting)
	}
	if err := table.Problem("r/1000"); !errors.Is(err, ErrTooManyKinds) {
		t.Error(err)
	}
	table.Intern("own") // there is always room for our own
	if err := table.Problem("other"); errors.Is(err, ErrTooManyKinds) {
		t.Error(err)
	}
}
