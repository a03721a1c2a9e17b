package command

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"hilbert.dev/hilbert/cmd/exitcode"
	"hilbert.dev/hilbert/cmd/hilbert/snapshotfile"
	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/kube/reach"
	"hilbert.dev/hilbert/kube/visibility"
	"hilbert.dev/hilbert/schedule/inspect"
)

// whom is which hilbertd, or which file, a question goes to.
type whom struct {
	from   string
	target reach.Target
}

// flags adds the flags that choose a hilbertd.
func (w *whom) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&w.target.Server, "server", "", "https URL of a hilbertd on this host to ask directly, by a token (default: ask the API server)")
	flags.StringVar(&w.target.CertificateAuthority, "certificate-authority", "", "file with the certificate authority of --server")
	flags.BoolVar(&w.target.Insecure, "insecure-skip-tls-verify", false, "do not verify the certificate of --server; your token is sent to whatever answers there")
	targetFlags(cmd, &w.target)
	for _, name := range []string{"as", "as-group"} {
		cmd.MarkFlagsMutuallyExclusive("server", name) // only the API server knows who may act for whom
	}
}

// fromFlag adds --from.
func (w *whom) fromFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&w.from, "from", "", `answer from a file that hilbert snapshot wrote ("-": standard input) instead of asking`)
	for _, name := range append([]string{"server"}, targetFlagNames...) {
		cmd.MarkFlagsMutuallyExclusive("from", name)
	}
}

// ask puts a question and decodes its answer into v.
func (w *whom) ask(ctx context.Context, q *visibility.Question, v any) error {
	body, err := w.open(ctx, q)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	if err := visibility.ReadObject(body, q, v); err != nil {
		return fmt.Errorf("the answer about %s cannot be read: %w", q.Resource, err)
	}
	return nil
}

func (w *whom) open(ctx context.Context, q *visibility.Question) (io.ReadCloser, error) {
	inspector, err := reach.Reach(w.target)
	if err != nil {
		return nil, cause(err)
	}
	body, err := inspector.Ask(ctx, q)
	return body, cause(err)
}

// cause marks an error with what the packages that answer know of its cause.
func cause(err error) error {
	var target *reach.TargetError
	var pod *inspect.NoPod
	var unit *inspect.NoUnit
	var node *inspect.NoNode
	var queue *inspect.NoQueue
	var reservation *inspect.NoReservation
	switch {
	case errors.As(err, &target) && target.Flag:
		return exitcode.Mark(exitcode.Usage, err)
	case errors.As(err, &target):
		return exitcode.Mark(exitcode.BadInput, err)
	case errors.As(err, &pod), errors.As(err, &unit), errors.As(err, &node), errors.As(err, &queue), errors.As(err, &reservation), errors.Is(err, apiserver.ErrNoDefinition):
		return exitcode.Mark(exitcode.NotFound, err)
	}
	return err
}

// read reads the file of --from.
func (w *whom) read(cmd *cobra.Command) (*inspect.Dump, error) {
	return snapshotfile.Read(cmd.Context(), w.from, cmd.InOrStdin())
}

func (w *whom) explain(cmd *cobra.Command, namespace, name string) (*inspect.Answer, error) {
	if w.from == "" {
		return w.askPod(cmd.Context(), namespace, name)
	}
	d, err := w.read(cmd)
	if err != nil {
		return nil, err
	}
	a, err := d.Explain(namespace, name)
	return a, cause(err)
}

func (w *whom) explainUnit(cmd *cobra.Command, namespace, name string) (*inspect.UnitAnswer, error) {
	if w.from == "" {
		return w.askUnit(cmd.Context(), namespace, name)
	}
	d, err := w.read(cmd)
	if err != nil {
		return nil, err
	}
	a, err := d.ExplainUnit(namespace, name)
	return a, cause(err)
}

func (w *whom) explainReservation(cmd *cobra.Command, namespace, name string) (*inspect.ReservationAnswer, error) {
	if w.from == "" {
		a := &inspect.ReservationAnswer{}
		return a, w.ask(cmd.Context(), &visibility.Question{Resource: visibility.ReservationExplanations, Namespace: namespace, Name: name}, a)
	}
	d, err := w.read(cmd)
	if err != nil {
		return nil, err
	}
	a, err := d.ExplainReservation(namespace, name)
	return a, cause(err)
}

func (w *whom) askPod(ctx context.Context, namespace, name string) (*inspect.Answer, error) {
	a := &inspect.Answer{}
	return a, w.ask(ctx, &visibility.Question{Resource: visibility.PodExplanations, Namespace: namespace, Name: name}, a)
}

func (w *whom) askUnit(ctx context.Context, namespace, name string) (*inspect.UnitAnswer, error) {
	a := &inspect.UnitAnswer{}
	return a, w.ask(ctx, &visibility.Question{Resource: visibility.PodGroupExplanations, Namespace: namespace, Name: name}, a)
}

// openSnapshot asks for everything that the scheduler knows.
func (w *whom) openSnapshot(ctx context.Context) (io.ReadCloser, error) {
	return w.open(ctx, &visibility.Question{Resource: visibility.Snapshots, Name: visibility.CurrentSnapshot})
}

func newSnapshot() *cobra.Command {
	var w whom
	cmd := &cobra.Command{
		Use:   "snapshot > FILE",
		Short: "Write everything that the scheduler knows to a file",
		Long: `Write the scheduler's whole state at one revision as JSON: nodes, pods, the objects that constrain them, the queue and the settings.
hilbert explain --from FILE and hilbert queue --from FILE answer from this file as the scheduler would, and hilbert sim --from FILE answers
what-if questions. The file contains names of pods, nodes, labels and images, but no environment variables, secrets or volumes.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			body, err := w.openSnapshot(cmd.Context())
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
	w.flags(cmd)
	return cmd
}
