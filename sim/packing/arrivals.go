package packing

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/fragment"
	"hilbert.dev/hilbert/sim/trace"
	"hilbert.dev/hilbert/topology"
)

// streamNodes is the stream of the seed that the order of the nodes is drawn from; those that trace draws from have small numbers.
const streamNodes = 1001

// Arrivals are what a run plays: nodes, kinds of pods, and which kind comes when.
type Arrivals struct {
	nodes    []fragment.Node
	kinds    []fragment.Request
	pods     []int32       // kinds in order of arrival
	workload *fragment.Mix // the whole list that arrivals were drawn from, for policies that are given it
	capacity int64         // GPU thousandths
}

// NewArrivals makes the protocol's arrivals of a workload. Ties between nodes are broken by an order that the seed draws, as the published
// simulator does by naming them so.
func NewArrivals(w *trace.Workload, ratio float64, seed uint64) (*Arrivals, error) {
	arrived, err := trace.Arrive(w, ratio, seed)
	if err != nil {
		return nil, err
	}
	a, err := newArrivals(w, seed)
	if err != nil {
		return nil, err
	}
	kinds := newCatalog(a)
	if _, err := kinds.list(w.Tasks, a.workload); err != nil {
		return nil, err
	}
	a.pods, err = kinds.list(arrived.Tasks, nil)
	return a, err
}

// newArrivals takes the nodes, in an order that the seed draws.
func newArrivals(w *trace.Workload, seed uint64) (*Arrivals, error) {
	a := &Arrivals{workload: &fragment.Mix{}, capacity: w.Capacity().GPUMilli}
	for _, n := range w.Nodes {
		node, err := freeOf(n)
		if err != nil {
			return nil, err
		}
		a.nodes = append(a.nodes, node)
	}
	random := rand.New(rand.NewPCG(seed, streamNodes))
	random.Shuffle(len(a.nodes), func(i, j int) { a.nodes[i], a.nodes[j] = a.nodes[j], a.nodes[i] })
	return a, nil
}

// catalog numbers kinds of pods. Tasks that share their requirements are looked up once.
type catalog struct {
	a     *Arrivals
	known map[*facts.Requirements]int32
	index map[fragment.Request]int32
}

func newCatalog(a *Arrivals) *catalog {
	return &catalog{a: a, known: make(map[*facts.Requirements]int32), index: make(map[fragment.Request]int32)}
}

// list numbers the kinds of tasks, and counts them in mix if there is one.
func (c *catalog) list(tasks []trace.Task, mix *fragment.Mix) ([]int32, error) {
	list := make([]int32, len(tasks))
	for i := range tasks {
		k, err := c.kind(tasks[i].Requirements)
		if err != nil {
			return nil, fmt.Errorf("task %s: %w", tasks[i].Name, err)
		}
		if mix != nil {
			mix.Add(&c.a.kinds[k])
		}
		list[i] = k
	}
	return list, nil
}

func (c *catalog) kind(r *facts.Requirements) (int32, error) {
	if k, ok := c.known[r]; ok {
		return k, nil
	}
	request, err := requestOf(r)
	if err != nil {
		return 0, err
	}
	k, ok := c.index[request]
	if !ok {
		k = int32(len(c.a.kinds))
		c.index[request] = k
		c.a.kinds = append(c.a.kinds, request)
	}
	c.known[r] = k
	return k, nil
}

func freeOf(n *facts.Node) (fragment.Node, error) {
	f := fragment.Node{Shape: n.GPU, Free: topology.NewFree(n.GPU)}
	for _, q := range n.Allocatable {
		switch q.Name {
		case resource.NameCPU:
			f.CPU = q.Amount
		case resource.NameMemory:
			f.Memory = q.Amount
		case resource.NamePods:
		default:
			return f, fmt.Errorf("node %s has %s, which the experiment does not know", n.Name, q.Name)
		}
	}
	return f, nil
}

// requestOf takes what the experiment knows of a pod's requirements: resources and the models of GPUs.
func requestOf(r *facts.Requirements) (fragment.Request, error) {
	request := fragment.Request{GPU: r.GPU}
	for _, q := range r.Requests {
		switch q.Name {
		case resource.NameCPU:
			request.CPU = q.Amount
		case resource.NameMemory:
			request.Memory = q.Amount
		default:
			return request, fmt.Errorf("it asks for %s, which the experiment does not know", q.Name)
		}
	}
	for _, t := range r.Required {
		for _, e := range t.Expressions {
			if len(r.Required) > 1 || len(t.Expressions) > 1 || e.Key != spec.LabelGPUModel || e.Operator != facts.In {
				return request, errors.New("its affinity to nodes is more than a list of GPU models")
			}
			request.Models = fragment.NewModels(e.Values...)
		}
	}
	return request, nil
}
