// Package decide measures decisions alone, Hilbert's loop beside kube-scheduler's in one process, without an API server: clients that answer from memory stand in for it.
//
// Run plays each case (pods of some classes, gangs, volumes, devices, preemption) on nodes that both schedulers see alike, in rounds that take turns, and reports rates, CPU time,
// memory and the ratio of each pair of rounds. For example, hilbert-lab bench decide --nodes 5000 --case spread says how many pods with spread constraints each of them
// places a second.
//
// Invariants: both sides decide on the same pods on the same nodes, and every decision is counted once it is bound; a side that places fewer is said to.
// The rates are of one machine at one time: only ratios of one run are to be compared. What an API server costs is in package bench.
package decide

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	scenarios "hilbert.dev/hilbert/bench"
	"hilbert.dev/hilbert/lab/bench"
)

// Options says what to measure of the decisions alone, without an API server.
type Options struct {
	Nodes []int
	// Cases of Cases; empty is all.
	Cases []string
	// Rounds of each side, interleaved.
	Rounds int
	// Duration of a side's round, and Least pods that it decides on however long they take.
	Duration time.Duration
	Least    int
	// Progress gets a line for each round.
	Progress io.Writer
}

// decideCase is a row for each number of nodes.
type decideCase struct {
	name     string
	scenario scenarios.Case
	classes  int
	members  int // of the gang that each decision places; 0 for single pods
}

// decideCases are in the order of the table. A class with anti-affinity has at most one pod on a node, so that there are more classes.
var decideCases = []decideCase{
	{"basic", scenarios.Owned, 16, 0},
	{"plain", scenarios.Basic, 16, 0},
	{"mixed", scenarios.Mixed, 64, 0},
	{"batch", scenarios.Batch, 1, 0},
	{"spread", scenarios.Spread, 16, 0},
	{"antiaffinity", scenarios.AntiAffinity, 64, 0},
	{"affinity", scenarios.Affinity, 16, 0},
	{"preempt", scenarios.Preempt, 1, 0},
	{"sizes", scenarios.Sizes, 1000, 0},
	{"sizes-owned", scenarios.SizesOwned, 1000, 0},
	{"image", scenarios.Image, 1000, 0},
	{"selectors", scenarios.Selectors, 1000, 0},
	{"daemons", scenarios.Daemons, 1000, 0},
	{"volumes", scenarios.Volumes, 16, 0},
	{"volumes-new", scenarios.NewVolumes, 16, 0},
	{"devices", scenarios.Devices, 16, 0},
	{"gang3", scenarios.Basic, 16, 3},
	{"gang32", scenarios.Basic, 16, 32},
	{"gang512", scenarios.Basic, 16, 512},
}

// oddCases are those whose pods are unlike each other. What they are to reach is a rate of Hilbert's own (docs/benchmarks/odd.md), and no ratio.
var oddCases = []scenarios.Case{scenarios.Sizes, scenarios.SizesOwned, scenarios.Image, scenarios.Selectors, scenarios.Daemons}

// Cases are the names of all cases.
func Cases() []string {
	var names []string
	for _, c := range decideCases {
		names = append(names, c.name)
	}
	return names
}

// wanted is the ratio that Hilbert is to reach, from the project's goals; 0 where they name none.
func (c *decideCase) wanted(nodes int) float64 {
	switch {
	case c.members > 0, hasClaims(c.scenario), slices.Contains(oddCases, c.scenario):
		return 0
	case c.name == "basic" && nodes >= 20000:
		return 175
	case c.name == "batch":
		return 15
	}
	return 50
}

// tally is what a side did in a round. A decision places a pod, or a gang whole. victims is how many pods had to leave.
type tally struct{ decisions, unplaced, victims int }

// decider is a scheduler that is kept busy at a level load.
type decider interface {
	// decide makes at least so many decisions, and more until the time is up. It returns when all of them are carried out.
	decide(ctx context.Context, least int, limit time.Duration) (tally, error)
	// pods is how many pods hold nodes between two calls.
	pods() int
	stop()
}

// Run measures all rows.
func Run(ctx context.Context, o Options) (*Result, error) {
	chosen, err := o.choose()
	if err != nil {
		return nil, err
	}
	// Upstream makes much garbage, and its heap is smaller here than beside an API server's objects: more room takes a fifth off its CPU time.
	defer debug.SetGCPercent(debug.SetGCPercent(decideGC))
	result := &Result{Protocol: newDecideProtocol(o)}
	for _, nodes := range o.Nodes {
		for _, c := range chosen {
			row, err := decideRow(ctx, &o, c, nodes)
			if err != nil {
				return nil, fmt.Errorf("case %s on %d nodes: %w", c.name, nodes, err)
			}
			result.Cases = append(result.Cases, *row)
		}
	}
	if result.PeakBytes, err = bench.OwnPeak(); err != nil {
		return nil, err
	}
	return result, nil
}

// choose checks the options.
func (o *Options) choose() ([]decideCase, error) {
	switch {
	case len(o.Nodes) == 0 || slices.Min(o.Nodes) < 20:
		return nil, fmt.Errorf("--nodes is %v: give numbers from 20", o.Nodes)
	case o.Rounds < 1:
		return nil, fmt.Errorf("--rounds is %d: give a number from 1", o.Rounds)
	case o.Least < 1:
		return nil, fmt.Errorf("--decisions is %d: give a number from 1", o.Least)
	}
	if len(o.Cases) == 0 {
		return decideCases, nil
	}
	var chosen []decideCase
	for _, name := range o.Cases {
		at := slices.IndexFunc(decideCases, func(c decideCase) bool { return c.name == name })
		if at < 0 {
			return nil, fmt.Errorf("--case has %q: choose among %v", name, Cases())
		}
		chosen = append(chosen, decideCases[at])
	}
	return chosen, nil
}

func (o *Options) progress(format string, args ...any) {
	if o.Progress != nil {
		fmt.Fprintf(o.Progress, format+"\n", args...)
	}
}

func decideRow(ctx context.Context, o *Options, c decideCase, nodes int) (*Case, error) {
	o.progress("%s, %d nodes: filling", c.name, nodes)
	scenario := &scenarios.Scenario{Nodes: nodes, Classes: c.classes, Case: c.scenario, Fill: decideFill, Seed: decideSeed}
	empty := liveBytes()
	hilbert, err := newHilbertSide(scenario, c.members)
	if err != nil {
		return nil, fmt.Errorf("hilbert: %w", err)
	}
	first := liveBytes()
	kube, err := newKubeSide(scenario, c.members, hilbert.ring)
	if err != nil {
		return nil, fmt.Errorf("kube-scheduler: %w", err)
	}
	defer kube.stop()
	row := &Case{
		Nodes: nodes, Case: c.name, Classes: c.classes, Members: max(c.members, 1), Pods: hilbert.pods(), Wanted: c.wanted(nodes),
		States: scenarios.DistinctStates(hilbert.scheduler.Store()),
	}
	sides := []struct {
		name string
		side decider
		held uint64
		into *Side
	}{
		{"hilbert", hilbert, first - min(empty, first), &row.Hilbert},
		{"kube-scheduler", kube, 0, &row.KubeScheduler},
	}
	for i := range o.Rounds + 1 { // round 0 warms up
		for j := range sides {
			s := &sides[j]
			limit, least := o.Duration, max(o.Least/row.Members, 1)
			if i == 0 {
				limit, least = limit/3, min(least, 20)
			}
			round, err := decideRound(ctx, s.side, least, limit)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s.name, err)
			}
			if i == 0 {
				continue
			}
			o.progress("%s, %d nodes, round %d of %d: %s %.0f decisions/s", c.name, nodes, i, o.Rounds, s.name, round.PerSec)
			s.into.Rounds = append(s.into.Rounds, round)
		}
		if i == 0 { // now what is built on first use is
			sides[1].held = liveBytes() - first
		}
	}
	for _, s := range sides {
		s.into.Pods, s.into.HeapBytes = s.side.pods(), s.held
	}
	row.finish()
	return row, nil
}

// decideRound measures one side, on a heap that was just collected.
func decideRound(ctx context.Context, side decider, least int, limit time.Duration) (Round, error) {
	runtime.GC()
	cpu, err := bench.OwnCPU()
	if err != nil {
		return Round{}, err
	}
	start := time.Now()
	t, err := side.decide(ctx, least, limit)
	if err != nil {
		return Round{}, err
	}
	seconds := time.Since(start).Seconds()
	after, err := bench.OwnCPU()
	if err != nil {
		return Round{}, err
	}
	if t.unplaced == t.decisions {
		return Round{}, errors.New("no pod found a node")
	}
	n := float64(t.decisions)
	return Round{
		Decisions: t.decisions, Unplaced: t.unplaced, Victims: t.victims, Seconds: seconds,
		PerSec: n / seconds, CPUMicrosPerDecision: float64((after - cpu).Microseconds()) / n,
	}, nil
}

func liveBytes() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// middle is the median.
func middle[T cmp.Ordered](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)-1)/2]
}
