package report

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/allocate"
	"hilbert.dev/hilbert/topology"
	"hilbert.dev/hilbert/topology/cores"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// twoSockets has two sockets with two cores of two threads each, memory that is near no CPU, two GPUs, a NIC and a disk.
func twoSockets() *topology.Machine {
	m := &topology.Machine{}
	for id := range 8 {
		m.CPUs = append(m.CPUs, topology.CPU{ID: id, Core: id % 4, Socket: id % 4 / 2, NUMA: id % 4 / 2})
	}
	m.NUMA = []topology.NUMANode{
		{ID: 0, CPUs: topology.CPUs(0, 1, 4, 5), Memory: 8 << 30, Distances: []int{10, 20, 30}},
		{ID: 1, CPUs: topology.CPUs(2, 3, 6, 7), Memory: 8 << 30, Distances: []int{20, 10, 14}},
		{ID: 2, Memory: 64 << 30, Distances: []int{30, 14, 10}},
	}
	m.Devices = []topology.Device{
		{Address: "0000:3a:00.0", Kind: topology.DeviceBridge, NUMA: 0},
		{Address: "0000:3c:00.0", Kind: topology.DeviceGPU, Parent: "0000:3a:00.0", NUMA: 0, Vendor: "0x10de", Model: "0x2330"},
		{Address: "0000:3b:00.0", Kind: topology.DeviceGPU, Parent: "0000:3a:00.0", NUMA: 0, Vendor: "0x10de", Model: "0x2330"},
		{Address: "0000:86:00.0", Kind: topology.DeviceNIC, NUMA: 1, Names: []string{"ib0", "eth1"}, RDMA: []string{"mlx5_0"}, MaxVirtualFunctions: 16},
		{Address: "0000:86:00.1", Kind: topology.DeviceNIC, NUMA: 1, PhysicalFunction: "0000:86:00.0"},
		{Address: "0000:01:00.0", Kind: topology.DeviceDisk, NUMA: -1, Names: []string{"nvme0n1"}},
	}
	return m
}

func allocated() *allocate.Report {
	r := &allocate.Report{
		Mode: spec.ModeAgent, Reserved: topology.CPUs(0, 4),
		Shape: topology.NUMAShape{Ruler: topology.RulerAgent, NUMANodes: 3, Threads: 2, NUMANode: [topology.MaxNUMANodes]topology.NUMACapacity{
			{CPUs: 2, Memory: 8192 - 256}, {CPUs: 4, Socket: 1, Memory: 8192 - 256}, {Socket: 1, Memory: 65536 - 256},
		}},
		Pools: []allocate.Pool{
			{Name: spec.PoolSystem, CPUs: topology.CPUs(0, 4)}, {Name: spec.PoolShare, CPUs: topology.CPUs(1, 5), Pods: 7}, {Name: spec.PoolReclaimed},
		},
	}
	r.Free = topology.NewNUMAFree(&r.Shape)
	hold := func(uid, name string, h cores.Holding, moved bool) {
		r.Held = append(r.Held, allocate.Held{UID: uid, Namespace: "default", Name: name, Holding: h, Moved: moved})
		r.Free.Commit(&h.Grant)
	}
	whole := topology.NUMAGrant{}
	whole.CPUs[1], whole.Memory[1] = 4, 8192-256
	hold("u2", "db", cores.Holding{
		Request: topology.NUMARequest{CPUs: 3, Binding: topology.Exclusive, Memory: 4096}, Grant: whole, CPUs: topology.CPUs(2, 3, 6, 7),
	}, true)
	return r
}

func TestBuild(t *testing.T) {
	closed := allocated()
	closed.Closed = []allocate.Closed{{NUMANode: 0, Why: allocate.Note{Reason: spec.ReasonPromiseBroken, Message: "default/db was promised 2 CPUs of NUMA node 0"}}}
	closed.Unlabelled = []string{"a/1", "a/2", "a/3", "a/4", "a/5", "a/6", "a/7"}
	kubelet := allocated()
	kubelet.Mode, kubelet.Shape.Ruler = spec.ModeKubelet, topology.RulerKubelet
	kubelet.Held[0].Holding = cores.Holding{CPUs: topology.CPUs(1, 5)}
	ready := spec.NodeCondition{Type: spec.ConditionAgentReady, Reason: spec.ReasonAgentRunning, True: true}
	for name, r := range map[string]*allocate.Report{"agent": allocated(), "closed": closed, "kubelet": kubelet} {
		got, err := json.MarshalIndent(Build(twoSockets(), r, nil, []spec.NodeCondition{ready}), "", " ")
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, '\n')
		file := filepath.Join("testdata", name+".json")
		if *rewrite {
			if err := os.WriteFile(file, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil || string(got) != string(want) {
			t.Errorf("%s: %v; -rewrite accepts\n%s", name, err, got)
		}
	}
}

// The order of what is given does not matter, and Build keeps none of it.
func TestBuildIsDeterministic(t *testing.T) {
	conditions := []spec.NodeCondition{{Type: "B"}, {Type: "A"}, {Type: spec.ConditionNUMANodesClosed, Reason: "Mine"}}
	want := Build(twoSockets(), allocated(), nil, conditions)
	m, r := twoSockets(), allocated()
	slices.Reverse(m.Devices)
	slices.Reverse(r.Pools)
	slices.Reverse(conditions)
	got := Build(m, r, nil, conditions)
	if !reflect.DeepEqual(got, want) || Compare(want, got, spec.ReclaimedAmounts{}) != Same {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	clear(m.Devices)
	clear(r.Pools)
	clear(conditions)
	if Compare(want, got, spec.ReclaimedAmounts{}) != Same || !slices.ContainsFunc(got.Conditions, func(c spec.NodeCondition) bool { return c.Reason == "Mine" }) {
		t.Errorf("it changed with its input: %+v", got)
	}
}

// A report never has more than the definition takes: one that is refused whole would silence the node.
func TestBuildIsBounded(t *testing.T) {
	m, r := twoSockets(), allocated()
	for range 1000 {
		m.Devices = append(m.Devices, topology.Device{Address: "0000:99:00.0", Kind: topology.DeviceDisk, NUMA: 1, Names: []string{strings.Repeat("ä", 300)}})
		r.Pools = append(r.Pools, allocate.Pool{Name: "p"})
	}
	s := Build(m, r, nil, []spec.NodeCondition{{Type: "T", Message: strings.Repeat("ä", 4000)}})
	numa := s.Status.Topology[1].Children[0]
	if len(s.Status.Pools) != maxPools || len(numa.Children) != maxDevices || len(s.Conditions[0].Message) > maxMessage {
		t.Errorf("%d pools, %d devices, message of %d bytes", len(s.Status.Pools), len(numa.Children), len(s.Conditions[0].Message))
	}
	if got := numa.Children[1].Attributes["names"]; got != strings.Repeat("ä", maxAttribute/2) {
		t.Errorf("attribute %q", got)
	}
}

func TestCompare(t *testing.T) {
	base := func() *spec.NodeReport {
		r := Build(twoSockets(), allocated(), nil, nil)
		r.Status.Colocation = &spec.Colocation{
			Headroom:  spec.ReclaimedAmounts{MilliCPU: 3000, MemoryMiB: 4096},
			NUMANodes: []spec.NUMAHeadroom{{Name: "0", ReclaimedAmounts: spec.ReclaimedAmounts{MilliCPU: 3000, MemoryMiB: 4096}, CPUReason: "Use"}},
			Evictions: []spec.EvictionRequest{{Namespace: "x", Name: "a", UID: "1"}},
		}
		r.Status.BrokenPromises = []spec.BrokenPromise{{PodRef: spec.PodRef{UID: "3"}}}
		r.Status.Events = []spec.NodeEvent{{Reason: "KnobRefused", Count: 1}}
		return r
	}
	promised := spec.ReclaimedAmounts{MilliCPU: 2000, MemoryMiB: 1024}
	loan := func(change func(*spec.Colocation)) func(*spec.NodeReport) {
		return func(r *spec.NodeReport) { change(r.Status.Colocation) }
	}
	for name, c := range map[string]struct {
		change func(*spec.NodeReport)
		want   Change
	}{
		"nothing":            {func(*spec.NodeReport) {}, Same},
		"a pool":             {func(r *spec.NodeReport) { r.Status.Pools[0].CPUSet = "7" }, Minor},
		"a message":          {func(r *spec.NodeReport) { r.Conditions[0].Message = "x" }, Minor},
		"a condition":        {func(r *spec.NodeReport) { r.Conditions[0].True = !r.Conditions[0].True }, Major},
		"a reason":           {func(r *spec.NodeReport) { r.Conditions[0].Reason = "x" }, Major},
		"a new condition":    {func(r *spec.NodeReport) { r.Conditions = r.Conditions[1:] }, Major},
		"the mode":           {func(r *spec.NodeReport) { r.Status.Mode = spec.ModeKubelet }, Major},
		"a closed NUMA node": {func(r *spec.NodeReport) { r.Status.Topology[1].Children[0].Closed = true }, Major},
		"a capacity":         {func(r *spec.NodeReport) { r.Status.Topology[1].Children[0].Allocatable.CPUs-- }, Major},
		"less CPU":           {loan(func(c *spec.Colocation) { c.Headroom.MilliCPU = 1999; c.Headroom.MemoryMiB++ }), Urgent},
		"less memory":        {loan(func(c *spec.Colocation) { c.Headroom.MemoryMiB = 1023 }), Urgent},
		"a little less":      {loan(func(c *spec.Colocation) { c.Headroom.MemoryMiB = 3072 }), Minor},
		"a quarter less":     {loan(func(c *spec.Colocation) { c.Headroom.MemoryMiB = 3071 }), Major},
		"closing":            {loan(func(c *spec.Colocation) { c.Closed = "it evicted" }), Urgent},
		"no lending":         {func(r *spec.NodeReport) { r.Status.Colocation = nil }, Urgent},
		"somebody has to go": {loan(func(c *spec.Colocation) { c.Evictions = append(c.Evictions, spec.EvictionRequest{UID: "2"}) }), Urgent},
		"and fast":           {loan(func(c *spec.Colocation) { c.Evictions[0].Urgent = true }), Urgent},
		"somebody has gone":  {loan(func(c *spec.Colocation) { c.Evictions = nil }), Major},
		"more headroom":      {loan(func(c *spec.Colocation) { c.Headroom.MilliCPU++ }), Minor},
		"other NUMA nodes":   {loan(func(c *spec.Colocation) { c.NUMANodes[0].MilliCPU-- }), Minor},
		"suppression":        {loan(func(c *spec.Colocation) { c.Suppression = spec.SuppressionFloor }), Major},
		"another reason":     {loan(func(c *spec.Colocation) { c.NUMANodes[0].CPUReason, c.NUMANodes[0].Message = "Pressure", "x" }), Minor},
		"what is lent":       {loan(func(c *spec.Colocation) { c.Lent.MilliCPU = 7 }), Minor},
		"a broken promise": {func(r *spec.NodeReport) {
			r.Status.BrokenPromises = append(r.Status.BrokenPromises, spec.BrokenPromise{PodRef: spec.PodRef{UID: "4"}})
		}, Urgent},
		"its pod has gone":   {func(r *spec.NodeReport) { r.Status.BrokenPromises = nil }, Major},
		"a new event":        {func(r *spec.NodeReport) { r.Status.Events[0].Reason = "ClockJumped" }, Major},
		"an event of a pod":  {func(r *spec.NodeReport) { r.Status.Events[0].Pod = &spec.PodRef{UID: "1"} }, Major},
		"an event again":     {func(r *spec.NodeReport) { r.Status.Events[0].Count++ }, Minor},
		"an event has ended": {func(r *spec.NodeReport) { r.Status.Events = nil }, Minor},
		"an allocation":      {func(r *spec.NodeReport) { r.Status.Topology[1].Children[0].Allocations[0].CPUSet = "2-3" }, Major},
	} {
		changed := base()
		c.change(changed)
		if got := Compare(base(), changed, promised); got != c.want {
			t.Errorf("%s: change %d, want %d", name, got, c.want)
		}
	}
	idle, lends := base(), base()
	idle.Status.Colocation.Headroom.MemoryMiB = 0
	if got := Compare(idle, lends, promised); got != Major {
		t.Errorf("it begins to lend: change %d, want %d", got, Major)
	}
	if Compare(nil, base(), spec.ReclaimedAmounts{}) != Major {
		t.Error("the first report is no change")
	}
}
