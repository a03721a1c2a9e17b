package rules

import (
	"math"
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/census"
	"hilbert.dev/hilbert/cluster/facts"
)

// FeasibleStats is what normalised scores need to know of the feasible nodes as a whole: the smallest and the greatest raw value of each
// score, and how many domains the nodes are in. Two rounds over the nodes fill it, or over groups of nodes that are in the same domains:
// AddNodes of each, then SetWeights, then AddRaw of each.
type FeasibleStats struct {
	spans [normalizedScores]span
	// Of each soft spread constraint: the domains that a feasible node is in, and the weight that follows from their number.
	domains [][]census.DomainID
	weights []float64
	nodes   int // feasible and not ignored by the spread score
}

func (f *FeasibleStats) Reset(c *cluster.Class) {
	for i := range f.spans {
		f.spans[i] = span{math.MaxInt64, math.MinInt64}
	}
	f.nodes = 0
	f.weights = f.weights[:0]
	if c.Constraints == nil {
		return
	}
	for len(f.domains) < len(c.Constraints.Soft) {
		f.domains = append(f.domains, nil)
	}
	for i := range f.domains {
		f.domains[i] = f.domains[i][:0]
	}
}

// AddNodes takes in n feasible nodes that are in the same domains as the one in the slot.
func (f *FeasibleStats) AddNodes(s *cluster.State, slot cluster.Slot, c *cluster.Class, n int) {
	if !c.Constraints.SpreadsSoftly() || !spreads(s, slot, c.Constraints) {
		return
	}
	f.nodes += n
	for i := range c.Constraints.Soft {
		soft := &c.Constraints.Soft[i]
		if soft.Census == census.None {
			continue
		}
		domain := s.Counts().Census(soft.Census).Domain(slot)
		if at, found := slices.BinarySearch(f.domains[i], domain); !found {
			f.domains[i] = slices.Insert(f.domains[i], at, domain)
		}
	}
}

// spreads reports whether the spread score looks at the node: it must have the keys of all of the pod's own soft constraints.
func spreads(s *cluster.State, slot cluster.Slot, c *census.Constraints) bool {
	for i := range c.Soft {
		if soft := &c.Soft[i]; !soft.Default && s.Counts().Domain(soft.Key, slot) == census.NoDomain {
			return false
		}
	}
	return true
}

// SetWeights ends the first round.
func (f *FeasibleStats) SetWeights(c *cluster.Class) {
	if c.Constraints == nil {
		return
	}
	for i := range c.Constraints.Soft {
		size := len(f.domains[i])
		if c.Constraints.Soft[i].Census == census.None {
			size = f.nodes
		}
		f.weights = append(f.weights, math.Log(float64(size+2)))
	}
}

// AddRaw takes in the raw values of a feasible node.
func (f *FeasibleStats) AddRaw(raw *RawValues) {
	for i, value := range raw {
		if value != ignored {
			f.spans[i].least = min(f.spans[i].least, value)
			f.spans[i].greatest = max(f.spans[i].greatest, value)
		}
	}
}

// normalizeByGreatest makes the greatest raw value MaxScore.
func normalizeByGreatest(raw int64, r span) int64 {
	if r.greatest == 0 {
		return 0
	}
	return MaxScore * raw / r.greatest
}

// normalizeReverse makes raw 0 MaxScore, and the greatest 0.
func normalizeReverse(raw int64, r span) int64 { return MaxScore - normalizeByGreatest(raw, r) }

// normalizeRange stretches the range of raw values over 0 to MaxScore.
func normalizeRange(raw int64, r span) int64 {
	if r.greatest == r.least {
		return 0
	}
	share := float64(raw-r.least) / float64(r.greatest-r.least)
	return int64(float64(MaxScore) * share)
}

// normalizeSpread makes the least pods the best.
func normalizeSpread(raw int64, r span) int64 {
	switch {
	case raw == ignored:
		return 0
	case r.greatest <= 0:
		return MaxScore
	}
	return MaxScore * (r.greatest + r.least - raw) / r.greatest
}

// normalizeNot leaves a raw value that is a score already as it is.
func normalizeNot(raw int64, _ span) int64 { return raw }

// RawTaints counts the PreferNoSchedule taints that the class does not tolerate.
func RawTaints(_ *FeasibleStats, s *cluster.State, slot cluster.Slot, c *cluster.Class) int64 {
	var count int64
	taints := s.Node(slot).Taints
	for i := range taints {
		if taints[i].Effect == facts.PreferNoSchedule && !facts.Tolerated(c.Tolerations, &taints[i]) {
			count++
		}
	}
	return count
}

// RawAffinity is the sum of the weights of the preferred terms that match.
func RawAffinity(_ *FeasibleStats, s *cluster.State, slot cluster.Slot, c *cluster.Class) int64 {
	var sum int64
	for i := range c.Preferred {
		if c.Preferred[i].Term.Matches(s.Node(slot)) {
			sum += int64(c.Preferred[i].Weight)
		}
	}
	return sum
}

// RawStorage is the share of the node's storage that stays free with the volumes that the pod's claims would be bound to, or that would be provisioned for
// them, in percent. (Upstream's VolumeBinding, scoring.)
func RawStorage(_ *FeasibleStats, s *cluster.State, slot cluster.Slot, c *cluster.Class) int64 {
	return c.Volumes.StorageScore(s.Node(slot))
}

// RawSpread sums, over the soft constraints, the counted pods in the node's domain, weighed by how many domains there are. (Upstream's
// PodTopologySpread, scoring.)
func RawSpread(f *FeasibleStats, s *cluster.State, slot cluster.Slot, c *cluster.Class) int64 {
	if !c.Constraints.SpreadsSoftly() {
		return 0
	}
	if !spreads(s, slot, c.Constraints) {
		return ignored
	}
	var sum float64
	for i := range c.Constraints.Soft {
		soft := &c.Constraints.Soft[i]
		count, ok := SoftCount(s, slot, soft)
		if !ok {
			continue
		}
		weighed := float64(count) * f.weights[i] // the conversions keep it from fusing with the sums
		sum += float64(weighed + float64(soft.MaxSkew-1))
	}
	return int64(math.Round(sum))
}

// SoftCount is how many counted pods there are in the node's domain; ok is false when it does not have the key.
func SoftCount(s *cluster.State, slot cluster.Slot, soft *census.Spread) (count int32, ok bool) {
	domain := s.Counts().Domain(soft.Key, slot)
	switch {
	case domain == census.NoDomain:
		return 0, false
	case soft.Census == census.None:
		return s.Counts().Tally(slot, soft.Tally), true
	}
	return int32(s.Counts().Census(soft.Census).Count(domain)), true
}

// rawPodAffinity sums the weights of all preferences between the pod and those in the node's domains. (Upstream's InterPodAffinity,
// scoring.)
func rawPodAffinity(_ *FeasibleStats, s *cluster.State, slot cluster.Slot, c *cluster.Class) int64 {
	if c.Constraints == nil {
		return 0
	}
	var sum int64
	for i := range c.Constraints.Preferred {
		counts := s.Counts().Census(c.Constraints.Preferred[i].Census)
		sum += c.Constraints.Preferred[i].Weight * int64(counts.Count(counts.Domain(slot)))
	}
	return sum
}

// rawDevices prefers nodes on which claims are given earlier entries of their prioritized lists. (Upstream's DynamicResources, scoring.)
func rawDevices(_ *FeasibleStats, s *cluster.State, slot cluster.Slot, c *cluster.Class) int64 {
	if !c.Claims.HasAlternatives() {
		return 0
	}
	return s.DeviceView(slot).Worth(s.ClaimNeeds(slot, c))
}

// The bounds between which the size of images counts, in bytes; the upper one for each container.
const (
	MinImageBytes = int64(23) << 20
	maxImage      = int64(1000) << 20
)

// rawImages scores the size of the pod's images that the node has, each weighed by the share of nodes that have it, so that an image
// does not draw all its pods to one node. (Upstream's ImageLocality.)
func rawImages(_ *FeasibleStats, s *cluster.State, slot cluster.Slot, c *cluster.Class) int64 {
	if len(c.Images) == 0 {
		return 0
	}
	var sum int64
	for _, name := range c.Images {
		if size, ok := ImageSize(s.Node(slot), name); ok {
			nodes, _ := s.Images().With(name)
			share := float64(nodes) / float64(s.Images().Nodes())
			sum += int64(float64(size) * share)
		}
	}
	return ImagesScore(sum, len(c.Images))
}

// ImagesScore is the score of a node that has so many bytes of a pod's images, each weighed by the share of nodes that have it.
func ImagesScore(sum int64, images int) int64 {
	most := maxImage * int64(images)
	sum = min(max(sum, MinImageBytes), most)
	return MaxScore * (sum - MinImageBytes) / (most - MinImageBytes)
}

func ImageSize(n *facts.Node, name string) (bytes int64, ok bool) {
	at, found := slices.BinarySearchFunc(n.Images, name, func(i facts.Image, name string) int {
		switch {
		case i.Name < name:
			return -1
		case i.Name > name:
			return 1
		}
		return 0
	})
	if !found {
		return 0, false
	}
	return n.Images[at].Size, true
}
