package experiment

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"hilbert.dev/hilbert/cmd/exitcode"
	"hilbert.dev/hilbert/cmd/hilbert/output"
	"hilbert.dev/hilbert/cmd/hilbertd/configfile"
	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/node/evict"
	"hilbert.dev/hilbert/sim/colocation"
	"hilbert.dev/hilbert/sim/trace"
)

// colocationFlags are the flags of hilbert sim colocation.
type colocationFlags struct {
	tide, use, jobs      string
	synthetic            bool
	nodes, ablationNodes int
	seed                 uint64
	days                 float64
	step                 time.Duration
	sweep, noAblations   bool
	only                 []string
	output, report       string
	config               string
	set                  map[string]string
	workers              int
}

func NewColocation() *cobra.Command {
	var f colocationFlags
	cmd := &cobra.Command{
		Use:   "colocation",
		Short: "Offline jobs on the spare capacity of online services: a modelled fleet under the real control laws",
		Long: `Play days of a fleet of online services under recorded load, with an endless backlog of offline jobs: with requests only, with naive
over-commitment, with Hilbert, and with Hilbert without one of its laws. The scheduler, the laws and the eviction manager are those that run
in production; the machines are a model (docs/adr/0009-the-machine-model.md). The same seed gives the same figures on one architecture.`,
		Example: `  hilbert sim colocation --tide qps.tar.gz --use planetlab.csv --nodes 1000 --seed 1 -o json --report out.html
  hilbert sim colocation --synthetic --nodes 50 --days 0.25 --no-ablations`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runColocation(cmd, &f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.tide, "tide", "", "measured request rates of a day (CSV, or that in .gz or .tar.gz): timestamp_anon, value, container_ip")
	flags.StringVar(&f.use, "use", "", "measured CPU use of machines in percent (CSV, or packed): vm, t0, t1, and so on")
	flags.StringVar(&f.jobs, "jobs", "", "pod list of an openb trace (CSV): its offline tasks are the jobs (default: jobs invented with that trace's quantiles)")
	flags.BoolVar(&f.synthetic, "synthetic", false, "invent tides instead of --tide and --use")
	flags.IntVar(&f.nodes, "nodes", 1000, "nodes of the fleet")
	flags.IntVar(&f.ablationNodes, "ablation-nodes", 60, "nodes at most for the ablations, the sweep and the rise of all services together")
	flags.Uint64Var(&f.seed, "seed", 1, "seed of all random choices")
	flags.Float64Var(&f.days, "days", 1, "how many days to play")
	flags.DurationVar(&f.step, "step", time.Second, "interval of the agents' observations, in whole seconds")
	flags.BoolVar(&f.sweep, "sweep", false, "play it also with what neighbours cost times 0.5, 1 and 2")
	flags.BoolVar(&f.noAblations, "no-ablations", false, "leave out the variants without one law")
	flags.StringSliceVar(&f.only, "ablations", nil, "play nothing but these ablations and controls, beside the baseline: for example noRiseDelay,noHold,naive")
	flags.StringVar(&f.config, "config", "", "configuration file of hilbertd with the parameters of the laws and of eviction (default: those of an empty file)")
	flags.StringToStringVar(&f.set, "set", nil, "parameters of the laws, for example targetUse=0.6,riseAfter=60s")
	flags.IntVar(&f.workers, "workers", 0, "variants played at one time; 0: as many as there are CPUs")
	flags.StringVarP(&f.output, "output", "o", output.Table, "table or json")
	flags.StringVar(&f.report, "report", "", "write a page with pictures to this file (HTML)")
	return cmd
}

func runColocation(cmd *cobra.Command, f *colocationFlags) error {
	o, from, err := f.options()
	if err != nil {
		return err
	}
	watch := newDays(cmd.ErrOrStderr())
	o.Progress = watch.passed
	result, err := colocation.Run(cmd.Context(), o, colocation.Plan{
		Ablations: !f.noAblations, Only: f.only, Sweep: f.sweep, Together: true, SmallNodes: f.ablationNodes, JobsFrom: from, Workers: f.workers,
	})
	if err != nil {
		return err
	}
	if f.report != "" {
		if err := output.WriteFile(f.report, result.WriteHTML); err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
	}
	out := cmd.OutOrStdout()
	if f.output == output.JSON {
		return output.WriteJSON(out, result)
	}
	return result.WriteTable(out)
}

// options reads the files. The text says where the jobs are from.
func (f *colocationFlags) options() (*colocation.Options, string, error) {
	o := colocation.DefaultOptions()
	from := "invented with openb's quantiles"
	switch {
	case f.output != output.Table && f.output != output.JSON:
		return nil, "", exitcode.Usagef("sim colocation: --output %q is not known; write table or json", f.output)
	case f.report != "" && len(f.only) > 0:
		return nil, "", exitcode.Usagef("sim colocation: --report shows days, and with --ablations none is played; leave one of them out")
	case f.synthetic && (f.tide != "" || f.use != ""):
		return nil, "", exitcode.Usagef("sim colocation: --tide and --use are files; leave them out with --synthetic")
	case !f.synthetic && (f.tide == "" || f.use == ""):
		return nil, "", exitcode.Usagef("sim colocation: write --tide FILE and --use FILE, or --synthetic")
	case !(f.days > 0 && f.days <= 31):
		return nil, "", exitcode.Usagef("sim colocation: --days %g: want more than 0 and at most 31", f.days)
	}
	o.Seed, o.Nodes, o.Tick = f.seed, f.nodes, f.step
	o.Length = time.Duration(f.days * float64(24*time.Hour)).Truncate(time.Minute)
	if f.config != "" {
		c, err := configfile.Load(f.config)
		if err != nil {
			return nil, "", exitcode.BadInputf("sim colocation: --config: %w", err)
		}
		o.Laws, o.Evict = advise.ParamsOf(&c.Node), evict.ParamsOf(&c.Node)
	}
	for _, name := range slices.Sorted(maps.Keys(f.set)) {
		if err := o.Laws.Set(name, f.set[name]); err != nil {
			return nil, "", err
		}
	}
	var err error
	if !f.synthetic {
		if o.Tide, err = trace.LoadTide(f.tide); err != nil {
			return nil, "", err
		}
		if o.Use, err = trace.LoadUse(f.use); err != nil {
			return nil, "", err
		}
	}
	if f.jobs != "" {
		if o.Jobs, err = loadJobs(f.jobs); err != nil {
			return nil, "", err
		}
		from = "offline tasks of " + f.jobs
	}
	return &o, from, nil
}

func loadJobs(path string) (kinds []colocation.JobKind, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, exitcode.BadInputf("load the jobs: %w", err)
	}
	defer func() { _ = file.Close() }() // it was only read
	tasks, err := trace.ReadOpenBPods(path, file)
	if err != nil {
		return nil, exitcode.BadInputf("load the jobs: %w", err)
	}
	if kinds = colocation.JobsOf(tasks); len(kinds) == 0 {
		return nil, exitcode.BadInputf("load the jobs: %s has no offline tasks that end", path)
	}
	return kinds, nil
}

// days tells how far the variants under way are.
type days struct {
	mu    sync.Mutex
	shown *progress
	at    map[string]string
}

func newDays(w io.Writer) *days { return &days{shown: newProgress(w), at: make(map[string]string)} }

func (d *days) passed(variant string, passed, length time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at[variant] = fmt.Sprintf("%s %.0f%%", variant, 100*passed.Seconds()/length.Seconds())
	if passed >= length {
		delete(d.at, variant)
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(d.at)) {
		list = append(list, d.at[name])
	}
	d.shown.tell(strings.Join(list, ", "))
}
