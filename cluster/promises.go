package cluster

// Promises counts the pods on known nodes to which their Bindings promise zones, by what the node says of them.
type Promises struct {
	Waiting   int // the node has not said anything of the pod yet
	Confirmed int // it holds what was promised
	Moved     int // it holds something else
}

// Promises returns how the promises stand. It costs nothing: they are counted as they change.
func (s *Store) Promises() Promises { return s.promises }

// count counts a pod that is charged to a slot, sign times.
func (c *Promises) count(pod *Pod, sign int) {
	switch {
	case pod.Promise() == nil: // nobody promised it anything
	case pod.Moved():
		c.Moved += sign
	case pod.Confirmed():
		c.Confirmed += sign
	default:
		c.Waiting += sign
	}
}
