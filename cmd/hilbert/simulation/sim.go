package simulation

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/exitcode"
	"hilbert.dev/hilbert/cmd/hilbert/experiment"
	"hilbert.dev/hilbert/cmd/hilbert/output"
	"hilbert.dev/hilbert/cmd/hilbertd/configfile"
	"hilbert.dev/hilbert/internal/nearest"
	"hilbert.dev/hilbert/sim"
	"hilbert.dev/hilbert/sim/trace"
)

// Formats of traces.
const (
	formatOpenB = "openb"
	formatDLRM  = "dlrm"
)

// maxSeeds bounds --seeds.
const maxSeeds = 100_000

// simFlags are the flags of hilbert sim.
type simFlags struct {
	format, nodes, pods, synthetic string
	arrive                         float64
	seed                           uint64
	seeds                          int
	schedulers                     int
	check, faults, preempt         bool
	partitions                     bool
	scores                         map[string]int64
	output                         string
	whatIf                         whatIfFlags
	scenario                       string
}

// NewCommand returns hilbert sim.
func NewCommand() *cobra.Command {
	var f simFlags
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "Replay a workload, or answer what-if questions, on a virtual clock",
		Long: `Replay a trace or a synthetic workload through the scheduling core of hilbertd, without Kubernetes and on a virtual clock.
The same seed gives the same placements, and the same digest, on any machine.

--scenario FILE plays a scenario: which pods and nodes come and go, what fails, and what must hold then.
--from FILE starts from the output of hilbert snapshot and shows what the scheduler would do next, with more pods or without some nodes.`,
		Example: `  hilbert sim --format openb --nodes openb_node_list_gpu_node.csv --pods openb_pod_list_default.csv --arrive 1.3 --seed 42
  hilbert sim --format dlrm --pods disaggregated_DLRM_trace.csv
  hilbert sim --synthetic nodes=20000,pods=200000,classes=16
  hilbert sim --synthetic nodes=12,pods=300,classes=16 --faults --check --schedulers 4 --seeds 100
  hilbert sim --synthetic nodes=24,pods=600,classes=8,minutes=10,queues=8,gangs=50 --faults --check
  hilbert sim --scenario gangs.scn
  hilbert sim --from cluster.json --add pods.yaml --drain node-7`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case f.whatIf.from != "" && f.scenario != "":
				return exitcode.Usagef("sim: write either --from FILE or --scenario FILE")
			case f.whatIf.from != "":
				return runWhatIf(cmd, &f)
			case f.scenario != "":
				return runScenario(cmd, &f)
			}
			return runSim(cmd, &f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.format, "format", "", "format of the trace: openb or dlrm")
	flags.StringVar(&f.nodes, "nodes", "", "node list of an openb trace (CSV); a dlrm trace has none, its nodes are derived")
	flags.StringVar(&f.pods, "pods", "", "tasks of the trace (CSV)")
	flags.StringVar(&f.synthetic, "synthetic", "", "generate a workload: "+trace.SyntheticForm)
	flags.StringVar(&f.scenario, "scenario", "", "play a scenario file and check its expectations")
	flags.Float64Var(&f.arrive, "arrive", 0, "pods arrive one by one in random order and stay, until they ask for this much of the cluster's GPUs, for example 1.3; "+
		"without it the trace's times rule")
	flags.Uint64Var(&f.seed, "seed", 1, "seed of all random choices")
	flags.IntVar(&f.seeds, "seeds", 1, "run this many seeds, from --seed on")
	flags.IntVar(&f.schedulers, "schedulers", 1, "place replicas that propose to the one binder, with seeded lag")
	flags.BoolVar(&f.check, "check", false, "check every invariant after every step (slow on large workloads)")
	flags.BoolVar(&f.faults, "faults", false, "inject faults: slow and lost writes, watch lag, foreign schedulers, nodes that go and come back, restarts")
	flags.BoolVar(&f.partitions, "partitions", false, "several schedulers divide the nodes among them, by load")
	flags.BoolVar(&f.preempt, "preempt", false, "let pods preempt pods of lower priority and pods that run on borrowed quota; victims are created again")
	flags.StringToInt64Var(&f.scores, "scores", nil, "weights of score functions, for example LeastAllocated=1")
	flags.StringVarP(&f.output, "output", "o", output.Table, "table or json")
	f.whatIf.flags(cmd)
	cmd.AddCommand(experiment.NewColocation(), experiment.NewCommand())
	return cmd
}

func runSim(cmd *cobra.Command, f *simFlags) error {
	if err := f.validate(cmd.Flags().Changed("arrive")); err != nil {
		return err
	}
	config := spec.Default()
	config.Scheduling.Scores = f.scores
	if err := configfile.Check(config); err != nil {
		return exitcode.Usagef("sim: --scores: %w", configfile.Hinted(err))
	}
	base, err := f.load()
	if err != nil {
		return exitcode.Mark(exitcode.BadInput, err)
	}
	var reports []*sim.Report
	for seed := f.seed; seed < f.seed+uint64(f.seeds); seed++ {
		report, err := f.one(cmd, base, config.Scheduling, seed)
		if err != nil {
			return err
		}
		reports = append(reports, report)
		if report.Interrupted {
			break
		}
	}
	if err := f.print(cmd.OutOrStdout(), reports); err != nil {
		return fmt.Errorf("print the report: %w", err)
	}
	if reports[len(reports)-1].Interrupted {
		return output.ErrInterrupted
	}
	return nil
}

// validate checks what one flag demands of another.
func (f *simFlags) validate(arriveGiven bool) error {
	switch {
	case len(f.whatIf.add)+len(f.whatIf.drain) > 0:
		return exitcode.Usagef("sim: --add and --drain change a snapshot; name it with --from FILE")
	case (f.format == "") == (f.synthetic == ""):
		return exitcode.Usagef("sim: write either --format openb|dlrm with its files, or --synthetic nodes=N,pods=N,classes=N, or --scenario FILE, or --from FILE")
	case f.synthetic != "" && (f.nodes != "" || f.pods != ""):
		return exitcode.Usagef("sim: --nodes and --pods belong to --format; leave them out with --synthetic")
	case f.format != "" && f.format != formatOpenB && f.format != formatDLRM:
		return exitcode.Usagef("sim: --format %q is not known; write openb or dlrm%s", f.format, nearest.Hint(f.format, []string{formatOpenB, formatDLRM}))
	case f.format == formatOpenB && (f.nodes == "" || f.pods == ""):
		return exitcode.Usagef("sim: --format openb needs --nodes FILE and --pods FILE")
	case f.format == formatDLRM && f.pods == "":
		return exitcode.Usagef("sim: --format dlrm needs --pods FILE")
	case f.format == formatDLRM && f.nodes != "":
		return exitcode.Usagef("sim: a dlrm trace has no node list, its nodes are derived from the demand; leave --nodes out")
	case f.output != output.Table && f.output != output.JSON:
		return exitcode.Usagef("sim: --output %q is not known; write table or json", f.output)
	case f.seeds < 1 || f.seeds > maxSeeds:
		return exitcode.Usagef("sim: --seeds %d: want 1 to %d", f.seeds, maxSeeds)
	case f.schedulers < 1 || f.schedulers > sim.MaxSchedulers:
		return exitcode.Usagef("sim: --schedulers %d: want 1 to %d", f.schedulers, sim.MaxSchedulers)
	case arriveGiven && !(f.arrive > 0 && f.arrive <= trace.MaxRatio):
		return exitcode.Usagef("sim: --arrive %g: want a number above 0 and at most %d, for example 1.3", f.arrive, trace.MaxRatio)
	}
	return nil
}

// load reads the trace; for a synthetic workload, which depends on the seed, it only checks the text and returns nil.
func (f *simFlags) load() (*trace.Workload, error) {
	switch f.format {
	case formatOpenB:
		return trace.LoadOpenB(f.nodes, f.pods)
	case formatDLRM:
		return trace.LoadDLRM(f.pods)
	}
	_, err := trace.ParseSynthetic(f.synthetic)
	return nil, err
}

// workload is what to run with a seed.
func (f *simFlags) workload(base *trace.Workload, seed uint64) (*trace.Workload, error) {
	w := base
	if w == nil {
		invented, err := trace.ParseSynthetic(f.synthetic)
		if err != nil {
			return nil, err
		}
		w = invented.Generate(seed)
	}
	if f.arrive == 0 {
		return w, nil
	}
	return trace.Arrive(w, f.arrive, seed)
}

// one runs one seed.
func (f *simFlags) one(cmd *cobra.Command, base *trace.Workload, config spec.Scheduling, seed uint64) (*sim.Report, error) {
	w, err := f.workload(base, seed)
	if err != nil {
		return nil, exitcode.Mark(exitcode.BadInput, err)
	}
	began, busy := time.Now(), cpuTime()
	wall := func() time.Duration { return time.Since(began) }
	progress := newProgress(cmd.ErrOrStderr(), wall)
	defer progress.done()
	options := sim.Options{
		Seed: seed, Schedulers: f.schedulers, Partitions: f.partitions, Config: config, Preempt: f.preempt, Final: f.arrive > 0, Wall: wall, Progress: progress.show,
	}
	if f.check {
		options.CheckEvery = 1
	}
	if f.faults {
		options.Faults = sim.DefaultFaults(w)
		if options.Preempt {
			options.Faults.AddEvictionFaults()
		}
	}
	report, err := sim.Run(cmd.Context(), w, options)
	if _, broken := errors.AsType[*sim.Violation](err); broken {
		return nil, exitcode.Negativef("an invariant broke: %w\nreproduce it: %s", err, f.again(seed))
	}
	if err != nil {
		return nil, err
	}
	if spent := cpuTime() - busy; spent > 0 && report.Decisions > 0 {
		rate := float64(report.Decisions) / spent.Seconds()
		report.DecisionsPerCPUSecond = &rate
	}
	if peak, ok := peakMemory(); ok {
		report.PeakRSSBytes = &peak
	}
	return report, nil
}

// again is the command line that repeats one seed.
func (f *simFlags) again(seed uint64) string {
	line := "hilbert sim"
	add := func(given bool, format string, args ...any) {
		if given {
			line += " " + fmt.Sprintf(format, args...)
		}
	}
	add(f.format != "", "--format %s", f.format)
	add(f.nodes != "", "--nodes %s", f.nodes)
	add(f.pods != "", "--pods %s", f.pods)
	add(f.synthetic != "", "--synthetic %s", f.synthetic)
	add(f.arrive > 0, "--arrive %g", f.arrive)
	add(f.schedulers > 1, "--schedulers %d", f.schedulers)
	add(f.faults, "--faults")
	add(f.partitions, "--partitions")
	add(f.preempt, "--preempt")
	for _, name := range slices.Sorted(maps.Keys(f.scores)) {
		add(true, "--scores %s=%d", name, f.scores[name])
	}
	add(true, "--check --seed %d", seed)
	return line
}

// Summary is the JSON of several seeds.
type Summary struct {
	Seeds                         int           `json:"seeds"`
	MeanGPUAllocatedPercent       float64       `json:"meanGpuAllocatedPercent"`
	MeanGPUAllocatedPercentAtFull *float64      `json:"meanGpuAllocatedPercentAtFull,omitempty"`
	MeanConflictPercent           float64       `json:"meanConflictPercent"`
	Runs                          []*sim.Report `json:"runs"`
}

func summarise(reports []*sim.Report) Summary {
	s := Summary{Seeds: len(reports), Runs: reports}
	var full float64
	count := 0
	for _, r := range reports {
		s.MeanGPUAllocatedPercent += r.GPUAllocatedPercent / float64(len(reports))
		s.MeanConflictPercent += r.ConflictPercent / float64(len(reports))
		if r.GPUAllocatedPercentAtFull != nil {
			full += *r.GPUAllocatedPercentAtFull
			count++
		}
	}
	if count == len(reports) {
		full /= float64(count)
		s.MeanGPUAllocatedPercentAtFull = &full
	}
	return s
}

func (f *simFlags) print(w io.Writer, reports []*sim.Report) error {
	if f.output == output.JSON {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		if f.seeds == 1 {
			return encoder.Encode(reports[0])
		}
		return encoder.Encode(summarise(reports))
	}
	if f.seeds == 1 {
		return reports[0].WriteTable(w)
	}
	for _, r := range reports {
		if _, err := fmt.Fprintf(w, "seed %-6d placed %d of %d, gpu %.2f %%, conflicts %.2f %%, digest %s\n",
			r.Seed, r.Placed, r.Pods, r.GPUAllocatedPercent, r.ConflictPercent, r.Digest[:16]); err != nil {
			return err
		}
	}
	s := summarise(reports)
	_, err := fmt.Fprintf(w, "%d seeds: mean gpu %.2f %% %s\n", s.Seeds, s.MeanGPUAllocatedPercent, cmp.Or(reports[0].Measure, "allocated"))
	return err
}
