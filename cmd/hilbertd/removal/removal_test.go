package removal

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func set(names string) map[string]bool {
	out := make(map[string]bool)
	for name := range strings.FieldsSeq(names) {
		out[name] = true
	}
	return out
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		what string
		seen Seen
		want string
	}{
		{"no agent ever ran", Seen{Nodes: set("n1"), Configured: true}, "done"},
		{"no node", Seen{Configured: true, Cleanup: true}, "done"},
		{"not begun", Seen{Reports: []string{"n1"}, Nodes: set("n1"), Covered: set("n1"), Configured: true}, "wait: the controller of the DaemonSet hilbert-cleanup has not looked at it"},
		{"half", Seen{Reports: []string{"n1", "n2"}, Nodes: set("n1 n2"), Covered: set("n1 n2"), Configured: true, Cleanup: true, Wanted: 2, Ready: 1}, "wait: 1 of 2 nodes are clean"},
		{"clean", Seen{Reports: []string{"n1"}, Nodes: set("n1"), Covered: set("n1"), Configured: true, Cleanup: true, Wanted: 1, Ready: 1}, "wait: all nodes are clean; reports to delete: 1; forget n1"},
		{"forgotten", Seen{Nodes: set("n1"), Covered: set("n1"), Configured: true, Cleanup: true, Wanted: 1, Ready: 1}, "done"},
		{"an agent that has not reported", Seen{Nodes: set("n1"), Covered: set("n1"), Configured: true, Cleanup: true, Wanted: 1}, "wait: 0 of 1 nodes are clean"},
		{"a node is no more", Seen{Reports: []string{"n1", "n9"}, Nodes: set("n1"), Covered: set("n1"), Configured: true, Cleanup: true, Wanted: 1}, "wait: 0 of 1 nodes are clean; forget n9"},
		{"the label was taken off", Seen{Reports: []string{"n1", "n2"}, Nodes: set("n1 n2"), Covered: set("n1"), Configured: true, Cleanup: true, Wanted: 1, Ready: 1}, "refuse: n2"},
		{"no cleanup", Seen{Reports: []string{"n1"}, Nodes: set("n1"), Configured: true}, "refuse: n1"},
		{"a release without agents", Seen{Nodes: set("n1"), Covered: set("n1"), Cleanup: true, Wanted: 1}, "done"},
		{"a release without agents, before the controller", Seen{Nodes: set("n1"), Covered: set("n1")}, "done"},
		{"agents went without a cleanup", Seen{Reports: []string{"n1"}, Nodes: set("n1"), Covered: set("n1"), Cleanup: true, Wanted: 1}, "refuse: n1"},
		{"they went with their nodes", Seen{Reports: []string{"n9"}, Nodes: set("n1"), Covered: set("n1"), Cleanup: true, Wanted: 1}, "wait: all nodes are clean; reports to delete: 1; forget n9"},
	} {
		v := Judge(&c.seen)
		got := "done"
		switch {
		case v.Refusal != nil:
			_, names, _ := strings.Cut(v.Refusal.Error(), "would clean them: ")
			names, _, _ = strings.Cut(names, ";")
			got = "refuse: " + names
		case !v.Done():
			got = "wait: " + v.State
			if len(v.Forget) > 0 {
				got += "; forget " + strings.Join(v.Forget, " ")
			}
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
}

// It is done only if no report is left and every wanted pod is ready, where there have been agents; and the report of a node that is there goes only when all are ready.
func TestJudgeForgetsNothingEarly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Seen{Nodes: map[string]bool{}, Covered: map[string]bool{}, Configured: rapid.Bool().Draw(t, "configured"), Cleanup: rapid.Bool().Draw(t, "cleanup")}
		for i := range rapid.IntRange(0, 6).Draw(t, "nodes") {
			name := fmt.Sprint("n", i)
			if rapid.Bool().Draw(t, "report") {
				s.Reports = append(s.Reports, name)
			}
			s.Nodes[name] = rapid.Bool().Draw(t, "there")
			if s.Nodes[name] && rapid.Bool().Draw(t, "covered") {
				s.Covered[name] = true
				s.Wanted++
			}
		}
		s.Ready = rapid.IntRange(0, s.Wanted).Draw(t, "ready")
		v := Judge(&s)
		if v.Done() && (len(s.Reports) > 0 || s.Ready < s.Wanted && s.Configured) {
			t.Fatalf("done with %+v", s)
		}
		for _, name := range v.Forget {
			if s.Nodes[name] && (!s.Configured || !s.Cleanup || s.Ready < s.Wanted || !s.Covered[name]) {
				t.Fatalf("%s is forgotten with %+v", name, s)
			}
		}
		if v.Refusal != nil && (len(v.Forget) > 0 || !slices.ContainsFunc(s.Reports, func(n string) bool { return s.Nodes[n] && (!s.Covered[n] || !s.Configured) })) {
			t.Fatalf("refused with %+v", s)
		}
	})
}
