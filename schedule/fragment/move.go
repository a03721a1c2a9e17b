package fragment

import (
	"cmp"
	"slices"

	"hilbert.dev/hilbert/topology"
)

// Bounds on a search for room.
const (
	// MaxMoves is the most pods that are moved for one pod.
	MaxMoves = 12
	// MaxTries is how many nodes are tried for a pod, the most promising first.
	MaxTries = 4
	// MaxScans is how often all nodes are looked at for one plan.
	MaxScans = 48
	// MaxNested is how many pods may wait for one another: the first moves when the second has, and so on.
	MaxNested = 4
	// MaxPods is how many pods of a node may be moved; those behind them stay.
	MaxPods = 64
	// MaxOnGPU is how many pods of one GPU are tried in all combinations.
	MaxOnGPU = 6
)

// impossible is the number of moves where there is no way.
const impossible = MaxMoves + 1

// Occupant is a pod that runs.
type Occupant struct {
	Kind  int32 // in Tenancy.Kinds
	Grant topology.Grant
}

// Assignment is which pods run where.
type Assignment struct {
	Kinds []Request
	Nodes []Node       // what is free
	Pods  [][]Occupant // by node
}

// Step moves one pod from a node to another. Pods of a node that are of one kind and hold the same are interchangeable.
type Step struct {
	Pod      Occupant
	From, To int
	GPU      int // on To, where a part of one is asked for
}

// MovePlan makes room for a pod that fits nowhere. Each step fits when those before it were done, and after the last the pod fits on Node.
type MovePlan struct {
	Steps     []Step
	Node, GPU int
}

// Score says how bad a node is for a kind of pod, lower is better; Prices.Score is one. ok is false where it does not fit.
type Score func(node int, kind int32) (loss float64, gpu int, ok bool)

// Within says which nodes a plan may use; nil: any.
type Within struct {
	// Hosts are the nodes that room may be made on. Where they are not all, pods of any size leave them: one as large as whoever comes may have a place elsewhere.
	Hosts func(node int) bool
	// Into are the nodes that pods may be moved to.
	Into func(node int) bool
}

// Mover makes room by moving pods, several if need be: a pod that is to leave a node goes where it fits, or where it fits once smaller ones have
// left, which go in the same way. That is an ejection chain (Glover 1996) that may branch. The zero value is ready for Survey.
type Mover struct {
	// MaxGPUs keeps pods of more GPUs where they are; 0: they are moved too.
	MaxGPUs int
	moves   []int8 // by kind: how many pods have to move so that one more of them is elsewhere, itself included
}

// Survey estimates for every kind how many moves it takes to put one of its pods elsewhere. Only pods that are smaller make room for a pod, so one
// pass from the smallest kind up is enough. The estimate looks at every pod alone: two may want the same room.
func (m *Mover) Survey(t *Assignment) { m.SurveyInto(t, nil) }

// SurveyInto is Survey where pods may go to some nodes only; nil: any.
func (m *Mover) SurveyInto(t *Assignment, into func(node int) bool) {
	order := make([]int32, len(t.Kinds))
	for k := range order {
		order[k] = int32(k)
	}
	slices.SortFunc(order, func(a, b int32) int {
		p, q := &t.Kinds[a], &t.Kinds[b]
		return cmp.Or(cmp.Compare(p.GPU.Total(), q.GPU.Total()), cmp.Compare(p.CPU, q.CPU), p.compare(q))
	})
	m.moves = make([]int8, len(t.Kinds))
	for k := range m.moves {
		m.moves[k] = impossible
	}
	for _, k := range order {
		best := impossible - 1
		for at := 0; at < len(t.Nodes) && best > 0; at++ {
			if into != nil && !into(at) {
				continue
			}
			if c, ok := m.fewestDepartures(t, at, k, best-1, false); ok {
				best = c.moves
			}
		}
		m.moves[k] = int8(best + 1)
	}
}

// Moves is what the last Survey says of a kind: how many pods have to move so that one more pod of this kind is placed. ok is false where there is no way.
func (m *Mover) Moves(kind int32) (moves int, ok bool) {
	return int(m.moves[kind]) - 1, m.moves[kind] < impossible
}

// Plan finds room for a pod by at most this many moves, and prefers fewer. It changes nothing. Every node is part of a plan at most once, so
// that what was judged for one step still holds when others were done.
func (m *Mover) Plan(t *Assignment, kind int32, most int, score Score) (MovePlan, bool) {
	return m.PlanWithin(t, kind, most, score, Within{})
}

// PlanWithin is Plan on some of the nodes. The last survey was of the same nodes that pods may be moved to.
func (m *Mover) PlanWithin(t *Assignment, kind int32, most int, score Score, w Within) (MovePlan, bool) {
	s := search{m: m, t: t, score: score, within: w}
	node, gpu, ok := s.makeRoom(kind, min(most, MaxMoves), MaxNested)
	return MovePlan{Steps: s.steps, Node: node, GPU: gpu}, ok
}

// Fewest estimates, as the last survey says, how many pods have to move so that a node holds one more of a kind; ok is false where more than limit would have to. Pods of any size
// may leave.
func (m *Mover) Fewest(t *Assignment, node int, kind int32, limit int) (moves int, ok bool) {
	c, ok := m.fewestDepartures(t, node, kind, min(limit, MaxMoves), true)
	return c.moves, ok
}

// search is a plan in the making.
type search struct {
	m      *Mover
	t      *Assignment
	score  Score
	within Within
	steps  []Step
	used   []int // nodes that are part of it
	scans  int   // how often all nodes were looked at
}

// makeRoom moves pods off a node so that one of this kind fits, by at most this many moves.
func (s *search) makeRoom(kind int32, most, nested int) (node, gpu int, ok bool) {
	if nested == 0 || s.scans >= MaxScans {
		return 0, 0, false
	}
	for _, c := range s.promising(kind, most, nested == MaxNested) {
		steps, used := len(s.steps), len(s.used)
		s.used = append(s.used, c.node)
		if s.empty(&c, most, nested) {
			return c.node, c.gpu, true
		}
		s.steps, s.used = s.steps[:steps], s.used[:used]
	}
	return 0, 0, false
}

// promising lists the nodes that seem to need the fewest moves. last: for the pod that room is made for, and not for one that is moved.
func (s *search) promising(kind int32, most int, last bool) []departures {
	s.scans++
	var list []departures
	open := s.within.Into
	if last {
		open = s.within.Hosts
	}
	for at := range s.t.Nodes {
		if open != nil && !open(at) || slices.Contains(s.used, at) {
			continue
		}
		limit := most
		if len(list) == MaxTries {
			limit = min(limit, list[MaxTries-1].moves)
		}
		c, ok := s.m.fewestDepartures(s.t, at, kind, limit, last && open != nil)
		if !ok {
			continue
		}
		i, _ := slices.BinarySearchFunc(list, c, departures.compare)
		if list = slices.Insert(list, i, c); len(list) > MaxTries {
			list = list[:MaxTries]
		}
	}
	return list
}

// empty moves the pods that have to leave.
func (s *search) empty(c *departures, most, nested int) bool {
	began := len(s.steps)
	for i, p := range s.t.Pods[c.node] {
		if i >= MaxPods || c.leave>>i&1 == 0 {
			continue
		}
		left := most - (len(s.steps) - began) - 1
		if left < 0 {
			return false
		}
		to, gpu, ok := s.best(p.Kind)
		if ok {
			s.used = append(s.used, to)
		} else if to, gpu, ok = s.makeRoom(p.Kind, left, nested-1); !ok {
			return false
		}
		s.steps = append(s.steps, Step{Pod: p, From: c.node, To: to, GPU: gpu})
	}
	return true
}

// best is the best of the other nodes.
func (s *search) best(kind int32) (node, gpu int, ok bool) {
	s.scans++
	lowest := 0.0
	for at := range s.t.Nodes {
		if s.within.Into != nil && !s.within.Into(at) || slices.Contains(s.used, at) {
			continue
		}
		if loss, g, fits := s.score(at, kind); fits && (!ok || loss < lowest) {
			node, gpu, lowest, ok = at, g, loss, true
		}
	}
	return node, gpu, ok
}
