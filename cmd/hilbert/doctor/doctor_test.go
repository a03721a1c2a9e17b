package doctor

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"sigs.k8s.io/yaml"

	"hilbert.dev/hilbert/deploy/crds"
	"hilbert.dev/hilbert/deploy/policies"
)

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// healthy is a cluster in which all is well.
func healthy() *Facts {
	f := &Facts{
		Now: noon, Client: "v0.1.0", Hilbertd: "v0.1.2", Kubernetes: "v1.37.0", Namespace: "hilbert-system", StaleAfter: 15 * time.Minute,
		Unread: map[string]string{}, Served: map[string]bool{}, Definitions: map[string]Definition{}, Policies: map[string]bool{},
		APIService: &APIService{Available: true, Trusted: true},
		Lease:      &Lease{Holder: "hilbert-system/hilbertd-0", Renewed: noon.Add(-time.Second), Duration: 15 * time.Second},
		Workloads: []Workload{
			{Kind: "Deployment", Name: "hilbertd", Image: "hilbertd:v0.1.2", Chart: "hilbert-0.1.2", Wanted: 2, Ready: 2, Updated: 2},
			{Kind: "DaemonSet", Name: "hilbert-agent", Image: "hilbertd:v0.1.2", Chart: "hilbert-0.1.2", Wanted: 2, Ready: 2, Updated: 2},
		},
		Reports:  []Report{{Node: "n1", Observed: noon.Add(-time.Minute)}, {Node: "n2", Observed: noon.Add(-time.Minute)}},
		Labelled: []string{"n1", "n2"},
	}
	for _, name := range Definitions() {
		f.Definitions[name] = Definition{true, []string{"v1alpha1"}}
	}
	for _, p := range Policies() {
		f.Policies[p.Name] = true
	}
	for _, feature := range Features() {
		f.Served[feature.Served[0]] = true
	}
	return f
}

// takeAway takes policies, definitions and served resources away: without=NAME.
func takeAway(f *Facts, args []datadriven.CmdArg) {
	for _, arg := range args {
		for _, name := range arg.Vals {
			delete(f.Policies, name)
			delete(f.Definitions, name)
			delete(f.Served, name)
		}
	}
}

// TestTranscripts examines healthy clusters in which some things are otherwise: each line of the input is JSON that is laid over the facts.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			f := healthy()
			for line := range strings.Lines(d.Input) {
				if err := json.Unmarshal([]byte(line), f); err != nil {
					d.Fatalf(t, "%s: %v", line, err)
				}
			}
			takeAway(f, d.CmdArgs)
			var out strings.Builder
			findings := Examine(f)
			for _, x := range findings {
				if d.Cmd == "changes" && (x.Level == OK || x.Level == Info) {
					continue
				}
				fmt.Fprintf(&out, "%s %s: %s\n", x.Level, x.Check, x.Message)
				if x.Cure != "" {
					fmt.Fprintf(&out, "  cure: %s\n", x.Cure)
				}
				if x.Cure == "" && x.Level != OK && x.Level != Info {
					t.Errorf("%+v has no cure", x)
				}
			}
			return out.String() + "worst: " + string(Worst(findings)) + "\n"
		})
	})
}

// Each part that cannot be read is told as unknown, and nothing is concluded from it.
func TestUnreadIsUnknown(t *testing.T) {
	for _, part := range []string{PartServed, PartAPIService, PartLease, PartDefinitions, PartPolicies, PartWorkloads, PartReports, PartNodes} {
		f := healthy()
		f.Unread[part] = "forbidden"
		switch part { // what is not known looks as if it were not there
		case PartServed:
			clear(f.Served)
		case PartAPIService:
			f.APIService, f.Hilbertd = nil, ""
		case PartLease:
			f.Lease = nil
		case PartDefinitions:
			clear(f.Definitions)
		case PartPolicies:
			clear(f.Policies)
		case PartWorkloads:
			f.Workloads = nil
		case PartReports:
			f.Reports = nil
		case PartNodes:
			f.Labelled = nil
		}
		if worst := Worst(Examine(f)); worst != Unknown {
			t.Errorf("%s: %s, %+v", part, worst, Examine(f))
		}
	}
}

// The policies and definitions that are looked for are those that deploy/ has.
func TestNamesAreThoseOfDeploy(t *testing.T) {
	want := map[string]bool{}
	for _, p := range Policies() {
		want[p.Name] = true
	}
	for _, name := range Definitions() {
		want["CustomResourceDefinition/"+name] = true
	}
	have := map[string]bool{}
	for _, files := range []fs.FS{policies.Files, crds.Files} {
		names, err := fs.Glob(files, "*.yaml")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, err := fs.ReadFile(files, name)
			if err != nil {
				t.Fatal(err)
			}
			for document := range strings.SplitSeq(string(text), "\n---\n") {
				var o struct {
					Kind     string
					Metadata struct{ Name string }
				}
				if err := yaml.Unmarshal([]byte(document), &o); err != nil {
					t.Fatal(err)
				}
				if !strings.HasSuffix(o.Kind, "Binding") {
					have[o.Kind+"/"+o.Metadata.Name] = true
				}
			}
		}
	}
	for name := range have {
		if !want[name] {
			t.Errorf("doctor does not look for %s", name)
		}
	}
	for name := range want {
		if !have[name] {
			t.Errorf("deploy/ has no %s", name)
		}
	}
}
