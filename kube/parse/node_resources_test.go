package parse_test

import (
	"fmt"
	"testing"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/kube/parse"
)

func TestNodeResources(t *testing.T) {
	got, err := parse.NodeResources([]spec.NodeResource{{Name: "example.com/net", Amount: 5}, {Name: "example.com/fpga", Amount: 2}})
	if want := "[{example.com/fpga 2} {example.com/net 5}]"; err != nil || fmt.Sprint(got) != want {
		t.Errorf("%v, %v; want %s", got, err, want)
	}
	for _, bad := range [][]spec.NodeResource{
		{{Name: "cpu", Amount: 1}},
		{{Name: "kubernetes.io/x", Amount: 1}},
		{{Name: "hilbert.dev/gpu-core", Amount: 1}},
		{{Name: "node.hilbert.dev/x", Amount: 1}},
		{{Name: "nvidia.com/gpu", Amount: 1}},
		{{Name: "example.com/fpga", Amount: -1}},
		{{Name: "example.com/fpga", Amount: 1 << 41}},
		{{Name: "example.com/fpga"}, {Name: "example.com/fpga"}},
		make([]spec.NodeResource, 17),
	} {
		if got, err := parse.NodeResources(bad); err == nil || got != nil {
			t.Errorf("%v is read as %v", bad, got)
		}
	}
}

// reportOfCards is a machine of NUMA nodes 0 and 4 whose plugin brings cards.
func reportOfCards(change func(*spec.NodeResource)) *spec.NodeStatus {
	amounts := &spec.NUMAAmounts{CPUs: 4, MemoryMiB: 4096}
	node := func(name string) spec.TopologyElement {
		return spec.TopologyElement{Type: spec.ElementNUMANode, Name: name, Capacity: amounts, Allocatable: amounts}
	}
	cards := spec.NodeResource{
		Name: "example.com/fpga", Amount: 6, NUMANodes: []spec.NUMAAmount{{Name: "0", Amount: 2}, {Name: "4", Amount: 3}},
		Allocations: []spec.ResourceAllocation{
			{PodRef: spec.PodRef{UID: "b"}, NUMANodes: []spec.NUMAPart{{Name: "4", Amount: 2}}},
			{PodRef: spec.PodRef{UID: "a"}, NUMANodes: []spec.NUMAPart{{Name: "0", Amount: 1}}, Far: 1},
		},
	}
	if change != nil {
		change(&cards)
	}
	return &spec.NodeStatus{
		Mode: spec.ModeAgent, ThreadsPerCore: 1, Resources: []spec.NodeResource{{Name: "z.dev/keys", Amount: 3}, cards},
		Topology: []spec.TopologyElement{{Type: spec.ElementSocket, Name: "0", Children: []spec.TopologyElement{node("4"), node("0")}}},
	}
}

func TestResourcesByNUMANode(t *testing.T) {
	brought, held, err := parse.ResourcesByNUMANode(reportOfCards(nil))
	if want := "[{example.com/fpga 0:2,1:3,far:1}]"; err != nil || fmt.Sprint(brought) != want {
		t.Errorf("%v, %v; want %s: NUMA node 4 is the second, what the numbers leave is far, and keys are counted for the node alone", brought, err, want)
	}
	if want := "[{a example.com/fpga=0:1,far:1} {b example.com/fpga=1:2}]"; fmt.Sprint(held) != want {
		t.Errorf("held %v; want %s", held, want)
	}
	for name, change := range map[string]func(*spec.NodeResource){
		"no such NUMA node":     func(r *spec.NodeResource) { r.NUMANodes[0].Name = "1" },
		"below nothing":         func(r *spec.NodeResource) { r.NUMANodes[0].Amount = -1 },
		"a NUMA node twice":     func(r *spec.NodeResource) { r.NUMANodes[1].Name = "0" },
		"a pod twice":           func(r *spec.NodeResource) { r.Allocations[0].UID = "a" },
		"a pod without UID":     func(r *spec.NodeResource) { r.Allocations[0].UID = "" },
		"held below nothing":    func(r *spec.NodeResource) { r.Allocations[1].Far = -1 },
		"held of no NUMA node":  func(r *spec.NodeResource) { r.Allocations[0].NUMANodes[0].Name = "x" },
		"more than can be held": func(r *spec.NodeResource) { r.Allocations[0].NUMANodes[0].Amount = 1 << 41 },
	} {
		if brought, held, err := parse.ResourcesByNUMANode(reportOfCards(change)); err == nil || brought != nil || held != nil {
			t.Errorf("%s: %v %v, %v", name, brought, held, err)
		}
	}
}
