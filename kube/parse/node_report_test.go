package parse

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/node/allocate"
	"hilbert.dev/hilbert/node/report"
	"hilbert.dev/hilbert/topology"
)

// drawnNode is a machine whose NUMA nodes have numbers with gaps, and an allocator's report of it.
func drawnNode(t *rapid.T) (*topology.Machine, *allocate.Report) {
	m, r := &topology.Machine{}, &allocate.Report{Mode: spec.ModeAgent}
	numaNodes := rapid.IntRange(1, topology.MaxNUMANodes).Draw(t, "numaNodes")
	threads := rapid.IntRange(1, 2).Draw(t, "threads")
	sockets := rapid.IntRange(1, numaNodes).Draw(t, "sockets")
	r.Shape = topology.NUMAShape{Ruler: topology.RulerAgent, NUMANodes: uint8(numaNodes), Threads: uint8(threads), Closed: rapid.Uint8().Draw(t, "closed") & (1<<numaNodes - 1)}
	id, core := 0, 0
	for z := range numaNodes {
		n := topology.NUMANode{ID: 3 * z, Memory: rapid.Int64Range(1, 1<<44).Draw(t, "memory")}
		for range rapid.IntRange(1, 4).Draw(t, "cores") {
			for range threads {
				m.CPUs = append(m.CPUs, topology.CPU{ID: id, Core: core, Socket: z * sockets / numaNodes, NUMA: n.ID})
				n.CPUs.Add(id)
				id++
			}
			core++
		}
		m.NUMA = append(m.NUMA, n)
		r.Shape.NUMANode[z] = topology.NUMACapacity{
			CPUs: uint16(n.CPUs.Len()), Socket: uint8(z * sockets / numaNodes), Memory: uint32(n.Memory / topology.Mebibyte),
		}
	}
	m.Devices = []topology.Device{{Address: "0000:01:00.0", Kind: topology.DeviceGPU, NUMA: 0}, {Address: "0000:02:00.0", Kind: topology.DeviceNIC, NUMA: -1}}
	r.Free = topology.NewNUMAFree(&r.Shape)
	return m, r
}

// holdNUMANodes gives pods what OfferNUMA offers them, core by core.
func holdNUMANodes(t *rapid.T, m *topology.Machine, r *allocate.Report) {
	var taken topology.CPUSet
	for i := range rapid.IntRange(0, 6).Draw(t, "pods") {
		request := topology.NUMARequest{
			CPUs: rapid.Uint16Range(1, 6).Draw(t, "cpus"), Binding: topology.Binding(rapid.IntRange(0, 2).Draw(t, "binding")),
			Memory: rapid.Uint32Range(0, 4).Draw(t, "MiB"),
		}
		grant, ok := topology.OfferNUMA(&r.Shape, &r.Free, request)
		if !ok {
			continue
		}
		r.Free.Commit(&grant)
		h := allocate.Held{UID: fmt.Sprint("u", i), Namespace: "ns", Name: fmt.Sprint("p", i)}
		h.Request, h.Grant = request, grant
		for z := range m.NUMA {
			free := slices.Collect(m.NUMA[z].CPUs.Minus(taken).All())
			for _, id := range free[:grant.CPUs[z]] {
				h.CPUs.Add(id)
			}
		}
		taken = taken.Union(h.CPUs)
		r.Held = append(r.Held, h)
	}
}

// What the agent lays out is read back as the allocator has it, through JSON too.
func TestNodeReportRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, r := drawnNode(t)
		holdNUMANodes(t, m, r)
		data, err := json.Marshal(report.Build(m, r, nil, nil).Status)
		if err != nil {
			t.Fatal(err)
		}
		var status spec.NodeStatus
		if err := json.Unmarshal(data, &status); err != nil {
			t.Fatal(err)
		}
		shape, held, err := NodeNUMANodes(&status)
		if threads := uint8(m.Threads()); err != nil || shape.Threads != threads {
			t.Fatalf("%d threads, want %d; %v", shape.Threads, threads, err)
		}
		if shape.Threads = r.Shape.Threads; shape != r.Shape {
			t.Fatalf("got  %+v\nwant %+v", shape, r.Shape)
		}
		free := topology.NewNUMAFree(&shape)
		for i := range held {
			free.Commit(&held[i].Grant)
			if want := r.Held[i]; held[i].UID != facts.UID(want.UID) || held[i].Grant != want.Grant {
				t.Fatalf("got %+v, want %+v", held[i], want)
			}
		}
		if len(held) != len(r.Held) || free != r.Free {
			t.Fatalf("%d held of %d; free %+v, want %+v", len(held), len(r.Held), free, r.Free)
		}
	})
}

func oneNUMANode() *spec.NodeStatus {
	return &spec.NodeStatus{
		Mode: spec.ModeAgent, ThreadsPerCore: 2,
		Topology: []spec.TopologyElement{{Type: spec.ElementSocket, Name: "0", Children: []spec.TopologyElement{{
			Type: spec.ElementNUMANode, Name: "0",
			Capacity:    &spec.NUMAAmounts{CPUs: 8, CPUSet: "0-7", MemoryMiB: 1000},
			Allocatable: &spec.NUMAAmounts{CPUs: 6, MemoryMiB: 900},
			Allocations: []spec.NUMAAllocation{{Namespace: "ns", Name: "p", UID: "u", CPUSet: "2-3", CPUs: 2, MemoryMiB: 10}},
		}}}},
	}
}

// What is malformed is an error that names the NUMA node, and what is missing is never zero.
func TestNodeReportRefused(t *testing.T) {
	for want, spoil := range map[string]func(s *spec.NodeStatus, numa *spec.TopologyElement){
		`mode "": want agent or kubelet`:                    func(s *spec.NodeStatus, _ *spec.TopologyElement) { s.Mode = "" },
		"threadsPerCore 0: want 1 to 8":                     func(s *spec.NodeStatus, _ *spec.TopologyElement) { s.ThreadsPerCore = 0 },
		"threadsPerCore 9: want 1 to 8":                     func(s *spec.NodeStatus, _ *spec.TopologyElement) { s.ThreadsPerCore = 9 },
		`socket "x": the name is no number`:                 func(s *spec.NodeStatus, _ *spec.TopologyElement) { s.Topology[0].Name = "x" },
		"NUMA node 0: it stands in no socket":               func(s *spec.NodeStatus, numa *spec.TopologyElement) { s.Topology = append(s.Topology, *numa) },
		`NUMA node "-1": the name is no number`:             func(_ *spec.NodeStatus, numa *spec.TopologyElement) { numa.Name = "-1" },
		"NUMA node 0: it stands twice":                      func(s *spec.NodeStatus, _ *spec.TopologyElement) { s.Topology = append(s.Topology, s.Topology[0]) },
		"NUMA node 0: capacity or allocatable is missing":   func(_ *spec.NodeStatus, numa *spec.TopologyElement) { numa.Allocatable = nil },
		"NUMA node 0: capacity or allocatable":              func(_ *spec.NodeStatus, numa *spec.TopologyElement) { numa.Capacity = nil },
		"NUMA node 0: allocatable is more than capacity":    func(_ *spec.NodeStatus, numa *spec.TopologyElement) { numa.Allocatable.MemoryMiB = 1001 },
		"NUMA node 0: -1 CPUs: want 0 to 1024":              func(_ *spec.NodeStatus, numa *spec.TopologyElement) { numa.Allocatable.CPUs = -1 },
		"NUMA node 0: 5000000000 MiB of memory":             func(_ *spec.NodeStatus, numa *spec.TopologyElement) { numa.Capacity.MemoryMiB = 5_000_000_000 },
		`NUMA node 0: cpuset "0-3" has 4 CPUs, not 8`:       func(_ *spec.NodeStatus, numa *spec.TopologyElement) { numa.Capacity.CPUSet = "0-3" },
		"NUMA node 0: the allocation of ns/p has no UID":    func(_ *spec.NodeStatus, numa *spec.TopologyElement) { numa.Allocations[0].UID = "" },
		`NUMA node 0: the allocation of ns/p: CPU list "x"`: func(_ *spec.NodeStatus, numa *spec.TopologyElement) { numa.Allocations[0].CPUSet = "x" },
		"NUMA node 0: the allocation of ns/p: -2 CPUs":      func(_ *spec.NodeStatus, numa *spec.TopologyElement) { numa.Allocations[0].CPUs = -2 },
		"NUMA node 0: the allocation of ns/p stands twice": func(_ *spec.NodeStatus, numa *spec.TopologyElement) {
			numa.Allocations = append(numa.Allocations, numa.Allocations[0])
		},
		"NUMA node 0: the allocation of ns/p says not how much it is": func(_ *spec.NodeStatus, numa *spec.TopologyElement) {
			numa.Allocations[0] = spec.NUMAAllocation{Namespace: "ns", Name: "p", UID: "u"}
		},
	} {
		s := oneNUMANode()
		spoil(s, &s.Topology[0].Children[0])
		shape, held, err := NodeNUMANodes(s)
		if err == nil || !strings.HasPrefix(err.Error(), want) || shape != (topology.NUMAShape{}) || held != nil {
			t.Errorf("%v, %+v, %v; want %s", err, shape, held, want)
		}
	}
}

// Where the kubelet rules nobody is said to hold NUMA nodes; a machine with too many NUMA nodes has none.
func TestNodeReportPromisesNothing(t *testing.T) {
	s := oneNUMANode()
	s.Mode = spec.ModeKubelet
	shape, held, err := NodeNUMANodes(s)
	if err != nil || shape.Ruler != topology.RulerKubelet || shape.NUMANodes != 1 || len(held) > 0 {
		t.Errorf("%+v, %v, %v", shape, held, err)
	}
	s = oneNUMANode()
	for i := range topology.MaxNUMANodes {
		numa := s.Topology[0].Children[0]
		numa.Name = fmt.Sprint(i + 1)
		s.Topology[0].Children = append(s.Topology[0].Children, numa)
	}
	shape, held, err = NodeNUMANodes(s)
	if err != nil || shape != (topology.NUMAShape{Ruler: topology.RulerAgent, Threads: 2}) || held != nil {
		t.Errorf("%+v, %v, %v", shape, held, err)
	}
	if _, ok := topology.OfferNUMA(&shape, new(topology.NewNUMAFree(&shape)), topology.NUMARequest{CPUs: 1}); ok {
		t.Error("NUMA nodes are promised of a machine that has too many")
	}
}

// BenchmarkNodeReport is what a report of a machine with 8 NUMA nodes and 60 dedicated pods costs who watches: decoded, and parsed.
func BenchmarkNodeReport(b *testing.B) {
	s := oneNUMANode()
	numa := s.Topology[0].Children[0]
	s.Topology[0].Children = nil
	for z := range topology.MaxNUMANodes {
		numa.Name, numa.Allocations = fmt.Sprint(z), nil
		for p := range 60 / topology.MaxNUMANodes {
			numa.Allocations = append(numa.Allocations, spec.NUMAAllocation{
				Namespace: "production", Name: fmt.Sprint("service-6d4cf56db6-", p), UID: fmt.Sprintf("5b4d5c2e-9f1e-4c50-8a51-%06d%06d", z, p), CPUSet: "2-3", CPUs: 2, MemoryMiB: 10,
			})
		}
		s.Topology[0].Children = append(s.Topology[0].Children, numa)
	}
	data, err := json.Marshal(s)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("decode", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			var status spec.NodeStatus
			if err := json.Unmarshal(data, &status); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("parse", func(b *testing.B) {
		for b.Loop() {
			if _, _, err := NodeNUMANodes(s); err != nil {
				b.Fatal(err)
			}
		}
	})
}
