package fragment

// Best says where a kind of pod is best put, and the loss there, as Score has it. ok is false where it fits nowhere.
type Best func(kind int32) (node, gpu int, loss float64, ok bool)

// Gain says what a node would be worth more if it were as after is.
type Gain func(node int, after *Node) float64

// Improve finds the one move of a pod with a part of a GPU that wins the most worth: what its node gains less what the best other node loses. ok is
// false where no move wins more than least. Losses and gains must be of the same unit.
//
// Such moves are made before the cluster is full: what lies beside what is chosen when a pod comes, and what came later may suit better.
func Improve(t *Tenancy, least float64, best Best, gain Gain) (step Step, won float64, ok bool) {
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
