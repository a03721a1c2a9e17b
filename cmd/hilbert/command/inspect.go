package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"hilbert.dev/hilbert/cmd/exitcode"
	"hilbert.dev/hilbert/cmd/hilbert/output"
	"hilbert.dev/hilbert/cmd/hilbert/render"
	"hilbert.dev/hilbert/internal/nearest"
	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/kube/devices"
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
}

// targetFlags adds the flags that choose an API server.
func targetFlags(cmd *cobra.Command, t *reach.Target) {
	flags := cmd.Flags()
	flags.StringVar(&t.Kubeconfig, "kubeconfig", "", "kubeconfig file (default $KUBECONFIG, else ~/.kube/config)")
	flags.StringVar(&t.Context, "context", "", "context of the kubeconfig")
	flags.StringVar(&t.TokenFile, "token-file", "", "file with a bearer token to use instead of the kubeconfig's credentials")
}

// fromFlag adds --from.
func (w *whom) fromFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&w.from, "from", "", `answer from a file that hilbert snapshot wrote ("-": standard input) instead of asking`)
	for _, name := range []string{"server", "kubeconfig", "context", "token-file"} {
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
	switch {
	case errors.As(err, &target) && target.Flag:
		return exitcode.Mark(exitcode.Usage, err)
	case errors.As(err, &target):
		return exitcode.Mark(exitcode.BadInput, err)
	case errors.As(err, &pod), errors.As(err, &unit), errors.As(err, &node), errors.As(err, &queue), errors.Is(err, apiserver.ErrNoDefinition):
		return exitcode.Mark(exitcode.NotFound, err)
	}
	return err
}

// read reads the file of --from.
func (w *whom) read(cmd *cobra.Command) (*inspect.Dump, error) {
	in, name := cmd.InOrStdin(), "standard input"
	if w.from != "-" {
		file, err := os.Open(w.from)
		if err != nil {
			return nil, exitcode.BadInputf("--from: %w", err)
		}
		defer func() { _ = file.Close() }()
		in, name = file, w.from
	}
	d, err := inspect.ReadDump(in)
	if err != nil {
		return nil, exitcode.BadInputf("--from: %s is no snapshot: %w", name, err)
	}
	if err := devices.Restore(cmd.Context(), d.Ledger); err != nil {
		return nil, exitcode.BadInputf("--from: %s: %w", name, err)
	}
	return d, nil
}

// answer is what can be printed both ways.
type answer interface{ WriteText(io.Writer) error }

// podAnswer is where a pod is.
type podAnswer struct{ *inspect.Answer }

// WriteText renders the answer.
func (a podAnswer) WriteText(w io.Writer) error { return render.Pod(w, a.Answer) }

// unitAnswer is how a gang stands.
type unitAnswer struct{ *inspect.UnitAnswer }

// WriteText renders the answer.
func (a unitAnswer) WriteText(w io.Writer) error { return render.Unit(w, a.UnitAnswer) }

// show writes an answer as text or as JSON.
func show(cmd *cobra.Command, format string, a answer) error {
	if format == output.Text {
		return a.WriteText(cmd.OutOrStdout())
	}
	return output.WriteJSON(cmd.OutOrStdout(), a)
}

func outputFlag(cmd *cobra.Command, format *string) {
	cmd.Flags().StringVarP(format, "output", "o", output.Text, "text or json")
}

func checkOutput(command, format string) error {
	if format != output.Text && format != output.JSON {
		return exitcode.Usagef("%s: --output %q is not known; write text or json%s", command, format, nearest.Hint(format, []string{output.Text, output.JSON}))
	}
	return nil
}

func newExplain() *cobra.Command {
	var w whom
	var format string
	cmd := &cobra.Command{
		Use:   "explain pod|unit NAMESPACE/NAME | explain node NAME",
		Short: "Explain where a pod or gang is placed, or why it is not and what would help; or what a node lends",
		Long: `Explain where a pod is placed and how that node scores, or why no node fits: how many nodes each filter rejects, which nodes come
closest and what they lack, and which single change would make the pod fit.

For a unit (the gang of a PodGroup), show which members are placed, how many units are ahead in its queue, what blocks it now (missing
members, the limit of a queue, packing, capacity), and which single change would let it be placed: a higher limit, another unit gone, no packing
constraint, more members or nodes. The scheduler tries each change before it reports it. The command changes nothing in the cluster.

For a node, show what it lends to reclaimed pods and why not more, by NUMA node, how much of that is requested, which pods it wants evicted, and
what its NUMA nodes can promise. The reasons come from the agent's CustomNodeResource; --from has only what the scheduler knows.`,
		Example: `  hilbert explain pod default/web-0
  hilbert explain unit ml/train
  hilbert explain unit ml/train -o json
  hilbert explain node node-17
  hilbert snapshot > cluster.json && hilbert explain pod default/web-0 --from cluster.json`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput("explain", format); err != nil {
				return err
			}
			if args[0] == kindNode {
				a, err := w.explainNode(cmd, args[1])
				if err != nil {
					return err
				}
				return show(cmd, format, a)
			}
			namespace, name, err := objectName(args)
			if err != nil {
				return err
			}
			if args[0] == kindUnit {
				a, err := w.explainUnit(cmd, namespace, name)
				if err != nil {
					return err
				}
				return show(cmd, format, unitAnswer{a})
			}
			a, err := w.explain(cmd, namespace, name)
			if err != nil {
				return err
			}
			return show(cmd, format, podAnswer{a})
		},
	}
	w.flags(cmd)
	w.fromFlag(cmd)
	outputFlag(cmd, &format)
	return cmd
}

// What can be explained.
const (
	kindPod  = "pod"
	kindUnit = "unit"
	kindNode = "node"
)

// objectName reads "pod NAMESPACE/NAME" or "unit NAMESPACE/NAME"; without a namespace it is default.
func objectName(args []string) (namespace, name string, err error) {
	if args[0] != kindPod && args[0] != kindUnit {
		return "", "", exitcode.Usagef("explain: %q cannot be explained%s; write: hilbert explain pod NAMESPACE/NAME, hilbert explain unit NAMESPACE/NAME, or hilbert explain node NAME",
			args[0], nearest.Hint(args[0], []string{kindPod, kindUnit, kindNode}))
	}
	namespace, name, ok := strings.Cut(args[1], "/")
	if !ok {
		namespace, name = "default", args[1]
	}
	if namespace == "" || name == "" || strings.Contains(name, "/") {
		return "", "", exitcode.Usagef("explain: %q is no %s; write NAMESPACE/NAME", args[1], args[0])
	}
	return namespace, name, nil
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
