package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"hilbert.dev/hilbert/lab/controlplane"
	"hilbert.dev/hilbert/lab/hollow"
)

// stopTimeout bounds the orderly end of a lab.
const stopTimeout = 30 * time.Second

// upOptions are the flags of up.
type upOptions struct {
	nodes      int
	port       int
	dir        string
	kubeconfig string
	timeScale  float64
}

func newUpCommand() *cobra.Command {
	var o upOptions
	command := &cobra.Command{
		Use:   "up",
		Short: "Start a control plane with hollow nodes and keep it until Ctrl-C",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return runUp(command.Context(), command.OutOrStdout(), o)
		},
	}
	flags := command.Flags()
	flags.IntVar(&o.nodes, "nodes", 100, "number of hollow nodes")
	flags.IntVar(&o.port, "port", 0, "port of the API server on 127.0.0.1 (0 picks a free one)")
	flags.StringVar(&o.dir, "dir", "", "directory that keeps the cluster over restarts (default: a temporary one)")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "also write the administrator's kubeconfig to this file")
	flags.Float64Var(&o.timeScale, "time-scale", 1, "how many of a pod's "+hollow.AnnotationRunSeconds+" pass in one second")
	return command
}

func (o upOptions) validate() error {
	if o.nodes < 0 {
		return fmt.Errorf("--nodes is %d: give a number from 0", o.nodes)
	}
	if o.port < 0 || o.port > 65535 {
		return fmt.Errorf("--port is %d: give a number from 0 to 65535", o.port)
	}
	if o.timeScale <= 0 {
		return fmt.Errorf("--time-scale is %g: give a number above 0", o.timeScale)
	}
	return nil
}

func runUp(ctx context.Context, out io.Writer, o upOptions) error {
	if err := o.validate(); err != nil {
		return err
	}
	started := time.Now()
	fmt.Fprintln(out, "starting etcd, kube-apiserver and the workload controllers ...")
	plane, err := controlplane.Start(ctx, controlplane.Options{Dir: o.dir, Port: o.port, Controllers: true})
	if err != nil {
		return err
	}
	err = o.serve(ctx, out, plane, started)
	fmt.Fprintln(out, "stopping ...")
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	return errors.Join(err, plane.Stop(stopping))
}

// serve adds the nodes, publishes the kubeconfig and waits for the end.
func (o upOptions) serve(ctx context.Context, out io.Writer, plane *controlplane.ControlPlane, started time.Time) error {
	fmt.Fprintf(out, "  ready at %s after %.1f s\n", plane.AdminConfig().Host, time.Since(started).Seconds())
	if err := plane.InstallDefinitions(ctx); err != nil {
		return err
	}
	// Who tries hilbertd here does so with the administrator's kubeconfig.
	if err := plane.InstallPolicies(ctx, controlplane.AdminUser); err != nil {
		return err
	}
	fmt.Fprintf(out, "registering %d hollow nodes ...\n", o.nodes)
	fleet, err := hollow.Run(ctx, plane.AdminConfig(), hollow.Shapes(o.nodes), hollow.Options{TimeScale: o.timeScale})
	if err != nil {
		return err
	}
	defer fleet.Stop()
	withdraw, err := publishKubeconfig(plane, o.kubeconfig)
	if err != nil {
		return err
	}
	defer withdraw()
	fmt.Fprintf(out, "  done after %.1f s\n\n%s", time.Since(started).Seconds(), o.hints(plane))
	select {
	case <-ctx.Done():
		return nil
	case err := <-plane.Failed():
		return fmt.Errorf("the lab cannot go on: %w", err)
	}
}

func (o upOptions) hints(plane *controlplane.ControlPlane) string {
	path, err := controlplane.DefaultKubeconfig()
	if o.kubeconfig != "" || err != nil {
		path = o.kubeconfig
	}
	return fmt.Sprintf(`The cluster is up. From another terminal:

  hilbert-lab kubectl get nodes
  export KUBECONFIG=%s

Log of its parts: %s
Pods wait for a scheduler: run hilbertd, and set schedulerName: hilbert.
Ctrl-C ends it.
`, path, plane.LogFile())
}

// publishKubeconfig writes the administrator's kubeconfig to where "hilbert-lab kubectl" looks for it, and to extra unless that
// is "". The function that it returns takes it back, unless another lab has published its own meanwhile.
func publishKubeconfig(plane *controlplane.ControlPlane, extra string) (withdraw func(), err error) {
	known, err := controlplane.DefaultKubeconfig()
	if err != nil {
		return nil, err
	}
	paths := []string{known}
	if extra != "" {
		paths = append(paths, extra)
	}
	written := make(map[string][]byte, len(paths))
	for _, path := range paths {
		if path, err = filepath.Abs(path); err != nil {
			return nil, fmt.Errorf("kubeconfig %s: %w", path, err)
		}
		if err := plane.WriteKubeconfig(path); err != nil {
			return nil, err
		}
		if written[path], err = os.ReadFile(path); err != nil {
			return nil, fmt.Errorf("read back kubeconfig %s: %w", path, err)
		}
	}
	return func() {
		for path, ours := range written {
			if now, err := os.ReadFile(path); err == nil && bytes.Equal(now, ours) {
				_ = os.Remove(path) // it leads nowhere any more, but does no harm
			}
		}
	}, nil
}
