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
		held, size := make(map[string]int), 0
		round := func() (changed bool) {
			for name, wants := range asks {
				for range wants - held[name] {
					if size == most {
						from, ok := Yields(held, name)
						if !ok {
							continue
						}
						held[from]--
						size--
					}
					held[name]++
					size++
					changed = true
				}
			}
			return changed
		}
		for range most + 2 {
			round()
		}
		if round() {
			t.Fatalf("it never comes to rest: %v of %v", held, asks)
		}
		for a := range asks {
			for b := range asks {
				if held[a] < asks[a] && held[b] > held[a]+1 {
					t.Fatalf("%s wants %d and has %d, and %s has %d", a, asks[a], held[a], b, held[b])
				}
			}
		}
		if size > most {
			t.Fatalf("%d of %d", size, most)
		}
	})
}
