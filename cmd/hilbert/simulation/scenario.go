package simulation

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/exitcode"
	"hilbert.dev/hilbert/cmd/hilbert/output"
	"hilbert.dev/hilbert/cmd/hilbertd/configfile"
	"hilbert.dev/hilbert/internal/scenario"
	"hilbert.dev/hilbert/sim"
)

// maxScenario bounds a scenario file, in bytes: it is written by people.
const maxScenario = 4 << 20

// runScenario plays a story and prints the file with what happened. What the file wants and does not find is an error.
func runScenario(cmd *cobra.Command, f *simFlags) error {
	if f.format != "" || f.synthetic != "" || f.arrive != 0 || f.seeds != 1 || f.output != output.Table {
		return exitcode.Usagef("sim: --scenario FILE goes with --seed, --schedulers and --scores only; every invariant is checked")
	}
	info, err := os.Stat(f.scenario)
	if err != nil {
		return exitcode.BadInputf("read the scenario: %w", err)
	}
	if info.Size() > maxScenario {
		return exitcode.BadInputf("read the scenario: %s is larger than %d bytes", f.scenario, maxScenario)
	}
	text, err := os.ReadFile(f.scenario)
	if err != nil {
		return exitcode.BadInputf("read the scenario: %w", err)
	}
	story, err := scenario.Parse(filepath.Base(f.scenario), string(text))
	if err != nil {
		return exitcode.Mark(exitcode.BadInput, err)
	}
	config := spec.Default()
	config.Scheduling.Scores = f.scores
	if err := configfile.Check(config); err != nil {
		return exitcode.Usagef("sim: --scores: %w", configfile.Hinted(err))
	}
	printed, err := sim.Play(cmd.Context(), story, sim.Options{
		Seed: f.seed, Schedulers: f.schedulers, Config: config.Scheduling, CheckEvery: 1, Preempt: true,
	})
	if _, werr := fmt.Fprint(cmd.OutOrStdout(), story.Format(printed)); werr != nil {
		return fmt.Errorf("print the scenario: %w", werr)
	}
	if _, broken := errors.AsType[*sim.Violation](err); broken {
		return exitcode.Negativef("an invariant broke: %w", err)
	}
	if err != nil {
		return err
	}
	if why := story.Differs(printed); why != "" {
		return exitcode.Negativef("it went another way: %s", why)
	}
	return nil
}
