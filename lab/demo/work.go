package demo

import (
	"fmt"

	"hilbert.dev/hilbert/examples"
	"hilbert.dev/hilbert/sim/trace"
)

// MaxNodes bounds the hollow nodes of a demo.
const MaxNodes = 20_000

// Manifests is the work of examples/demo.yaml on a number of nodes, to which its numbers of pods are scaled.
func Manifests(nodes int) (Work, error) {
	if nodes < 1 || nodes > MaxNodes {
		return nil, fmt.Errorf("%d nodes: want a number from 1 to %d", nodes, MaxNodes)
	}
	return readManifests("examples/demo.yaml", examples.Demo, nodes)
}

// Replay is the work of a trace. scale is how many times faster its clock runs, lifeScale how many times shorter its tasks live; 0
// leaves the choice: arrivals in about two minutes, and lives by the same scale if it was given, else such that the cluster fills.
func Replay(w *trace.Workload, scale, lifeScale float64) (Work, error) {
	return newReplay(w, scale, lifeScale)
}
