package integration

import (
	_ "embed"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

//go:embed tests.txt
var testsText string

// Test is one line of the list.
type Test struct {
	// Package is below upstream's test/integration/scheduler; "." for that itself.
	Package string
	// Name is a function's, or PARENT/SUBTEST for subtests that are left out of a function that is run; "..." in a subtest stands for anything.
	Name string
	// LeftOut is why it is not run; empty for one that is.
	LeftOut string
	// Short says that a check of a few minutes has it.
	Short bool
}

func (t Test) String() string { return path.Join(t.Package, t.Name) }

// List returns upstream's tests in the order of the file.
func List() ([]Test, error) { return parseList(testsText) }

// parseList reads one test a line. A line that begins with - says why the tests below it are left out, down to the next empty line; # begins a comment, * marks a
// test that the short form has.
func parseList(text string) ([]Test, error) {
	var list []Test
	cause, number := "", 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		switch {
		case line == "":
			cause = ""
			continue
		case strings.HasPrefix(line, "#"):
			continue
		case strings.HasPrefix(line, "-"):
			cause = strings.TrimSpace(line[1:])
			continue
		}
		name, short := strings.CutPrefix(line, "* ")
		at := strings.Index(name, "Test")
		t := Test{Package: ".", LeftOut: cause, Short: short}
		switch {
		case at < 0 || at > 0 && name[at-1] != '/':
			return nil, fmt.Errorf("line %d: %q is not PACKAGE/TestNAME", number, line)
		case at > 0:
			t.Package = name[:at-1]
		}
		t.Name = name[at:]
		switch {
		case short && cause != "":
			return nil, fmt.Errorf("line %d: %q is left out and in the short form", number, line)
		case cause == "" && strings.Contains(t.Name, "/"):
			return nil, fmt.Errorf("line %d: %q: a subtest runs with its test, and is named only to leave it out", number, line)
		case slices.ContainsFunc(list, func(o Test) bool { return o.Package == t.Package && o.Name == t.Name }):
			return nil, fmt.Errorf("line %d: %q is there twice", number, line)
		}
		list = append(list, t)
	}
	return list, nil
}

// Choose returns what is to be run, and the subtests to leave out of it: of the short form only if short, and only those whose names contain every word.
func Choose(list []Test, short bool, words ...string) []Test {
	var chosen []Test
	for _, t := range list {
		if !strings.Contains(t.Name, "/") && t.LeftOut == "" && (t.Short || !short) &&
			!slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(t.String(), word) }) {
			chosen = append(chosen, t)
		}
	}
	for _, t := range list {
		parent, _, found := strings.Cut(t.Name, "/")
		if found && slices.ContainsFunc(chosen, func(o Test) bool { return o.Package == t.Package && o.Name == parent }) {
			chosen = append(chosen, t)
		}
	}
	return chosen
}

// anything stands for any text in a subtest's name.
const anything = "..."

// patterns are the values of -run and -skip for these tests of one package. Without a subtest to skip, skip is empty.
func patterns(tests []Test) (run, skip string) {
	var runs, skips []string
	for _, t := range tests {
		parts := strings.Split(t.Name, "/")
		for i := range parts {
			parts[i] = "^" + strings.ReplaceAll(regexp.QuoteMeta(parts[i]), regexp.QuoteMeta(anything), ".*") + "$"
		}
		if t.LeftOut == "" {
			runs = append(runs, strings.Join(parts, "/"))
		} else {
			skips = append(skips, strings.Join(parts, "/"))
		}
	}
	return strings.Join(runs, "|"), strings.Join(skips, "|")
}
