package diff

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/spec"
)

// JudgedPerCase is how many pods a generated case judges, longCase how many a rare one does.
const (
	JudgedPerCase = 20
	longCase      = 1500
)

// fewNodes is how many nodes a case has at most, wideNodes how many a rare one has.
const (
	fewNodes  = 12
	wideNodes = 100
)

// schedulerName is ours.
const schedulerName = "hilbert"

// generator draws a case. Everything comes from small pools, so that what pods ask for and what is there meet often. Each case draws how
// likely each constraint is in it: a case with all of them would find nothing feasible, and a case with few tests each of them sharply.
type generator struct {
	*rand.Rand
	taste taste
	steps []Step
	named int // numbers names and UIDs

	dense      bool // many pods that are much alike
	long       bool // so many kinds of pods that whatever remembers them must forget
	wide       bool // so many nodes that an index cannot keep a group for each host
	plain      bool // nodes that are much alike
	imageRich  bool // nodes that hold dozens of images each, and pods that run several
	nodes      []*corev1.Node
	pods       []*corev1.Pod // bound
	finished   []*corev1.Pod // that ran to their end, and still exist
	templates  []*corev1.Pod // to be judged, again and again
	namespaces []*corev1.Namespace
	workloads  []Workload
}

// taste is how likely each thing is, 0 to 1.
type taste struct {
	taint, tolerate, cordon, selector, affinity, prefer, port      float64
	request, extended, podLevel, init, spread, defaults            float64
	podAffinity, podAntiAffinity, podPrefer, image, feature, tight float64
	oddLabel, foreign, terminating, namespaced, resize             float64
}

func (t *taste) all() []*float64 {
	return []*float64{
		&t.taint, &t.tolerate, &t.cordon, &t.selector, &t.affinity, &t.prefer, &t.port, &t.request, &t.extended, &t.podLevel, &t.init, &t.spread,
		&t.defaults, &t.podAffinity, &t.podAntiAffinity, &t.podPrefer, &t.image, &t.feature, &t.tight, &t.oddLabel, &t.foreign, &t.terminating,
		&t.namespaced, &t.resize,
	}
}

// Generate draws the case with the number from the seed. Equal arguments give equal cases.
func Generate(seed, number uint64) *Case {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, number))}
	for _, p := range g.taste.all() {
		*p = pick(g, 0, 0, 0, 0, 0.05, 0.05, 0.15, 0.4, 0.7)
	}
	c := &Case{
		Profile: Profiles[0].Name,
		Seed:    g.Uint64() >> 1,
		Indexes: pick(g, 1, 2, 3, 16),
		Coarse:  pick(g, 0, 1, 2, 64),
		Lazy:    pick(g, 0, 2, 5),
	}
	if g.chance(0.25) {
		c.Profile = Profiles[g.IntN(len(Profiles))].Name
	}
	g.dense, g.long, g.wide = g.chance(0.15), g.chance(0.002), g.chance(0.015)
	g.plain, g.imageRich = g.chance(0.3), g.chance(0.1)
	g.cluster()
	for range 1 + g.IntN(4) {
		g.templates = append(g.templates, g.pod())
	}
	enough := JudgedPerCase
	if g.long {
		enough = longCase
	}
	for judged := 0; judged < enough; {
		for range g.IntN(4) {
			g.mutate()
		}
		judged += g.judge()
	}
	c.Steps = g.steps
	return c
}

func (g *generator) chance(p float64) bool { return p > 0 && g.Float64() < p }

// pick returns one of the values.
func pick[T any](g *generator, values ...T) T { return values[g.IntN(len(values))] }

func (g *generator) do(s Step) { g.steps = append(g.steps, s) }

func (g *generator) name(prefix string) string {
	g.named++
	return fmt.Sprintf("%s%d", prefix, g.named)
}

// cluster makes the initial state. Sometimes pods are seen before their nodes, as a watch may have it.
func (g *generator) cluster() {
	for i := range 1 + g.IntN(4) {
		if g.chance(0.9) { // a pod's namespace may be unknown still
			g.upsertNamespace(fmt.Sprintf("ns%d", i))
		}
	}
	nodes := g.IntN(13)
	if g.wide {
		nodes = wideNodes - g.IntN(30)
	}
	for range nodes {
		g.addNode()
	}
	for range g.IntN(4) {
		g.upsertWorkload()
	}
	if len(g.nodes) > 0 {
		for range g.population() {
			g.bind(g.pod())
		}
	}
	if g.chance(0.2) {
		g.Shuffle(len(g.steps), func(i, j int) { g.steps[i], g.steps[j] = g.steps[j], g.steps[i] })
	}
}

func (g *generator) population() int {
	switch {
	case g.wide:
		return 30 + g.IntN(100)
	case g.dense:
		return 20 + g.IntN(40)
	}
	return min(g.IntN(31), g.IntN(40))
}

// judge asks about a pod, mostly about one that was asked about before, and sometimes places it. It returns how many were judged.
func (g *generator) judge() int {
	i := g.IntN(len(g.templates))
	switch {
	case g.chance(0.15) || g.long && g.chance(0.8):
		if g.chance(0.5) || g.long {
			g.do(Step{RemovePod: string(g.templates[i].UID)})
		}
		g.templates[i] = g.pod()
	case g.chance(0.1):
		changed := *g.templates[i]
		changed.Labels = g.podLabels()
		g.templates[i] = &changed
	}
	pod := g.templates[i]
	g.do(Step{Judge: pod})
	if len(g.nodes) == 0 || !g.chance(0.3) {
		return 1
	}
	return 1 + g.place(i)
}

// place commits the template with the index to a node, and judges others meanwhile; it returns how many.
func (g *generator) place(i int) (judged int) {
	pod := g.templates[i]
	p := &Placement{Pod: string(pod.UID), Node: pick(g, g.nodes...).Name, Lag: g.chance(0.5)}
	p.Reject = p.Lag && g.chance(0.2)
	g.do(Step{Commit: p})
	if !p.Reject {
		g.templates[i] = g.twin(pod)
	}
	others := 0
	switch {
	case p.Lag:
		others = g.IntN(3)
	case g.chance(0.2):
		others = 1
	}
	for range others {
		other := pick(g, g.templates...)
		if other == pod { // it has its place
			others--
			continue
		}
		g.do(Step{Judge: other})
	}
	switch {
	case p.Reject:
		return others
	case g.chance(0.2):
		g.do(Step{Release: p.Pod})
		return others
	}
	bound := *pod
	bound.Spec.NodeName = p.Node
	g.pods = append(g.pods, &bound)
	if g.chance(0.7) {
		g.do(Step{Pod: &bound})
	}
	return others
}

// twin is another pod of the same kind.
func (g *generator) twin(pod *corev1.Pod) *corev1.Pod {
	twin := *pod
	twin.Name = g.name("pod")
	twin.UID = uid(twin.Name)
	return &twin
}

// mutations are what may happen between two judgements.
var mutations = []func(g *generator){
	(*generator).addNode, (*generator).removeNode,
	(*generator).changeNode, (*generator).changeNode, (*generator).changeNode, (*generator).changeNode,
	func(g *generator) {
		if len(g.nodes) > 0 && len(g.pods) < 80 {
			g.bind(g.pod())
		}
	},
	(*generator).removePod, (*generator).removePod,
	(*generator).changePod, (*generator).changePod, (*generator).preset, (*generator).late,
	(*generator).upsertWorkload, (*generator).removeWorkload,
	func(g *generator) { g.upsertNamespace(g.namespace()) },
	(*generator).removeNamespace,
	func(g *generator) {
		if g.chance(0.2) {
			g.do(Step{Relist: true})
		}
	},
}

func (g *generator) mutate() { pick(g, mutations...)(g) }

func (g *generator) removeNode() {
	if len(g.nodes) == 0 {
		return
	}
	i := g.IntN(len(g.nodes))
	g.do(Step{RemoveNode: g.nodes[i].Name})
	if g.chance(0.5) { // it may come back under its name, and find its pods
		g.nodes = slices.Delete(g.nodes, i, i+1)
	}
}

// join makes some bound pods members of a unit, which remembers those that have finished. Its PodGroup is not there.
func (g *generator) join(pod *corev1.Pod) {
	if g.chance(0.1) {
		labels := map[string]string{spec.LabelPodGroup: "gang"}
		maps.Copy(labels, pod.Labels)
		pod.Labels = labels
	}
}

// bind puts a pod on a node, which may be one that is not there any more.
func (g *generator) bind(pod *corev1.Pod) {
	pod.Spec.NodeName = pick(g, g.nodes...).Name
	if g.chance(g.taste.foreign) {
		pod.Spec.SchedulerName = corev1.DefaultSchedulerName
	}
	if g.chance(g.taste.terminating / 2) {
		pod.DeletionTimestamp = &deleted
	}
	g.resize(pod)
	g.join(pod)
	g.pods = append(g.pods, pod)
	g.do(Step{Pod: pod})
}

var deleted = metav1.Unix(1_700_000_000, 0)

func (g *generator) removePod() {
	if len(g.pods) == 0 {
		return
	}
	i := g.IntN(len(g.pods))
	g.do(Step{RemovePod: string(g.pods[i].UID)})
	g.pods = slices.Delete(g.pods, i, i+1)
}

// changePod changes what can change about a bound pod: its labels, and how far it is from its end.
func (g *generator) changePod() {
	if len(g.pods) == 0 {
		return
	}
	i := g.IntN(len(g.pods))
	pod := *g.pods[i]
	switch g.IntN(5) {
	case 0:
		pod.Labels = g.podLabels()
	case 1:
		pod.DeletionTimestamp = &deleted
	case 2:
		pod.Status.Phase = corev1.PodRunning
	case 3:
		g.resize(&pod)
	case 4:
		g.pods = slices.Delete(g.pods, i, i+1)
		g.finish(&pod)
		return
	}
	g.pods[i] = &pod
	g.do(Step{Pod: &pod})
}

// finish lets a pod run to its end: it holds nothing, whatever else is said of it before it is removed, if it ever is.
func (g *generator) finish(pod *corev1.Pod) {
	pod.Status.Phase = pick(g, corev1.PodSucceeded, corev1.PodFailed)
	if g.chance(g.taste.terminating) {
		pod.DeletionTimestamp = &deleted
	}
	g.finished = append(g.finished, pod)
	g.do(Step{Pod: pod})
}

// late says something of a pod that has finished: its labels, what its node had for it, or that it is removed.
func (g *generator) late() {
	if len(g.finished) == 0 {
		return
	}
	i := g.IntN(len(g.finished))
	pod := *g.finished[i]
	switch g.IntN(3) {
	case 0:
		pod.Labels = g.podLabels()
	case 1:
		g.resize(&pod)
	case 2:
		g.finished = slices.Delete(g.finished, i, i+1)
		g.do(Step{RemovePod: string(pod.UID)})
		return
	}
	g.finished[i] = &pod
	g.do(Step{Pod: &pod})
}

// preset lets a pod come with a node in its spec, as static pods and those of some controllers do: nobody asked whether it fits, and the node may never
// have been there.
func (g *generator) preset() {
	if len(g.pods) >= 80 {
		return
	}
	pod := g.pod()
	pod.Spec.NodeName = "nowhere"
	if len(g.nodes) > 0 && g.chance(0.8) {
		pod.Spec.NodeName = pick(g, g.nodes...).Name
	}
	g.join(pod)
	pod.Spec.SchedulerName = pick(g, schedulerName, corev1.DefaultSchedulerName, "")
	if g.chance(0.2) {
		g.finish(pod)
		return
	}
	g.pods = append(g.pods, pod)
	g.do(Step{Pod: pod})
}

func (g *generator) upsertNamespace(name string) {
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if g.chance(0.8) {
		n.Labels = g.labels(namespaceLabels)
		if g.chance(0.5) {
			n.Labels["kubernetes.io/metadata.name"] = name
		}
	}
	g.namespaces = slices.DeleteFunc(g.namespaces, func(other *corev1.Namespace) bool { return other.Name == name })
	g.namespaces = append(g.namespaces, n)
	g.do(Step{Namespace: n})
}

func (g *generator) removeNamespace() {
	if len(g.namespaces) > 0 && g.chance(0.3) {
		i := g.IntN(len(g.namespaces))
		g.do(Step{RemoveNamespace: g.namespaces[i].Name})
		g.namespaces = slices.Delete(g.namespaces, i, i+1)
	}
}

func (g *generator) namespace() string {
	return pick(g, "ns0", "ns0", "ns0", "ns1", "ns1", "ns2", "ns3")
}
