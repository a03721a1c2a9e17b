package uninstall

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"
)

func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			f := &Facts{Namespace: "hilbert-system"}
			if d.HasArg("waiting") {
				d.ScanArgs(t, "waiting", &f.Waiting)
			}
			for line := range strings.Lines(d.Input) {
				kind, name, _ := strings.Cut(strings.TrimSpace(line), " ")
				o := Object{Kind: kind, Name: name}
				if namespace, name, ok := strings.Cut(name, "/"); ok {
					o.Namespace, o.Name = namespace, name
				}
				f.Objects = append(f.Objects, o)
			}
			r := Plan(f, Options{Definitions: d.HasArg("definitions")})
			var out strings.Builder
			for i, step := range r.Steps {
				fmt.Fprintf(&out, "%d. %s: %s\n", i+1, step.Action, step.Why)
				for _, o := range step.Objects {
					fmt.Fprintf(&out, "   %s\n", o)
				}
			}
			for _, note := range r.Notes {
				fmt.Fprintf(&out, "note: %s\n", note)
			}
			return out.String()
		})
	})
}

// stepsOf says in which step each object is deleted.
func stepsOf(t *rapid.T, r *Removal) map[string]int {
	at := map[string]int{}
	for i, step := range r.Steps {
		for _, x := range step.Objects {
			if _, twice := at[x.String()]; twice {
				t.Fatalf("%s is deleted twice", x)
			}
			at[x.String()] = i
		}
	}
	return at
}

// Whatever is there is deleted once, or is a definition that nobody asked to delete; and the order holds.
func TestOrder(t *testing.T) {
	kinds := []string{"APIService", "CustomResourceDefinition", "KindOfTomorrow"}
	for _, stage := range stages {
		kinds = append(kinds, stage.kinds...)
	}
	rapid.Check(t, func(t *rapid.T) {
		f := drawFacts(t, kinds)
		o := Options{Definitions: rapid.Bool().Draw(t, "definitions")}
		r := Plan(f, o)
		at := stepsOf(t, &r)
		has := func(name string) bool {
			return slices.ContainsFunc(f.Objects, func(x Object) bool { return x.Name == name })
		}
		await := slices.IndexFunc(r.Steps, func(s Step) bool { return s.Action == AwaitCleanup })
		if has(Agent) && await < 0 {
			t.Fatal("nobody waits for the cleanup")
		}
		for _, x := range f.Objects {
			i, deleted := at[x.String()]
			if keep := x.Kind == "CustomResourceDefinition" && !o.Definitions; deleted == keep {
				t.Fatalf("%s: deleted %v", x, deleted)
			}
			early := x.Kind == "APIService" || x.Name == Agent || x.Name == Watchdog
			if deleted && await >= 0 && early != (i < await) {
				t.Fatalf("%s is deleted in step %d, the nodes are clean in step %d", x, i+1, await+1)
			}
			if x.Kind == "CustomResourceDefinition" && deleted && i != len(r.Steps)-1 {
				t.Fatalf("%s is not deleted last", x)
			}
		}
	})
}

// drawFacts invents what is there.
func drawFacts(t *rapid.T, kinds []string) *Facts {
	f := &Facts{Namespace: "hilbert-system"}
	for i := range rapid.IntRange(0, 20).Draw(t, "objects") {
		f.Objects = append(f.Objects, Object{Kind: rapid.SampledFrom(kinds).Draw(t, "kind"), Name: fmt.Sprintf("hilbert-%d", i)})
	}
	for _, name := range []string{Agent, Watchdog, Cleanup} {
		if rapid.Bool().Draw(t, name) {
			f.Objects = append(f.Objects, Object{Kind: "DaemonSet", Namespace: f.Namespace, Name: name})
		}
	}
	return f
}
