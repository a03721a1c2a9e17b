// Package snapshotfile reads what hilbert snapshot wrote, for the subcommands that answer from a file instead of asking a hilbertd.
//
// For example, hilbert explain --from cluster.json says what the live process would have said when the snapshot was taken, and hilbert sim --from what it would do
// next. Invariants: a file that is no snapshot is the user's mistake, and the error says which file; devices are restored with it, so that claims for them can be
// decided. It holds no form of the file itself: package schedule/inspect has that.
package snapshotfile

import (
	"context"
	"io"
	"os"

	"hilbert.dev/hilbert/cmd/exitcode"
	"hilbert.dev/hilbert/kube/devices"
	"hilbert.dev/hilbert/schedule/inspect"
)

// Read reads the snapshot that --from names; "-" is standard input.
func Read(ctx context.Context, from string, standard io.Reader) (*inspect.Dump, error) {
	in, name := standard, "standard input"
	if from != "-" {
		file, err := os.Open(from)
		if err != nil {
			return nil, exitcode.BadInputf("--from: %w", err)
		}
		defer func() { _ = file.Close() }()
		in, name = file, from
	}
	d, err := inspect.ReadDump(in)
	if err != nil {
		return nil, exitcode.BadInputf("--from: %s is no snapshot: %w", name, err)
	}
	if err := devices.Restore(ctx, d.Ledger); err != nil {
		return nil, exitcode.BadInputf("--from: %s: %w", name, err)
	}
	return d, nil
}
