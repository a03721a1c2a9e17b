package trace

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
)

// Labels of the nodes of a varied workload. labelInstance is another on each node.
const (
	labelInstance = "hilbert.dev/instance"
	labelVariety  = "variety.hilbert.dev/"
)

// varied is one of the requirements that the pods of a class have, once these differ.
type varied struct {
	from                   *facts.Requirements
	size, selector, images int
}

// vary makes the pods of each class differ: by size, by the label that they select, by the images of their containers; and adds the pods of
// DaemonSets, and odd pods.
func (s Synthetic) vary(w *Workload, random *rand.Rand) {
	images := s.label(w, random)
	twins := make(map[varied]*facts.Requirements)
	for i := range w.Tasks {
		t := &w.Tasks[i]
		key := varied{from: t.Requirements, size: draw(random, s.Sizes), images: draw(random, s.Images)}
		if s.Selectors > 0 && random.IntN(2) == 0 {
			key.selector = draw(random, s.Selectors)
		}
		if twins[key] == nil {
			twins[key] = key.requirements(images)
		}
		t.Requirements = twins[key]
	}
	s.addDaemons(w)
	s.addOddPods(w, random)
	w.sort()
}

// span is the time over which pods arrive, in nanoseconds.
func (s Synthetic) span() int64 { return int64(s.Minutes) * int64(time.Minute) }

// draw returns a number from 1 to count; 0 if count is 0.
func draw(random *rand.Rand, count int) int {
	if count == 0 {
		return 0
	}
	return 1 + random.IntN(count)
}

// label gives nodes what varied pods look at: three of four nodes have each label that pods select, one in twenty has each image. It returns the images.
func (s Synthetic) label(w *Workload, random *rand.Rand) []facts.Image {
	images := make([]facts.Image, s.Images)
	for i := range images {
		images[i] = facts.Image{Name: fmt.Sprintf("registry.example/app-%d:v1", i+1), Size: (100 + random.Int64N(900)) << 20}
	}
	for _, n := range w.Nodes {
		n.Labels = maps.Clone(n.Labels)
		n.Labels[labelInstance] = n.Name
		n.Labels[facts.HostnameKey] = n.Name
		for i := range s.Selectors {
			if random.IntN(4) > 0 {
				n.Labels[fmt.Sprint(labelVariety, i+1)] = "yes"
			}
		}
		for _, image := range images {
			if random.IntN(20) == 0 {
				n.Images = append(n.Images, image)
			}
		}
		slices.SortFunc(n.Images, func(a, b facts.Image) int { return strings.Compare(a.Name, b.Name) })
	}
	return images
}

// requirements returns those of the class with what makes the pod differ.
func (v varied) requirements(images []facts.Image) *facts.Requirements {
	r := *v.from
	if v.size > 0 {
		r.Requests = slices.Clone(r.Requests)
		for i := range r.Requests {
			switch q := &r.Requests[i]; q.Name {
			case resource.NameCPU:
				q.Amount += int64(v.size)
			case resource.NameMemory:
				q.Amount += int64(v.size) << 20
			}
		}
		scored(&r)
	}
	if v.selector > 0 {
		r.NodeSelector = append(slices.Clone(r.NodeSelector), facts.Label{Key: fmt.Sprint(labelVariety, v.selector), Value: "yes"})
		slices.SortFunc(r.NodeSelector, func(a, b facts.Label) int { return strings.Compare(a.Key, b.Key) })
	}
	if v.images > 0 {
		r.Images = []string{images[v.images-1].Name}
	}
	return &r
}

// addDaemons adds DaemonSets: a pod for each node, which names it, as the DaemonSet controller makes them.
func (s Synthetic) addDaemons(w *Workload) {
	for d := range s.DaemonSets {
		for i, n := range w.Nodes {
			r := &facts.Requirements{
				Requests: requests(50, 64<<20), Tolerations: []facts.Toleration{{Exists: true}},
				Required: []facts.Term{{Fields: []facts.Requirement{{Key: facts.FieldName, Operator: facts.In, Values: []string{n.Name}}}}},
			}
			scored(r)
			w.Tasks = append(w.Tasks, Task{
				Name: fmt.Sprintf("daemon-%d-%06d", d, i), Requirements: r, Created: s.span() / int64(len(w.Nodes)) * int64(i),
				Deleted: Never, Priority: priorityOnline, Group: fmt.Sprint("daemon-", d),
			})
		}
	}
}

// oddities are the ways in which a pod is odd. Some can be placed, most cannot.
func oddities() []func(r *facts.Requirements, i int, node *facts.Node) {
	return []func(r *facts.Requirements, i int, node *facts.Node){
		func(r *facts.Requirements, _ int, node *facts.Node) { // a label that no two nodes share
			r.NodeSelector = []facts.Label{{Key: labelInstance, Value: node.Name}}
		},
		func(r *facts.Requirements, i int, _ *facts.Node) { // labels that no node has
			for k := range 16 {
				r.NodeSelector = append(r.NodeSelector, facts.Label{Key: fmt.Sprintf("odd.example/%d-%02d", i, k), Value: "x"})
			}
		},
		func(r *facts.Requirements, i int, _ *facts.Node) { // resources that no node has
			for k := range 100 {
				r.Requests = append(r.Requests, resource.Quantity{Name: fmt.Sprintf("odd.example/r%d-%03d", i, k), Amount: 1})
			}
		},
		func(r *facts.Requirements, i int, _ *facts.Node) { // topology keys of its own, as far as a pod may have terms
			for k := range facts.MaxPodTerms {
				r.AntiAffinity = append(r.AntiAffinity, facts.AffinityTerm{
					TopologyKey: fmt.Sprintf("odd.example/k%d-%02d", i, k), Pods: facts.PodSelector{Namespaces: []string{"default"}},
				})
			}
		},
		func(r *facts.Requirements, i int, _ *facts.Node) { // taints and images that nothing else names
			for k := range 16 {
				r.Tolerations = append(r.Tolerations, facts.Toleration{Key: fmt.Sprintf("odd.example/t%d-%02d", i, k), Exists: true})
			}
			r.Images = []string{fmt.Sprintf("odd.example/image-%d:v1", i)}
		},
		func(r *facts.Requirements, i int, node *facts.Node) { // all nodes but one, in a term for each of eight
			for k := range 8 {
				r.Preferred = append(r.Preferred, facts.WeightedTerm{Weight: int32(1 + k), Term: facts.Term{Expressions: []facts.Requirement{
					{Key: labelInstance, Operator: facts.NotIn, Values: []string{node.Name, fmt.Sprint("odd-", i)}},
				}}})
			}
		},
	}
}

// addOddPods adds pods that are odd in turn, spread over the time.
func (s Synthetic) addOddPods(w *Workload, random *rand.Rand) {
	ways := oddities()
	for i := range s.Odd {
		r := &facts.Requirements{Requests: requests(int64(1+random.IntN(500)), int64(1+random.IntN(1<<10))<<20)}
		ways[i%len(ways)](r, i, w.Nodes[random.IntN(len(w.Nodes))])
		scored(r)
		w.Tasks = append(w.Tasks, Task{
			Name: fmt.Sprintf("odd-%06d", i), Requirements: r, Created: s.span() / int64(s.Odd) * int64(i), Deleted: Never, Priority: priorityOnline, Group: "odd",
		})
	}
}
