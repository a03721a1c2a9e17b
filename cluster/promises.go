package cluster

// Promises counts the pods on known nodes to which their Bindings promise what only an agent keeps, by what the node says of them. Whole GPUs count once
// the node has spoken of them.
type Promises struct {
	Waiting   int // the node has not said anything of the pod yet
	Confirmed int // it holds what was promised
	Moved     int // it holds something else
}

// Promises returns how the promises stand. It costs nothing: they are counted as they change.
func (s *Store) Promises() Promises { return s.promises }

// count counts a pod that is charged to a slot, sign times.
func (c *Promises) count(pod *Pod, sign int) {
	if !pod.promised() {
		return
	}
	switch {
	case pod.Moved():
		c.Moved += sign
	case pod.Confirmed():
		c.Confirmed += sign
	default:
		c.Waiting += sign
	}
}

// promised reports whether the pod's Binding promised it anything that its node has to answer.
func (p *Pod) promised() bool {
	if p.said != 0 {
		return p.recorded != nil
	}
	if p.held == nil { // the usual case; GPUs may be counters
		return false
	}
	g, _ := p.Promise()
	g.GPUs, g.Milli = 0, 0
	return !g.IsZero() || g.Memory > 0
}
