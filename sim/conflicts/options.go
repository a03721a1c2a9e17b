package conflicts

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Strategy is how a scheduler chooses a node.
type Strategy string

// The strategies, see the package's documentation.
const (
	Plain      Strategy = "plain"
	Seeded     Strategy = "seeded"
	RunnersUp  Strategy = "runners-up"
	KBest      Strategy = "k-best"
	Partitions Strategy = "partitions"
	Rotating   Strategy = "rotating"
)

// Strategies are all of them.
var Strategies = []Strategy{Plain, Seeded, RunnersUp, KBest, Partitions, Rotating}

// Score is what a node is chosen by.
type Score string

// The scores: of the emptiest node, which is the default of Kubernetes, or of the fullest.
const (
	Spread Score = "spread"
	Pack   Score = "pack"
)

// Scores are all of them.
var Scores = []Score{Spread, Pack}

// Options say what is run: every combination of the lists.
type Options struct {
	Nodes      []int           `json:"nodes"`
	Schedulers []int           `json:"schedulers"`
	Lags       []time.Duration `json:"lagsNanoseconds"`
	Strategies []Strategy      `json:"strategies"`
	Scores     []Score         `json:"scores"`
	// Pods that wait. The cluster is as full before them that they fill it up to the part Fill of its CPUs.
	Pods int     `json:"pods"`
	Fill float64 `json:"fill"`
	// Decision and Commit are how long these take.
	Decision time.Duration `json:"decisionNanoseconds"`
	Commit   time.Duration `json:"commitNanoseconds"`
	// Alternatives is the k of runners-up and k-best.
	Alternatives int    `json:"alternatives"`
	Seed         uint64 `json:"seed"`
}

// DefaultOptions take some minutes.
func DefaultOptions() Options {
	return Options{
		Nodes: []int{1000, 20_000}, Schedulers: []int{1, 2, 4, 8, 16},
		Lags:       []time.Duration{100 * time.Microsecond, time.Millisecond, 10 * time.Millisecond, 50 * time.Millisecond},
		Strategies: Strategies, Scores: Scores,
		Pods: 4000, Fill: 0.97, Decision: 50 * time.Microsecond, Commit: 5 * time.Microsecond, Alternatives: 8, Seed: 1,
	}
}

// The bounds of Options.
const (
	maxNodes        = 1_000_000
	maxPods         = 10_000_000
	maxSchedulers   = 64
	maxAlternatives = 64
)

// Validate says what is wrong with the options.
func (o *Options) Validate() error {
	for _, n := range o.Nodes {
		if n < maxSchedulers || n > maxNodes {
			return fmt.Errorf("conflicts: %d nodes: want %d to %d", n, maxSchedulers, maxNodes)
		}
	}
	for _, n := range o.Schedulers {
		if n < 1 || n > maxSchedulers {
			return fmt.Errorf("conflicts: %d schedulers: want 1 to %d", n, maxSchedulers)
		}
	}
	for _, lag := range o.Lags {
		if lag < 0 || lag > time.Minute {
			return fmt.Errorf("conflicts: a lag of %s: want 0 to %s", lag, time.Minute)
		}
	}
	for _, s := range o.Strategies {
		if !slices.Contains(Strategies, s) {
			return fmt.Errorf("conflicts: strategy %q is not known; known are %v", s, Strategies)
		}
	}
	for _, s := range o.Scores {
		if !slices.Contains(Scores, s) {
			return fmt.Errorf("conflicts: score %q is not known; known are %v", s, Scores)
		}
	}
	switch {
	case min(len(o.Nodes), len(o.Schedulers), len(o.Lags), len(o.Strategies), len(o.Scores)) == 0:
		return errors.New("conflicts: nodes, schedulers, lags, strategies and scores want one value each at the least")
	case o.Pods < 1 || o.Pods > maxPods:
		return fmt.Errorf("conflicts: %d pods: want 1 to %d", o.Pods, maxPods)
	case !(o.Fill > 0 && o.Fill <= 1):
		return fmt.Errorf("conflicts: fill %g: want more than 0 and at most 1", o.Fill)
	case o.Decision <= 0 || o.Commit < 0:
		return fmt.Errorf("conflicts: a decision takes %s and a commit %s: want more than 0, and not negative", o.Decision, o.Commit)
	case o.Alternatives < 1 || o.Alternatives > maxAlternatives:
		return fmt.Errorf("conflicts: %d alternatives: want 1 to %d", o.Alternatives, maxAlternatives)
	}
	return nil
}
