package command

import (
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	schedulingv1alpha1 "hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/cmd/exitcode"
	"hilbert.dev/hilbert/cmd/hilbert/ask"
	"hilbert.dev/hilbert/cmd/hilbert/complete"
	"hilbert.dev/hilbert/cmd/hilbert/output"
	"hilbert.dev/hilbert/cmd/hilbert/render"
	"hilbert.dev/hilbert/kube/visibility"
	"hilbert.dev/hilbert/schedule/inspect"
)

// queueFlags are the flags of hilbert queue.
type queueFlags struct {
	ask.Hilbertd
	output   output.Format
	resource string
	limit    int
	plain    bool
}

func newQueue() *cobra.Command {
	var f queueFlags
	cmd := &cobra.Command{
		Use:   "queue [NAME]",
		Short: "Show the usage and demand of the queues, and which pods wait, in which order and why",
		Long: `Show the tree of queues: for each queue its usage, how much of that it borrows beyond its guarantee, the requests of its pending pods, its
limit and its fair share. The figures are for one resource: each queue's dominant one, or the one that --resource names. Then list the pending
units and pods with their position in the queue. With a NAME, show only that queue and its descendants.`,
		Example: `  hilbert queue
  hilbert queue research --resource gpu
  hilbert queue -o wide
  hilbert queue --limit 1000 -o json
  hilbert queue --from cluster.json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, strings.Join(args, "")) },
	}
	flags := cmd.Flags()
	flags.IntVar(&f.limit, "limit", ask.QueueLimit, "list at most this many units and pods")
	flags.StringVar(&f.resource, "resource", "", "show all queues by this resource: cpu, memory, gpu, …")
	flags.BoolVar(&f.plain, "plain", false, "draw with ASCII only, as for output that is not a terminal")
	f.Flags(cmd)
	f.FromFlag(cmd)
	cmd.ValidArgsFunction = f.complete
	f.output.Flag(cmd, output.Wide, output.Name)
	return cmd
}

// complete completes the one name.
func (f *queueFlags) complete(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 || f.From != "" {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return complete.Queues(&f.Target)(cmd, args, begun)
}

func (f *queueFlags) run(cmd *cobra.Command, name string) error {
	if err := f.output.Check("queue"); err != nil {
		return err
	}
	if f.limit < 0 || f.limit > visibility.MaxLimit {
		return exitcode.Usagef("queue: --limit %d: want 0 to %d", f.limit, visibility.MaxLimit)
	}
	v, err := f.Queues(cmd.Context(), name, f.limit)
	if err != nil {
		return err
	}
	o := render.Options{Resource: render.ParseResource(f.resource), Plain: f.plain || !output.IsTerminal(cmd.OutOrStdout())}
	if known := render.Resources(v); f.resource != "" && len(v.Queues) > 0 && !slices.ContainsFunc(known, func(name string) bool {
		return render.ParseResource(name) == o.Resource
	}) {
		return exitcode.Usagef("queue: --resource %q: the queues have nothing of it; they have %s", f.resource, strings.Join(known, ", "))
	}
	return f.output.Write(cmd.OutOrStdout(), queueAnswer{v, o})
}

// queueAnswer is a view, and how it is drawn.
type queueAnswer struct {
	*inspect.QueueView
	options render.Options
}

// WriteText draws the view.
func (a queueAnswer) WriteText(w io.Writer) error { return render.Queues(w, a.QueueView, a.options) }

// WriteWide draws every resource of each queue, and how it divides.
func (a queueAnswer) WriteWide(w io.Writer) error {
	a.options.Wide = true
	return a.WriteText(w)
}

// Objects are the Queues.
func (a queueAnswer) Objects() (list []output.Object) {
	for i := range a.Queues {
		if q := &a.Queues[i]; q.Configured {
			list = append(list, output.Object{Group: schedulingv1alpha1.Group, Kind: "Queue", Name: q.Name})
		}
	}
	return list
}
