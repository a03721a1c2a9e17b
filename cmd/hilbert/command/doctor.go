package command

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/exitcode"
	"hilbert.dev/hilbert/cmd/hilbert/ask"
	"hilbert.dev/hilbert/cmd/hilbert/doctor"
	"hilbert.dev/hilbert/cmd/hilbert/output"
	"hilbert.dev/hilbert/kube/reach"
	"hilbert.dev/hilbert/node/probe"
)

// doctorFlags are the flags of hilbert doctor.
type doctorFlags struct {
	target     reach.Target
	namespace  string
	output     output.Format
	staleAfter time.Duration
}

func newDoctor() *cobra.Command {
	var f doctorFlags
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what of Hilbert is installed in a cluster, what is broken or lost, and how it is cured",
		Long: `Look at a cluster and say: which versions run, whether the custom resources are served, whether the workloads are ready, who leads, whether the
aggregated API is available, which admission policies are in force, which agents are silent, and which features this version of Kubernetes lacks. Each finding
that is not ok has its cure. The command changes nothing.

It ends with 7 if something is broken, 8 if a part could not be read, 9 if something is lost or will break, and 0 otherwise. It reads CustomNodeResources, nodes,
admission policies, definitions, and the Lease and workloads of one namespace; what your credentials may not read is told as unknown.`,
		Example: `  hilbert doctor
  hilbert doctor -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	ask.TargetFlags(cmd, &f.target)
	ask.InstallNamespaceFlag(cmd, &f.target, &f.namespace)
	flags.DurationVar(&f.staleAfter, "stale-after", spec.Default().Scheduling.NodeReports.StaleAfter.D(), "call agents silent whose reports are of this age or older")
	f.output.Flag(cmd)
	return cmd
}

func (f *doctorFlags) run(cmd *cobra.Command) error {
	if err := f.output.Check("doctor"); err != nil {
		return err
	}
	if f.staleAfter <= 0 {
		return exitcode.Usagef("doctor: --stale-after %s: want more than 0, for example 15m", f.staleAfter)
	}
	s := survey{target: f.target, namespace: f.namespace}
	facts, err := s.facts(cmd.Context())
	if err != nil {
		return fmt.Errorf("doctor: %w", ask.Cause(err))
	}
	facts.StaleAfter, facts.Unseen = f.staleAfter, probe.Unseen()
	a := diagnosis{Findings: doctor.Examine(facts)}
	a.Worst = doctor.Worst(a.Findings)
	if err := f.output.Write(cmd.OutOrStdout(), a); err != nil {
		return err
	}
	switch a.Worst {
	case doctor.Error:
		return exitcode.Negativef("doctor: something is broken")
	case doctor.Unknown:
		return exitcode.Mark(exitcode.Partial, errors.New("doctor: some parts could not be read"))
	case doctor.Warning:
		return exitcode.Mark(exitcode.Warnings, errors.New("doctor: nothing is broken, and something is lost or will break"))
	case doctor.Info, doctor.OK:
	}
	return nil
}

// diagnosis is what hilbert doctor prints.
type diagnosis struct {
	Worst    doctor.Level     `json:"worst"`
	Findings []doctor.Finding `json:"findings"`
}

// WriteText writes a line for each finding, and its cure below.
func (d diagnosis) WriteText(w io.Writer) error {
	var text strings.Builder
	for _, x := range d.Findings {
		fmt.Fprintf(&text, "%-8s %s: %s\n", x.Level, x.Check, x.Message)
		if x.Cure != "" {
			fmt.Fprintf(&text, "         → %s\n", x.Cure)
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}
