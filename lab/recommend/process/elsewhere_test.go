package process

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbertd/daemon"
	"hilbert.dev/hilbert/lab/bench"
)

// elsewhere is how this binary is told to be TestScale's controller: what it costs can be measured in a process of its own.
var elsewhere = flag.String("controller", "", "run no test, but TestScale's controller with this kubeconfig, until the standard input ends")

func TestMain(m *testing.M) {
	flag.Parse()
	if *elsewhere == "" {
		os.Exit(m.Run())
	}
	if err := runElsewhere(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func runElsewhere() error {
	config := spec.Default()
	config.Server.BindAddress = "127.0.0.1:0"
	quickly(config, *elsewhere, true)
	r := &config.Controller.Recommendation
	r.Interval, r.CheckpointInterval, r.Rollout.Watch = spec.Duration(*scaleInterval), spec.Duration(10*time.Minute), spec.Duration(scaleWatch())
	config.Controller.Disturbances = spec.Disturbances{PodsPerHour: 0, Burst: scaleBurst}
	if err := spec.Validate(config); err != nil {
		return err
	}
	ctx, cancel := bench.EndWithParent(context.Background(), os.Stdin)
	defer cancel()
	if err := bench.Ready(os.Stdout); err != nil {
		return err
	}
	return daemon.Run(ctx, config, daemon.Options{Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
}

// controllerElsewhere runs TestScale's controller in a process of its own, until the test ends.
func (c *cluster) controllerElsewhere() bench.Child {
	c.t.Helper()
	child, err := bench.Spawn(c.t.Context(), c.t.TempDir(), "controller", "-controller="+c.kubeconfig, "-interval="+scaleInterval.String())
	c.must(err)
	c.t.Cleanup(func() {
		select {
		case <-child.Ended():
			c.t.Error(child.Died())
		default:
			child.Stop()
		}
	})
	return child
}
