package fairshare

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// TestYields: whatever comes in whatever order, a full table ends with shares that differ by no more than what namespaces ask for, and then does not change any more.
func TestYields(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 40).Draw(t, "most")
		asks := make(map[string]int)
		for i := range rapid.IntRange(1, 6).Draw(t, "namespaces") {
			asks[fmt.Sprint("n", i)] = rapid.IntRange(1, 60).Draw(t, "asks")
		}
		table := &table{held: make(map[string]int), most: most}
		for range most + 2 {
			table.round(asks)
		}
		if table.round(asks) {
			t.Fatalf("it never comes to rest: %v of %v", table.held, asks)
		}
		held := table.held
		for a := range asks {
			for b := range asks {
				if held[a] < asks[a] && held[b] > held[a]+1 {
					t.Fatalf("%s wants %d and has %d, and %s has %d", a, asks[a], held[a], b, held[b])
				}
			}
		}
		if table.size > most {
			t.Fatalf("%d of %d", table.size, most)
		}
	})
}

// table has places that namespaces share.
type table struct {
	held       map[string]int
	size, most int
}

// round has each namespace ask for what it has not, and reports whether that changed anything.
func (x *table) round(asks map[string]int) (changed bool) {
	for name, wants := range asks {
		for range wants - x.held[name] {
			changed = x.ask(name) || changed
		}
	}
	return changed
}

func (x *table) ask(name string) bool {
	if x.size == x.most {
		from, ok := Yields(x.held, name)
		if !ok {
			return false
		}
		x.held[from]--
		x.size--
	}
	x.held[name]++
	x.size++
	return true
}
