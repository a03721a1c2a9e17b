package ask

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

// QueueLimit is how many waiting units an answer about queues has, unless more are asked for.
const QueueLimit = 50

// Hilbertd is which hilbertd, or which file, a question goes to.
type Hilbertd struct {
	// From is the file; empty: a hilbertd is asked.
	From   string
	Target reach.Target

	input func() io.Reader // standard input
}

// Flags adds the flags that choose a hilbertd.
func (h *Hilbertd) Flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&h.Target.Server, "server", "", "https URL of a hilbertd on this host to ask directly, by a token (default: ask the API server)")
	flags.StringVar(&h.Target.CertificateAuthority, "certificate-authority", "", "file with the certificate authority of --server")
	flags.BoolVar(&h.Target.Insecure, "insecure-skip-tls-verify", false, "do not verify the certificate of --server; your token is sent to whatever answers there")
	TargetFlags(cmd, &h.Target)
	for _, name := range []string{"as", "as-group"} {
		cmd.MarkFlagsMutuallyExclusive("server", name) // only the API server knows who may act for whom
	}
}

// FromFlag adds --from.
func (h *Hilbertd) FromFlag(cmd *cobra.Command) {
	h.input = cmd.InOrStdin
	cmd.Flags().StringVar(&h.From, "from", "", `answer from a file that hilbert snapshot wrote ("-": standard input) instead of asking`)
	for _, name := range append([]string{"server"}, targetFlagNames...) {
		cmd.MarkFlagsMutuallyExclusive("from", name)
	}
}

// put puts a question and decodes its answer into v.
func (h *Hilbertd) put(ctx context.Context, q *visibility.Question, v any) error {
	body, err := h.open(ctx, q)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	if err := visibility.ReadObject(body, q, v); err != nil {
		return fmt.Errorf("the answer about %s cannot be read: %w", q.Resource, err)
	}
	return nil
}

func (h *Hilbertd) open(ctx context.Context, q *visibility.Question) (io.ReadCloser, error) {
	inspector, err := reach.Reach(h.Target)
	if err != nil {
		return nil, Cause(err)
	}
	body, err := inspector.Ask(ctx, q)
	return body, Cause(err)
}

// Cause marks an error with what the packages that answer know of its cause.
func Cause(err error) error {
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

// Read reads the file of --from.
func (h *Hilbertd) Read(ctx context.Context) (*inspect.Dump, error) {
	return snapshotfile.Read(ctx, h.From, h.input())
}

// Pod explains a pod.
func (h *Hilbertd) Pod(ctx context.Context, namespace, name string) (*inspect.Answer, error) {
	return answer(ctx, h, &visibility.Question{Resource: visibility.PodExplanations, Namespace: namespace, Name: name}, func(d *inspect.Dump) (*inspect.Answer, error) {
		return d.Explain(namespace, name)
	})
}

// Unit explains the gang of a PodGroup.
func (h *Hilbertd) Unit(ctx context.Context, namespace, name string) (*inspect.UnitAnswer, error) {
	return answer(ctx, h, &visibility.Question{Resource: visibility.PodGroupExplanations, Namespace: namespace, Name: name}, func(d *inspect.Dump) (*inspect.UnitAnswer, error) {
		return d.ExplainUnit(namespace, name)
	})
}

// Reservation explains a Reservation.
func (h *Hilbertd) Reservation(ctx context.Context, namespace, name string) (*inspect.ReservationAnswer, error) {
	return answer(ctx, h, &visibility.Question{Resource: visibility.ReservationExplanations, Namespace: namespace, Name: name}, func(d *inspect.Dump) (*inspect.ReservationAnswer, error) {
		return d.ExplainReservation(namespace, name)
	})
}

// Node says what the scheduler makes of a node.
func (h *Hilbertd) Node(ctx context.Context, name string) (*inspect.NodeAnswer, error) {
	return answer(ctx, h, &visibility.Question{Resource: visibility.NodeExplanations, Name: name}, func(d *inspect.Dump) (*inspect.NodeAnswer, error) {
		return d.ExplainNode(name)
	})
}

// Queues says how the queues stand, or the named one with those below it, with at most limit of the units that wait.
func (h *Hilbertd) Queues(ctx context.Context, name string, limit int) (*inspect.QueueView, error) {
	return answer(ctx, h, &visibility.Question{Resource: visibility.QueueReports, Name: name, Limit: limit}, func(d *inspect.Dump) (*inspect.QueueView, error) {
		return d.View(inspect.ViewOptions{Limit: limit, Queue: name})
	})
}

// answer is a hilbertd's to q, or what a file gives.
func answer[T any](ctx context.Context, h *Hilbertd, q *visibility.Question, from func(*inspect.Dump) (*T, error)) (*T, error) {
	if h.From == "" {
		v := new(T)
		return v, h.put(ctx, q, v)
	}
	d, err := h.Read(ctx)
	if err != nil {
		return nil, err
	}
	v, err := from(d)
	return v, Cause(err)
}

// Snapshot asks for everything that the scheduler knows.
func (h *Hilbertd) Snapshot(ctx context.Context) (io.ReadCloser, error) {
	return h.open(ctx, &visibility.Question{Resource: visibility.Snapshots, Name: visibility.CurrentSnapshot})
}
