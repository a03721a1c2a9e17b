package main

import (
	"testing"

	"hilbert.dev/hilbert/internal/reference"
)

// TestReferenceCommands holds docs/reference/hilbert-lab.md: the help of hilbert-lab.
func TestReferenceCommands(t *testing.T) {
	reference.Hold(t, "hilbert-lab.md", "Commands of hilbert-lab", reference.Commands(t, newRootCommand()))
}
