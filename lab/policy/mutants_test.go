package policy

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/lab/controlplane"
)

var literals = flag.Bool("literals", false, "also misspell each word of the policies in turn")

// survival is how long a changed policy may go unnoticed before it counts as not tested. The API server acts on a change within about
// a second.
const survival = 15 * time.Second

// forSpeed are the conditions that only save work: without them the rules say the same.
var forSpeed = []string{
	"hilbert-pod-create/speaks-of-hilbert", "hilbert-pod-update/changes-what-is-said", "hilbert-binding/brings-words",
	"hilbert-reclaimed/speaks-of-reclaimed", "hilbert-requested-cpu/says-what-was-requested",
}

// onlyForSpeed reports whether a policy of deploy/migration that refuses or warns has a condition so that it need not look at pods without words of its system.
func onlyForSpeed(policy, condition string) bool {
	return strings.HasPrefix(condition, "speaks-of-") && strings.HasPrefix(policy, "hilbert-migrate-") && (strings.HasSuffix(policy, "-check") || strings.HasSuffix(policy, "-lost"))
}

// elsewhere is tried by TestWithoutMutation: it matters only where a mutation is not in force.
var elsewhere = []string{"hilbert-required-plugin/validations 0", "hilbert-reclaimed/validations 0"}

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
					return errors.New("no row of the table needs it")
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

// TestWithoutMutation: where nothing writes for them what pods must say, they are refused until they say it themselves.
func TestWithoutMutation(t *testing.T) {
	ours, gpu := scheduler(spec.DefaultSchedulerName), gpus("1")
	reclaimed, asking := label(spec.LabelQoS, string(spec.QoSReclaimed)), main("=millicpu=100")
	const want, say = "a pod of level reclaimed_cores must be BestEffort, and this one is ", "; ask for hilbert.dev/reclaimed-millicpu"
	for name, rows := range map[string][]request{
		"hilbert-required-plugin": {
			{"a GPU", creates(owner, both, ours, gpu), "install the MutatingAdmissionPolicy hilbert-required-plugin"},
			{"a GPU, with the plugin", creates(owner, both, ours, gpu, annotation(requiredPlugins, agentRequired)), ""},
		},
		"hilbert-reclaimed": {
			{"burstable", creates(owner, plain, reclaimed, main("cpu=1")), "hilbert.dev/qos-level: " + want + "Burstable" + say},
			{
				"guaranteed, by Katalyst's name", creates(owner, plain, annotation(spec.AnnotationKatalystQoS, string(spec.QoSReclaimed)), main("=cpu=1 memory=1M")),
				"katalyst.kubewharf.io/qos_level: " + want + "Guaranteed" + say,
			},
			{"as a whole", creates(owner, plain, reclaimed, whole("=cpu=1 memory=1M")), want + "Guaranteed" + say},
			{"in our resources", becomes(owner, plain, "main: =millicpu=100", reclaimed, asking), ""},
			{
				"with defaults", creates(owner, defaulted, reclaimed, asking),
				want + "Burstable (a LimitRange of the namespace has filled in what it did not say: LimitRanger plugin set: cpu, memory request for container main",
			},
			{"without defaults", becomes(owner, defaulted, "main: =cpu=0 millicpu=100 memory=0", reclaimed, main("=cpu=0 millicpu=100 memory=0")), ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			off := mutants(t, mutation(t, name))[0]
			api := admin.Discovery().RESTClient()
			if err := controlplane.ApplyPolicy(t.Context(), api, off.changed); err != nil {
				t.Fatal(err)
			}
			if err := poll(t.Context(), survival, func() error { return firstWrong(t.Context(), rows) }); err != nil {
				t.Error(err)
			}
			if err := controlplane.ApplyPolicy(t.Context(), api, off.correct); err != nil {
				t.Fatal(err)
			}
			if err := poll(t.Context(), patience, func() error { return firstWrong(t.Context(), requests()) }); err != nil {
				t.Fatalf("after it was put back: %v", err)
			}
		})
	}
}

// mutation is the MutatingAdmissionPolicy of a name.
func mutation(t *testing.T, name string) []byte {
	t.Helper()
	documents, err := controlplane.PolicyDocuments()
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range documents {
		if o := object(t, document); o["kind"] == "MutatingAdmissionPolicy" && o["metadata"].(map[string]any)["name"] == name {
			return document
		}
	}
	t.Fatalf("there is no MutatingAdmissionPolicy %s", name)
	return nil
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

// mutants are the ways to weaken a policy; of a binding there are none.
func mutants(t *testing.T, document []byte) []mutant {
	t.Helper()
	o := object(t, document)
	name := o["metadata"].(map[string]any)["name"].(string)
	kind := o["kind"].(string)
	if strings.HasSuffix(kind, "Binding") {
		return nil
	}
	var out []mutant
	// without removes the i-th element of the list that get finds in a fresh copy.
	without := func(what string, i int, get func(rules map[string]any) (of map[string]any, key string)) {
		fresh := object(t, document)
		of, key := get(fresh["spec"].(map[string]any))
		if all := of[key].([]any); key == "validations" && len(all) == 1 { // a policy without any is refused
			all[0].(map[string]any)["expression"] = "true"
		} else {
			of[key] = slices.Delete(all, i, i+1)
		}
		out = append(out, asMutant(t, fmt.Sprintf("%s %s without %s", kind, name, what), fresh, document))
	}
	rules := o["spec"].(map[string]any)
	if _, mutating := rules["mutations"]; mutating { // one that has no mutation is refused: let it match nothing
		fresh := object(t, document)
		never := fresh["spec"].(map[string]any)
		never["matchConditions"] = append(never["matchConditions"].([]any), map[string]any{"name": "never", "expression": "false"})
		out = append(out, asMutant(t, kind+" "+name+" never", fresh, document))
	}
	if *literals {
		out = append(out, otherLiterals(t, kind+" "+name, document)...)
	}
	for _, list := range []string{"validations", "matchConditions"} {
		elements, _ := rules[list].([]any)
		for i, element := range elements {
			what := fmt.Sprintf("%s %d", list, i)
			if condition, ok := element.(map[string]any)["name"].(string); ok {
				if what = condition; slices.Contains(forSpeed, name+"/"+condition) || onlyForSpeed(name, condition) {
					continue
				}
			}
			if _, mutating := rules["mutations"]; !mutating && slices.Contains(elsewhere, name+"/"+what) {
				continue
			}
			without(what, i, func(rules map[string]any) (map[string]any, string) { return rules, list })
		}
	}
	for r, rule := range rules["matchConstraints"].(map[string]any)["resourceRules"].([]any) {
		for _, list := range []string{"resources", "operations"} {
			values := rule.(map[string]any)[list].([]any)
			for i := range values {
				if len(values) == 1 {
					continue // a rule without any is refused
				}
				without(fmt.Sprint(values[i]), i, func(rules map[string]any) (map[string]any, string) {
					return rules["matchConstraints"].(map[string]any)["resourceRules"].([]any)[r].(map[string]any), list
				})
			}
		}
	}
	if all := rules["matchConstraints"].(map[string]any)["resourceRules"].([]any); len(all) > 1 {
		for r := range all {
			without(fmt.Sprintf("rule %d", r), r, func(rules map[string]any) (map[string]any, string) {
				return rules["matchConstraints"].(map[string]any), "resourceRules"
			})
		}
	}
	return out
}

func asMutant(t *testing.T, name string, changed map[string]any, correct []byte) mutant {
	t.Helper()
	body, err := json.Marshal(changed)
	if err != nil {
		t.Fatal(err)
	}
	return mutant{name: name, changed: body, correct: correct}
}

// word is a string literal of CEL, without those that are spaces and punctuation.
var word = regexp.MustCompile(`'[A-Za-z][A-Za-z0-9._/:-]*'`)

// otherLiterals misspells each word of each expression in turn, but not those of messages and those that only save work.
func otherLiterals(t *testing.T, name string, document []byte) []mutant {
	t.Helper()
	var out []mutant
	for _, list := range []string{"matchConditions", "variables", "validations"} {
		elements, _ := object(t, document)["spec"].(map[string]any)[list].([]any)
		for i, element := range elements {
			e := element.(map[string]any)
			if e["name"] == "speaks-of-hilbert" {
				continue
			}
			expression := e["expression"].(string)
			for _, at := range word.FindAllStringIndex(expression, -1) {
				fresh := object(t, document)
				fresh["spec"].(map[string]any)[list].([]any)[i].(map[string]any)["expression"] = expression[:at[0]] + "'zzz'" + expression[at[1]:]
				out = append(out, asMutant(t, fmt.Sprintf("%s %s %d with another %s at %d", name, list, i, expression[at[0]:at[1]], at[0]), fresh, document))
			}
		}
	}
	return out
}
