package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"hilbert.dev/hilbert/lab/bench"
	"hilbert.dev/hilbert/lab/controlplane"
	"hilbert.dev/hilbert/lab/standin"
)

// The commands in this file are the processes of a benchmark: this binary starts itself under them. They log to standard error, print
// "ready" when they can be used, and end with their parent.

// childFlags are what a benchmark passes to every contestant.
type childFlags struct {
	kubeconfig, dir string
}

func (f *childFlags) add(command *cobra.Command) {
	command.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "how to reach the API server")
	command.Flags().StringVar(&f.dir, "dir", "", "directory for files")
}

func (f *childFlags) config() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", f.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", f.kubeconfig, err)
	}
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return config, nil
}

func hidden(use, short string, run func(context.Context, io.Writer) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Hidden: true, Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			ctx, cancel := bench.EndWithParent(command.Context(), os.Stdin)
			defer cancel()
			return run(ctx, command.OutOrStdout())
		},
	}
}

func newEtcdCommand() *cobra.Command {
	var dir string
	command := hidden("etcd", "etcd alone, for benchmarks", func(ctx context.Context, out io.Writer) error {
		etcd, err := controlplane.StartEtcd(ctx, controlplane.Options{Dir: dir, Benchmark: true, Log: os.Stderr})
		if err != nil {
			return err
		}
		return errors.Join(serveUntil(ctx, out, etcd.Failed()), etcd.Stop())
	})
	command.Flags().StringVar(&dir, "dir", "", "data directory")
	return command
}

func newAPIServerCommand() *cobra.Command {
	var dir, etcd, kubeconfig string
	var custom bool
	command := hidden("kube-apiserver", "kube-apiserver alone, for benchmarks", func(ctx context.Context, out io.Writer) error {
		plane, err := controlplane.Start(ctx, controlplane.Options{Dir: dir, Etcd: etcd, Benchmark: true, Log: os.Stderr})
		if err != nil {
			return err
		}
		err = plane.WriteKubeconfig(kubeconfig)
		if err == nil && custom {
			err = plane.InstallDefinitions(ctx)
		}
		if err == nil {
			err = serveUntil(ctx, out, plane.Failed())
		}
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		return errors.Join(err, plane.Stop(stopping))
	})
	flags := command.Flags()
	flags.StringVar(&dir, "dir", "", "data directory")
	flags.StringVar(&etcd, "etcd", "", "URL of etcd")
	flags.StringVar(&kubeconfig, "kubeconfig", "", "file for the administrator's kubeconfig")
	flags.BoolVar(&custom, "custom-resources", false, "install Hilbert's definitions")
	return command
}

func newStandinCommand() *cobra.Command {
	var kubeconfig string
	var custom bool
	command := hidden("standin-apiserver", "a stand-in API server in memory, for benchmarks", func(ctx context.Context, out io.Writer) error {
		var kinds map[string]schema.GroupVersionKind
		if custom {
			kinds = standin.Hilbert()
		}
		server, err := standin.Start(kinds)
		if err != nil {
			return err
		}
		if err = server.WriteKubeconfig(kubeconfig); err == nil {
			err = serveUntil(ctx, out, server.Failed())
		}
		return errors.Join(err, server.Stop())
	})
	command.Flags().StringVar(&kubeconfig, "kubeconfig", "", "file for the kubeconfig")
	command.Flags().BoolVar(&custom, "custom-resources", false, "have Hilbert's custom resources too")
	return command
}

// serveUntil says ready and waits for the end.
func serveUntil(ctx context.Context, out io.Writer, failed <-chan error) error {
	if err := bench.Ready(out); err != nil {
		return fmt.Errorf("say ready: %w", err)
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}

func newKubeSchedulerCommand() *cobra.Command {
	var f childFlags
	var gates string
	command := hidden("kube-scheduler", "kube-scheduler with its default profile, for benchmarks", func(ctx context.Context, out io.Writer) error {
		return bench.RunKubeScheduler(ctx, f.kubeconfig, f.dir, gates, out)
	})
	f.add(command)
	command.Flags().StringVar(&gates, "feature-gates", "", "feature gates that differ from the defaults")
	return command
}

func newHilbertdCommand() *cobra.Command {
	var f childFlags
	var config, counts string
	command := hidden("hilbertd", "hilbertd, for benchmarks", func(ctx context.Context, out io.Writer) error {
		return bench.RunHilbert(ctx, f.kubeconfig, config, counts, out)
	})
	f.add(command)
	command.Flags().StringVar(&counts, "counts", "", "file for counters and heap, written in the end (default: none)")
	command.Flags().StringVar(&config, "config", "", "configuration file (default: the defaults)")
	return command
}

func newRawBinderCommand() *cobra.Command {
	var f childFlags
	var inFlight int
	command := hidden("raw-binder", "writes Bindings and decides nothing, for benchmarks", func(ctx context.Context, out io.Writer) error {
		config, err := f.config()
		if err != nil {
			return err
		}
		return bench.RunRawWriter(ctx, config, inFlight, out)
	})
	f.add(command)
	command.Flags().IntVar(&inFlight, "in-flight", 64, "Bindings on their way at once")
	return command
}
