package topology

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// drawGrant draws what Offer may give of devices, and what was asked for.
func drawGrant(t *rapid.T) (g Grant, r Request) {
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 1:
		g.GPUs, g.Milli = rapid.Uint16Min(1).Draw(t, "gpus"), FullGPU
		for set := g.GPUs; set != 0; set &= set - 1 {
			r.Whole++
		}
	case 2:
		g.GPUs, g.Milli = 1<<rapid.IntRange(0, 15).Draw(t, "gpu"), int16(rapid.IntRange(1, FullGPU).Draw(t, "milli"))
		g.Memory, g.Isolation = uint32(rapid.IntRange(0, MaxAmount).Draw(t, "memory")), Isolation(rapid.IntRange(1, 2).Draw(t, "isolation"))
		r.Milli, r.Memory, r.Isolation = min(g.Milli, 999), g.Memory, Accounting
	case 3:
		g.GPUs, g.Isolation, g.Instance = 1<<rapid.IntRange(0, 15).Draw(t, "gpu"), Hard, int8(rapid.IntRange(1, MaxInstances).Draw(t, "instance"))
		r.Milli = 1
	}
	if rapid.Bool().Draw(t, "cards") {
		g.NICs = rapid.Uint16Min(1).Draw(t, "nics")
		g.NIC = NICGrant{uint32(rapid.IntRange(0, MaxAmount).Draw(t, "bandwidth")), rapid.Bool().Draw(t, "function")}
		for set := g.NICs; set != 0; set &= set - 1 {
			r.NIC.Count++
		}
		r.NIC.Bandwidth, r.NIC.Function = g.NIC.Bandwidth, g.NIC.Function
	}
	return g, r
}

// TestDeviceTextReadsBack: a grant is what its texts say, and it answers what was asked for.
func TestDeviceTextReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, r := drawGrant(t)
		back := Grant{NUMANodes: NUMAGrant{CPUs: [MaxNUMANodes]uint16{4}}}
		g.NUMANodes = back.NUMANodes
		if g.GPUs != 0 {
			if err := back.ParseGPUs(g.GPUText(), &r); err != nil {
				t.Fatalf("%q: %v", g.GPUText(), err)
			}
		}
		if g.NICs != 0 {
			if err := back.ParseNICs(g.NICText(), &r.NIC); err != nil {
				t.Fatalf("%q: %v", g.NICText(), err)
			}
		}
		if back != g || g.GPUs == 0 && g.GPUText() != "" || g.NICs == 0 && g.NICText() != "" {
			t.Fatalf("%+v reads back as %+v", g, back)
		}
	})
}

func TestDeviceTexts(t *testing.T) {
	for _, c := range []struct {
		text string
		r    *Request
		want string // or what the error has
	}{
		{"0,3", nil, "0,3"},
		{" 3 , 0", &Request{Whole: 2}, "0,3"},
		{"2:250/10240Mi", nil, "2:250/10240Mi"},
		{"2:250/10240Mi/soft", &Request{Milli: 249, Memory: 10240, Isolation: Soft}, "2:250/10240Mi/soft"},
		{"2:mig-3", &Request{Milli: 249, Isolation: Hard}, "2:mig-3"},
		{"3", &Request{Milli: 300, Memory: 7}, "3:300/7Mi"}, // as it was written before there were amounts
		{"3", &Request{Milli: 300, Isolation: Hard}, "asks for something else"},
		{"0,3", &Request{Whole: 1}, "asks for something else"},
		{"0", &Request{}, "asks for something else"},
		{"2:250/10240Mi", &Request{Milli: 250, Isolation: Soft}, "asks for something else"},
		{"2:250/10240Mi", &Request{Milli: 251}, "asks for something else"},
		{"", nil, `"": want INDEX`},
		{"16", nil, "from 0 to 15"},
		{"0,0", nil, "GPU 0 stands twice"},
		{"1:", nil, "want INDEX or INDEX:AMOUNTS"},
		{"0:100,1:100", nil, "a part of several GPUs"},
		{"0:100,1:200", nil, "amounts differ"},
		{"0:0", nil, "thousandths from 1 to 1000"},
		{"0:1001", nil, "thousandths"},
		{"0:1/5", nil, "no amount of memory"},
		{"0:1/0Mi", nil, "no amount of memory"},
		{"0:1/16777217Mi", nil, "no amount of memory"},
		{"0:mig-8", nil, "mig-0 to mig-7"},
		{"0:mig-1,1:mig-1", nil, "a part of several GPUs"},
	} {
		var g Grant
		err := g.ParseGPUs(c.text, c.r)
		if got := g.GPUText(); err == nil && got != c.want || err != nil && (!strings.Contains(err.Error(), c.want) || !g.IsZero()) {
			t.Errorf("%q: %s %v, want %s", c.text, got, err, c.want)
		}
	}
	for _, c := range []struct {
		text string
		r    *NICRequest
		want string
	}{
		{"1", &NICRequest{Count: 1}, "1"},
		{"1:25000, 2:25000", nil, "1:25000,2:25000"},
		{"1:vf", nil, "1:vf"},
		{"1:25000/vf", &NICRequest{Count: 1, Bandwidth: 25000, Function: true}, "1:25000/vf"},
		{"1:25000", &NICRequest{Count: 1}, "asks for something else"},
		{"1:0", nil, "want Mbit/s"},
		{"1:/vf", nil, "want Mbit/s"},
		{"1:fast", nil, "want Mbit/s"},
		{"1,1", nil, "stands twice"},
	} {
		var g Grant
		err := g.ParseNICs(c.text, c.r)
		if got := g.NICText(); err == nil && got != c.want || err != nil && (!strings.Contains(err.Error(), c.want) || !g.IsZero()) {
			t.Errorf("%q: %s %v, want %s", c.text, got, err, c.want)
		}
	}
}

// TestComplete: what the text of an instance does not say is in the devices.
func TestComplete(t *testing.T) {
	n, count := migNode()
	r := Request{Milli: 100, Isolation: Hard}
	offered, _ := count.view(n).Offer(&r, nil)
	var g Grant
	if err := g.ParseGPUs(offered.GPUText(), &r); err != nil || g == offered {
		t.Fatalf("%+v (%v)", g, err)
	}
	if n.devices().Complete(&g); g != offered {
		t.Errorf("%+v, want %+v", g, offered)
	}
	for _, g := range []Grant{{GPUs: 1, Instance: 4}, {GPUs: 2, Instance: 1}, {GPUs: 1 << 9, Instance: 1}, {GPUs: 1, Milli: 5}} {
		was := g
		if n.devices().Complete(&g); g != was {
			t.Errorf("%+v became %+v", was, g)
		}
	}
}

func FuzzDeviceText(f *testing.F) {
	f.Add("0,3", "1:25000/vf,2:25000/vf")
	f.Add("2:250/10240Mi/soft", "1:vf")
	f.Add("02:mig-3", " 1 , 2")
	f.Fuzz(func(t *testing.T, gpus, nics string) {
		var g, back Grant
		if g.ParseGPUs(gpus, nil) == nil {
			if err := back.ParseGPUs(g.GPUText(), nil); err != nil || g.GPUs == 0 {
				t.Fatalf("%q reads as %+v, %v", gpus, g, err)
			}
		}
		if g.ParseNICs(nics, nil) == nil {
			if err := back.ParseNICs(g.NICText(), nil); err != nil || g.NICs == 0 {
				t.Fatalf("%q reads as %+v, %v", nics, g, err)
			}
		}
		if g != back {
			t.Fatalf("%q and %q read as %+v, which reads back as %+v", gpus, nics, g, back)
		}
	})
}

// TestRefusals: what is said of a node with eight GPUs below four switches, or of one of the others.
func TestRefusals(t *testing.T) {
	numa, pcie := Near{Level: SameNUMA, Required: true}, Near{Level: SameSwitch, Required: true}
	rdma := NICRequest{Count: 1, RDMA: true, Bandwidth: 25000}
	whole := func(gpus uint16) Grant { return Grant{GPUs: gpus, Milli: FullGPU} }
	for _, c := range []struct {
		held   []Grant
		change func(*tally)
		r      Request
		z      NUMARequest
		want   string
	}{
		{nil, nil, Request{Whole: 8}, NUMARequest{}, ""},
		{nil, nil, Request{Milli: 100, Whole: 1}, NUMARequest{}, "contradictory: 1 and a part of a GPU: a pod has whole ones, or a part of one"},
		{nil, func(n *tally) { n.shape = Shape{GPUs: 8} }, Request{Whole: 1, Memory: 1}, NUMARequest{}, "its agent has said nothing of its devices"},
		{nil, func(n *tally) { n.shape = Shape{GPUs: 8} }, Request{Milli: 1}, NUMARequest{}, "its GPUs are not shared"},
		{nil, func(n *tally) { n.shape.Devices.Owner = OwnerKubelet }, Request{Milli: 1}, NUMARequest{}, "its GPUs are the kubelet's, which gives whole ones alone"},
		{nil, func(n *tally) { n.shape.Devices.Owner = OwnerNone }, Request{Whole: 1}, NUMARequest{}, "nobody we know of gives out its GPUs"},
		{nil, func(n *tally) { n.shape.Devices.Owner = OwnerKubelet }, Request{Whole: 2, Near: numa}, NUMARequest{}, "no NUMA node of this machine could hold it, even an empty one"},
		{nil, nil, Request{Whole: 9}, NUMARequest{}, "it has 8 GPUs, 9 asked for"},
		{[]Grant{whole(1)}, func(n *tally) { n.shape.Devices.ClosedGPUs = 2 }, Request{Whole: 7}, NUMARequest{}, "6 whole GPUs free, 7 asked for (1 closed)"},
		{[]Grant{whole(0b11101010)}, nil, Request{Whole: 4, Near: numa}, NUMARequest{}, "3 whole GPUs free, 4 asked for, the free ones on 2 NUMA nodes: 2 + 1"},
		{[]Grant{whole(0b1010101)}, nil, Request{Whole: 5, Near: numa}, NUMARequest{}, "4 whole GPUs free, 5 asked for, and no NUMA node of this machine could hold it, even an empty one"},
		{[]Grant{whole(0b1111101)}, nil, Request{Whole: 3, Near: Near{Level: SameNUMA}}, NUMARequest{}, "2 whole GPUs free, 3 asked for"},
		{[]Grant{whole(0b11111010)}, nil, Request{Whole: 3, Near: numa}, NUMARequest{}, "2 whole GPUs free, 3 asked for"},
		{nil, nil, Request{Milli: 1, Isolation: Hard}, NUMARequest{}, "no GPU gives hard isolation"},
		{[]Grant{{GPUs: 0xff, Milli: 700, Isolation: Accounting}}, nil, Request{Milli: 301}, NUMARequest{}, "compute 301/1000: most left on one GPU 300"},
		{[]Grant{{GPUs: 0xff, Milli: 1, Memory: 75776, Isolation: Accounting}}, nil, Request{Milli: 301, Memory: 10240}, NUMARequest{}, "memory 10 GiB: most left on one GPU 6 GiB"},
		{nil, nil, Request{Whole: 1, Memory: 90000}, NUMARequest{}, "memory 90000 MiB: most left on one GPU 80 GiB"},
		{[]Grant{{GPUs: 0xff, Milli: 1, Memory: 1, Isolation: Accounting}}, nil, Request{Milli: 1, Isolation: Soft}, NUMARequest{}, "no GPU has compute and memory left together, and slices that it can be added to: of its isolation, and soft ones of its namespace"},
		{[]Grant{{NICs: 0xff, NIC: NICGrant{Bandwidth: 390000}}}, nil, Request{Whole: 1, NIC: rdma}, NUMARequest{}, "0 network cards with RDMA and 25000 Mbit/s left, 1 asked for"},
		{nil, nil, Request{}, NUMARequest{CPUs: 200}, "no NUMA nodes have 200 exclusive CPUs and their memory left"},
		{nil, nil, Request{}, NUMARequest{CPUs: 200, Binding: BoundShared}, "no NUMA nodes have 200 CPUs and their memory left"},
		{[]Grant{whole(1)}, nil, Request{Whole: 4, Near: Near{Level: SameNUMA, Required: true}}, NUMARequest{CPUs: 4}, ""},
		{[]Grant{whole(0b10001)}, nil, Request{Whole: 4, Near: numa}, NUMARequest{}, "6 GPUs free, but on 2 NUMA nodes: 3 + 3"},
		{[]Grant{whole(0b1010101)}, nil, Request{Whole: 2, Near: pcie}, NUMARequest{}, "4 GPUs free, but on 4 PCIe switches: 1 + 1 + 1 + 1"},
		{nil, nil, Request{Whole: 5, Near: numa}, NUMARequest{}, "no NUMA node of this machine could hold it, even an empty one"},
		{nil, nil, Request{Near: numa}, NUMARequest{CPUs: 100}, "no NUMA node of this machine could hold it, even an empty one"},
		{[]Grant{whole(0b11), {NICs: 0xfc, NIC: NICGrant{Bandwidth: 390000}}}, nil, Request{Whole: 1, NIC: rdma, Near: pcie}, NUMARequest{}, "no network card with RDMA and 25000 Mbit/s left beside the free GPUs (one PCIe switch)"},
		{[]Grant{whole(0xf), {NUMANodes: NUMAGrant{CPUs: [MaxNUMANodes]uint16{1: 90}}}}, nil, Request{Whole: 1, Near: pcie}, NUMARequest{CPUs: 8}, "no 8 exclusive CPUs and their memory left in one PCIe switch with the rest"},
	} {
		n, count := bigNode()
		if c.change != nil {
			c.change(n)
			count = newCounters(n)
		}
		v := count.view(n)
		for i := range c.held {
			v.Commit(&c.held[i])
		}
		if got := v.Refusal(&c.r, &c.z).String(); got != c.want {
			t.Errorf("%+v %+v: %q, want %q", c.r, c.z, got, c.want)
		}
	}
}
