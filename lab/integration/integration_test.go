package integration

import (
	"encoding/json"
	"io"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"hilbert.dev/hilbert/api/spec"
)

func TestParseList(t *testing.T) {
	got, err := parseList("# a comment\nTestA\n* filters/TestB\n\n- it takes steps\nplugins/deep/TestC\nfilters/TestB/one...\n\npodgroup/TestD\n")
	if err != nil {
		t.Fatal(err)
	}
	want := []Test{
		{Package: ".", Name: "TestA"},
		{Package: "filters", Name: "TestB", Short: true},
		{Package: "plugins/deep", Name: "TestC", LeftOut: "it takes steps"},
		{Package: "filters", Name: "TestB/one...", LeftOut: "it takes steps"},
		{Package: "podgroup", Name: "TestD"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	for text, want := range map[string]string{
		"filters": "PACKAGE/TestNAME", "TestA\nTestA": "twice", "- x\n* TestA": "left out and in the short form", "TestA/sub": "a subtest runs with its test",
	} {
		if _, err := parseList(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	var names []string
	for _, c := range Choose(got, true) {
		names = append(names, c.String())
	}
	if want := []string{"filters/TestB", "filters/TestB/one..."}; !slices.Equal(names, want) {
		t.Errorf("the short form is %q, want %q", names, want)
	}
	if c := Choose(got, false, "Test", "group"); len(c) != 1 || c[0].Name != "TestD" {
		t.Errorf("by words: %v", c)
	}
}

func TestPatterns(t *testing.T) {
	run, skip := patterns([]Test{
		{Name: "TestA"}, {Name: "TestB/one (x)"}, {Name: "TestA/...(Async: false...", LeftOut: "y"}, {Name: "TestA/two", LeftOut: "y"},
	})
	if want := `^TestA$|^TestB$/^one \(x\)$`; run != want {
		t.Errorf("-run is %s, want %s", run, want)
	}
	if want := `^TestA$/^.*\(Async: false.*$|^TestA$/^two$`; skip != want {
		t.Errorf("-skip is %s, want %s", skip, want)
	}
}

// events are those of a run in which a subtest fails by itself, one has no API server, and the process dies in a third.
const events = `{"Action":"start"}
go: a line of the go command
{"Action":"run","Test":"TestA"}
{"Action":"run","Test":"TestA/one"}
{"Action":"output","Test":"TestA/one","Output":"outside scheduler: runs in /x\n"}
{"Action":"output","Test":"TestA/one","Output":"    shared_informer.go:531: I1126 07:43:09.463889] Caches are synced\n"}
{"Action":"output","Test":"TestA/one","Output":"    a_test.go:12: no room\n"}
{"Action":"fail","Test":"TestA/one","Elapsed":1.5}
{"Action":"run","Test":"TestA/two"}
{"Action":"output","Test":"TestA/two","Output":"    test_server.go:259: context deadline exceeded\n"}
{"Action":"fail","Test":"TestA/two","Elapsed":12}
{"Action":"fail","Test":"TestA","Elapsed":14}
{"Action":"run","Test":"TestB"}
{"Action":"output","Test":"TestB","Output":"    test_server.go:301: Skipping metrics scrape because context is already canceled: context canceled\\n"}
{"Action":"pass","Test":"TestB","Elapsed":1}
{"Action":"run","Test":"TestC"}
{"Action":"fail","Elapsed":15}
`

func TestEvents(t *testing.T) {
	ended := make(map[string]Ended)
	if err := readEvents(strings.NewReader(events), "p", io.Discard, ended); err != nil {
		t.Fatal(err)
	}
	want := map[string]Ended{
		"p/TestA":     {Outcome: Failed, Seconds: 14, parent: true, outside: true},
		"p/TestA/one": {Outcome: Failed, Seconds: 1.5, Message: "a_test.go:12: no room", outside: true},
		"p/TestA/two": {Outcome: Failed, Seconds: 12, Message: "test_server.go:259: context deadline exceeded", broken: true},
		"p/TestB":     {Outcome: Passed, Seconds: 1},
		"p/TestC":     {},
	}
	if !reflect.DeepEqual(ended, want) {
		t.Errorf("%+v\nwant %+v", ended, want)
	}
	tests := []Test{{Package: "p", Name: "TestA"}, {Package: "p", Name: "TestB"}, {Package: "p", Name: "TestC"}, {Package: "p", Name: "TestA/x", LeftOut: "y"}}
	var again []string
	for _, u := range unjudged(tests, ended) {
		again = append(again, u.String())
	}
	if want := []string{"p/TestA/two", "p/TestC", "p/TestA/x"}; !slices.Equal(again, want) {
		t.Errorf("run again: %q, want %q", again, want)
	}
	if err := check(tests, Hilbert, ended); err == nil || !strings.Contains(err.Error(), "TestB passed and started no scheduler") {
		t.Errorf("a test without an outside scheduler: %v", err)
	}
	if err := check(tests, KubeScheduler, ended); err != nil {
		t.Errorf("kube-scheduler is inside: %v", err)
	}
	ended["p/TestA/x"] = Ended{Outcome: Passed}
	if err := check(tests, KubeScheduler, ended); err == nil || !strings.Contains(err.Error(), "TestA/x was not left out") {
		t.Errorf("a test that is left out: %v", err)
	}
}

func TestCompare(t *testing.T) {
	theirs := map[string]Ended{
		"a": {Outcome: Passed}, "b": {Outcome: Passed}, "c": {Outcome: Failed}, "d": {Outcome: Skipped}, "parent": {Outcome: Failed, parent: true},
	}
	ours := map[string]Ended{"a": {Outcome: Passed}, "b": {Outcome: Failed}, "c": {Outcome: Failed}, "d": {Outcome: Skipped}, "parent": {Outcome: Failed, parent: true}}
	r := compare([]string{Hilbert, KubeScheduler}, map[string]map[string]Ended{Hilbert: ours, KubeScheduler: theirs})
	if r.Passed != 1 || r.Failed != 2 || r.Skipped != 1 || r.OnlyHilbert != 1 || len(r.Rows) != 4 || r.Err() == nil {
		t.Errorf("both: %+v", r)
	}
	r = compare([]string{Hilbert}, map[string]map[string]Ended{Hilbert: ours})
	if r.OnlyHilbert != 2 {
		t.Errorf("hilbert alone: %+v", r)
	}
	r = compare([]string{KubeScheduler}, map[string]map[string]Ended{KubeScheduler: theirs})
	if r.Passed != 3-1 || r.Err() != nil {
		t.Errorf("kube-scheduler alone: %+v", r)
	}
}

// The sources can be made from the module that the lab requires, and every test in them is in the list.
func TestSourcesAndList(t *testing.T) {
	kubernetes, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", kubernetesModule).Output()
	if err != nil {
		t.Fatal(err)
	}
	module := strings.TrimSpace(string(kubernetes))
	dir := filepath.Join(t.TempDir(), "upstream")
	if err := WriteSources(t.Context(), module, "..", dir); err != nil {
		t.Fatal(err)
	}
	list, err := List()
	if err != nil {
		t.Fatal(err)
	}
	listed := make(map[string]bool)
	for _, l := range list {
		if parent, _, sub := strings.Cut(l.Name, "/"); !sub {
			listed[l.String()] = true
		} else if !slices.ContainsFunc(list, func(o Test) bool { return o.Package == l.Package && o.Name == parent && o.LeftOut == "" }) {
			t.Errorf("%s is left out of a test that is not run", l)
		}
	}
	found := make(map[string]bool)
	texts := make(map[string]string)
	if err := readPackages(filepath.Join(module, filepath.FromSlash(testsPath)), ".", true, true, texts); err != nil {
		t.Fatal(err)
	}
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	for name, text := range texts {
		for _, m := range function.FindAllStringSubmatch(text, -1) {
			if test := (Test{Package: filepath.Dir(name), Name: m[1]}).String(); m[1] != "TestMain" && strings.HasSuffix(name, "_test.go") {
				found[test] = true
				if !listed[test] {
					t.Errorf("%s is not in tests.txt", test)
				}
			}
		}
	}
	for test := range listed {
		if !found[test] {
			t.Errorf("%s is in tests.txt, and upstream has no such test", test)
		}
	}
}

// given is what a test tells of its scheduler.
func given(t *testing.T, text string) settings {
	t.Helper()
	var s settings
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

const filters = `"Filter":{"Enabled":[{"Name":"NodeName"}]},"PostFilter":{"Enabled":[{"Name":"DefaultPreemption"}]}`

func TestConfiguration(t *testing.T) {
	s := given(t, `{"Number":3,"Profiles":[
		{"Name":"a","Plugins":{`+filters+`,"Score":{"Enabled":[{"Name":"NodeAffinity","Weight":7},{"Name":"NodeResourcesFit","Weight":1}]}},
		 "Args":{"NodeResourcesFit":{"ScoringStrategy":{"Type":"MostAllocated"}},"PodTopologySpread":{"DefaultingType":"List"}}},
		{"Name":"b","Plugins":{`+filters+`,"Score":{"Enabled":[{"Name":"NodeResourcesFit","Weight":2}]}},
		 "Args":{"NodeResourcesFit":{"ScoringStrategy":{"Type":"RequestedToCapacityRatio","RequestedToCapacityRatio":{"Shape":[{"Utilization":0,"Score":10},{"Utilization":100,"Score":0}]}}},
		 "PodTopologySpread":{"DefaultingType":"List"}}}]}`)
	c, err := s.configuration()
	if err != nil {
		t.Fatal(err)
	}
	if c.SchedulerName != "a" || c.LeaderElection.Name != "hilbert-3" || c.Scheduling.DefaultSpread != spec.DefaultSpreadNone || !c.Scheduling.Events.Scheduled {
		t.Errorf("%q, %q, %q", c.SchedulerName, c.LeaderElection.Name, c.Scheduling.DefaultSpread)
	}
	for name, weight := range c.Scheduling.Scores {
		if want := map[string]int64{"NodeAffinity": 7, "MostAllocated": 1}[name]; weight != want {
			t.Errorf("%s weighs %d, want %d", name, weight, want)
		}
	}
	b := c.Scheduling.Profiles[0]
	if !slices.Equal(b.SchedulerNames, []string{"b"}) || b.Scores["RequestedToCapacityRatio"] != 2 || b.Scores["NodeAffinity"] != 0 ||
		!slices.Equal(b.CapacityRatio, []spec.RatioPoint{{Utilization: 0, Score: 100}, {Utilization: 100, Score: 0}}) {
		t.Errorf("%+v", b)
	}
	for text, want := range map[string]string{
		`{"Extenders":1}`: "extenders",
		`{}`:              "no profile",
		`{"Profiles":[{"Name":"a","Plugins":{` + filters + `,"Score":{"Enabled":[{"Name":"mine","Weight":1}]}}}]}`:                                 "the score of plugin mine",
		`{"Profiles":[{"Name":"a","Plugins":{` + filters + `,"PreBind":{"Enabled":[{"Name":"mine"}]}}}]}`:                                          "plugin mine is the test's own",
		`{"Profiles":[{"Name":"a","Plugins":{"Filter":{"Enabled":[{"Name":"NodeName"}]}}}]}`:                                                       "no preemption",
		`{"Profiles":[{"Name":"a","Plugins":{` + filters + `},"Args":{"NodeAffinity":{"AddedAffinity":{}}}}]}`:                                     "NodeAffinity have no counterpart",
		`{"Profiles":[{"Name":"a","Plugins":{` + filters + `},"Args":{"InterPodAffinity":{"HardPodAffinityWeight":5}}}]}`:                          "InterPodAffinity have no counterpart",
		`{"Profiles":[{"Name":"a","Plugins":{` + filters + `},"Args":{"PodTopologySpread":{"DefaultingType":"List","DefaultConstraints":[{}]}}}]}`: "list of default constraints",
	} {
		s := given(t, text)
		if _, err := s.configuration(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
