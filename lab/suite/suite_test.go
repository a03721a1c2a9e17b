package suite

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"
)

func TestList(t *testing.T) {
	got := parseList("# a comment\n\n[sig-scheduling] a [Conformance]\n! no containers run\n~ it waits\n[sig-apps] b\n[sig-scheduling] c\n")
	want := []Spec{{Name: "[sig-scheduling] a [Conformance]"}, {Name: "[sig-apps] b", BothFail: "no containers run", Slow: "it waits"}, {Name: "[sig-scheduling] c"}}
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%d: %+v, want %+v", i, got[i], want[i])
		}
	}
	if !got[0].Conformance() || got[1].Conformance() || got[1].Scheduling() || !got[2].Scheduling() {
		t.Errorf("kinds of %+v", got)
	}
}

// The focus chooses the specs of the list and no others, though their names are no regular expressions and one may begin as another does.
func TestFocus(t *testing.T) {
	specs := []Spec{{Name: "[sig-scheduling] a (b) [Serial]"}, {Name: "[sig-scheduling] c"}}
	chosen := regexp.MustCompile(focus(specs))
	for name, want := range map[string]bool{
		"[sig-scheduling] a (b) [Serial]": true, "[sig-scheduling] c": true, "[sig-scheduling] c d": false, "g": false, "x [sig-scheduling] c": false,
	} {
		if got := chosen.MatchString(suiteName + " " + name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}

const reportText = `[{"SpecReports": [
	{"LeafNodeType": "BeforeSuite", "State": "passed"},
	{"LeafNodeType": "It", "ContainerHierarchyTexts": ["[sig] a", "with b"], "LeafNodeText": "does c", "State": "passed", "RunTime": 1500000000},
	{"LeafNodeType": "It", "LeafNodeText": "d", "State": "timedout", "Failure": {"Message": "too\n late"}},
	{"LeafNodeType": "It", "LeafNodeText": "e", "State": "skipped", "Failure": {"Message": "no"}}
]}]`

func TestReport(t *testing.T) {
	specs := []Spec{{Name: "[sig] a with b does c"}, {Name: "d"}, {Name: "e"}}
	got, err := readReport([]byte(reportText), specs)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]Ended{
		"[sig] a with b does c": {Passed, 1.5, ""}, "d": {Failed, 0, "too late"}, "e": {Skipped, 0, "no"},
	} {
		if got[name] != want {
			t.Errorf("%s: %+v, want %+v", name, got[name], want)
		}
	}
	for text, want := range map[string]string{
		reportText: `names "gone"`,
		`[{"SpecReports": [{"LeafNodeType": "BeforeSuite", "State": "failed", "Failure": {"Message": "no nodes"}}]}]`: "no nodes",
	} {
		if _, err := readReport([]byte(text), []Spec{{Name: "gone"}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// What counts as failed only with Hilbert: what kube-scheduler passes, by the run or, without it, by the list. A spec that Hilbert has skipped was not passed.
func TestResult(t *testing.T) {
	specs := []Spec{{Name: "a"}, {Name: "b", BothFail: "no containers run"}}
	for name, c := range map[string]struct {
		hilbert, kube [2]Outcome // "": not run
		want          string
	}{
		"all pass":                {[2]Outcome{Passed, Passed}, [2]Outcome{Passed, Passed}, "passed 2, failed 0, failed only with hilbert 0"},
		"hilbert fails":           {[2]Outcome{Failed, Passed}, [2]Outcome{Passed, Passed}, "passed 1, failed 1, failed only with hilbert 1"},
		"hilbert skips":           {[2]Outcome{Skipped, Passed}, [2]Outcome{Passed, Passed}, "passed 1, failed 0, failed only with hilbert 1"},
		"both fail":               {[2]Outcome{Failed, Failed}, [2]Outcome{Failed, Failed}, "passed 0, failed 2, failed only with hilbert 0"},
		"kube fails":              {[2]Outcome{Passed, Passed}, [2]Outcome{Failed, Failed}, "passed 2, failed 0, failed only with hilbert 0"},
		"alone":                   {[2]Outcome{Failed, Failed}, [2]Outcome{}, "passed 0, failed 2, failed only with hilbert 1"},
		"kube-scheduler is alone": {[2]Outcome{}, [2]Outcome{Failed, Passed}, "passed 1, failed 1, failed only with hilbert 0"},
	} {
		ended, schedulers := make(map[string]map[string]Ended), []string(nil)
		for scheduler, outcomes := range map[string][2]Outcome{Hilbert: c.hilbert, KubeScheduler: c.kube} {
			if outcomes[0] != "" {
				ended[scheduler] = map[string]Ended{"a": {Outcome: outcomes[0]}, "b": {Outcome: outcomes[1]}}
			}
		}
		for _, scheduler := range []string{Hilbert, KubeScheduler} {
			if ended[scheduler] != nil {
				schedulers = append(schedulers, scheduler)
			}
		}
		r := compare(specs, schedulers, ended)
		var b bytes.Buffer
		if err := r.Write(&b); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(b.String(), c.want+"\n") || (r.Err() != nil) != (r.OnlyHilbert > 0) {
			t.Errorf("%s: want %s\n%s", name, c.want, b.String())
		}
	}
}

// The reference page has a row for every spec that is run, and for no other.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/conformance.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := make(map[string]bool)
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\[sig-.*?)` \\|").FindAllSubmatch(page, -1) {
		rows[string(row[1])] = true
	}
	for _, s := range List() {
		if !rows[s.Name] {
			t.Errorf("no row for %s", s.Name)
		}
		delete(rows, s.Name)
	}
	for name := range rows {
		t.Errorf("%s is not run", name)
	}
}
