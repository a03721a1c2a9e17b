package packing

import (
	"fmt"
	"math"
	"time"

	"hilbert.dev/hilbert/schedule/fragment"
)

// How pods are moved while others come and go.
const (
	// moveAge is how long a pod has run before it is moved. Most pods end within minutes, and the longer one has run, the longer it will.
	moveAge = int64(2 * time.Hour)
	// moveAgain is how long a pod stays where it was moved to.
	moveAgain = int64(24 * time.Hour)
	// roomPart is the part of the moves that is kept for pods that find no room, as far as they need it.
	roomPart = 0.25
	// saved is how many days' moves are kept for later.
	saved = 0.25
	// waits is how long a pod that found no room counts as one that waits. Here it goes away; in a cluster it would wait until somebody ends.
	waits = int64(24 * time.Hour)
	// lookEvery is the least time between two looks for pods that would be better elsewhere.
	lookEvery = int64(10 * time.Minute)
)

// moves is the moves of a run: how many are left, and for what.
type moves struct {
	c        *churn
	better   float64 // left for pods that would be better elsewhere
	room     float64 // left for pods that find no room
	looked   int64
	refused  int64 // when a pod with GPUs found no room last
	mover    fragment.Mover
	surveyed int // changes of nodes when the Mover looked last
	hopeless map[int32]bool
}

func newMoves(c *churn) *moves {
	return &moves{c: c, surveyed: math.MinInt, refused: math.MinInt64, mover: fragment.Mover{MaxGPUs: maxMovedGPUs}}
}

// earn adds what may be moved for time that has passed. What is not used is kept up to saved days of it, so that no day has many more.
func (m *moves) earn(passed int64) {
	if m.c.o.Moves == 0 {
		return
	}
	day := m.c.o.Moves * float64(m.c.running)
	earned := day * float64(passed) / float64(24*time.Hour)
	m.room += roomPart * earned
	m.better += (1 - roomPart) * earned
	if over := m.room - roomPart*saved*day; over > 0 {
		m.room -= over
		m.better += over
	}
	m.better = min(m.better, saved*day)
}

// movable is the pods that may be moved now.
func (m *moves) movable() *fragment.Assignment {
	c := m.c
	t := &fragment.Assignment{Kinds: c.a.kinds, Nodes: c.nodes, Pods: make([][]fragment.Occupant, len(c.nodes))}
	for i, list := range c.onNode {
		for _, p := range list {
			if m.may(p) {
				t.Pods[i] = append(t.Pods[i], fragment.Occupant{Kind: p.kind, Grant: p.grant})
			}
		}
	}
	return t
}

func (m *moves) may(p *tenant) bool {
	return m.c.now-p.began >= moveAge && (p.moved == p.began || m.c.now-p.moved >= moveAgain)
}

// answered takes in whether a pod that came found a place.
func (m *moves) answered(kind int32, placed bool) {
	if !placed && !m.c.a.kinds[kind].GPU.IsZero() {
		m.refused = m.c.now
	}
}

// improve moves pods that would be better elsewhere, unless pods with GPUs wait, as control/reschedule does. What such a move frees is soon taken by
// the pods that are most frequent, those of one GPU or less, and pods of several find fewer empty nodes. Then only moves pay that let a pod in.
func (m *moves) improve() {
	c := m.c
	v, ok := c.policy.(valuer)
	if waiting := m.refused >= c.now-waits; !ok || waiting || m.better < 1 || c.now-m.looked < lookEvery {
		return
	}
	m.looked = c.now
	best := func(kind int32) (int, int, float64, bool) {
		p, ok := c.best(kind)
		return p.node, p.gpu, p.score, ok
	}
	for range improveMoves {
		if m.better < 1 {
			return
		}
		step, _, ok := fragment.BestMove(m.movable(), improveLeast*v.unit(), best, v.gain)
		if !ok {
			return
		}
		m.move(&step)
		m.better--
	}
}

// makeRoom moves pods so that one that finds no room fits. node is where there is room now.
func (m *moves) makeRoom(kind int32) (node, gpu int, ok bool) {
	c := m.c
	left := min(int(m.room), int(c.a.kinds[kind].GPU.Total()/roomLeast))
	if left < 1 {
		return 0, 0, false
	}
	t := m.movable()
	if c.changes-m.surveyed >= surveyChanges || m.hopeless == nil {
		m.mover.Survey(t)
		m.surveyed, m.hopeless = c.changes, make(map[int32]bool)
	}
	if n, ok := m.mover.Moves(kind); !ok || n > left || m.hopeless[kind] {
		return 0, 0, false
	}
	room, ok := m.mover.Plan(t, kind, left, c.policy.score)
	if !ok {
		m.hopeless[kind] = true
		return 0, 0, false
	}
	for i := range room.Steps {
		m.move(&room.Steps[i])
	}
	m.room -= float64(len(room.Steps))
	return room.Node, room.GPU, true
}

// move does one step of a plan, with the pod that has run longest of those that are alike.
func (m *moves) move(s *fragment.Step) {
	c := m.c
	var oldest *tenant
	for _, p := range c.onNode[s.From] {
		if p.kind == s.Pod.Kind && p.grant == s.Pod.Grant && m.may(p) && (oldest == nil || p.began < oldest.began) {
			oldest = p
		}
	}
	if oldest == nil || !c.nodes[s.To].Fits(&c.a.kinds[s.Pod.Kind]) {
		panic(fmt.Sprintf("packing: the step %+v of a plan cannot be done", *s))
	}
	c.unsettle(oldest)
	c.release(oldest.node, oldest.kind, oldest.grant)
	oldest.node, oldest.moved = s.To, c.now
	oldest.grant = c.place(s.To, s.Pod.Kind, s.GPU)
	c.settle(oldest)
	c.out.Moves++
	if c.measured() {
		c.out.moved++
		c.out.interrupted += float64(c.steady.binding.amount(&c.a.kinds[oldest.kind])) * seconds(c.now-oldest.began)
	}
}
