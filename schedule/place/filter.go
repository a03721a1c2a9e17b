package place

import (
	"math/bits"
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/topology"
)

// Filter is one hard constraint.
type Filter struct {
	Name string
	// Static filters depend on the node's properties only, not on what runs there: an index re-evaluates them only when a node changes.
	Static bool
	// Fits reports whether a pod of the class may go to the node.
	Fits func(s *cluster.State, slot cluster.Slot, c *cluster.Class) bool
	// Commits judges a decided placement, grant included, against the newest state. It is never weaker than Fits.
	Commits func(s *cluster.State, slot cluster.Slot, c *cluster.Class, grant topology.Grant) bool
	// Why adds a phrase for each thing that made Fits say no, as the condition's message counts them.
	Why func(s *cluster.State, slot cluster.Slot, c *cluster.Class, add func(phrase string))
}

// Filters is every hard constraint, in the order in which they are asked. The names are upstream's where the meaning is.
var Filters = []Filter{
	ungranted("NodeUnschedulable", true, fitsUnschedulable, whyUnschedulable),
	ungranted("TaintToleration", true, fitsTaints, whyTaints),
	ungranted("NodeAffinity", true, fitsAffinity, whyAffinity),
	ungranted("NodePorts", false, fitsPorts, whyPorts),
	ungranted("NodeResourcesFit", false, fitsResources, whyResources),
	{Name: "GPUFit", Fits: fitsGPUs, Commits: commitsGPUs, Why: whyGPUs},
}

type (
	fitFunc = func(s *cluster.State, slot cluster.Slot, c *cluster.Class) bool
	whyFunc = func(s *cluster.State, slot cluster.Slot, c *cluster.Class, add func(phrase string))
)

// ungranted makes a Filter whose commit check needs no grant: it is Fits, asked again.
func ungranted(name string, static bool, fits fitFunc, why whyFunc) Filter {
	return Filter{
		Name: name, Static: static, Fits: fits, Why: why,
		Commits: func(s *cluster.State, slot cluster.Slot, c *cluster.Class, _ topology.Grant) bool {
			return fits(s, slot, c)
		},
	}
}

// Commits is the cluster.Check of the committer: every filter's commit check against the newest state. It returns the name of the first
// filter that refuses, or the empty string.
func Commits(s *cluster.State, slot cluster.Slot, c *cluster.Class, grant topology.Grant) string {
	for i := range Filters {
		if !Filters[i].Commits(s, slot, c, grant) {
			return Filters[i].Name
		}
	}
	return ""
}

// Fits reports whether a pod of the class may go to the node, by every filter.
func Fits(s *cluster.State, slot cluster.Slot, c *cluster.Class) bool {
	return fitsStatic(s, slot, c) && fitsDynamic(s, slot, c)
}

func fitsStatic(s *cluster.State, slot cluster.Slot, c *cluster.Class) bool {
	if s.Node(slot) == nil {
		return false
	}
	for i := range Filters {
		if Filters[i].Static && !Filters[i].Fits(s, slot, c) {
			return false
		}
	}
	return true
}

func fitsDynamic(s *cluster.State, slot cluster.Slot, c *cluster.Class) bool {
	for i := range Filters {
		if !Filters[i].Static && !Filters[i].Fits(s, slot, c) {
			return false
		}
	}
	return true
}

// TaintUnschedulable is the taint that stands for spec.unschedulable when a toleration is matched against it.
const TaintUnschedulable = "node.kubernetes.io/unschedulable"

func fitsUnschedulable(s *cluster.State, slot cluster.Slot, c *cluster.Class) bool {
	taint := cluster.Taint{Key: TaintUnschedulable, Effect: cluster.NoSchedule}
	return !s.Node(slot).Unschedulable || tolerated(c.Tolerations, &taint)
}

func whyUnschedulable(_ *cluster.State, _ cluster.Slot, _ *cluster.Class, add func(string)) {
	add("node(s) were unschedulable")
}

func fitsTaints(s *cluster.State, slot cluster.Slot, c *cluster.Class) bool {
	return untolerated(s.Node(slot), c) == nil
}

func whyTaints(s *cluster.State, slot cluster.Slot, c *cluster.Class, add func(string)) {
	taint := untolerated(s.Node(slot), c)
	add("node(s) had untolerated taint {" + taint.Key + ": " + taint.Value + "}")
}

// untolerated returns the first taint that keeps the class off the node.
func untolerated(n *cluster.Node, c *cluster.Class) *cluster.Taint {
	for i := range n.Taints {
		if taint := &n.Taints[i]; taint.Effect != cluster.PreferNoSchedule && !tolerated(c.Tolerations, taint) {
			return taint
		}
	}
	return nil
}

func tolerated(tolerations []cluster.Toleration, taint *cluster.Taint) bool {
	for i := range tolerations {
		if tolerations[i].Tolerates(taint) {
			return true
		}
	}
	return false
}

func fitsAffinity(s *cluster.State, slot cluster.Slot, c *cluster.Class) bool {
	return c.Selects(s.Node(slot))
}

func whyAffinity(_ *cluster.State, _ cluster.Slot, _ *cluster.Class, add func(string)) {
	add("node(s) didn't match Pod's node affinity/selector")
}

func fitsPorts(s *cluster.State, slot cluster.Slot, c *cluster.Class) bool {
	for _, want := range c.Ports {
		if slices.ContainsFunc(s.Ports(slot), want.Conflicts) {
			return false
		}
	}
	return true
}

func whyPorts(_ *cluster.State, _ cluster.Slot, _ *cluster.Class, add func(string)) {
	add("node(s) didn't have free ports for the requested pod ports")
}

func fitsResources(s *cluster.State, slot cluster.Slot, c *cluster.Class) bool {
	for _, a := range c.Amounts {
		if a.Value > s.Free(slot, a.Kind) {
			return false
		}
	}
	return true
}

func whyResources(s *cluster.State, slot cluster.Slot, c *cluster.Class, add func(string)) {
	for _, a := range c.Amounts {
		if a.Value > s.Free(slot, a.Kind) {
			add("Insufficient " + s.KindName(a.Kind))
		}
	}
}

func fitsGPUs(s *cluster.State, slot cluster.Slot, c *cluster.Class) bool {
	if c.GPU.IsZero() {
		return true
	}
	_, ok := topology.Offer(s.Node(slot).GPU, s.GPUs(slot), c.GPU)
	return ok
}

func commitsGPUs(s *cluster.State, slot cluster.Slot, c *cluster.Class, grant topology.Grant) bool {
	want := int(c.GPU.Whole)
	milli := int16(topology.FullGPU)
	if c.GPU.Milli > 0 {
		want, milli = 1, c.GPU.Milli
	}
	if want == 0 {
		return grant.IsZero()
	}
	return bits.OnesCount16(grant.GPUs) == want && grant.Milli == milli && s.GPUs(slot).Fits(s.Node(slot).GPU, grant)
}

func whyGPUs(s *cluster.State, slot cluster.Slot, c *cluster.Class, add func(string)) {
	shape := s.Node(slot).GPU
	switch {
	case shape.GPUs == 0:
		add("node(s) had no GPU")
	case c.GPU.Milli > 0 && !shape.Shareable:
		add("node(s) didn't share their GPUs")
	case c.GPU.Total() <= s.GPUs(slot).Total(shape):
		add("node(s) had enough GPU in sum but not on whole or single GPUs")
	default:
		add("Insufficient GPU")
	}
}
