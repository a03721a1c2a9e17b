package command

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"hilbert.dev/hilbert/cmd/exitcode"
	"hilbert.dev/hilbert/cmd/hilbert/output"
	"hilbert.dev/hilbert/cmd/hilbertd/configfile"
	"hilbert.dev/hilbert/node/advise"
)

// The bounds of hilbert node replay --limit.
const (
	replayLimit    = 1000
	maxReplayLimit = 1_000_000
)

func newNode() *cobra.Command {
	node := &cobra.Command{
		Use:   "node",
		Short: "Try what Hilbert promises of a machine, and inspect what its agent decided",
	}
	node.AddCommand(newProbe(), newReplay())
	return node
}

// replayFlags are the flags of hilbert node replay.
type replayFlags struct {
	output string
	config string
	params []string
	limit  int
}

func newReplay() *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use:   "replay FILE",
		Short: "Replay a node's control laws over recorded observations, and show what changed and why",
		Long: `Replay the control laws of colocation over a record of their observations. The record is JSON lines: the first has the laws' parameters and
state, each other line an observation and optionally the advice given then. FILE may be - for standard input.

The table shows each change: cores lent, CPU and memory offered, suppression, and the reason for the bound. Results that differ from the
record are marked; with the recorded parameters none differ. --config replays with the parameters that a configuration file of hilbertd gives an agent,
--params with other values of single ones. The observations stay those that the recorded
advice led to, so this shows what the other parameters would have advised, not what would have happened.`,
		Example: `  hilbert node replay node-7.jsonl
  hilbert node replay node-7.jsonl --params targetUse=0.7 --params riseAfter=1m
  hilbert node replay node-7.jsonl --config agent.yaml
  hilbert node replay node-7.jsonl -o json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.output, "output", "o", output.Table, "table or json")
	flags.StringVar(&f.config, "config", "", "replay with the parameters of this configuration file of hilbertd")
	flags.StringArrayVar(&f.params, "params", nil, "replay with another value of a parameter: NAME=VALUE (repeatable)")
	flags.IntVar(&f.limit, "limit", replayLimit, "show at most this many changes")
	return cmd
}

func (f *replayFlags) run(cmd *cobra.Command, name string) error {
	if f.output != output.Table && f.output != output.JSON {
		return exitcode.Usagef("replay: --output %q is not known; write table or json", f.output)
	}
	if f.limit < 0 || f.limit > maxReplayLimit {
		return exitcode.Usagef("replay: --limit %d: want 0 to %d", f.limit, maxReplayLimit)
	}
	in := cmd.InOrStdin()
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return exitcode.BadInputf("replay: %w", err)
		}
		defer func() { _ = file.Close() }() // it was only read
		in = file
	}
	out, err := f.replay(in)
	if err != nil {
		// What came before a line that cannot be read is worth seeing: a record ends where its writer was stopped.
		if out.Ticks > 0 {
			_ = f.show(cmd, out)
		}
		return exitcode.BadInputf("replay %s: %w", name, err)
	}
	return f.show(cmd, out)
}

// replayed is what hilbert node replay prints.
type replayed struct {
	Ticks int `json:"ticks"`
	// From and To are the times of the first and the last tick.
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Compared ticks have an advice in the record, Different ones another than they have now.
	Compared  int `json:"compared"`
	Different int `json:"different"`
	// Changes are the first --limit of All.
	Changes []replayedChange `json:"changes"`
	All     int              `json:"all"`
}

// replayedChange is something that moved from one tick to the next.
type replayedChange struct {
	At   time.Time `json:"at"`
	Line int       `json:"line"`
	advise.Change
	// Recorded is what the record has instead; empty: the same, or nothing.
	Recorded string `json:"recorded,omitempty"`
}

func (f *replayFlags) replay(in io.Reader) (out replayed, err error) {
	var last advise.Advice
	set := func(p *advise.Params) error {
		if f.config != "" {
			c, err := configfile.Load(f.config)
			if err != nil {
				return exitcode.BadInputf("--config: %w", err)
			}
			explain := p.Explain
			*p = advise.ParamsOf(&c.Node)
			p.Explain = explain
		}
		for _, param := range f.params {
			key, value, ok := strings.Cut(param, "=")
			if !ok {
				return exitcode.Usagef("--params %q: want NAME=VALUE", param)
			}
			if err := p.Set(key, value); err != nil {
				return exitcode.Usagef("--params: %w", err)
			}
		}
		return nil
	}
	err = advise.Replay(in, set, func(r advise.Replayed) error {
		if out.Ticks++; out.Ticks == 1 {
			out.From = r.Observation.Wall
		}
		out.To = r.Observation.Wall
		changes := advise.Changes(&last, &r.Advice)
		var differs []advise.Change
		if r.Recorded != nil {
			out.Compared++
			if !advise.Same(r.Recorded, &r.Advice) {
				out.Different++
				differs = advise.Changes(r.Recorded, &r.Advice)
			}
		}
		for _, c := range changes {
			out.add(f.limit, replayedChange{At: r.Observation.Wall, Line: r.Line, Change: c, Recorded: recorded(differs, c)})
		}
		last = r.Advice
		return nil
	})
	return out, err
}

// recorded is what the record has of what changed, where it differs.
func recorded(differs []advise.Change, c advise.Change) string {
	i := slices.IndexFunc(differs, func(d advise.Change) bool { return d.NUMANode == c.NUMANode && d.What == c.What })
	if i < 0 {
		return ""
	}
	return differs[i].From
}

func (r *replayed) add(limit int, c replayedChange) {
	if r.All++; len(r.Changes) < limit {
		r.Changes = append(r.Changes, c)
	}
}

func (f *replayFlags) show(cmd *cobra.Command, r replayed) error {
	if f.output == output.JSON {
		encoder := json.NewEncoder(cmd.OutOrStdout())
		encoder.SetIndent("", "  ")
		return encoder.Encode(r)
	}
	return r.WriteText(cmd.OutOrStdout())
}

// WriteText prints the changes as a table, and how they compare.
func (r replayed) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "TIME\tLINE\tZONE\tWHAT\tFROM\tTO\tWHY\tRECORDED")
	for _, c := range r.Changes {
		numa := "node"
		if c.NUMANode >= 0 {
			numa = strconv.Itoa(c.NUMANode)
		}
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n", c.At.Format("15:04:05"), c.Line, numa, c.What,
			worth(c.What, c.From), worth(c.What, c.To), c.Why, worth(c.What, c.Recorded))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if r.All > len(r.Changes) {
		fmt.Fprintf(w, "%d more: --limit %d\n", r.All-len(r.Changes), r.All)
	}
	compared := "no advice was recorded with them"
	if r.Compared > 0 {
		compared = fmt.Sprintf("%d of %d differ from the record", r.Different, r.Compared)
	}
	_, err := fmt.Fprintf(w, "%d ticks, %s to %s; %s\n", r.Ticks, r.From.Format(time.DateTime), r.To.Format(time.DateTime), compared)
	return err
}

// worth writes an amount with its unit.
func worth(what, value string) string {
	n, err := strconv.ParseInt(value, 10, 64)
	switch {
	case err != nil:
		return value
	case what == "cpu":
		return fmt.Sprintf("%.1f CPUs", float64(n)/1000)
	case what == "memory":
		return fmt.Sprintf("%d MiB", n>>20)
	case what == "lend":
		return value + " cores"
	}
	return value
}
