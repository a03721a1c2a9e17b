package experiment

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"hilbert.dev/hilbert/cmd/exitcode"
	"hilbert.dev/hilbert/cmd/hilbert/output"
	"hilbert.dev/hilbert/schedule/fragment"
	"hilbert.dev/hilbert/sim/packing"
	"hilbert.dev/hilbert/sim/trace"
)

// openbFolder is the name of the trace, of its command and of its folder below --traces.
const openbFolder = "openb"

// mostSeeds bounds --seeds.
const mostSeeds = 100_000

// Where traces are found.
const (
	tracesVariable = "HILBERT_TRACES"
	tracesFolder   = "../shared/traces"
)

// openbExperiment are the flags of hilbert sim experiment openb.
type openbExperiment struct {
	workloads, policies []string
	seeds               int
	defragment          string
	traces              string
	out                 experimentOutput
}

func newExperimentOpenB() *cobra.Command {
	var f openbExperiment
	cmd := &cobra.Command{
		Use:   openbFolder,
		Short: "How many of a recorded cluster's GPUs each policy allocates",
		Long: `Play the packing experiment of "Beware of Fragmentation" (USENIX ATC'23): the tasks of the openb trace are shuffled and arrive one by one until
they have asked for 130 % of the GPUs. They never leave and are not retried. fgd and bestfit are as published, and fgd knows the whole workload's mix;
hilbert learns it from what has arrived. Every refusal is checked against all nodes.`,
		Example: `  hilbert sim experiment openb --workload default,gpushare40 --policy fgd,bestfit,hilbert --seeds 10
  hilbert sim experiment openb --workload default --policy fgd,hilbert --seeds 1 --defragment 2% -o json --report out.html`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&f.workloads, "workload", []string{"default"}, "pod lists of the trace: what stands behind openb_pod_list_ in their names; default:7 is a variant of default, with other sizes and frequencies")
	flags.StringSliceVar(&f.policies, "policy", packing.Policies(), "policies to compare")
	flags.IntVar(&f.seeds, "seeds", 10, "how many seeds, from 42 on as published")
	flags.StringVar(&f.defragment, "defragment", "0%", "let this part of the running pods be moved, to where they are better and to make room for refused ones; the gain is counted against the same run without moves")
	flags.StringVar(&f.traces, "traces", "", "folder of the traces; without it $"+tracesVariable+", or "+tracesFolder)
	f.out.flags(cmd)
	return cmd
}

func (f *openbExperiment) run(cmd *cobra.Command) error {
	part, err := f.validate()
	if err != nil {
		return err
	}
	var jobs []packingJob
	for _, name := range f.workloads {
		w, err := f.load(name)
		if err != nil {
			return err
		}
		for s := range f.seeds {
			jobs = append(jobs, packingJob{workload: w, name: name, seed: packing.FirstSeed + uint64(s)})
		}
	}
	began := time.Now()
	o := packing.Options{Params: fragment.Defaults(), Defragment: part, Wall: func() time.Duration { return time.Since(began) }}
	if err := playAll(cmd.Context(), jobs, f.policies, o); err != nil {
		return err
	}
	result := &packing.Result{Seeds: f.seeds, Defragment: 100 * part}
	for i := range jobs {
		result.Add(jobs[i].name, jobs[i].outcomes)
	}
	result.Finish()
	return f.out.write(cmd, result)
}

// validate checks the flags. part is how much may be moved, of one.
func (f *openbExperiment) validate() (part float64, err error) {
	if err := f.out.validate(); err != nil {
		return 0, err
	}
	if part, err = percentage(f.defragment); err != nil {
		return 0, exitcode.Usagef("sim experiment: --defragment %w", err)
	}
	switch {
	case f.seeds < 1 || f.seeds > mostSeeds:
		return 0, exitcode.Usagef("sim experiment: --seeds %d: want 1 to %d", f.seeds, mostSeeds)
	case len(f.workloads) == 0 || len(f.policies) == 0:
		return 0, exitcode.Usagef("sim experiment: name at least one --workload and one --policy")
	}
	for _, w := range f.workloads {
		if w == "" || strings.ContainsAny(w, `/\.`) {
			return 0, exitcode.Usagef("sim experiment: --workload %q: want a name such as default", w)
		}
	}
	if err := knownPolicies(f.policies, packing.Policies()); err != nil {
		return 0, exitcode.Usagef("sim experiment: --policy %w", err)
	}
	return part, nil
}

func (f *openbExperiment) load(name string) (*trace.Workload, error) {
	name, number, varied := strings.Cut(name, ":")
	folder := filepath.Join(cmp.Or(f.traces, os.Getenv(tracesVariable), tracesFolder), openbFolder)
	w, err := trace.LoadOpenB(filepath.Join(folder, "openb_node_list_gpu_node.csv"), filepath.Join(folder, "openb_pod_list_"+name+".csv"))
	if err != nil || !varied {
		return w, err
	}
	seed, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return nil, exitcode.Usagef("sim experiment: --workload %s:%s: want a number behind the colon", name, number)
	}
	return packing.Vary(w, seed), nil
}

// packingJob is one seed of one workload.
type packingJob struct {
	workload *trace.Workload
	name     string
	seed     uint64
	outcomes []*packing.Outcome
	err      error
}

// packingWorkers is how many jobs run at one time.
const packingWorkers = 2

// playAll runs the jobs. The first that fails, in their order, is the error.
func playAll(ctx context.Context, jobs []packingJob, policies []string, o packing.Options) error {
	next := make(chan *packingJob)
	var workers sync.WaitGroup
	for range packingWorkers {
		workers.Go(func() {
			for j := range next {
				j.outcomes, j.err = packing.Play(j.workload, j.seed, policies, o)
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
		if jobs[i].err != nil {
			return fmt.Errorf("sim experiment: workload %s, seed %d: %w", jobs[i].name, jobs[i].seed, jobs[i].err)
		}
	}
	return nil
}
