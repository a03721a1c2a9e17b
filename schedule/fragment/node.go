package fragment

import (
	"slices"
	"strings"

	"hilbert.dev/hilbert/topology"
)

// Node is what is free on a node.
type Node struct {
	CPU    int64 // millicores
	Memory int64 // bytes
	Shape  topology.Shape
	Free   topology.Free // thousandths of each GPU
}

// Models is the set of GPU models that a request allows; the zero value allows any. It is comparable.
type Models struct {
	list string // sorted, each between separators
}

const separator = "|"

// NewModels makes a set. No names at all mean any model.
func NewModels(names ...string) Models {
	if len(names) == 0 {
		return Models{}
	}
	sorted := slices.Clone(names)
	slices.Sort(sorted)
	return Models{separator + strings.Join(slices.Compact(sorted), separator) + separator}
}

// Allows reports whether the model is in the set.
func (m Models) Allows(model string) bool {
	if m.list == "" {
		return true
	}
	for rest := m.list[len(separator):]; rest != ""; {
		var name string
		if name, rest, _ = strings.Cut(rest, separator); name == model {
			return true
		}
	}
	return false
}

// String lists the models, or says "any".
func (m Models) String() string {
	if m.list == "" {
		return "any"
	}
	return strings.Trim(m.list, separator)
}

// Request is what a pod asks for.
type Request struct {
	CPU    int64 // millicores
	Memory int64 // bytes
	GPU    topology.Request
	Models Models
}

// compare orders requests, so that what is computed from a set of them does not depend on the order of a map.
func (r *Request) compare(o *Request) int {
	switch {
	case r.CPU != o.CPU:
		return sign(r.CPU - o.CPU)
	case r.GPU.Milli != o.GPU.Milli:
		return sign(int64(r.GPU.Milli) - int64(o.GPU.Milli))
	case r.GPU.Whole != o.GPU.Whole:
		return sign(int64(r.GPU.Whole) - int64(o.GPU.Whole))
	case r.Models != o.Models:
		return strings.Compare(r.Models.list, o.Models.list)
	}
	return sign(r.Memory - o.Memory)
}

func sign(x int64) int {
	switch {
	case x < 0:
		return -1
	case x > 0:
		return 1
	}
	return 0
}

// Fits reports whether the request fits the node.
func (n *Node) Fits(r *Request) bool {
	if n.CPU < r.CPU || n.Memory < r.Memory {
		return false
	}
	return r.GPU.IsZero() || n.holds(r.GPU) && r.Models.Allows(n.Shape.Model)
}

// holds reports whether the GPUs have room, whatever the model and the CPU.
func (n *Node) holds(r topology.Request) bool {
	need, each := int(r.Whole), int32(topology.FullGPU)
	if r.Milli > 0 {
		if !n.Shape.Shareable {
			return false
		}
		need, each = 1, int32(r.Milli)
	}
	for i := 0; i < n.Shape.GPUs && need > 0; i++ {
		if n.Free[i] >= each {
			need--
		}
	}
	return need == 0
}

// Take places the request: its fraction on the GPU with this index, its whole GPUs on the lowest indices. The request must fit.
func (n *Node) Take(r *Request, gpu int) topology.Grant {
	n.CPU -= r.CPU
	n.Memory -= r.Memory
	g := topology.Grant{}
	if r.GPU.Milli > 0 {
		g = topology.Grant{GPUs: 1 << gpu, Milli: r.GPU.Milli}
	} else if r.GPU.Whole > 0 {
		g, _ = topology.OfferGPUs(n.Shape, &n.Free, r.GPU)
	}
	n.Free.Commit(g)
	return g
}

// Give undoes Take.
func (n *Node) Give(r *Request, g topology.Grant) {
	n.CPU += r.CPU
	n.Memory += r.Memory
	n.Free.Release(g)
}

// first reports whether GPU i is the first of its node with this much free: others like it need no look of their own.
func (n *Node) first(i int) bool {
	for h := range i {
		if n.Free[h] == n.Free[i] {
			return false
		}
	}
	return true
}
