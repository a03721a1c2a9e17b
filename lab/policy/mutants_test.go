package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/lab/controlplane"
)

// survival is how long a changed policy may go unnoticed before it counts as not tested. The API server acts on a change within about
// a second.
const survival = 15 * time.Second

// forSpeed are the conditions that only save work: without them the rules say the same.
var forSpeed = []string{"hilbert-pod-create/speaks-of-hilbert"}

// mutant is a policy with one of its rules taken out.
type mutant struct {
	name             string
	changed, correct []byte
}

// TestEachRuleIsNeeded takes out each validation, mutation, condition, resource and operation in turn; each time a row of the table must
// come out wrong.
func TestEachRuleIsNeeded(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds for each rule")
	}
	documents, err := controlplane.PolicyDocuments()
	if err != nil {
		t.Fatal(err)
	}
	rows := requests()
	api := admin.Discovery().RESTClient()
	tried := 0
	for _, document := range documents {
		for _, m := range mutants(t, document) {
			tried++
			t.Run(m.name, func(t *testing.T) {
				if err := controlplane.ApplyPolicy(t.Context(), api, m.changed); err != nil {
					t.Fatal(err)
				}
				noticed := poll(t.Context(), survival, func() error {
					if wrong := firstWrong(t.Context(), rows); wrong != nil {
						t.Log(wrong)
						return nil
					}
					return fmt.Errorf("no row of the table needs it")
				})
				if err := controlplane.ApplyPolicy(t.Context(), api, m.correct); err != nil {
					t.Fatal(err)
				}
				if err := poll(t.Context(), patience, func() error { return firstWrong(t.Context(), rows) }); err != nil {
					t.Fatalf("after it was put back: %v", err)
				}
				if noticed != nil {
					t.Error(noticed)
				}
			})
		}
	}
	if tried < 30 {
		t.Errorf("only %d rules were found", tried)
	}
}

// firstWrong is the first row that comes out wrong.
func firstWrong(ctx context.Context, rows []request) error {
	for _, r := range rows {
		if err := r.try(ctx); err != nil {
			return err
		}
	}
	return nil
}

// mutants are the ways to weaken a policy; of a binding, and of the policies that other tests try, there are none.
func mutants(t *testing.T, document []byte) []mutant {
	t.Helper()
	o := object(t, document)
	name := o["metadata"].(map[string]any)["name"].(string)
	kind := o["kind"].(string)
	if strings.HasSuffix(kind, "Binding") || strings.HasPrefix(name, "hilbert-cnr") {
		return nil
	}
	var out []mutant
	// without removes the i-th element of the list that get finds in a fresh copy.
	without := func(what string, i int, get func(spec map[string]any) (of map[string]any, key string)) {
		fresh := object(t, document)
		of, key := get(fresh["spec"].(map[string]any))
		of[key] = slices.Delete(of[key].([]any), i, i+1)
		changed, err := json.Marshal(fresh)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, mutant{name: fmt.Sprintf("%s %s without %s", kind, name, what), changed: changed, correct: document})
	}
	spec := o["spec"].(map[string]any)
	for _, list := range []string{"validations", "matchConditions"} {
		elements, _ := spec[list].([]any)
		for i, element := range elements {
			what := fmt.Sprintf("%s %d", list, i)
			if condition, ok := element.(map[string]any)["name"].(string); ok {
				if what = condition; slices.Contains(forSpeed, name+"/"+condition) {
					continue
				}
			}
			without(what, i, func(spec map[string]any) (map[string]any, string) { return spec, list })
		}
	}
	for r, rule := range spec["matchConstraints"].(map[string]any)["resourceRules"].([]any) {
		for _, list := range []string{"resources", "operations"} {
			values := rule.(map[string]any)[list].([]any)
			for i := range values {
				if len(values) == 1 {
					continue // a rule without any is refused
				}
				without(fmt.Sprint(values[i]), i, func(spec map[string]any) (map[string]any, string) {
					return spec["matchConstraints"].(map[string]any)["resourceRules"].([]any)[r].(map[string]any), list
				})
			}
		}
	}
	if rules := spec["matchConstraints"].(map[string]any)["resourceRules"].([]any); len(rules) > 1 {
		for r := range rules {
			without(fmt.Sprintf("rule %d", r), r, func(spec map[string]any) (map[string]any, string) {
				return spec["matchConstraints"].(map[string]any), "resourceRules"
			})
		}
	}
	return out
}
