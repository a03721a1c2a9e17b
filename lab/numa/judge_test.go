package numa

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	nodev1alpha1 "hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/topology"
)

// objects are all that the judge sees.
type objects struct {
	pods    map[types.UID]*corev1.Pod
	nodes   []corev1.Node
	reports map[string]*nodev1alpha1.CustomNodeResource
}

const reportsPath = "/apis/" + spec.NodeAPIVersion + "/" + spec.NodePlural

func (b *bed) objects() *objects {
	b.t.Helper()
	pods, err := b.client.CoreV1().Pods(namespace).List(b.t.Context(), metav1.ListOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	nodes, err := b.client.CoreV1().Nodes().List(b.t.Context(), metav1.ListOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	text, err := b.client.Discovery().RESTClient().Get().AbsPath(reportsPath).SetHeader("Accept", "application/json").DoRaw(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	var list nodev1alpha1.CustomNodeResourceList
	if err := json.Unmarshal(text, &list); err != nil {
		b.t.Fatal(err)
	}
	o := &objects{pods: make(map[types.UID]*corev1.Pod), nodes: nodes.Items, reports: make(map[string]*nodev1alpha1.CustomNodeResource)}
	for i := range pods.Items {
		o.pods[pods.Items[i].UID] = &pods.Items[i]
	}
	for i := range list.Items {
		o.reports[list.Items[i].Name] = &list.Items[i]
	}
	return o
}

// holding is what a CustomNodeResource says that a pod holds.
type holding struct {
	grant topology.NUMAGrant
	cpus  topology.CPUSet
	moved bool
}

// verdict is what the judge found.
type verdict struct {
	wrong     []string
	held      map[types.UID]holding
	elsewhere int // pods that hold other NUMA nodes than their annotation promises
	cpus      int // held
	room      int // of all NUMA nodes, that can be given
}

func (v *verdict) complain(format string, args ...any) {
	v.wrong = append(v.wrong, fmt.Sprintf(format, args...))
}

// verdict is what await wants to know.
func (v *verdict) verdict() (ok bool, why string) {
	const most = 20
	return len(v.wrong) == 0, fmt.Sprintf("%d complaints:\n%s", len(v.wrong), strings.Join(v.wrong[:min(len(v.wrong), most)], "\n"))
}

// judge holds the objects against one another. Where promises may have moved, the annotation need not be what is held. Foreign pods have no
// annotation, and may have been refused.
func (o *objects) judge(mayMove bool) *verdict {
	v := &verdict{held: make(map[types.UID]holding)}
	for i := range o.nodes {
		name := o.nodes[i].Name
		if r := o.reports[name]; r != nil {
			o.judgeReport(v, r)
		} else {
			v.complain("node %s: no CustomNodeResource", name)
		}
	}
	promised := make(map[string]*topology.NUMAGrant) // by node
	for _, uid := range slices.Sorted(maps.Keys(o.pods)) {
		o.judgePod(v, o.pods[uid], mayMove, promised)
	}
	if !mayMove {
		for node, sum := range promised { // what the annotations alone add up to
			o.judgeSum(v, node, "the annotations promise", sum)
		}
	}
	o.judgeNodes(v)
	return v
}

// numaNodes are the NUMA nodes of a report, by number.
func numaNodes(r *nodev1alpha1.CustomNodeResource) []spec.TopologyElement {
	var out []spec.TopologyElement
	for i := range r.Status.Topology {
		for _, z := range r.Status.Topology[i].Children {
			if z.Type == spec.ElementNUMANode {
				out = append(out, z)
			}
		}
	}
	slices.SortFunc(out, func(x, y spec.TopologyElement) int { return number(&x) - number(&y) })
	return out
}

func number(z *spec.TopologyElement) int {
	n, err := strconv.Atoi(z.Name)
	if err != nil {
		panic(err)
	}
	return n
}

func parseSet(v *verdict, where, text string) topology.CPUSet {
	set, err := topology.ParseCPUSet(text)
	if err != nil {
		v.complain("%s: %v", where, err)
	}
	return set
}

// judgeReport: no NUMA node gives more than it has, no CPU is given twice, whole cores, nobody beside who has a NUMA node alone; all for pods that are there.
func (o *objects) judgeReport(v *verdict, r *nodev1alpha1.CustomNodeResource) {
	for index, z := range numaNodes(r) {
		where := fmt.Sprintf("%s NUMA node %d", r.Name, index)
		mine := parseSet(v, where, z.Allocatable.CPUSet)
		if mine.Len() != z.Allocatable.CPUs || mine.Minus(parseSet(v, where, z.Capacity.CPUSet)) != (topology.CPUSet{}) {
			v.complain("%s: allocatable %v of %d CPUs, capacity %v", where, z.Allocatable.CPUSet, z.Allocatable.CPUs, z.Capacity.CPUSet)
		}
		v.room += z.Allocatable.CPUs
		var taken topology.CPUSet
		cpus, memory := 0, int64(0)
		for i := range z.Allocations {
			a := &z.Allocations[i]
			set := parseSet(v, where, a.CPUSet)
			if set.Len() != a.CPUs || a.CPUs%r.Status.ThreadsPerCore != 0 || !set.Intersection(taken).IsEmpty() || !set.Minus(mine).IsEmpty() {
				v.complain("%s: %s holds %v (%d CPUs), others %v, of %v", where, a.Name, set, a.CPUs, taken, mine)
			}
			taken = taken.Union(set)
			cpus, memory = cpus+a.CPUs, memory+a.MemoryMiB
			if a.Exclusive && (len(z.Allocations) > 1 || a.CPUs != z.Allocatable.CPUs) {
				v.complain("%s: %s has it alone, with %d of %d CPUs beside %d others", where, a.Name, a.CPUs, z.Allocatable.CPUs, len(z.Allocations)-1)
			}
			if pod := o.pods[types.UID(a.UID)]; pod == nil || pod.Spec.NodeName != r.Name || pod.Name != a.Name {
				v.complain("%s: %s (%s) holds something and is not there", where, a.Name, a.UID)
			}
			h := v.held[types.UID(a.UID)]
			h.grant.CPUs[index], h.grant.Memory[index] = uint16(a.CPUs), uint32(a.MemoryMiB)
			h.cpus, h.moved = h.cpus.Union(set), h.moved || a.Moved
			v.held[types.UID(a.UID)] = h
		}
		v.cpus += cpus
		if cpus > z.Allocatable.CPUs || memory > z.Allocatable.MemoryMiB {
			v.complain("%s: gives %d CPUs and %d MiB of %d and %d", where, cpus, memory, z.Allocatable.CPUs, z.Allocatable.MemoryMiB)
		}
	}
}

// judgePod: a pod is bound, was promised what it asks for, and its node confirms that it holds just that.
func (o *objects) judgePod(v *verdict, pod *corev1.Pod, mayMove bool, promised map[string]*topology.NUMAGrant) {
	k, foreign := kindOf(pod), pod.Spec.SchedulerName == foreignScheduler
	h, holds := v.held[pod.UID]
	text, annotated := pod.Annotations[spec.AnnotationNUMANodes]
	switch {
	case pod.DeletionTimestamp != nil:
		v.complain("pod %s is still leaving", pod.Name)
		return
	case pod.Status.Phase != corev1.PodPending: // nobody writes the status of these pods but to fail them
		v.complain("pod %s is %s: %s", pod.Name, pod.Status.Phase, pod.Status.Reason)
		return
	case pod.Spec.NodeName == "":
		v.complain("pod %s waits: %s", pod.Name, unschedulable(pod))
		return
	case foreign && annotated:
		v.complain("foreign pod %s has a promise, %s", pod.Name, text)
		return
	case foreign && !holds: // refused: nobody has promised anything
		return
	case !holds:
		v.complain("pod %s on %s (%s) is not confirmed", pod.Name, pod.Spec.NodeName, text)
		return
	case h.cpus.Len() < k.take || k.numa == spec.NUMABound && h.cpus.Len() != k.take:
		v.complain("pod %s holds %v, asks for %+v", pod.Name, h.cpus, k)
	}
	if foreign {
		return
	}
	grant, err := topology.ParseNUMAGrant(text)
	if err != nil {
		v.complain("pod %s: %v", pod.Name, err)
		return
	}
	if promised[pod.Spec.NodeName] == nil {
		promised[pod.Spec.NodeName] = &topology.NUMAGrant{}
	}
	add(promised[pod.Spec.NodeName], &grant)
	if grant != h.grant {
		v.elsewhere++
	}
	if !mayMove && (grant != h.grant || h.moved) {
		v.complain("pod %s was promised %v and holds %v (moved %v)", pod.Name, grant, h.grant, h.moved)
	}
}

func add(sum, g *topology.NUMAGrant) {
	for z := range topology.MaxNUMANodes {
		sum.CPUs[z] += g.CPUs[z]
		sum.Memory[z] += g.Memory[z]
	}
}

func (o *objects) judgeSum(v *verdict, node, what string, sum *topology.NUMAGrant) {
	r := o.reports[node]
	if r == nil {
		return
	}
	for index, z := range numaNodes(r) {
		if int(sum.CPUs[index]) > z.Allocatable.CPUs || int64(sum.Memory[index]) > z.Allocatable.MemoryMiB {
			v.complain("%s NUMA node %d: %s %d CPUs and %d MiB of %d and %d", node, index, what, sum.CPUs[index], sum.Memory[index],
				z.Allocatable.CPUs, z.Allocatable.MemoryMiB)
		}
	}
}

// judgeNodes: no node has more requested of it than it has. Who binds past the schedulers is not held to that.
func (o *objects) judgeNodes(v *verdict) {
	requested := make(map[string]int64)
	for _, pod := range o.pods {
		if pod.Spec.SchedulerName != foreignScheduler {
			requested[pod.Spec.NodeName] += int64(kindOf(pod).cpus)
		}
	}
	for i := range o.nodes {
		n := &o.nodes[i]
		if has := n.Status.Allocatable.Cpu().Value(); requested[n.Name] > has {
			v.complain("node %s: %d CPUs are requested of %d", n.Name, requested[n.Name], has)
		}
	}
}

func unschedulable(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			return c.Message
		}
	}
	return "nobody has said why"
}
