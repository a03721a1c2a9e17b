package fragment

// BestNode returns the node where a kind of pod is placed best, and the loss there (see Score). ok is false if it fits nowhere.
type BestNode func(kind int32) (node, gpu int, loss float64, ok bool)

// Gain is how much more a node would be worth if it were like after.
type Gain func(node int, after *Node) float64

// BestMove finds the move of one pod with a part of a GPU that wins the most worth: what its node gains less what the best other node loses. ok is
// false if no move wins more than least. Losses and gains must have the same unit.
//
// Such moves are made before the cluster is full. A pod's neighbours are chosen when it arrives, and a better place may come up later: two nodes
// that are left with half a GPU each after other pods have ended hold one more whole GPU after one move.
func BestMove(t *Assignment, least float64, best BestNode, gain Gain) (step Step, won float64, ok bool) {
	type place struct {
		node, gpu int
		loss      float64
		ok, known bool
	}
	places := make([]place, len(t.Kinds))
	won = least
	for at := range t.Nodes {
		for _, p := range t.Pods[at] {
			q, to := &t.Kinds[p.Kind], &places[p.Kind]
			if q.GPU.Milli == 0 {
				continue
			}
			if !to.known {
				to.node, to.gpu, to.loss, to.ok = best(p.Kind)
				to.known = true
			}
			if !to.ok || to.node == at {
				continue
			}
			after := t.Nodes[at]
			after.Give(q, p.Grant)
			if g := gain(at, &after) - to.loss; g > won {
				step, won, ok = Step{Pod: p, From: at, To: to.node, GPU: to.gpu}, g, true
			}
		}
	}
	return step, won, ok
}
