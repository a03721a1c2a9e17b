package experiment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"hilbert.dev/hilbert/cmd/exitcode"
	"hilbert.dev/hilbert/cmd/hilbert/output"
	"hilbert.dev/hilbert/schedule/fragment"
	"hilbert.dev/hilbert/sim/packing"
	"hilbert.dev/hilbert/sim/trace"
)

// durationsFile is the list beside the pods' that durations are drawn from where it has none.
const durationsFile = "openb_pod_list_default.csv"

// churnExperiment are the flags of hilbert sim experiment churn.
type churnExperiment struct {
	nodes, pods, durations string
	dlrm, synthetic        string
	mix                    trace.Synthetic // what synthetic says
	withoutGPUs            bool
	loads                  []float64
	policies               []string
	moves                  string
	warmup, days           float64
	seed                   uint64
	seeds                  int
	out                    experimentOutput
}

func newExperimentChurn() *cobra.Command {
	var f churnExperiment
	cmd := &cobra.Command{
		Use:   "churn",
		Short: "How fragmented a cluster's GPUs are in the long run, while pods come and go",
		Long: `Play a steady state: pods of an openb list arrive at random times, run for as long as the list says, and end, so that on the average the load that
is offered is a given percentage of the GPUs. A pod that finds no room goes away. Each policy is played without moves, and with them where --moves allows some.
fgd and bestfit move pods only to make room; hilbert also moves them to where they are better. What is compared is what pods of the list cannot use, over time and at equal allocation.
A list without times takes durations from another, by the number of GPUs.

With --without-gpus the nodes and pods without GPUs are played alone, by their CPU and memory. Loads and what is allocated, fragmented and served are then of that resource
of which the pods want the larger part. --dlrm FILE plays those of the DLRM trace; pods that have no end there run as long as others of it.

--synthetic TEXT plays an invented workload, of which nodes, pods, classes, load and sizes may be written. Loads, and what is allocated and fragmented, are then of that resource of which the pods want the largest part.
What its pods ask for counts, and not their selectors and tolerations. They run for minutes: parts of a day are enough.`,
		Example: `  hilbert sim experiment churn --nodes openb_node_list_gpu_node.csv --pods openb_pod_list_default.csv --load 80,95,105 --moves 2% -o json
  hilbert sim experiment churn --nodes NODES.csv --pods PODS.csv --policy hilbert --warmup 30 --days 30 --report churn.html
  hilbert sim experiment churn --nodes openb_node_list_all_node.csv --pods openb_pod_list_default.csv --without-gpus --load 80,95,105
  hilbert sim experiment churn --synthetic nodes=200,pods=8000,classes=32 --load 80,95,105 --warmup 0.2 --days 0.3`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.nodes, "nodes", "", "node list of an openb trace (CSV)")
	flags.StringVar(&f.pods, "pods", "", "pod list of an openb trace (CSV)")
	flags.StringVar(&f.durations, "durations", "", "list to draw durations from where the pods have no times; without it "+durationsFile+" beside the pods'")
	flags.StringVar(&f.dlrm, "dlrm", "", "DLRM trace (CSV), in the place of --nodes and --pods; with --without-gpus")
	flags.StringVar(&f.synthetic, "synthetic", "", "an invented workload, in the place of --nodes and --pods: "+syntheticMix)
	flags.BoolVar(&f.withoutGPUs, "without-gpus", false, "play nodes and pods without GPUs alone")
	flags.Float64SliceVar(&f.loads, "load", []float64{95}, "loads that are offered, in percent of the GPUs")
	flags.StringSliceVar(&f.policies, "policy", nil, "policies to compare: fgd, bestfit, hilbert; with --without-gpus spread, packed, bestfit, cpuworth (default all of these)")
	flags.StringVar(&f.moves, "moves", "0%", "percentage of the running pods that may be moved in a day")
	flags.Float64Var(&f.warmup, "warmup", 14, "days before anything is measured")
	flags.Float64Var(&f.days, "days", 14, "days that are measured")
	flags.Uint64Var(&f.seed, "seed", packing.FirstSeed, "the first seed")
	flags.IntVar(&f.seeds, "seeds", 1, "how many seeds")
	f.out.flags(cmd)
	return cmd
}

func (f *churnExperiment) run(cmd *cobra.Command) error {
	part, err := f.validate()
	if err != nil {
		return err
	}
	w, err := f.load()
	if err != nil {
		return exitcode.Mark(exitcode.BadInput, err)
	}
	jobs, err := f.jobs(w, part)
	if err != nil {
		return exitcode.Mark(exitcode.BadInput, err)
	}
	if err := playChurn(cmd.Context(), newProgress(cmd.ErrOrStderr()), jobs); err != nil {
		return err
	}
	result := &packing.ChurnResult{Workload: f.pods + f.dlrm + f.synthetic, Warmup: f.warmup, Measured: f.days}
	for i := range jobs {
		result.Add(jobs[i].outcome)
	}
	result.Finish()
	return f.out.write(cmd, result)
}

// validate checks the flags. part is how much may be moved in a day, of one.
func (f *churnExperiment) validate() (part float64, err error) {
	if err := f.out.validate(); err != nil {
		return 0, err
	}
	if part, err = percentage(f.moves); err != nil {
		return 0, exitcode.Usagef("sim experiment churn: --moves %w", err)
	}
	known := packing.Policies()
	if f.withoutGPUs {
		known = packing.HostPolicies()
	}
	if len(f.policies) == 0 {
		f.policies = known
	}
	switch {
	case f.synthetic != "" && (f.dlrm != "" || f.nodes != "" || f.pods != ""):
		return 0, exitcode.Usagef("sim experiment churn: --synthetic goes without --dlrm, --nodes and --pods")
	case f.synthetic != "" && f.durations != "":
		return 0, exitcode.Usagef("sim experiment churn: --synthetic has durations of its own; leave out --durations")
	case f.dlrm != "" && (!f.withoutGPUs || f.nodes != "" || f.pods != ""):
		return 0, exitcode.Usagef("sim experiment churn: --dlrm goes with --without-gpus, and without --nodes and --pods")
	case f.dlrm+f.synthetic == "" && (f.nodes == "" || f.pods == ""):
		return 0, exitcode.Usagef("sim experiment churn: write --nodes FILE and --pods FILE, the lists of an openb trace")
	case f.seeds < 1 || f.seeds > mostSeeds:
		return 0, exitcode.Usagef("sim experiment churn: --seeds %d: want 1 to %d", f.seeds, mostSeeds)
	case len(f.loads) == 0:
		return 0, exitcode.Usagef("sim experiment churn: name at least one --load")
	}
	if f.synthetic != "" {
		if f.mix, err = plainMix(f.synthetic); err != nil {
			return 0, exitcode.Usagef("sim experiment churn: --%v", err)
		}
	}
	if err := knownPolicies(f.policies, known); err != nil {
		return 0, exitcode.Usagef("sim experiment churn: --policy %w", err)
	}
	for _, load := range f.loads {
		o := f.options(load, part)
		if err := o.Validate(); err != nil {
			return 0, exitcode.Usagef("sim experiment churn: %v", err)
		}
	}
	return part, nil
}

func (f *churnExperiment) options(load, moves float64) packing.ChurnOptions {
	day := float64(24 * time.Hour)
	return packing.ChurnOptions{
		Params: fragment.Defaults(), Load: load / 100, Moves: moves,
		Warmup: time.Duration(f.warmup * day), Measured: time.Duration(f.days * day),
	}
}

// syntheticMix is what of trace.SyntheticForm is played here.
const syntheticMix = "nodes=N,pods=N,classes=N[,load=PERCENT][,sizes=N]"

// plainMix reads the text of a synthetic workload of which nothing else is said.
func plainMix(text string) (trace.Synthetic, error) {
	s, err := trace.ParseSynthetic(text)
	if err != nil {
		return s, err
	}
	plain := trace.Synthetic{Nodes: s.Nodes, Pods: s.Pods, Classes: s.Classes, Load: s.Load, Minutes: s.Minutes, GangSize: s.GangSize, Sizes: s.Sizes}
	if s != plain {
		return s, fmt.Errorf("synthetic %q: pods come and go by what they ask for alone; write %s", text, syntheticMix)
	}
	return s, nil
}

// load reads the lists; durations are drawn once, with the first seed.
func (f *churnExperiment) load() (*trace.Workload, error) {
	if f.dlrm+f.synthetic != "" {
		w, err := f.whole()
		if err != nil {
			return nil, err
		}
		if f.withoutGPUs {
			w = packing.WithoutGPUs(w)
		}
		return packing.WithDurations(w, w, f.seed)
	}
	w, err := trace.LoadOpenB(f.nodes, f.pods)
	if err != nil {
		return nil, err
	}
	if f.withoutGPUs {
		w = packing.WithoutGPUs(w)
	}
	timed, err := packing.WithDurations(w, nil, f.seed)
	if !errors.Is(err, packing.ErrNoDurations) {
		return timed, err
	}
	from := f.durations
	if from == "" {
		from = filepath.Join(filepath.Dir(f.pods), durationsFile)
		if _, missing := os.Stat(from); missing != nil {
			return nil, fmt.Errorf("%w (--durations)", err)
		}
	}
	d, err := trace.LoadOpenB(f.nodes, from)
	if err != nil {
		return nil, err
	}
	return packing.WithDurations(w, d, f.seed)
}

// whole is a workload that has nodes, pods and durations.
func (f *churnExperiment) whole() (*trace.Workload, error) {
	if f.synthetic != "" {
		return f.mix.Generate(f.seed), nil
	}
	return trace.LoadDLRM(f.dlrm)
}

// churnJob is one run.
type churnJob struct {
	steady  *packing.Steady
	options packing.ChurnOptions
	outcome *packing.ChurnOutcome
	done    float64
	err     error
}

func (f *churnExperiment) jobs(w *trace.Workload, moves float64) ([]churnJob, error) {
	steady := make([]*packing.Steady, f.seeds)
	for i := range steady {
		var err error
		if steady[i], err = packing.NewSteady(w, f.seed+uint64(i)); err != nil {
			return nil, err
		}
		if f.synthetic != "" {
			steady[i].BindScarcest()
		}
	}
	began := time.Now()
	var jobs []churnJob
	add := func(s *packing.Steady, load, part float64, policy string) {
		o := f.options(load, part)
		o.Policy = policy
		o.Wall = func() time.Duration { return time.Since(began) }
		jobs = append(jobs, churnJob{steady: s, options: o})
	}
	for _, load := range f.loads {
		for _, s := range steady {
			for _, p := range f.policies {
				add(s, load, 0, p)
				if moves > 0 {
					add(s, load, moves, p)
				}
			}
		}
	}
	return jobs, nil
}

// playChurn plays the jobs. The first that fails, in their order, is the error.
func playChurn(ctx context.Context, shown *progress, jobs []churnJob) error {
	var lock sync.Mutex
	tell := func(j *churnJob, done float64) {
		lock.Lock()
		defer lock.Unlock()
		j.done = done
		all := 0.0
		for i := range jobs {
			all += jobs[i].done
		}
		shown.tell(fmt.Sprintf("%.1f of %d runs", all, len(jobs)))
	}
	next := make(chan *churnJob)
	var workers sync.WaitGroup
	for range packingWorkers {
		workers.Go(func() {
			for j := range next {
				j.options.Tell = func(done float64) error {
					tell(j, done)
					return ctx.Err()
				}
				j.outcome, j.err = j.steady.Run(j.options)
			}
		})
	}
	for i := range jobs {
		if ctx.Err() != nil {
			break
		}
		next <- &jobs[i]
	}
	close(next)
	workers.Wait()
	if ctx.Err() != nil {
		return output.ErrInterrupted
	}
	for i := range jobs {
		if o := &jobs[i].options; jobs[i].err != nil {
			return fmt.Errorf("sim experiment churn: %s at %g %%: %w", o.Policy, 100*o.Load, jobs[i].err)
		}
	}
	return nil
}
