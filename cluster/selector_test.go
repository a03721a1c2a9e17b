package cluster

import (
	"testing"

	"hilbert.dev/hilbert/cluster/facts"
)

func TestTermMatches(t *testing.T) {
	node := &facts.Node{Name: "n1", Labels: map[string]string{"zone": "a", "cores": "16", "empty": ""}}
	one := func(key string, op facts.Operator, values ...string) facts.Term {
		return facts.Term{Expressions: []facts.Requirement{{Key: key, Operator: op, Values: values}}}
	}
	field := func(op facts.Operator, values ...string) facts.Term {
		return facts.Term{Fields: []facts.Requirement{{Key: facts.FieldName, Operator: op, Values: values}}}
	}
	for _, c := range []struct {
		name string
		term facts.Term
		want bool
	}{
		{"a term without expressions matches nothing", facts.Term{}, false},
		{"In", one("zone", facts.In, "b", "a"), true},
		{"In, other value", one("zone", facts.In, "b"), false},
		{"In, label missing", one("rack", facts.In, "a"), false},
		{"NotIn", one("zone", facts.NotIn, "b"), true},
		{"NotIn, value there", one("zone", facts.NotIn, "a"), false},
		{"NotIn holds for a missing label", one("rack", facts.NotIn, "a"), true},
		{"Exists, even empty", one("empty", facts.Exists), true},
		{"Exists, missing", one("rack", facts.Exists), false},
		{"DoesNotExist", one("rack", facts.DoesNotExist), true},
		{"DoesNotExist, there", one("zone", facts.DoesNotExist), false},
		{"Gt", one("cores", facts.Gt, "15"), true},
		{"Gt is strict", one("cores", facts.Gt, "16"), false},
		{"Lt", one("cores", facts.Lt, "17"), true},
		{"Lt is strict", one("cores", facts.Lt, "16"), false},
		{"Gt on text", one("zone", facts.Gt, "1"), false},
		{"Gt with text", one("cores", facts.Gt, "many"), false},
		{"Lt on a missing label", one("rack", facts.Lt, "5"), false},
		{"field In", field(facts.In, "n1"), true},
		{"field NotIn", field(facts.NotIn, "n1"), false},
		{"an unknown field matches nothing", facts.Term{Fields: []facts.Requirement{{Key: "metadata.namespace", Operator: facts.NotIn, Values: []string{"x"}}}}, false},
		{"an unknown operator matches nothing", one("zone", facts.Operator(99), "a"), false},
		{"all expressions must hold", facts.Term{Expressions: []facts.Requirement{{Key: "zone", Operator: facts.In, Values: []string{"a"}}, {Key: "rack", Operator: facts.Exists, Values: nil}}}, false},
		{"expressions and fields", facts.Term{Expressions: []facts.Requirement{{Key: "zone", Operator: facts.Exists, Values: nil}}, Fields: []facts.Requirement{{Key: facts.FieldName, Operator: facts.In, Values: []string{"n2"}}}}, false},
	} {
		if got := c.term.Matches(node); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestSelects(t *testing.T) {
	node := &facts.Node{Name: "n1", Labels: map[string]string{"zone": "a"}}
	inA := facts.Term{Expressions: []facts.Requirement{{Key: "zone", Operator: facts.In, Values: []string{"a"}}}}
	inB := facts.Term{Expressions: []facts.Requirement{{Key: "zone", Operator: facts.In, Values: []string{"b"}}}}
	for _, c := range []struct {
		name string
		r    facts.Requirements
		want bool
	}{
		{"nothing asked", facts.Requirements{}, true},
		{"selector", facts.Requirements{NodeSelector: []facts.Label{{Key: "zone", Value: "a"}}}, true},
		{"selector, other value", facts.Requirements{NodeSelector: []facts.Label{{Key: "zone", Value: "b"}}}, false},
		{"selector for the empty value of a missing label", facts.Requirements{NodeSelector: []facts.Label{{Key: "rack", Value: ""}}}, false},
		{"terms are alternatives", facts.Requirements{Required: []facts.Term{inB, inA}}, true},
		{"no term matches", facts.Requirements{Required: []facts.Term{inB}}, false},
		{"an empty list of terms matches nothing", facts.Requirements{Required: []facts.Term{}}, false},
		{"selector and terms", facts.Requirements{NodeSelector: []facts.Label{{Key: "zone", Value: "b"}}, Required: []facts.Term{inA}}, false},
	} {
		if got := c.r.Selects(node); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestTolerates(t *testing.T) {
	taint := &facts.Taint{Key: "k", Value: "v", Effect: facts.NoSchedule}
	for _, c := range []struct {
		name string
		t    facts.Toleration
		want bool
	}{
		{"equal", facts.Toleration{Key: "k", Value: "v"}, true},
		{"other value", facts.Toleration{Key: "k", Value: "w"}, false},
		{"other key", facts.Toleration{Key: "l", Value: "v"}, false},
		{"exists ignores the value", facts.Toleration{Key: "k", Exists: true}, true},
		{"no key with exists: every taint", facts.Toleration{Exists: true}, true},
		{"no key without exists compares values", facts.Toleration{Value: "v"}, true},
		{"effect", facts.Toleration{Key: "k", Value: "v", Effect: facts.NoSchedule}, true},
		{"other effect", facts.Toleration{Key: "k", Value: "v", Effect: facts.NoExecute}, false},
	} {
		if got := c.t.Tolerates(taint); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestHostPortConflicts(t *testing.T) {
	base := facts.HostPort{Protocol: "TCP", IP: "10.0.0.1", Port: 80}
	for _, c := range []struct {
		name  string
		other facts.HostPort
		want  bool
	}{
		{"same", base, true},
		{"other port", facts.HostPort{Protocol: "TCP", IP: "10.0.0.1", Port: 81}, false},
		{"other protocol", facts.HostPort{Protocol: "UDP", IP: "10.0.0.1", Port: 80}, false},
		{"other address", facts.HostPort{Protocol: "TCP", IP: "10.0.0.2", Port: 80}, false},
		{"any address", facts.HostPort{Protocol: "TCP", IP: facts.AnyIP, Port: 80}, true},
	} {
		if base.Conflicts(c.other) != c.want || c.other.Conflicts(base) != c.want {
			t.Errorf("%s: want %v both ways", c.name, c.want)
		}
	}
}

// TestClassKeyTellsApart changes one thing at a time; every variant must be a class of its own, and an equal copy the same class.
func TestClassKeyTellsApart(t *testing.T) {
	s := NewStore()
	term := func(values ...string) []facts.Term {
		return []facts.Term{{Expressions: []facts.Requirement{{Key: "k", Operator: facts.In, Values: values}}}}
	}
	variants := []*facts.Requirements{
		{},
		{ScoreCPU: 1},
		{ScoreMemory: 1},
		{Required: []facts.Term{}},
		{Required: term("ab", "c")},
		{Required: term("a", "bc")},
		{Required: []facts.Term{{Fields: []facts.Requirement{{Key: "k", Operator: facts.In, Values: []string{"a", "bc"}}}}}},
		{Preferred: []facts.WeightedTerm{{Weight: 1, Term: facts.Term{}}}},
		{Preferred: []facts.WeightedTerm{{Weight: 2, Term: facts.Term{}}}},
		{NodeSelector: []facts.Label{{Key: "a", Value: "bc"}}},
		{NodeSelector: []facts.Label{{Key: "ab", Value: "c"}}},
		{Tolerations: []facts.Toleration{{Key: "a"}}},
		{Tolerations: []facts.Toleration{{Key: "a", Exists: true}}},
		{Tolerations: []facts.Toleration{{Value: "a"}}},
		{Tolerations: []facts.Toleration{{Key: "a", Effect: facts.NoExecute}}},
		{Ports: []facts.HostPort{{Protocol: "TCP", IP: facts.AnyIP, Port: 80}}},
		{Ports: []facts.HostPort{{Protocol: "UDP", IP: facts.AnyIP, Port: 80}}},
		{Unsupported: []string{"a"}},
		{Impossible: "a"},
	}
	seen := map[ClassID]int{}
	for i, r := range variants {
		class := s.Class(r)
		if other, ok := seen[class.ID]; ok {
			t.Errorf("variants %d and %d are one class", other, i)
		}
		seen[class.ID] = i
		copied := *r
		if s.Class(&copied) != class {
			t.Errorf("variant %d and its copy are two classes", i)
		}
	}
}

func TestIdleClassesAreBounded(t *testing.T) {
	s := NewStore()
	held := &facts.Requirements{ScoreCPU: 1}
	s.Apply(facts.PodUpserted{Pod: facts.Pod{UID: "p", Ours: true, Requirements: held}})
	first := s.Pod("p").Class
	for i := range 3 * MaxIdleClasses {
		s.Class(&facts.Requirements{ScoreCPU: int64(i + 2)})
	}
	if len(s.classes.requests) > MaxIdleClasses+2 {
		t.Errorf("%d classes are remembered", len(s.classes.requests))
	}
	if s.Class(held) != first {
		t.Error("a class that a pod refers to was forgotten")
	}
}
