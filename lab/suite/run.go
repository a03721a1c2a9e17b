package suite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/component-base/version"

	"hilbert.dev/hilbert/lab/bench"
)

const (
	// DefaultNodes is how many hollow nodes the lab has. The spec about asynchronous preemption looks at ten victims and five preemptors for each node, one a
	// second, and the victims stop after 79 s: with more than five nodes it fails with every scheduler.
	DefaultNodes = 4
	// seed of the order of the specs: the same with every scheduler.
	seed = 1
	// suiteTimeout is when ginkgo gives up.
	suiteTimeout = 3 * time.Hour
	// killAfter is how long the program may take to clean up after it was interrupted.
	killAfter = 20 * time.Second
)

// hilbertdConfig makes Hilbert the cluster's default scheduler. Conformance reads the Events of pods that were placed.
const hilbertdConfig = `schedulerName: default-scheduler
scheduling:
  events:
    scheduled: true
`

// Options says what is run.
type Options struct {
	// Program is the file of a command of lab/e2e.
	Program string
	Specs   []Spec
	// Schedulers are run one after the other; the first is the one that the line counts.
	Schedulers []string
	Nodes      int
	// Dir keeps logs and reports: DIR/SCHEDULER/{lab.log,SCHEDULER.log,specs.log,report.json}.
	Dir      string
	Progress io.Writer
}

func (o *Options) validate() error {
	if len(o.Specs) == 0 {
		return errors.New("no spec is chosen")
	}
	if o.Nodes < 1 {
		return fmt.Errorf("--nodes is %d: give a number from 1", o.Nodes)
	}
	if err := CheckSchedulers(o.Schedulers); err != nil {
		return err
	}
	if _, err := os.Stat(o.Program); err != nil {
		return fmt.Errorf("the program that holds the specs: %w; build it with make e2e-suite", err)
	}
	return nil
}

// CheckSchedulers refuses an empty list, and names of schedulers that cannot be run.
func CheckSchedulers(names []string) error {
	if len(names) == 0 {
		return fmt.Errorf("no scheduler is chosen: choose from %s, %s", Hilbert, KubeScheduler)
	}
	for _, s := range names {
		if !slices.Contains([]string{Hilbert, KubeScheduler}, s) {
			return fmt.Errorf("--scheduler names %q: choose from %s, %s", s, Hilbert, KubeScheduler)
		}
	}
	return nil
}

// Run runs the specs with each scheduler on a lab of its own.
func Run(ctx context.Context, o Options) (*Result, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	ended := make(map[string]map[string]Ended)
	for _, scheduler := range o.Schedulers {
		fmt.Fprintf(o.Progress, "%d specs with %s ...\n", len(o.Specs), scheduler)
		start := time.Now()
		of, err := o.runWith(ctx, scheduler)
		if err != nil {
			return nil, fmt.Errorf("with %s: %w", scheduler, err)
		}
		fmt.Fprintf(o.Progress, "  done after %.0f s\n", time.Since(start).Seconds())
		ended[scheduler] = of
	}
	r := compare(o.Specs, o.Schedulers, ended)
	r.Nodes, r.Kubernetes = o.Nodes, version.Get().GitVersion
	return r, nil
}

// runWith starts a lab and a scheduler, and runs the specs.
func (o *Options) runWith(ctx context.Context, scheduler string) (map[string]Ended, error) {
	dir := filepath.Join(o.Dir, scheduler)
	data := filepath.Join(dir, "data")
	if err := os.MkdirAll(data, 0o700); err != nil {
		return nil, fmt.Errorf("directory for logs: %w", err)
	}
	defer func() { _ = os.RemoveAll(data) }()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	lab, err := bench.Spawn(ctx, dir, "lab", "e2e-lab", "--dir="+data, "--kubeconfig="+kubeconfig, "--nodes="+strconv.Itoa(o.Nodes))
	if err != nil {
		return nil, err
	}
	defer lab.Stop()
	args := []string{"kube-scheduler", "--kubeconfig=" + kubeconfig, "--dir=" + dir, "--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true"}
	if scheduler == Hilbert {
		config := filepath.Join(dir, "hilbertd.yaml")
		if err := os.WriteFile(config, []byte(hilbertdConfig), 0o600); err != nil {
			return nil, fmt.Errorf("configuration of hilbertd: %w", err)
		}
		args = []string{"hilbertd", "--kubeconfig=" + kubeconfig, "--dir=" + dir, "--config=" + config}
	}
	child, err := bench.Spawn(ctx, dir, scheduler, args...)
	if err != nil {
		return nil, err
	}
	defer child.Stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { // specs would wait for hours for a cluster that is gone
		select {
		case <-lab.Ended():
			cancel(lab.Died())
		case <-child.Ended():
			cancel(child.Died())
		case <-ctx.Done():
		}
	}()
	return o.runSpecs(ctx, dir, kubeconfig)
}

// runSpecs runs the program and reads its report. Its exit status says no more than the report does.
func (o *Options) runSpecs(ctx context.Context, dir, kubeconfig string) (map[string]Ended, error) {
	report := filepath.Join(dir, "report.json")
	_ = os.Remove(report)
	log, err := os.Create(filepath.Join(dir, "specs.log"))
	if err != nil {
		return nil, fmt.Errorf("log of the specs: %w", err)
	}
	defer log.Close()
	command := exec.CommandContext(ctx, o.Program, "--kubeconfig="+kubeconfig, "--provider=skeleton", "--ginkgo.focus="+focus(o.Specs),
		"--ginkgo.json-report="+report, fmt.Sprintf("--ginkgo.seed=%d", seed), "--ginkgo.timeout="+suiteTimeout.String(), "--ginkgo.no-color", "--ginkgo.v",
		"--node-schedulable-timeout=1m", "--dump-logs-on-failure=false", "--minStartupPods=0", "--system-pods-startup-timeout=10s")
	command.Stdout, command.Stderr = log, log
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGINT) }
	command.WaitDelay = killAfter
	ran := command.Run()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	data, err := os.ReadFile(report)
	if err != nil {
		return nil, fmt.Errorf("%s left no report (%w); its log is %s: %w", filepath.Base(o.Program), ran, log.Name(), err)
	}
	return readReport(data, o.Specs)
}

// Choose returns the specs that the program has and that are asked for: those whose names contain every word. quick leaves out what takes minutes.
func Choose(program string, conformance, quick bool, words ...string) []Spec {
	narrow := strings.HasSuffix(program, "e2e-scheduling")
	return slices.DeleteFunc(List(), func(s Spec) bool {
		return narrow && !s.Scheduling() || conformance && !s.Conformance() || quick && s.Slow != "" ||
			slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(s.Name, word) })
	})
}
