package reference_test

import (
	"testing"

	"hilbert.dev/hilbert/cmd/hilbert/command"
	"hilbert.dev/hilbert/cmd/hilbertd/daemon"
	. "hilbert.dev/hilbert/internal/reference"
)

// TestReferenceCommands holds cli.md: the help of hilbert and hilbertd.
func TestReferenceCommands(t *testing.T) {
	Hold(t, "cli.md", "Commands", Commands(t, command.New(), daemon.NewCommand()))
}
