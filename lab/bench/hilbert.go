package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbertd/configfile"
	"hilbert.dev/hilbert/cmd/hilbertd/daemon"
)

// heapInUse is the gauge that goes with the counts of a hilbertd.
const heapInUse = "go_memstats_heap_inuse_bytes"

// RunHilbert runs hilbertd with the configuration file config ("" for its defaults) and says ready on out when it is synced. In the end it writes its counters and its heap to the file counts,
// unless that is "".
func RunHilbert(ctx context.Context, kubeconfig, config, counts string, out io.Writer) error {
	c, err := configfile.Load(config)
	if err != nil {
		return err
	}
	c.ClientConnection.Kubeconfig = kubeconfig
	c.Server.BindAddress = "127.0.0.1:0" // the default port may be taken
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	metrics, ended := make(chan prometheus.Gatherer, 1), make(chan error, 1)
	ready := func() { _ = Ready(out) } // a parent that reads no more is gone, which ends ctx
	o := daemon.Options{OnSynced: ready, OnMetrics: func(g prometheus.Gatherer) { metrics <- g }}
	if slices.Contains(c.Roles, spec.RoleController) {
		o.OnListen = func(string) { ready() } // a controller lists when it leads
	}
	go func() { ended <- daemon.Run(running, c, o) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	// Counts are read while the loop still answers.
	select {
	case g := <-metrics:
		if counts != "" {
			err = writeCounts(counts, g)
		}
	default:
	}
	stop()
	return errors.Join(err, <-ended)
}

// writeCounts writes the counters that have no more than one label, named as NAME or NAME{VALUE}, and heapInUse.
func writeCounts(file string, metrics prometheus.Gatherer) error {
	families, err := metrics.Gather()
	if err != nil {
		return fmt.Errorf("read the metrics of hilbertd: %w", err)
	}
	counts := make(map[string]float64)
	for _, family := range families {
		for _, m := range family.GetMetric() {
			name, labels := family.GetName(), m.GetLabel()
			switch {
			case name == heapInUse:
				counts[name] = m.GetGauge().GetValue()
			case m.GetCounter() == nil || len(labels) > 1:
			case len(labels) == 1:
				counts[name+"{"+labels[0].GetValue()+"}"] = m.GetCounter().GetValue()
			default:
				counts[name] = m.GetCounter().GetValue()
			}
		}
	}
	text, err := json.Marshal(counts)
	if err != nil {
		return fmt.Errorf("write the counts of hilbertd: %w", err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return fmt.Errorf("write the counts of hilbertd: %w", err)
	}
	return nil
}
