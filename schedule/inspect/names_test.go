package inspect_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/inspect"
)

// gangName finds the names of gangs and of their pods.
var gangName = regexp.MustCompile(`\bg\d+\b`)

// TestOwnNames: who may see one namespace learns the name of no gang and no pod of another one, whatever is asked.
func TestOwnNames(t *testing.T) {
	leftOut := 0
	rapid.Check(t, func(t *rapid.T) {
		p := newPipeline(t, spec.Duration(time.Second))
		drawTenants(t, p)
		for i := range rapid.IntRange(2, 10).Draw(t, "gangs") {
			drawGang(t, p, i)
			p.run()
		}
		dump := inspect.Take(p.s, "hilbert", p.now)
		dump.Sort()
		owner := make(map[string]string) // of gangs, by name
		for i := range dump.Ledger.Units {
			owner[dump.Ledger.Units[i].Facts.Name] = dump.Ledger.Units[i].Facts.Namespace
		}
		others := func(answer any, namespace string) (names []string) {
			text, err := json.Marshal(answer)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range gangName.FindAllString(string(text), -1) {
				if owner[name] != namespace {
					names = append(names, fmt.Sprintf("%s of %s", name, owner[name]))
				}
			}
			return names
		}
		check := func(answer interface{ OwnNames() }, namespace string) {
			leftOut += len(others(answer, namespace))
			answer.OwnNames()
			if names := others(answer, namespace); len(names) > 0 {
				t.Fatalf("a reader of %s sees %v", namespace, names)
			}
		}
		for i := range dump.Ledger.Units {
			name := dump.Ledger.Units[i].Facts.UnitName
			a, err := dump.ExplainUnit(name.Namespace, name.Name)
			if err != nil {
				t.Fatal(err)
			}
			check(a, name.Namespace)
		}
		for _, w := range dump.Queue {
			explainPod(t, dump, facts.UnitName{Namespace: w.Namespace, Name: w.Name}, check)
		}
	})
	if leftOut == 0 {
		t.Error("no answer had anything to leave out")
	}
}

func explainPod(t *rapid.T, dump *inspect.Dump, name facts.UnitName, check func(interface{ OwnNames() }, string)) {
	first := func() *inspect.Answer {
		a, err := dump.Explain(name.Namespace, name.Name)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	check(first(), name.Namespace)
	check(&inspect.ReservationAnswer{Namespace: name.Namespace, First: first()}, name.Namespace) // it has what is said of a pod
}
