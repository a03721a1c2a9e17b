package rules

import "hilbert.dev/hilbert/cluster"

// Judgement is what the tables say about one node for a class: the filter that refuses it, or its scores. It is the definition that the
// indexes are tested against, and what "hilbert explain" shows of a node.
type Judgement struct {
	Slot cluster.Slot
	// Refusal is the first filter that refuses the node; empty when it is feasible.
	Refusal string
	// Scores of a feasible node, in the order of the tables, and their weighted sum.
	Scores []NamedScore
	Total  int64
}

// NamedScore is one score, normalised to 0 to MaxScore.
type NamedScore struct {
	Name   string
	Plugin string // upstream's name for it; empty: Hilbert's own
	Score  int64
	Weight int64
}

// Judge asks every filter and every score about every node, without an index. It costs time proportional to the nodes. With has it is as if
// the cluster had only some of its nodes; nil: it has all.
func (p *Profile) Judge(s *cluster.State, c *cluster.Class, has func(cluster.Slot) bool) []Judgement {
	var judgements []Judgement
	var f FeasibleStats
	f.Reset(c)
	for i := range s.Slots() {
		slot := cluster.Slot(i)
		if s.Node(slot) == nil || has != nil && !has(slot) {
			continue
		}
		j := Judgement{Slot: slot}
		if refused := FirstRefusal(s, slot, c); refused >= 0 {
			j.Refusal = Filters[refused].Name
		} else {
			f.AddNodes(s, slot, c, 1)
		}
		judgements = append(judgements, j)
	}
	f.SetWeights(c)
	raws := make([]RawValues, len(judgements))
	for i := range judgements {
		if judgements[i].Refusal == "" {
			raws[i] = p.RawValues(&f, s, judgements[i].Slot, c)
			f.AddRaw(&raws[i])
		}
	}
	for i := range judgements {
		if judgements[i].Refusal == "" {
			p.score(s, &judgements[i], &f, &raws[i], c)
		}
	}
	return judgements
}

// score fills in the scores of a feasible node.
func (p *Profile) score(s *cluster.State, j *Judgement, f *FeasibleStats, raw *RawValues, c *cluster.Class) {
	add := func(name, plugin string, weight, score int64) {
		if weight != 0 {
			j.Scores = append(j.Scores, NamedScore{name, plugin, score, weight})
			j.Total += weight * score
		}
	}
	for i := range LocalScores {
		local := &LocalScores[i]
		if !p.concerns(i, c) {
			continue // it says nothing about the pod
		}
		add(local.Name, local.Plugin, p.local[i], p.scoreLocally(i, s, j.Slot, c))
	}
	for i := range NormalizedScores {
		n := &NormalizedScores[i]
		if p.normalized[i] != 0 && ranks(i, c) {
			add(n.Name, n.Plugin, p.normalized[i], n.Normalize(raw[i], f.spans[i]))
		}
	}
}
