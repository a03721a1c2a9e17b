package topology

import "testing"

// bigNode is a machine as they are bought: eight GPUs and eight cards below four switches, two NUMA nodes and sockets; half of it is held.
func bigNode() (*tally, counters) {
	d := &Devices{Owner: OwnerHilbert}
	for i := range uint8(8) {
		d.GPU = append(d.GPU, GPU{
			Memory: 81920, Grain: 8, Clients: 48, Strengths: StrengthsOf(Accounting, Soft), Switch: i / 2, NUMANode: i / 4, Socket: i / 4,
		})
		d.NIC = append(d.NIC, NIC{Bandwidth: 400000, Functions: 8, RDMA: true, Switch: i / 2, NUMANode: i / 4, Socket: i / 4})
		for j := range uint8(8) {
			link := uint8(2)
			if i/4 == j/4 {
				link = 3 + (i+j)%3
			}
			d.Links = append(d.Links, link)
		}
	}
	t := &tally{shape: Shape{Devices: d}, numaNodes: NUMAShape{Ruler: RulerAgent, NUMANodes: 2, Threads: 2}}
	for z := range uint8(2) {
		t.numaNodes.NUMANode[z] = NUMACapacity{CPUs: 96, Socket: z, Memory: 1 << 20}
	}
	return t, newCounters(t)
}

// BenchmarkDevices is one pod on such a machine, with all that it may ask for.
func BenchmarkDevices(b *testing.B) {
	cpus := NUMARequest{CPUs: 16, Binding: Bound, Memory: 65536}
	near := Near{Level: SameSwitch, Required: true}
	rdma := NICRequest{Count: 1, RDMA: true, Bandwidth: 100000}
	for _, c := range []struct {
		name string
		r    Request
		z    NUMARequest
	}{
		{"slice", Request{Milli: 250, Memory: 10240, Isolation: Soft}, NUMARequest{}},
		{"slice with card and CPUs by switch", Request{Milli: 250, Memory: 10240, NIC: rdma, Near: near}, cpus},
		{"one with card and CPUs by switch", Request{Whole: 1, NIC: rdma, Near: near}, cpus},
		{"four by NUMA with CPUs", Request{Whole: 4, NIC: NICRequest{Count: 2}, Near: Near{Level: SameNUMA, Required: true}}, cpus},
		{"four best connected of six", Request{Whole: 4}, NUMARequest{}},
		{"six anywhere, with CPUs preferred", Request{Whole: 6, NIC: NICRequest{Count: 2}, Near: Near{Level: SameNUMA}}, cpus},
		{"refused", Request{Whole: 4, NIC: rdma, Near: near}, cpus},
		{"relaxed", Request{Whole: 4, NIC: rdma, Near: Near{Level: SameSwitch, Required: true, Relax: true}}, cpus},
	} {
		b.Run(c.name, func(b *testing.B) {
			t, count := bigNode()
			v := count.view(t)
			for _, r := range []Request{{Milli: 400, Isolation: Soft}, {Whole: 1, NIC: rdma}} {
				g, ok := v.Offer(&r, &NUMARequest{CPUs: 8, Binding: Bound, Memory: 4096})
				if !ok {
					b.Fatal("does not fit")
				}
				v.Commit(&g)
			}
			b.ReportAllocs()
			for b.Loop() {
				v.Offer(&c.r, &c.z)
			}
		})
	}
	b.Run("fits and commit", func(b *testing.B) {
		t, count := bigNode()
		v := count.view(t)
		r := Request{Whole: 2, NIC: rdma, Near: near}
		g, ok := v.Offer(&r, &cpus)
		b.ReportAllocs()
		for b.Loop() {
			if !ok || !v.Fits(&r, &cpus, &g) {
				b.Fatal("does not fit")
			}
			v.Commit(&g)
			v.Release(&g)
		}
	})
}
