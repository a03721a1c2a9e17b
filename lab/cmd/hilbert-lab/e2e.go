package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"hilbert.dev/hilbert/lab/suite"
)

// e2eOptions are the flags of e2e.
type e2eOptions struct {
	suite.Options
	conformance, quick bool
	output             string
}

func newE2ECommand() *cobra.Command {
	var o e2eOptions
	command := &cobra.Command{
		Use:   "e2e [WORD...]",
		Short: "Run upstream's end-to-end tests with Hilbert and with kube-scheduler, and compare",
		Long: `Run Kubernetes' own end-to-end tests on hollow nodes, with Hilbert as the default scheduler and then with kube-scheduler, each in a cluster of its own, and print
what passes. The exit status is 1 if Hilbert fails what kube-scheduler passes. Words choose the specs whose names contain all of them.`,
		RunE: func(command *cobra.Command, words []string) error {
			return runE2E(command.Context(), command.OutOrStdout(), o, words)
		},
	}
	flags := command.Flags()
	flags.StringVar(&o.Program, "program", "bin/e2e-scheduling", "the program that holds the specs, a command of lab/e2e")
	flags.StringSliceVar(&o.Schedulers, "scheduler", []string{suite.Hilbert, suite.KubeScheduler}, "the schedulers to run")
	flags.BoolVar(&o.conformance, "conformance", false, "only the specs that every conformant cluster passes")
	flags.BoolVar(&o.quick, "quick", false, "leave out the specs that take minutes by design")
	flags.IntVar(&o.Nodes, "nodes", suite.DefaultNodes, "number of hollow nodes")
	flags.StringVar(&o.Dir, "dir", "", "keep logs and reports in this directory (default: a temporary one, removed if all goes well)")
	flags.StringVarP(&o.output, "output", "o", "text", "text or json")
	return command
}

func runE2E(ctx context.Context, out io.Writer, o e2eOptions, words []string) error {
	o.Specs, o.Progress = suite.Choose(o.Program, o.conformance, o.quick, words...), os.Stderr
	return runTests(out, o.output, &o.Dir, "hilbert-e2e-", func() (testResult, error) { return suite.Run(ctx, o.Options) })
}

// testResult is what came of upstream's tests.
type testResult interface {
	Write(w io.Writer) error
	Err() error
}

// runTests runs upstream's tests and prints what came of them. Where dir is empty, logs lie in a directory whose name begins with prefix, which is removed if all goes well.
func runTests(out io.Writer, output string, dir *string, prefix string, run func() (testResult, error)) (err error) {
	if output != "text" && output != "json" {
		return fmt.Errorf("--output is %q: choose text or json", output)
	}
	if *dir == "" {
		if *dir, err = os.MkdirTemp("", prefix); err != nil {
			return fmt.Errorf("directory for logs: %w", err)
		}
		defer func() {
			if err != nil {
				err = fmt.Errorf("%w\nlogs are kept in %s", err, *dir)
				return
			}
			_ = os.RemoveAll(*dir)
		}()
	}
	result, err := run()
	if err != nil {
		return err
	}
	if output == "json" {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(result)
	} else {
		err = result.Write(out)
	}
	if err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	return result.Err()
}

func newE2ELabCommand() *cobra.Command {
	var dir, kubeconfig string
	var nodes int
	command := hidden("e2e-lab", "a control plane with strict hollow nodes, for upstream's end-to-end tests", func(ctx context.Context, out io.Writer) error {
		return suite.ServeLab(ctx, nodes, dir, kubeconfig, out)
	})
	flags := command.Flags()
	flags.StringVar(&dir, "dir", "", "data directory")
	flags.StringVar(&kubeconfig, "kubeconfig", "", "file for the administrator's kubeconfig")
	flags.IntVar(&nodes, "nodes", suite.DefaultNodes, "number of hollow nodes")
	return command
}
