package command

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"hilbert.dev/hilbert/cmd/exitcode"
	"hilbert.dev/hilbert/cmd/hilbert/ask"
	"hilbert.dev/hilbert/cmd/hilbert/output"
	"hilbert.dev/hilbert/internal/version"
	"hilbert.dev/hilbert/kube/reach"
)

// versionTimeout bounds how long hilbert version waits for a cluster.
const versionTimeout = 10 * time.Second

// versionAnswer is the builds on both sides.
type versionAnswer struct {
	Client version.Info    `json:"client"`
	Server *reach.Versions `json:"server,omitempty"`
	// Trouble says why the server's build is not known.
	Trouble string `json:"trouble,omitempty"`
}

// WriteText writes a line for each program.
func (a *versionAnswer) WriteText(w io.Writer) error {
	text := "hilbert     " + a.Client.String() + "\n"
	if a.Server != nil && a.Server.Hilbertd != "" {
		text += "hilbertd    " + a.Server.Hilbertd + "\n"
	}
	if a.Server != nil && a.Server.Kubernetes != "" {
		text += "kubernetes  " + a.Server.Kubernetes + "\n"
	}
	_, err := io.WriteString(w, text)
	return err
}

func newVersion() *cobra.Command {
	var h ask.Hilbertd
	var format output.Format
	var client bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the builds of this program, of the hilbertd that answers, and of Kubernetes",
		Long: `Show the build of this program, then those of the hilbertd that answers and of Kubernetes. --client asks no cluster. It needs no permission beyond
what every user has who may discover APIs. During an update replicas differ; the one that answers tells its own build.`,
		Example: `  hilbert version
  hilbert version --client -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := format.Check("version"); err != nil {
				return err
			}
			a := &versionAnswer{Client: version.Get()}
			var asked error
			if !client {
				a.Server, asked = versions(cmd.Context(), h.Target)
				if asked != nil {
					a.Trouble = asked.Error()
				}
			}
			if err := format.Write(cmd.OutOrStdout(), a); err != nil {
				return err
			}
			if asked != nil {
				return exitcode.Mark(exitcode.Partial, fmt.Errorf("version: the server's is not known: %w; --client asks no server", asked))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&client, "client", false, "show the build of this program only")
	format.Flag(cmd)
	h.Flags(cmd)
	return cmd
}

// versions asks the cluster.
func versions(ctx context.Context, target reach.Target) (*reach.Versions, error) {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	inspector, err := reach.Reach(target)
	if err != nil {
		return nil, err
	}
	v, err := inspector.Versions(ctx)
	return &v, err
}
