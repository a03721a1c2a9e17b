package suite

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Outcome is how a spec ended.
type Outcome string

// The outcomes. A spec that was skipped said itself that this cluster is not for it.
const (
	Passed  Outcome = "passed"
	Failed  Outcome = "failed"
	Skipped Outcome = "skipped"
)

// Ended is how a spec ended with one scheduler.
type Ended struct {
	Outcome Outcome `json:"outcome"`
	Seconds float64 `json:"seconds"`
	// Why is the first line of the failure, or why it was skipped.
	Why string `json:"why,omitempty"`
}

// ginkgoReport is what is read of ginkgo's JSON report.
type ginkgoReport struct {
	SpecReports []struct {
		ContainerHierarchyTexts []string
		LeafNodeType            string
		LeafNodeText            string
		State                   string
		RunTime                 time.Duration
		Failure                 struct{ Message string }
	}
}

// readReport returns how each spec of the list ended, by name. A spec that the program does not have is an error: a list that no longer fits upstream's version must
// not look like success.
func readReport(data []byte, specs []Spec) (map[string]Ended, error) {
	var reports []ginkgoReport
	if err := json.Unmarshal(data, &reports); err != nil {
		return nil, fmt.Errorf("read the report of the specs: %w", err)
	}
	all := make(map[string]Ended)
	for _, report := range reports {
		for i := range report.SpecReports {
			s := &report.SpecReports[i]
			if s.LeafNodeType != "It" {
				if s.State == "failed" {
					return nil, fmt.Errorf("%s of the whole suite failed: %s", s.LeafNodeType, firstLine(s.Failure.Message))
				}
				continue
			}
			name := strings.Join(append(s.ContainerHierarchyTexts, s.LeafNodeText), " ")
			e := Ended{Outcome: Failed, Seconds: s.RunTime.Seconds(), Why: firstLine(s.Failure.Message)}
			switch s.State {
			case "passed":
				e.Outcome = Passed
			case "skipped", "pending":
				e.Outcome = Skipped
			}
			all[name] = e
		}
	}
	ended := make(map[string]Ended, len(specs))
	for _, s := range specs {
		e, known := all[s.Name]
		if !known {
			return nil, fmt.Errorf("lab/suite/specs.txt names %q, which the program does not have; take the name from its --list-tests", s.Name)
		}
		ended[s.Name] = e
	}
	return ended, nil
}

// maxWhy bounds a reason in the table, in bytes.
const maxWhy = 200

func firstLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxWhy {
		text = text[:maxWhy] + " …"
	}
	return text
}
