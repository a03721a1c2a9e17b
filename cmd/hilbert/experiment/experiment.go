package experiment

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"hilbert.dev/hilbert/cmd/exitcode"
	"hilbert.dev/hilbert/cmd/hilbert/output"
)

// NewCommand is the parent of the experiments: each is a command whose JSON has all seeds and their mean.
func NewCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "experiment",
		Short: "Experiments on recorded or modelled clusters: each prints a table or JSON, and can draw a page",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, sub := range []*cobra.Command{
		newExperimentChurn(),
		newExperimentConflicts(),
		newExperimentDLRM(),
		newExperimentInterference(),
		newExperimentNUMA(),
		newExperimentOpenB(),
		newExperimentRecommend(),
		newExperimentTide(),
	} {
		cmd.AddCommand(sub)
	}
	return cmd
}

// experimentResult is what an experiment has found.
type experimentResult interface {
	WriteTable(w io.Writer) error
	WriteHTML(w io.Writer) error
}

// experimentOutput are the flags that say how a result is told.
type experimentOutput struct{ format, report string }

func (o *experimentOutput) flags(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&o.format, "output", "o", output.Table, "table or json")
	cmd.Flags().StringVar(&o.report, "report", "", "write a page with pictures to this file (HTML)")
}

// validate is called before the work is done.
func (o *experimentOutput) validate() error {
	if o.format != output.Table && o.format != output.JSON {
		return exitcode.Usagef("sim experiment: --output %q is not known; write table or json", o.format)
	}
	return nil
}

func (o *experimentOutput) write(cmd *cobra.Command, result experimentResult) error {
	if o.report != "" {
		if err := output.WriteFile(o.report, result.WriteHTML); err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
	}
	if o.format == output.Table {
		return result.WriteTable(cmd.OutOrStdout())
	}
	return output.WriteJSON(cmd.OutOrStdout(), result)
}
