package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/exitcode"
	"hilbert.dev/hilbert/cmd/hilbert/output"
	"hilbert.dev/hilbert/node/probe"
)

// probeTimeout is for how long a probe waits for drivers: nvidia-smi wakes each GPU.
const probeTimeout = 2 * time.Minute

// probeFlags are the flags of hilbert node probe.
type probeFlags struct {
	output  string
	toolkit string
	write   bool
	disk    string
	inUse   bool
}

func newProbe() *cobra.Command {
	var f probeFlags
	cmd := &cobra.Command{
		Use:   "probe",
		Short: "Try on this machine what Hilbert promises of hardware, and say what holds",
		Long: `Try on this machine what Hilbert promises of hardware, and print pass, fail, absent (this machine has no such hardware) or unknown (it could not be looked at)
for each promise. Some of the hardware was never at hand of those who wrote Hilbert: the column SEEN ON says where a promise was seen to hold, and is empty where that
is nowhere yet.

Run it as root on a node. It changes nothing, unless --write lets it make groups of resctrl as an agent does, and remove them: do that only where no agent
runs. --disk measures the disk that a directory lies on, for io.cost: it writes at most 768 MiB to a file there that has no name, in at most 18 s, and writes nothing where
others use the disk, unless --disk-in-use is given. It ends with 7 when a promise fails.`,
		Example: `  hilbert node probe
  hilbert node probe --write
  hilbert node probe --disk /var/lib/containerd
  hilbert node probe -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.output, "output", "o", output.Table, "table or json")
	flags.StringVar(&f.toolkit, "toolkit-config", spec.Default().Node.Devices.ToolkitConfig, "the configuration of NVIDIA's container toolkit")
	flags.BoolVar(&f.write, "write", false, "make groups of resctrl, and remove them")
	flags.StringVar(&f.disk, "disk", "", "a directory: measure the disk that it lies on, by a file there")
	flags.BoolVar(&f.inUse, "disk-in-use", false, "measure the disk even if others use it; they wait meanwhile")
	return cmd
}

func (f *probeFlags) run(cmd *cobra.Command) error {
	if f.output != output.Table && f.output != output.JSON {
		return exitcode.Usagef("probe: --output %q is not known; write table or json", f.output)
	}
	m := probe.Real(time.Now(), f.toolkit, f.write)
	if m == nil {
		return exitcode.Usagef("probe: this is no Linux machine; run it on a node")
	}
	if f.disk != "" {
		disk, err := probe.RealDisk(f.disk, f.inUse)
		if err != nil {
			return exitcode.Usagef("probe: --disk %s: %v", f.disk, err)
		}
		m.Disk = disk
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), probeTimeout)
	defer cancel()
	results := probe.Run(ctx, m, probe.Promises())
	if err := f.show(cmd.OutOrStdout(), results); err != nil {
		return err
	}
	if n := probe.Failed(results); n > 0 {
		return exitcode.Negativef("probe: %d of %d promises fail on this machine", n, len(results))
	}
	return nil
}

func (f *probeFlags) show(w io.Writer, results []probe.Result) error {
	if f.output == output.JSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(results)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "PROMISE\tOUTCOME\tSEEN ON\tDETAIL")
	for i := range results {
		r := &results[i]
		detail := r.Detail
		if r.Cure != "" && r.Outcome != probe.Pass {
			detail += ". Try: " + r.Cure
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", r.Name, strings.ToUpper(string(r.Outcome)), r.Seen, strings.ReplaceAll(detail, "\n", " "))
	}
	return t.Flush()
}
