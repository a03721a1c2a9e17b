package packing

import (
	"fmt"
	"slices"

	"hilbert.dev/hilbert/schedule/fragment"
)

// roomLeast is how much a pod must ask for to be worth a move, in GPU thousandths.
const roomLeast = 100

// What can be moved is estimated anew after so many moves, and after so many changes of nodes.
const (
	surveyMoves   = 8
	surveyChanges = 256
)

// maxMovedGPUs keeps pods of several GPUs where they are, as in the published figures of FGD, BestFit and Hilbert with moves.
const maxMovedGPUs = 1

// removal is what moving pods needs to know.
type removal struct {
	mover    fragment.Mover
	pods     [][]fragment.Occupant // by node
	moves    int                   // pods moved so far
	surveyed bool
	since    int            // moves since the last survey
	cursor   int            // changes of nodes at the last survey
	hopeless map[int32]bool // kinds for which no plan was found since the last survey or plan
}

// makeRoom moves running pods so that a refused one fits, if moves are left. node is where there is room now.
func (r *run) makeRoom(kind int32) (node, gpu int, ok bool) {
	d := r.removal
	left := int(r.o.Defragment*float64(r.running)) - d.moves
	left = min(left, int(r.a.kinds[kind].GPU.Total()/roomLeast))
	if left <= 0 {
		return 0, 0, false
	}
	t := r.tenancy()
	if !d.surveyed || d.since >= surveyMoves || r.changes-d.cursor >= surveyChanges {
		d.mover.Survey(t)
		d.surveyed, d.since, d.cursor, d.hopeless = true, 0, r.changes, make(map[int32]bool)
	}
	if moves, ok := d.mover.Moves(kind); !ok || moves > left || d.hopeless[kind] {
		return 0, 0, false
	}
	room, ok := d.mover.Plan(t, kind, left, r.policy.score)
	if !ok {
		d.hopeless[kind] = true
		return 0, 0, false
	}
	clear(d.hopeless)
	for i := range room.Steps {
		r.move(&room.Steps[i])
	}
	return room.Node, room.GPU, true
}

func (r *run) tenancy() *fragment.Assignment {
	return &fragment.Assignment{Kinds: r.a.kinds, Nodes: r.nodes, Pods: r.removal.pods}
}

// move does one step of a plan.
func (r *run) move(s *fragment.Step) {
	d := r.removal
	request := &r.a.kinds[s.Pod.Kind]
	at := slices.Index(d.pods[s.From], s.Pod)
	if at < 0 || !r.nodes[s.To].Fits(request) {
		panic(fmt.Sprintf("packing: the step %+v of a plan cannot be done", *s))
	}
	d.pods[s.From] = slices.Delete(d.pods[s.From], at, at+1)
	r.release(s.From, s.Pod.Kind, s.Pod.Grant)
	r.place(s.To, s.Pod.Kind, s.GPU)
	d.moves++
	d.since++
}
