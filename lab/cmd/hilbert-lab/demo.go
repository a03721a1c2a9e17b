package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"hilbert.dev/hilbert/lab/colocation"
	"hilbert.dev/hilbert/lab/controlplane"
	"hilbert.dev/hilbert/lab/demo"
	"hilbert.dev/hilbert/lab/report"
	"hilbert.dev/hilbert/sim/trace"
)

// demoOptions are the flags of demo.
type demoOptions struct {
	nodes     string
	format    string
	pods      string
	timeScale float64
	lifeScale float64
	timeout   time.Duration
	keep      bool
	agents    int
	speed     float64
	page      string
	output    string
}

// asItFits is a number of agents that follows from that of the nodes.
const asItFits = -1

// formatOpenB names the one trace format.
const formatOpenB = "openb"

func newDemoCommand() *cobra.Command {
	var o demoOptions
	command := &cobra.Command{
		Use:   "demo",
		Short: "Let Hilbert colocate and schedule work on a real control plane, and report",
		Long: `demo has two halves, each on a real control plane with hilbertd, and ends with a report and a page to look at.

The first is half an hour of a morning, played ten times as fast: services on nodes with production agents rise as recorded, jobs use what
the services leave, and in the middle all services want more at once. The second gives hilbertd a cluster of hollow nodes and the online
services and offline jobs of examples/demo.yaml. Below 200 nodes the first half is shorter, and as fast as the machine can play it.

HILBERT_TRACES names the folder with the recorded tide (genai2026/qps.tar.gz). Without it the tide is made up, and the report says so.

With --format openb it replays a recorded cluster instead: --nodes and --pods are then the trace's two files, its nodes
become hollow nodes, and its tasks pods that arrive in order and live for their scaled time.`,
		Example: `  hilbert-lab demo
  hilbert-lab demo --nodes 200 --keep
  hilbert-lab demo --agents 0
  hilbert-lab demo --format openb --nodes openb_node_list_gpu_node.csv --pods openb_pod_list_default.csv`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if !command.Flags().Changed("agents") {
				o.agents = asItFits
			}
			return runDemo(command.Context(), command.OutOrStdout(), command.ErrOrStderr(), o)
		},
	}
	flags := command.Flags()
	flags.StringVar(&o.nodes, "nodes", "1000", "number of hollow nodes; with --format, the trace's file of nodes")
	flags.StringVar(&o.format, "format", "", "replay a trace of this format: openb")
	flags.StringVar(&o.pods, "pods", "", "with --format, the trace's file of pods")
	flags.Float64Var(&o.timeScale, "time-scale", 0, "with --format, how many times faster the trace's clock runs (default: all arrive in about 100 s)")
	flags.Float64Var(&o.lifeScale, "life-scale", 0, "with --format, how many times shorter tasks live (default: as --time-scale, or so that the cluster fills)")
	flags.DurationVar(&o.timeout, "timeout", 10*time.Minute, "end with a partial report after this time")
	flags.IntVar(&o.agents, "agents", 20, "nodes with agents in the first half; 0 leaves it out; left out itself, it is 10 below 200 nodes, and 0 with --format")
	flags.Float64Var(&o.speed, "speed", 0, "how many times faster than real time the first half is played at most (default: 10, and below 200 nodes what the machine can)")
	flags.BoolVar(&o.keep, "keep", false, "keep the cluster until Ctrl-C")
	flags.StringVar(&o.page, "out", "demo.html", "file for the page; - writes none")
	flags.StringVarP(&o.output, "output", "o", "text", "form of the report: text or json")
	return command
}

func (o *demoOptions) validate() error {
	switch {
	case o.output != "text" && o.output != "json":
		return fmt.Errorf("--output is %q: choose text or json", o.output)
	case o.timeout <= 0:
		return fmt.Errorf("--timeout is %s: give a time above 0, for example 10m", o.timeout)
	case o.timeScale < 0:
		return fmt.Errorf("--time-scale is %g: give a number above 0", o.timeScale)
	case o.agents > 0 && o.agents < 5 || o.agents > 500:
		return fmt.Errorf("--agents is %d: give a number from 5 to 500, or 0 to leave the first half out", o.agents)
	case o.speed < 0:
		return fmt.Errorf("--speed is %g: give a number above 0", o.speed)
	case o.lifeScale < 0:
		return fmt.Errorf("--life-scale is %g: give a number above 0", o.lifeScale)
	case o.format == "" && (o.pods != "" || o.timeScale != 0 || o.lifeScale != 0):
		return errors.New("--pods, --time-scale and --life-scale belong to a trace: add --format openb")
	case o.format != "" && o.format != formatOpenB:
		return fmt.Errorf("--format is %q: the only one is %s", o.format, formatOpenB)
	}
	return o.validatePage()
}

// validatePage finds out before the run whether the page can be written after it.
func (o *demoOptions) validatePage() error {
	if o.page == "-" {
		return nil
	}
	if info, err := os.Stat(o.page); err == nil && info.IsDir() {
		return fmt.Errorf("--out is %q, a directory: name a file in it, or - for none", o.page)
	}
	if info, err := os.Stat(filepath.Dir(o.page)); err != nil || !info.IsDir() {
		return fmt.Errorf("--out is %q: there is no directory %s", o.page, filepath.Dir(o.page))
	}
	return nil
}

// work is what the flags ask for.
func (o *demoOptions) work() (demo.Work, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	number, err := strconv.Atoi(o.nodes)
	if o.format == "" {
		if err != nil {
			return nil, fmt.Errorf("--nodes is %q: give a number of nodes, or --format openb to replay a trace from files", o.nodes)
		}
		work, err := demo.Manifests(number)
		if err != nil {
			return nil, fmt.Errorf("--nodes: %w", err)
		}
		return work, nil
	}
	if err == nil {
		return nil, fmt.Errorf("--nodes is the number %d: with --format it is a file, such as openb_node_list_gpu_node.csv", number)
	}
	if o.pods == "" {
		return nil, errors.New("--pods is missing: with --format it is a file, such as openb_pod_list_default.csv")
	}
	workload, err := trace.LoadOpenB(o.nodes, o.pods)
	if err != nil {
		return nil, err
	}
	return demo.Replay(workload, o.timeScale, o.lifeScale)
}

func runDemo(ctx context.Context, out, errs io.Writer, o demoOptions) error {
	work, err := o.work()
	if err != nil {
		return err
	}
	morning, morningErr := o.playMorning(ctx, errs)
	if morning == nil && morningErr != nil {
		return morningErr
	}
	lab, err := demo.Start(ctx, demo.Options{Work: work, Timeout: o.timeout, Progress: errs, Terminal: isTerminal(errs)})
	if err != nil {
		return errors.Join(morningErr, err)
	}
	err = errors.Join(morningErr, o.present(ctx, out, errs, lab, morning))
	fmt.Fprintln(errs, "stopping ...")
	return errors.Join(err, lab.Stop(context.WithoutCancel(ctx)))
}

// smallDemo is the number of nodes below which the first half is short.
const smallDemo = 200

// morning is what the flags ask of the first half. ok: it is asked for.
func (o *demoOptions) morning() (_ colocation.Options, ok bool, err error) {
	m := colocation.Defaults()
	nodes, notANumber := strconv.Atoi(o.nodes)
	switch {
	case o.agents == 0, o.agents < 0 && notANumber != nil:
		return m, false, nil
	case notANumber == nil && nodes < smallDemo:
		m.Nodes, m.Length, m.WarmUp, m.Speed = 10, 6*time.Minute, 2*time.Minute, 0
		m.Rush.At, m.Rush.For = 3*time.Minute, 90*time.Second
	}
	if o.agents > 0 {
		m.Nodes = o.agents
	}
	if o.speed > 0 {
		m.Speed = o.speed
	}
	m.Tide, err = colocation.FindTide(os.Getenv("HILBERT_TRACES"), m.Length)
	return m, true, err
}

// playMorning plays the first half; nil: it was not asked for.
func (o *demoOptions) playMorning(ctx context.Context, errs io.Writer) (*report.Colocation, error) {
	m, ok, err := o.morning()
	if err != nil || !ok {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("the morning: %w (%s)", demo.ErrTimeout, o.timeout))
	defer cancel()
	m.Progress = func(format string, args ...any) { fmt.Fprintf(errs, format+"\n", args...) }
	m.Log = errs
	record, err := colocation.Play(ctx, m)
	if record == nil || err != nil || m.Length < colocation.Defaults().Length {
		return record, err // a short morning has no day beside it
	}
	m.Progress("simulating a whole day ...")
	record.Day, err = colocation.Simulate(ctx)
	return record, err
}

// present runs the work, writes the report and keeps the lab if asked.
func (o *demoOptions) present(ctx context.Context, out, errs io.Writer, lab *demo.Lab, morning *report.Colocation) error {
	withdraw := func() {}
	if o.keep {
		var err error
		if withdraw, err = publishKubeconfig(lab.ControlPlane(), ""); err != nil {
			return err
		}
	}
	defer withdraw()
	run, err := lab.Run(ctx)
	if run != nil {
		run.Colocation = morning
		err = errors.Join(err, o.write(out, errs, run))
	}
	if err != nil || !o.keep {
		return err
	}
	hint, err := keepHint()
	if err != nil {
		return err
	}
	fmt.Fprint(errs, hint)
	return lab.Failed(ctx)
}

// write writes the report and the page.
func (o *demoOptions) write(out, errs io.Writer, run *report.Run) error {
	summary := report.Summarise(run)
	write := summary.WriteText
	if o.output == "json" {
		write = summary.WriteJSON
	} else {
		fmt.Fprintln(out)
	}
	if err := write(out); err != nil {
		return err
	}
	if o.page == "-" {
		return nil
	}
	var page bytes.Buffer
	if err := report.WriteHTML(&page, run); err != nil {
		return err
	}
	if err := os.WriteFile(o.page, page.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	path, err := filepath.Abs(o.page)
	if err != nil {
		path = o.page
	}
	fmt.Fprintf(errs, "\npage: file://%s\n", path)
	return nil
}

func keepHint() (string, error) {
	path, err := controlplane.DefaultKubeconfig()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(`
The cluster stays until Ctrl-C. From another terminal:

  hilbert-lab kubectl get pods -A --field-selector status.phase=Pending \
    -o custom-columns='POD:.metadata.name,WHY:.status.conditions[?(@.type=="PodScheduled")].message'
  hilbert-lab kubectl get nodes -L topology.kubernetes.io/zone,hilbert.dev/gpu-model
  export KUBECONFIG=%s
`, path), nil
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
