package numa

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	nodev1alpha1 "hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
)

// small is a node with two NUMA nodes of four CPUs, and a pod in each: "bound" has half of NUMA node 0, "alone" has NUMA node 1 for itself.
func small() *objects {
	o := &objects{pods: make(map[types.UID]*corev1.Pod), reports: make(map[string]*nodev1alpha1.CustomNodeResource)}
	node := corev1.Node{}
	node.Name, node.Status.Allocatable = "n", corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8")}
	o.nodes = []corev1.Node{node}
	socket := spec.TopologyElement{Type: spec.ElementSocket, Name: "0"}
	for z := range 2 {
		amounts := spec.NUMAAmounts{CPUs: 4, CPUSet: fmt.Sprintf("%d-%d", 4*z, 4*z+3), MemoryMiB: 8 << 10}
		socket.Children = append(socket.Children, spec.TopologyElement{Type: spec.ElementNUMANode, Name: fmt.Sprint(z), Capacity: &amounts, Allocatable: &amounts})
	}
	r := &nodev1alpha1.CustomNodeResource{}
	r.Name, r.Status.ThreadsPerCore, r.Status.Topology = "n", 2, []spec.TopologyElement{socket}
	o.reports["n"] = r
	for _, p := range []struct {
		name, numaNodes, set string
		numa                 int
		kind                 kind
	}{{"bound", "0:2/2048Mi", "0-1", 0, kind{2, spec.NUMABound, 2}}, {"alone", "1:4/8192Mi", "4-7", 1, kind{3, spec.NUMAExclusive, 4}}} {
		pod := p.kind.pod(p.name, spec.DefaultSchedulerName)
		pod.UID, pod.Spec.NodeName, pod.Status.Phase = types.UID(p.name), "n", corev1.PodPending
		pod.Annotations[spec.AnnotationNUMANodes] = p.numaNodes
		o.pods[pod.UID] = pod
		a := spec.NUMAAllocation{Name: p.name, UID: p.name, CPUSet: p.set, CPUs: 2, MemoryMiB: 2048}
		if p.kind.numa == spec.NUMAExclusive {
			a.CPUs, a.MemoryMiB, a.Exclusive = 4, 8<<10, true
		}
		socket.Children[p.numa].Allocations = []spec.NUMAAllocation{a}
	}
	return o
}

// The judge finds what it is there to find.
func TestJudge(t *testing.T) {
	if v := small().judge(false); len(v.wrong) > 0 || v.cpus != 6 || v.room != 8 {
		t.Fatalf("%+v", v)
	}
	numa := func(o *objects, z int) *spec.TopologyElement { return &o.reports["n"].Status.Topology[0].Children[z] }
	for _, c := range []struct {
		name, want string
		mayMove    bool
		spoil      func(o *objects)
	}{
		{"not confirmed", "not confirmed", true, func(o *objects) { numa(o, 0).Allocations = nil }},
		{"not bound", "waits", true, func(o *objects) { o.pods["bound"].Spec.NodeName = "" }},
		{"failed", "is Failed", true, func(o *objects) { o.pods["bound"].Status.Phase = corev1.PodFailed }},
		{"no annotation", "NUMA", true, func(o *objects) { delete(o.pods["bound"].Annotations, spec.AnnotationNUMANodes) }},
		{"other NUMA nodes", "was promised", false, func(o *objects) { o.pods["bound"].Annotations[spec.AnnotationNUMANodes] = "1:2/2048Mi" }},
		{"moved", "was promised", false, func(o *objects) { numa(o, 0).Allocations[0].Moved = true }},
		{"promised twice", "the annotations promise", false, func(o *objects) { o.pods["bound"].Annotations[spec.AnnotationNUMANodes] = "1:2/2048Mi" }},
		{"a CPU twice", "others", true, func(o *objects) {
			numa(o, 0).Allocations = append(numa(o, 0).Allocations, numa(o, 0).Allocations[0])
		}},
		{"half a core", "holds", true, func(o *objects) { numa(o, 0).Allocations[0].CPUSet, numa(o, 0).Allocations[0].CPUs = "0", 1 }},
		{"not of the NUMA node", "holds", true, func(o *objects) { numa(o, 0).Allocations[0].CPUSet = "3-4" }},
		{"too much memory", "gives", true, func(o *objects) { numa(o, 0).Allocations[0].MemoryMiB = 9 << 10 }},
		{"not alone", "has it alone", true, func(o *objects) {
			numa(o, 1).Allocations = append(numa(o, 1).Allocations, spec.NUMAAllocation{Name: "bound", UID: "bound"})
		}},
		{"of nobody", "is not there", true, func(o *objects) { delete(o.pods, "bound") }},
		{"no report", "no CustomNodeResource", true, func(o *objects) { delete(o.reports, "n") }},
		{"too much requested", "are requested", true, func(o *objects) { o.nodes[0].Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("4") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := small()
			c.spoil(o)
			if got := strings.Join(o.judge(c.mayMove).wrong, "\n"); !strings.Contains(got, c.want) {
				t.Errorf("it says %q, want something about %q", got, c.want)
			}
		})
	}
}
