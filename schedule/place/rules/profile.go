package rules

import (
	"fmt"
	"maps"
	"slices"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
)

// LocalScore judges a node by itself, from 0 to MaxScore (GPUWorth and CPUWorth to MaxWorth), as if a pod of the class were placed there.
type LocalScore struct {
	Name    string
	Plugin  string // upstream's name for it; empty: Hilbert's own
	Default int64  // weight in the default profile
	Score   func(p *Profile, s *cluster.State, slot cluster.Slot, c *cluster.Class) int64
}

// NormalizedScore gives a node a raw value that is equal for all nodes with the same properties and domains; the raw values of all
// feasible nodes are then scaled to 0 to MaxScore.
type NormalizedScore struct {
	Name      string
	Plugin    string
	Default   int64
	Raw       func(f *FeasibleStats, s *cluster.State, slot cluster.Slot, c *cluster.Class) int64
	Normalize func(raw int64, r span) int64
}

// How many there are of each: the tables' lengths, by name because the tables' functions refer to types of that length.
const (
	localScores      = 10
	normalizedScores = 7
)

// span is the smallest and the greatest raw value of the feasible nodes; ignored ones are not in it.
type span struct{ least, greatest int64 }

// ignored is the raw value of a node that a score leaves out.
const ignored = int64(-1) << 62

// LocalScores is every score that looks at one node only. Formulas follow kube-scheduler v1.37 where there is a Plugin.
var LocalScores = [localScores]LocalScore{
	{"LeastAllocated", "NodeResourcesFit", 1, scoreLeastAllocated},
	{"MostAllocated", "NodeResourcesFit", 0, scoreMostAllocated},
	{"RequestedToCapacityRatio", "NodeResourcesFit", 0, scoreCapacityRatio},
	{"BalancedAllocation", "NodeResourcesBalancedAllocation", 1, scoreBalancedAllocation},
	{"GPUPacking", "", 20, scoreGPUPacking},
	{"NUMAPacking", "", 20, scoreNUMAPacking},
	{"HeadroomSpread", "", 20, scoreHeadroomSpread},
	{"GPUWorth", "", 2, scoreGPUWorth},
	{"LoadAware", "", 0, scoreLoadAware},
	{"CPUWorth", "", 0, scoreCPUWorth},
}

// NormalizedScores is every score that is relative to the feasible nodes, or depends on the cluster as a whole.
var NormalizedScores = [normalizedScores]NormalizedScore{
	{"TaintToleration", "TaintToleration", 3, RawTaints, normalizeReverse},
	{"NodeAffinity", "NodeAffinity", 2, RawAffinity, normalizeByGreatest},
	{"PodTopologySpread", "PodTopologySpread", 2, RawSpread, normalizeSpread},
	{"InterPodAffinity", "InterPodAffinity", 2, rawPodAffinity, normalizeRange},
	{"ImageLocality", "ImageLocality", 1, rawImages, normalizeNot},
	{"StorageCapacity", "VolumeBinding", 1, RawStorage, normalizeNot},
	{"DynamicResources", "DynamicResources", 2, rawDevices, normalizeByGreatest},
}

// Profile weighs the scores of both tables. It has the weights by index, and the parameters of scores that have some. Placers of a
// process may share one.
type Profile struct {
	local      [localScores]int64
	normalized [normalizedScores]int64
	ratio      []spec.RatioPoint
	market     *Market
}

// ScoreNames returns the names that weights can have, in order.
func ScoreNames() []string {
	var names []string
	for i := range LocalScores {
		names = append(names, LocalScores[i].Name)
	}
	for i := range NormalizedScores {
		names = append(names, NormalizedScores[i].Name)
	}
	slices.Sort(names)
	return names
}

// NewProfile returns the default weights with the given ones, by name, in their place.
func NewProfile(weights map[string]int64) (*Profile, error) {
	p := &Profile{ratio: spec.DefaultRatio(), market: newMarket()}
	known := make(map[string]*int64)
	for i := range LocalScores {
		p.local[i] = LocalScores[i].Default
		known[LocalScores[i].Name] = &p.local[i]
	}
	for i := range NormalizedScores {
		p.normalized[i] = NormalizedScores[i].Default
		known[NormalizedScores[i].Name] = &p.normalized[i]
	}
	for _, name := range slices.Sorted(maps.Keys(weights)) {
		weight, ok := known[name]
		if !ok {
			return nil, fmt.Errorf("%s: no such score; known are %v", name, slices.Sorted(maps.Keys(known)))
		}
		*weight = weights[name]
	}
	return p.WithMarket(p.market), nil
}

// WithRatio sets the broken line of RequestedToCapacityRatio: utilization in percent, ascending, to a score of 0 to MaxScore.
func (p *Profile) WithRatio(points []spec.RatioPoint) *Profile {
	p.ratio = points
	return p
}

// WithMarket has the profile go by the prices of another.
func (p *Profile) WithMarket(m *Market) *Profile {
	p.market = m
	m.pricesHosts = m.pricesHosts || p.local[hostScore] != 0 && p.local[worthScore] != 0
	return p
}

// Market has the prices of the score GPUWorth. The owner of the Profile reports arrivals to it, and calls Learn.
func (p *Profile) Market() *Market { return p.market }

// LocalScore is the weighted sum of the local scores.
func (p *Profile) LocalScore(s *cluster.State, slot cluster.Slot, c *cluster.Class) int64 {
	var sum int64
	for i, weight := range p.local {
		if weight != 0 && p.concerns(i, c) {
			sum += weight * p.scoreLocally(i, s, slot, c)
		}
	}
	return sum
}

// scoreLocally is one local score. Where GPUs have prices, the CPU beside them has a price too. The scores by cpu and memory are 0 there, because they
// would scatter pods over nodes of equal worth.
func (p *Profile) scoreLocally(score int, s *cluster.State, slot cluster.Slot, c *cluster.Class) int64 {
	if score < packingScore && p.PriceList() != 0 && s.HasGPUs(slot) {
		return 0
	}
	return LocalScores[score].Score(p, s, slot, c)
}

type RawValues [normalizedScores]int64

// Indices of some scores in NormalizedScores.
const (
	taintScore    = 0
	affinityScore = 1
	SpreadScore   = 2
	ImageScore    = 4
	storageScore  = 5
	deviceScore   = 6
)

// Indices of some scores in LocalScores.
const (
	leastScore    = 0
	mostScore     = 1
	pointsScore   = 2
	balancedScore = 3
	packingScore  = 4 // those before it look at cpu and memory
	numaScore     = 5
	headroomScore = 6
	worthScore    = 7
	loadScore     = 8
	hostScore     = 9
)

// concerns reports whether a local score tells nodes apart for a class. GPUWorth takes the place of GPUPacking as soon as it has prices.
func (p *Profile) concerns(score int, c *cluster.Class) bool {
	switch score {
	case packingScore:
		return p.PriceList() == 0
	case worthScore:
		return p.PriceList() != 0
	case numaScore:
		return !c.NUMANodes.IsZero()
	case headroomScore:
		return c.AsksReclaimed()
	case hostScore:
		return p.PricesHosts(c) && p.PriceList() != 0
	}
	return true
}

// PricesHosts reports whether pods of a class go by the prices of CPU and memory on nodes without GPUs.
func (p *Profile) PricesHosts(c *cluster.Class) bool {
	return p.local[hostScore] != 0 && c.GPU.IsZero()
}

// ranks reports whether a normalised score says anything about pods of a class.
func ranks(score int, c *cluster.Class) bool {
	switch score {
	case storageScore:
		return c.Volumes.Scores()
	case deviceScore:
		return c.Claims.HasAlternatives()
	}
	return true
}

// ReadsLoad reports whether scores depend on what nodes use.
func (p *Profile) ReadsLoad() bool { return p.local[loadScore] != 0 }

// StaticValues returns the raw values that follow from a node's own properties, images apart.
func (p *Profile) StaticValues(s *cluster.State, slot cluster.Slot, c *cluster.Class) (raw RawValues) {
	raw[taintScore] = RawTaints(nil, s, slot, c)
	raw[affinityScore] = RawAffinity(nil, s, slot, c)
	raw[storageScore] = RawStorage(nil, s, slot, c)
	return raw
}

// RawValues returns a node's raw values.
func (p *Profile) RawValues(f *FeasibleStats, s *cluster.State, slot cluster.Slot, c *cluster.Class) (raw RawValues) {
	for i := range NormalizedScores {
		if p.normalized[i] != 0 {
			raw[i] = NormalizedScores[i].Raw(f, s, slot, c)
		}
	}
	return raw
}

// ImagesAdd is what a raw value of images adds to the weighted sum of normalised scores.
func (p *Profile) ImagesAdd(raw int64) int64 { return p.normalized[ImageScore] * raw }

// NormalizedScore is the weighted sum of the normalised scores of a node with these raw values.
func (p *Profile) NormalizedScore(f *FeasibleStats, raw *RawValues) int64 {
	var sum int64
	for i, weight := range p.normalized {
		if weight != 0 {
			sum += weight * NormalizedScores[i].Normalize(raw[i], f.spans[i])
		}
	}
	return sum
}
