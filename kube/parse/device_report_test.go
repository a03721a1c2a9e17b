package parse

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	nodev1alpha1 "hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/topology"
)

func placed(bridge, numa, socket int) spec.DevicePlace {
	return spec.DevicePlace{Switch: &bridge, NUMA: &numa, Socket: &socket}
}

// twoGPUs is a machine with two GPUs, of which the first is shared softly and the second has instances, and a card beside each.
func twoGPUs() *spec.NodeStatus {
	s := oneNUMANode()
	second := s.Topology[0].Children[0]
	second.Name, second.Allocations = "4", nil
	s.Topology[0].Children = append(s.Topology[0].Children, second)
	s.Devices = &spec.Devices{
		Owner: spec.OwnerHilbert,
		GPUs: []spec.GPU{
			{
				Index: 0, UUID: "GPU-a", Address: "0000:3b:00.0", Model: "H100", MemoryMiB: 81920, Multiprocessors: 132, Grain: 8, LeastPart: 61, Clients: 48,
				Isolation: []string{"accounting", "soft"}, DevicePlace: placed(0, 0, 0), Links: []int{0, 4},
			},
			{
				Index: 1, UUID: "GPU-b", Address: "0000:5e:00.0", Model: "H100", MemoryMiB: 81920, Isolation: []string{"hard"}, DevicePlace: placed(1, 4, 0), Links: []int{4, 0},
				Instances: []spec.GPUInstance{{Name: "1g.10gb", Milli: 143, MemoryMiB: 9856}, {Name: "3g.40gb", Milli: 429, MemoryMiB: 40192}},
			},
		},
		NICs: []spec.NIC{
			{Index: 0, Address: "0000:3c:00.0", Name: "mlx5_0", BandwidthMbit: 100000, RDMA: true, DevicePlace: placed(0, 0, 0)},
			{Index: 1, Address: "0000:5f:00.0", Name: "mlx5_1", BandwidthMbit: 100000, Functions: 8, DevicePlace: spec.DevicePlace{}},
		},
	}
	return s
}

func TestDeviceReport(t *testing.T) {
	const none = topology.NoPlace
	want := &topology.Devices{
		Owner: topology.OwnerHilbert,
		GPU: []topology.GPU{
			{
				Address: "0000:3b:00.0", UUID: "GPU-a", Model: "H100", Memory: 81920, Grain: 8, Least: 61, Clients: 48,
				Strengths: topology.StrengthsOf(topology.Accounting, topology.Soft), Switch: 0, NUMANode: 0, Socket: 0,
			},
			{
				Address: "0000:5e:00.0", UUID: "GPU-b", Model: "H100", Memory: 81920, Strengths: topology.StrengthsOf(topology.Hard),
				Instances: []topology.Instance{{Name: "1g.10gb", Milli: 143, Memory: 9856}, {Name: "3g.40gb", Milli: 429, Memory: 40192}}, Switch: 1, NUMANode: 1,
			},
		},
		NIC: []topology.NIC{
			{Address: "0000:3c:00.0", Name: "mlx5_0", Bandwidth: 100000, RDMA: true},
			{Address: "0000:5f:00.0", Name: "mlx5_1", Bandwidth: 100000, Functions: 8, Switch: none, NUMANode: none, Socket: none},
		},
		Links: []uint8{0, 4, 4, 0},
	}
	got, err := NodeDevices(twoGPUs())
	if err != nil || !reflect.DeepEqual(got.Devices, want) || got.Notes != nil || got.Odd {
		t.Fatalf("%+v, %v; want %+v", got, err, want)
	}
	if err := got.Devices.Check(); err != nil {
		t.Error(err)
	}
	older := twoGPUs()
	older.Devices = nil
	if got, err := NodeDevices(older); err != nil || got.Devices != nil || got.Held != nil || got.Notes != nil {
		t.Errorf("an agent that says nothing of devices says %+v, %v", got, err)
	}
}

// What a device says that is not understood, or cannot be believed, closes that device, with the reason, and no other.
func TestDeviceReportCloses(t *testing.T) {
	for _, c := range []struct {
		name       string
		spoil      func(*spec.Devices)
		gpus, nics uint16 // closed
		owner      topology.Owner
		note       string
		odd        bool
	}{
		{"nothing", func(*spec.Devices) {}, 0, 0, topology.OwnerHilbert, "", false},
		{"the agent closes a GPU", func(d *spec.Devices) { d.GPUs[1].Closed = "Vanished: it is gone" }, 0b10, 0, topology.OwnerHilbert, "GPU 1: Vanished: it is gone", false},
		{"the agent closes a card", func(d *spec.Devices) { d.NICs[0].Closed = "no link" }, 0, 0b1, topology.OwnerHilbert, "network card 0: no link", false},
		{"an unknown isolation", func(d *spec.Devices) { d.GPUs[0].Isolation = []string{"soft", "quantum"} }, 0b1, 0, topology.OwnerHilbert, `GPU 0: isolation "quantum" is not known here`, true},
		{"an empty isolation", func(d *spec.Devices) { d.GPUs[0].Isolation = []string{""} }, 0b1, 0, topology.OwnerHilbert, `GPU 0: isolation "(none)"`, true},
		{"one UUID twice", func(d *spec.Devices) { d.GPUs[1].UUID = "GPU-a" }, 0b11, 0, topology.OwnerHilbert, "GPU 0 and GPU 1 have the same", true},
		{"one address twice", func(d *spec.Devices) { d.GPUs[1].Address = "0000:3b:00.0" }, 0b11, 0, topology.OwnerHilbert, "GPU 0 and GPU 1 have the same", true},
		{"one card twice", func(d *spec.Devices) { d.NICs[1].Address = "0000:3c:00.0" }, 0, 0b11, topology.OwnerHilbert, "network cards 0 and 1 have the same", true},
		{"an index that is not there", func(d *spec.Devices) {
			d.NICs[1].Index = 3
			d.GPUs[0].Links, d.GPUs[1].Links, d.GPUs[1].Index = nil, nil, 2
		}, 0b10, 0b110, topology.OwnerHilbert, "", false},
		{"the kubelet's", func(d *spec.Devices) { d.Owner, d.Reason = "kubelet", "node.status offers them" }, 0, 0, topology.OwnerKubelet, "owner kubelet: node.status offers them", false},
		{"nobody's", func(d *spec.Devices) { d.Owner, d.Reason = "none", "a DRA driver" }, 0, 0, topology.OwnerNone, "owner none: a DRA driver", false},
		{"an unknown owner's", func(d *spec.Devices) { d.Owner = "dra" }, 0, 0, topology.OwnerNone, `owner "dra" is not known here, so that no GPU is given`, true},
	} {
		s := twoGPUs()
		c.spoil(s.Devices)
		got, err := NodeDevices(s)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		d := got.Devices
		if d.ClosedGPUs != c.gpus || d.ClosedNICs != c.nics || d.Owner != c.owner || got.Odd != c.odd || !strings.HasPrefix(deviceNote(got.Notes), c.note) || (c.note == "") != (got.Notes == nil) {
			t.Errorf("%s: owner %s, closed %b and %b, %v (odd: %v); want %s, %b, %b, %s", c.name, d.Owner, d.ClosedGPUs, d.ClosedNICs, got.Notes, got.Odd, c.owner, c.gpus, c.nics, c.note)
		}
	}
}

func TestDeviceReportMalformed(t *testing.T) {
	negative, far := -1, 255
	for want, spoil := range map[string]func(*spec.Devices){
		"devices: GPU 16: want each index once":                           func(d *spec.Devices) { d.GPUs[0].Index = 16 },
		"devices: GPU 1: want each index once":                            func(d *spec.Devices) { d.GPUs[0].Index = 1 },
		"devices: GPU 0: -5 MiB of memory":                                func(d *spec.Devices) { d.GPUs[0].MemoryMiB = -5 },
		"devices: GPU 0: grain 1001":                                      func(d *spec.Devices) { d.GPUs[0].Grain = 1001 },
		"devices: GPU 0: leastPart 1001":                                  func(d *spec.Devices) { d.GPUs[0].LeastPart = 1001 },
		"devices: GPU 0: 128 clients":                                     func(d *spec.Devices) { d.GPUs[0].Clients = 128 },
		"devices: GPU 1: 9 instances":                                     func(d *spec.Devices) { d.GPUs[1].Instances = make([]spec.GPUInstance, 9) },
		"devices: GPU 1: instance 0: -1 thousandths":                      func(d *spec.Devices) { d.GPUs[1].Instances[0].Milli = -1 },
		"devices: GPU 1: instance 1: 429 thousandths and 90000 MiB of":    func(d *spec.Devices) { d.GPUs[1].Instances[1].MemoryMiB = 90000 },
		"devices: GPU 0: switch -1":                                       func(d *spec.Devices) { d.GPUs[0].Switch = &negative },
		"devices: GPU 0: socket 255":                                      func(d *spec.Devices) { d.GPUs[0].Socket = &far },
		"devices: GPU 0: NUMA node 255: the report has no such NUMA node": func(d *spec.Devices) { d.GPUs[0].NUMA = &far },
		"devices: GPU 0: 1 links: want 2":                                 func(d *spec.Devices) { d.GPUs[0].Links = []int{0} },
		"devices: GPU 1: link 256":                                        func(d *spec.Devices) { d.GPUs[1].Links = []int{256, 0} },
		"devices: network card -1: want each index once":                  func(d *spec.Devices) { d.NICs[0].Index = -1 },
		"devices: network card 1: want each index once":                   func(d *spec.Devices) { d.NICs[0].Index = 1 },
		"devices: network card 0: -1 Mbit/s":                              func(d *spec.Devices) { d.NICs[0].BandwidthMbit = -1 },
		"devices: network card 1: 100000 Mbit/s and 32768 functions":      func(d *spec.Devices) { d.NICs[1].Functions = 32768 },
		"devices: network card 1: NUMA node 255":                          func(d *spec.Devices) { d.NICs[1].NUMA = &far },
	} {
		s := twoGPUs()
		spoil(s.Devices)
		got, err := NodeDevices(s)
		if err == nil || !strings.HasPrefix(err.Error(), want) || !reflect.DeepEqual(got, ReportedDevices{}) {
			t.Errorf("%v, %+v; want %s", err, got, want)
		}
	}
}

// A machine with more NUMA nodes than can be promised from has devices that are near none.
func TestDevicesOfTooManyNUMANodes(t *testing.T) {
	s := twoGPUs()
	for i := range topology.MaxNUMANodes {
		numa := s.Topology[0].Children[0]
		numa.Name = fmt.Sprint(10 + i)
		s.Topology[0].Children = append(s.Topology[0].Children, numa)
	}
	got, err := NodeDevices(s)
	if err != nil || got.Devices.GPU[0].NUMANode != topology.NoPlace || got.Devices.GPU[0].Switch != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

func customNode(name string, s *spec.NodeStatus) *nodev1alpha1.CustomNodeResource {
	n := &nodev1alpha1.CustomNodeResource{}
	n.Name, n.Status.NodeStatus = name, *s
	return n
}

// Nodes with the same devices share a pointer, whatever these are called; what is malformed promises no device, and NUMA nodes all the same.
func TestNodeReportSharesDevices(t *testing.T) {
	p := NewParser("hilbert", nil)
	first := p.NodeReport(customNode("a", twoGPUs()))
	other := twoGPUs()
	other.Devices.GPUs[0].UUID, other.Devices.GPUs[1].Address, other.Devices.NICs[0].Address, other.Devices.NICs[0].Name = "GPU-c", "0000:9e:00.0", "0000:9f:00.0", "mlx5_7"
	if again := p.NodeReport(customNode("b", other)); again.Devices != first.Devices || first.Devices == nil || !facts.SameReport(first, again) {
		t.Errorf("the same devices are %+v and %+v", first.Devices, again.Devices)
	}
	for name, change := range map[string]func(*spec.Devices){
		"owner":      func(d *spec.Devices) { d.Owner = spec.OwnerKubelet },
		"memory":     func(d *spec.Devices) { d.GPUs[0].MemoryMiB-- },
		"model":      func(d *spec.Devices) { d.GPUs[0].Model = "A100" },
		"grain":      func(d *spec.Devices) { d.GPUs[0].Grain = 7 },
		"least part": func(d *spec.Devices) { d.GPUs[0].LeastPart = 7 },
		"clients":    func(d *spec.Devices) { d.GPUs[0].Clients = 7 },
		"isolation":  func(d *spec.Devices) { d.GPUs[0].Isolation = []string{"soft"} },
		"instance":   func(d *spec.Devices) { d.GPUs[1].Instances[0].Milli++ },
		"switch":     func(d *spec.Devices) { *d.GPUs[0].Switch = 1 },
		"numaNode":   func(d *spec.Devices) { *d.GPUs[0].NUMA = 4 },
		"socket":     func(d *spec.Devices) { *d.GPUs[0].Socket = 1 },
		"links":      func(d *spec.Devices) { d.GPUs[0].Links[1] = 5 },
		"closed":     func(d *spec.Devices) { d.GPUs[0].Closed = "x" },
		"bandwidth":  func(d *spec.Devices) { d.NICs[0].BandwidthMbit++ },
		"functions":  func(d *spec.Devices) { d.NICs[0].Functions++ },
		"RDMA":       func(d *spec.Devices) { d.NICs[1].RDMA = true },
		"card gone":  func(d *spec.Devices) { d.NICs = d.NICs[:1] },
		"namespaces": func(d *spec.Devices) { d.SeveralNamespaces = true },
	} {
		s := twoGPUs()
		change(s.Devices)
		if got := p.NodeReport(customNode("a", s)); got.Devices == first.Devices || facts.SameReport(got, first) {
			t.Errorf("%s: not told apart", name)
		}
	}
	bad := twoGPUs()
	bad.Devices.GPUs[0].Index = 99
	if r := p.NodeReport(customNode("a", bad)); r.Devices != nil || r.HeldDevices != nil || r.NUMANodes != first.NUMANodes || !strings.HasPrefix(r.DeviceNote, "malformed: devices: GPU 99") {
		t.Errorf("%+v", r)
	}
}

func TestDeviceAllocations(t *testing.T) {
	s := twoGPUs()
	s.Devices.Allocations = []spec.DeviceAllocation{
		{Namespace: "ns", Name: "whole", UID: "w", GPUs: "0", NICs: "1:25000/vf"},
		{Namespace: "ns", Name: "part", UID: "p", GPUs: "0:256/10240Mi/soft", Isolation: "soft", Moved: true},
		{Namespace: "ns", Name: "instance", UID: "i", GPUs: "1:mig-1", Isolation: "hard"},
		{Namespace: "ns", Name: "card", UID: "c", NICs: "0"},
	}
	want := []facts.HeldDevices{
		{UID: "c", Grant: topology.Grant{NICs: 0b1}},
		{UID: "i", Grant: topology.Grant{GPUs: 0b10, Milli: 429, Memory: 40192, Isolation: topology.Hard, Instance: 2}},
		{UID: "p", Grant: topology.Grant{GPUs: 0b1, Milli: 256, Memory: 10240, Isolation: topology.Soft, Tenant: topology.TenantOf("ns")}},
		{UID: "w", Grant: topology.Grant{GPUs: 0b1, Milli: 1000, NICs: 0b10, NIC: topology.NICGrant{Bandwidth: 25000, Function: true}}},
	}
	got, err := NodeDevices(s)
	if err != nil || !slices.Equal(got.Held, want) || got.Odd {
		t.Errorf("%+v, %v; want %+v", got.Held, err, want)
	}
	gone := twoGPUs()
	gone.Devices.GPUs[1].Instances[1].Gone = true
	gone.Devices.Allocations = s.Devices.Allocations[2:3]
	if got, err := NodeDevices(gone); err != nil || len(got.Held) != 1 || got.Held[0].Grant != (topology.Grant{GPUs: 0b10, Isolation: topology.Hard, Instance: 2}) {
		t.Errorf("an instance that is gone is held, and the rest is still believed: %+v, %v", got.Held, err)
	}
	newer := twoGPUs()
	newer.Devices.Allocations = []spec.DeviceAllocation{{Namespace: "ns", Name: "p", UID: "p", GPUs: "0:256/1Mi/soft", Isolation: "quantum"}}
	if got, err := NodeDevices(newer); err != nil || len(got.Held) != 1 || got.Devices.ClosedGPUs != 0b1 || !got.Odd {
		t.Errorf("held in a way that is not known: %+v, %v", got, err)
	}
	for want, a := range map[string]spec.DeviceAllocation{
		"devices: the allocation of ns/p: its UID is missing":             {GPUs: "0"},
		"devices: the allocation of ns/p: it is of nothing":               {UID: "u"},
		`devices: the allocation of ns/p: GPUs "x"`:                       {UID: "u", GPUs: "x"},
		`devices: the allocation of ns/p: network cards "0:x"`:            {UID: "u", NICs: "0:x"},
		`devices: the allocation of ns/p: GPUs "2", network cards ""`:     {UID: "u", GPUs: "2"},
		`devices: the allocation of ns/p: GPUs "", network cards "2"`:     {UID: "u", NICs: "2"},
		`devices: the allocation of ns/p: GPUs "1:mig-5": the report has`: {UID: "u", GPUs: "1:mig-5"},
	} {
		s := twoGPUs()
		a.Namespace, a.Name = "ns", "p"
		s.Devices.Allocations = []spec.DeviceAllocation{a}
		if got, err := NodeDevices(s); err == nil || !strings.HasPrefix(err.Error(), want) || got.Devices != nil {
			t.Errorf("%v, %+v; want %s", err, got, want)
		}
	}
	twice := twoGPUs()
	twice.Devices.Allocations = []spec.DeviceAllocation{{Name: "p", UID: "u", GPUs: "0"}, {Name: "q", UID: "u", GPUs: "1"}}
	if _, err := NodeDevices(twice); err == nil || !strings.Contains(err.Error(), "stands twice") {
		t.Errorf("one pod is said to hold devices twice: %v", err)
	}
}

// anyDevices draws what an agent may say, some of it wrong; half of the agents know their numbers, and who holds what.
func anyDevices(t *rapid.T) *spec.Devices {
	knows := rapid.Bool().Draw(t, "knows numbers")
	number := func(label string, right, most int) int {
		if knows {
			return rapid.IntRange(0, right).Draw(t, label)
		}
		return rapid.IntRange(-1, most).Draw(t, label)
	}
	place := func() (p spec.DevicePlace) {
		for _, to := range []**int{&p.Switch, &p.NUMA, &p.Socket} {
			if rapid.Bool().Draw(t, "placed") {
				*to = new(number("place", 0, 5))
			}
		}
		return p
	}
	name := rapid.SampledFrom([]string{"", "a", "b", "c"})
	d := &spec.Devices{Owner: rapid.SampledFrom([]string{"hilbert", "kubelet", "none", "dra"}).Draw(t, "owner")}
	for i := range rapid.IntRange(0, 3).Draw(t, "GPUs") {
		g := spec.GPU{
			Index: i, UUID: name.Draw(t, "UUID"), Address: name.Draw(t, "address"), MemoryMiB: int64(number("memory", 100, 100)), Clients: number("clients", 127, 130),
			Grain: number("grain", 1000, 1001), LeastPart: number("leastPart", 1000, 1001), DevicePlace: place(), Closed: name.Draw(t, "closed"),
			Isolation: rapid.SliceOfN(rapid.SampledFrom([]string{"accounting", "soft", "hard", "x"}), 0, 3).Draw(t, "isolation"),
		}
		if !knows && rapid.IntRange(0, 4).Draw(t, "another index") == 0 {
			g.Index = number("index", topology.MaxGPUs-1, topology.MaxGPUs)
		}
		for range rapid.IntRange(0, 3).Draw(t, "instances") {
			g.Instances = append(g.Instances, spec.GPUInstance{Milli: number("thousandths", 1000, 1001), MemoryMiB: int64(number("part", 100, 101)), Gone: rapid.Bool().Draw(t, "gone")})
		}
		if !knows {
			g.Links = rapid.SliceOfN(rapid.IntRange(-1, 256), 0, 3).Draw(t, "links")
		}
		d.GPUs = append(d.GPUs, g)
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "cards") {
		d.NICs = append(d.NICs, spec.NIC{
			Index: i * rapid.IntRange(1, 6).Draw(t, "step"), Address: name.Draw(t, "address"), BandwidthMbit: int64(number("bandwidth", 9, 9)), Functions: number("functions", 9, 9), DevicePlace: place(),
		})
	}
	if knows {
		if len(d.GPUs) > 1 && rapid.Bool().Draw(t, "held") {
			d.Allocations = []spec.DeviceAllocation{{UID: "a", GPUs: rapid.SampledFrom([]string{"0", "0,1", "1:250/10Mi"}).Draw(t, "held GPUs")}}
		}
		return d
	}
	for range rapid.IntRange(0, 2).Draw(t, "allocations") {
		d.Allocations = append(d.Allocations, spec.DeviceAllocation{
			UID: name.Draw(t, "UID"), Isolation: rapid.SampledFrom([]string{"", "soft", "x"}).Draw(t, "isolation"),
			GPUs: rapid.SampledFrom([]string{"", "0", "0,1", "1:250/10Mi", "0:500/1Mi/soft", "0:mig-1", "9", "x"}).Draw(t, "held GPUs"),
			NICs: rapid.SampledFrom([]string{"", "0", "1:5", "0:vf", "7"}).Draw(t, "held cards"),
		})
	}
	return d
}

// Whatever an agent says, it is refused, or sound: what can then be promised and what is held is of devices that are there.
func TestDeviceReportIsSound(t *testing.T) {
	taken := 0
	rapid.Check(t, func(t *rapid.T) {
		s := twoGPUs()
		s.Devices = anyDevices(t)
		got, err := NodeDevices(s)
		if err != nil {
			if got.Devices != nil || got.Held != nil {
				t.Fatalf("refused (%v), and all the same %+v", err, got)
			}
			return
		}
		taken++
		d := got.Devices
		if err := d.Check(); err != nil && !got.Odd {
			t.Fatalf("%v, and nothing odd about %+v", err, s.Devices)
		}
		if d.Owner != topology.OwnerNone && s.Devices.Owner != d.Owner.String() {
			t.Fatalf("owner %s of %q", d.Owner, s.Devices.Owner)
		}
		shape, free := topology.Shape{Devices: d}, topology.Free{}
		left := topology.NewDeviceFree(d)
		view := topology.View{Shape: &shape, Free: &free, Devices: &left}
		for i := range got.Held {
			view.Commit(&got.Held[i].Grant)
		}
		for i := range got.Held {
			view.Release(&got.Held[i].Grant)
		}
		if left != topology.NewDeviceFree(d) {
			t.Fatalf("what is held of %+v is not given back", d)
		}
	})
	if taken == 0 {
		t.Error("all was refused")
	}
}
