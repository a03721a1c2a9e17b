package cluster

import "testing"

func TestTermMatches(t *testing.T) {
	node := &Node{Name: "n1", Labels: map[string]string{"zone": "a", "cores": "16", "empty": ""}}
	one := func(key string, op Operator, values ...string) Term {
		return Term{Expressions: []Requirement{{key, op, values}}}
	}
	field := func(op Operator, values ...string) Term {
		return Term{Fields: []Requirement{{FieldName, op, values}}}
	}
	for _, c := range []struct {
		name string
		term Term
		want bool
	}{
		{"a term without expressions matches nothing", Term{}, false},
		{"In", one("zone", In, "b", "a"), true},
		{"In, other value", one("zone", In, "b"), false},
		{"In, label missing", one("rack", In, "a"), false},
		{"NotIn", one("zone", NotIn, "b"), true},
		{"NotIn, value there", one("zone", NotIn, "a"), false},
		{"NotIn holds for a missing label", one("rack", NotIn, "a"), true},
		{"Exists, even empty", one("empty", Exists), true},
		{"Exists, missing", one("rack", Exists), false},
		{"DoesNotExist", one("rack", DoesNotExist), true},
		{"DoesNotExist, there", one("zone", DoesNotExist), false},
		{"Gt", one("cores", Gt, "15"), true},
		{"Gt is strict", one("cores", Gt, "16"), false},
		{"Lt", one("cores", Lt, "17"), true},
		{"Lt is strict", one("cores", Lt, "16"), false},
		{"Gt on text", one("zone", Gt, "1"), false},
		{"Gt with text", one("cores", Gt, "many"), false},
		{"Lt on a missing label", one("rack", Lt, "5"), false},
		{"field In", field(In, "n1"), true},
		{"field NotIn", field(NotIn, "n1"), false},
		{"an unknown field matches nothing", Term{Fields: []Requirement{{"metadata.namespace", NotIn, []string{"x"}}}}, false},
		{"an unknown operator matches nothing", one("zone", Operator(99), "a"), false},
		{"all expressions must hold", Term{Expressions: []Requirement{{"zone", In, []string{"a"}}, {"rack", Exists, nil}}}, false},
		{"expressions and fields", Term{Expressions: []Requirement{{"zone", Exists, nil}}, Fields: []Requirement{{FieldName, In, []string{"n2"}}}}, false},
	} {
		if got := c.term.Matches(node); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestSelects(t *testing.T) {
	node := &Node{Name: "n1", Labels: map[string]string{"zone": "a"}}
	inA := Term{Expressions: []Requirement{{"zone", In, []string{"a"}}}}
	inB := Term{Expressions: []Requirement{{"zone", In, []string{"b"}}}}
	for _, c := range []struct {
		name string
		r    Requirements
		want bool
	}{
		{"nothing asked", Requirements{}, true},
		{"selector", Requirements{NodeSelector: []Label{{"zone", "a"}}}, true},
		{"selector, other value", Requirements{NodeSelector: []Label{{"zone", "b"}}}, false},
		{"selector for the empty value of a missing label", Requirements{NodeSelector: []Label{{"rack", ""}}}, false},
		{"terms are alternatives", Requirements{Required: []Term{inB, inA}}, true},
		{"no term matches", Requirements{Required: []Term{inB}}, false},
		{"an empty list of terms matches nothing", Requirements{Required: []Term{}}, false},
		{"selector and terms", Requirements{NodeSelector: []Label{{"zone", "b"}}, Required: []Term{inA}}, false},
	} {
		if got := c.r.Selects(node); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestTolerates(t *testing.T) {
	taint := &Taint{Key: "k", Value: "v", Effect: NoSchedule}
	for _, c := range []struct {
		name string
		t    Toleration
		want bool
	}{
		{"equal", Toleration{Key: "k", Value: "v"}, true},
		{"other value", Toleration{Key: "k", Value: "w"}, false},
		{"other key", Toleration{Key: "l", Value: "v"}, false},
		{"exists ignores the value", Toleration{Key: "k", Exists: true}, true},
		{"no key with exists: every taint", Toleration{Exists: true}, true},
		{"no key without exists compares values", Toleration{Value: "v"}, true},
		{"effect", Toleration{Key: "k", Value: "v", Effect: NoSchedule}, true},
		{"other effect", Toleration{Key: "k", Value: "v", Effect: NoExecute}, false},
	} {
		if got := c.t.Tolerates(taint); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestHostPortConflicts(t *testing.T) {
	base := HostPort{"TCP", "10.0.0.1", 80}
	for _, c := range []struct {
		name  string
		other HostPort
		want  bool
	}{
		{"same", base, true},
		{"other port", HostPort{"TCP", "10.0.0.1", 81}, false},
		{"other protocol", HostPort{"UDP", "10.0.0.1", 80}, false},
		{"other address", HostPort{"TCP", "10.0.0.2", 80}, false},
		{"any address", HostPort{"TCP", AnyIP, 80}, true},
	} {
		if base.Conflicts(c.other) != c.want || c.other.Conflicts(base) != c.want {
			t.Errorf("%s: want %v both ways", c.name, c.want)
		}
	}
}

// TestClassKeyTellsApart changes one thing at a time; every variant must be a class of its own, and an equal copy the same class.
func TestClassKeyTellsApart(t *testing.T) {
	s := NewStore()
	term := func(values ...string) []Term { return []Term{{Expressions: []Requirement{{"k", In, values}}}} }
	variants := []*Requirements{
		{},
		{ScoreCPU: 1},
		{ScoreMemory: 1},
		{Required: []Term{}},
		{Required: term("ab", "c")},
		{Required: term("a", "bc")},
		{Required: []Term{{Fields: []Requirement{{"k", In, []string{"a", "bc"}}}}}},
		{Preferred: []WeightedTerm{{1, Term{}}}},
		{Preferred: []WeightedTerm{{2, Term{}}}},
		{NodeSelector: []Label{{"a", "bc"}}},
		{NodeSelector: []Label{{"ab", "c"}}},
		{Tolerations: []Toleration{{Key: "a"}}},
		{Tolerations: []Toleration{{Key: "a", Exists: true}}},
		{Tolerations: []Toleration{{Value: "a"}}},
		{Tolerations: []Toleration{{Key: "a", Effect: NoExecute}}},
		{Ports: []HostPort{{"TCP", AnyIP, 80}}},
		{Ports: []HostPort{{"UDP", AnyIP, 80}}},
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
	held := &Requirements{ScoreCPU: 1}
	s.Apply(PodUpserted{PodFacts{UID: "p", Ours: true, Requirements: held}})
	first := s.Pod("p").Class
	for i := range 3 * MaxIdleClasses {
		s.Class(&Requirements{ScoreCPU: int64(i + 2)})
	}
	if len(s.bases) > MaxIdleClasses+2 {
		t.Errorf("%d classes are remembered", len(s.bases))
	}
	if s.Class(held) != first {
		t.Error("a class that a pod refers to was forgotten")
	}
}
