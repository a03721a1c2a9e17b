package packing

import (
	"math"

	"hilbert.dev/hilbert/schedule/fragment"
	"hilbert.dev/hilbert/topology"
)

// resident is a pod that runs.
type resident struct {
	kind  int32
	grant topology.Grant
}

// makeRoom moves one running pod to another node so that a refused one fits, if moves are left. The pod that moves is the smallest that will do,
// and goes where the policy would put it. node is where there is room now.
func (r *run) makeRoom(kind int32) (node int, ok bool) {
	request := &r.a.kinds[kind]
	if request.GPU.IsZero() || float64(r.moves+1) > r.o.Defragment*float64(r.running) {
		return 0, false
	}
	best, at, lowest := -1, -1, int64(math.MaxInt64)
	for i := range r.nodes {
		n := &r.nodes[i]
		if !request.Models.Allows(n.Shape.Model) || n.Shape.GPUs == 0 {
			continue
		}
		for k := range r.residents[i] {
			p := &r.residents[i][k]
			q := &r.a.kinds[p.kind]
			if q.GPU.Total() >= min(lowest, request.GPU.Total()) || !opens(n, q, p.grant, request) || !r.fitsElsewhere(p.kind, i) {
				continue
			}
			best, at, lowest = i, k, q.GPU.Total()
		}
	}
	if best < 0 {
		return 0, false
	}
	r.move(best, at)
	return best, true
}

// opens reports whether a request fits the node once another has gone.
func opens(n *fragment.Node, gone *fragment.Request, grant topology.Grant, request *fragment.Request) bool {
	if n.CPU+gone.CPU < request.CPU || n.Memory+gone.Memory < request.Memory {
		return false
	}
	without := *n
	without.Give(gone, grant)
	return without.Fits(request)
}

// fitsElsewhere reports whether there is another node for a pod of this kind.
func (r *run) fitsElsewhere(kind int32, not int) bool {
	ranking := r.rank(kind)
	score := ranking.score[not]
	ranking.set(not, math.Inf(1), 0)
	_, ok := ranking.best()
	ranking.set(not, score, ranking.gpu[not])
	return ok
}

// move takes a pod away from its node and places it on the best other.
func (r *run) move(from, at int) {
	p := r.residents[from][at]
	q := &r.a.kinds[p.kind]
	ranking := r.rank(p.kind)
	ranking.set(from, math.Inf(1), 0)
	to, ok := ranking.best()
	if !ok {
		panic("packing: the pod that was to move fits nowhere else")
	}
	gpu := int(ranking.gpu[to])
	last := len(r.residents[from]) - 1
	r.residents[from][at] = r.residents[from][last]
	r.residents[from] = r.residents[from][:last]
	r.nodes[from].Give(q, p.grant)
	r.touch(from)
	r.place(to, p.kind, gpu)
	r.running--
	r.moves++
}
