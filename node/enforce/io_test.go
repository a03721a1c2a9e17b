package enforce

import (
	"strings"
	"testing"
)

func TestCanonicalIO(t *testing.T) {
	for _, c := range []struct{ file, text, want string }{
		{IOWeight, "100", "default 100"},
		{IOWeight, "default 800\n8:0 200\n", "default 800"},
		{IOWeight, "8:0 200\ndefault 800\n", "default 800"},
		{IOWeight, "0", ""},
		{IOWeight, "10001", ""},
		{IOWeight, "", ""},
		{IOMax, "8:0 wbps=1048576", "8:0 rbps=max wbps=1048576 riops=max wiops=max"},
		{IOMax, "8:16 riops=5\n8:0 wiops=max rbps=07\n", "8:0 rbps=7 wbps=max riops=max wiops=max\n8:16 rbps=max wbps=max riops=5 wiops=max"},
		{IOMax, "\n", "-"},
		{IOMax, "8:0 rbps=0", ""},
		{IOMax, "8:0 rbps=-1", ""},
		{IOMax, "8:0 speed=1", ""},
		{IOMax, "8:0 rbps=1 rbps=2", ""},
		{IOMax, "8:0 rbps=1\n8:0 wbps=1", ""},
		{IOMax, "sda rbps=1", ""},
		{IOMax, "8 rbps=1", ""},
		{IOMax, "+8:0 rbps=1", ""},
		{IOLatency, "8:0 target=5000\n", "8:0 target=5000"},
		{IOLatency, "8:16 target=07\n8:0", "8:0 target=0\n8:16 target=7"},
		{IOLatency, "8:0 target=-1", ""},
		{IOLatency, "8:0 target=1 target=2", ""},
		{IOLatency, "8:0 rbps=1", ""},
		{IOLatency, "sda target=1", ""},
	} {
		kind := kinds[c.file]
		got, err := kind.canonical(c.text)
		if want := strings.TrimSuffix(c.want, "-"); got != want || (err == nil) != (c.want != "") {
			t.Errorf("%s %q: %q, %v, want %q", c.file, c.text, got, err, want)
		}
	}
}

func TestRightLimits(t *testing.T) {
	const limited, free = "8:0 rbps=max wbps=7 riops=max wiops=max", "8:0 rbps=max wbps=max riops=max wiops=max"
	const other = "8:16 rbps=1 wbps=max riops=max wiops=max"
	for _, c := range []struct {
		actual, want string
		right        bool
	}{
		{limited, limited, true},
		{limited + "\n" + other, limited, true},
		{other, limited, false},
		{"", limited, false},
		{"", free, true}, // the kernel does not list what has no limit
		{other, free, true},
		{limited, free, false},
		{limited, limited + "\n" + other, false},
	} {
		kind := kinds[IOMax]
		if kind.right(c.actual, c.want) != c.right {
			t.Errorf("%q for %q: want right %v", c.actual, c.want, c.right)
		}
	}
}

// A latency is written once, kept beside those of other disks, and taken away by a 0, after which the kernel does not list it.
func TestTableLatencies(t *testing.T) {
	w := newWorld("p/io.latency=8:16 target=9")
	table := NewTable()
	want(t, table, "p/io.latency=8:0 target=5000")
	table.Tick(w)
	w.expect(t, "p/io.latency=8:0 target=5000")
	table.Tick(w)
	w.expect(t)
	want(t, table, "p/io.latency=8:0 target=0")
	table.Tick(w)
	w.expect(t, "p/io.latency=8:0 target=0")
	w = newWorld("p/io.latency=8:16 target=9")
	table.Tick(w)
	w.expect(t)
}

// A limit is written once, and taken away by saying that there is none.
func TestTableLimits(t *testing.T) {
	w := newWorld("p/io.max=8:16 rbps=5 wbps=max riops=max wiops=max", "p/io.weight=default 100\n8:0 10")
	table := NewTable()
	want(t, table, "p/io.max=8:0 wbps=9", "p/io.weight=50")
	table.Tick(w)
	w.expect(t, "p/io.max=8:0 rbps=max wbps=9 riops=max wiops=max", "p/io.weight=default 50")
	table.Tick(w)
	w.expect(t)
	want(t, table, "p/io.max=8:0")
	table.Tick(w)
	w.expect(t, "p/io.max=8:0 rbps=max wbps=max riops=max wiops=max")
}
