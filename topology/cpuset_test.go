package topology

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func drawSet(t *rapid.T, name string) (CPUSet, map[int]bool) {
	want := map[int]bool{}
	for _, n := range rapid.SliceOfN(rapid.IntRange(0, MaxCPUs-1), 0, 20).Draw(t, name) {
		for i := n; i < min(n+rapid.IntRange(1, 70).Draw(t, "run"), MaxCPUs); i++ {
			want[i] = true
		}
	}
	return CPUs(slices.Collect(maps.Keys(want))...), want
}

// TestCPUSetIsASet compares with a map, and reads each set back from its text.
func TestCPUSetIsASet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, inS := drawSet(t, "s")
		o, inO := drawSet(t, "o")
		if got := slices.Collect(s.All()); !slices.Equal(got, slices.Sorted(maps.Keys(inS))) || s.Len() != len(inS) || s.IsEmpty() != (len(inS) == 0) {
			t.Fatalf("%v has %v", s, got)
		}
		union, both, less := s.Union(o), s.Intersection(o), s.Minus(o)
		for n := range MaxCPUs {
			if s.Has(n) != inS[n] || union.Has(n) != (inS[n] || inO[n]) || both.Has(n) != (inS[n] && inO[n]) || less.Has(n) != (inS[n] && !inO[n]) {
				t.Fatalf("CPU %d of %v and %v", n, s, o)
			}
		}
		if again, err := ParseCPUSet(s.String()); err != nil || again != s {
			t.Fatalf("%v reads back as %v (%v)", s, again, err)
		}
		for range s.All() { // stopping is allowed
			break
		}
		data, err := json.Marshal(s)
		var again CPUSet
		if err == nil {
			err = json.Unmarshal(data, &again)
		}
		if err != nil || again != s {
			t.Fatalf("%s is %v in JSON (%v)", data, again, err)
		}
	})
}

func TestParseCPUSet(t *testing.T) {
	for text, want := range map[string]string{
		"": "", " \n": "", "0": "0", "3,1-2,9\n": "1-3,9", "0-1023": "0-1023", "1, 1": "1", "62-65": "62-65",
	} {
		if s, err := ParseCPUSet(text); err != nil || s.String() != want {
			t.Errorf("%q reads as %v (%v), want %s", text, s, err, want)
		}
	}
	for _, text := range []string{",", "1,", "a", "1-", "-1", "2-1", "1024", "0-1024", "1-2-3", "99999999999", "+1"} {
		if s, err := ParseCPUSet(text); err == nil || !s.IsEmpty() {
			t.Errorf("%q reads as %v", text, s)
		}
	}
}

func FuzzParseCPUSet(f *testing.F) {
	f.Add("0-3,8,10-11")
	f.Add("1023")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseCPUSet(text)
		if err != nil {
			return
		}
		if again, err := ParseCPUSet(s.String()); err != nil || again != s {
			t.Fatalf("%q reads as %v, which reads back as %v (%v)", text, s, again, err)
		}
	})
}
