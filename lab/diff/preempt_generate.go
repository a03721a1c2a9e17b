package diff

import (
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// contendedEvery: one in so many histories is about preemption too.
const contendedEvery = 8

// draw is Generate, with contention in some of the histories.
func draw(seed, number uint64) *Case {
	c := Generate(seed, number)
	if number%contendedEvery == contendedEvery-1 {
		contend(c, seed, number)
	}
	return c
}

// contend turns a history into one in which pods evict others: pods get priorities and start times, nodes become small, and disruption
// budgets come and go.
func contend(c *Case, seed, number uint64) {
	d := &contender{
		generator: &generator{Rand: rand.New(rand.NewPCG(seed, ^number))},
		priority:  make(map[types.UID]*int32), started: make(map[types.UID]*metav1.Time), copies: make(map[*corev1.Pod]*corev1.Pod),
	}
	d.small, d.budgets, d.idle = pick(d.generator, 0, 0.3, 0.8), pick(d.generator, 0, 0.03, 0.1, 0.3), pick(d.generator, 0, 0.02, 0.2)
	d.open = pick(d.generator, 0, 0.7, 0.95, 1)
	c.Preempts = pick(d.generator, 1, 2, 8)
	steps := make([]Step, 0, len(c.Steps))
	for _, s := range c.Steps {
		switch {
		case s.Node != nil:
			s.Node = d.node(s.Node)
		case s.Pod != nil:
			s.Pod = d.pod(s.Pod, true)
		case s.Judge != nil:
			s.Judge = d.pod(s.Judge, false)
		}
		steps = append(steps, s)
		for d.chance(d.budgets) {
			steps = append(steps, d.budget())
		}
	}
	c.Steps = steps
}

// contender draws contention.
type contender struct {
	*generator
	// How likely a node is small, a step is followed by a budget's, a bound pod has not started, and an object has no constraint that no
	// victim could help.
	small, budgets, idle, open float64

	clock    int64
	priority map[types.UID]*int32
	started  map[types.UID]*metav1.Time
	copies   map[*corev1.Pod]*corev1.Pod
	names    []string // of pods
}

// node takes most of what it has from a node, and lets more pods on it.
func (d *contender) node(node *corev1.Node) *corev1.Node {
	node = node.DeepCopy()
	if d.chance(d.open) {
		node.Spec.Taints, node.Spec.Unschedulable = nil, false
	}
	if !d.chance(d.small) {
		return node
	}
	if d.chance(0.5) {
		node.Status.Allocatable[corev1.ResourcePods] = pick(d.generator, q("1"), q("2"), q("3"), q("5"))
	}
	if d.chance(0.5) {
		node.Status.Allocatable[corev1.ResourceCPU] = pick(d.generator, q("500m"), q("1"), q("2"), q("4"))
	}
	if d.chance(0.5) {
		node.Status.Allocatable[corev1.ResourceMemory] = pick(d.generator, q("256Mi"), q("1Gi"), q("2Gi"))
	}
	return node
}

// pod says how important a pod is. One that is judged is more so, mostly, and the same one stays the same.
func (d *contender) pod(pod *corev1.Pod, bound bool) *corev1.Pod {
	if known := d.copies[pod]; known != nil {
		return known
	}
	out := *pod
	d.copies[pod] = &out
	d.names = append(d.names, pod.Name)
	rank, ok := d.priority[pod.UID]
	if !ok {
		rank = new(pick[int32](d.generator, -2_000_000_000, -5, 0, 0, 10, 10, 10, 100, 1_000_000_000, 2_000_001_000))
		if !bound && d.chance(0.8) {
			rank = new(pick[int32](d.generator, 10, 100, 100, 2_000_000_000, 2_000_001_000))
		}
		if *rank == 0 && d.chance(0.5) {
			rank = nil
		}
		d.priority[pod.UID] = rank
	}
	out.Spec.Priority = rank
	if !bound && d.chance(d.open) {
		d.opened(&out)
	}
	switch {
	case !bound:
		if d.chance(0.05) {
			never := corev1.PreemptNever
			out.Spec.PreemptionPolicy = &never
		}
	case d.started[pod.UID] == nil || d.chance(0.1):
		d.started[pod.UID] = d.start()
		fallthrough
	default:
		out.Status.StartTime = d.started[pod.UID]
	}
	return &out
}

// opened takes away what the pod demands of a node's properties.
func (d *contender) opened(pod *corev1.Pod) {
	pod.Spec.NodeSelector = nil
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		a = a.DeepCopy()
		a.NodeAffinity = nil
		pod.Spec.Affinity = a
	}
}

// start draws when a pod has started. Two at once are rare: nobody says which of them is more important.
func (d *contender) start() *metav1.Time {
	if d.chance(d.idle) {
		return nil
	}
	d.clock++
	at := 1_700_000_000 + d.clock*7919%100_003
	if d.chance(0.02) {
		at = 1_700_000_000
	}
	return new(metav1.Unix(at, 0))
}

// budget draws a disruption budget, or the end of one.
func (d *contender) budget() Step {
	name := pick(d.generator, "a", "b", "c")
	if d.chance(0.2) {
		return Step{RemoveBudget: d.namespace() + "/" + name}
	}
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: d.namespace(), Name: name}}
	b.Spec.Selector = d.labelSelector(podLabels)
	if d.chance(0.5) { // many pods, so that two budgets meet
		p := podLabels[0]
		b.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: p.key, Operator: metav1.LabelSelectorOpExists}}}
	}
	b.Status.DisruptionsAllowed = pick[int32](d.generator, 0, 0, 0, 1, 1, 2, 5)
	for len(d.names) > 0 && d.chance(0.3) {
		if b.Status.DisruptedPods == nil {
			b.Status.DisruptedPods = make(map[string]metav1.Time)
		}
		b.Status.DisruptedPods[d.names[d.IntN(len(d.names))]] = deleted
	}
	return Step{Budget: b}
}
