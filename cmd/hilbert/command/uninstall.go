package command

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hilbert.dev/hilbert/cmd/exitcode"
	"hilbert.dev/hilbert/cmd/hilbert/ask"
	"hilbert.dev/hilbert/cmd/hilbert/output"
	"hilbert.dev/hilbert/cmd/hilbert/uninstall"
	"hilbert.dev/hilbert/kube/reach"
)

// uninstallFlags are the flags of hilbert uninstall.
type uninstallFlags struct {
	target      reach.Target
	namespace   string
	output      output.Format
	dryRun, yes bool
	options     uninstall.Options
	timeout     time.Duration
}

func newUninstall() *cobra.Command {
	var f uninstallFlags
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Remove Hilbert from a cluster, in the order that leaves nothing behind; --dry-run prints it",
		Long: `Remove what deploy/ or the chart have installed. First goes the APIService, without which namespaces could not be deleted any more. Then a DaemonSet gives
back what the agents have set on their nodes, and the command waits until every node is clean. Then workloads, policies, rights and roles go, and Helm's record of
the release. Definitions, with all Queues, Reservations and ResourceRequests, stay unless --definitions is there. It removes objects whose names are hilbertd, hilbert or begin with hilbert- and
hilbertd-, in the namespace and in the cluster.

--dry-run prints the steps and changes nothing; --yes carries them out, and stops at the first that fails. What is gone by then is no step the next time.`,
		Example: `  hilbert uninstall --dry-run
  hilbert uninstall --yes --definitions`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	ask.TargetFlags(cmd, &f.target)
	ask.InstallNamespaceFlag(cmd, &f.target, &f.namespace)
	flags.BoolVar(&f.dryRun, "dry-run", false, "print the steps, and change nothing")
	flags.BoolVar(&f.yes, "yes", false, "carry the steps out")
	flags.BoolVar(&f.options.Definitions, "definitions", false, "remove the custom resource definitions too, and with them all Queues, Reservations, ResourceRequests, TidePools, ServiceProfiles and NodeConfigurations")
	flags.DurationVar(&f.timeout, "timeout", 10*time.Minute, "wait at most this long until all nodes are clean")
	f.output.Flag(cmd)
	return cmd
}

func (f *uninstallFlags) run(cmd *cobra.Command) error {
	if err := f.output.Check("uninstall"); err != nil {
		return err
	}
	if f.dryRun == f.yes {
		return exitcode.Usagef("uninstall: write --dry-run to see what would be removed, or --yes to remove it")
	}
	r := remover{target: f.target, namespace: f.namespace, timeout: f.timeout, progress: cmd.ErrOrStderr()}
	facts, err := r.inventory(cmd.Context())
	if err != nil {
		return fmt.Errorf("uninstall: %w", ask.Cause(err))
	}
	plan := removal{uninstall.Plan(facts, f.options)}
	if err := f.output.Write(cmd.OutOrStdout(), plan); err != nil || f.dryRun {
		return err
	}
	for i, step := range plan.Steps {
		fmt.Fprintf(r.progress, "step %d of %d: %s\n", i+1, len(plan.Steps), step.Action)
		if err := r.do(cmd.Context(), &step); err != nil {
			return fmt.Errorf("uninstall: step %d (%s): %w", i+1, step.Action, ask.Cause(err))
		}
	}
	return nil
}

// removal is what hilbert uninstall prints.
type removal struct{ uninstall.Removal }

// WriteText writes the steps, what each removes, and the notes.
func (r removal) WriteText(w io.Writer) error {
	var text strings.Builder
	for i, step := range r.Steps {
		fmt.Fprintf(&text, "%d. %s: %s\n", i+1, step.Action, step.Why)
		for _, o := range step.Objects {
			fmt.Fprintf(&text, "   %s\n", o)
		}
	}
	if len(r.Steps) == 0 {
		text.WriteString("nothing of Hilbert is there to be removed\n")
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&text, "note: %s\n", note)
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// do carries one step out.
func (r *remover) do(ctx context.Context, step *uninstall.Step) error {
	switch step.Action {
	case uninstall.StartCleanup:
		return r.startCleanup(ctx)
	case uninstall.AwaitCleanup:
		return r.awaitCleanup(ctx)
	case uninstall.Delete:
	}
	for _, o := range step.Objects {
		if err := r.delete(ctx, o); err != nil {
			return fmt.Errorf("delete %s: %w", o, err)
		}
	}
	return nil
}
