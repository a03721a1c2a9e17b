package migrate

import (
	"cmp"
	"fmt"
)

// Outcome says what became of a word.
type Outcome string

// The outcomes, from harmless to fatal.
const (
	Translated Outcome = "Translated"
	Kept       Outcome = "Kept"
	Manual     Outcome = "Manual"
	Invented   Outcome = "Invented"
	Lost       Outcome = "Lost"
	Unknown    Outcome = "Unknown"
)

// Finding is what became of one word of another system.
type Finding struct {
	Outcome Outcome `json:"outcome"`
	// Object is where the word stands: kind, and namespace and name where the manifest has them.
	Object string `json:"object"`
	// Line is the line of the input, from 1.
	Line int `json:"line"`
	// System is whose word it is, such as "koordinator".
	System string `json:"system"`
	// Word is a key, or a field, with its value.
	Word string `json:"word"`
	// Message says what was written instead, or what to do.
	Message string `json:"message"`
}

// String is one line for people.
func (f Finding) String() string {
	return fmt.Sprintf("line %d: %s: %s: %s: %s", f.Line, f.Object, f.Outcome, f.Word, f.Message)
}

// Count returns how many findings have an outcome.
func (r *Result) Count(outcome Outcome) int {
	n := 0
	for i := range r.Findings {
		if r.Findings[i].Outcome == outcome {
			n++
		}
	}
	return n
}

// compare orders findings as they stand in the input.
func compare(a, b Finding) int { return cmp.Compare(a.Line, b.Line) }
