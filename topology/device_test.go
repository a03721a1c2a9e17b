package topology

import (
	"math/bits"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestDeviceChoices shows what is chosen on a machine with eight GPUs and cards below four switches (two of each), two NUMA nodes.
func TestDeviceChoices(t *testing.T) {
	near := func(l Level) Near { return Near{Level: l, Required: true} }
	slice := func(gpu uint16, milli int16, i Isolation) Grant {
		return Grant{GPUs: gpu, Milli: milli, Memory: 1024, Isolation: i}
	}
	whole := func(gpus uint16) Grant { return Grant{GPUs: gpus, Milli: FullGPU} }
	full := Grant{NUMANodes: NUMAGrant{CPUs: [MaxNUMANodes]uint16{96}}}
	for _, c := range []struct {
		name string
		held []Grant
		r    Request
		z    NUMARequest
		want string // GPUs | cards | NUMA nodes
	}{
		{"the lowest of equals", nil, Request{Milli: 250}, NUMARequest{}, "0:250/20480Mi||"},
		{"soft is rounded up to a multiprocessor", nil, Request{Milli: 250, Isolation: Soft}, NUMARequest{}, "0:256/20971Mi/soft||"},
		{"the fullest GPU that holds it", []Grant{slice(1, 500, Accounting), slice(64, 700, Accounting)}, Request{Milli: 250, Memory: 1}, NUMARequest{}, "6:250/1Mi||"},
		{"slices of one isolation", []Grant{slice(1, 500, Accounting), slice(64, 300, Soft)}, Request{Milli: 250, Memory: 1, Isolation: Soft}, NUMARequest{}, "6:256/1Mi/soft||"},
		{"and the other way round", []Grant{slice(64, 700, Soft)}, Request{Milli: 250, Memory: 1}, NUMARequest{}, "6:256/1Mi/soft||"},
		{"memory decides", []Grant{{GPUs: 1, Milli: 100, Memory: 81000, Isolation: Accounting}}, Request{Milli: 250, Memory: 1000}, NUMARequest{}, "1:250/1000Mi||"},
		{"a switch that is begun", []Grant{whole(4)}, Request{Whole: 1}, NUMARequest{}, "3||"},
		{"not a slice's GPU", []Grant{slice(4, 100, Accounting)}, Request{Whole: 1}, NUMARequest{}, "3||"},
		{"two below one switch", []Grant{whole(1)}, Request{Whole: 2}, NUMARequest{}, "2,3||"},
		{"three in one NUMA node", []Grant{whole(1)}, Request{Whole: 3}, NUMARequest{}, "1,2,3||"},
		{"with the card beside it", []Grant{whole(1), {NICs: 2, NIC: NICGrant{Bandwidth: 300000}}}, Request{Whole: 1, NIC: NICRequest{Count: 1, Bandwidth: 200000}, Near: near(SameSwitch)}, NUMARequest{}, "1|0:200000|"},
		{"where both cards are left", []Grant{{NICs: 0b11, NIC: NICGrant{Bandwidth: 300000}}}, Request{Whole: 1, NIC: NICRequest{Count: 2, Bandwidth: 200000}, Near: near(SameSwitch)}, NUMARequest{}, "2|2:200000,3:200000|"},
		{"a function of a card", nil, Request{NIC: NICRequest{Count: 1, Function: true, RDMA: true}}, NUMARequest{}, "|0:vf|"},
		{"the card that is begun", []Grant{{NICs: 4, NIC: NICGrant{Function: true}}}, Request{NIC: NICRequest{Count: 1}}, NUMARequest{}, "|2|"},
		{"cards by their GPUs' switches, in turn", nil, Request{Whole: 4, NIC: NICRequest{Count: 2}}, NUMARequest{}, "0,1,2,3|0,2|"},
		{"CPUs beside the GPU", []Grant{full}, Request{Whole: 1, Near: near(SameSwitch)}, NUMARequest{CPUs: 8}, "4||1:8"},
		{"CPUs by themselves", []Grant{full}, Request{Whole: 1}, NUMARequest{CPUs: 8}, "0||1:8"},
		{"CPUs preferred, GPUs all there", []Grant{full, whole(0xf0)}, Request{Whole: 2, Near: Near{Level: SameNUMA}}, NUMARequest{CPUs: 8}, "0,1||1:8"},
		{"and no way if required", []Grant{full, whole(0xf0)}, Request{Whole: 2, Near: near(SameNUMA)}, NUMARequest{CPUs: 8}, "none"},
		{"a NUMA node alone beside its GPUs", []Grant{{NUMANodes: NUMAGrant{CPUs: [MaxNUMANodes]uint16{2}}}}, Request{Whole: 4, Near: near(SameNUMA)}, NUMARequest{CPUs: 8, Binding: Exclusive}, "4,5,6,7||1:96/1048576Mi"},
		{"all of it", nil, Request{Whole: 8, NIC: NICRequest{Count: 8}}, NUMARequest{}, "0,1,2,3,4,5,6,7|0,1,2,3,4,5,6,7|"},
		{"restricted: larger than a NUMA node", nil, Request{Whole: 5, Near: Near{Level: SameNUMA, Required: true, Relax: true}}, NUMARequest{}, "0,1,2,3,5||"},
		{"restricted: it could be closer", []Grant{whole(0b10001)}, Request{Whole: 4, Near: Near{Level: SameNUMA, Required: true, Relax: true}}, NUMARequest{}, "none"},
		{"single-numa-node: larger", nil, Request{Whole: 5, Near: near(SameNUMA)}, NUMARequest{}, "none"},
		{"CPUs where fewer GPUs are idle", []Grant{whole(0b110000)}, Request{Near: near(SameNUMA)}, NUMARequest{CPUs: 8}, "||1:8"},
	} {
		n, count := bigNode()
		v := count.view(n)
		for i := range c.held {
			v.Commit(&c.held[i])
		}
		g, ok := v.Offer(&c.r, &c.z)
		got := g.GPUText() + "|" + g.NICText() + "|" + g.NUMANodes.String()
		if !ok {
			got = "none"
		}
		if got != c.want || ok && !v.Fits(&c.r, &c.z, &g) {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// TestClosedGPUsAreNotLeft: what is closed is nothing that a choice could keep.
func TestClosedGPUsAreNotLeft(t *testing.T) {
	n, count := bigNode()
	n.shape.Devices.ClosedGPUs = 1
	v := count.view(n)
	v.Commit(&Grant{GPUs: 0b11110100, Milli: 100, Memory: 1, Isolation: Accounting})
	if g, _ := v.Offer(&Request{Whole: 1}, nil); g.GPUText() != "1" {
		t.Errorf("GPU %s, want the one beside the closed one", g.GPUText())
	}
}

// migNode has a GPU that is cut into instances, one that is not, and one that gives nothing softly.
func migNode() (*tally, counters) {
	t := &tally{shape: Shape{Devices: &Devices{Owner: OwnerHilbert, GPU: []GPU{
		{
			Memory: 81920, Clients: 7, Strengths: StrengthsOf(Hard), Switch: NoPlace, NUMANode: NoPlace, Socket: NoPlace,
			Instances: []Instance{{"1g.20gb", 142, 19968}, {"3g.40gb", 428, 40320}, {"1g.10gb", 142, 9984}},
		},
		{Memory: 81920, Clients: 2, Strengths: StrengthsOf(Accounting, Soft), Switch: NoPlace, NUMANode: NoPlace, Socket: NoPlace},
		{Memory: 81920, Clients: 2, Strengths: StrengthsOf(Accounting), Switch: NoPlace, NUMANode: NoPlace, Socket: NoPlace},
	}}}}
	return t, newCounters(t)
}

func TestIsolation(t *testing.T) {
	for _, c := range []struct {
		name string
		held []Grant
		r    Request
		want string
	}{
		{"hard: the smallest that covers it", nil, Request{Milli: 100, Isolation: Hard}, "0:mig-2"},
		{"memory too", nil, Request{Milli: 100, Memory: 10240, Isolation: Hard}, "0:mig-0"},
		{"a free one", []Grant{{GPUs: 1, Milli: 142, Memory: 9984, Isolation: Hard, Instance: 3}}, Request{Milli: 142, Isolation: Hard}, "0:mig-0"},
		{"none so large", nil, Request{Milli: 500, Isolation: Hard}, ""},
		{"nothing asked: no instance is spent", nil, Request{Milli: 100}, "1:100/8192Mi"},
		{"unless nothing else is left", []Grant{{GPUs: 6, Milli: FullGPU}}, Request{Milli: 100}, "0:mig-2"},
		{"soft", []Grant{{GPUs: 4, Milli: 300, Isolation: Accounting}}, Request{Milli: 101, Isolation: Soft}, "1:110/9011Mi/soft"},
		{"clients", []Grant{{GPUs: 2, Milli: 1, Isolation: Soft}, {GPUs: 2, Milli: 1, Isolation: Soft}}, Request{Milli: 100}, "2:100/8192Mi"},
		{"whole: not the one that is cut", nil, Request{Whole: 2}, "1,2"},
		{"whole: all of the memory too", []Grant{{GPUs: 2, Memory: 1, Isolation: Accounting}}, Request{Whole: 1}, "2"},
		{"whole ones of which there are none", nil, Request{Whole: 3}, ""},
	} {
		n, count := migNode()
		v := count.view(n)
		for i := range c.held {
			v.Commit(&c.held[i])
		}
		if g, ok := v.Offer(&c.r, nil); g.GPUText() != c.want || ok != (c.want != "") {
			t.Errorf("%s: %s, want %s", c.name, g.GPUText(), c.want)
		}
	}
}

// TestWithoutDevices: a node of which nothing is reported is counters, as it was before there were devices.
func TestWithoutDevices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := &tally{shape: Shape{GPUs: rapid.IntRange(0, 5).Draw(t, "gpus"), Shareable: rapid.Bool().Draw(t, "share")}}
		c := newCounters(n)
		v := c.view(n)
		v.NUMANodes, v.NUMAFree, v.Devices = nil, nil, nil
		for range 12 {
			r := Request{Milli: int16(rapid.IntRange(1, 999).Draw(t, "milli"))}
			if rapid.Bool().Draw(t, "whole") {
				r = Request{Whole: int8(rapid.IntRange(1, 4).Draw(t, "count"))}
			}
			r.Near.Level = Level(rapid.IntRange(0, 3).Draw(t, "near"))
			want, fits := OfferGPUs(n.shape, &c.free, r)
			if !fits {
				want = Grant{}
			} else if r.Milli > 0 {
				want.Isolation = Accounting
			}
			g, ok := v.Offer(&r, nil)
			if ok != fits || g != want || ok && !v.Fits(&r, nil, &g) {
				t.Fatalf("%+v of %v: %+v %v, want %+v %v", r, c.free, g, ok, want, fits)
			}
			v.Commit(&g)
		}
	})
	free := NewFree(Shape{GPUs: 4})
	v := View{Shape: &Shape{GPUs: 4, Shareable: true}, Free: &free}
	for _, needs := range []Request{
		{Milli: 1, Memory: 1},
		{Milli: 1, Isolation: Soft},
		{NIC: NICRequest{Count: 1}},
		{Whole: 2, Near: Near{Level: SameSocket, Required: true}},
	} {
		if g, ok := v.Offer(&needs, nil); ok || !needs.NeedsReport() {
			t.Errorf("%+v without a report: %+v", needs, g)
		}
	}
}

// TestConnectedOfMany: of sixteen candidates the search is bounded; it still finds islands that are better connected inside.
func TestConnectedOfMany(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		d := &Devices{Owner: OwnerHilbert, GPU: make([]GPU, MaxGPUs), Links: make([]uint8, MaxGPUs*MaxGPUs)}
		island := random.Perm(MaxGPUs)
		size := 2 + random.IntN(7)
		var want uint16
		for a := range MaxGPUs {
			if island[a] < size {
				want |= 1 << a
			}
			for b := range MaxGPUs {
				d.Links[a*MaxGPUs+b] = uint8(1 + (a^b)%3)
				if island[a] < size && island[b] < size {
					d.Links[a*MaxGPUs+b] = 9
				}
			}
		}
		v := View{Shape: &Shape{Devices: d}}
		if got := v.connected(1<<MaxGPUs-1, size); got != want {
			t.Errorf("%d of 16: %016b, the island is %016b", size, got, want)
		}
		if got := v.connected(0xff, 3); bits.OnesCount16(got) != 3 || got&^0xff != 0 {
			t.Errorf("three of 0-7: %016b", got)
		}
	}
	d := &Devices{Owner: OwnerHilbert, GPU: make([]GPU, 4), Links: []uint8{0, 9, 1, 1, 9, 0, 1, 1, 1, 1, 0, 9, 1, 1, 9, 0}} // two pairs
	v := View{Shape: &Shape{Devices: d}}
	if got := v.connected(0b0111, 1); got != 0b0100 {
		t.Errorf("one of 0, 1, 2 is %b: it splits a pair", got)
	}
}

// TestForceTakesWhatThereIs: what runs already is charged, somewhere.
func TestForceTakesWhatThereIs(t *testing.T) {
	n, count := bigNode()
	v := count.view(n)
	all := Grant{GPUs: 0xff, Milli: FullGPU, NICs: 0xff, NIC: NICGrant{Bandwidth: 400000}}
	v.Commit(&all)
	r := Request{Whole: 2, NIC: NICRequest{Count: 1, Bandwidth: 5}, Near: Near{Level: SameSwitch, Required: true}}
	g := v.Force(&r, &NUMARequest{CPUs: 8})
	if g.GPUText() != "0,1" || g.NICText() != "0:5" || g.NUMANodes.String() != "0:8" || !g.Answers(&r) {
		t.Errorf("forced %+v", g)
	}
	v.Commit(&g)
	if count.free[0] != -FullGPU || count.devices.Memory[1] != -81920 || count.devices.Bandwidth[0] != -5 {
		t.Errorf("%+v", count)
	}
	slice := Request{Milli: 300, Memory: 10}
	if g := v.Force(&slice, nil); g.GPUText() != "2:300/10Mi" || !g.Answers(&slice) {
		t.Errorf("forced %+v", g)
	}
}

// TestKubeletGivesAnyGPU: which one is not ours to say, so all must serve.
func TestKubeletGivesAnyGPU(t *testing.T) {
	n := &tally{shape: Shape{Devices: &Devices{Owner: OwnerKubelet, GPU: []GPU{{Memory: 80}, {Memory: 40}, {Memory: 80}}}}}
	count := newCounters(n)
	v := count.view(n)
	for memory, want := range map[uint32]string{0: "0,1", 40: "0,1", 41: ""} {
		if g, _ := v.Offer(&Request{Whole: 2, Memory: memory}, nil); g.GPUText() != want {
			t.Errorf("%d MiB: %q, want %q", memory, g.GPUText(), want)
		}
	}
	n.shape.Devices.ClosedGPUs = 2
	if g, _ := v.Offer(&Request{Whole: 2, Memory: 41}, nil); g.GPUText() != "0,2" {
		t.Errorf("the small one closed: %q", g.GPUText())
	}
}

// TestCountedGPUs: where somebody else chooses, recorded numbers mean nothing but how many there are: two pods may have been recorded on one GPU, or one on a
// GPU that is not counted any more.
func TestCountedGPUs(t *testing.T) {
	for name, shape := range map[string]Shape{
		"a device plugin beside an agent": {Devices: &Devices{Owner: OwnerKubelet, GPU: make([]GPU, 4)}},
		"a device plugin alone":           {GPUs: 4},
	} {
		for _, c := range []struct {
			held []uint16
			left int
		}{{nil, 4}, {[]uint16{1}, 3}, {[]uint16{1, 1}, 2}, {[]uint16{1, 1, 3}, 0}, {[]uint16{1 << 4}, 3}, {[]uint16{1 << 4, 1 << 5, 1}, 1}, {[]uint16{0x7f}, 0}} {
			n := &tally{shape: shape}
			count := newCounters(n)
			v := count.view(n)
			for _, gpus := range c.held {
				v.Free.Commit(Grant{GPUs: gpus, Milli: FullGPU})
			}
			for whole := 1; whole <= 4; whole++ {
				r := Request{Whole: int8(whole)}
				g, ok := v.Offer(&r, nil)
				_, plain := OfferGPUs(shape, v.Free, r)
				if want := whole <= c.left; ok != want || ok && !v.Fits(&r, nil, &g) || shape.Devices == nil && plain != want {
					t.Errorf("%s, held %b: %d GPUs offered: %v, %v; %d are left", name, c.held, whole, ok, plain, c.left)
				}
				if all := (Grant{GPUs: 0b1111 >> (4 - whole) << (4 - whole), Milli: FullGPU}); whole > c.left && v.Fits(&r, nil, &all) {
					t.Errorf("%s, held %b: %d GPUs fit; %d are left", name, c.held, whole, c.left)
				}
			}
		}
	}
}

// TestInstancesAreNotSoldTwice even after a mistake: two who hold one instance both have to leave.
func TestInstancesAreNotSoldTwice(t *testing.T) {
	n, count := migNode()
	v := count.view(n)
	g := Grant{GPUs: 1, Milli: 142, Memory: 19968, Isolation: Hard, Instance: 1}
	v.Commit(&g)
	v.Commit(&g)
	v.Release(&g)
	if r := (Request{Milli: 1, Isolation: Hard}); v.Fits(&r, nil, &g) || !count.devices.HoldsInstance(0, 0) {
		t.Error("an instance that is held fits")
	}
	v.Release(&g)
	if count != newCounters(n) {
		t.Errorf("%+v", count)
	}
}

func TestContradictions(t *testing.T) {
	cpus := &NUMARequest{CPUs: 1}
	for _, c := range []struct {
		r    Request
		z    *NUMARequest
		want string
	}{
		{Request{}, nil, ""},
		{Request{Milli: 999, Memory: 1, Isolation: Hard, NIC: NICRequest{Count: 1, RDMA: true}, Near: Near{SameNUMA, true, true}}, nil, ""},
		{Request{Whole: 16, Memory: 1}, nil, ""},
		{Request{Near: Near{Level: SameNUMA}}, cpus, ""},
		{Request{Milli: -1}, nil, "negative"},
		{Request{Whole: -1}, nil, "negative"},
		{Request{Milli: 500, Whole: 1}, nil, "1 and a part of a GPU"},
		{Request{Milli: 1000}, nil, "less than a whole one"},
		{Request{Whole: 17}, nil, "at most 16"},
		{Request{Milli: 1, Isolation: 9}, nil, "isolation that does not exist"},
		{Request{Milli: 1, Near: Near{Level: 9}}, nil, "level of nearness that does not exist"},
		{Request{Memory: 5}, nil, "memory of a GPU without a GPU"},
		{Request{Whole: 1, Isolation: Hard}, nil, "hard isolation without a part"},
		{Request{NIC: NICRequest{RDMA: true}}, nil, "without a card"},
		{Request{Whole: 1, NIC: NICRequest{Bandwidth: 1}}, nil, "without a card"},
		{Request{NIC: NICRequest{Count: 17}}, nil, "at most 16"},
		{Request{Whole: 1, Near: Near{Required: true}}, nil, "no level of it"},
		{Request{Whole: 1, Near: Near{Level: SameNUMA, Relax: true}}, nil, "relaxed that is not required"},
		{Request{Near: Near{Level: SameNUMA}}, &NUMARequest{}, "nearness of nothing"},
	} {
		got := c.r.Contradiction(c.z)
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%+v: %q, want %q", c.r, got, c.want)
		}
		n, count := bigNode()
		v := count.view(n)
		if _, ok := v.Offer(&c.r, c.z); ok && got != "" {
			t.Errorf("%+v is offered something", c.r)
		}
	}
}

func TestDeviceWords(t *testing.T) {
	for o, want := range map[Owner]string{OwnerNone: "none", OwnerHilbert: "hilbert", OwnerKubelet: "kubelet"} {
		if back, ok := ParseOwner(want); o.String() != want || back != o || !ok {
			t.Errorf("%d is %q", o, o)
		}
	}
	for i, want := range map[Isolation]string{IsolationAny: "", Accounting: "accounting", Soft: "soft", Hard: "hard"} {
		if back, ok := ParseIsolation(want); i.String() != want || back != i || !ok {
			t.Errorf("%d is %q", i, i)
		}
	}
	for l, want := range map[Level]string{Anywhere: "", SameSocket: "socket", SameNUMA: "numa", SameSwitch: "switch"} {
		if back, ok := ParseLevel(want); l.String() != want || back != l || !ok {
			t.Errorf("%d is %q", l, l)
		}
	}
	for n, want := range map[Near]string{
		{}: "anywhere", {Level: SameSocket}: "socket, preferred", {SameNUMA, true, false}: "numa, required", {SameNUMA, true, true}: "numa, required where it can be",
	} {
		if n.String() != want {
			t.Errorf("%+v is %q", n, n)
		}
	}
	_, owner := ParseOwner("me")
	_, isolation := ParseIsolation("firm")
	_, level := ParseLevel("rack")
	if owner || isolation || level {
		t.Error("a word that is none is read")
	}
}

func TestDevicesCheck(t *testing.T) {
	for want, d := range map[string]Devices{
		"17 GPUs":               {GPU: make([]GPU, 17)},
		"17 network cards":      {NIC: make([]NIC, 17)},
		"3 links for 2":         {GPU: make([]GPU, 2), Links: make([]uint8, 3)},
		"that is not there":     {GPU: make([]GPU, 2), ClosedGPUs: 4},
		`UUID "u" stands twice`: {GPU: []GPU{{UUID: "u"}, {UUID: "u"}}},
		`"a" stands twice`:      {GPU: []GPU{{Address: "a"}}, NIC: []NIC{{Address: "a"}}},
		"9 instances":           {GPU: []GPU{{Instances: make([]Instance, 9)}}},
		"MiB; at most":          {GPU: []GPU{{Memory: MaxAmount + 1}}},
		"Mbit/s; at most":       {NIC: []NIC{{Bandwidth: MaxAmount + 1}}},
	} {
		if err := d.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	n, _ := bigNode()
	if err := n.devices().Check(); err != nil {
		t.Error(err)
	}
}
