package suite

import (
	_ "embed"
	"fmt"
	"regexp"
	"strings"
)

//go:embed specs.txt
var specsText string

// Spec is one line of the list.
type Spec struct {
	// Name is the spec's full text, as upstream's report has it.
	Name string
	// BothFail is why kube-scheduler fails it on hollow nodes, too; empty for one that it passes.
	BothFail string
	// Slow is why it takes minutes; empty for one that does not. A check of every change leaves those out.
	Slow string
}

// Conformance reports whether every conformant cluster has to pass it.
func (s Spec) Conformance() bool { return strings.Contains(s.Name, "[Conformance]") }

// Scheduling reports whether the program that links [sig-scheduling] alone has it.
func (s Spec) Scheduling() bool { return strings.HasPrefix(s.Name, "[sig-scheduling]") }

// List returns the specs that are run, in the order of the file.
func List() []Spec { return parseList(specsText) }

// parseList reads one spec a line. A line that begins with ! says why both schedulers fail the spec below it, one with ~ why that takes minutes; # begins a
// comment.
func parseList(text string) (list []Spec) {
	var next Spec
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "!"):
			next.BothFail = strings.TrimSpace(line[1:])
		case strings.HasPrefix(line, "~"):
			next.Slow = strings.TrimSpace(line[1:])
		default:
			next.Name = line
			list = append(list, next)
			next = Spec{}
		}
	}
	return list
}

// suiteName is what ginkgo puts before a spec's text when it matches a focus.
const suiteName = "Kubernetes e2e suite"

// focus is the regular expression that chooses exactly these specs.
func focus(specs []Spec) string {
	names := make([]string, len(specs))
	for i, s := range specs {
		names[i] = regexp.QuoteMeta(s.Name)
	}
	return fmt.Sprintf("^%s (%s)$", suiteName, strings.Join(names, "|"))
}
