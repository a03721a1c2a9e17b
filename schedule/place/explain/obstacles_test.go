package explain

import (
	"fmt"
	"strings"
	"testing"

	"hilbert.dev/hilbert/schedule/place/rules"
)

// TestEveryFilterExplainsItself enumerates the table: a filter without obstacles and words, or with neither a change nor a reason why there
// is none, cannot exist.
func TestEveryFilterExplainsItself(t *testing.T) {
	if len(obstacleRules) != len(rules.Filters) {
		t.Fatalf("%d obstacleRules for %d filters", len(obstacleRules), len(rules.Filters))
	}
	for i := range obstacleRules {
		r := &obstacleRules[i]
		if r.filter != rules.Filters[i].Name {
			t.Errorf("rule %d is for %q, the filter is %s", i, r.filter, rules.Filters[i].Name)
		}
		if r.each == nil || r.say == nil {
			t.Errorf("%s: its obstacles must be listed and worded", r.filter)
		}
		if (len(r.changes) == 0) == (r.none == "") {
			t.Errorf("%s: either a change takes its obstacle away, or none says why none does", r.filter)
		}
		if r.leaving && rules.Filters[i].Scope == rules.Static {
			t.Errorf("%s looks at the node only; no pod that leaves can help", r.filter)
		}
	}
}

func TestMessageIsBounded(t *testing.T) {
	long := strings.Repeat("x", 250)
	e := Explanation{Nodes: 9}
	for i := range 20 {
		e.Reasons = append(e.Reasons, Reason{"TaintToleration", fmt.Sprint("node(s) had untolerated taint {", long, i, ": }"), 1})
	}
	for range MaxNearest {
		e.Nearest = append(e.Nearest, NearMiss{long, []Obstacle{{What: "has the untolerated taint " + long}}})
	}
	e.Changes = []Change{{Kind: Tolerate, Node: long, Taint: &Taint{Key: "key", Effect: "NoSchedule"}}}
	text := e.String()
	if len(text) > MaxMessage || !strings.Contains(text, "and 19 more reasons.") || !strings.Contains(text, "It would fit with the taint key") {
		t.Errorf("%d bytes: %s", len(text), text)
	}
}

func TestAmounts(t *testing.T) {
	for _, c := range []struct {
		name  string
		value int64
		r     rounding
		want  string
	}{
		{"cpu", 2000, up, "2"},
		{"cpu", 1500, up, "1500m"},
		{"cpu", -500, down, "-500m"},
		{"pods", 3, up, "3"},
		{"memory", 1 << 30, up, "1Gi"},
		{"memory", 3 << 29, up, "1.5Gi"},
		{"memory", 1<<30 + 1, up, "1.1Gi"},
		{"memory", 1<<30 + 1, down, "1Gi"},
		{"memory", 1<<30 - 1, up, "1024Mi"},
		{"memory", 1023, up, "1023"},
		{"memory", -(1<<30 + 1), down, "-1.1Gi"},
		{"hugepages-2Mi", 4 << 20, up, "4Mi"},
		{"example.com/fpga", 4096, up, "4096"},
		{"memory", 1<<63 - 1, up, "8388608Ti"},
	} {
		if got := amountText(c.name, c.value, c.r); got != c.want {
			t.Errorf("%s %d: %s, want %s", c.name, c.value, got, c.want)
		}
	}
}
