package command

import (
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"hilbert.dev/hilbert/cmd/exitcode"
	"hilbert.dev/hilbert/cmd/hilbert/output"
	"hilbert.dev/hilbert/cmd/hilbert/render"
	"hilbert.dev/hilbert/kube/visibility"
	"hilbert.dev/hilbert/schedule/inspect"
)

// The bounds of hilbert queue --limit.
const (
	queueLimit    = 50
	maxQueueLimit = visibility.MaxLimit
)

// queueFlags are the flags of hilbert queue.
type queueFlags struct {
	whom
	output, resource string
	limit            int
	plain            bool
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
  hilbert queue --limit 1000 -o json
  hilbert queue --from cluster.json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, strings.Join(args, "")) },
	}
	flags := cmd.Flags()
	flags.IntVar(&f.limit, "limit", queueLimit, "list at most this many units and pods")
	flags.StringVar(&f.resource, "resource", "", "show all queues by this resource: cpu, memory, gpu, …")
	flags.BoolVar(&f.plain, "plain", false, "draw with ASCII only, as for output that is not a terminal")
	f.flags(cmd)
	f.fromFlag(cmd)
	outputFlag(cmd, &f.output)
	return cmd
}

func (f *queueFlags) run(cmd *cobra.Command, name string) error {
	if err := checkOutput("queue", f.output); err != nil {
		return err
	}
	if f.limit < 0 || f.limit > maxQueueLimit {
		return exitcode.Usagef("queue: --limit %d: want 0 to %d", f.limit, maxQueueLimit)
	}
	v, err := f.ask(cmd, name)
	if err != nil {
		return err
	}
	o := render.Options{Resource: render.ParseResource(f.resource), Plain: f.plain || !output.IsTerminal(cmd.OutOrStdout())}
	if known := render.Resources(v); f.resource != "" && len(v.Queues) > 0 && !slices.ContainsFunc(known, func(name string) bool {
		return render.ParseResource(name) == o.Resource
	}) {
		return exitcode.Usagef("queue: --resource %q: the queues have nothing of it; they have %s", f.resource, strings.Join(known, ", "))
	}
	return show(cmd, f.output, queueAnswer{v, o})
}

// queueAnswer is a view, and how it is drawn.
type queueAnswer struct {
	*inspect.QueueView
	options render.Options
}

// WriteText draws the view.
func (a queueAnswer) WriteText(w io.Writer) error { return render.Queues(w, a.QueueView, a.options) }

func (f *queueFlags) ask(cmd *cobra.Command, name string) (*inspect.QueueView, error) {
	if f.from == "" {
		v := &inspect.QueueView{}
		return v, f.whom.ask(cmd.Context(), &visibility.Question{Resource: visibility.QueueReports, Name: name, Limit: f.limit}, v)
	}
	d, err := f.read(cmd)
	if err != nil {
		return nil, err
	}
	v, err := d.View(inspect.ViewOptions{Limit: f.limit, Queue: name})
	return v, cause(err)
}
