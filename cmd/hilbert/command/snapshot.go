package command

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"hilbert.dev/hilbert/cmd/hilbert/ask"
)

func newSnapshot() *cobra.Command {
	var h ask.Hilbertd
	cmd := &cobra.Command{
		Use:   "snapshot > FILE",
		Short: "Write everything that the scheduler knows to a file",
		Long: `Write the scheduler's whole state at one revision as JSON: nodes, pods, the objects that constrain them, the queue and the settings.
hilbert explain --from FILE and hilbert queue --from FILE answer from this file as the scheduler would, and hilbert sim --from FILE answers
what-if questions. The file contains names of pods, nodes, labels and images, but no environment variables, secrets or volumes.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			body, err := h.Snapshot(cmd.Context())
			if err != nil {
				return err
			}
			defer func() { _ = body.Close() }()
			if _, err := io.Copy(cmd.OutOrStdout(), body); err != nil {
				return fmt.Errorf("snapshot: the file is not complete: %w", err)
			}
			return nil
		},
	}
	h.Flags(cmd)
	return cmd
}
