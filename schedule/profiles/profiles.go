// Package profiles chooses by which weights nodes are scored for a pod, and keeps the placers that use them.
//
// A configuration has a default profile and scheduling.profiles. A profile changes which of the nodes that fit is the best, and never which nodes fit:
// what waits, why, and what wakes it is the same for all profiles.
//
// Invariants:
//
//   - All profiles of a Set share one market: the prices of GPUs follow from what arrives, whatever weight a profile gives them.
//   - All placers of one Placers decide on one snapshot, so that each sees what the others have assumed. Each follows the snapshot's log by itself.
//
// Example: with the profile {name: batch, schedulerNames: [hilbert-batch], queues: [night]}, Of answers its number for a pod with that scheduler name,
// and for a pod without whose namespace feeds night or a queue below it.
//
// Scoring itself is package rules; finding the best node without asking all is package index.
package profiles

import (
	"fmt"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/quota"
	"hilbert.dev/hilbert/schedule/place"
	"hilbert.dev/hilbert/schedule/place/rules"
	"hilbert.dev/hilbert/schedule/place/victims"
)

// Default is the number of the profile of pods that no other profile names.
const Default = 0

// Set is the profiles of a configuration. Default is one of them; the others have the numbers that spec.Scheduling.ProfileNumbers gives.
type Set struct {
	names   []string
	weights []*rules.Profile
	byQueue map[string]int
}

// New returns the profiles of a configuration. It fails on a score name that does not exist, and names the field.
func New(cfg *spec.Scheduling) (*Set, error) {
	s := &Set{byQueue: make(map[string]int)}
	first, err := rules.NewProfile(cfg.Scores)
	if err != nil {
		return nil, fmt.Errorf("scheduling.scores: %w", err)
	}
	s.add(spec.DefaultProfile, first, cfg.CapacityRatio)
	for i := range cfg.Profiles {
		p := &cfg.Profiles[i]
		weights, err := rules.NewProfile(cfg.ScoresOf(p))
		if err != nil {
			return nil, fmt.Errorf("scheduling.profiles[%d].scores: %w", i, err)
		}
		s.add(p.Name, weights.WithMarket(first.Market()), cfg.RatioOf(p))
		for _, queue := range p.Queues {
			s.byQueue[queue] = i + 1
		}
	}
	return s, nil
}

func (s *Set) add(name string, weights *rules.Profile, ratio []spec.RatioPoint) {
	if len(ratio) > 0 {
		weights.WithRatio(ratio)
	}
	s.names, s.weights = append(s.names, name), append(s.weights, weights)
}

// Market has the prices that all profiles share.
func (s *Set) Market() *rules.Market { return s.weights[0].Market() }

// Share has all profiles use a market that has learned its prices already.
func (s *Set) Share(m *rules.Market) {
	for _, weights := range s.weights {
		weights.WithMarket(m)
	}
}

// Has reports whether there is a profile of that number.
func (s *Set) Has(profile int) bool { return profile >= 0 && profile < len(s.names) }

// Name is the name of a profile.
func (s *Set) Name(profile int) string { return s.names[profile] }

// Of is the profile of a pod: the one that names its spec.schedulerName, else the one that names its queue or the nearest queue above it, else the
// default one. The queue is looked up each time, because queues move.
func (s *Set) Of(pod *cluster.Pod, queues *quota.Tree) int {
	if n := int(pod.Profile); n != Default && n < len(s.weights) {
		return n
	}
	if len(s.byQueue) == 0 {
		return Default
	}
	for q := queues.QueueOf(pod.Namespace); q != nil; q = q.Parent() {
		if n, ok := s.byQueue[q.Name]; ok {
			return n
		}
	}
	return Default
}

// Placers is what decides on one snapshot of a ledger, for each profile. A profile that no pod has taken yet costs nothing.
type Placers struct {
	set      *Set
	store    *cluster.Store
	snapshot *cluster.Snapshot
	options  Options
	list     []*Decider // by profile
	parts    []uint8    // see Divide
	confined bool       // see Confine
	part     uint8
}

// Options are those of all placers of one snapshot.
type Options struct {
	Seed           uint64   // orders nodes of equal score
	MaxIndexes     int      // see place.NewPlacer
	MaxCostIndexes int      // see place.NewPreemptor
	Levels         []string // of the topology, the widest first
}

// Decider decides by one profile: Placer where there is room, Preempts and Reclaims at the expense of others.
type Decider struct {
	*place.Placer
	Preempts *victims.Preemptor
	Reclaims *victims.Reclaimer
}

// NewPlacers returns the placers over a snapshot of the store.
func NewPlacers(set *Set, store *cluster.Store, snapshot *cluster.Snapshot, options Options) *Placers {
	return &Placers{set: set, store: store, snapshot: snapshot, options: options, list: make([]*Decider, len(set.weights))}
}

// For is what decides on a pod, and on a gang of which the pod is the first member.
func (p *Placers) For(pod *cluster.Pod) *Decider {
	n := p.set.Of(pod, p.store.Quota())
	if p.list[n] == nil {
		placer := p.newPlacer(n)
		p.list[n] = &Decider{placer, place.NewPreemptor(placer, p.store, p.options.MaxCostIndexes), place.NewReclaimer(placer, p.store)}
	}
	return p.list[n]
}

// Use goes on with other profiles of the same numbers. What was known of nodes is found out anew.
func (p *Placers) Use(set *Set) { p.set, p.list = set, make([]*Decider, len(set.weights)) }

// Set is the profiles.
func (p *Placers) Set() *Set { return p.set }

// Of is the profile of a pod now.
func (p *Placers) Of(pod *cluster.Pod) int { return p.set.Of(pod, p.store.Quota()) }

// Placer is what decides by a profile where there is room, for Placers of which For is never asked. It does not read the store.
func (p *Placers) Placer(profile int) *place.Placer {
	if p.list[profile] == nil {
		p.list[profile] = &Decider{Placer: p.newPlacer(profile)}
	}
	return p.list[profile].Placer
}

func (p *Placers) newPlacer(profile int) *place.Placer {
	placer := place.NewPlacer(p.snapshot, p.set.weights[profile], p.options.Seed, p.options.MaxIndexes)
	placer.SetLevels(p.options.Levels)
	if p.confined {
		placer.Confine(p.parts, p.part)
	} else {
		placer.Divide(p.parts)
	}
	return placer
}

// Confine divides the nodes, and has the placers know those of one partition alone. See place.Placer.
func (p *Placers) Confine(parts []uint8, part uint8) {
	p.parts, p.confined, p.part = parts, true, part
	for _, d := range p.list {
		if d != nil {
			d.Confine(parts, part)
		}
	}
}

// Divide divides the nodes into partitions, by slot; nil: not. See place.Placer.
func (p *Placers) Divide(parts []uint8) {
	p.parts, p.confined = parts, false
	for _, d := range p.list {
		if d != nil {
			d.Divide(parts)
		}
	}
}

// GPUStates returns what the bounds of GPU states have done, over all profiles.
func (p *Placers) GPUStates() (sum rules.GPUStateCounts) {
	for _, d := range p.list {
		if d != nil {
			sum.Add(d.GPUStates())
		}
	}
	return sum
}
