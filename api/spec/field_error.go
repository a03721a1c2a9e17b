package spec

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// FieldError is one mistake in a configuration.
type FieldError struct {
	// Field is the field's path in the file, such as scheduling.profiles[0].name.
	Field string
	Err   error
}

// Error names the field and the mistake.
func (e *FieldError) Error() string { return e.Field + ": " + e.Err.Error() }

// Unwrap returns the mistake.
func (e *FieldError) Unwrap() error { return e.Err }

// ValueError is a value that is none of those that are known.
type ValueError struct {
	Value string
	Known []string
}

// Error names the value and what to write instead.
func (e *ValueError) Error() string {
	return fmt.Sprintf("%q is not known; write %s", e.Value, orList(e.Known))
}

// FieldErrors returns the mistakes that Validate joined.
func FieldErrors(err error) []*FieldError {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var out []*FieldError
		for _, inner := range joined.Unwrap() {
			out = append(out, FieldErrors(inner)...)
		}
		return out
	}
	if field, ok := errors.AsType[*FieldError](err); ok {
		return []*FieldError{field}
	}
	return nil
}

// Removed says what has become of a field that files and NodeConfigurations once had; "": it never was, or still is. Strict reading refuses such a field, and whoever upgrades is told why.
func Removed(field string) string {
	switch field {
	case "node.cpu.forecast":
		return "it was removed, since the forecast cost work and kept no target; delete it: CPUs are lent by what is used now"
	}
	return ""
}

// report tells a mistake in a field.
type report func(field, format string, args ...any)

func collector(errs *[]error) report {
	return func(field, format string, args ...any) {
		*errs = append(*errs, &FieldError{Field: field, Err: fmt.Errorf(format, args...)})
	}
}

// oneOf reports a value that is none of those that are known.
func oneOf(bad report, field, value string, known ...string) {
	if !slices.Contains(known, value) {
		notOneOf(bad, field, value, known...)
	}
}

func notOneOf(bad report, field, value string, known ...string) {
	bad(field, "%w", &ValueError{Value: value, Known: known})
}

func orList(words []string) string { return listed(words, "or") }

// listed is a list with a word before its last part.
func listed(words []string, before string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " " + before + " " + words[last]
}
