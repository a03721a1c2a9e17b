package reference_test

import (
	"strconv"
	"strings"
	"testing"

	"hilbert.dev/hilbert/cmd/exitcode"
	"hilbert.dev/hilbert/cmd/hilbert/command"
	"hilbert.dev/hilbert/cmd/hilbertd/daemon"
	. "hilbert.dev/hilbert/internal/reference"
)

// TestReferenceCommands holds cli.md: the help of hilbert and hilbertd.
func TestReferenceCommands(t *testing.T) {
	Hold(t, "cli.md", "Commands", Commands(t, command.New(), daemon.NewCommand()))
}

// TestReferenceExitCodes holds exit-codes.md: what hilbert and hilbertd end with.
func TestReferenceExitCodes(t *testing.T) {
	var page strings.Builder
	page.WriteString(Table("code", "name", "meaning", "example"))
	for _, row := range exitcode.Table() {
		page.WriteString(Row(strconv.Itoa(int(row.Code)), row.Name, row.Meaning, row.Example))
	}
	Hold(t, "exit-codes.md", "Exit codes", page.String())
}
