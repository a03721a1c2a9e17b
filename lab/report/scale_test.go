package report

import (
	"strings"
	"testing"
)

func labels(s scale) string {
	var out []string
	for _, t := range s.ticks {
		out = append(out, t.label)
	}
	return strings.Join(out, ", ")
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		what string
		got  scale
		want string
	}{
		{"no time", timeScale(0), "0 s, 0.2 s, 0.4 s, 0.6 s, 0.8 s, 1 s"},
		{"seconds", timeScale(34), "0 s, 5 s, 10 s, 15 s, 20 s, 25 s, 30 s"},
		{"two minutes", timeScale(138), "0 s, 20 s, 40 s, 60 s, 80 s, 100 s, 120 s"},
		{"six minutes", timeScale(390), "0 min, 1 min, 2 min, 3 min, 4 min, 5 min, 6 min"},
		{"hours", timeScale(4 * 3600), "0 h, 1 h, 2 h, 3 h, 4 h"},
		{"nothing", countScale(0), "0, 1, 2, 3, 4"},
		{"thousands", countScale(8437), "0, 2,000, 4,000, 6,000, 8,000, 10k"},
		{"full", percentScale(97), "0 %, 25 %, 50 %, 75 %, 100 %"},
		{"nearly empty", percentScale(0.7), "0 %, 0.25 %, 0.5 %, 0.75 %, 1 %"},
		{"over-committed", percentScale(130), "0 %, 50 %, 100 %, 150 %, 200 %"},
		{"waits", waitScale(3, 1300), "1 ms, 10 ms, 100 ms, 1 s, 10 s"},
	} {
		if got := labels(c.got); got != c.want {
			t.Errorf("%s: got %s, want %s", c.what, got, c.want)
		}
	}
}
