package simulation

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cmd/exitcode"
	"hilbert.dev/hilbert/cmd/hilbert/output"
	"hilbert.dev/hilbert/cmd/hilbert/snapshotfile"
	"hilbert.dev/hilbert/kube/reach"
	"hilbert.dev/hilbert/schedule/inspect"
	"hilbert.dev/hilbert/sim/whatif"
)

// whatIfFlags are the flags of hilbert sim --from.
type whatIfFlags struct {
	from       string
	add, drain []string
}

func (f *whatIfFlags) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.from, "from", "", `start from a file that hilbert snapshot wrote ("-": standard input)`)
	flags.StringArrayVar(&f.add, "add", nil, "with --from: create the pods of this YAML file (repeatable)")
	flags.StringArrayVar(&f.drain, "drain", nil, "with --from: remove this node and reschedule its pods (repeatable)")
	for _, name := range []string{"format", "nodes", "pods", "synthetic", "arrive", "seed", "seeds", "schedulers", "check", "faults"} {
		cmd.MarkFlagsMutuallyExclusive("from", name)
	}
}

// runWhatIf answers what would be if.
func runWhatIf(cmd *cobra.Command, f *simFlags) error {
	if f.output != output.Table && f.output != output.JSON {
		return exitcode.Usagef("sim: --output %q is not known; write table or json", f.output)
	}
	d, err := snapshotfile.Read(cmd.Context(), f.whatIf.from, cmd.InOrStdin())
	if err != nil {
		return err
	}
	q := whatif.Change{Drain: f.whatIf.drain, Scores: f.scores}
	for _, path := range f.whatIf.add {
		pods, err := readManifests(cmd, path, d)
		if err != nil {
			return exitcode.BadInputf("--add %s: %w", path, err)
		}
		q.Add = append(q.Add, pods...)
	}
	forecast, err := whatif.NewForecast(cmd.Context(), d, q)
	if err != nil {
		return exitcode.BadInputf("sim: %w", err)
	}
	write := forecast.WriteText
	if f.output == output.JSON {
		write = func(w io.Writer) error { return output.WriteJSON(w, forecast) }
	}
	if err := write(cmd.OutOrStdout()); err != nil {
		return fmt.Errorf("print the forecast: %w", err)
	}
	switch lost := len(forecast.Unplaced) + len(forecast.Lost); {
	case forecast.Interrupted:
		return output.ErrInterrupted
	case lost > 0:
		return exitcode.Negativef("sim: pods without a node: %d", lost)
	}
	return nil
}

func readManifests(cmd *cobra.Command, path string, d *inspect.Dump) (pods []facts.Pod, err error) {
	in := cmd.InOrStdin()
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }()
		in = file
	}
	pods, err = reach.ReadManifests(in, d.SchedulerName, d.Scheduling.ProfileNumbers())
	if err == nil && len(pods) == 0 {
		err = errors.New("it has no pods")
	}
	return pods, err
}
