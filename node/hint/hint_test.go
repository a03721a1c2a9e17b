package hint

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// parse reads "cpu: 0! 1 0,1": each word is a set of NUMA nodes, one with ! is preferred.
func parse(t *testing.T, text string) (out []Resource) {
	t.Helper()
	for line := range strings.Lines(text) {
		name, words, _ := strings.Cut(strings.TrimSpace(line), ":")
		r := Resource{Name: name}
		for word := range strings.FieldsSeq(words) {
			set, preferred := strings.CutSuffix(word, "!")
			h := Hint{Preferred: preferred}
			for number := range strings.SplitSeq(set, ",") {
				var n int
				if _, err := fmt.Sscan(number, &n); err != nil {
					t.Fatal(err)
				}
				h.NUMANodes |= 1 << n
			}
			r.Hints = append(r.Hints, h)
		}
		out = append(out, r)
	}
	return out
}

func text(set uint8) string {
	var out []string
	for ; set != 0; set &= set - 1 {
		out = append(out, fmt.Sprint(bits.TrailingZeros8(set)))
	}
	return "{" + strings.Join(out, ",") + "}"
}

func TestMerge(t *testing.T) {
	datadriven.RunTest(t, "testdata/merge", func(t *testing.T, d *datadriven.TestData) string {
		most := 0
		d.MaybeScanArgs(t, "most", &most)
		resources := parse(t, d.Input)
		c, ok := Merge(resources, most)
		if !ok {
			return "none\n"
		}
		var b strings.Builder
		fmt.Fprintf(&b, "%s preferred=%d width=%d\n", text(c.NUMANodes), c.Preferred, c.Width)
		for i := range resources {
			fmt.Fprintf(&b, "%s %s preferred=%v\n", resources[i].Name, text(c.Hints[i].NUMANodes), c.Hints[i].Preferred)
		}
		return b.String()
	})
}

// product is Merge, told in the plainest way: all ways to take one hint of each resource.
func product(resources []Resource, most int) (best Choice, ok bool) {
	var walk func(i int, c Choice)
	walk = func(i int, c Choice) {
		if i == len(resources) {
			if most > 0 && bits.OnesCount8(c.NUMANodes) > most {
				return
			}
			if !ok || c.better(&best) {
				best, ok = c, true
			}
			return
		}
		if len(resources[i].Hints) == 0 {
			walk(i+1, c)
		}
		for _, h := range resources[i].Hints {
			if h.NUMANodes == 0 {
				continue
			}
			next := Choice{NUMANodes: c.NUMANodes | h.NUMANodes, Preferred: c.Preferred, Width: c.Width + bits.OnesCount8(h.NUMANodes)}
			if h.Preferred {
				next.Preferred++
			}
			walk(i+1, next)
		}
	}
	walk(0, Choice{})
	return best, ok
}

// FuzzMerge holds Merge to the product of all hints, and to itself when resources and hints come in another order.
func FuzzMerge(f *testing.F) {
	f.Add([]byte{2, 0x01, 1, 0x02, 0, 0x83, 1}, uint8(0))
	f.Add([]byte{0xff, 0xff, 0, 1, 2, 3, 4, 5, 6, 7}, uint8(1))
	f.Add([]byte{}, uint8(3))
	f.Fuzz(func(t *testing.T, data []byte, most uint8) {
		const maxResources, maxHints = 4, 5
		var resources []Resource
		for len(data) > 0 && len(resources) < maxResources {
			count := int(data[0] % maxHints)
			data = data[1:]
			r := Resource{Name: fmt.Sprint(len(resources))}
			for ; count > 0 && len(data) > 1; count, data = count-1, data[2:] {
				r.Hints = append(r.Hints, Hint{NUMANodes: data[0], Preferred: data[1]&1 != 0})
			}
			resources = append(resources, r)
		}
		bound := int(most % 9)
		got, ok := Merge(resources, bound)
		want, should := product(resources, bound)
		if ok != should {
			t.Fatalf("%+v most %d: %v, and the product says %v", resources, bound, ok, should)
		}
		if got.NUMANodes != want.NUMANodes || got.Preferred != want.Preferred || got.Width != want.Width {
			t.Fatalf("%+v most %d: %+v, and the product says %+v", resources, bound, got, want)
		}
		if ok {
			check(t, resources, &got, bound)
		}
		turned := slices.Clone(resources)
		slices.Reverse(turned)
		for i := range turned {
			turned[i].Hints = slices.Clone(turned[i].Hints)
			slices.Reverse(turned[i].Hints)
		}
		if again, _ := Merge(turned, bound); again.NUMANodes != got.NUMANodes || again.Preferred != got.Preferred || again.Width != got.Width {
			t.Fatalf("%+v most %d: %+v, and in another order %+v", resources, bound, got, again)
		}
	})
}

// check holds a choice to what each resource has said.
func check(t *testing.T, resources []Resource, c *Choice, most int) {
	t.Helper()
	var all uint8
	for i := range resources {
		all |= c.Hints[i].NUMANodes
		if len(resources[i].Hints) == 0 && c.Hints[i] == (Hint{}) {
			continue
		}
		if !slices.Contains(resources[i].Hints, c.Hints[i]) {
			t.Fatalf("%v has no hint %+v", resources[i], c.Hints[i])
		}
	}
	if all != c.NUMANodes || most > 0 && bits.OnesCount8(all) > most {
		t.Fatalf("%+v of at most %d NUMA nodes, and its hints are %v", c, most, all)
	}
}
